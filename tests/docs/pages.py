"""The code blocks of a page, with the marks that say how each is run.

A mark is an HTML comment before the block, which no reader sees:

| mark | means |
|---|---|
| `<!-- not run: why -->` | shown only; `test_pages.py` has a list of these |
| `<!-- file: train.py -->` | not run by itself: written to the folder of the page |
| `<!-- part of: train.py -->` | not run: these lines are in that file of the folder by now |
| `<!-- processes: 2 -->` | a program of its own, run in so many processes with 2 devices each |
| `<!-- jax: >=0.12 -->` | only on these versions (also `<0.12`) |
| `<!-- needs: flax, optax -->` | at the top of a page: only where these are installed |

A comment that begins with `run` and a line break holds Python that is run and not shown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Blocks that are run; blocks that say what came of it; blocks that are no programs.
RUN, SHOWN, DATA = ("python", "console", "sh"), ("output", "pytb", "diff"), ("toml", "yaml", "json")

_MARK = re.compile(r"^\s*<!-- (?P<key>[a-z ]+): (?P<value>.*) -->$")
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\S*)")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the one of its first line of text."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where to look: `docs/start.md:12`."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def all_pages() -> list[Path]:
    """README and everything written by hand in docs/."""
    found = (path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
    written = (path for path in found if path.parts[0] not in ("_build", "rules", "commands"))
    return [ROOT / "README.md", *(DOCS / path for path in sorted(written))]


def blocks_of(page: Path) -> list[Block]:
    """Every block of code of a page, hidden ones included; directives of Sphinx are not code."""
    return [block for block in _blocks(page) if not block.language.startswith("{")]


def _blocks(page: Path) -> Iterator[Block]:
    marks: dict[str, str] = {}
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        if mark := _MARK.match(line):
            marks[mark["key"]] = mark["value"]
        elif line.strip() == "<!-- run":
            yield Block(page, number + 1, "python", _until(lines, "-->"), marks)
            marks = {}
        elif fence := _FENCE.match(line):
            text = _until(lines, fence["ticks"], len(fence["indent"]))
            yield Block(page, number + 1, fence["language"], text, marks)
            marks = {}
        elif line.strip():
            marks = {}


def _until(lines: Iterator[tuple[int, str]], end: str, indent: int = 0) -> str:
    taken = []
    for _, line in lines:
        if line.strip() == end:
            return "".join(f"{text[indent:]}\n" for text in taken)
        taken.append(line)
    raise ValueError(f"a block does not end: {taken[:2]}")


def needs(page: Path) -> list[str]:
    """The modules without which a page cannot be run."""
    found = re.search(r"^<!-- needs: (.*) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [name.strip() for name in found[1].split(",")] if found else []
