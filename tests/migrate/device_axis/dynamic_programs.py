"""Programs that reach a value without writing its name: ways to reach a name and kinds of value.

In each, a value is made, used and read in ways that `--to global` understands, so that it would
lose its device axis; and then it is reached once more, and printed with its shape.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

HEAD = """\
import builtins
import functools
import importlib
import importlib.util
import inspect
import operator
import pkgutil
import runpy
import string
import sys

import jax
import jax.numpy as jnp
import numpy as np


def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())


def first(tree):
    return jax.tree_util.tree_map(lambda x: x[0], tree)


def rows():
    return np.ones((jax.local_device_count(), 3), np.float32)


def mean(state, x):
    return jax.lax.pmean(state + x, "i")


def show(value):
    value = np.asarray(value)
    print(value.shape, value.ravel()[:4])

"""


class Kind(NamedTuple):
    """How a value is made and used, the name that leads to it, and how it is had from there."""

    text: str
    name: str
    shown: str
    formatted: str = ""  # as the field of a format string


KINDS = {
    "array": Kind(
        """\
p_step = jax.pmap(mean, axis_name="i")
state = replicate(np.arange(3, dtype=np.float32))
state = p_step(state, rows())
print(first(state))
""",
        "state",
        "got",
        "state",
    ),
    "output": Kind(
        """\
p_step = jax.pmap(mean, axis_name="i")


def train():
    state = replicate(np.arange(3, dtype=np.float32))
    return p_step(state, rows())


print(first(train()))
""",
        "train",
        "got()",
    ),
    "argument": Kind(
        """\
p_step = jax.pmap(mean, axis_name="i")


def train(state):
    return first(p_step(state, rows()))


print(train(replicate(np.arange(3, dtype=np.float32))))
""",
        "train",
        "got(rows())",
    ),
    "attribute": Kind(
        """\
p_step = jax.pmap(mean, axis_name="i")


class Trainer:
    def __init__(self):
        self.state = replicate(np.arange(3, dtype=np.float32))

    def run(self):
        self.state = p_step(self.state, rows())

    def result(self):
        return first(self.state)


trainer = Trainer()
trainer.run()
print(trainer.result())
""",
        "trainer",
        "got.state",
        "trainer.state",
    ),
    "pmapped function": Kind(
        """\
