"""The files of the paths that a command was given, and what their project says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlift.cli.config import Config, ConfigError, find_config
from shardlift.cli.files import Passed, find_files
from shardlift.cli.stop import stop
from shardlift.source.settings import Settings


@dataclass(frozen=True)
class ProjectFiles:
    """What a command looks at."""

    config: Config
    settings: Settings
    files: list[str]
    passed: Passed


def open_project(
    paths: tuple[str, ...], target: str | None = None, exclude: Sequence[str] = ()
) -> ProjectFiles:
    """The configuration and the files; stops the command if there are none, or it is wrong."""
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        stop(f"no such file or folder: {', '.join(missing)}")
    try:
        config = find_config(Path(paths[0]))
        settings = config.settings(target)
    except (ConfigError, ValueError) as error:
        stop(str(error))
    passed = Passed()
    files = list(find_files(paths, passed, excluded=config.excluded(exclude)))
    if not files and not passed.failed:
        stop(f"no .py or .ipynb file under {', '.join(paths)}")
    return ProjectFiles(config, settings, files, passed)
