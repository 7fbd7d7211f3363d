"""The parts of a capture, which the processes of a job write beside each other."""

import dataclasses
from pathlib import Path

import pytest

from shardlift.capture.files import CaptureError, read, write
from shardlift.capture.parts import find_parts, merge_parts, part_path, read_processes, read_whole
from shardlift.capture.schema import Capture

from .captures import process, site


def part(k: int, count: int = 2, *, started: float = 100.0, ended: bool = True, job: str = "a"):
    """The capture of process ``k``."""
    me = dataclasses.replace(process(k, count), ended=ended, host=f"host{k}")
    sites = (site(processes=(k,)),)
    return Capture(started=started, seconds=10.0, processes=(me,), sites=sites, job=job)


def save(folder: Path, *captures: Capture) -> str:
    record = str(folder / "run.json")
    for capture in captures:
        write(capture, part_path(record, capture.processes[0].index))
    return record


def indices(capture: Capture) -> list[int]:
    return [process.index for process in capture.processes]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_parts_are_found(tmp_path: Path):
    for name in ("run.json", "run.json.npz", "run.json.1.npz", "run.json.01", "xrun.json.2"):
        (tmp_path / name).write_text("")
    for name in ("run.json.10", "run.json.2"):
        (tmp_path / name).write_text("")
    assert list(find_parts(str(tmp_path / "run.json"))) == [2, 10]
    assert find_parts(str(tmp_path / "nowhere" / "run.json")) == {}


def test_reading_leaves_the_parts_and_merging_one_file(tmp_path: Path):
    record = save(tmp_path, part(1), part(0))
    whole = read_whole(record)
    assert (indices(whole), whole.missing) == ([0, 1], ())
    assert whole.sites[0].calls == 2 * site().calls
    assert names(tmp_path) == ["run.json.0", "run.json.1"]
    assert merge_parts(record) == read(record) == whole
    assert names(tmp_path) == ["run.json"]


def test_parts_stay_until_every_process_has_ended(tmp_path: Path):
    record = save(tmp_path, part(0, 3), part(1, 3))
    assert merge_parts(record).missing == (2,)
    save(tmp_path, part(2, 3, ended=False))
    assert [process.ended for process in merge_parts(record).processes] == [True, True, False]
    assert names(tmp_path) == ["run.json.0", "run.json.1", "run.json.2"]
    save(tmp_path, part(2, 3))
    assert indices(merge_parts(record)) == [0, 1, 2]
    assert names(tmp_path) == ["run.json"]


def test_a_whole_capture_counts_before_a_part_that_was_left(tmp_path: Path):
    record = save(tmp_path, part(0), part(1))
    whole = merge_parts(record)
    save(tmp_path, part(0, started=101.0))
    assert read_whole(record) == merge_parts(record) == whole


@pytest.mark.parametrize("job", ["old", ""])
def test_an_earlier_job_is_left_out(tmp_path: Path, job: str):
    record = save(tmp_path, part(1, started=50.0, job=job), part(0, started=100.0))
    assert indices(read_whole(record)) == [0]
    assert read_whole(record).missing == (1,)


@pytest.mark.parametrize("job", ["old", ""])
def test_the_record_of_an_earlier_job_is_replaced(tmp_path: Path, job: str):
    record = save(tmp_path, part(0, 1, started=200.0, job="new"))
    write(part(0, 1, started=100.0, job=job), record)
    assert read_whole(record).started == 200.0
    merge_parts(record)
    assert read(record).started == 200.0


def test_a_damaged_part_is_named_and_the_others_are_read(tmp_path: Path):
    record = save(tmp_path, part(0), part(1))
    Path(part_path(record, 1)).write_text('{"schema": ')
    Path(part_path(record, 2)).mkdir()
    whole = read_whole(record)
    assert whole.missing == (1,)
    for problem in ("run.json.1 is damaged", "run.json.2 cannot be read"):
        assert [text for text in whole.unseen if problem in text]
    assert processes_in(record) == {0: "run.json.0"}


@pytest.mark.parametrize("reader", [read_whole, read_processes])
def test_without_a_part_the_error_is_that_of_the_file(tmp_path: Path, reader):
    record = str(tmp_path / "run.json")
    with pytest.raises(FileNotFoundError):
        reader(record)
    Path(part_path(record, 0)).write_text("")
    with pytest.raises(CaptureError, match=r"run\.json\.0 is damaged"):
        reader(record)


def test_a_damaged_record_is_replaced_by_a_new_job(tmp_path: Path):
    record = save(tmp_path, part(0), part(1))
    Path(record).write_text("no JSON")
    assert indices(merge_parts(record)) == [0, 1]


def test_programs_on_their_own_are_not_merged(tmp_path: Path):
    record = str(tmp_path / "run.json")
    for k in range(6):
        write(part(0, 1, job=""), part_path(record, k))
    with pytest.raises(CaptureError, match=r"6 parts of programs that ran on their own") as error:
        read_whole(record)
    assert str(error.value).endswith("run.json.3 and 2 more")


def processes_in(record: str) -> dict[int, str]:
    return {k: Path(path).name for k, (path, _) in read_processes(record).items()}


def test_the_processes_of_the_newest_job_are_read_one_by_one(tmp_path: Path):
    record = save(tmp_path, part(0, started=200.0), part(1, started=200.0), part(2, 3, job="old"))
    assert processes_in(record) == {0: "run.json.0", 1: "run.json.1"}
    assert processes_in(f"{record}.1") == {1: "run.json.1"}
    write(part(0, 1, started=150.0, job=""), record)  # of an earlier run
    assert processes_in(record) == {0: "run.json.0", 1: "run.json.1"}
    write(part(0, 1, started=300.0, job=""), record)
    assert processes_in(record) == {0: "run.json"}


def test_a_merged_capture_has_no_calls_to_compare(tmp_path: Path):
    record = save(tmp_path, part(0), part(1))
    assert all(site.samples == () for site in merge_parts(record).sites)
    with pytest.raises(CaptureError, match="merged from the records of 2 processes"):
        read_processes(record)
