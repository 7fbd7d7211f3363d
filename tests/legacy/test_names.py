"""Every restored name: gone here, back inside, and the thing it stands for."""

import importlib
import sys
import types

import jax
import jax.extend.core.primitives
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import shardlift
from shardlift._legacy import adapters, names
from tests import children

HERE = names.version(jax.__version__)
ROWS = [row for row in names.rows() if row.gone <= HERE]
GONE = {name: home for name, (gone, home) in names.MODULES.items() if gone <= HERE}


@pytest.fixture(scope="module", autouse=True)
def inside():
    with shardlift.legacy() as uses:
        yield uses


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_name_is_there(row, inside):
    module, _, name = row.name.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if not row.successor.startswith("shardlift."):
        assert found is names.resolve(row.successor)
        assert inside[row.name] > 0  # functions of ours are counted when they are called


@pytest.mark.parametrize("module", GONE)
def test_a_module_is_there(module):
    if module == "jax.experimental.gda_serialization.serialization":
        pytest.importorskip("tensorstore", reason="its successor needs it")
    found = importlib.import_module(module)
    assert found.__name__ == module
    assert importlib.util.find_spec(module) is not None
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'no_such_name'"):
        found.no_such_name  # noqa: B018
    if GONE[module]:
        home = importlib.import_module(GONE[module])
        name = next(n for n in dir(home) if n[0] != "_" and not hasattr(sys.modules[module], n[0]))
        assert hasattr(found, name)


def test_rows_of_the_table_are_dated_and_once():
    rows = [row.name for row in names.rows()]
    assert len(rows) == len(set(rows))
    assert all(row.gone > (0,) for row in names.rows())


@pytest.mark.filterwarnings("ignore:jax.core")  # still there, and deprecated, in 0.10
def test_names_of_the_module_behind():
    from jax.core import DropVar, jaxprs_in_params, subjaxprs  # noqa: F401
    from jax.interpreters.batching import primitive_batchers  # noqa: F401


def test_star():
    namespace: dict[str, object] = {}
    exec("from jax.experimental.stax import *", namespace)
    assert "Dense" in namespace


def test_index_updates():
    x = jnp.arange(4.0)
    at = jax.ops.index[1:3]
    for name, y, out in (
        ("update", 9.0, [9, 9]), ("add", 1.0, [2, 3]), ("mul", 3.0, [3, 6]),
        ("min", 1.5, [1, 1.5]), ("max", 1.5, [1.5, 2]),
    ):  # fmt: skip
        updated = getattr(jax.ops, f"index_{name}")(x, at, y)
        np.testing.assert_array_equal(updated, [0, *out, 3])


@pytest.mark.filterwarnings("ignore:jax.core")
def test_axis_frame():
    def body(x):
        frame = jax.core.axis_frame("i")
        assert (frame.size, frame + 1, frame.name) == (8, 9, "i")
        assert "i" in jax.core.unsafe_get_axis_names_DO_NOT_USE()
        return x

    jax.pmap(body, "i")(jnp.ones(8))
    jax.vmap(body, axis_name="i")(jnp.ones(8))
    with pytest.raises(NameError):
        jax.core.axis_frame("j")


def test_old_core():
    aval = jax.core.raise_to_shaped(jax.core.get_aval(jnp.ones(3)))
    assert aval.shape == (3,)
    assert not isinstance(aval, jax.core.ConcreteArray)
    weak = jax.core.raise_to_shaped(aval, weak_type=True)
    assert weak.weak_type
    assert jax.core.full_lower(3) == 3
    extract, params = jax.core.extract_call_jaxpr, {"call_jaxpr": aval, "name": "f"}
    call = types.SimpleNamespace(call_primitive=True)
    assert extract(call, params) == (aval, {"name": "f"})
    assert extract(jax.extend.core.primitives.add_p, params) == (None, params)


def test_jaxprs_by_keyword():
    from jax.extend.core import ClosedJaxpr

    table = np.arange(3.0, dtype=np.float32)
    made = jax.make_jaxpr(lambda x: x + jnp.asarray(table))(table)
    again = ClosedJaxpr(jaxpr=made.jaxpr, consts=made.consts)
    assert isinstance(again, ClosedJaxpr)
    out = jax.core.eval_jaxpr(again.jaxpr, again.consts, table)
    np.testing.assert_array_equal(out[0], 2 * table)


def test_linear_util():
    import jax.linear_util as lu

    assert lu.wrap_init(lambda x: x + 1).call_wrapped(2) == 3
    assert lu.wrap_init(lambda x, k: x + k, {"k": 2}).call_wrapped(2) == 4


