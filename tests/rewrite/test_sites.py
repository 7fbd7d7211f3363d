"""The text that each form of pmap becomes; what is left alone comes first."""

import pytest

from tests.rewrite.test_programs import migrated

pytestmark = pytest.mark.usefixtures("many_sites")

# Two of its files have a site, and share a module of helpers.
_PACKAGE = {"pkg/__init__.py": "", "pkg/n.py": "import jax\n\nf = jax.pmap(g)\n"}
_IMPORT = "\nfrom pkg._spmd import {}\n"


def _after(text: str) -> str:
    """The new text of a module of a package, whose helpers are elsewhere."""
    return migrated({**_PACKAGE, "pkg/m.py": text})[0]["pkg/m.py"]


@pytest.mark.parametrize(
    "text",
    [
        "import jax\nstep = jax.jit(train)\n",
        "step = pmap(train)\n",
        "def pmap(f):\n    return f\nstep = pmap(train)\n",
        "import jax\nhelp(jax.pmap)\n",
        "import jax\nimport functools\nwraps = functools.wraps(jax.pmap)\n",
        "def f(jax):\n    return jax.pmap(g)\n",
        "import jax\njax.pmap = mine\n",
        "# jax.pmap(f)\nimport jax\ntext = 'jax.pmap(f)'\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert _after(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import equinox as eqx\nf = eqx.filter_pmap(g)\n", "equinox.filter_pmap"),
        ("import jax\nf = jax.pmap(g, in_axes=-1)\n", "count from the end"),
        *(
            (f"import jax\n{line}\n", reason)
            for line, reason in (
                ("f = jax.pmap(g, axis_name=name())", "known only at run time"),
                ("f = jax.pmap(g, in_axes=axes)", "known only at run time"),
                ("f = jax.pmap(g, in_axes=(1, 0))", "other axes than the first"),
                ("f = jax.pmap(g, in_axes={'a': 0})", "is a tree"),
                ("f = jax.pmap(g, in_axes=((0, None), 0))", "is a tree"),
                ("f = jax.pmap(g, in_axes=((0, 0),  # a\n None))", "comments in its in_axes"),
                ("f = jax.pmap(g, out_axes=None)", "`out_axes=`"),
                ("f = jax.pmap(g, static_broadcasted_argnums=1)", "it has static arguments"),
                ("f = jax.pmap(g, devices=devices)", "devices of its own"),
                ("f = jax.pmap(g, backend='cpu')", "`backend=`"),
                ("f = jax.pmap(g, **options)", "unpacked"),
                ("f = jax.pmap(*arguments)", "unpacked"),
                ("pmap = jax.pmap", "passed on as a value"),
                ("import functools\np = functools.partial(jax.pmap, axis_name=A)", "another name"),
                ("f = jax.pmap if n else jax.jit", "passed on as a value"),
                ("def h():\n    return jax.pmap(f)\nh(), h()", "mapped again"),
                ("g = [jax.pmap(k) for k in K]", "mapped again"),
                ("f = jax.pmap(jax.pmap(g, 'j'), 'i', in_axes=1)", "nested pmaps"),
            )
        ),
        ("import jax\nf = jax.pmap(g, global_arg_shapes=None)\n", "global_arg_shapes"),
        (
            "import jax\ninner = jax.pmap(g)\nf = jax.pmap(inner, 'i')\n",
            "pmapped again: write the two as one expression",
        ),
        *(
            (f"import jax\ninner = jax.pmap(g{one})\nf = jax.pmap(inner, 'i'{two})\n", "by hand")
            for one, two in [(", in_axes=(None, 0)", ""), ("", ", out_axes=None")]
        ),
        (
            "import jax\nf = jax.pmap(jax.pmap(g, 'j', in_axes=(None, 0)), 'i')\n",
            "write one jax.shard_map over a mesh of the axes ('i', 'j'), with "
            "in_specs=(jax.P('i'), jax.P('i', 'j')) and out_specs=jax.P('i', 'j')",
        ),
        (
            "import jax\ninner = jax.pmap(lambda x: x)\n@jax.pmap\ndef outer(x):\n"
            "    return inner(x)\n",
            "called inside",
        ),
        ("import jax\nspmd_map = 3\nf = jax.pmap(g)\n", "spmd_map"),
        ("import jax\nfrom mine import spmd_map\nf = jax.pmap(g)\n", "spmd_map"),
        ("import jax\nf = jax.pmap(g, in_axes=(0, None))\nf.lower(x, y)\n", "no .lower()"),
        ("import jax\nf = jax.pmap(g, axis_name=7)\n", "not a string"),
        ("import jax\nNAME = 7\nf = jax.pmap(g, NAME)\n", "not a string"),
        ("import jax\nf = jax.pmap(jax.pmap(g, 'j'), axis_name=('a', 'b'))\n", "not a string"),
        *(
            (
                f"import jax\n{inner}\ndef outer(x):\n    return {call}\nf = jax.pmap(outer)\n",
                "called inside",
            )
            for inner, call in (
                ("steps = {'a': jax.pmap(lambda x: x)}", "steps['a'](x)"),
                ("steps = [(jax.pmap(lambda x: x), 1)]", "steps[0][0](x)"),
                ("steps = []\nsteps.append(jax.pmap(lambda x: x))", "steps[0](x)"),
                ("p = jax.pmap(lambda x: x)\ndef middle(x):\n    return p(x)", "middle(x)"),
            )
        ),
    ],
)
def test_refused_with_a_reason(text: str, reason: str) -> None:
    after, result = migrated({"m.py": text})
    assert any(reason in place.reason for file in result.files for place in file.refused)
    assert after == {"m.py": text}


