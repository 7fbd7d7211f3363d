"""What is recorded of real calls is what they did, and they do the same as without."""

import functools
import gc
import os
import sys
import threading
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift.capture.schema import HOST, CompileReason, MovedBy, ReasonKind, SiteFacts
from shardlift.facts import Recorder
from shardlift.mapping.site import MappedFunction
from shardlift.recording import inspector
from shardlift.recording.compilations import here
from tests import children

N = 8
X = np.arange(N * 4, dtype=np.float32).reshape(N, 4)
FIRST = CompileReason(ReasonKind.FIRST_CALL)
typed = functools.partial(CompileReason, ReasonKind.TYPE)
silent = functools.partial(shardlift.pmap, reshard="silent")


@pytest.fixture
def recorder():
    recorder = Recorder(command=["train.py"])
    with recorder.observing():
        yield recorder


def only_site(recorder: Recorder) -> SiteFacts:
    capture = recorder.capture()
    assert not [text for text in capture.unseen if "error of the recorder" in text]
    (site,) = capture.sites
    return site


def by_path(leaves):
    return {leaf.path: leaf for leaf in leaves}


def test_a_site_is_the_line_that_calls_pmap(recorder):
    def train_step(x):
        return x + 1

    step = recorder.pmap(shardlift.pmap)(train_step, axis_name="i")
    line = test_a_site_is_the_line_that_calls_pmap.__code__.co_firstlineno + 4
    assert np.array_equal(step(X), X + 1)
    site = only_site(recorder)
    assert site.file in recorder.capture().sources
    assert (os.path.basename(site.file), site.line, site.function) == (
        "test_recorder.py",
        line,
        "train_step",
    )
    assert (site.axis_name, site.axis_size, site.calls, site.looked) == ("i", N, 1, 1)


def test_equal_lines_are_one_site_with_the_name_of_the_function_behind_partials(recorder):
    def forward(x, train):
        return x + train

    given = functools.partial(functools.partial(forward), train=1.0)
    for _ in range(3):
        recorder.pmap(shardlift.pmap)(given)(X)
    site = only_site(recorder)
    assert (site.function, site.calls) == ("forward", 3)
    assert site.compile_count == 1  # the program is shared, as without it


def test_calls_are_all_counted_and_the_time_adds_up(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x: x + 1, devices=jax.devices()[:1])
    x = X[:1]
    for _ in range(2000):
        x = step(x)
    assert float(x[0, 0]) == 2000
    site = only_site(recorder)
    times = site.times
    assert site.calls == 2000
    assert times.call.count + times.compiling.count == 2000
    assert times.compiling.count == site.compile_count == 2  # NumPy, then arrays
    assert 2 <= times.waiting.count < 1000
    assert 0 < times.call.quantile(0.5) <= times.call.quantile(0.95) <= times.call.max


def test_it_traces_the_function_once_more_at_most(recorder):
    traces = 0

    def body(x, y):
        nonlocal traces
        traces += 1
        return x + lax.psum(y, "i"), y

    other = jax.device_put(X, jax.devices()[3])
    counts = []
    for pmap in (silent, recorder.pmap(silent)):
        traces = 0
        step = pmap(lambda x, y: body(x, y), axis_name="i")
        x = X
        for _ in range(12):
            x, _ = step(x, X)
        step(x, other)
        step(x[:, :2], X[:, :2])
        counts.append(traces)
    assert counts[0] + 1 == counts[1]  # for the trial on the whole batch


def test_why_programs_were_compiled(recorder):
    step = recorder.pmap(shardlift.pmap)(
        lambda k, x, y: x * k + y, "i", static_broadcasted_argnums=0, in_axes=(None, 0, None)
    )
    step(1, X, 1.0)
    step(1, X, 1.0)
    step(2, X, 1.0)
    step(2, X[:, :3], 1.0)
    step(2, X.astype(np.int32), 1)
    step(2, X, np.float32(1.0))
    step(2, step(2, X, np.float32(1.0)), np.float32(1.0))
    with jax.enable_x64(True):
        step(2, X, np.float32(1.0))
    assert only_site(recorder).compiles == (
        (FIRST,),
        (CompileReason(ReasonKind.STATIC_ARGUMENT, "0", "1", "2"),),
        (typed("x", "float32[8,4]", "float32[8,3]"),),
        (typed("x", "float32[8,3]", "int32[8,4]"), typed("y", "float[]", "int[]")),
        (typed("y", "float[]", "float32[]"),),
        (CompileReason(ReasonKind.PLACEMENT, "x", "host", "P('i') on cpu:0-7"),),
        (CompileReason(ReasonKind.CONTEXT, "", "x64=False", "x64=True"),),
    )


