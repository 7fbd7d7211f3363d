"""Which files are the user's own: neither of Python, nor of a library, nor of this package."""

import functools
import re
import sysconfig
from pathlib import Path

_FOLDERS = sysconfig.get_paths()["stdlib"], Path(__file__).absolute().parent
_OTHERS = ("<frozen", *(f"{folder}/" for folder in _FOLDERS))
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/(\w+)")


def installed_package(file: str) -> str:
    """The installed package that a file belongs to; empty if it belongs to none."""
    match = _INSTALLED.match(file)
    return match[1] if match else ""


@functools.cache
def is_own(file: str, package: str = "") -> bool:
    """Whether a file is of the user's program; ``package`` is the program's, if it is installed.

    >>> is_own("/home/me/train.py"), is_own("<frozen runpy>")
    (True, False)
    >>> installed = "/venv/lib/python3.11/site-packages/mine/train.py"
    >>> is_own(installed), is_own(installed, package="mine")
    (False, True)
    """
    owner = installed_package(file)
    return owner == package if owner else not file.startswith(_OTHERS)
