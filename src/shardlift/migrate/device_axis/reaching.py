"""Which bindings of a name may reach a place: a walk over statements, to a fixed point at loops.

It binds names and evaluates nothing. `codemod.reaching` answers the same by the order of the text,
well enough to warn by; here a binding that is missed could change a number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardlift.source.file import File
from shardlift.source.scopes import Scope

Env = Mapping[str, frozenset[ast.AST]]
_Loop = ast.For | ast.AsyncFor | ast.While


@dataclass
class Ways:
    """The states in which statements can be left: at their end, by break, by continue."""

    end: Env | None
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


def around_loop(file: File, scope: Scope, loop: _Loop, env: Env) -> tuple[Env, Env]:
    """What names may stand for at the head of a loop, and after it."""
    return Walk(file, scope).loop(loop, env)


def anywhere_in(file: File, scope: Scope, statements: Sequence[ast.stmt], env: Env) -> Env:
    """What names may stand for if any part of the statements has run."""
    found = dict(env)
    walk = Walk(file, scope)
    for statement in statements:
        for name, node in walk.bindings(statement, deep=True):
            found[name] = found.get(name, frozenset()) | {node}
    return found


def joined(envs: Sequence[Env | None]) -> dict[str, frozenset[ast.AST]]:
    """What names may stand for where several ways meet."""
    found: dict[str, frozenset[ast.AST]] = {}
    for env in envs:
        for name, nodes in (env or {}).items():
            found[name] = found.get(name, frozenset()) | nodes
    return found


class Walk:
    """Statements of one scope."""

    def __init__(self, file: File, scope: Scope) -> None:
        """Names of other scopes are not looked at."""
        self.file = file
        self.scope = scope

    def block(self, body: Sequence[ast.stmt], env: Env | None) -> Ways:
        """Statements one after the other."""
        ways = Ways(env)
        for statement in body:
            if ways.end is None:
                break
            done = self.statement(statement, ways.end)
            ways = Ways(done.end, [*ways.breaks, *done.breaks], [*ways.continues, *done.continues])
        return ways

    def statement(self, node: ast.stmt, env: Env) -> Ways:
        """One statement."""
        if isinstance(node, (ast.Return, ast.Raise)):
            return Ways(None)
        if isinstance(node, ast.Break):
            return Ways(None, breaks=[env])
        if isinstance(node, ast.Continue):
            return Ways(None, continues=[env])
        if isinstance(node, ast.If):
            return self._branches([node.body, node.orelse], self._bound(node.test, env))
        if isinstance(node, ast.Match):
            return self._branches([*(case.body for case in node.cases), []], self._any(node, env))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return Ways(self.loop(node, env)[1])
        if isinstance(node, (ast.Try, ast.TryStar)):
            return self._try(node, env)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                env = self._bound(item, env)
            return self.block(node.body, env)
        if isinstance(node, ast.Delete):
            gone = {target.id for target in node.targets if isinstance(target, ast.Name)}
            return Ways({name: nodes for name, nodes in env.items() if name not in gone})
        return Ways(self._bound(node, env))

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], env: Env) -> Ways:
        done = [self.block(body, env) for body in bodies]
        ends = [one.end for one in done if one.end is not None]
        return Ways(
            joined(ends) if ends else None,
            [env for one in done for env in one.breaks],
            [env for one in done for env in one.continues],
        )

    def loop(self, node: _Loop, env: Env) -> tuple[Env, Env]:
        """What names may stand for at its head, and after it."""
        head: Env = dict(env)
        while True:
            test = self._bound(node.test, head) if isinstance(node, ast.While) else head
            inside = test if isinstance(node, ast.While) else self._bound(node.target, head)
            done = self.block(node.body, inside)
            again = joined([env, done.end, *done.continues])
            if again == head:
                break
            head = again
        last = self.block(node.orelse, head)
        return head, joined([last.end, *done.breaks])

    def _try(self, node: ast.Try | ast.TryStar, env: Env) -> Ways:
        body = self.block([*node.body, *node.orelse], env)
        thrown = anywhere_in(self.file, self.scope, node.body, env)
        handlers = [
            self.block(handler.body, self._caught(handler, thrown)) for handler in node.handlers
        ]
        ways = [body, *handlers]
        breaks = [env for one in ways for env in one.breaks]
        continues = [env for one in ways for env in one.continues]
        ends = [one.end for one in ways if one.end is not None]
        if not node.finalbody:
            return Ways(joined(ends) if ends else None, breaks, continues)
        # The last part may run after any of it.
        every = self._any(node, env)
        final = self.block(node.finalbody, every)
        breaks = [*([final.end or every] if breaks else []), *final.breaks]
        continues = [*([final.end or every] if continues else []), *final.continues]
        return Ways(final.end if ends else None, breaks, continues)

    def _caught(self, handler: ast.ExceptHandler, env: Env) -> Env:
        return {**env, handler.name: frozenset({handler})} if handler.name else env

    def _any(self, node: ast.AST, env: Env) -> Env:
        found = dict(env)
        for name, one in self.bindings(node, deep=True):
            found[name] = found.get(name, frozenset()) | {one}
        return found

    def _bound(self, node: ast.AST, env: Env) -> Env:
        """After an expression or a simple statement; of several bindings any may be the last."""
        found: dict[str, set[ast.AST]] = {}
        for name, one in self.bindings(node, deep=False):
            found.setdefault(name, set()).add(one)
        return {**env, **{name: frozenset(nodes) for name, nodes in found.items()}}

    def bindings(self, node: ast.AST, deep: bool) -> Iterator[tuple[str, ast.AST]]:
        """The names that a node binds in this scope, and where."""
        index = self.file.index
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                stored = isinstance(one.ctx, ast.Store)
                if stored and one in self.scope.names.get(one.id, ()):
                    yield one.id, one
            elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if index.scope_of.get(one) is self.scope:
                    yield one.name, one
            elif isinstance(one, ast.alias):
                name = one.asname or one.name.partition(".")[0]
                if one in self.scope.names.get(name, ()):
                    yield name, one
            elif deep and isinstance(one, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
                name = one.name or ""
                if one in self.scope.names.get(name, ()):
                    yield name, one
