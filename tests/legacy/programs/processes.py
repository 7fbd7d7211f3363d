"""Two processes: each feeds its own devices, sums go over all; process 0 reports."""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--coordinator")
parser.add_argument("--count", type=int)
parser.add_argument("--id", type=int)
parser.add_argument("--out", required=True)


def main(flags):
    if flags.coordinator:
        jax.distributed.initialize(flags.coordinator, flags.count, flags.id)
    me, local = jax.process_index(), jax.local_devices()
    params = jax.device_put_replicated({"w": jnp.ones(3)}, local)
    step = jax.pmap(
        lambda p, x: jax.tree_util.tree_map(lambda w: w + jax.lax.pmean(x, "i"), p), "i"
    )
    for k in range(4):
        batch = np.full((len(local), 3), me * 10 + k, np.float32)
        params = step(params, batch)
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(np.arange(len(local)) + me * 100)
    gathered = jax.pmap(lambda x: jax.lax.all_gather(x, "i"), "i")(np.arange(len(local)) + me)
    results = {
        "w": np.asarray(params["w"][0]).tolist(),
        "total": int(total[0]),
        "gathered": np.asarray(gathered[len(local) - 1]).tolist(),
        "processes": jax.process_count(),
        "devices": jax.device_count(),
    }
    if me == 0:
        with open(flags.out, "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main(parser.parse_args())
