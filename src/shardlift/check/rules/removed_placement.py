"""`jax.device_put_sharded` and `jax.device_put_replicated` are gone since JAX 0.10.

Both gave arrays with a leading axis of devices. `jax.device_put` with a `NamedSharding` places
a value once, and `P()` keeps one logical copy of a replicated value instead of a stack of them.
A drop-in that stacks on the host first takes twice the memory of the result; one `device_put`
a device and `jax.make_array_from_single_device_arrays` takes none on top.
"""

from shardlift.check.renames import removed_rule
from shardlift.source.model import GUIDE, Kind
from shardlift.source.removed_names import PLACEMENT

RULE = removed_rule(
    code="SL101",
    rows=PLACEMENT,
    summary="device_put_sharded or device_put_replicated, gone since JAX 0.10",
    advice="Place with jax.device_put(x, NamedSharding(mesh, P(...))); P() for replicas.",
    reference=f"{GUIDE}#drop-in-replacements",
    bad=(
        "import jax\nx = jax.device_put_replicated(x, jax.local_devices())  # SL101",
        "from jax import device_put_sharded  # SL101\nx = device_put_sharded(xs, devices)",
    ),
    good=(
        "from mylib import device_put_sharded\nx = device_put_sharded(xs, devices)",
        "import jax\nif hasattr(jax, 'device_put_sharded'):\n"
        "    x = jax.device_put_sharded(xs, jax.devices())",
        "text = 'jax.device_put_sharded'",
    ),
    since=(0, 10),
    rewritten_as=frozenset({Kind.PLACEMENT}),
)
