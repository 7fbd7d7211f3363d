"""Applying edits, and the safe fixes that findings carry."""

import ast

import pytest

from shardlift.check.engine import check_text
from shardlift.source.edits import OverlapError, apply_edits, origin
from shardlift.source.model import Edit, Span

MERGE = "jax.config.update('jax_pmap_shmap_merge', False)"
OPTION = "jax.config.update('jax_array', 1)"
VARIABLE = "os.environ['JAX_PMAP_SHMAP_MERGE'] = '0'\n"


def test_several_edits_in_any_order() -> None:
    edits = [Edit(Span(2, 0, 2, 1), "Y"), Edit(Span(1, 0, 1, 1), "XX"), Edit(Span(1, 1, 1, 1), "!")]
    assert apply_edits("a\nb\n", [*edits, edits[0]]) == "XX!\nY\n"  # the same twice is one


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(OverlapError, match="offset 1"):
        apply_edits("abc", [Edit(Span(1, 0, 1, 2), "x"), Edit(Span(1, 1, 1, 3), "y")])


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_stay(ending: str) -> None:
    text = f"a{ending}b{ending}"
    assert apply_edits(text, [Edit(Span(2, 0, 2, 1), "c")]) == f"a{ending}c{ending}"


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("import jax\ny = jax.tree_map(f, x)", "tree_map", "tree.map"),
        (
            "from jax import tree_multimap as m\nm(f)",
            "jax import tree_multi",
            "jax.tree_util import tree_",
        ),
        ("import jax\nif jax.host_id():\n    pass", "host_id", "process_index"),
        ("from jax import host_id", "host_id", "process_index as host_id"),
        (
            "from jax import host_id\nn = host_id()",
            "host_id\nn = host_id",
            "process_index\nn = process_index",
        ),
        (
            "from jax import host_id\nprocess_index = host_id()",
            "host_id\n",
            "process_index as host_id\n",
        ),
        ("import jax.numpy as jnp\ny = jnp.product(x)", "product", "prod"),
        ("import jax\ndef f(k: jax.random.KeyArray):\n    pass", "random.KeyArray", "Array"),
        ("import jax\ns = jax.SingleDeviceSharding(d)", "jax.S", "jax.sharding.S"),
        ("from jax.experimental.stax import Dense, Relu", "experimental", "example_libraries"),
        ("import jax.linear_util as lu", "jax", "jax.extend"),
        ("from jax.experimental import optimizers as o, stax", "experimental", "example_libraries"),
        (
            "from jax import (\n    jit,  # why\n    tree_map,\n    tree_leaves as leaves,\n)",
            "    tree_map,\n    tree_leaves as leaves,\n)",
            ")\nfrom jax.tree_util import tree_map, tree_leaves as leaves",
        ),
        ("from jax.numpy import fix, ones", "fix", "trunc as fix"),
        (f"import jax\n{MERGE}  # old\nx = 1", f"{MERGE}  # old\n", ""),
        (f"import os\n{VARIABLE}", VARIABLE, ""),
        (f"import jax\nif x:\n    {OPTION}", OPTION, "pass"),
        ("import jax\ng = jax.shard_map(f, mesh=m, check_rep=False)", "check_rep", "check_vma"),
        ("import jax\nm = jax.make_mesh(shape=(8,), axis_names=('i',))", "shape=", ""),
        ("import jax\ny = 'é', jax.tree_map(f, x)", "tree_map", "tree.map"),
    ],
)
def test_safe_fixes(before: str, old: str, new: str) -> None:
    edits = [edit for finding in check_text(before).findings for edit in finding.edits]
    assert edits
    fixed = apply_edits(before, edits)
    assert fixed == before.replace(old, new)
    ast.parse(fixed)
    left = check_text(fixed).findings
    assert not [finding for finding in left if finding.edits]


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        (1, 2, (1, 2, True)),  # before both edits
        (1, 6, (1, 4, False)),  # inside the first replacement
        (2, 1, (1, 9, True)),  # between the edits
        (3, 3, (2, 0, False)),  # inside the second replacement, an insertion
        (4, 1, (2, 1, True)),  # after both edits
    ],
)
def test_positions_are_traced_back(line: int, column: int, expected: tuple[int, int, bool]) -> None:
    text = "x = pmap(f)\ny = 2"
    edits = [Edit(Span(1, 4, 1, 8), "jax.jit(\n"), Edit(Span(2, 0, 2, 0), "z = 3\n")]
    after = apply_edits(text, edits)
    assert after == "x = jax.jit(\n(f)\nz = 3\ny = 2"
    assert origin(text, edits, line, column) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import jax.numpy as jnp\ny: jnp.DeviceArray",  # `jax` itself is not a name here
        "import jax\np = jax.core.Primitive('p')",  # jax.extend has to be imported for it
        "import jax\nx = jax.device_put_replicated(x, d)",
    ],
)
def test_no_fix_where_it_would_take_more_than_a_rename(text: str) -> None:
    findings = check_text(text).findings
    assert findings
    assert not [edit for finding in findings for edit in finding.edits]
