"""Steps before and after `--to jit`, executed: equal to the bound that `migrate` checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import children
from tests.migrate.whole_batch.steps import ALLOWED

RUNNER = Path(__file__).with_name("run_jit.py")


@pytest.mark.exhaustive
def test_steps_compute_the_same(tmp_path: Path) -> None:
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="4", JAX_PLATFORMS="cpu")
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = children.run(
        [sys.executable, str(RUNNER), str(tmp_path), "5"], env=environment, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) >= 5 + len(ALLOWED)
    assert {name: wrong for name, wrong in found.items() if wrong is not None} == {}