def test_a_new_function_each_time_is_said(recorder):
    for _ in range(3):
        recorder.pmap(shardlift.pmap)(lambda x: x + 1)(X)
    site = only_site(recorder)
    assert site.compile_count == 3
    assert site.compiles[-1] == (CompileReason(ReasonKind.SAME_ARGUMENTS),)


def test_inputs_moved_by_pmap(recorder):
    step = recorder.pmap(silent)(lambda state, x: state["w"] + x, axis_name="i")
    state = {"w": jax.device_put(X, jax.devices()[3])}
    for _ in range(5):
        out = step(state, X)
    assert np.array_equal(out, X + X)
    site = only_site(recorder)
    moves = {move.by: move for move in site.moves}
    moved = moves[MovedBy.PMAP]
    assert (moved.path, moved.source, moved.target) == ("state['w']", "cpu:3", "P('i') on cpu:0-7")
    assert (moved.count, moved.nbytes) == (5, 5 * X.nbytes)
    program = moves[MovedBy.PROGRAM]
    assert (program.path, program.source) == ("x", HOST)
    assert site.times.moving.count == site.times.call.count > 0
    assert site.times.moving.total < site.times.call.total


def test_inputs_moved_by_the_program(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x, y, z: x + y + z, in_axes=(0, 0, None))
    for _ in range(9):
        step(X, jnp.asarray(X), np.float32(1))
    site = only_site(recorder)
    moves = {move.path: move for move in site.moves}
    assert [moves[k].source for k in "xyz"] == ["host", "cpu:0", "host"]
    assert moves["x"].nbytes == moves["x"].count * X.nbytes
    assert moves["z"].nbytes == moves["z"].count * N * 4  # whole to every device
    assert moves["x"].count == site.looked
    assert 2 <= site.times.probes.count <= 3


def test_nothing_is_moved_that_lies_in_place(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x: x + 1, axis_name="i")
    x = shardlift.replicate(np.ones(4, np.float32))  # another axis name, the same place
    for _ in range(4):
        x = step(x)
    site = only_site(recorder)
    assert site.moves == ()
    assert site.times.probes.count == 0


def test_donated_and_copied(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda a, b: a + b, donate_argnums=(0, 1))
    a, b = (shardlift.replicate(np.ones(4, np.float32)) for _ in range(2))
    step(a, b)  # one output, two buffers: on several devices JAX (0.12.0) does not warn
    leaves = by_path(only_site(recorder).arguments)
    assert leaves["a"].donated
    assert leaves["b"].donated
    assert sorted((leaves["a"].kept, leaves["b"].kept)) == [0, 1]


def test_leaves_that_are_equal_everywhere(recorder):
    def step(state, x):
        return {"w": state["w"] + lax.pmean(x, "i").sum(), "own": state["own"] + x.sum()}

    step = recorder.pmap(shardlift.pmap)(step, axis_name="i")
    state = shardlift.replicate({"w": np.float32(1), "own": np.float32(0)})
    for _ in range(12):
        state = step(state, X)
    site = only_site(recorder)
    found = {leaf.path: (leaf.equal, leaf.compared) for leaf in site.arguments}
    assert {path: equal for path, (equal, _) in found.items()} == {
        "state['own']": False, "state['w']": True, "x": False,
    }  # fmt: skip
    assert all(3 <= compared <= 7 for _, compared in found.values())
    outputs = {leaf.path: leaf.equal for leaf in site.outputs}
    assert outputs == {"output['own']": False, "output['w']": True}


@pytest.mark.parametrize("late", [9, 11])
def test_leaves_that_differ_in_a_late_call(recorder, monkeypatch, late):
    """Every call after the eighth is compared if that costs nothing to speak of."""
    monkeypatch.setattr(inspector, "SHARE", 1e9)
    step = recorder.pmap(shardlift.pmap)(lambda w, x: (w + x, w * 2))
    same, other = np.ones(N, np.float32), np.arange(N, dtype=np.float32)
    for k in range(12):
        step(same, other if k == late else same)
    site = only_site(recorder)
    found = [(leaf.equal, leaf.compared) for leaf in (*site.arguments, *site.outputs)]
    assert found == [(True, 7), (False, 7), (False, 7), (True, 7)]


def test_outputs_without_an_axis_whose_replicas_differ(recorder):
    step = recorder.pmap(shardlift.pmap)(
        lambda x: (x, lax.psum(x, "i")), axis_name="i", out_axes=None
    )
    step(X)
    leaves = by_path(only_site(recorder).outputs)
    assert leaves["output[0]"].axis is None
    assert (leaves["output[0]"].equal, leaves["output[1]"].equal) == (False, True)


