"""`migrate --to global`: removes pmap's device axis from the arrays that can do without it.

A class of values loses the axis only if every place that makes its values and every place that
uses them is understood. All other values stay stacked, as with `--to shard_map`.

cells           values, in classes that must have one layout, and what is known of each class
global_sites    the pmaps of a program, and what a recorded run proved of them
stacked_arrays  how pmap code makes stacked arrays, and how it reads them
followed_program  names, functions and classes of all files, each with its cell
visitor         one visitor over the syntax trees; its functions are in `visit_nodes` and
                `visit_calls`
dynamic         names that are reached without being written: `globals()`, `importlib`, `import *`
outside_access  what code outside of the program, or not understood, may see
connections     calls and the pmapped functions that they call
keyword_calls   calls with keyword arguments become calls by position
solve           the layout of each class: whole, global or stacked
reasons         why an axis is kept, and what to change by hand
array_text      the new text of each place; `rewrites`: the edits of all files
shard_map_text  the text of a site, its specs and its comments; `mesh`: its mesh; `wrapper`: the
                lambda around its function
process_arrays  global arrays of many processes, each of which has a part
"""
