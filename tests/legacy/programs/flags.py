"""A program that asked for the old pmap by its flag, and reads it back."""

import argparse

import jax
import numpy as np

jax.config.update("jax_pmap_shmap_merge", False)


def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--devices", type=int, default=4)
    return parser.parse_args(argv)


def main(argv):
    flags = parse(argv)
    assert not jax.config.jax_pmap_shmap_merge
    devices = jax.devices()[: flags.devices]
    half = jax.pmap(lambda x: x / 2, devices=devices)
    whole = jax.pmap(lambda x, y: x + y)
    x = np.arange(flags.devices * 2.0, dtype=np.float32).reshape(flags.devices, 2)
    for _ in range(flags.steps):
        x = half(x)
    # Four rows that lie on four devices, given to a pmap over the same rows on others.
    other = jax.pmap(lambda v: v * 3, devices=jax.devices()[-flags.devices :])(x)
    return {"halved": x, "other": other, "row": other[1] + x[1], "sum": whole(other, x)}


if __name__ == "__main__":
    RESULTS = main([])
