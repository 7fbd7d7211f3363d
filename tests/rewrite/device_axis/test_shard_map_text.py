"""Plain `jax.shard_map` at a site: where its mesh comes from, and how rows are taken and added."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Capture, Process, SiteFacts
from shardlift.rewrite.goal import Goal
from tests.rewrite.captures import proof
from tests.rewrite.test_programs import migrated

STEP = """\
import jax
import jax.numpy as jnp


def step(params, key):
    return jax.lax.pmean(params * jax.random.normal(key), "i")


"""
MAIN = """\
p_step = jax.pmap(step, axis_name="i")


def main():
    params = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
    keys = jax.random.split(jax.random.key(0), jax.local_device_count())
    print(p_step(params, keys)[0])
"""
GUARD = '\n\nif __name__ == "__main__":\n    main()\n'
SCRIPT = STEP + MAIN + GUARD
AGAIN = """\
def main():
    for key in range(2):
        params = jax.device_put_replicated(jnp.ones(2), jax.local_devices())
        keys = jax.random.split(jax.random.key(key), jax.local_device_count())
        print(jax.pmap(step, axis_name="i")(params, keys)[0])
"""
MESH = 'mesh = jax.make_mesh((jax.device_count(),), ("i",), axis_types=(AxisType.Auto,))\n'
ONE_PROCESS = """\
if mesh.is_multi_process:
    raise RuntimeError("written for one process, not for several")
"""


def written(text: str, facts: Capture | None = None, **others: str) -> str:
    return migrated({"main.py": text, **others}, goal=Goal.GLOBAL, facts=facts)[0]["main.py"]


def test_a_script_has_its_mesh_in_a_variable_and_no_helper() -> None:
    after = written(SCRIPT)
    assert MESH in after
    assert "mesh=mesh," in after
    assert "from jax.sharding import AxisType\n" in after
    assert f"{MESH}{ONE_PROCESS}replicated = jax.NamedSharding(mesh, jax.P())\n" in after
    assert "jax.device_put(jax.tree.map(jnp.copy, jnp.ones(2)), replicated)" in after
    assert "jax.random.normal(key[0])" in after
    assert after.count("def ") == 2


@pytest.mark.parametrize(
    "text",
    [
        STEP + MAIN,  # nothing says that it is run
        SCRIPT.replace(
            "    params =", '    jax.config.update("jax_platforms", "cpu")\n    params ='
        ),
        SCRIPT.replace("    params =", '    os.environ["XLA_FLAGS"] = flags\n    params ='),
        SCRIPT + '\njax.config.update("jax_platforms", "cpu")\n',
        SCRIPT.replace("import jax\n", "import jax\n\njax.config.config_with_absl()\n", 1),
    ],
)
def test_devices_are_not_touched_before_it_is_time(text: str) -> None:
    after = written(text)
    assert "mesh = jax.make_mesh(" not in after
    assert "shard_map_at_call(" in after.partition("p_step = jax.jit(")[2]
    assert 'device_mesh("i")' in after


def test_a_module_that_is_imported_does_not_touch_devices() -> None:
    after = written(SCRIPT, **{"other.py": "import main\n\nmain.main()\n"})
    assert "mesh = jax.make_mesh(" not in after


def test_settings_above_the_mesh_do_no_harm() -> None:
    above = STEP.replace("def step", 'jax.config.update("jax_enable_x64", True)\n\n\ndef step')
    after = written(above + MAIN + GUARD)
    assert after.index("config.update") < after.index(MESH)


def test_a_site_in_a_function_asks_for_the_mesh_there() -> None:
    inside = MAIN.replace("p_step(", 'jax.pmap(step, axis_name="i")(').partition("\n\n\n")[2]
    after = written(f"{STEP}{inside}\n\nmain()\n\nos.environ['A'] = 'b'\n")
    assert 'mesh=device_mesh("i")' in after
    assert "shard_map_at_call" not in after


def test_the_name_of_the_mesh_is_not_that_of_something_else() -> None:
    after = written(SCRIPT.replace("    keys =", "    mesh = 3\n    keys ="))
    assert "i_mesh = jax.make_mesh(" in after
    assert "mesh=i_mesh" in after


def test_another_axis_type_is_left_alone() -> None:
    after = written(SCRIPT.replace("def main", "class AxisType:\n    pass\n\n\ndef main"))
    assert "axis_types=(jax.sharding.AxisType.Auto,)" in after


def test_two_axes_have_two_meshes() -> None:
    more = STEP.replace("step", "other").replace('"i"', '"j"').partition("\n\n\n")[2]
    text = STEP + more + MAIN.replace("\n\n\ndef", '\np_other = jax.pmap(other, "j")\n\n\ndef')
    after = written(text + "    print(p_other(params, keys)[0])\n" + GUARD)
    assert MESH in after
    assert 'j_mesh = jax.make_mesh(\n    (jax.device_count(),), ("j",), axis_types=(AxisT' in after


def test_rows_of_a_function_that_is_used_elsewhere_are_taken_by_a_lambda() -> None:
    after = written(SCRIPT.replace("    keys =", "    print(step(1.0, key))\n    keys ="))
    assert "jax.random.normal(key)" in after
    assert "lambda params, key: step(params, key[0])," in after


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT.replace("p_step = ", "step = p_step = "),  # the lambda would call itself
        SCRIPT.replace("def main():\n", "def main():\n    global step\n    step = None\n"),
        SCRIPT.replace("def main():\n", "def main():\n    config.step = 3\n"),
        SCRIPT.replace("(params, key)", "(params, jax)").replace("normal(key)", "normal(jax)"),
    ],
)
def test_no_lambda_where_a_name_may_mean_something_else(text: str) -> None:
    after = written(text.replace("    keys =", "    print(step(1.0, key))\n    keys ="))
    assert "lambda params" not in after


STATIC = """\
import jax
import jax.numpy as jnp

