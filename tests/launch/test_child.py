"""How a process of a job joins it, without JAX's coordinator."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from shardlift import _compat
from shardlift.launch import child
from shardlift.launch.child import Place, _join
from shardlift.launch.program import Program
from shardlift.launch.session import RunOptions, to_json

PLACE = Place(1, 2, "127.0.0.1:5", 300, link=3, dump=4)


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A JAX that notes how it was asked to join."""
    monkeypatch.setattr(_compat, "keep_gloo_on_loopback", lambda: None)
    asked: list[Any] = []
    distributed = SimpleNamespace(
        asked=asked,
        initialize=lambda *args, **kwargs: asked.append((args, kwargs)),
        is_initialized=lambda: bool(asked),
    )
    return SimpleNamespace(distributed=distributed)


def test_the_process_joins_once_and_the_programs_own_call_finds_that_done(jax: Any) -> None:
    stages: list[dict[str, Any]] = []
    _join(jax, PLACE, SimpleNamespace(tell=lambda **what: stages.append(what)))  # type: ignore[arg-type]
    assert stages == [{"stage": "joining"}, {"stage": "joined"}]
    jax.distributed.initialize("10.0.0.1:1", num_processes=2, process_id=1)
    ((args, options),) = jax.distributed.asked
    assert args == (PLACE.coordinator, 2, 1)
    assert options["coordinator_bind_address"] == PLACE.coordinator
    assert options["initialization_timeout"] == 300
    for wrong in ({"num_processes": 3}, {"process_id": 0}):
        with pytest.raises(ValueError, match="leave the argument out"):
            jax.distributed.initialize(**wrong)


def test_the_session_of_a_process_knows_that_it_is_one_of_a_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So its record is written before its first call. It joins once jax is imported."""
    argument = to_json(Program("train.py"), RunOptions(), place=asdict(PLACE))
    for name in ("AfterImport", "Control", "RunSession"):
        monkeypatch.setattr(child, name, MagicMock())
    monkeypatch.setattr(Program, "run", lambda _: None)
    child.main(argument)
    child.AfterImport.return_value.install.assert_called_once()  # type: ignore[attr-defined]
    assert child.RunSession.return_value.joined is True  # type: ignore[attr-defined]
