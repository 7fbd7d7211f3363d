"""How the pages become a site: ``sphinx-build -W -n docs docs/_build/html``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from shardlift import __version__

project = "shardlift"
author = "The shardlift authors"
copyright = "the shardlift authors, Apache-2.0"  # noqa: A001 (Sphinx's name)
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "generated",  # docs/_ext/generated.py
]
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = "shardlift"
html_static_path = ["_static"]
html_css_files = ["shardlift.css"]
html_js_files = ["copy.js"]
html_theme_options = {"source_edit_link": "", "navigation_with_keys": True}
html_copy_source = False
smartquotes = False  # they make a dash of --option

# A link to a heading is checked like any other.
myst_heading_anchors = 3
# In docstrings, `a name` is code.
default_role = "code"
autodoc_typehints = "none"  # they are in the signature
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# JAX, NumPy and Python have sites of their own, which a build without a network cannot ask.
nitpick_ignore_regex = [
    ("py:.*", r"(jax|jaxlib|numpy|np|collections|typing|types|contextlib|optional)\b.*"),
]
