"""Everything is put in, and everything is taken out again."""

import functools
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift._legacy import Session
from shardlift._legacy.names import CHANGED, KEYWORDS
from shardlift._legacy.patches import Patches
from tests import children


def state_of_jax() -> dict[str, dict[str, object]]:
    """The dictionaries of all modules of JAX, and of the types that are changed."""
    owners = {name: m for name, m in sys.modules.items() if name.split(".")[0] in ("jax", "jaxlib")}
    array_type = type(jnp.ones(1))
    types_ = {str(kind): kind for kind in (array_type, jax.Device, jax.NamedSharding)}
    types_["config"] = type(jax.config)
    found = {name: dict(vars(owner)) for name, owner in (*owners.items(), *types_.items())}
    found["meta_path"] = dict(enumerate(sys.meta_path))
    return found


def differences(before, after) -> list[str]:
    found = [f"module {name}" for name in before.keys() ^ after.keys()]
    for owner in before.keys() & after.keys():
        a, b = before[owner], after[owner]
        for name in a.keys() | b.keys():
            if a.get(name) is not b.get(name) and a.get(name) != b.get(name):
                found.append(f"{owner}.{name}")
    return found


def use_everything() -> None:
    import jax.experimental.stax
    from jax import tree_map
    from jax.config import config
    from jax.interpreters import pxla

    config.update("jax_pmap_shmap_merge", False)
    y = jax.pmap(lambda x: x + 1)(jnp.arange(8.0))
    tree_map(lambda x: x[3], [y])
    assert isinstance(y, pxla.ShardedDeviceArray)


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """What the tests import of JAX is there before they compare."""
    with shardlift.legacy():
        use_everything()


def test_nothing_is_left():
    before = state_of_jax()

    def program() -> None:
        use_everything()
        assert differences(before, state_of_jax())
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"), shardlift.legacy():
        program()
    assert differences(before, state_of_jax()) == []


def test_no_module_is_left_that_a_library_imported():
    code = compile("import jax.interpreters.masking", "library.py", "exec", dont_inherit=True)
    with shardlift.legacy():
        exec(code, {"__name__": "library"})
        assert hasattr(jax.interpreters, "masking")
    assert not hasattr(jax.interpreters, "masking")
    assert "jax.interpreters.masking" not in sys.modules


def test_nothing_is_left_when_putting_in_fails(monkeypatch):
    before = state_of_jax()
    monkeypatch.setattr("shardlift._legacy.pmaps.old_pmap", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), shardlift.legacy():
        raise AssertionError("not reached")
    assert differences(before, state_of_jax()) == []
    monkeypatch.undo()
    with shardlift.legacy():  # and it can be entered again
        use_everything()


def test_jax_is_waited_for(monkeypatch):
    hooks, prepared = [*sys.meta_path], []
    session = Session(prepare=lambda: prepared.append(1), patch=False)
    with monkeypatch.context() as absent:
        absent.delitem(sys.modules, "jax")
        session.enter()
    (hook,) = [one for one in sys.meta_path if one not in hooks]
    assert not prepared
    hook.then(jax)
    session.exit()
    assert prepared == [1]
    assert sys.meta_path == hooks


def test_without_patch_and_recorder_nothing_is_put_in():
    before = state_of_jax()
    with shardlift.legacy(patch=False) as uses:
        assert differences(before, state_of_jax()) == []
    assert not uses


def test_inside_another_it_adds_nothing():
    stock = jax.pmap
    with shardlift.legacy() as outer:
        ours = jax.pmap
        with shardlift.legacy() as inner:
            assert jax.pmap is ours
            jax.tree_map(abs, [1])
        assert inner is outer == {"jax.tree_map": 1}
        assert jax.pmap is ours
    assert jax.pmap is stock