def test_modules_of_a_package_import_the_helpers_in_one_way() -> None:
    pmapped = "import jax\nf = jax.pmap(g)\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": f"from . import b\n{pmapped}",
        "pkg/b.py": pmapped,
        "pkg/sub/__init__.py": "",
        "pkg/sub/c.py": pmapped,
        "pkg/d.py": f"import pkg.b\n{pmapped}",
    }
    after, _ = migrated(files)
    assert "from ._spmd import" in after["pkg/a.py"]
    assert "from ._spmd import" in after["pkg/b.py"]
    assert "from .._spmd import" in after["pkg/sub/c.py"]
    assert "from pkg._spmd import" in after["pkg/d.py"]


@pytest.mark.parametrize(
    "line",
    [
        "f = jax.pmap(g)",
        "NAME = 'i'\nf = jax.pmap(g, axis_name=NAME)",
        "f = jax.pmap(axis_name='i', fun=g)",
        "f = jax.pmap(g, donate_argnums=(0, 1))\nf.pmaps = f.name = 1",  # of no pmap
        "f = jax.pmap(g, 'i', in_axes=(0, None))",
        "@functools.partial(jax.pmap, axis_name='i')\ndef f(x): ...",
        "f = jax.pmap(lambda x: (x,\n                        1), 'i')",
        "f = jax.pmap(g,  # a comment\n             'i')",
        "f = jax.pmap(\n    g,\n    'i',\n)",
    ],
)
def test_one_name_changes(line: str) -> None:
    after = _after(f"import functools\nimport jax\n{line}\n")
    _, head, rest = f"\n{after}".partition(_IMPORT.format("spmd_map"))
    assert head, after
    assert rest.strip("\n") == line.replace("jax.pmap", "spmd_map")


def test_axes_that_are_the_same_in_a_tree_are_one() -> None:
    text = _after("import jax\nf = jax.pmap(g, 'i', in_axes=({'a': 0}, [None, (None,)]))\n")
    assert text.endswith("f = spmd_map(g, 'i', in_axes=(0, None))\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = jax.pmap(jax.pmap(g, 'j'), 'i')", "f = jax.jit(shard_map_per_device(g, ('i', 'j')))"),
        (
            "@functools.partial(jax.pmap, axis_name='i')\n@jax.pmap\ndef f(x): ...",
            "@jax.jit\n@functools.partial(shard_map_per_device, axis_name=('i', '_devices_1'))\n"
            "def f(x): ...",
        ),
    ],
)
def test_pmaps_inside_one_another(before: str, after: str) -> None:
    text = _after(f"import functools\nimport jax\n{before}\n")
    assert text.count("def shard_map_per_device(") == 1  # one file needs it
    assert text.endswith(f"\n\n\n{after}\n")


def test_lines_stay_aligned_with_the_first_argument() -> None:
    call = "f = {}(g,\n{}'i',\n{}donate_argnums=[1,\n{}                2])\n"
    before = call.format("pmap", *[" " * 9] * 3)
    after = call.format("spmd_map", *[" " * 13] * 3)
    assert _after(f"from jax import pmap\n\n{before}").endswith(f"\n{after}")
    text = "from jax import pmap\n\nf = pmap(g, '''\n            a''')\n"
    assert _after(text).endswith("f = spmd_map(g, '''\n            a''')\n")


def test_what_surrounds_it_stays() -> None:
    text = (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport os  # why\n\nimport jax\n\n\n'
        "x   =   {  'a':1 }   # kept\nf = [jax.pmap(g), # one\n     2]\n"
    )
    after = _after(text)
    assert "x   =   {  'a':1 }   # kept\n" in after
    assert "f = [spmd_map(g), # one\n     2]\n" in after
    assert after.startswith('"""Doc."""\nfrom __future__ import annotations\n\nimport os  # why\n')


def test_an_import_that_lost_its_use_goes() -> None:
    after = _after("from jax import lax, pmap\n\nf = pmap(lambda x: lax.psum(x, 'i'), 'i')\n")
    assert "from jax import lax\n" in after
    assert "import jax\n" not in after


def test_an_import_that_is_exported_stays() -> None:
    after = _after("from jax import pmap\n\n__all__ = ['pmap']\nf = pmap(g)\n")
    assert "from jax import pmap\n" in after


@pytest.mark.parametrize(
    "line",
    [
        "jax.pmap = print",
        "monkeypatch.setattr(jax, 'pmap', print)",
        "mock.patch('jax.pmap')",
        "mock.patch.object(jax, 'pmap')",
        "print(f.__wrapped__)",
    ],
)
def test_files_that_look_into_pmap_are_left(line: str) -> None:
    text = f"import jax\nf = jax.pmap(lambda x: x)\n{line}\n"
    assert _after(text) == text


def test_functions_of_one_name_in_two_scopes_are_each_mapped_once() -> None:
    body = "    def g(x):\n        return x\n    return jax.pmap(g)\n"
    text = f"import jax\ndef one():\n{body}def two():\n{body}"
    assert "jax.pmap" not in _after(text)
    twice = text.replace("return jax.pmap(g)", "return jax.pmap(g), jax.pmap(g)")
    assert _after(f"{twice}one(), one(), two(), two()\n").count("jax.pmap") == 4


def test_the_partial_that_jax_had_is_one() -> None:
    text = "from jax import lax, partial, pmap\n\n@partial(pmap, axis_name='i')\ndef f(x): ...\n"
    files, _ = migrated({"m.py": text})
    assert "@partial(spmd_map, axis_name='i')\ndef f(x)" in files["m.py"]
    assert "from jax import lax\n" in files["m.py"]
    assert migrated(files)[0] == files
