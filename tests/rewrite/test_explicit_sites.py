"""`jax.jit(jax.shard_map(per_row(f), mesh=mesh, …))` at the site: where, how, and the same bits."""

import textwrap
from typing import Any

import jax
import numpy as np
import pytest

from tests.processes.harness import run_processes
from tests.rewrite.test_programs import migrated

HEAD = "import jax\nimport numpy as np\n\n\ndef step(x, y):\n    return x + jax.lax.psum(y, 'i')\n"
GUARD = '\n\nif __name__ == "__main__":\n    main()\n'
ROWS = "x = np.arange(jax.local_device_count(), dtype=np.float32)"
MAIN = """
def main():
    {rows}
    {site}
    return p_step(x, x)


if __name__ == "__main__":
    main()
"""
SITE_WRITTEN = """
    def main():
        x = np.arange(jax.local_device_count(), dtype=np.float32)
        mesh = jax.sharding.Mesh(jax.devices(), ('i',))
        p_step = jax.jit(
            jax.shard_map(
                per_row(step),
                mesh=mesh,
                in_specs=jax.P('i'),
                out_specs=jax.P('i'),
                check_vma=False,
            )
        )
        return p_step(x, x)
"""
SITE = "p_step = jax.pmap(step, axis_name='i')"


def program(site: str = SITE, rows: str = ROWS, main: str = MAIN) -> str:
    return HEAD + "\n" + main.format(site=site, rows=rows)


def after(text: str, path: str = "main.py", **others: str) -> str:
    files = {path: text, **{f"{name}.py": other for name, other in others.items()}}
    return migrated(files)[0][path]


