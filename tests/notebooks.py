"""Notebooks of given cells."""

import json

CODE = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}


def notebook(*cells: str, above: str | None = None) -> str:
    """A notebook with these code cells, below a cell of text if there is one."""
    listed = [{"cell_type": "markdown", "metadata": {}, "source": above}] if above else []
    listed += [{**CODE, "source": text} for text in cells]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def sources(text: str) -> list[str]:
    """The texts of the cells of a notebook."""
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
