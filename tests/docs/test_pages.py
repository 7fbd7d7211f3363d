"""Every block of code in README.md and docs/ is run, or says why it cannot be."""

import importlib.util
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import pytest

from shardlift.rewrite.engine import migrate
from tests import children
from tests.docs.pages import DATA, DOCS, ROOT, RUN, SHOWN, Block, all_pages, blocks_of, needs
from tests.docs.running import Runner, compare, environment, for_this_jax

# Blocks that are marked `not run: why`, by page. A new one has to be counted here.
NOT_RUN = {
    "README.md": 2,
    "docs/cluster.md": 5,
    "docs/editor.md": 6,
    "docs/index.md": 1,
    "docs/migrate/global.md": 3,
    "docs/notebook_of_2021.md": 1,
    "docs/real_projects.md": 1,
    "docs/start.md": 1,
    "docs/verify.md": 4,
}

_READERS: dict[str, Callable[[str], Any]] = {"toml": tomllib.loads, "json": json.loads}
PAGES = all_pages()
START = DOCS / "start.md"


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def _programs() -> dict[str, str]:
    """What every page's folder has: the program of start.md, and what `migrate` makes of it."""
    (old,) = (b.text for b in blocks_of(START) if b.marks.get("file") == "train.py")
    files = {"/p/train.py": old.encode()}
    (new,) = migrate(list(files), files.__getitem__, {"/p", *files}.__contains__).changed
    return {"train.py": old, "src/train.py": old, "train_new.py": new.after}


def _folder(folder: Path) -> Path:
    (folder / "src").mkdir()
    for name, text in _programs().items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_is_of_a_known_kind_and_of_no_machine(page: Path) -> None:
    """A float32 has seven digits, and the last ones differ between CPUs."""
    for block in blocks_of(page):
        if block.language in DATA:
            _READERS.get(block.language, str)(block.text)
        elif "not run" not in block.marks:
            assert block.language in RUN + SHOWN, f"{block.place}: {block.language}"
            assert block.language != "console" or block.text.startswith("$ "), block.place
            shown = block.text if block.language == "output" else _below_prompts(block.text)
            assert not re.findall(r"\b\d*\.\d{5,}", shown), block.place


def test_what_is_not_run_is_listed() -> None:
    marked = Counter(
        _name(block.page) for page in PAGES for block in blocks_of(page) if "not run" in block.marks
    )
    assert dict(marked) == NOT_RUN
    blocks = [block for page in PAGES for block in blocks_of(page) if block.language in RUN]
    assert len(blocks) > 10 * sum(NOT_RUN.values())


def _below_prompts(text: str) -> str:
    lines = text.splitlines() if text.startswith(("$ ", ">>>")) else []
    return "\n".join(line for line in lines if not line.startswith(("$ ", ">>> ", "... ")))


def _in_one_process(page: Path) -> list[Block]:
    blocks, alone = [], False
    for block in blocks_of(page):
        # What follows a program of many processes shows what that one did.
        alone = "processes" in block.marks or (alone and block.language in SHOWN)
        if not alone and block.language not in DATA:
            blocks.append(block)
    return blocks


def _param(page: Path) -> Any:
    # What these pages show, tests of launch, status, report and verify show as well; cpu_hang is
    # about jaxlib 0.10, with which exhaustive tests are run.
    others = {"cluster", "gradual", "report", "upstream/cpu_hang", "verify"}
    shown = _name(page).removeprefix("docs/").removesuffix(".md") in others
    marks = [pytest.mark.exhaustive] if shown else []
    return pytest.param(page, id=_name(page), marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(map(_param, filter(_in_one_process, PAGES))))
def test_the_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in needs(page):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    monkeypatch.chdir(_folder(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    imported = set(sys.modules)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        Runner(tmp_path).run(_in_one_process(page))
    for name in set(sys.modules) - imported:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]  # a module of the page


@pytest.mark.slow
def test_programs_of_many_processes(tmp_path: Path) -> None:
    blocks = [b for page in PAGES for b in blocks_of(page) if for_this_jax(b)]
    programs = [block for block in blocks if "processes" in block.marks]
    text = json.dumps([(block.place, block.line, block.text) for block in programs])
    (tmp_path / "programs.json").write_text(text)
    env = environment(tmp_path)
    env["PYTHONPATH"] += f":{ROOT}"
    command = ["run", "--no-patch", "--processes", "2", "--devices", "2", "-m", "tests.docs.job"]
    children.run(
        [sys.executable, "-m", "shardlift", *command, str(tmp_path)],
        env=env, cwd=tmp_path, check=True,
    )  # fmt: skip
    done = [json.loads((tmp_path / f"done.{index}.json").read_text()) for index in (0, 1)]
    for place, program in enumerate(programs):
        _compare_processes(blocks, program, [results[place] for results in done])


def _compare_processes(blocks: list[Block], program: Block, done: list[list[str]]) -> None:
    """What is printed is shown by process, `[0] 6.0`; an error once, of process 0."""
    after = blocks[blocks.index(program) + 1]
    if after.page == program.page and after.language == "pytb":
        assert all(raised for _, raised in done), program.place
        compare(after, done[0][1])
        return
    assert not any(raised for _, raised in done), (program.place, done)
    if after.page == program.page and after.language == "output":
        lines = [f"[{i}] {line}" for i, (out, _) in enumerate(done) for line in out.splitlines()]
        compare(after, "\n".join(lines))