p_step = jax.pmap(mean, axis_name="i")
print(first(p_step(replicate(np.arange(3, dtype=np.float32)), rows())))
""",
        "p_step",
        "got(rows(), rows())",
    ),
}

# NAME is read in the module that binds it.
SAME_MODULE = {
    "globals()": 'got = globals()["NAME"]',
    "globals().get": 'got = globals().get("NAME")',
    "globals by another name": 'names = globals\ngot = names()["NAME"]',
    "vars()": 'got = vars()["NAME"]',
    "locals()": 'got = locals()["NAME"]',
    "eval": 'got = eval("NAME")',
    "eval by another name": 'run = eval\ngot = run("NAME")',
    "builtins.eval": 'got = builtins.eval("NAME")',
    "getattr(builtins, ...)": 'got = getattr(builtins, "eval")("NAME")',
    "eval beside the names of a library": 'from math import *\ngot = eval("NAME")',
    "__builtins__": 'got = vars(__builtins__)["eval"]("NAME")',
    "exec": 'exec("got = NAME")',
    "exec with globals": 'found = {}\nexec("got = NAME", globals(), found)\ngot = found["got"]',
    "sys.modules": 'got = sys.modules[__name__].NAME',
    "getattr(sys.modules)": 'got = getattr(sys.modules[__name__], "NA" "ME")',
    "vars(sys.modules)": 'got = vars(sys.modules[__name__])["NAME"]',
    "sys.modules.get": 'got = sys.modules.get(__name__).NAME',
    "attrgetter": 'got = operator.attrgetter("NAME")(sys.modules[__name__])',
    "a frame": 'got = sys._getframe().f_globals["NAME"]',
    "inspect": 'got = inspect.currentframe().f_locals["NAME"]',
    "__globals__": 'got = rows.__globals__["NAME"]',
    "a function that reads its caller": (
        'def find(name):\n    return sys._getframe(1).f_locals[name]\n\n\ngot = find("NAME")'
    ),
    "a loop over globals": 'got = [v for k, v in dict(globals()).items() if k == "NAME"][0]',
    "import of __main__": 'import __main__\ngot = __main__.NAME',
    "import from __main__": 'from __main__ import NAME as got',
}  # fmt: skip
FORMATTED = {
    "format(**locals())": 'print("{FIELD}".format(**locals()))',
    "format_map(globals())": 'print("{FIELD}".format_map(globals()))',
    "format(**vars())": 'print("{FIELD}".format(**vars()))',
    "eval of an f-string": "print(eval(\"f'{FIELD}'\"))",
}
FORMATTED_BY_NAME = {
    "% locals()": 'print("%(FIELD)s" % locals())',
    "% globals()": 'print("%(FIELD)s" % globals())',
    "a template": 'print(string.Template("$FIELD").substitute(vars()))',
}
# NAME is read in the function that binds it.
LOCAL = {
    "locals()": 'got = locals()["NAME"]',
    "vars()": 'got = vars()["NAME"]',
    "vars().items": 'got = dict(vars().items())["NAME"]',
    "eval": 'got = eval("NAME")',
    "exec": 'found = {}\nexec("got = NAME", locals(), found)\ngot = found["got"]',
    "eval in a nested function": 'got = (lambda: eval("NAME", None, {"NAME": NAME}))()',
    "locals in a comprehension": 'names = locals()\ngot = [names[k] for k in ["NAME"]][0]',
    "a frame": 'got = sys._getframe().f_locals["NAME"]',
    "a function that reads its caller": (
        "def find(name):\n    return inspect.stack()[1].frame.f_locals[name]\n\n\n"
        'got = find("NAME")'
    ),
    "locals by another name": 'read = locals\ngot = read()["NAME"]',
    "a closure": "def use():\n    return NAME\n\n\ngot = use.__closure__[0].cell_contents",
}
LOCAL_FORMATTED = {
    "format(**locals())": 'print("{FIELD}".format(**locals()))',
    "format_map(vars())": 'print("{FIELD}".format_map(vars()))',
}
# NAME is read in main.py, and bound in steps.py.
OTHER_MODULE = {
    "import *": "from steps import *\ngot = NAME",
    "import * of a package": "from pkg import *\ngot = NAME",
    "a name that a package has by import *": "from pkg import NAME as got",
    "an attribute that a package has by import *": "import pkg\ngot = pkg.NAME",
    "importlib": 'got = importlib.import_module("steps").NAME',
    "importlib and a name": 'module = importlib.import_module("steps")\ngot = module.NAME',
    "importlib by a computed name": 'got = getattr(importlib.import_module("st" + "eps"), "NAME")',
    "import_module, imported": (
        'from importlib import import_module as load\ngot = load("steps").NAME'
    ),
    "spec_from_file_location": (
        'spec = importlib.util.spec_from_file_location("again", steps.__file__)\n'
        "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\n"
        "got = module.NAME"
    ),
    "__import__": 'got = __import__("steps").NAME',
    "getattr(module, name)": 'got = getattr(steps, "".join(["NA", "ME"]))',
    "getattr(module, literal)": 'got = getattr(steps, "NAME")',
    "getattr by another name": 'read = getattr\ngot = read(steps, "NAME")',
    "map(getattr)": 'got = list(map(getattr, [steps], ["NAME"]))[0]',
    "partial(getattr)": 'got = functools.partial(getattr, steps)("NAME")',
    "attrgetter": 'got = operator.attrgetter("NAME")(steps)',
    "a module in a list": "got = [steps][0].NAME",
    "a module that a function is given": (
        "def read(module):\n    return module.NAME\n\n\ngot = read(steps)"
    ),
    "getattr of __dict__": 'got = getattr(steps, "__dict__")["NAME"]',
    "a module of two": (
        "try:\n    import steps as chosen\nexcept ImportError:\n    import math as chosen\n"
        "got = chosen.NAME"
    ),
    "getmodule": "got = inspect.getmodule(steps.rows).NAME",
    "a module of a package": 'got = importlib.import_module("pkg").steps.NAME',
    "a module of a package by a computed name": 'got = getattr(pkg, "st" "eps").NAME',
    "__import__ of a package": 'got = __import__("pkg.steps").steps.NAME',
    "globals() of a module with import *": (
        'from steps import *\ngot = globals()["".join(["NA", "ME"])]'
    ),
    "vars(module)": 'got = vars(steps)["NAME"]',
    "module.__dict__": 'got = steps.__dict__["NAME"]',
    "module.__dict__.get": 'got = steps.__dict__.get("NAME")',
    "module.__getattribute__": 'got = steps.__getattribute__("NAME")',
    "sys.modules": 'got = sys.modules["steps"].NAME',
    "sys.modules by a computed name": 'got = sys.modules["".join(["st", "eps"])].NAME',
    "modules, imported from sys": 'from sys import modules\ngot = modules["steps"].NAME',
    "getmembers": 'got = dict(inspect.getmembers(steps))["NAME"]',
    "resolve_name": 'got = pkgutil.resolve_name("steps:NAME")',
    "runpy.run_module": 'got = runpy.run_module("steps")["NAME"]',
    "runpy.run_path": 'got = runpy.run_path(steps.__file__)["NAME"]',
    "eval": 'got = eval("steps.NAME")',
    "exec of an import": 'exec("from steps import NAME as got")',
    "exec of the file": "exec(open(steps.__file__).read())\ngot = NAME",
    "exec of a computed import": 'exec("from steps import " + "".join(["NA", "ME"]) + " as got")',
    "exec of the file, apart": (
        'names = {}\nexec(open(steps.__file__).read(), names)\ngot = names["NAME"]'
    ),
    "__globals__": 'got = steps.rows.__globals__["NAME"]',
    "a folder that is not the package's name": "from alias.steps import NAME as got",
}
# Ways that only an object has.
OF_OBJECTS = {
    "getattr(object, name)": 'show(getattr(trainer, "".join(["st", "ate"])))',
    "vars(object)": 'show(vars(trainer)["state"])',
    "object.__dict__": 'show(trainer.__dict__["state"])',
    "object.__getattribute__": 'show(trainer.__getattribute__("state"))',
    "attrgetter": 'show(operator.attrgetter("state")(trainer))',
    "setattr(object)": 'setattr(trainer, "state", rows())\ntrainer.run()\nprint(trainer.result())',
    "object.__dict__.update": (
        "trainer.__dict__.update(state=rows())\ntrainer.run()\nprint(trainer.result())"
    ),
    "setattr(class)": (
        'setattr(Trainer, "run", lambda self: None)\nagain = Trainer()\nagain.run()\n'
        "show(vars(again)['state'])"
    ),
    "a class by name": 'show(globals()["Trainer"]().state)',
    "type(object)": "again = type(trainer)()\nagain.run()\nshow(again.state)",
    "object.__class__": "again = trainer.__class__()\nagain.run()\nshow(again.state)",
    "format": 'print("{0.state}".format(trainer))',
    "copy": "import copy\nshow(copy.copy(trainer).state)",
}  # fmt: skip


def programs() -> dict[str, dict[str, str]]:
    """The files of each program by path; main.py is run."""
    found: dict[str, dict[str, str]] = {}
    for kind, made in KINDS.items():
        head = HEAD + made.text
        read = f"\nshow({made.shown})\n"
        for way, text in SAME_MODULE.items():
            found[f"{kind}, {way}"] = {"main.py": head + _of(text, made) + read}
        for way, text in LOCAL.items():
            found[f"{kind}, local, {way}"] = _local(made, _of(text, made) + read)
        for way, text in OTHER_MODULE.items():
            main = f"{HEAD}import steps\n{_of(text, made)}{read}"
            found[f"{kind}, other module, {way}"] = _package(way, head, main)
        fields = dict(FORMATTED) if made.formatted else {}
        fields |= FORMATTED_BY_NAME if made.formatted.isidentifier() else {}
        for way, text in fields.items():
            found[f"{kind}, {way}"] = {"main.py": head + _of(text, made) + "\n"}
        for way, text in LOCAL_FORMATTED.items() if made.formatted else ():
            found[f"{kind}, local, {way}"] = _local(made, _of(text, made) + "\n")
    for way, text in OF_OBJECTS.items():
        found[f"object, {way}"] = {"main.py": f"{HEAD}{KINDS['attribute'].text}{text}\n"}
    return found


def controls() -> dict[str, dict[str, str]]:
    """The same programs without the read that is not seen: everything loses its axis."""
    found = {kind: {"main.py": HEAD + made.text} for kind, made in KINDS.items()}
    return found | {f"{kind}, local": _local(made, "\n") for kind, made in KINDS.items()}


def _of(text: str, kind: Kind) -> str:
    whole = text.replace('"NA", "ME"', f'"{kind.name[:2]}", "{kind.name[2:]}"')
    whole = whole.replace('"NA" "ME"', f'"{kind.name}"')
    return whole.replace("NAME", kind.name).replace("FIELD", kind.formatted)


def _local(kind: Kind, read: str) -> dict[str, str]:
    body = textwrap.indent(kind.text + read, "    ")
    return {"main.py": f"{HEAD}\ndef main():\n{body}\n\nmain()\n"}


def _package(way: str, steps: str, main: str) -> dict[str, str]:
    files = {"steps.py": steps, "main.py": main}
    if re.search(r"\bpkg\b", OTHER_MODULE[way]):
        files |= {"pkg/__init__.py": "from pkg.steps import *\n", "pkg/steps.py": steps}
        files["main.py"] = main.replace("import steps\n", "import pkg\nimport pkg.steps as steps\n")
        del files["steps.py"]
    if "alias" in OTHER_MODULE[way]:  # a folder of another name, put on the path as `alias`
        files["main.py"] = main.replace(
            "from alias", "import types\nsys.modules['alias'] = types.ModuleType('alias')\n"
            "sys.modules['alias'].__path__ = sys.path[:1]\nfrom alias"
        )  # fmt: skip
    return files