def run(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    return jax.block_until_ready(names["main"]())


def moved(before: str) -> str:
    """The text after, which computes the same bits, and stays as it is."""
    text = after(before)
    assert after(text) == text
    np.testing.assert_array_equal(run(before), run(text))
    return text


def whole_main(lines: str) -> str:
    """`main` with other lines below its rows."""
    return MAIN.replace("    {site}\n    return p_step(x, x)\n", lines[1:])


def test_the_site_makes_its_mesh_and_writes_its_calls() -> None:
    text = after(program())
    assert textwrap.dedent(SITE_WRITTEN) in text
    assert "spmd_map" not in text
    assert after(text) == text
    assert after(program().replace("\n", "\r\n")) == text.replace("\n", "\r\n")


SITES = {
    "donated": "p_step = jax.pmap(step, axis_name='i', donate_argnums=(0,))",
    "all axes are the first": "p_step = jax.pmap(step, 'i', in_axes=(0, 0), out_axes=0)",
    "a lambda": "p_step = jax.pmap(lambda x, y: step(x, y), 'i')",
    "a decorator": "@functools.partial(jax.pmap, axis_name='i')\n    def p_step(x, y):\n"
    "        return step(x, y)",
    "two axes": "mean = jax.pmap(lambda z: jax.lax.pmean(z, 'j'), 'j')\n"
    "    p_step = jax.pmap(step, 'i', donate_argnums=0)\n    x = np.asarray(mean(x))",
    "called at once": "p_step = lambda x, y: jax.pmap(lambda x, y: step(x, y), 'i')(x, y)",
    "other axes": "p_step = jax.pmap(step, 'i', in_axes=(0, 0), out_axes=None)",
    "one other axis": "f = jax.pmap(lambda x, y: step(x[0], y), 'i', in_axes=(1, 0))\n"
    "    p_step = lambda x, y: f(x[None], y)",
    "another axis for all": "p_step = jax.pmap(lambda x, y: step(x[0], y[0]), 'i', in_axes=1)\n"
    "    x = x[None]",
    "a comment to mypy": "p_step = jax.pmap(\n        step,\n        'i',\n"
    "        in_axes=(0, 0),  # type: ignore[arg-type]\n        out_axes=None,\n    )",
    "axes of trees": "f = jax.pmap(lambda a, b: step(*a) * b[0], 'i', in_axes=([0, 0], [None]))\n"
    "    p_step = lambda x, y: f([x, y], [2])",
    "a name that another function has": "p_step = jax.pmap(step, 'i')\n\n\n"
    "def other(mesh):\n    return mesh\n\n\ndef main():\n"
    "    x = np.arange(jax.device_count(), dtype=np.float32)\n    p_step = jax.pmap(step, 'i')",
    "all devices": "p_step = jax.pmap(step, 'i', devices=jax.local_devices())",
    "devices of its own": "p_step = jax.pmap(step, 'i', devices=jax.devices()[::-1])",
    "devices by name": "devices = jax.devices()[2:4]\n    x = np.ones(len(devices), np.float32)\n"
    "    p_step = jax.pmap(step, 'i', devices=devices)",
    "a name elsewhere": "NAME = 'i'\n    p_step = jax.pmap(step, axis_name=NAME)",
    "in a branch": "if len(x):\n        # a comment\n        p_step = jax.pmap(step, 'i')",
    "in either branch": "if len(x) > 1:\n        p_step = jax.pmap(step, 'i')\n    else:\n"
    "        p_step = jax.pmap(lambda x, y: step(y, x), 'i')",
    "a tuple": "p_step = jax.pmap(lambda x, y: (step(x, y), {'z': y.sum()}), 'i')",
    "two alike": "p_step = jax.pmap(step, 'i', in_axes=(0, 0))\n"
    "    more = jax.pmap(lambda x: x + jax.lax.psum(x, 'i'), 'i', donate_argnums=0)\n"
    "    x = np.asarray(more(x))",
    "two alike, twice": "p_step = jax.pmap(step, 'i', in_axes=(0, 0))\n"
    "    more = jax.pmap(lambda x: x + jax.lax.psum(x, 'i'), 'i', donate_argnums=0)\n"
    "    other = jax.pmap(lambda x: x + jax.lax.psum(x, 'j'), 'j', donate_argnums=0)\n"
    "    another = jax.pmap(lambda x: x - jax.lax.psum(x, 'j'), 'j')\n"
    "    x = np.asarray(another(other(more(x))))",
    "the first is static": "def f(n, k, x, y):\n        return k * step(x, y)\n\n"
    "    g = jax.pmap(f, 'i', static_broadcasted_argnums=(0, 1), in_axes=(None, None, 0, 0))\n"
    "    p_step = lambda x, y: g(2, 3, x, y)",
    "a method whose object is static": "class A:\n"
    "        @functools.partial(jax.pmap, axis_name='i', static_broadcasted_argnums=(0, 3))\n"
    "        def f(self, x, y, k):\n            return k * step(x, y)\n\n"
    "    p_step = lambda x, y: np.add(A().f(x, y, 3), A.f(A(), x, y, 3))",
    "methods that another class has, too": "class A:\n"
    "        @functools.partial(jax.pmap, static_broadcasted_argnums=0)\n"
    "        def f(self, x):\n            return x\n"
    "    class B:\n"
    "        @functools.partial(jax.pmap, static_broadcasted_argnums=0)\n"
    "        def f(self, x):\n            return 2 * x\n"
    "    class C(A, B):\n"
    "        def g(self, x, y):\n            return B.f(self, x) + super().f(y)\n"
    "    p_step = C().g",
    "a method of an object, with a static argument": "class A:\n"
    "        def __init__(self):\n"
    "            self.g = jax.pmap(self.f, 'i', static_broadcasted_argnums=2)\n"
    "        def f(self, x, y, k):\n            return k * step(x, y)\n"
    "        def h(self, x, y):\n            return self.g(x, y, 3)\n"
    "    p_step = A().h",
    "one of two": "p_step = (jax.pmap(step, 'i') if len(x) else jax.pmap(max, 'i'))",
}


@pytest.mark.parametrize("site", SITES.values(), ids=list(SITES))
def test_the_same_bits(site: str) -> None:
    before = "import functools\n" + program(site)
    text = after(before)
    assert "jax.pmap" not in text
    one, other = jax.tree.leaves(run(before)), jax.tree.leaves(run(text))
    for left, right in zip(one, other, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def test_a_comment_about_the_function_keeps_the_site() -> None:
    site = "p_step = jax.pmap(\n        step,  # noqa\n        'i',\n        out_axes=None,\n    )"
    assert site in after(program(site))


WHOLE_SITE = """
    p_step = jax.pmap(step, axis_name='i', in_axes=(None, 0), donate_argnums=1)
    for device in jax.devices()[5], None:
        out = p_step(dict(w=jax.device_put(3.0, device)), jax.numpy.asarray(x))
    return out
"""
WHOLE_WRITTEN = """
    mesh = jax.sharding.Mesh(jax.devices(), ('i',))
    p_step = jax.jit(
        jax.shard_map(
            per_row(step, in_axes=(None, 0)),
            mesh=mesh,
            in_specs=(jax.P(), jax.P('i')),
            out_specs=jax.P('i'),
            check_vma=False,
        ),
        in_shardings=(jax.NamedSharding(mesh, jax.P()), None),
        donate_argnums=1,
    )
"""


def test_sites_of_one_file_share_a_helper_of_rows() -> None:
    sites = "more = jax.pmap(lambda x, w: w + x, 'i', in_axes=(0, None))\n"
    sites += "    x = np.asarray(more(x, 1.0))"
    text = moved(program(f"{sites}\n    {SITE}"))
    assert text.count("def per_row") == 1
    later = after(after(program()).replace("    return p_step", f"    {sites}\n    return p_step"))
    assert later.count("def per_row") == 1
    assert "def per_row(f, in_axes=())" in later


def test_an_argument_that_is_whole_may_be_on_one_device() -> None:
    before = program(main=whole_main(WHOLE_SITE)).replace("x + jax", "x['w'] + jax")
    assert WHOLE_WRITTEN in moved(before)


DECORATED_STATIC = """
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
from functools import partial


@partial(jax.pmap, axis_name='i', in_axes=(0, 0, None), static_broadcasted_argnums=2)
def step(w, x: dict[str, int], power=(2)):  # lambda: 0
    # the power is a number
    return w * jax.lax.psum(x["x"], 'i') ** power


@partial(jax.pmap, static_broadcasted_argnums=1)
def unused(x, k):
    return k * x


def main():
    n_devices = 8
    ones = jnp.arange(16.0).reshape([n_devices, 2])
    return step(ones, dict(x=ones), 2), step(ones, dict(x=ones), 3)


if __name__ == "__main__":
    main()
"""
WRAPPED = """

mesh = jax.sharding.Mesh(jax.devices(), ('i',))
over_devices = partial(
    jax.shard_map, mesh=mesh, in_specs=jax.P('i'), out_specs=jax.P('i'), check_vma=False
)


def step_on_device(w, x: dict[str, int], power=(2)):  # lambda: 0
    # the power is a number
    return w * jax.lax.psum(x["x"], 'i') ** power


@partial(jax.jit, static_argnums=2)
def step(w, x: dict[str, int], power=(2)):
    return over_devices(per_row(partial(step_on_device, power=power)))(w, x)


def unused_on_device(x, k):
"""


def test_a_decorated_function_with_static_arguments_gets_another_name() -> None:
    text = moved(DECORATED_STATIC)
    assert all(part in text for part in WRAPPED.partition("def step_on_device("))
    assert "pmap" not in text
    lazy = DECORATED_STATIC.partition("if __name__")[0].replace("unused(x, k)", "main2(x, k)")
    called = after(lazy.replace("    return step", "    main2(ones, 2)\n    return step"))
    assert "mesh=jax.sharding.Mesh(jax.devices(), ('i',))" in called
    np.testing.assert_array_equal(run(lazy), run(called))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def step(", "@jax.jit\ndef step("),
        ("power=(2)):", "*power):"),
        ("# the power", "step_on_device = step  # the power"),
        ("argnums=2)", "argnums=1)"),
        ("argnums=2)", "argnums=-1)"),
        ("dict(x=ones), 2)", "dict(x=ones))"),
    ],
)
def test_a_decorated_function_that_cannot_get_another_name_keeps_pmap(old: str, new: str) -> None:
    assert old in DECORATED_STATIC
    assert "jax.pmap, axis_name='i'" in after(DECORATED_STATIC.replace(old, new))


WHOLE_ARGUMENTS = """
    def scaled(w, v, k, x):
        return w * v["v"] * k * x

    one = jax.numpy.float32(2)
    p_scaled = jax.pmap(scaled, axis_name='i', in_axes=(None, None, None, 0))
    p_number = jax.pmap(step, axis_name='i', in_axes=(None, 0))
    place = lambda k: jax.device_put(one * k, jax.devices()[k])
    return p_scaled(place(3), dict(v=place(5)), 7, p_number(2.5, x))
"""


def test_whole_arguments_that_are_numbers_are_not_placed_and_several_share_a_sharding() -> None:
    text = moved(program(main=whole_main(WHOLE_ARGUMENTS)))
    assert "    replicated = jax.NamedSharding(mesh, jax.P())\n" in text
    assert "in_shardings=(replicated, replicated, None, None)," in text
    assert text.count("in_shardings=") == 1


STATIC_SITE = """
    def scaled(w, x, power, back=False):
        return w * jax.lax.psum(x, 'i') ** power * (-1 if back else 1)

    p_step = jax.pmap(
        scaled,
        axis_name='i',
        in_axes=({axes}, 0, None, None),
        static_broadcasted_argnums=(2, 3),
        donate_argnums=1,
    )
    return [p_step({first}, x + 0, 2, True), p_step({first}, x + 0, 3, False)]
"""
STATIC_WRITTEN = """
    p_step = jax.jit(
        lambda w, x, power, back: jax.shard_map(
            per_row(
                functools.partial(scaled, power=power, back=back),
                in_axes=(None, 0),
            ),
            mesh=mesh,
            in_specs=(jax.P(), jax.P('i')),
            out_specs=jax.P('i'),
            check_vma=False,
        )(w, x),
        in_shardings=(jax.NamedSharding(mesh, jax.P()), None),
        static_argnums=(2, 3),
        donate_argnums=1,
    )
"""


@pytest.mark.parametrize(("axes", "first"), [("None", "jax.device_put(1.5)"), ("0", "x")])
def test_the_last_arguments_may_be_static(axes: str, first: str) -> None:
    text = moved(program(main=whole_main(STATIC_SITE.format(axes=axes, first=first))))
    assert (STATIC_WRITTEN in text) is (axes == "None")
    assert "static_argnums=(2, 3)," in text


@pytest.mark.parametrize(
    ("line", "mesh", "named", "spec"),
    [
        ("from jax.sharding import Mesh, PartitionSpec as P", "Mesh", "jax.NamedSharding", "P"),
        ("from jax import NamedSharding, P", "jax.sharding.Mesh", "NamedSharding", "P"),
        ("from jax.sharding import PartitionSpec as i", None, None, "i"),
        ("from jax.sharding import PartitionSpec\nPartitionSpec = print", None, None, None),
        ("from jax.sharding import PartitionSpec as P\ndef f(P): pass", None, None, None),
        ("if 0: from jax.sharding import PartitionSpec as P", None, None, None),
        ("from optax import PartitionSpec as P", None, None, None),
    ],
)
def test_names_of_sharding_are_those_that_the_file_imports(
    line: str, mesh: str | None, named: str | None, spec: str | None
) -> None:
    mesh, named, spec = mesh or "jax.sharding.Mesh", named or "jax.NamedSharding", spec or "jax.P"
    main = whole_main(WHOLE_SITE)
    whole = f"{line}\n" + program(main=main).replace("x + jax", "x['w'] + jax")
    text = after(whole)
    written = WHOLE_WRITTEN.replace("jax.sharding.Mesh", mesh).replace("jax.P", spec)
    assert written.replace("jax.NamedSharding", named) in text
    assert after(text) == text
    if "optax" not in line:
        np.testing.assert_array_equal(run(whole), run(text))
    below = program() + f"\n{line}\n"
    assert "mesh = jax.sharding.Mesh(" in after(below)


def test_the_mesh_of_the_training_step_is_called_mesh() -> None:
    text = after("import functools\n" + program(SITES["two axes"]))
    assert "mesh = jax.sharding.Mesh(jax.devices(), ('i',))" in text
    assert "j_mesh = jax.sharding.Mesh(jax.devices(), ('j',))" in text


UNNAMED = program(
    "p_step = jax.pmap(step, 'i')\n    double = jax.pmap(lambda x: 2 * x)\n    double(x)"
)


def test_a_site_without_an_axis_takes_that_of_the_others() -> None:
    text = after(UNNAMED)
    assert text.count("mesh = jax.sharding.Mesh(jax.devices(), ('i',))") == 1
    assert "devices')" not in text
    named = after(
        "NAME = 'i'\n" + UNNAMED.replace("'i'", "NAME") + "jax.device_put_replicated(1, d)\n"
    )
    assert named.count("mesh = jax.sharding.Mesh(jax.devices(), (NAME,))") == 1
    assert 'Mesh(devices, ("i",))' in named.replace("'", '"')  # placed where it is computed
    assert 'jax.P("devices")' in after(program("p_step = jax.pmap(max)").replace("'i'", "None"))
    asking = "try:\n    jax.lax.psum(1, 'i')\nexcept NameError:\n    pass\n"
    for others in ({"other": asking}, {"other": "import kfac_jax\n"}):
        assert "jax.P('_devices')" in after(UNNAMED, **others)
    assert "jax.P('_devices')" in after(UNNAMED + asking.replace("NameError", "Exception"))


ROWS_THAT_ARE_THE_DEVICES = {
    "in a number": "x = np.zeros((jax.device_count(), 64 // jax.device_count()), np.float32)[:, 0]",
    "of a function": "def rows(n):\n"
    "        return n * np.ones(jax.device_count(), np.float32)\n    x = rows(4)",
    "nothing is known of them": "import os; x = getattr(np, 'arange')(len(jax.devices())) * 1.0",
}


@pytest.mark.parametrize("rows", ROWS_THAT_ARE_THE_DEVICES.values())
def test_rows_are_one_per_device_unless_the_text_says_otherwise(rows: str) -> None:
    assert "per_row(" in moved(program(rows=rows))


def test_what_is_bound_beforehand_is_a_call() -> None:
    call = "functools.partial(p_step, x)(x)"
    before = "import functools\n" + program(main=MAIN.replace("p_step(x, x)", call))
    assert "per_row(step)" in moved(before)


def test_a_comment_stays_with_its_statement() -> None:
    lines = [line.strip() for line in after(program(SITES["in a branch"])).splitlines()]
    at = lines.index("# a comment")
    assert lines[at - 1].startswith("mesh = ")
    assert lines[at + 1].startswith("p_step = ")


COUNTED = {
    "4": {"rows": "x = np.arange(4.0, dtype=np.float32)"},
    **{
        number: {"rows": "x = rows()", "main": f"{MAIN}\n\ndef rows():\n    return {made}\n"}
        for number, made in {"5": "np.ones((5,))", "6": "np.zeros(6).astype(np.float32)"}.items()
    },
    "n_chains": {"rows": "n_chains = int('4'); x = np.ones((n_chains,), np.float32)"},
    "n": {"rows": "n = 0 or jax.device_count(); x = np.arange(n, dtype=np.float32)"},
    "3": {
        "rows": "twice = jax.pmap(lambda x: 2 * x)\n"
        "    x = twice(jax.random.split(jax.random.PRNGKey(0), num=3))"
    },
    "n_cores": {
        "rows": "n_cores = int('2')\n    x = np.ones((n_cores,), np.float32)",
        "site": "p_long = jax.pmap(step, 'i')\n    p_short = jax.pmap(step, 'i')\n\n"
        "    def p_step(*_):\n        runner = p_long if ROWS else p_short\n"
        "        return runner(x, x)",
        "main": "\nROWS = 2\n\n\ndef other():\n    runner = step\n    return runner\n" + MAIN,
    },
    " o.n_devices": {
        "rows": "import types; o = types.SimpleNamespace(n_devices=2); k = [2]\n"
        "    jax.device_put(1, jax.devices()[: o.n_devices][0]); x = np.ones(k, np.float32)"
    },
}


@pytest.mark.parametrize(("number", "parts"), COUNTED.items())
def test_rows_that_are_counted_are_on_as_many_devices(number: str, parts: dict[str, str]) -> None:
    before = program(**parts)
    text = after(before)
    assert f"mesh = jax.sharding.Mesh(jax.devices()[:{number}], ('i',))" in text
    assert "spmd_map" not in text
    np.testing.assert_array_equal(run(before), run(text))


SHARED = {
    "one row": {"rows": "x = np.float32(2)[None]"},
    "a number that the program was given": {
        "rows": "n_devices = int('4'); x = np.float32(1) * np.arange(n_devices)"
    },
    "a number by its name": {"rows": "n = 4; x = dict(x=np.ones((n, 2), np.float32))['x'][:, 0]"},
    "keys of a number": {"rows": "n = [4]; x = jax.random.split(jax.random.PRNGKey(0), n[0])"},
    "a part of the devices": {"rows": f"{ROWS}; n = len(jax.devices()[:2])"},
    "a number that changes": {
        "rows": "for n_chains in range(5): pass\n    x = np.arange(n_chains, dtype=np.float32)"
    },
    "a number of another function": {
        "rows": "x = rows(4)",
        "main": MAIN + "\n\ndef rows(n):\n    return np.arange(n, dtype=np.float32)\n",
    },
    "one of two numbers": {
        "rows": "x = rows(1)",
        "main": MAIN + "\n\ndef rows(n):\n    return np.ones(2) if n else np.ones(8)\n",
    },
    "a comment in a line": {"site": "p_step = jax.pmap(step,  # step\n    'i')"},
    "keywords in a call": {"main": MAIN.replace("p_step(x, x)", "p_step(x, y=x)")},
    "it is handed on": {"main": MAIN.replace("p_step(x, x)", "max([p_step])(x, x)")},
    "its names are taken": {"rows": f"{ROWS}; per_row = 1"},
}


@pytest.mark.parametrize("parts", SHARED.values(), ids=list(SHARED))
def test_where_rows_or_calls_are_not_known_the_helper_counts_them(parts: dict[str, str]) -> None:
    assert "p_step = spmd_map(step, " in moved(program(**parts))


KEPT = {
    "devices that may be none": (
        {"site": "devices = None\n    p_step = jax.pmap(step, 'i', devices=devices)"},
        "devices",
    ),
    "devices that are set again": (
        {
            "site": "for k in range(2):\n"
            "        devices = jax.devices()[:]\n"
            "        p_step = jax.pmap(lambda x, y: step(x, y), 'i', devices=devices)"
        },
        "devices",
    ),
    "a name that is computed": ({"site": "p_step = jax.pmap(step, 'ij'[:1])"}, "run time"),
    "it is mapped again": ({"main": MAIN.replace("    main()", "    main(), main()")}, "again"),
    "static, and its name is that of the site": (
        {"site": "p_step = step\n    p_step = jax.pmap(p_step, 'i', static_broadcasted_argnums=1)"},
        "needs a name other than",
    ),
    "static, by a decorator of a method": (
        {
            "site": "import functools\n"
            "    class A:\n"
            "        @functools.partial(jax.pmap, static_broadcasted_argnums=1)\n"
            "        def p_step(x, k):\n            return k * x\n"
            "    p_step = A.p_step",
            "main": MAIN.replace("(x, x)", "(x, 3)"),
        },
        "static",
    ),
}


@pytest.mark.parametrize(("parts", "reason"), KEPT.values(), ids=list(KEPT))
def test_what_needs_more_keeps_pmap(parts: dict[str, str], reason: str) -> None:
    before = program(**parts)
    files, result = migrated({"main.py": before})
    assert files["main.py"] == before
    (change,) = result.files[0].refused
    assert reason in change.reason


OBJECT = """
class Trainer:
    def __init__(self):
        {init}

    def fit(self):
        {fit}
        return self.p_step({ROWS}, {ROWS})


def main():
    return [Trainer().fit() for _ in range(2)][-1]
"""
SET_UP = "pass\n\n    def compile(self):\n        self.p_step = jax.pmap(step, 'i')"
NEW_EACH_TIME = {
    "kept by an object": ("self.p_step = jax.pmap(step, 'i')", "pass"),
    "used by what an object keeps": (
        "p_step = jax.pmap(step, 'i')\n        self.p_step = lambda x, y: p_step(x, y)",
        "pass",
    ),
    "made by a method for it": (
        "self.make()\n\n    def make(self):\n        self.p_step = jax.pmap(step, 'i')",
        "pass",
    ),
    "made by a method that sets it up": (SET_UP, "Trainer.compile(self)"),
    "made if it is not there": (
        "self.p_step = None",
        "if self.p_step is None:\n            self.p_step = jax.pmap(step, 'i')",
    ),
    "in a training loop": (
        "pass",
        "self.p_step = jax.pmap(step, 'i')\n        for _ in 1, 2:\n            pass",
    ),
    "what a transform returns": ("pass", "self.p_step = jax.pmap(jax.vmap(step), 'i')"),
    "made in either branch": (
        "pass",
        "f = jax.vmap(step)\n        if np.sin(1) < 0:\n            f = jax.checkpoint(step)\n"
        "        self.p_step = jax.pmap(f, 'i')",
    ),
    "what a function returns": ("pass", "f = _made()\n        self.p_step = jax.pmap(f, 'i')"),
}
AGAIN = {
    "in each call": ("pass", "self.p_step = jax.pmap(step, 'i')"),
    "in a loop": ("for _ in 1, 2:\n            self.p_step = jax.pmap(step, 'i')", "pass"),
    "what a function may have remembered": (
        "pass",
        "f = _same()\n        self.p_step = jax.pmap(f, 'i')",
    ),
    "in an evaluation": (
        "pass",
        "self.p_step = self.evaluate()\n\n"
        "    def evaluate(self):\n        p_step = jax.pmap(step, 'i')\n"
        "        for _ in 1, 2:\n            pass\n        return p_step\n\n"
        "    def last(self):",
    ),
    "made by a method that is called in each call": (SET_UP, "self.compile()"),
    "made before": ("self.f = f = _made()", "self.p_step = jax.pmap(self.f, 'i')"),
}
MADE = """

def _made():
    def inner(x, y):
        return step(x, y)

    return inner


def _same():
    return step
"""


@pytest.mark.parametrize("parts", [*NEW_EACH_TIME.values(), *AGAIN.values()])
def test_what_is_mapped_again_and_again_keeps_pmap(parts: tuple[str, str]) -> None:
    rows = "np.zeros((jax.device_count(), 2), np.float32)"
    before = f"{HEAD}{MADE}\n{OBJECT.format(init=parts[0], fit=parts[1], ROWS=rows)}"
    assert ("jax.pmap" in moved(before)) is (parts in AGAIN.values())


def test_a_test_maps_once() -> None:
    case = f"class A:\n    def test(self):\n        jax.pmap(step, 'i')({ROWS}, {ROWS})\n"
    assert "jax.pmap" not in after(f"{HEAD}\n\n{case}", "main_test.py")
    assert "jax.pmap" in after(f"{HEAD}\n\n{case}")


FOLLOWED = {
    "returned": "make = lambda: None\n    p_step = _make()",
    "an argument": "p_step = lambda x, y: _apply(jax.pmap(lambda x, y: step(x, y), 'i'), x)",
    "one of two": "p_step, other = _pair()",
    "lowered": "p_step = _make().lower(x, x).compile()",
}
MAKERS = """

def _make():
    return jax.pmap(lambda x, y: step(x, y), 'i')


def _pair():
    return jax.pmap(lambda x, y: step(x, y), 'i'), step


def _apply(mapped, x):
    rows = np.zeros(jax.local_device_count())
    return mapped(x, x + rows.astype(x.dtype))
"""


@pytest.mark.parametrize("site", FOLLOWED.values(), ids=list(FOLLOWED))
def test_calls_are_found_where_names_lead(site: str) -> None:
    used = [part for part in MAKERS.split("\n\n\n") if part.strip()[4:9] in site]
    before = HEAD + "\n\n" + "\n\n\n".join(used) + "\n" + MAIN.format(site=site, rows=ROWS)
    assert "jax.pmap" not in moved(before)


def test_a_module_that_may_not_touch_devices_makes_its_mesh_when_it_is_called() -> None:
    site = "p_step = jax.pmap(step, 'i')\n\n"
    main = MAIN.replace("    {site}\n", "").split("\n\nif")[0].format(rows=ROWS)
    text = after(HEAD + "\n\n" + site + main)
    assert "p_step = jax.jit(\n    lambda *args: jax.shard_map(" in text
    np.testing.assert_array_equal(run(text), run(HEAD + site + main))


DECORATED = (
    HEAD
    + """

@jax.pmap
def double(x):
    return 2 * x


def main():
    return double(np.arange(jax.device_count()))
"""
)
SETS = f"import os, wandb\nfrom jax import config as c\n{DECORATED}{GUARD}    "
TOUCHES = {
    "a script": (DECORATED + GUARD, {}, True),
    "a module": (DECORATED, {}, False),
    "a script that is imported": (DECORATED + GUARD, {"other": "import main\n"}, False),
    "workers import it again": (f"import multiprocessing\n{DECORATED}{GUARD}", {}, False),
    "it sets JAX up later": (f"{SETS}jax.config.update('a', 1)\n", {}, False),
    "it sets platforms later": (f"{SETS}jax.config.update('jax_platforms', '')\n", {}, False),
    "it sets what numbers are later": (f"{SETS}jax.config.update('jax_enable_x64', 0)\n", {}, True),
    "it sets what JAX does not read": (f"{SETS}os.environ['WANDB_MODE'] = 'off'\n", {}, True),
    "it sets what a CPU is": (f"{SETS}os.environ['XLA_FLAGS'] = ''\n", {}, False),
    "it asks for devices": (f"{SETS}numpyro.set_host_device_count(4)\n", {}, False),
    "it sets up a log": (f"{SETS}wandb.config.update({{'lr': 1}})\n", {}, True),
    "it sets JAX up by another name": (f"{SETS}c.update('jax_platforms', '')\n", {}, False),
    "its last line runs it": (f"{DECORATED}\n\nmain()\n", {}, True),
    "it calls what is mapped": (f"{DECORATED}\n\nx = double(np.ones((8, 2)))\n", {}, True),
    "it has arrays at the top": (f"{DECORATED}\n\nkey = jax.random.key(0)\n", {}, True),
}


@pytest.mark.parametrize(("text", "others", "explicit"), TOUCHES.values(), ids=list(TOUCHES))
def test_a_module_touches_no_device_when_it_is_imported(
    text: str, others: dict[str, str], explicit: bool
) -> None:
    written = after(text, **others)
    assert ("\nmesh = jax.sharding.Mesh(" in written) is explicit
    assert ("spmd_map" in written) is not explicit


def test_many_sites_of_a_package_share_a_helper() -> None:
    sites = "\n    ".join(f"p_{k} = jax.pmap(step, 'i')\n    p_{k}(x, x)" for k in range(6))
    main = MAIN.replace("    return p_step(x, x)\n", "")
    module = program(sites, main=main).split("if __name")[0]
    assert "spmd_map" in after(module, other="import main\nmain.main()\n")
    script = program(sites, main=MAIN.replace("return p_step(x, x)", "pass"))
    assert "per_row" in after(script)
    package = {"package/main.py": script, "package/__init__.py": "", "other.py": program()}
    files = migrated(package)[0]
    assert files["package/main.py"].count("spmd_map") == 7  # imported, or defined, and six sites
    assert "spmd_map" not in files["other.py"]
    package = {"package/module.py": module, "package/__init__.py": ""}
    shared = migrated({"main.py": program() + "import package.module\n", **package})[0]
    assert "spmd_map(step" in shared["main.py"]


def test_functions_of_other_programs_with_the_same_name_are_no_uses() -> None:
    other = "def double(x, y):\n    return x\n\n\nprint(double(1, y=2))\n"
    assert "per_row" in after(DECORATED + GUARD, other=other)
    user = "from main import double\n\nprint(double(x=1))\n"
    assert "spmd_map" in after(DECORATED + "\n\nkey = jax.random.key(0)\n", other=user)


def body(text: str) -> list[Any]:
    import jax
    import numpy as np

    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    said: list[Any] = []
    for module in (np, jax.numpy):
        try:
            names["main"](module.arange(jax.local_device_count(), dtype=np.float32))
            said.append("no error")
        except ValueError as error:
            said.append("not evenly divisible" in str(error))
    return said


@pytest.mark.slow
def test_what_was_written_for_one_process_raises_in_a_job() -> None:
    main = MAIN.replace("main():", "main(x):").replace("(x, x)", "(x, n * x)")
    text = after(program(rows="n = jax.local_device_count()", main=main))
    assert "per_row(" in text
    for process in run_processes(body, processes=2, devices=2, args=(text,)):
        assert process.value == [True, True]
