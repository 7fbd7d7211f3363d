"""What is given to ``shardlift.replication``, and what it says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift import _compat
from shardlift._replication import NotProven, Proven
from tests.replication.checking import N, hold_against, rows, same


def loss(w, x):
    return jnp.sum((x @ w) ** 2)


def step(state, batch):
    value, grad = jax.value_and_grad(loss)(state["w"], batch["x"])
    grad = lax.pmean(grad, "i")
    return {"w": state["w"] - 0.1 * grad, "n": state["n"] + 1}, value


STATE = {"w": same(3, 2), "n": jnp.zeros(N, jnp.int32)}
BATCH = {"x": rows(5, 3)}


def test_the_outcome():
    found = shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=0)
    assert found.proven == ({"n": True, "w": True}, False)
    assert dict(found.axes) == {"i": N}
    assert list(found.outputs) == ["[0]['n']", "[0]['w']", "[1]"]
    assert found.outputs["[0]['w']"] == Proven()
    said = found.outputs["[1]"]
    assert isinstance(said, NotProven)
    assert said.argument == "batch['x']"
    assert said.equation.primitive == "dot_general"
    line = loss.__code__.co_firstlineno + 1
    assert said.equation.source == (__file__, line, "loss")
    assert said.along == ()
    assert str(found).splitlines() == [
        "replication of step over 'i': 8",
        "  output[0]['n']: equal on all devices",
        "  output[0]['w']: equal on all devices",
        "  output[1]: not proven: comes from argument batch['x'], first used by dot_general at "
        f"{__file__}:{line} (loss)",
    ]


def test_a_single_output():
    found = shardlift.replication(shardlift.pmap(lambda x: lax.psum(x, "i"), "i"), rows())
    assert found.proven is True
    assert str(found).endswith("\n  output: equal on all devices")


def test_an_output_that_is_an_input():
    for pmap in (shardlift.pmap, jax.pmap):
        found = shardlift.replication(pmap(lambda x: x, "i"), rows())
        assert str(found.outputs["<leaf>"]) == "not proven: comes from argument x"


@pytest.mark.parametrize("pmap", [jax.pmap, shardlift.pmap])
def test_what_pmap_returned(pmap):
    def body(w, x, scale, name, *, extra):
        assert name == "static"
        return w * scale, x * scale, lax.pmean(x * extra, "i"), extra

    mapped = pmap(body, "i", in_axes=(0, 0, None, None), static_broadcasted_argnums=3)
    args = (same(), rows(), jnp.float32(2.0), "static")
    found = shardlift.replication(mapped, *args, extra=rows(seed=3), equal="w")
    assert found.proven == (True, False, True, False)
    assert found.outputs["[3]"].argument == "extra"
    assert found.outputs["[1]"].argument == "x"
    hold_against(found, mapped(*args, extra=rows(seed=3)))


def test_more_rows_than_devices():
    x = jax.ShapeDtypeStruct((64, 3), jnp.float32)
    mapped = shardlift.pmap(lambda x: (lax.pmean(x, "i"), x), "i")
    found = shardlift.replication(mapped, x)
    assert found.proven == (True, False)
    assert dict(found.axes) == {"i": 64}


@pytest.mark.parametrize(
    ("options", "x"),
    [
        ({"devices": jax.devices()[::-1]}, rows(3)),
        ({"out_axes": (None, 1)}, rows(3)),
        ({"out_axes": None}, rows(3)),
        ({"in_axes": 1}, jnp.moveaxis(rows(3), 0, 1)),
    ],
    ids=str,
)
def test_options_of_a_pmap(options, x):
    mapped = shardlift.pmap(lambda x: (lax.psum(x, "i"), x), "i", **options)
    found = shardlift.replication(mapped, x)
    assert (found.proven, dict(found.axes)) == ((True, False), {"i": N})


def test_a_wrapper_is_not_what_it_wraps():
    """functools.wraps copies attributes: the wrapper must not pass for the pmapped function."""
    mapped = shardlift.pmap(lambda x: lax.psum(x, "i"), "i")

    @functools.wraps(mapped)
    def spoiled(x):
        return mapped(x) + jnp.arange(N, dtype=x.dtype)

    found = shardlift.replication(spoiled, rows())
    assert found.proven is False
    assert str(found.outputs["<leaf>"]) == "not proven: is computed outside the map"


def test_a_function_that_calls_a_pmapped_one():
    mapped = shardlift.pmap(lambda w, x: (lax.psum(x, "i"), w * 2), "i")

    def call(w, x):
        summed, doubled = jax.jit(mapped)(w + 1, x)
        return {"summed": summed, "doubled": doubled, "after": summed + 1}

    found = shardlift.replication(call, same(), rows(), equal=0)
    assert found.proven == {"summed": True, "doubled": False, "after": False}
    assert "is computed before the map" in str(found.outputs["['doubled']"])
    assert "is computed outside the map" in str(found.outputs["['after']"])


def test_a_jitted_shard_map_with_its_check():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    body = lambda w, x: (w - lax.pmean(x, "i"), w * x)
    mapped = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(jax.P(), jax.P("i")),
                      out_specs=(jax.P(), jax.P("i")))
    )  # fmt: skip
    assert shardlift.replication(mapped, jnp.ones(3), rows(3).reshape(-1)).proven == (True, False)


SUM = shardlift.pmap(lambda x: lax.psum(x, "i"), "i")
NOT_ONE_MAP = {
    "none": lambda x: 2 * x,
    "two": lambda x: (SUM(x), SUM(x + 1)),
    "one after another": lambda x: SUM(jax.jit(SUM)(x)),
    "one in a loop": lambda x: lax.scan(lambda c, _: (SUM(c), None), x, length=2)[0],
    "one more in a branch": lambda x: SUM(lax.cond(x.sum() > 0, SUM, jnp.sin, x)),
}


@pytest.mark.parametrize("case", NOT_ONE_MAP)
def test_there_has_to_be_one_map(case):
    with pytest.raises(ValueError, match="does not map over devices, or does so more than once"):
        shardlift.replication(NOT_ONE_MAP[case], rows())


@pytest.mark.parametrize("joined", [jax.P(), jax.P("j")])
def test_a_map_inside_a_map_takes_what_another_one_left(joined):
    sizes, kinds = (2, 4), (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh(sizes, ("i", "j"), axis_types=kinds)

    def inner(body, given, out):
        options = {"in_specs": given, "out_specs": out, "axis_names": {"j"}, "check_vma": False}
        return jax.shard_map(body, **options)

    def outer(x):
        x = lax.psum(x, "i")
        y = inner(lambda a: a * lax.axis_index("j").astype(a.dtype), jax.P(), joined)(x)
        return inner(lambda b: b.sum(keepdims=True), jax.P(), jax.P("j"))(y * 2)

    options = {"mesh": mesh, "in_specs": jax.P("i"), "out_specs": jax.P("i"), "axis_names": {"i"}}
    call = jax.jit(jax.shard_map(outer, **options, check_vma=False))
    assert shardlift.replication(call, jnp.ones(2)).proven is (joined == jax.P("j"))


# ---- static arguments


@pytest.mark.parametrize("pmap", [jax.pmap, shardlift.pmap])
@pytest.mark.parametrize("static", [3, (1, "two"), None, jnp.tanh])
@pytest.mark.parametrize("place", [0, 2])
def test_static_arguments(pmap, static, place):
    def body(*args):
        assert args[place] == static
        w, x = (arg for k, arg in enumerate(args) if k != place)
        return w - lax.pmean(x, "i"), x

    args = [same(), rows()]
    args.insert(place, static)
    pmapped = pmap(body, axis_name="i", static_broadcasted_argnums=place)
    found = shardlift.replication(pmapped, *args, equal=int(place == 0))
    assert found.proven == (True, False)


def test_static_arguments_by_name():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    options = {"mesh": mesh, "in_specs": jax.P("i"), "out_specs": jax.P(), "check_vma": False}
    mapped = jax.jit(
        lambda x, *, n: jax.shard_map(lambda a: lax.psum(a, "i") * range(n)[-1], **options)(x),
        static_argnames="n",
    )
    assert shardlift.replication(mapped, rows(), n=3).proven


def test_inside_a_mesh_of_the_callers_own():
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
    with jax.set_mesh(mesh):
        found = shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=0)
    assert found.proven == ({"n": True, "w": True}, False)


def test_nothing_is_run(capfd):
    def body(x):
        jax.debug.print("ran")
        return x

    shardlift.replication(shardlift.pmap(body, "i"), rows())
    assert capfd.readouterr().out == ""


# ---- equal


@pytest.mark.parametrize("equal", [0, -2, "state", (0,), ["state"]])
def test_ways_to_say_equal(equal):
    found = shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=equal)
    assert found.proven == ({"n": True, "w": True}, False)


@pytest.mark.parametrize(
    ("equal", "error", "words"),
    [
        (2, ValueError, "an argument 2 that does not exist: the arguments are state, batch"),
        ("stat", ValueError, "an argument 'stat' that does not exist: the arguments are state"),
        (1.5, TypeError, "equal takes positions and names of arguments; got 1.5"),
        ((True, False), TypeError, "equal takes positions and names of arguments; got .True"),
    ],
)
def test_equal_that_does_not_fit(equal, error, words):
    with pytest.raises(error, match=words):
        shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=equal)


# ---- refusals


def test_not_a_function():
    with pytest.raises(TypeError, match="replication needs a function, got 3"):
        shardlift.replication(3, rows())


# ---- where JAX says less


def test_without_source_lines(monkeypatch):
    monkeypatch.setattr(_compat, "source_line", lambda eqn: None)
    found = shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=0)
    said = "not proven: comes from argument batch['x'], first used by dot_general"
    assert str(found.outputs["[1]"]) == said


def test_scans_and_maps_of_a_later_jax(monkeypatch):
    with monkeypatch.context() as patched:
        known = _compat.map_axes
        inside = lambda eqn: None if "j" in (known(eqn) or ()) else known(eqn)
        patched.setattr(_compat, "map_axes", inside)
        inner = shardlift.pmap(lambda x: x + 1, "j")
        mapped = shardlift.pmap(lambda w: inner(w), "i")
        found = shardlift.replication(mapped, rows(3).reshape(4, 2, 3), equal=0)
        assert "is a map of an unknown form" in str(found)
    monkeypatch.setattr(_compat, "scan_parts", lambda eqn: None)
    body = lambda w: lax.scan(lambda c, _: (c + 1, None), w, length=3)[0]
    found = shardlift.replication(shardlift.pmap(body, "i"), same(), equal=0)
    assert "scan at" in str(found)
    assert "has an unknown form" in str(found)


def test_in_a_job_of_several_processes_nothing_is_proven(monkeypatch):
    monkeypatch.setattr(_compat, "place_in_job", lambda: (0, 2))
    with pytest.raises(ValueError, match="nothing can be proven"):
        shardlift.replication(shardlift.pmap(step, "i"), STATE, BATCH, equal=0)
