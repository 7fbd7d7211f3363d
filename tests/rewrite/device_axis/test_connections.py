"""A value that can be reached without its name keeps its device axis, and the reason says by what.

The program is written such that everything in it would lose its axis without that access.
"""

from collections.abc import Mapping

import pytest

from shardlift.rewrite.goal import Goal
from tests.notebooks import notebook
from tests.rewrite.test_programs import PLACED, migrated

IMPORTS = """\
import builtins
import functools
import importlib
import inspect
import operator
import os
import pkgutil
import runpy
import sys
import jax
import numpy as np
"""
TRAINING = """\
p_step = jax.pmap(lambda state, x: jax.lax.pmean(state + x, "i"), axis_name="i")
state = jax.device_put_replicated(np.arange(3.0), jax.local_devices())
state = p_step(state, np.ones((8, 3)))
print(jax.tree.map(lambda x: x[0], state))
"""
LOCAL = f"def main():\n{''.join(f'    {line}' for line in TRAINING.splitlines(True))}"


def whole(files: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Whether the state loses its axis, and the reasons for what keeps one."""
    after, result = migrated(files, goal=Goal.GLOBAL)
    reasons = [change.reason for file in result.files for change in file.refused]
    return any(PLACED.search(text) for text in after.values()), reasons


SAME_FILE = [
    'globals()["state"]',
    'names = globals\nnames()["state"]',
    '"{state}".format(**locals())',
    'getattr(builtins, "eval")("state")',
    'vars(__builtins__)["eval"]("state")',
    'exec("got = state")',
    'getattr(sys.modules[__name__], name)',
    'getattr(importlib.import_module(sys.argv[1]), "state")',
    'operator.attrgetter("state")(sys.modules[__name__])',
    'sys._getframe().f_globals["state"]',
    'inspect.currentframe()',
    'whatever.__globals__["state"]',
    'import __main__\n__main__.state',
    'from __main__ import state as got',
]  # fmt: skip


@pytest.mark.parametrize("line", SAME_FILE)
def test_a_name_of_the_same_file(line: str) -> None:
    assert whole({"main.py": IMPORTS + TRAINING})[0]
    is_whole, reasons = whole({"main.py": f"{IMPORTS}{TRAINING}{line}\n"})
    assert not is_whole
    number = len(f"{IMPORTS}{TRAINING}".splitlines()) + 1
    assert any(f"at /p/main.py:{number}" in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    "line", ['locals()["state"]', "vars()", 'eval("state")', "inspect.stack()[0].frame.f_locals"]
)
def test_a_name_of_a_function(line: str) -> None:
    assert whole({"main.py": f"{IMPORTS}\n\n{LOCAL}\n\nmain()\n"})[0]
    assert not whole({"main.py": f"{IMPORTS}\n\n{LOCAL}    {line}\n\n\nmain()\n"})[0]


OTHER_FILE = [
    "from steps import *\nprint(state)",
    'importlib.import_module("steps").state',
    'getattr(importlib.import_module("steps"), name)',
    'getattr(steps, "".join(["st", "ate"]))',
    'functools.partial(getattr, steps)("state")',
    "def read(module):\n    return module.state\n\n\nread(steps)",
    'try:\n    import steps as chosen\nexcept ImportError:\n    import os as chosen\nchosen.state',
    'vars(steps)["state"]',
    'steps.__dict__["state"]',
    'steps.__getattribute__("state")',
    'sys.modules.get("steps").state',
    'runpy.run_path("steps.py")["state"]',
    'from alias.steps import state',
]  # fmt: skip


@pytest.mark.parametrize("line", OTHER_FILE)
def test_a_name_of_another_file(line: str) -> None:
    files = {"steps.py": IMPORTS + TRAINING, "main.py": f"{IMPORTS}import steps\n"}
    assert whole(files)[0]
    assert not whole(files | {"main.py": f"{files['main.py']}{line}\n"})[0]


def test_a_name_of_a_module_of_a_package() -> None:
    files = {"pkg/__init__.py": "", "pkg/steps.py": IMPORTS + TRAINING}
    assert not whole(files | {"main.py": "import pkg.steps\nprint(getattr(pkg, name).state)\n"})[0]
    star = {"pkg/__init__.py": "from pkg.steps import *\n", "main.py": "import pkg\npkg.state\n"}
    assert not whole(files | star)[0]


HARMLESS = [
    'importlib.import_module("other")',
    "config = importlib.import_module(sys.argv[1]).get_config()",
    "print(rows.__class__.__name__)",
    'import ast\nast.literal_eval("[1]")',
    "vars(arguments)",
    "from other import *",
    'getattr(np, "zeros")',
    'print("ipykernel" in sys.modules, "ipykernel" not in sys.modules)',
]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_reaches_something_else_changes_nothing(line: str) -> None:
    assert whole({"main.py": f"{IMPORTS}{TRAINING}{line}\n", "other.py": "rows = 3\n"})[0]


@pytest.mark.parametrize("line", ["inspect.currentframe().f_back", 'eval("rows")', "globals()"])
def test_a_logger_of_another_file_changes_nothing(line: str) -> None:
    logger = f"import inspect\n\nrows = 3\n\n\ndef log(text):\n    print(text, {line})\n"
    text = f"{IMPORTS}from logger import log\n\n{TRAINING}log(1)\n"
    assert whole({"main.py": text, "logger.py": logger})[0]


@pytest.mark.parametrize("goal", [Goal.GLOBAL, Goal.JIT])
def test_a_site_of_a_notebook_stays_as_shard_map_has_it(goal: Goal) -> None:
    files = {"n.ipynb": notebook(IMPORTS, TRAINING) + "\n"}
    after, result = migrated(files, goal=goal)
    assert after == migrated(files)[0]
    reasons = [place.reason for file in result.files for place in file.refused]
    assert any("cells of notebooks are not followed" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("cell", "stays"),
    [
        ("from train import p_step\np_step(1)", True),
        ("import train\ntrain.state", True),
        ("def f():\n    import train\n    return train", True),
        ("import json", False),
    ],
)
def test_what_a_notebook_has_a_name_for_stays(cell: str, stays: bool) -> None:
    assert whole({"train.py": IMPORTS + TRAINING, "n.ipynb": notebook(cell)})[0] is not stays
