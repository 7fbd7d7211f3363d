"""`shardlift lsp` as a command."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from shardlift.cli import main


def test_without_pygls_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shardlift.cli.lsp.server", raising=False)
    for name in ("pygls", "lsprotocol"):
        monkeypatch.setitem(sys.modules, name, None)
    result = CliRunner().invoke(main, ["lsp"])
    assert result.exit_code == 2
    assert 'pip install "shardlift[lsp]"' in result.output
