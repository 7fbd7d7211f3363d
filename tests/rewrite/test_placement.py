"""Placing: what is left alone, what takes its place, what is refused."""

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.placement import rewrite
from shardlift.source.settings import Settings
from tests.rewrite.steps import migrated, refused, results, rewritten


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize(
    "text",
    [
        "import jax\ny = jax.device_put(x, sharding)\n",
        "import mylib as jax\ny = jax.device_put_sharded(xs, d)\n",
        "def device_put_replicated(x, d):\n    return x\ny = device_put_replicated(x, d)\n",
        "import jax\nif hasattr(jax, 'device_put_sharded'):\n    put = jax.device_put_sharded\n",
        "import jax\ntry:\n    put = jax.device_put_sharded\nexcept AttributeError:\n    pass\n",
        "import jax\njax.device_put_sharded = mine\n",
        "text = 'jax.device_put_sharded'  # jax.device_put_sharded\n",
        "from flax.training import common_utils\nb = common_utils.shard(b)\n",
        "from flax.jax_utils import pad_shard_unpad\nf = pad_shard_unpad(f)\n",
        "from mylib import jax_utils\ns = jax_utils.replicate(s)\n",
        "import jax\nn = jax.local_device_count()\nx = x.reshape((n, -1) + x.shape[1:])\n",
        "import jax\nimport jax.numpy as jnp\nn = jax.device_count()\n"
        "p = jax.tree.map(lambda x: jnp.stack([x] * n), p)\n",
    ],
)
def test_left_alone(text: str, goal: Goal) -> None:
    assert not results(rewrite, text, goal)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import jax\nfrom flax import jax_utils\n"
            "s = jax.device_put_replicated(s, jax.local_devices())\nprint(jax, jax_utils)\n",
            "import jax\nfrom flax import jax_utils\n"
            "s = jax_utils.replicate(s)\nprint(jax, jax_utils)\n",
        ),
        (
            "import flax\nimport jax\ns = jax.device_put_replicated((s, t), jax.devices())\n",
            "import flax\nimport jax\ns = flax.jax_utils.replicate((s, t), jax.devices())\n",
        ),
        (
            "from flax import linen as nn\nfrom jax import device_put_replicated as put\n"
            "s = put(s, d)\nprint(nn)\n",
            "from flax import jax_utils, linen as nn\ns = jax_utils.replicate(s, d)\nprint(nn)\n",
        ),
    ],
)
def test_a_file_that_imports_flax_replicates_by_it(before: str, after: str) -> None:
    assert migrated(before, Goal.FIX, Settings()) == after
    assert "jax_utils.replicate" not in migrated(before)  # with an old flax


