"""The report as one HTML page: what a terminal shows, without script and without network."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from shardlift.report import terminal
from shardlift.report.view import View

_WIDTH = 120
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>shardlift report</title>
</head>
<body>
<pre style="font-family: ui-monospace, Menlo, Consolas, monospace">{code}</pre>
</body>
</html>
"""


def page(view: View) -> str:
    """The report of a capture; every string in it is escaped."""
    console = Console(record=True, file=io.StringIO(), width=_WIDTH, highlight=False)
    terminal.show(replace(view, path=""), console)  # the next command is for the terminal
    return console.export_html(code_format=_PAGE, inline_styles=True)