def test_outputs_that_are_read(recorder):
    body = lambda x: {"a": x, "b": x.sum(), "all": lax.psum(x, "i")}
    axes = {"a": 0, "b": 0, "all": None}
    step = recorder.pmap(shardlift.pmap)(body, axis_name="i", out_axes=axes)
    for _ in range(3):
        out = step(X)
        jax.device_get(out["b"])
    shardlift.unreplicate({"a": out["a"], "b": out["b"]})
    recorder.read(out["a"], "index", 16)
    jax.device_get([X, out["all"], jnp.ones(3)])  # none of them is an output with a device axis
    line = test_outputs_that_are_read.__code__.co_firstlineno
    reads = {read.how: read for read in only_site(recorder).reads}
    assert {(how, r.count, r.line - line) for how, r in reads.items()} == {
        ("device_get", 3, 6), ("unreplicate", 2, 7), ("index", 1, 8)
    }  # fmt: skip
    assert [reads[how].nbytes for how in ("device_get", "unreplicate")] == [3 * N * 4, 20]
    assert reads["device_get"].seconds > 0
    assert os.path.basename(reads["device_get"].file) == "test_recorder.py"


def test_reading_is_as_it_was_afterwards():
    before = (jax.device_get, shardlift.unreplicate, shardlift.arrays.unreplicate)
    with Recorder().observing():
        assert jax.device_get is not before[0]
        assert MappedFunction.observer is not None
    assert (jax.device_get, shardlift.unreplicate, shardlift.arrays.unreplicate) == before
    assert MappedFunction.observer is None


def test_a_program_may_clear_all_listeners():
    recorder = Recorder()
    with recorder.observing():
        step = recorder.pmap(shardlift.pmap)(lambda x: x + 1)
        jax.monitoring.clear_event_listeners()
        assert np.array_equal(step(X), X + 1)
    assert recorder.capture().sites[0].calls == 1


def test_under_transformations_and_nested(recorder):
    pmap = recorder.pmap(shardlift.pmap)
    double = pmap(lambda x: 2 * x)
    assert np.array_equal(jax.jit(double)(X), 2 * X)
    jax.vmap(double)(np.stack([X, X]))
    jax.grad(lambda x: double(x).sum())(X)
    jax.jvp(double, (X,), (X,))
    outer = pmap(pmap(lambda x: lax.psum(x, ("i", "j")), "j"), "i")
    outer(np.ones((2, 4), np.float32))
    sites = recorder.capture().sites
    first = sites[0]
    assert (first.calls, first.transformed) == (0, 4)
    inner, outside = sites[1:]
    assert (inner.function, outside.function) == ("<lambda>", "pmap of <lambda>")
    assert inner.nested > 0
    assert outside.calls == 1


