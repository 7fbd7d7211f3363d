"""What became slower, told from noise; and that all the parts of the page fit together."""

import importlib
import json

import pytest
from bench import __main__ as command
from bench import comparing, page
from bench.comparing import Entry, entries, load, save, slower
from bench.harness import AGAIN, JAX, LIMIT, OURS, Machine, Record, row

MACHINE = Machine(jax="0.12.3", platform="cpu", device_kind="cpu", cores=2)
KEY = ("dispatch", "fed back", 8, 100, OURS)


def record(ours: float, again: float = 1.0, case: str = "fed back") -> Record:
    best = {LIMIT: 100.0, OURS: 100.0 * ours, JAX: 150.0, AGAIN: 100.0 * again}
    return Record(**MACHINE, devices=8, **row(case, 100, best))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (Entry(1.0, 0.0), Entry(1.09, 0.0), False),  # equals differ by as much
        (Entry(1.0, 0.0), Entry(1.12, 0.0), True),
        (Entry(1.0, 0.0), Entry(0.5, 0.0), False),
        (Entry(0.04, 0.0), Entry(0.05, 0.0), True),  # of a twentieth, too
        (Entry(1.0, 0.05), Entry(1.2, 0.08), False),  # a noisy row says less
        (Entry(1.0, 0.05), Entry(1.3, 0.08), True),
    ],
)
def test_slower_is_beyond_the_noise(before, after, told):
    assert bool([*slower({KEY: before}, {KEY: after})]) is told


def test_only_ours_is_watched_and_noise_is_what_equals_differ_by():
    found = entries("dispatch", page.BENCHES["dispatch"], [record(1.1, again=0.94)])
    assert found == {KEY: Entry(1.1, pytest.approx(0.06))}


def test_a_baseline_has_ratios_and_the_environment_and_no_times(tmp_path):
    path = save(MACHINE, {KEY: Entry(1.1, 0.06)}, tmp_path)
    assert path.name == "cpu-0.12.json"
    stored = json.loads(path.read_text())
    assert stored["environment"] == MACHINE
    assert set(stored["rows"][0]) == {
        *("bench", "case", "devices", "size", "contender", "ratio", "noise")
    }
    assert load(MACHINE, tmp_path) == {KEY: Entry(1.1, 0.06)}
    other = ("check", "4 % with pmap", 0, 10, "shardlift check")
    save(MACHINE, {other: Entry(0.3, 0.0)}, tmp_path)  # what was not measured again stays
    assert set(load(MACHINE, tmp_path)) == {KEY, other}


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A bench whose ratio a test sets, compared with a baseline of 1.0."""
    ratios = [1.0]
    monkeypatch.setattr(comparing, "FOLDER", tmp_path)
    monkeypatch.setattr(comparing, "load", lambda _: {KEY: Entry(1.0, 0.0)})
    monkeypatch.setattr(command, "in_fresh_process", lambda *_: MACHINE)
    monkeypatch.setattr(command, "measure", lambda *_: [record(ratios.pop(0))])
    return ratios


@pytest.mark.parametrize(
    ("ratios", "status"), [([1.05], 0), ([1.5, 1.02], 0), ([1.5, 1.4], 1)]
)  # what seems slower is measured once more
def test_the_command_says_what_became_slower(measured, capsys, ratios, status):
    measured[:] = ratios
    assert command.main(["--compare", "dispatch"]) == status
    assert not measured
    assert f"1 ratios compared with the baseline, {status} became slower" in capsys.readouterr().out


@pytest.mark.parametrize("name", page.BENCHES)
def test_what_is_stored_fits_the_bench(name):
    bench = page.BENCHES[name]
    for records in page.load(name):
        assert page.table(name, records).count("\n") == len(records) + 1
        assert {who for r in records for who in bench.ours} <= set(records[0]["best"])
        assert records[0]["ratio"][bench.contenders[0]] == 1.0


def test_every_figure_has_a_script_and_every_baseline_can_be_read():
    pytest.importorskip("matplotlib")
    for figures in page.FIGURES.values():
        for figure in figures:
            assert importlib.import_module(f"bench.figures.{figure}").draw
    for path in comparing.FOLDER.glob("*.json"):
        platform, _, release = path.stem.partition("-")
        machine = Machine(jax=release, platform=platform, device_kind="", cores=1)
        assert load(machine), path