def test_two_threads_stay_in_until_the_last_leaves():
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        with shardlift.legacy():
            entered.set()
            leave.wait(30)
            seen.append(jax.tree_map(abs, [-1]))

    thread = threading.Thread(target=other)
    with shardlift.legacy():
        thread.start()
        assert entered.wait(30)
    assert hasattr(jax, "tree_map")
    leave.set()
    thread.join()
    assert seen == [[1]]
    assert not hasattr(jax, "tree_map")


def test_modules_that_hold_pmap_get_it_and_give_it_back():
    early, late = types.ModuleType("early_library"), types.ModuleType("late_library")
    early.pmap = jax.pmap
    early.by_name = functools.partial(jax.pmap, axis_name="i")
    sys.modules["early_library"] = early
    partial = early.by_name
    stock = jax.pmap
    try:
        with shardlift.legacy() as uses:
            sys.modules["late_library"] = late
            late.pmap = jax.pmap  # as `from jax import pmap` does
            y = early.by_name(lambda x: x - jax.lax.pmean(x, "i"))(np.arange(8.0, dtype="f4"))
            early.pmap(lambda x: x)(y)
            late.pmap(lambda x: x)(y)
        assert uses["jax.pmap"] == 3
        assert (early.pmap, early.by_name, late.pmap) == (stock, partial, stock)
    finally:
        del sys.modules["early_library"]
        sys.modules.pop("late_library", None)


def test_undo_goes_on_after_an_error():
    class Thing:
        value = 1

    patches = Patches()
    patches.set(Thing, "value", 2)
    patches.on_undo(lambda: 1 / 0)
    patches.set(Thing, "other", 3)
    with pytest.raises(ExceptionGroup, match="some changes could not be undone") as caught:
        patches.undo()
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
    assert Thing.value == 1
    assert not hasattr(Thing, "other")


def test_what_others_set_meanwhile_stays():
    thing = types.SimpleNamespace(value=1)
    patches = Patches()
    patches.set(thing, "value", 2)
    thing.value = 3
    patches.undo()
    assert thing.value == 3


def test_inside_what_jax_has_means_what_it_meant():
    """Only what is documented is replaced; today's libraries in the same process rely on it."""
    before = state_of_jax()
    with shardlift.legacy():
        during = state_of_jax()
    changed = {
        f"{owner}.{name}"
        for owner in before.keys() & during.keys()
        if owner.startswith("jax")
        for name in before[owner].keys() & during[owner].keys()
        if before[owner][name] is not during[owner][name]
    }
    others = "jax.tree.map", "jax.tree_util.tree_map", "jax.numpy.broadcast_to"
    documented = {"jax.pmap", *CHANGED, *KEYWORDS, *others}
    assert {name for name in changed if not name.endswith("__getattr__")} <= documented


@pytest.mark.slow
@pytest.mark.libraries
def test_libraries_of_today_import_the_same_names_inside(tmp_path):
    """What flax, optax, equinox, numpyro and haiku hold of JAX: the same with and without."""
    program = tmp_path / "program.py"
    program.write_text(
        "import importlib, sys\n"
        "for name in 'flax.linen optax equinox numpyro haiku'.split():\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError: continue\n"
        "seen = sorted(\n"
        "    (m, n, getattr(v, '__module__', ''), getattr(v, '__qualname__', type(v).__name__))\n"
        "    for m, module in list(sys.modules.items())\n"
        "    if m.split('.')[0] in ('flax', 'optax', 'equinox', 'numpyro', 'haiku')\n"
        "    for n, v in list(vars(module).items())\n"
        "    if str(getattr(v, '__module__', '')).startswith(('jax', 'shardlift')))\n"
        "print(*seen, sep='\\n')\n"
    )
    plain = children.run([sys.executable, str(program)])
    under = children.run([sys.executable, "-m", "shardlift", "run", "--quiet", str(program)])
    assert plain.returncode == under.returncode == 0, under.stderr
    lines = {*plain.stdout.splitlines()} ^ {*under.stdout.splitlines()}
    assert not [line for line in lines if "pmap" not in line and "unreplicate" not in line]
