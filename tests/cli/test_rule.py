"""What a rule page says to use instead is what the rewriter writes."""

import pytest

from shardlift.check.rules import all_rules
from shardlift.cli.rule import use_instead


@pytest.mark.parametrize(
    ("code", "command", "line"),
    [
        ("SL105", "fix", "y = jax.tree.map(f, x)"),
        ("SL401", "fix", "print(jax.device_get(y)[0])"),
        ("SL101", "fix", "x = device_put_replicated(x, jax.local_devices())"),
        ("SL201", "migrate", "jax.shard_map"),
        ("SL702", "fix", "mesh = jax.make_mesh((8,), axis_names=('i',))"),
    ],
)
def test_the_rewriter_makes_it(code: str, command: str, line: str) -> None:
    text = use_instead(all_rules()[code])
    assert text.startswith(f"`shardlift {command}` makes of this\n")
    before, after = text.split("\nthis:\n")
    assert line in after
    assert line not in before
    assert f"# {code}" not in text


def test_what_is_left_to_people_has_none() -> None:
    assert use_instead(all_rules()["SL501"]) == ""
