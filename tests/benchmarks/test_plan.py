"""`shardlift plan` against XLA's own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.plan import compare, error_of, sent_bytes


def test_bytes_of_a_program():
    program = """
      %all-reduce.1 = (f32[64,32]{1,0}, f32[]) all-reduce(%a, %b), replica_groups={{0,1}}
      ROOT %all-gather = bf16[4,8]{1,0} all-gather(%c), dimensions={0}
      %add.2 = f32[4]{0} add(%all-reduce.1, %d)
    """
    assert sent_bytes(program, 2) == 4 * (64 * 32 + 1) + 4 * 8 * 2 / 2


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_error_against_real_programs(tmp_path: Path):
    rows = compare(tmp_path)
    assert {n for _, n, *_ in rows} == {2, 4, 8, 16}
    for step, n, what, real, (one, two, lowered) in rows:
        # XLA counts the 8 bytes of a pointer for each output of several.
        assert error_of(two, real) <= (0.01 if what == "outputs" else 0), (step, n, what)
        if step != "swap":  # whose argument has one row per device
            assert lowered == two
        if step not in ("scatter", "swap"):  # whose blocks depend on the number of devices
            assert one == two
