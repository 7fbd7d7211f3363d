"""Files to begin with, and small harm done to them."""

import io
import random
import sysconfig
from functools import cache
from pathlib import Path

import numpy as np

from shardlift.capture.files import dumps
from shardlift.check.rules import all_rules
from tests.capture.captures import NASTY, everything
from tests.notebooks import notebook
from tests.rewrite.programs import PROGRAMS

TESTS = Path(__file__).parents[1]
WORDS = [
    *(b"jax.pmap", b"pmap", b"(", b")", b"[0]", b"\n", b"\r", b"\r\n", b"\t", b"\x0c", b" ", b","),
    *(b"=", b":", b"lambda x: x[0]", b"'", b'"""', b"\\", b"# noqa: SL201", b"@", b"def f(x):\n"),
    *(b"async ", b"await ", b"yield ", b"return ", b"global x\n", b"*", b"**", b"\xff", b"\x00"),
    *("é𝒳\u2028\x1b[31m".encode(), b"None", b"0", b"1e999", b"9" * 50, b"in_axes=", b"static_"),
    *(b"broadcasted_argnums=", b"devices=", b"f'{", b"}'", b"from jax import ("),
    *(b"jax.tree_map", b"functools.partial", b"jax_utils.replicate", b"class A:\n", b"if 1:\n"),
    *(b"-1", b"null", b"true", b"{}", b"[]", b"NaN", b'"', b"{", b"}", b"[", b"]", b"[z-a]", b"!"),
]


@cache
def corpus(target: str) -> tuple[bytes, ...]:
    """Whole files that a target is meant for."""
    if target in ("check", "migrate"):
        return _python()
    if target.endswith("notebook"):
        return tuple(_notebook(text) for text in _python())
    if target == "capture":
        return tuple(dumps(everything(text)).encode() for text in ("", "f", NASTY.strip()))
    if target == "arrays":
        stream = io.BytesIO()
        np.savez(stream, **{"0.0.inputs.0": np.arange(8, dtype=np.uint8)})
        return (stream.getvalue(),)
    return (
        *(path.read_bytes() for path in TESTS.parent.glob("*.toml")),
        b'[tool.shardlift]\nselect = ["SL1"]\ntarget-jax = "0.10"\n[tool.poetry]\nx = 1\n',
        b"*.pyc\n!a.py\n/build/\n**/x\n[a-z]?.txt\njax[cuda12]>=0.4,<0.6 # x\n# noqa: SL201, SL3\n",
    )


def _python() -> tuple[bytes, ...]:
    texts = [text for program in PROGRAMS.values() for text in program.values()]
    examples = [example for rule in all_rules().values() for example in (*rule.bad, *rule.good)]
    texts += [example for example in examples if isinstance(example, str)]
    found = [text.encode() for text in texts]
    found += [path.read_bytes() for path in sorted((TESTS / "legacy/programs").glob("*.py"))]
    # Code of other people's, with a pmap in it.
    library = Path(sysconfig.get_paths()["stdlib"])
    for name in ("ast", "dataclasses", "textwrap", "tokenize", "functools", "heapq", "copy"):
        lines = (library / f"{name}.py").read_bytes().splitlines(keepends=True)[:400]
        found.append(b"".join(lines) + b"\nimport jax\np_step = jax.pmap(step, axis_name='i')\n")
    return tuple(found)


def _notebook(text: bytes) -> bytes:
    cells = text.decode(errors="replace").split("\n\n")
    return (notebook("%matplotlib inline\n!ls", *cells) + "\n").encode()


def mutated(target: str, rng: random.Random) -> bytes:
    """A file of the corpus with a few changes."""
    files = corpus(target)
    data = rng.choice(files)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        data = _changed(data, rng, files)
    return data


def _changed(data: bytes, rng: random.Random, files: tuple[bytes, ...]) -> bytes:
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + rng.choice((1, 2, 8, 40, 200)))
    kind = rng.randrange(8)
    if kind < 6:
        other = rng.choice(files)
        start = rng.randrange(len(other) + 1)
        new, rest = (
            (b"", data[to:]),
            (rng.choice(WORDS), data[at:]),
            (rng.choice(WORDS), data[to:]),
            (data[at:to], data[at:]),
            (bytes([rng.randrange(256)]), data[at + 1 :]),
            (other[start : start + rng.choice((20, 200))], data[at:]),
        )[kind]
        return data[:at] + new + rest
    lines = data.splitlines(keepends=True)
    if kind == 6 and len(lines) > 1:
        one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[one], lines[two] = lines[two], lines[one]
        return b"".join(lines)
    end = rng.choice((b"\r\n", b"\r"))
    return data.replace(b"\n", end) if rng.random() < 0.2 else data[:at]
