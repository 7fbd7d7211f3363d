"""A sample of real files that nobody wrote for us."""

import sysconfig
from pathlib import Path

from shardlift.check.engine import RuleSelection
from shardlift.cli.check_files import check_files


def _files() -> list[str]:
    paths = sysconfig.get_paths()
    folders = {paths["purelib"], paths["platlib"], paths["stdlib"]}
    return sorted({str(path) for folder in folders for path in Path(folder).rglob("*.py")})


def test_a_sample_of_what_is_installed() -> None:
    files = _files()
    sample = files[:: max(1, len(files) // 150)]
    reports = check_files(sample, RuleSelection())
    assert [report.path for report in reports] == sample
