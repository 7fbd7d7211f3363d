"""The small tools: escaping, replacing files, acting after an import, lazy packages."""

import importlib
import os
import stat
import sys

import pytest

from shardlift._escape import CONTROL, escape_control
from shardlift._files import replace_file
from shardlift._import_hook import AfterImport
from shardlift._lazy import lazy


@pytest.mark.parametrize("character", "\x00\x1b\x7f\x9b\u202e\u2066\u2028\udc80")
def test_control_characters_are_escaped(character):
    text = escape_control(f"a{character}b")
    assert text.startswith("a\\")
    assert text.endswith("b")
    assert not CONTROL.search(text)
    assert escape_control(character, keep=character) == character


def test_ordinary_text_is_left_as_it_is():
    assert escape_control("ünïcode 中文 \\n {x}") == "ünïcode 中文 \\n {x}"


def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    replace_file(tmp_path / "ours", b"")
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "ours")}
    assert len(modes) == 1


@pytest.mark.parametrize("call", ["open", "fsync"])
def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    done = getattr(os, call)

    def interrupted(*arguments, **options):
        done(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"old"}


def test_a_file_of_somebody_else_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda _: "00")
    (tmp_path / ".a.00").write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "a", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {".a.00": b"theirs"}


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "imported_late"
    sys.modules.pop("imported_late", None)


def test_the_hook_runs_once_after_the_import(module):
    values = []
    hook = AfterImport(module, lambda m: values.append(m.value))
    hook.install()
    imported = importlib.import_module(module)
    assert values == [1]
    assert hook not in sys.meta_path
    loader = type(imported.__loader__).__name__
    assert loader == type(imported.__spec__.loader).__name__ == "SourceFileLoader"
    del sys.modules[module]
    importlib.import_module(module)
    assert values == [1]


def test_a_removed_hook_does_not_run(module):
    hook = AfterImport(module, lambda m: pytest.fail("it was removed"))
    hook.install()
    hook.remove()
    hook.remove()
    importlib.import_module(module)


def test_a_lazy_package_refuses_other_names():
    get, names = lazy("package", {"b": "json", "a": "json"})
    assert names() == ["a", "b"]
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'c'"):
        get("c")
