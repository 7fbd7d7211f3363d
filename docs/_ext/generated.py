"""Writes, before each build, the pages that are made of the program: rules and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command_pages
import rule_pages


def write(folder: Path) -> None:
    """All generated pages, in folders of their own; files that say it already are left alone."""
    pages = {"rules": rule_pages.pages(), "commands": command_pages.pages()}
    for name, texts in pages.items():
        (folder / name).mkdir(exist_ok=True)
        for old in set((folder / name).glob("*.md")) - {folder / name / file for file in texts}:
            old.unlink()
        for file, text in texts.items():
            path = folder / name / file
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    return {"parallel_read_safe": True}
