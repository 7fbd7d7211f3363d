"""What the rules say of JAX, run on the JAX that is installed here, on 8 virtual devices."""

import json
import os
import sys

import pytest

from tests import children, shared

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

# Each claim is the body of a function: what it returns is compared, what it raises is named.
CLAIMS = {
    "SL110 device": ("x.device()", "TypeError"),
    "SL110 costs": ("type(jax.jit(f).lower(x).compile().cost_analysis()).__name__", "dict"),
    "SL112": ("jax.pmap(f, global_arg_shapes=None)", "TypeError"),
    "SL204": ("jax.pmap(jax.pmap(f))(jnp.ones((4, 2, 3)))", "ValueError"),
    "SL207": ("jax.pmap(f, out_axes=-1)(jnp.ones((8, 2, 3))).shape", [16, 3, 1]),
    "SL303 one device": ("jax.pmap(f)(jax.device_put(x, jax.devices()[0]))", "ValueError"),
    "SL303 whole": ("jax.pmap(f)(jax.device_put(x, NamedSharding(mesh, P())))", "ValueError"),
    "SL303 along the axis": (
        "jax.pmap(f)(jax.device_put(x, NamedSharding(mesh, P('i')))).shape",
        [8, 3],
    ),
    "SL501 pmap": ("float(jax.pmap(mean, 'i', in_axes=(None, 0), out_axes=None)(w, d))", 4.5),
    "SL501 default": ("float(smap(mean, (P(), P('i')), P())(w, d))", 36.0),
    "SL501 check_vma=False": ("float(smap(mean, (P(), P('i')), P(), check_vma=False)(w, d))", 4.5),
    "SL502 pmap": ("float(jax.pmap(both, 'i', out_axes=None)(ws, d))", 4.5),
    "SL502 default": ("float(smap(both, P('i'), P())(ws, d)[0])", 4.5 / 8),
    "SL502 check_vma=False": ("float(smap(both, P('i'), P(), check_vma=False)(ws, d)[0])", 4.5),
    "SL504": ("jax.pmap(lambda v: lax.pmean(v, 'i'), 'i', out_axes=None)(x).shape", [3]),
    "SL701": (
        "jax.jit(jax.shard_map(f, mesh=explicit, in_specs=P('i'), out_specs=P('i')))(x)",
        "ValueError",
    ),
    "SL702": ("jax.make_mesh(shape=(8,), axis_names=('i',))", "TypeError"),
    "SL703 stacked": ("smap(lambda v: lax.psum(v, 'i'), P('i'), P('i'))(x).shape", [8, 3]),
    "SL703 default": ("smap(f, P('i'), P())(x)", "ValueError"),
    "SL703 silent": ("smap(f, P('i'), P(), check_vma=False)(x).shape", [1, 3]),
    # JAX trips over an assertion of its own here; a better error would do as well.
    "SL704": ("raises(lambda: smap(lambda v: lax.psum(v, 'batch'), P('i'), P())(x))", True),
    "SL705": ("smap(jnp.sum, P('i'), P('i'))(x)", "ValueError"),
    "SL708": ("smap(lambda k: jax.random.normal(k, (4,)), P('i'), P('i'))(keys)", "ValueError"),
    "SL709": ("smap(lambda v: v + sharded, P('i'), P('i'))(x).shape", [64, 3]),
    "SL714": ("P('i') == ('i',)", False),
    "SL711 donation": ("smap(f, P('i'), P('i'), donate_argnums=0)", "TypeError"),
    "SL711 check_rep": ("smap(f, P('i'), P('i'), check_rep=False)", "TypeError"),
}

PROGRAM = """
import json, sys, warnings
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
warnings.simplefilter("ignore")
f = lambda v: v * 2
mesh = Mesh(np.array(jax.devices()), ("i",))
explicit = jax.make_mesh((8,), ("i",))
x, d = jnp.ones((8, 3)), jnp.arange(1.0, 9.0)
w, ws = jnp.array(1.0), jnp.ones(8)
keys = jax.random.split(jax.random.PRNGKey(0), 8)
sharded = jax.device_put(x, NamedSharding(mesh, P("i")))
loss = lambda w, d: jnp.sum(w * d)
mean = lambda w, d: lax.pmean(jax.grad(loss)(w, d), "i")
both = lambda w, d: lax.pmean(jax.grad(lambda w, d: lax.pmean(loss(w, d), "i"))(w, d), "i")
smap = lambda g, i, o, **k: jax.jit(jax.shard_map(g, mesh=mesh, in_specs=i, out_specs=o, **k))
def raises(work):
    try:
        work()
    except Exception:
        return True
    return False
results = {}
for name, text in json.loads(sys.stdin.read()).items():
    try:
        results[name] = eval(text)
    except Exception as error:
        results[name] = type(error).__name__
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results() -> dict[str, object]:
    return shared.once("claims", _run)


def _run() -> dict[str, object]:
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    texts = json.dumps({name: text for name, (text, _) in CLAIMS.items()})
    command = [sys.executable, "-c", PROGRAM]
    done = children.run(command, text=texts, env=environment, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", CLAIMS)
def test_jax_does_what_the_rule_says(results: dict[str, object], name: str) -> None:
    assert results[name] == CLAIMS[name][1]
