"""What git has of files, asked so that no setting of the repository can start a program.

`git status` runs the filters, and the file system monitor, that .git/config names; the index is
read without any. Whether a file is as in the index is decided here.
"""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_GIT = ["git", "--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false"]
_GIT += ["-c", f"core.hooksPath={os.devnull}", "-c", f"core.excludesFile={os.devnull}"]
TIMEOUT = 20  # seconds; a pattern of many wildcards keeps git busy for ever
# No fetching of missing objects, by any protocol; nothing is asked or written.
_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0"}


def is_repository(folder: str) -> bool:
    """Whether a folder is in a git repository."""
    here = Path(folder).resolve()
    return any((above / ".git").exists() for above in (here, *here.parents))


def index(folder: str, names: Sequence[str]) -> dict[str, str]:
    """The digests of those files of a folder that git tracks; none if it cannot say."""
    texts = {}
    for entry in _list(folder, "--stage", "--", *names):
        (_, digest, _), path = entry.partition("\t")[0].split(" "), entry.partition("\t")[2]
        texts[path] = digest
    return texts


def ignored(folder: str) -> frozenset[str]:
    """The files and folders below a folder that git ignores; none if it cannot say.

    Only what the repository itself says counts, not the settings of a user.
    """
    asked = ("--others", "--ignored", "--exclude-standard", "--directory")
    names = _list(folder, *asked) if is_repository(folder) else []
    return frozenset(os.path.normpath(os.path.join(folder, name)) for name in names)


def _list(folder: str, *asked: str) -> list[str]:
    command = [*_GIT, "-C", folder, "ls-files", "-z", *asked]
    environment = {**os.environ, **_ENVIRONMENT}
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return os.fsdecode(done.stdout).split("\0")[:-1]


def dirty_files(paths: Sequence[str]) -> list[str]:
    """The files in a repository whose text git does not have: changed, or never added."""
    dirty = []
    for folder, files in _by_folder(paths).items():
        known = index(folder, list(files))
        for name, path in files.items():
            content, digest = Path(path).read_bytes(), known.get(name, "")
            # Perhaps with the line ends of another system.
            same = (_blob(text, digest) for text in (content, content.replace(b"\r\n", b"\n")))
            if digest not in same:
                dirty.append(path)
    return dirty


def _by_folder(paths: Sequence[str]) -> dict[str, dict[str, str]]:
    """The paths by their real folders and names there; not those outside of all repositories."""
    folders: dict[str, dict[str, str]] = {}
    for path in filter(os.path.exists, paths):
        folder, name = os.path.split(os.path.realpath(path))
        if folder in folders or is_repository(folder):
            folders.setdefault(folder, {})[name] = path
    return folders


def _blob(content: bytes, like: str) -> str:
    """The digest that git has of a text: of SHA-1, or in newer repositories of SHA-256."""
    new = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return new(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
