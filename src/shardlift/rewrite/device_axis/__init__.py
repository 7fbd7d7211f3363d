"""`migrate --to global`: removes pmap's device axis from the arrays that can do without it.

A class of values loses the axis only if every place that makes its values and every place that
uses them is understood. All other values stay stacked, as with `--to shard_map`.

Values are `cells`; `visitor` follows them through all files, and `connections` through the calls of
pmapped functions; it also notes what others may see. `solve` gives each class its layout, or the
reason (`reasons`) why it keeps its axis; `rewrites` makes the edits.
"""