rows = jnp.ones((8, 2))


def scaled(x, factor, y):
    return x * factor + y


p_scaled = jax.pmap(scaled, in_axes=(0, None, None), static_broadcasted_argnums=1)
print(p_scaled(rows, 3, 1.0))
"""


def test_static_arguments_are_those_of_a_lambda_that_is_jitted() -> None:
    after = written(STATIC, recorded(11, "scaled"))
    assert "    lambda x, factor, y: jax.shard_map(\n" in after
    assert "        lambda x, y: scaled(x, factor, y),\n" in after
    assert '        in_specs=(jax.P("_devices"), jax.P()),\n' in after
    assert "    )(x, y),\n    static_argnums=(1,),\n)\n" in after
    assert "    x = jax.tree.map(lambda x: jnp.squeeze(x, 0), x)\n" in after


def test_comments_of_a_site_with_a_lambda_move_above_it() -> None:
    text = STATIC.replace("jax.pmap(scaled, ", "jax.pmap(\n    scaled,  # once\n    ")
    after = written(text, recorded(11, "scaled"))
    assert "# once\np_scaled = jax.jit(\n    lambda x, factor, y:" in after


UNMAPPED = """\
import functools

import jax
import jax.numpy as jnp

rows = jnp.ones((8, 2))


@functools.partial(jax.pmap, axis_name="i", out_axes=(None, 0))
def step(x):
    return jax.lax.psum(x, "i"), x * x