def test_functions_of_one_line():
    with jax.experimental.enable_x64():
        assert jnp.ones(1).dtype == np.float64
        with jax.experimental.disable_x64():
            assert jnp.ones(1).dtype == np.float32
    x = jnp.arange(12.0).reshape(4, 3)
    shuffled = jax.random.shuffle(jax.random.PRNGKey(0), x)
    np.testing.assert_array_equal(jnp.msort(shuffled), x)
    assert jax.lax.tie_in(1, 2) == 2
    mesh = jax.make_mesh((8,), ("i",))
    spread = jax.shard_map(
        lambda x: adapters.pvary(x, "i"), mesh=mesh, in_specs=P(), out_specs=P("i")
    )
    assert spread(x).shape == (32, 3)
    assert -jnp.inf == jnp.NINF
    assert [str(x) for x in (jnp.NZERO, jnp.PZERO)] == ["-0.0", "0.0"]


def test_host_callback(monkeypatch):
    from jax.experimental import host_callback as hcb

    seen = []

    @jax.jit
    def f(x):
        y = hcb.id_tap(lambda a, transforms: seen.append((a.sum(), transforms)), x, result=x + 1)
        z = hcb.call(lambda a: a * 2, y, result_shape=jax.ShapeDtypeStruct((3,), np.float32))
        return hcb.id_print(z, what="z")

    out = f(jnp.ones(3))
    hcb.barrier_wait()
    np.testing.assert_array_equal(out, [4, 4, 4])
    assert seen == [(3.0, ())]

    monkeypatch.setattr(jax, "effects_barrier", lambda: seen.append("waited"))
    hcb.barrier_wait("here")
    assert seen[1:] == ["waited"]


@pytest.mark.slow
def test_before_and_after_jax_is_imported():
    """Put in before JAX is there; environment variables that the program sets still count."""
    code = """
import os, sys
import shardlift
assert 'jax' not in sys.modules
with shardlift.legacy() as uses:
    assert 'jax' not in sys.modules
    os.environ.update(JAX_ENABLE_X64="1", JAX_NUM_CPU_DEVICES="2", JAX_PMAP_SHMAP_MERGE="1")
    from jax import pmap, tree_map
    import jax, jax.numpy as jnp
    assert jnp.ones(1).dtype == "float64"
    assert jax.config.jax_pmap_shmap_merge is True
    pmap(lambda x: x)(jnp.ones(2))
    jax_spec = jax.__spec__.loader
assert type(jax_spec).__module__.startswith(("importlib", "_frozen_importlib")), jax_spec
assert jax.pmap is pmap and jax.pmap.__module__.startswith("jax"), (jax.pmap, pmap)
print(sorted(uses))
"""
    done = children.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    assert "JAX_PMAP_SHMAP_MERGE (environment)" in done.stdout


def test_keypaths_of_a_type():
    class Pair:
        pass

    jax.tree_util.register_pytree_node(Pair, lambda _: ((1, 2), None), lambda *_: Pair())
    key = jax.tree_util.AttributeKeyPathEntry
    jax.tree_util.register_keypaths(
        Pair, lambda _: (key("a"), jax.tree_util.GetitemKeyPathEntry(0))
    )
    assert jax.tree.leaves(Pair()) == [1, 2]


def imported(code: str) -> dict[str, object]:
    """The names of a library's module that is being imported."""
    namespace: dict[str, object] = {"__name__": "library"}
    exec(compile(code, "library.py", "exec", dont_inherit=True), namespace)
    return namespace


