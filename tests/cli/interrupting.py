"""Transactions that end at every one of their steps: killed, interrupted, or with a full disk.

Run as a program, without JAX: each attempt is a fork of it. Prints how many steps there were, and
fails with the step that left a mixture of the old tree and the new one.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from shardlift.cli import transaction
from shardlift.cli.files import OLD_TEXTS
from shardlift.cli.transaction import Replacement

OLD = {"a.py": b"one\r\n", "sub/b.py": b"two\n"}
NEW = {"a.py": b"ONE\r\n", "sub/b.py": b"TWO\n", "sub/helper.py": b"new\n"}
STEPS = ("mkdir", "replace", "rename", "unlink", "rmdir", "link", "fsync", "chmod", "open")
NEED_SPACE = ("mkdir", "link", "fsync", "create")
MODES = {"a.py": 0o755, "sub/b.py": 0o444}


class Interrupter:
    """Calls ``act`` at the given one of the calls that change files."""

    def __init__(self, at: int, act: Callable[[str], None], onwards: bool = False) -> None:
        self.at, self.act, self.onwards, self.count = at, act, onwards, 0
        self.was = {name: getattr(os, name) for name in STEPS}

    def __enter__(self) -> Interrupter:
        for name, real in self.was.items():
            waits = name == "fsync"  # for the disk, which no kill of a process needs
            setattr(os, name, self._counted(name, real if not waits else lambda _: None))
        return self

    def __exit__(self, *error: object) -> None:
        for name, real in self.was.items():
            setattr(os, name, real)

    def _counted(self, name, real):
        def call(*args, **kwargs):
            self._step("create" if name == "open" and args[1] & os.O_CREAT else name)
            return real(*args, **kwargs)

        return call

    def _step(self, name: str) -> None:
        self.count += 1
        if self.count == self.at or (self.onwards and self.count > self.at):
            self.act(name)


def kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt(_: str) -> None:
    raise KeyboardInterrupt


def full(name: str) -> None:
    if name in NEED_SPACE:
        raise OSError(errno.ENOSPC, "No space left on device")


def replacements(root: Path) -> list[Replacement]:
    return [Replacement(str(root / name), OLD.get(name), text) for name, text in NEW.items()]


def write(root: Path, trial: bool = False) -> None:
    if trial:
        with transaction.replaced(replacements(root), str(root)):
            pass
    else:
        transaction.replace_all(replacements(root), str(root))


def recovered(root: Path) -> None:
    """What a person does after a kill; temporary files, and a new file, may stay."""
    if (root / OLD_TEXTS).exists():
        for kept in (path for path in (root / OLD_TEXTS).rglob("*") if path.is_file()):
            os.replace(kept, root / kept.relative_to(root / OLD_TEXTS))
        (root / "sub/helper.py").unlink(missing_ok=True)
        shutil.rmtree(root / OLD_TEXTS)


def tree(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def project_tree(root: Path) -> dict[str, bytes]:
    """Without what a kill leaves: temporary files, and old texts that are still put together."""
    return {name: text for name, text in tree(root).items() if "/." not in f"/{name}"}


def fresh(parent: Path) -> Path:
    root = Path(tempfile.mkdtemp(dir=parent))
    for name, content in OLD.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
        (root / name).chmod(MODES[name])
    return root


def forked(at: int, act: Callable[[str], None], run: Callable[[], None]) -> bool:
    """Run in a process of its own; whether it came to its end."""
    child = os.fork()
    if not child:
        with Interrupter(at, act):
            run()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def is_whole(root: Path, said: str) -> None:
    found = project_tree(root)
    assert found in (OLD, NEW), f"{said}: {found}"
    for name, mode in MODES.items():
        assert (root / name).stat().st_mode & 0o777 == mode, f"{said}: mode of {name}"


def killed_everywhere(parent: Path, trial: bool) -> int:
    """Killed at each step: the tree is whole, or its old texts are in the folder."""
    for at in range(1, 1000):
        root = fresh(parent)
        ended = forked(at, kill, lambda root=root: write(root, trial))
        before = tree(root)
        recovered(root)
        is_whole(root, f"killed at {at}")
        if ended:
            assert before == (OLD if trial else NEW)
            return at - 1
    raise AssertionError("it does not end")


def raised_everywhere(parent: Path, act: Callable[[str], None], onwards: bool, trial: bool) -> int:
    """An error at each step: the tree is whole at once, or after what puts it right."""
    for at in range(1, 1000):
        root = fresh(parent)
        ended = False
        with Interrupter(at, act, onwards):
            try:
                write(root, trial)
                ended = True
            except (KeyboardInterrupt, transaction.WriteError, OSError):
                pass
        if onwards or not (root / OLD_TEXTS).exists():
            is_whole(root, f"{act.__name__} at {at}")  # a full disk leaves nothing to put right
        recovered(root)
        is_whole(root, f"{act.__name__} at {at}, recovered")
        if ended and tree(root) == (OLD if trial else NEW) and at > 20:
            return at
    raise AssertionError("it does not end")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        parent = Path(folder)
        steps = [killed_everywhere(parent, trial) for trial in (False, True)]
        for trial in (False, True):
            raised_everywhere(parent, interrupt, False, trial)
            raised_everywhere(parent, full, True, trial)
    print("steps", *steps)


if __name__ == "__main__":
    assert "jax" not in sys.modules
    main()