def test_a_call_that_fails_is_not_counted_and_raises_the_same(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x: x + 1)
    with pytest.raises(ValueError, match="requires 9 logical devices"):
        step(np.ones((9, 2)))
    with pytest.raises(ZeroDivisionError):
        recorder.pmap(shardlift.pmap)(lambda x: 1 // 0)(X)
    step(X)
    first, second = recorder.capture().sites
    assert (first.calls, second.calls) == (1, 0)


def test_keyword_arguments_and_methods(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x, *, y: x + y, axis_name="i")
    assert np.array_equal(step(X, y=X), 2 * X)
    assert step.__name__ == "<lambda>"
    assert step.lower(X, y=X).compile() is not None
    assert "x: float32[8,4]" in str(step.explain(X, y=X))
    assert [leaf.path for leaf in only_site(recorder).arguments] == ["x", "y"]


@pytest.mark.parametrize(
    "part", ["hooks.user_line", "mapped_calls.PmapCall.arguments", "mapped_calls.proofs"]
)
def test_a_fault_of_the_recorder_does_not_reach_the_program(recorder, monkeypatch, part):
    def broken(*_, **__):
        raise RuntimeError("a fault")

    monkeypatch.setattr(f"shardlift.recording.{part}", broken)
    assert np.array_equal(recorder.pmap(shardlift.pmap)(lambda x: x + 1)(X), X + 1)
    capture = recorder.capture()
    assert any("RuntimeError: a fault" in text for text in capture.unseen)
    assert not any(site.proofs for site in capture.sites)


def test_the_pmap_of_jax_is_observed(recorder):
    step = recorder.pmap(jax.pmap)(lambda s, x: (s + lax.psum(x, "i"), x), axis_name="i")
    s = X
    for _ in range(4):
        s, _ = step(s, X)
    site = only_site(recorder)
    assert (site.calls, site.axis_size, site.compile_count) == (4, N, 2)
    assert [(leaf.path, leaf.axis) for leaf in site.arguments] == [("s", 0), ("x", 0)]
    assert "x" in {move.path for move in site.moves}


def test_functions_and_arrays_are_not_kept_alive(recorder):
    def body(x):
        return x + 1

    step = recorder.pmap(shardlift.pmap)(body)
    out = step(X)
    for _ in range(20):
        out = step(out)
    function, array = weakref.ref(body), weakref.ref(out)
    del body, step, out
    gc.collect()
    assert array() is None
    assert function() is None


def test_threads(recorder):
    step = recorder.pmap(shardlift.pmap)(lambda x: x + 1, devices=jax.devices()[:1])
    x = step(step(X[:1]))
    threads = [
        threading.Thread(target=lambda: [step(x) for _ in range(200)], daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert here.running is None
    times = only_site(recorder).times
    assert times.call.count + times.compiling.count >= 790  # counters may race


def test_names_that_were_used_and_the_summary(recorder, tmp_path):
    recorder.pmap(shardlift.pmap)(lambda x: x + 1)(X)
    for _ in range(3):
        recorder.used("jax.device_put_replicated")
    assert recorder.capture().used == {"jax.device_put_replicated": 3}
    recorder.write(tmp_path / "run.json")
    lines = recorder.summary().splitlines()
    assert lines[0].startswith("1 pmap site; ")
    assert lines[1] == "restored names that were used: jax.device_put_replicated (3)"
    assert lines[2] == f"next: shardlift report {tmp_path / 'run.json'}"


def test_a_forked_child_writes_nothing(tmp_path, recorder):
    recorder._process_id += 1
    recorder.write(tmp_path / "run.json")
    assert not Path(tmp_path / "run.json").exists()


def test_on_what_condition_an_output_is_the_same_on_all_devices(recorder):
    def step(state, batch):
        total = lax.pmean(batch.sum(), "i")
        return state + total, total, batch * 2, lax.axis_index("i")

    step = recorder.pmap(shardlift.pmap)(step, axis_name="i")
    same = np.ones((N, 4), np.float32)
    step(same, X)
    state, total, batch, number = only_site(recorder).proofs
    assert [proof.path for proof in (state, total, batch, number)] == [
        f"output[{k}]" for k in range(4)
    ]
    assert (state.needs, state.why) == ((0,), "")
    assert (total.needs, total.why) == ((), "")
    assert batch.needs == (1,)
    assert "argument batch" in batch.why
    assert "test_recorder.py" in batch.why
    assert number.needs is None
    assert "axis_index" in number.why


def test_a_proof_is_of_every_program_of_a_site(recorder):
    def step(x, size):
        parts = [x] * size
        return {"loss": lax.psum(x, "i") if x.ndim == 1 else x}, parts, x

    step = recorder.pmap(shardlift.pmap)(step, "i", static_broadcasted_argnums=1)
    known = lambda: [(proof.needs, proof.arrays) for proof in only_site(recorder).proofs]
    loss, two = ("output[0]['loss']",), ("output[1][0]", "output[1][1]")
    step(X, 2)
    assert known() == [((), loss), ((0,), two), ((0,), ("output[2]",))]
    step(X[..., None], 2)
    assert known() == [((0,), loss), ((0,), two), ((0,), ("output[2]",))]
    step(X, 3)
    assert known() == [((0,), loss), ((0,), ()), ((0,), ("output[2]",))]


FRESH = """
import sys
import jax, numpy as np, shardlift
from jax._src import xla_bridge
from shardlift.facts import Recorder

recorder, traces = Recorder(), []
with recorder.observing():
    pass
print(recorder.summary(), recorder.capture().processes[0].devices, bool(xla_bridge._backends))
print([m for m in sys.modules if m.startswith("shardlift._replication")])
with recorder.observing():
    mapped = recorder.pmap(shardlift.pmap)(lambda x: traces.append(x) or 2 * x)
    for _ in range(4):
        mapped(np.ones((8, 2), np.float32))
print(len(traces), bool(recorder.capture().sites[0].proofs))
"""


@pytest.mark.slow
def test_no_device_is_used_before_the_program_does_and_nothing_is_traced_again():
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    done = children.run([sys.executable, "-c", FRESH], env=environment, timeout=120)
    assert done.stdout == "this run has no pmap site () False\n[]\n1 True\n", done.stderr
