"""The index: parents, scopes and nodes of a text."""

import ast

import pytest

from shardlift.source.scopes import Index, argument_at, keyword_value


def _index(text: str) -> Index:
    return Index(ast.parse(text))


def _last_name(index: Index, name: str) -> ast.Name:
    return [node for node in index.nodes(ast.Name) if node.id == name][-1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = 1\ny: int = 2\nfor z in xs: pass", ["x", "y", "z"]),
        ("import a.b\nimport c.d as e\nfrom f import g as h, i", ["a", "e", "h", "i"]),
        ("def f(): pass\nclass C: pass\nasync def g(): pass", ["f", "C", "g"]),
        ("with f() as x, g() as (y, z): pass", ["x", "y", "z"]),
        ("try: pass\nexcept E as error: pass\nexcept F: pass", ["error"]),
        (
            "match v:\n case [a, *b]: pass\n case {'k': c, **d}: pass\n case _: pass",
            ["a", "b", "d", "c"],
        ),
        ("if (n := 1): pass\n[m := x for x in xs]", ["n", "m"]),
        ("def f():\n    global x\n    x = 1", ["f", "x"]),
    ],
)
def test_names_of_the_module(text: str, names: list[str]) -> None:
    assert list(_index(text).module.names) == names


@pytest.mark.parametrize(
    ("text", "owner", "is_outer"),
    [
        ("x = 1\nx", "Module", False),
        ("x = 1\ndef f():\n    return x", "Module", True),
        ("def f(x):\n    return x", "FunctionDef", False),
        ("def f(x):\n    return lambda: x", "FunctionDef", True),
        ("class C:\n    x = 1\n    y = x", "ClassDef", False),
        ("x = 1\nclass C:\n    x = 2\n    def f(self):\n        return x", "Module", True),
        ("x = 1\n[x for y in ys]", "Module", False),
        ("[x for x in xs]", "ListComp", False),
        (
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        return x",
            "FunctionDef",
            True,
        ),
        ("x = 1\ndef f(x):\n    def g():\n        global x\n        return x", "Module", True),
        ("print(x)", None, True),
    ],
)
def test_the_scope_that_binds_a_name(text: str, owner: str | None, is_outer: bool) -> None:
    index = _index(text)
    scope, outer = index.binding_scope(_last_name(index, "x"))
    assert (type(scope.node).__name__ if scope else None, outer) == (owner, is_outer)


@pytest.mark.parametrize(
    ("text", "returned"),
    [
        ("def f():\n    return 1", ["1"]),
        ("def f():\n    return", []),
        ("def f():\n    if a:\n        return 1\n    else:\n        return 2", ["1", "2"]),
        ("def f():\n  try: return 1\n  except E: return 2\n  finally: return 3", ["1", "3", "2"]),
        ("def f():\n    for x in y:\n        return 1\n    else:\n        return 2", ["1", "2"]),
        ("def f():\n    match x:\n        case 1:\n            return 1", ["1"]),
        ("def f():\n    def g():\n        return 1\n    return 2", ["2"]),
        ("f = lambda: 5", ["5"]),
        ("async def f():\n    return 1", []),
        ("class f:\n    def g(self):\n        return 1", []),
    ],
)
def test_returns(text: str, returned: list[str]) -> None:
    index = _index(text)
    function = next(node for node in index.opens if not isinstance(node, ast.Module))
    assert [ast.unparse(node) for node in index.returns(function)] == returned
    assert index.returns(function) is index.returns(function)


def test_generators() -> None:
    index = _index("def f():\n    yield 1\ndef g():\n    return (lambda: (yield from f()))\n")
    assert {type(node).__name__ for node in index.generators} == {"FunctionDef", "Lambda"}


def test_the_statement_of_a_node() -> None:
    index = _index("def f():\n    return g(x)\n")
    assert isinstance(index.statement(_last_name(index, "x")), ast.Return)
    assert index.statement(index.root) is None


@pytest.mark.parametrize(
    ("text", "by_keyword", "either"),
    [
        ("f(1, 2)", None, "2"),
        ("f(1, b=3)", "3", "3"),
        ("f(1)", None, None),
        ("f(1, **rest)", None, None),
    ],
)
def test_arguments(text: str, by_keyword: str | None, either: str | None) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    values = keyword_value(call, "b"), argument_at(call, 1, "b")
    assert tuple(ast.unparse(v) if v is not None else None for v in values) == (by_keyword, either)
