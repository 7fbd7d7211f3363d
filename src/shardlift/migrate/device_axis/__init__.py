"""`migrate --to global`: which arrays can do without pmap's device axis, and the text without it.

`cells`       values that must have one layout: classes of them, and what is known of each
`idioms`      how pmap code makes stacked arrays, and how it reads them
`sites`       the pmaps that can take arrays of another layout, and what a run proved of them
`reaching`    which bindings of a name reach a place
`expressions` and `statements`: the program as a flow of values from cell to cell
`program`     all files together: functions, attributes, imports, and who else sees a value
`reduced`     outputs that the text alone proves to be the same on all devices
`solve`       a layout for each class: whole, global, or stacked as it was
`spelling` and `rewrites`: the edits that follow
`strict`      gradients under check_vma

A class changes its layout only if every place that makes its values and every place that uses
them is understood. Whatever is not understood keeps its values stacked, as `--to shard_map` does.
"""
