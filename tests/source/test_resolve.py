"""The resolver: text in, the values of its last expression out."""

import ast

import pytest

from shardlift.source.values import (
    Argument,
    Constant,
    Element,
    External,
    Instance,
    Known,
    Mapped,
    Output,
    Partial,
    Result,
    Transform,
    Value,
)
from tests.source.files import last_value, parse


def _describe(value: Value) -> str:
    match value:
        case Constant():
            return repr(value.value)
        case External() | Result():
            return f"{type(value).__name__} {value.path}"
        case Known() | Instance():
            return f"{type(value).__name__} {getattr(value.node, 'name', 'lambda')}"
        case Argument():
            return f"Argument {value.node.arg}"
        case Output():
            return f"Output {list(value.path)}"
        case Element():
            return f"Element of {_describe(value.of)}"
        case Partial():
            return f"Partial of {_describe(value.function)}"
        case Transform() | Mapped():
            return type(value).__name__
    return "Unknown"


def _values(text: str, **others: str) -> list[str]:
    file = parse(text, **others)
    return [_describe(value) for value in file.values(last_value(file))]


PMAPPED = "import functools, jax\nf = jax.pmap(g)\n"
CLASSES = (
    "import jax\nclass Base:\n    inherited = 'base'\nclass C(Base):\n"
    "    def __init__(self, f):\n        self.step = jax.pmap(f)\n        self.other = 1\n"
    "    def reset(self):\n        self.other = 2\n"
    "    def made(self):\n        return self\n"
    "    @staticmethod\n    def static(x):\n        return x\n"
)
UTIL = "import jax\nfrom m import cycle\nAXIS = 'i'\nclass Config:\n    axis = 'j'\n# pmap\n"
CASES = {
    "": {
        "1.5": ["1.5"],
        "b'x'": ["Unknown"],
        "[1]": ["Unknown"],
        "lambda x: x": ["Known lambda"],
        "len": ["External builtins.len"],
        "def len(x): return x\nlen": ["Known len"],
        "missing": ["Unknown"],
        "import jax.numpy as jnp\njnp.sum": ["External jax.numpy.sum"],
        "import jax.numpy\njax.numpy.sum": ["External jax.numpy.sum"],
        "import jax\njax.pmap if n > 1 else jax.jit": ["External jax.pmap", "External jax.jit"],
        "f = None\nf or len": ["None", "External builtins.len"],
        "(n := 3)": ["3"],
        "import jax\njax.grad(f)": ["Result jax.grad"],
        "def f(x): return x\nf(2)": ["2"],
        "def f(x): return x\nf()": ["Unknown"],
        "def f(x): yield x\nf(2)": ["Unknown"],
        "class C:\n    pass\nC()": ["Instance C"],
        "import functools\nfunctools.partial(f, 1)": ["Partial of Unknown"],
        "import functools\nfunctools.partial()": ["Result functools.partial"],
        "def g(x): return x\nstaticmethod(g)": ["Known g"],
        "import functools\ndef g(x): return x\nfunctools.wraps(f)(g)": ["Known g"],
        "@unknown\ndef f(x): ...\nf": ["Known f"],
        "a, (b, c) = 1, (2, 3)\nc": ["3"],
        "a, [b, c] = 1, [2, 3]\nc": ["3"],
        "a, *b, c = 1, 2, 3\nc": ["Unknown"],
        "a, *b = 1, 2, 3\nb": ["Unknown"],
        "a, b = *xs, 2\nb": ["Unknown"],
        "def pair(): return 1, 2\na, b = pair()\nb": ["2"],
        "a, b = xs\nb": ["Element of Unknown"],
        "import jax\nfor d in jax.devices():\n    pass\nd": ["Element of Result jax.devices"],
        "with f() as x:\n    pass\nx": ["Unknown"],
        "x: int = 4\nx": ["4"],
        "x: int\nx": ["Unknown"],
        "5 + 5": ["Unknown"],
        "from util import AXIS\nAXIS": ["'i'"],
        "import util\nutil.AXIS": ["'i'"],
        "from util import *\nAXIS": ["'i'"],
        "from util import *\nfrom stars import *\nAXIS": ["'i'"],
        "from stars import *\nfrom util import *\nAXIS": ["'i'"],
        "from util import *\nfrom elsewhere import *\nAXIS": ["External elsewhere.AXIS", "'i'"],
        "from util import names\nnames.AXIS": ["External util.names.AXIS"],
        "from .util import AXIS\nAXIS": ["'i'"],
        "from . import util\nutil.AXIS": ["'i'"],
        "from util import Config\nConfig.axis": ["'j'"],
        "import util as u\nu.Config.axis": ["'j'"],
        "from elsewhere import x\nx": ["External elsewhere.x"],
        "from util import cycle\ncycle": ["External util.cycle"],
    },
    PMAPPED: {
        "f": ["Mapped"],
        "f(x)": ["Output []"],
        "f(x).loss": ["Output ['loss']"],
        "f(x)['loss']": ["Output ['loss']"],
        "f(x)[0]": ["Unknown"],
        "a, (b, c) = f(x)\nc": ["Output [1, 1]"],
        "functools.partial(f, 1)(x)": ["Output []"],
        "functools.partial(jax.pmap, axis_name='i')": ["Transform"],
        "functools.partial(jax.pmap, g)": ["Mapped"],
        "jax.pmap(axis_name='i')": ["Transform"],
    },
    CLASSES: {
        "C().step": ["Mapped"],
        "C().other": ["1", "2"],
        "C.made(1)": ["Instance C"],
        "C().inherited": ["'base'"],
        "C().missing": ["Unknown"],
        "C().static(5)": ["5"],
        "(1).real": ["Unknown"],
    },
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(head + text, values) for head, texts in CASES.items() for text, values in texts.items()],
)
def test_values(text: str, expected: list[str]) -> None:
    assert _values(text, util=UTIL, stars="from util import *\nfrom stars import *\n") == expected


def test_alternatives_are_limited() -> None:
    choice = " or ".join(str(number) for number in range(9))
    assert _values(choice) == ["0", "1", "2", "3", "4", "5"]


def test_a_chain_of_many_names_is_unknown() -> None:
    chain = "\n".join(f"x{n + 1} = x{n}" for n in range(80))
    assert _values(f"x0 = 1\n{chain}\nx80") == ["Unknown"]
    assert _values(f"x0 = 1\n{chain}\nx9") == ["1"]


def test_the_value_of_an_import() -> None:
    file = parse("from jax import pmap as p\n")
    (alias,) = file.index.nodes(ast.alias)
    assert file.resolver.bound(alias) == (External("jax.pmap"),)


def test_a_function_that_is_defined_by_itself_ends() -> None:
    assert _values("x = x\nx") == ["Unknown"]
    assert _values("def f(): return f()\nf()") == ["Unknown"]
    assert _values("def f(): return f()\na, b = f()\na") == ["Unknown"]
    text = "def f(n):\n    if n: return f(n - 1)\n    a, b = f(n)\n    return a, 1\na, b = f(2)\n"
    assert _values(f"{text}a") == ["Unknown"]
    assert "1" in "".join(_values(f"{text}b"))
