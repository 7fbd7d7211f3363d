"""Which rules can find anything in a file: a search of its bytes, before anything is parsed.

Plain words are looked for as they are. Names of JAX are looked for the way they can be written:
`jax.tree_map`, an import of it, or an attribute of the name that its module was imported under.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from shardlift.check.rules import all_rules

# Without one of these no rule has anything to say; most files of the world end here.
_GATES = (b"jax", b"flax", b"pmap", b"PMAP", b"noqa")
# No list of names is longer than this: a bracket that is never closed is not read to the end.
_FROM = re.compile(rb"from ((?:jax|flax)[\w.]*) import[ \t]*(\([^)]{0,9999}\)|[^\n(]*)")
_IMPORT_AS = re.compile(rb"import ((?:jax|flax)[\w.]*) as (\w+)")
_DOTTED = re.compile(rb"(?:jax|flax)\.[\w.]+")


def active(content: bytes, codes: tuple[str, ...], notebook: bool = False) -> tuple[str, ...]:
    """The codes that could apply to a file with this content."""
    if not any(gate in content for gate in _GATES):
        return ()
    if notebook:
        # The lines of a cell are JSON strings: near enough to Python without their quotes.
        content = content.replace(b"\\n", b"\n").replace(b'"', b" ")
    words, modules, by_code = _vocabulary(codes)
    said = {word for word in words if word in content}
    if modules and (b"jax" in content or b"flax" in content):
        said.update(_names(content, modules))
    return tuple(code for code in codes if not said.isdisjoint(by_code[code])) if said else ()


def _names(content: bytes, modules: frozenset[bytes]) -> Iterator[bytes]:
    """Every dotted name of JAX that a text says, with all its prefixes."""
    aliases: dict[bytes, bytes] = {}
    for base, listed in _FROM.findall(content):
        for item in listed.strip(b"()").split(b","):
            name, *rest = item.split(b"#")[0].replace(b"\\", b"").split()[::2] or [b""]
            yield from _prefixes(base + b"." + name)
            aliases[rest[0] if rest else name] = base + b"." + name
    for module, alias in _IMPORT_AS.findall(content):
        yield from _prefixes(module)
        aliases[alias] = module
    for match in _DOTTED.finditer(content):
        # Not the end of another name: `objax.util`, `acme.jax.networks`.
        before = content[match.start() - 1 : match.start()]
        if not before.isalnum() and before not in (b".", b"_"):
            yield from _prefixes(match[0])
    for alias, module in aliases.items():
        if module in modules:
            for rest in set(re.findall(re.escape(alias) + rb"\.([\w.]+)", content)):
                yield from _prefixes(module + b"." + rest)


def _prefixes(name: bytes) -> Iterator[bytes]:
    while name:
        yield name
        name = name.rpartition(b".")[0]


@cache
def _vocabulary(
    codes: tuple[str, ...],
) -> tuple[frozenset[bytes], frozenset[bytes], dict[str, frozenset[bytes]]]:
    """The plain words of some rules, the modules that hold the names of others, all by code."""
    rules = [all_rules()[code] for code in codes]
    names = [name.encode() for rule in rules for name in rule.names]
    modules = {prefix for name in names for prefix in _prefixes(name.rpartition(b".")[0])}
    by_code = {rule.code: frozenset(w.encode() for w in rule.words + rule.names) for rule in rules}
    words = frozenset(word.encode() for rule in rules for word in rule.words)
    return words, frozenset(modules), by_code
