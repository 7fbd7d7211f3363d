"""Placing, reading, stitching and waiting in jobs of real processes."""

import pytest

from .harness import Job, job_of

pytestmark = pytest.mark.slow


def stitching():
    import jax
    import numpy as np
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    from shardlift import device_put_sharded, local_view, stitch

    def pointers(x):
        return [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]

    me, mine, world = jax.process_index(), jax.local_device_count(), jax.device_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    placed = device_put_sharded(
        [np.full(3, 10 * me + i, np.float32) for i in range(mine)], jax.local_devices()
    )
    tree = {"np": np.full((2 * mine, 2), me), "put": placed, "same": np.arange(4)}
    out = stitch(tree, mesh, {"np": P("data"), "put": P("data"), "same": P()})
    keys = jax.random.split(jax.random.key(me), mine)
    keys_back = jax.random.key_data(local_view(stitch(keys, mesh, P("data"))))
    total = jax.jit(lambda x: x.sum(), out_shardings=jax.NamedSharding(mesh, P()))(out["put"])
    back = local_view(out)
    return {
        "shapes": [list(x.shape) for x in (out["np"], out["put"], out["same"])],
        "world": world,
        "total": float(total.addressable_data(0)),
        "expected": float(3 * sum(10 * p + i for p in range(world // mine) for i in range(mine))),
        "no copy": pointers(out["put"]) == pointers(placed) == pointers(back["put"]),
        "same back": all(bool((np.asarray(back[k]) == np.asarray(tree[k])).all()) for k in tree),
        "keys": bool((np.asarray(keys_back) == np.asarray(jax.random.key_data(keys))).all()),
        "restitched": stitch(out["put"], mesh, P("data")) is out["put"],
    }


def test_stitch_and_back(job: Job):
    for value in job.values(stitching):
        world = job.processes * job.devices
        assert value["world"] == world
        assert value["shapes"] == [[2 * world, 2], [world, 3], [4]]
        assert value["total"] == value["expected"]
        assert all(value[k] for k in ("no copy", "same back", "keys", "restitched"))


def meshes():
    import jax
    import numpy as np
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    from shardlift import local_view, stitch

    devices = np.array(jax.devices())
    if devices.size != 8 or jax.process_count() != 2:
        return None
    grid = devices.reshape(2, 4)  # a row a process
    woven = devices.reshape(2, 4).T.reshape(-1)  # processes take turns
    torn = devices[[0, 1, 4, 2, 5, 6, 3, 7]].reshape(2, 4)
    out = []
    for mesh, spec in (
        (Mesh(grid, ("p", "d")), P("p", "d")),
        (Mesh(grid, ("p", "d")), P(("p", "d"))),
        (Mesh(grid, ("p", "d")), P("d")),
        (Mesh(woven, ("i",)), P("i")),
    ):
        local = np.arange(32).reshape(4, 8) + 100 * jax.process_index()
        x = stitch(local, mesh, spec)
        same = bool((np.asarray(local_view(x)) == local).all())
        firsts = {s.device.id: int(s.data.ravel()[0]) for s in x.addressable_shards}
        out.append([list(x.shape), same, firsts])
    try:
        stitch(np.ones(8), Mesh(torn, ("p", "d")), P("p"))
    except ValueError as error:
        out.append(str(error))
    return out


def test_stitch_on_other_meshes(job: Job):
    if (job.processes, job.devices) != (2, 4):
        pytest.skip("the meshes have 2 rows of 4 devices")
    first, second = job.values(meshes)
    assert [x[:2] for x in first[:4]] == [
        [[8, 8], True],
        [[8 * 2 // 2, 8], True],
        [[4, 8], True],
        [[8, 8], True],
    ]
    assert [x[0] for x in first[:4]] == [x[0] for x in second[:4]]
    assert first[3][2] == {"0": 0, "1": 8, "2": 16, "3": 24}  # rows follow the local devices
    assert "do not form a block" in first[4]


def reading():
    import jax
    import numpy as np
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    from shardlift import replicate, show, stitch, unreplicate
    from shardlift.rewrite.helper_texts.reading import first_row

    me = jax.process_index()
    copies = replicate({"w": np.full(3, me, np.float32), "n": me, "k": jax.random.key(me)})
    row = unreplicate(copies)
    mesh = Mesh(np.array(jax.devices()), ("i",))
    world = stitch(np.full((jax.local_device_count(), 2), me), mesh, P("i"))
    return {
        "local": all(x.is_fully_addressable for x in jax.tree.leaves(copies)),
        "row": [row["w"].tolist(), row["n"].item(), jax.random.key_data(row["k"]).tolist()],
        "world": unreplicate(world).tolist(),
        "index": [x[0].tolist() for x in (world, copies["w"])],
        "first row": [first_row(x).tolist() for x in (world, copies["w"])],
        "show": show({"world": world, "whole": stitch(np.ones(2), mesh, P())}).splitlines()[1:],
    }


def test_replicate_and_read(job: Job):
    for me, value in enumerate(job.values(reading)):
        world = job.processes * job.devices
        assert value["local"]
        assert value["row"] == [[me] * 3, me, [0, me]]
        assert value["world"] == [me, me]
        assert value["first row"] == value["index"] == [[0, 0], [me] * 3]
        whole, rows = (line.split() for line in value["show"])
        assert whole[1:] == ["float32[2]", "P()", "8", str(world), "equal"]
        assert rows[1:] == [
            f"int32[{world},2]",
            "P('i')",
            "8",
            "1",
            "equal" if job.devices > 1 else "-",
        ]


def waiting():
    import time

    import jax

    from shardlift import _compat, barrier

    for _ in range(3):
        barrier("again", timeout=30)
    last = jax.process_index() == jax.process_count() - 1
    stock = _compat.coordination
    _compat.coordination = lambda: None
    barrier("without the service")
    _compat.coordination = stock
    time.sleep(2 * last)
    try:
        barrier("late", timeout=1)
    except TimeoutError as error:
        return str(error)


def test_barrier_names_who_did_not_arrive(job: Job):
    *others, last = job.values(waiting)
    who = f"process {job.processes - 1} of {job.processes}"
    assert all(f"barrier 'late': after 1 s, {who} did not arrive" in text for text in others)
    assert "did not arrive" in last


job = job_of(stitching, meshes, reading, waiting)
