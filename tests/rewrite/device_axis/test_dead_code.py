"""What a rewrite made dead is removed; what was dead before, or may be used, stays."""

from __future__ import annotations

import pytest

from shardlift.rewrite.goal import Goal
from tests.rewrite.test_programs import migrated

HEAD = """\
import jax
import jax.numpy as jnp


def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())


# Splits a batch.
def shard(x):
    n = jax.local_device_count()
    return x.reshape((n, -1) + x.shape[1:])


def mean(x):
    return jax.lax.pmean(x, "i")


p_mean = jax.pmap(mean, axis_name="i")


def main(loader):
    n = jax.local_device_count()
    scale = replicate(jnp.ones(2))
    for batch in loader:
        out = p_mean(shard(batch))
        out = jax.tree_map(lambda x: x[0], out)
        print(out)
"""


def written(text: str, **others: str) -> str:
    return migrated({"main.py": text, **others}, goal=Goal.GLOBAL)[0]["main.py"]


def test_a_function_that_only_the_old_text_used_is_removed() -> None:
    after = written(HEAD)
    assert "def shard(" not in after
    assert "# Splits a batch." not in after
    # An assignment of a name to itself is removed, too.
    assert "        out = p_mean(batch)\n        print(out)\n" in after


def test_no_blank_lines_are_left_where_the_last_function_was() -> None:
    shard = HEAD[HEAD.index("# Splits") : HEAD.index("def mean")]
    text = HEAD.replace(shard, "")
    after = written(f"{text}\n\n{shard.rstrip()}\n")
    assert "def shard(" not in after
    assert after.endswith("        print(out)\n")


def test_what_was_dead_before_stays_with_what_it_uses() -> None:
    unused = "def unused(x):\n    return shard(x)\n"
    after = written(HEAD.replace("def mean", f"{unused}\n\ndef mean"))
    assert unused in after
    assert "def shard(x):" in after


@pytest.mark.parametrize(
    "other",
    ["from main import shard", "import main\nmain.shard", "import main\ngetattr(main, 'shard')"],
)
def test_what_another_file_may_use_stays(other: str) -> None:
    assert "def shard(" in written(HEAD, **{"other.py": f"{other}\n"})


def test_what_the_module_exports_stays() -> None:
    assert "def shard(" in written(f'{HEAD}\n\n__all__ = ["shard"]\n')