PLAIN = [
    (
        "import jax\ny = jax.device_put_sharded(list(x), devices=d)\n",
        "import jax\ny = device_put_sharded(list(x), devices=d)\n",
    ),
    (
        "import jax\nf(jax.device_put_sharded(list(jax.random.split(k, 8)), d), axis_name='i')\n",
        "import jax\nrows = jax.sharding.NamedSharding(\n    jax.sharding.Mesh(d, ('i',)), "
        "jax.sharding.PartitionSpec('i')\n)\nf(jax.device_put(jax.random.split(k, 8), rows), "
        "axis_name='i')\n",
    ),
    (
        "import jax\ndef f(x, d):\n    x = x.reshape(len(d), -1).astype(int)\n"
        "    return jax.device_put_sharded(list(x), d)\n",
        "import jax\ndef f(x, d):\n    x = x.reshape(len(d), -1).astype(int)\n"
        '    rows = jax.sharding.NamedSharding(\n        jax.sharding.Mesh(d, ("devices",)),\n'
        '        jax.sharding.PartitionSpec("devices"),\n    )\n'
        "    return jax.device_put(x, rows)\n",
    ),
    (
        "import jax\nimport numpy as np\ny = jax.device_put_sharded(list(np.split(x, 8)), d)\n",
        "import jax\nimport numpy as np\ny = device_put_sharded(list(np.split(x, 8)), d)\n",
    ),
    (
        "import jax as j\nput = functools.partial(j.device_put_replicated, devices=d)\n",
        "import jax as j\nput = functools.partial(device_put_replicated, devices=d)\n",
    ),
    (
        "from jax import jit, device_put_sharded as put, lax\ny = put(xs, d)\nz = put\n",
        "from jax import jit, lax\ny = device_put_sharded(xs, d)\nz = device_put_sharded\n",
    ),
    (
        "from flax import jax_utils as u\nfor b in u.prefetch_to_device(it, 2):\n    f(b)\n",
        "from flax import jax_utils as u\nfor b in prefetch_to_device(it, 2):\n    f(b)\n",
    ),
    (
        "def f(x):\n    from flax.jax_utils import (\n        replicate,  # rows\n        pmean,\n"
        "    )\n    return replicate(x)\n",
        "def f(x):\n    from flax.jax_utils import (\n        pmean,\n"
        "    )\n    return replicate(x)\n",
    ),
    ("from flax.jax_utils import unreplicate as u\nsave(u(s))\n", "save(unreplicate(s))\n"),
    (
        "from flax.jax_utils import unreplicate\nimport jax\n"
        "y = jax.pmap(f, in_axes=None)(unreplicate(s))\nz = unreplicate(y)\n",
        "import jax\ny = jax.pmap(f, in_axes=None)(unreplicate(s))\nz = unreplicate(y)\n",
    ),
]


@pytest.mark.parametrize(("before", "after"), PLAIN)
def test_to_helpers(before: str, after: str) -> None:
    assert rewritten(rewrite, before) == after
    assert not results(rewrite, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import jax\ny = jax.device_put_sharded(xs, d)\n",
            "import jax\ny = shardlift.device_put_sharded(xs, d)\n",
        ),
        (
            "from flax.jax_utils import replicate, pmean\ns = replicate(s, axis_name='i')\n",
            "from flax.jax_utils import pmean\nfrom shardlift import replicate\n"
            "s = replicate(s, axis_name='i')\n",
        ),
        (
            "from flax import jax_utils\ns = jax_utils.unreplicate(s)\n",
            "from flax import jax_utils\ns = shardlift.unreplicate(s)\n",
        ),
    ],
)
def test_to_the_shim(before: str, after: str) -> None:
    assert rewritten(rewrite, before, Goal.SHIM) == after
    assert not results(rewrite, after, Goal.SHIM)


def test_the_shim_is_imported_once() -> None:
    text = "import jax\na = jax.device_put_sharded(xs, d)\nb = jax.device_put_replicated(x, d)\n"
    after = migrated(text, Goal.SHIM)
    assert after.count("import shardlift\n") == 1
    assert "import jax\n" not in after
    assert migrated(after, Goal.SHIM) == after


def test_a_name_of_the_file_is_not_taken_over() -> None:
    text = "import flax\ndef replicate(x):\n    return flax.jax_utils.replicate(x)\n"
    assert rewritten(rewrite, text) == text
    assert refused(rewrite, text) == [
        "flax.jax_utils.replicate: the file has a `replicate` of its own"
    ]
    text = "import jax\ndef f(device_put_sharded):\n    return jax.device_put_sharded(x, d)\n"
    assert rewritten(rewrite, text) == text
    text = (
        "import jax\nfrom mylib import replicate\nfrom flax.jax_utils import replicate as r\nr(x)\n"
    )
    assert rewritten(rewrite, text) == text
    assert refused(rewrite, text)


def test_an_axis_name_is_for_flax_alone() -> None:
    text = "from flax.jax_utils import replicate\ns = replicate(s, axis_name='i')\n"
    assert not results(rewrite, text)