total, squares = step(rows)
print(total, squares[0])
"""


def test_outputs_without_a_device_axis_have_an_empty_spec() -> None:
    after = written(UNMAPPED, recorded(9, "step", outputs=2))
    assert 'out_specs=(jax.P(), jax.P("i"))' in after
    assert 'return jax.lax.psum(x, "i"), jnp.expand_dims(x * x, 0)' in after
    assert "print(total, squares[0])" in after


def test_outputs_with_and_without_an_axis_that_are_used_as_one_tree_keep_their_specs() -> None:
    text = UNMAPPED.replace("total, squares = ", "both = ").replace("total, squares[0]", "both")
    after = written(text, recorded(9, "step"))
    assert 'out_specs=(jax.P(), jax.P("i"))' in after


def test_one_spec_for_an_output_that_has_no_axis_at_all() -> None:
    text = UNMAPPED.replace("(None, 0)", "None").replace("squares = step(rows)", "s = step(rows)")
    after = written(text.replace("squares[0]", "s"), recorded(9, "step"))
    assert "out_specs=jax.P()," in after
    assert "expand_dims" not in after


def test_out_axes_in_a_list_are_left_to_the_helper() -> None:
    assert "out_specs=(" not in written(UNMAPPED.replace("(None, 0)", "[None, 0]"))


BY_KEYWORD = SCRIPT.replace("p_step(params, keys)", "p_step(params, key=keys)").replace(
    "def step(params, key)", "def step(params, *, key)"
)
LINES = 'lambda params, key: jax.lax.pmean(\n        params * jax.random.normal(key), "i")'
NOT_PLAIN = {
    BY_KEYWORD: "jax.shard_map takes no keyword arguments: give all arguments by position",
    SCRIPT.replace("jax.pmap(step,", f"jax.pmap({LINES},"): "cannot take and return rows itself",
    SCRIPT.replace(MAIN, AGAIN): "it may be mapped again, and is then not compiled again",
}


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_a_site_that_cannot_be_plain_keeps_its_axis(text: str) -> None:
    after, migration = migrated({"main.py": text}, goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    assert any(NOT_PLAIN[text] in reason for reason in said), said
    assert "jax.pmap(" in after["main.py"] or "per_row(" in after["main.py"]


# ---- rows


def recorded(line: int, function: str, devices: int = 8, outputs: int = 0) -> Capture:
    """A run on some devices, in which a function was called with 8 rows; nothing was proven."""
    process = Process(0, 1, "3", "0", "0", "cpu", "cpu", tuple(f"cpu:{k}" for k in range(devices)))
    paths = [f"output[{k}]" for k in range(outputs)] or ["output"]
    proofs = tuple(proof(path, None) for path in paths)
    site = SiteFacts("main.py", line, function, axis_name="i", axis_size=8, calls=1, proofs=proofs)
    return Capture(processes=(process,), sites=(site,))


ROWS = """\
import jax
import jax.numpy as jnp

rows = jnp.ones((8, 2))


@jax.pmap
def step(x):
    return (x * x).sum()


print(step(rows))
"""
LAMBDA = (
    "import jax\nimport jax.numpy as jnp\n\nprint(jax.pmap(lambda x: 2 * x)(jnp.ones((8, 2))))\n"
)


def test_rows_that_a_run_showed_on_all_devices_are_taken_and_added() -> None:
    after = written(ROWS, recorded(7, "step"))
    assert "    x = jax.tree.map(lambda x: jnp.squeeze(x, 0), x)\n    return " in after
    assert "return jnp.expand_dims((x * x).sum(), 0)" in after
    assert "def spmd_map" not in after


def test_rows_are_taken_below_a_docstring() -> None:
    text = ROWS.replace("    return (x", '    """Squares."""\n    return (x')
    assert '    """Squares."""\n    x = jax.tree.map(' in written(text, recorded(7, "step"))


def test_rows_on_some_of_the_devices_stay_as_they_were() -> None:
    assert "jax.pmap" in written(ROWS, recorded(7, "step", devices=16))
    assert "jax.pmap" in written(ROWS)


def test_a_lambda_takes_and_adds_rows() -> None:
    after = written(LAMBDA, recorded(4, "<lambda>"))
    row = "jax.tree.map(lambda x: jnp.squeeze(x, 0), x)"
    assert f"lambda x: jnp.expand_dims(2 * {row}, 0)" in after
