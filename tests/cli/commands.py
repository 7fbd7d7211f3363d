"""Commands of shardlift, run in this process, and git."""

from functools import partial

from click.testing import CliRunner, Result

from shardlift.cli import main
from tests import children


def run(command: str, *arguments: str) -> Result:
    """The outcome of a command; what it raises, the test raises."""
    return CliRunner().invoke(main, [command, *arguments], catch_exceptions=False)


check = partial(run, "check", "--fail-on", "note")  # it fails for a plain site, too
fix, migrate, report, status = (partial(run, c) for c in ("fix", "migrate", "report", "status"))


def run_git(*arguments: str) -> None:
    """A command of git that has to succeed."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    children.run(["git", *identity, *arguments], check=True)
