"""Which branches and loops decide whether a node runs."""

from __future__ import annotations

import ast

import pytest

from shardlift.source.reaching import guards
from shardlift.source.scopes import Index


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
