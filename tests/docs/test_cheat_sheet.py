"""Every row of the cheat sheet computes the same numbers with pmap, with shard_map and with jit."""

import re
from typing import Any

import jax
import numpy as np

from tests.docs.pages import DOCS, blocks_of

PAGE = DOCS / "cheat_sheet.md"


def _rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[1:]]


def test_every_row_is_the_same_program_three_times() -> None:
    (setup, *_) = blocks_of(PAGE)
    columns: list[dict[str, Any]] = [{}, {}, {}]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for names in columns:
            exec(setup.text, names)
        assert 10 < len(_rows()) < 20  # it fits on one screen
        for what, *cells in _rows():
            values = [_value(cell, names) for cell, names in zip(cells, columns, strict=True)]
            for value in values[1:]:
                if value is not None:
                    # Rows of devices in one axis, or one copy instead of one per device.
                    rows = np.tile(value.ravel(), values[0].size // value.size)
                    np.testing.assert_allclose(values[0].ravel(), rows, rtol=1e-5, err_msg=what)


def _value(cell: str, names: dict[str, Any]) -> Any:
    """What the code of a cell computes, or assigns; None for a cell of words."""
    code = re.match(r"`(?:(\w+) = )?(.*)`", cell)
    if code is None:
        return None
    value = eval(code[2], names)
    if code[1]:
        names[code[1]] = value
    return np.asarray(value)
