from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ["batches", "paths", "placement", "replicas", "display", "global_arrays", "barriers"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str):
    outcome = doctest.testmod(importlib.import_module(f"shardlift.arrays.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
