"""Which binding a use of a name sees."""

import ast
from collections.abc import Callable

import pytest

from shardlift.source.reaching import after_definition, guards, reaching_bindings
from shardlift.source.scopes import Index


def _lines(text: str, reaching: Callable[[Index, ast.Name], list[ast.AST]]) -> list[int]:
    """The lines of the bindings that the last use of `x` may see."""
    index = Index(ast.parse(text))
    uses = [n for n in index.nodes(ast.Name) if n.id == "x" and isinstance(n.ctx, ast.Load)]
    return sorted(getattr(node, "lineno", 0) for node in reaching(index, uses[-1]))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nx = 2\nx", [2]),
        ("x = 1\nif c:\n    x = 2\nx", [1, 3]),
        ("x = 1\nif c:\n    x = 2\nelse:\n    x = 3\nx", [3, 5]),
        ("if c:\n    x = 1\nelse:\n    x", [2]),
        ("x = 0\nif c:\n    x = 1\nelse:\n    x", [1]),
        ("x = 1\nx = f(x)\nx", [2]),
        ("x = 1\nx = f(x)", [1]),
        ("x = 1\nfor i in y:\n    x\n    x = 2", [1, 4]),
        ("for x in y:\n    x", [1]),
        ("x = 1\ndef f():\n    return x\nx = 2", [4]),
        ("x = 1\ndef f(x):\n    return x", [2]),
        ("x = 1\nclass A:\n    x = 2\n    def f(self):\n        return x", [1]),
        ("x = 1\ny = [x for x in z]", [2]),
        ("import x\nx = 2\nx", [2]),
        ("try:\n    import x\nexcept E:\n    x = None\nx", [2]),
        ("try:\n    import x\nexcept E:\n    x = 0\nx", [2, 4]),
        ("x = None\nif c:\n    x = 1\nx", [1, 3]),
        ("def f():\n    global x\n    x = 1\nx = 2\nx", [4]),
        ("try:\n    x = 1\nexcept E:\n    x = 2\nx", [2, 4]),
        ("x = 1\nwith a as x:\n    x", [2]),
        ("x = 1\nwhile c:\n    x = 2\n    x", [3]),
        ("x = 1\nfor i in y:\n    if c:\n        x = 2\n    else:\n        x", [1, 4]),
        ("x = 1\ntry:\n    x = 2\nexcept E:\n    pass\nx", [1, 3]),
        ("x = 1\ntry:\n    x = 2\nexcept E:\n    x", [1, 3]),
        ("x = 1\ntry:\n    x = 2\nexcept E:\n    raise\nx", [3]),
        ("x = 1\ntry:\n    x = 2\n    x\nexcept E:\n    pass", [3]),
        ("x = 1\ntry:\n    y\nfinally:\n    x = 2\nx", [5]),
        ("x = 1\nwith suppress(E):\n    x = 2\nx", [1, 3]),
        ("x = 1\nwith contextlib.suppress(E):\n    x = 2\n    x", [3]),
        ("x = 1\nc and (x := 2)\nx", [1, 2]),
        ("x = 1\n[(x := i) for i in y]\nx", [1, 2]),
        ("x = 1\nfor i in y:\n    x = 2\n    if c:\n        break\n    x = 3\nx", [1, 3, 6]),
        ("x = 1\nwhile True:\n    x = 2\n    if c:\n        break\nx", [3]),
        ("x = 1\nfor i in y:\n    if c:\n        x = 2\n        continue\n    x", [1, 4]),
        ("x = 1\nfor i in y:\n    x = 2\nelse:\n    x = 3\nx", [5]),
        ("x = 1\ntry:\n    x = 2\nfinally:\n    x", [1, 3]),
        ("x = 1\ntry:\n    x = 2\nfinally:\n    y\nx", [3]),
        ("for i in y:\n    x = 1\n    try:\n        break\n    finally:\n        x = 2\nx", [6]),
        ("x = 1\nmatch y:\n    case [x]:\n        pass\nx", [1, 3]),
        ("x = 1\nmatch y:\n    case x:\n        x", [3]),
        ("x = 1\ndel x\nx = 2\nx", [3]),
        ("x = 1\nx += 2\nx", [2]),
        ("def f(x):\n    if c:\n        x = 2\n    return x", [1, 3]),
        ("x = 1\ndef f():\n    global x\n    x = 2\nx", [4]),
        ("def f():\n    x = 1\n    x = 2\n    def g():\n        return x\n    return g", [3]),
        ("x = 1\nif c:\n    x = 2\n    raise E\nx", [1]),
        ("x = 1\nf(x := 2, x)", [1, 2]),
        ("x = 1\nx = 2\n[x for i in y]", [2]),
        ("x = 1\nx = 2\nclass A:\n    y = x", [2]),
    ],
)
def test_reaching(text: str, lines: list[int]) -> None:
    assert _lines(text, reaching_bindings) == lines


