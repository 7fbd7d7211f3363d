"""Plain `jax.shard_map` at a site: where its mesh comes from, and how rows are taken and added."""

import re

import pytest

from shardlift.rewrite.goal import Goal
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
MESH = 'mesh = jax.sharding.Mesh(jax.devices(), ("i",))\n'
ONE_PROCESS = """\
if mesh.is_multi_process:
    raise RuntimeError("written for one process, not for several")
"""


def written(text: str, **others: str) -> str:
    return migrated({"main.py": text, **others}, goal=Goal.GLOBAL)[0]["main.py"]


def test_a_script_has_its_mesh_in_a_variable() -> None:
    after = written(SCRIPT)
    assert MESH in after
    assert "mesh=mesh," in after
    assert f"{MESH}{ONE_PROCESS}replicated = jax.NamedSharding(mesh, jax.P())\n" in after
    assert "jax.device_put(jax.tree.map(jnp.copy, jnp.ones(2)), replicated)" in after
    assert "per_row_of(step, in_axes=(None, 0), out_axes=None)," in after


@pytest.mark.parametrize(
    "text",
    [
        STEP + MAIN,  # nothing says that it is run
        SCRIPT.replace(
            "    params =", '    jax.config.update("jax_platforms", "cpu")\n    params ='
        ),
        SCRIPT.replace("import jax\n", "import jax\n\njax.config.config_with_absl()\n", 1),
    ],
)
def test_devices_are_not_touched_before_it_is_time(text: str) -> None:
    after = written(text)
    assert "mesh = jax.sharding.Mesh(" not in after
    assert "shard_map_at_call(" in after.partition("p_step = jax.jit(")[2]
    assert 'device_mesh("i")' in after


def test_settings_above_the_mesh_do_no_harm() -> None:
    above = STEP.replace("def step", 'jax.config.update("jax_enable_x64", True)\n\n\ndef step')
    after = written(above + MAIN + GUARD)
    assert after.index("config.update") < after.index(MESH)


def test_a_site_that_stays_stacked_shares_the_mesh_below_which_it_is() -> None:
    rows = "jnp.ones((jax.local_device_count(), 2))"
    other = f'p_other = jax.pmap(other, axis_name="i")\nprint(p_other({rows}))\n'
    text = STEP.replace("def step", "def other(x):\n    return 2 * x\n\n\ndef step") + other
    after = written(text + MAIN + GUARD)
    assert "per_row(other)" in after
    assert after.count("sharding.Mesh(") == 1
    assert after.index(MESH) < after.index("p_other = ")


def test_the_mesh_is_made_above_the_first_copy() -> None:
    start = "    params = jax.device_put_replicated(jnp.ones(2), jax.local_devices())\n"
    text = STEP + start.strip() + "\n" + MAIN.replace(start, "") + GUARD
    after = written(text)
    assert after.index(MESH) < after.index("params = jax.device_put(") < after.index("p_step = ")


def test_blank_lines_are_between_the_mesh_and_a_class() -> None:
    inside = MAIN.partition("\n\n\n")[2].replace("\n", "\n    ").replace("def main", "def run")
    text = STEP + f"class Main:\n    {inside.strip()}\n\n\n".replace("run()", "run(self)")
    mapped = text.replace("p_step(", 'jax.pmap(step, axis_name="i")(')
    after = written(mapped + 'if __name__ == "__main__":\n    Main().run()\n')
    assert after.partition(MESH)[2].partition("class Main")[0].endswith("jax.P())\n\n\n")


def test_a_site_in_a_function_asks_for_the_mesh_there() -> None:
    inside = MAIN.replace("p_step(", 'jax.pmap(step, axis_name="i")(').partition("\n\n\n")[2]
    after = written(f"{STEP}{inside}\n\nmain()\n\nos.environ['A'] = 'b'\n")
    assert 'mesh=device_mesh("i")' in after
    assert "shard_map_at_call" not in after


def test_the_name_of_the_mesh_is_not_that_of_something_else() -> None:
    after = written(SCRIPT.replace("    keys =", "    mesh = 3\n    keys ="))
    assert "i_mesh = jax.sharding.Mesh(" in after
    assert "mesh=i_mesh" in after


def test_two_axes_have_two_meshes() -> None:
    more = STEP.replace("step", "other").replace('"i"', '"j"').partition("\n\n\n")[2]
    text = STEP + more + MAIN.replace("\n\n\ndef", '\np_other = jax.pmap(other, "j")\n\n\ndef')
    after = written(text + "    print(p_other(params, keys)[0])\n" + GUARD)
    assert MESH in after
    assert 'j_mesh = jax.sharding.Mesh(jax.devices(), ("j",))\n' in after


