"""`python -m bench.next_jax`: what it asks an installed JAX, and what it says of the answers."""

import pytest
from bench import next_jax


def test_every_name_that_can_be_written_is_there() -> None:
    answers = next_jax.names()
    assert answers["jax.shard_map"].startswith("(f, ")
    assert len(answers) > 100
    assert [name for name, answer in answers.items() if answer == "missing"] == []


def test_what_differs_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"names": lambda _: {"jax.P": "missing", "jax.jit": "(f)"}}
    monkeypatch.setattr(next_jax, "ASKED", asked)
    monkeypatch.setattr(next_jax, "_in_child", lambda *_: "9.9")
    monkeypatch.setattr(next_jax, "newest_stored", lambda: {"names": {"jax.P": "there"}})
    assert next_jax.main([]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["names: jax.P: there → missing"]
    assert printed.err.splitlines()[-1] == "1 answers are not in the stored result"