@pytest.mark.parametrize(("before", "_after"), PLAIN)
def test_the_whole_engine_leaves_no_trace_of_them(before: str, _after: str) -> None:
    after = migrated(before)
    for word in ("jax.device_put_sharded", "jax.device_put_replicated", "jax_utils.replicate"):
        assert word not in after
    assert migrated(after) == after
    compile(after, "after.py", "exec")


def test_an_import_that_has_another_use_stays() -> None:
    kept = migrated("import flax\ns = flax.jax_utils.replicate(s)\nm = flax.linen.Dense\n")
    assert kept.count("import flax\n") == 1


@pytest.mark.parametrize("home", ["from pkg._spmd import replicate\n", None])
def test_a_helper_that_is_there_is_used(home: str | None) -> None:
    use = "from flax import jax_utils\ns = jax_utils.replicate(s)\n"
    there = home or migrated(use)
    text = there + "import flax\nt = flax.jax_utils.replicate(t)\n"
    assert "t = replicate(t)\n" in rewritten(rewrite, text)
    assert not refused(rewrite, text)


def test_a_method_of_the_same_name_is_no_obstacle() -> None:
    text = (
        "import jax\n\n\nclass Trainer:\n"
        "    def device_put_replicated(self, x):\n"
        "        return jax.device_put_replicated(x, jax.local_devices())\n"
    )
    assert not refused(rewrite, text)
    assert "return device_put_replicated(x, jax.local_devices())" in rewritten(rewrite, text)
    body = "import jax\n\nclass A:\n    replicate = 1\n    x = jax.device_put_replicated(y, z)\n"
    assert refused(rewrite, body.replace("replicate = 1", "device_put_replicated = 1"))


FLAX = (
    "from flax import jax_utils\n"
    "from flax.training import common_utils\n"
    "s = jax_utils.replicate(s)\n"
    "t = jax_utils.unreplicate(s)\n"
    "it = jax_utils.prefetch_to_device(it, 2)\n"
    "b = common_utils.shard(b)\n"
)


@pytest.mark.parametrize(
    ("jax", "flax", "replaced"),
    [
        ((0, 12), (0, 12, 12), set()),
        ((0, 12), (0, 12, 2), set()),  # flax has to be raised anyway
        ((0, 10, 2), (0, 12, 7), set()),
        ((0, 10, 2), (0, 12, 6), {"replicate", "prefetch_to_device"}),
        ((0, 10, 2), (0, 12, 4), {"replicate", "prefetch_to_device", "unreplicate"}),
        ((0, 9, 2), (0, 12, 4), set()),
        ((0, 9, 2), (0, 12, 2), {"unreplicate"}),
        ((0, 7, 2), (0, 10), set()),
    ],
)
def test_what_works_stays(jax: tuple[int, ...], flax: tuple[int, ...], replaced: set[str]) -> None:
    matches = results(rewrite, FLAX, settings=Settings(jax, flax))
    assert {request.name for match in matches for request in match.helpers} == replaced


@pytest.mark.parametrize(
    ("put", "train", "is_flax"),
    [
        ("import jax\n", "from flax import struct\nfrom p.put import put\n", True),
        ("import jax\nfrom p import train\n", "from flax import struct\n", True),
        ("import jax\n", "import haiku\nfrom p.put import put\n", False),
        ("import jax\n", "from flax import struct\n", False),
    ],
)
def test_a_file_that_is_loaded_with_flax_replicates_by_it(
    put: str, train: str, is_flax: bool
) -> None:
    put += "\n\ndef put(x, d):\n    return jax.device_put_replicated(x, d)\n"
    texts = {"p/put.py": put, "p/train.py": train, "p/__init__.py": ""}
    done = migrate(
        list(texts), lambda path: texts[path].encode(), texts.__contains__, Goal.FIX,
        settings=Settings(),
    )  # fmt: skip
    (after,) = (file.after for file in done.changed)
    assert ("return jax_utils.replicate(x, d)" in after) is is_flax
    assert ("from flax import jax_utils" in after) is is_flax
