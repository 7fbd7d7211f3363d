"""Programs lowered for more devices than there are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import shardlift
from shardlift.capture.schema import Collective, LargerMesh, Site
from shardlift.facts import Recorder

N, MANY = 8, 4096


def recorded(fun, *args, **options) -> Site:
    """The site of a function that was called once, recorded for many devices."""
    recorder = Recorder(plan_for=(MANY,))
    with recorder.observing():
        jax.block_until_ready(recorder.pmap(shardlift.pmap)(fun, **options)(*args))
        capture = recorder.capture()
    assert not capture.unseen
    (site, *_) = capture.sites
    return site


def lowered(fun, *args, **options) -> LargerMesh:
    (larger,) = recorded(fun, *args, **options).larger
    return larger


def kinds(collectives: tuple[Collective, ...]) -> dict[str, int]:
    return {one.kind: one.nbytes for one in collectives}


def test_shapes_that_depend_on_the_number_of_devices():
    def share(w, x):
        part = lax.psum_scatter(w, "i", tiled=True)
        return part, lax.all_gather(part, "i", tiled=True) + x, lax.psum(1, "i")

    x = np.ones((N, 1), np.float32)
    larger = lowered(share, jnp.ones(MANY), x, axis_name="i", in_axes=(None, 0))
    assert larger.mesh == {"i": MANY}
    assert kinds(larger.collectives) == {"reduce_scatter": 4 * MANY, "all_gather": 4}
    assert larger.outputs == 4 + 4 * MANY + 4


def test_the_program_that_ran_is_recorded_as_it_was():
    site = recorded(lambda x: lax.pmean(x, "i"), np.ones((N, 4), np.float32), axis_name="i")
    assert site.mesh == {"i": N}
    assert (site.calls, site.compile_count, site.unseen) == (1, 1, ())
    assert site.larger[0].collectives == site.collectives


def test_static_donated_and_keyword_arguments():
    def step(state, scale, *, x):
        return {"w": state["w"] * scale + lax.psum(x, "i")}

    state = {"w": jnp.ones((N, 3))}
    options = {"axis_name": "i", "static_broadcasted_argnums": (1,), "donate_argnums": (0,)}
    recorder = Recorder(plan_for=(MANY,))
    with recorder.observing():
        recorder.pmap(shardlift.pmap)(step, **options)(state, 2, x=np.ones((N, 3), np.float32))
        (site,) = recorder.capture().sites
    assert site.larger[0].outputs == 12
    assert kinds(site.larger[0].collectives) == {"psum": 12}


def test_nested_pmaps():
    def inner(x):
        return lax.psum(x, ("a", "b"))

    def outer(x):
        return shardlift.pmap(inner, axis_name="b")(x)

    larger = lowered(outer, np.ones((4, 2, 3), np.float32), axis_name="a")
    assert larger.mesh == {"a": MANY // 2, "b": 2}
    assert [one.axes for one in larger.collectives] == [("a", "b")]


def test_an_error_of_the_function_is_part_of_the_answer():
    def swap(x):
        return lax.all_to_all(x, "i", 0, 0)

    larger = lowered(swap, np.ones((N, N, 2), np.float32), axis_name="i")
    assert larger.collectives == ()
    assert "ValueError: all_to_all requires" in larger.error
    assert str(MANY) in larger.error
