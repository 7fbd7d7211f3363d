"""The prefilter: which rules may match in a file, by a search of its bytes before it is parsed.

Words are searched as they are. Names of JAX are searched in every way that they can be written:
`jax.tree_map`, an import of it, or an attribute of the name under which its module is imported.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain

from shardlift.check.rules import all_rules

# Without one of these words no rule matches but SL001. Most files are excluded by this test.
_GATES = (b"jax", b"flax", b"pmap", b"PMAP")
_COMMENT = "noqa"
# The limit keeps the search short if a bracket is never closed.
_FROM = re.compile(
    rb"from ((?:jax|flax)[\w.]*) import[ \t]*"
    rb"(\([^)]{0,9999}\)|[^\n(\\]*(?:\\\r?\n[^\n(\\]*)*)"
)
_IMPORT_AS = re.compile(rb"import ((?:jax|flax)[\w.]*) as (\w+)")
# Several patterns: Python searches quickly for one that begins with fixed letters.
_DOTTED = [re.compile(library + rb"\.[\w.]+") for library in (b"jax", b"jaxlib", b"flax")]


def active_codes(content: bytes, codes: tuple[str, ...], notebook: bool = False) -> tuple[str, ...]:
    """The codes of the rules that may match in a file with this content."""
    if not any(gate in content for gate in _GATES):
        if _COMMENT.encode() not in content:
            return ()
        codes = tuple(code for code in codes if _COMMENT in all_rules()[code].words)
    if notebook:
        # The lines of a cell are JSON strings: without quotes they are close enough to Python.
        content = content.replace(b"\\n", b"\n").replace(b'"', b"\n")
    words, modules, by_code = _vocabulary(codes)
    present = {word for word in words if word in content}
    if modules and (b"jax" in content or b"flax" in content):
        present.update(_names(content, modules))
    return tuple(
        rule.code
        for rule in (all_rules()[code] for code in codes)
        if not present.isdisjoint(by_code[rule.code])
        if rule.pattern is None or rule.pattern.search(content)
    )


def _names(content: bytes, modules: frozenset[bytes]) -> Iterator[bytes]:
    """Every dotted name of JAX in a text, with all its prefixes."""
    # What comes by `from names import *` is called as usual.
    aliases = {b"jnp": b"jax.numpy"} if b"import *" in content else {}
    for base, listed in _FROM.findall(content):
        for item in listed.strip(b"()").split(b","):
            name, *rest = item.split(b"#")[0].replace(b"\\", b"").split()[::2] or [b""]
            yield from _prefixes(base + b"." + name)
            aliases[rest[0] if rest else name] = base + b"." + name
    for module, alias in _IMPORT_AS.findall(content):
        yield from _prefixes(module)
        aliases[alias] = module
    for match in chain.from_iterable(pattern.finditer(content) for pattern in _DOTTED):
        # Not if it is the end of another name: `objax.util`, `acme.jax.networks`.
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
    """The words of some rules, the modules of their names, and words and names by code."""
    rules = [all_rules()[code] for code in codes]
    names = [name.encode() for rule in rules for name in rule.names]
    modules = {prefix for name in names for prefix in _prefixes(name.rpartition(b".")[0])}
    by_code = {rule.code: frozenset(w.encode() for w in rule.words + rule.names) for rule in rules}
    words = frozenset(word.encode() for rule in rules for word in rule.words)
    return words, frozenset(modules), by_code