def test_a_long_chain_of_branches_is_not_too_deep() -> None:
    branches = "".join(f"elif c == {k}:\n    x = {k}\n" for k in range(600))
    assert len(_lines(f"x = 1\nif c:\n    x = 2\n{branches}x", reaching_bindings)) >= 602


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nx = 2\ndef f():\n    x", [2]),
        ("x = 1\ndef f():\n    x\nx = 2", [1, 4]),
        ("x = 1\nx = 2\ndef f():\n    x\nx = 3", [2, 5]),
        ("x = 1\nif c:\n    x = 2\ndef f():\n    x", [1, 3]),
        ("for i in y:\n    x = 1\n    x = 2\n    def f():\n        x", [2, 3]),
        ("x = 0\nwhile c:\n    def f():\n        x\n    x = 1\n    x = 2", [1, 5, 6]),
        ("x = 1\nx = 2\nclass A:\n    def f(self):\n        x", [2]),
        ("x = 1\nif c:\n    x = 2\n    def f():\n        x\nelse:\n    x = 3", [3, 7]),
        ("x = 1\nraise E\nx = 2\ndef f():\n    x", [1, 3]),  # it is never defined
    ],
)
def test_a_function_sees_what_is_bound_from_its_definition_on(text: str, lines: list[int]) -> None:
    def visible(index: Index, use: ast.Name) -> list[ast.AST]:
        outer, definitions = index.module, (ast.FunctionDef, ast.ClassDef)
        inside = [n for n in index.ancestors(use) if index.scope_of.get(n) is outer]
        defined = next(node for node in inside if isinstance(node, definitions))
        return after_definition(index, outer, defined, use.id)

    assert _lines(text, visible) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import sys\nx = 1\nif c:\n    x = 2\n    sys.exit(0)\nx", [2]),
        ("import sys\nx = 1\ntry:\n    x = 2\n    sys.exit(0)\nexcept E:\n    x", [2, 4]),
        ("import other as sys\nx = 1\nif c:\n    x = 2\n    sys.exit(0)\nx", [2, 4]),
        ("import sys\nsys = y\nx = 1\nif c:\n    x = 2\n    sys.exit(0)\nx", [3, 5]),
    ],
)
def test_nothing_goes_on_after_sys_exit(text: str, lines: list[int]) -> None:
    assert _lines(text, reaching_bindings) == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", []),
        ("if c:\n    x", [("If", "body")]),
        ("if c:\n    pass\nelse:\n    x", [("If", "orelse")]),
        ("if x:\n    pass", []),
        ("for i in y:\n    x", [("For", "body")]),
        ("for i in x:\n    pass", []),
        ("while c:\n    if d:\n        x", [("If", "body"), ("While", "body")]),
        ("try:\n    x\nexcept E:\n    pass", [("Try", "body")]),
        ("try:\n    pass\nexcept E:\n    x", [("ExceptHandler", "body")]),
        ("try:\n    pass\nfinally:\n    x", []),
        ("with a:\n    x", []),
        ("with suppress(E):\n    x", [("With", "body")]),
        ("c and x", [("BoolOp", "body")]),
        ("x and c", []),
        ("x if c else d", [("IfExp", "body")]),
        ("c if d else x", [("IfExp", "orelse")]),
        ("c if x else d", []),
        ("[x for i in y]", [("ListComp", "body")]),
        ("match c:\n    case 1:\n        x", [("match_case", "body")]),
        ("if c:\n    def f():\n        x", []),
        ("if c:\n    class A:\n        x", []),
    ],
)
def test_guards(text: str, expected: list[tuple[str, str]]) -> None:
    index = Index(ast.parse(text))
    (use,) = (node for node in index.nodes(ast.Name) if node.id == "x")
    assert [(type(node).__name__, branch) for node, branch in guards(index, use)] == expected
