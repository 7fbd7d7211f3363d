"""Programs that read outputs print the same before and after, to every goal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import children, shared
from tests.migrate.reading_programs import FORMS, generated

RUNNER = Path(__file__).with_name("run_reading.py")
GENERATED = 48


def verdicts(programs: Mapping[str, str], folder: Path) -> dict[str, dict[str, str]]:
    """For each program, the goals whose text prints something else, run in one process."""
    (folder / "programs.json").write_text(json.dumps(programs))
    # As a legacy program ran: without the strictness of this suite.
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    environment[children.QUICK] = "1"
    here = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(
        [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [sys.executable, str(RUNNER), str(folder / "programs.json"), str(folder)]
    done = children.run(command, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def of_forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return shared.once("reading", lambda: verdicts(FORMS, tmp_path_factory.mktemp("forms")))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_they_print_the_same(name: str, of_forms: dict[str, dict[str, str]]) -> None:
    assert of_forms[name] == {}, "\n".join(of_forms[name].values())


@pytest.mark.slow
@pytest.mark.exhaustive
def test_generated_programs_print_the_same(tmp_path: Path) -> None:
    found = verdicts({str(seed): generated(seed) for seed in range(GENERATED)}, tmp_path)
    assert len(found) == GENERATED
    wrong = {seed: one for seed, one in found.items() if one}
    shown = [f"seed {seed}: {text}" for seed, one in wrong.items() for text in one.values()]
    assert not wrong, f"{len(wrong)} of {GENERATED}\n" + "\n".join(shown[:3])