# A library that only mentions a removed name is imported.
MENTIONS = [
    "from jax.core import MainTrace, new_main",
    "from jax._src.core import MainTrace",
    "import jax\nfrom jax.experimental.host_callback import XlaDevice\n"
    "assert isinstance(jax.devices()[0], XlaDevice)",
    "import jax.interpreters.masking",
    "from jax.interpreters import masking",
    "import jax\ndef f(x: jax.core.MainTrace) -> jax.core.NamedShape: ...",
    "from jax.interpreters import xla\nclass C:\n  key: xla.TranslationContext = None",
    "from jax.interpreters import xla\nxla.translations[xla.xla_call_p] = None",
    "from jax.interpreters import xla\ndef f():\n  xla.register_translation(1, 2)\nf()",
    "from jax.interpreters import pxla\npxla.multi_host_supported_collectives.add(1)",
    "from jax.interpreters import xla\n@xla.register_translation(1, 2)\ndef f(): return 3\n"
    "assert f() == 3\nassert xla.register_translation(f) is f",
    "from jax.interpreters import mlir\nclass E: pass\nmlir.lowerable_effects.add(e := E())\n"
    "assert mlir.lowerable_effects.contains(e)",
    "import typing, jax\nX = typing.Optional[typing.List[jax.core.MainTrace]]",
    "import contextlib, jax\nwith contextlib.nullcontext():\n  jax.core.MainTrace",
    "import jax\ntry:\n  jax.core.MainTrace\nfinally:\n  pass",
]
# Code that asks whether a name is there sees JAX as it is.
ASKS = [
    "import jax\nassert not hasattr(jax.core, 'MainTrace')",
    "import jax\nassert getattr(jax.core, 'MainTrace', None) is None",
    "try:\n  from jax.core import MainTrace\n  1 / 0\nexcept ImportError: pass",
    "try:\n  import jax.experimental.loops\n  1 / 0\nexcept ImportError: pass",
    "try:\n  from jax._src.core import MainTrace\n  1 / 0\nexcept: pass",
    "import jax\ntry:\n  jax.core.MainTrace\n  1 / 0\nexcept AttributeError: pass",
]


@pytest.mark.parametrize("code", [*MENTIONS, *ASKS])
def test_a_library_of_an_earlier_jax(code):
    imported(code)


@pytest.mark.parametrize("name", ["MainTrace", "new_main", "AxisEnvFrame"])
def test_a_placeholder_says_what_it_is_when_it_is_used(name):
    placeholder = imported(f"from jax.core import {name}")[name]
    assert repr(placeholder) == f"<jax.core.{name}, which JAX no longer has>"
    with pytest.raises(AttributeError, match=rf"jax\.core\.{name} is no longer part of JAX"):
        imported(f"import jax\njax.core.{name}()")


def test_code_that_runs_gets_the_error_of_jax():
    with pytest.raises(AttributeError, match=r"module 'jax\.core' has no attribute 'new_main'"):
        jax.core.new_main  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'new_main'"):
        from jax.core import new_main  # noqa: F401
    with pytest.raises(ImportError, match="nothing_of_jax"):
        imported("from jax.core import nothing_of_jax")


def test_nothing_of_jax_is_replaced_by_a_stub():
    """``jax._src.lib.xla_client`` is an attribute and no module."""
    from jax._src import lib

    before = lib.xla_client
    with pytest.raises(ImportError):
        imported("import jax._src.lib.xla_client")
    assert lib.xla_client is before


def test_options_that_a_library_defines():
    flag = jax.config.define_bool_state("library_of_2023_flag", True, "help")
    assert jax.config.library_of_2023_flag is True
    jax.config.update("library_of_2023_flag", False)
    assert jax.config.library_of_2023_flag is flag.value is False
    assert jax.config.omnistaging_enabled
    assert jax.config.FLAGS.jax_enable_x64 is jax.config.jax_enable_x64


def test_types_of_the_runtime():
    from jax.lib import xla_extension

    pmapped = jax.pmap(lambda x: x)
    assert isinstance(pmapped, xla_extension.PmapFunction)
    assert isinstance(pmapped, jax.interpreters.xla.xe.PmapFunction)
    assert jax.interpreters.batching.not_mapped is None
    assert jax.extend.core.primitives.add_p.map_primitive is False
    assert jax.ad.deflinear is jax.interpreters.ad.deflinear
    assert jax.ad.zeros_like_p.name == "zeros_like"


def test_which_trace_is_the_current_one():
    def state():
        top = jax.core.thread_local_state.trace_state.trace_stack.stack[-1]
        return top.trace_type, jax.core.cur_sublevel().level

    seen = []
    jax.jit(lambda x: seen.extend([state(), state()]) or x)(1)
    assert state() == state()
    assert state()[1] == 0
    assert seen[0] == seen[1] != state()
    assert seen[0][1] == 1


def test_programs_keys_and_tpus():
    program = jax.xla_computation(lambda x: x + 1)(np.ones(3, np.float32))
    assert "f32[3]" in program.as_hlo_text()
    with jax.spmd_mode("allow_all"):
        assert jax.random.threefry2x32_key(3).shape == (2,)
    summed = jax.soft_pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.arange(20.0))
    assert float(summed[0]) == 190
    from jax.experimental import export
    from jax.tools import colab_tpu

    assert colab_tpu.setup_tpu() is None
    assert export.export is jax.export.export