COMMENTED = 'functools.partial(\n    jax.pmap,\n    axis_name="i",  # the axis\n)'


def _decorated(decorator: str) -> str:
    text = SCRIPT.replace("def step(", f"@{decorator}\ndef step(").replace("p_step(", "step(")
    text = text.replace('p_step = jax.pmap(step, axis_name="i")', "")
    return f"import functools\n{text}" if "functools" in decorator else text


def test_the_rows_of_a_decorated_function() -> None:
    plain = _decorated("jax.pmap").replace("jax.lax.pmean(", "max(")
    files = {"main.py": plain, "other.py": plain}  # which import the helper
    after = migrated(files, goal=Goal.GLOBAL)[0]["main.py"]
    assert after.startswith("import functools\n")
    assert "\n@functools.partial(per_row_of, in_axes=(None, 0), out_axes=None)\ndef step(" in after
    after = written(_decorated('functools.partial(jax.pmap, axis_name="i")'))
    decorators = "@functools.partial(per_row_of, in_axes=(None, 0), out_axes=None)\ndef step("
    assert decorators in after
    assert '@jax.shard_map(\n    mesh=mesh,\n    in_specs=(jax.P(), jax.P("i")),\n' in after


UNMAPPED = """\
import functools

import jax
import jax.numpy as jnp

rows = jnp.ones((8, 2))[None][0]
y = jax.device_put_replicated(1.0, jax.local_devices())


@functools.partial(jax.pmap, axis_name="i", out_axes=(None, 0))
def step(x):
    return jax.lax.psum(x, "i"), x * x


total, squares = step(rows)
print(total, squares[0])
"""


def test_outputs_of_which_some_have_no_device_axis_keep_the_site_as_it_is() -> None:
    for axes in ("(None, 0)", "[None, 0]"):
        text = UNMAPPED.replace("(None, 0)", axes)
        assert "out_specs=(" not in written(text)


def test_outputs_without_a_device_axis_have_an_empty_spec() -> None:
    for axes in ("None", "(None, None)"):
        text = UNMAPPED.replace("(None, 0)", axes).replace("squares[0]", "squares")
        after = written(
            text.replace("def step(x)", "def step(x, y)").replace("(rows)", "(rows, y)")
        )
        assert "out_specs=jax.P()," in after
        assert "in_axes=(0, None), out_axes=None" in after


def _with(option: str) -> str:
    return SCRIPT.replace('axis_name="i")', f'axis_name="i", {option})')


NOT_PLAIN = {
    SCRIPT.replace("p_step(params, keys)", "p_step(params, key=keys)"):
        "its call at /p/main.py:15 has keyword or unpacked arguments, or another number than "
        "others: always give all arguments by position",
    SCRIPT.replace("p_step(params, keys)", "p_step(*(params, keys))"):
        "its call at /p/main.py:15 has keyword or unpacked arguments",
    _with("static_broadcasted_argnums=1"): "it has static arguments: bind them with functools",
    _with("devices=jax.devices()"): "it is given devices: leave that out if it runs on all devices",
    _with("devices=jax.devices()[:2]"): "it is given devices: leave that out",
    _with("devices=None or []"): "it has devices of its own",
    _with("axis_size=2"): "it has `axis_size=`",
    _with("backend='cpu'"): "it has `backend=`",
    SCRIPT.replace("step, axis", "step, # of one device\n    axis"): "there are comments inside `",
    _decorated(COMMENTED): "there are comments inside `",
    SCRIPT.replace("def main", "def per_row_of(x):\n    return x\n\n\ndef main"):
        "the name `per_row_of` means something else",
    SCRIPT.replace("def step", "jax.distributed.initialize()\n\n\ndef step"):
        "several processes run it, each with arrays of its own: make global arrays of them by hand",
    SCRIPT.replace(MAIN, AGAIN): "it may be mapped again, and is then not compiled again",
}  # fmt: skip


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_a_site_that_cannot_be_plain_keeps_its_axis(text: str) -> None:
    after, migration = migrated({"main.py": text}, goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    assert any(NOT_PLAIN[text] in reason for reason in said), said
    assert "per_row_of(step" not in after["main.py"]
    assert all(f"#{comment}\n" in after["main.py"] for comment in re.findall("#(.*)", text))


def test_no_devices_are_all_devices() -> None:
    assert "per_row_of(step" in written(_with("devices=None"))
