from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ["batches", "paths", "placing", "replicas", "showing", "stitching", "waiting"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str):
    outcome = doctest.testmod(importlib.import_module(f"shardlift.arrays.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
