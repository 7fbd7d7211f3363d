"""What the sites of a project become together: one form for all, or nothing."""

import pytest

from tests.notebooks import notebook
from tests.rewrite.test_programs import migrated

ROWS = "x = jnp.ones((jax.local_device_count(), 2))\n"
KNOWN = "a = jax.pmap(lambda x: x + 1, 'i')\n" + ROWS + "print(a(x))\n"  # can be at the site
UNKNOWN = "b = jax.pmap(lambda x: x + 1, 'i')\nprint(b(x=jnp.arange(4)))\n"  # needs the helper
KEPT = "c = jax.pmap(f, 'i', static_broadcasted_argnums=1)\nprint(c(x, 1))\n"
HEAD = "import jax\nimport jax.numpy as jnp\n\n"


def after(*sites: str, **others: str) -> tuple[str, list[str]]:
    files = {f"{name}.py": text for name, text in others.items()}
    texts, result = migrated({"main.py": HEAD + "".join(sites), **files})
    return texts["main.py"], [c.reason for file in result.files for c in file.refused]


def test_one_form_for_all_sites_of_a_small_program() -> None:
    assert "per_row(lambda" in after(KNOWN)[0]
    both, _ = after(KNOWN, UNKNOWN)
    assert both.count("spmd_map(lambda") == 2
    assert "per_row" not in both
    together, _ = after(KNOWN, other="import main\n" + HEAD + UNKNOWN)
    assert "spmd_map(lambda" in together
    assert "per_row" not in together
    assert "per_row(lambda" in after(KNOWN, other=HEAD + UNKNOWN)[0]


@pytest.mark.parametrize(
    ("kept", "is_changed"), [((), True), ((KEPT,), False), ((KEPT, KEPT), False)]
)
def test_if_few_sites_can_leave_pmap_none_does(kept: tuple[str, ...], is_changed: bool) -> None:
    text, reasons = after(KNOWN, *kept)
    assert ("a = jax.pmap(" not in text) is is_changed
    said = f"only 1 of {len(kept) + 1} sites could leave jax.pmap, so all keep it"
    assert (said in reasons) is not is_changed  # no other path to give
    library = "from lib import constants\nconstants.pmap(f)\n"
    for other in ("cast(F, jax.pmap)\n", "import equinox\nequinox.filter_pmap(f)\n", library):
        assert "a = jax.pmap(" in after(KNOWN, other)[0]
    _, reasons = after(KEPT, other=HEAD + KNOWN)
    assert any("give their paths alone" in reason for reason in reasons)
    assert "jax.pmap" not in after(KNOWN, UNKNOWN, *kept[:1])[0].replace("c = jax.pmap", "")


def test_sites_of_a_file_that_does_not_run_stay() -> None:
    nested = "n = jax.pmap(jax.pmap(abs, 'j'), 'i')\n"
    lost = "from flax import optim\noptim.Momentum()\n"
    text, reasons = after(lost, KNOWN, nested, other=HEAD + UNKNOWN * 2)
    assert "a = jax.pmap(" in text
    assert nested in text
    assert any("flax.optim" in reason and "by hand first" in reason for reason in reasons)


def test_a_notebook_has_one_form() -> None:
    for kept in ("", KEPT):
        files = {"n.ipynb": notebook(HEAD + KNOWN + kept), "m.py": HEAD + KNOWN}
        texts, result = migrated(files)
        assert ("a = jax.pmap" in texts["n.ipynb"]) is bool(kept)
        reasons = [change.reason for file in result.files for change in file.refused]
        assert any("one form" in reason for reason in reasons) is bool(kept)


def test_sites_of_a_program_that_cannot_be_imported_stay() -> None:
    lost = "from flax import optim\n\n\nclass Adam(optim.Adam):\n    pass\n"
    text, reasons = after("import lost\n", KNOWN, lost=lost)
    assert "a = jax.pmap(" in text
    assert any("lost.py, which it imports, needs flax.optim" in reason for reason in reasons)
    later = "def adam():\n    import flax\n\n    return flax.optim.Momentum()\n"
    assert "a = jax.pmap(" not in after("import lost\n", KNOWN, lost=later)[0]


def test_a_blank_line_between_the_mesh_and_a_decorated_function() -> None:
    inner = "@jax.pmap\ndef step(x):\n    return x\n\nx = jnp.ones(jax.device_count())\nstep(x)\n"
    lines = "".join(f"    {line}".rstrip() + "\n" for line in inner.splitlines())
    text, _ = after(f"def main():\n    n = 1\n{lines}\nmain()\n")
    assert "\n\n    @jax.jit\n    @jax.shard_map(" in text


@pytest.mark.parametrize("axes", ["(0, 0)", "0", "[0]"])
def test_axes_that_are_the_default_are_left_out(axes: str) -> None:
    site = f"b = jax.pmap(f, axis_name='i', in_axes={axes}, donate_argnums=0)\n"
    text, _ = after(site, "def run():\n    return b(load(), load())\n")
    assert "b = spmd_map(f, axis_name='i', donate_argnums=0)\n" in text
    assert "in_axes" not in text


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ("", ""),
        (", donate_argnums=0", "donate"),
        (", in_axes=(0, None)", "axes"),
        (", in_axes=(0, None), donate_argnums=0", "axes, donate"),
        (", in_axes=0, donate_argnums=(), out_axes=0, static_broadcasted_argnums=()", ""),
        (", backend=None, in_axes=[0, 0]", ""),
    ],
)
def test_the_helper_is_the_smallest_that_serves_all_sites(options: str, parameters: str) -> None:
    site = f"c = jax.pmap(f, 'i'{options})\nc(load(), load())\n"
    first, _ = after(UNKNOWN)
    for before in (HEAD + UNKNOWN, first):
        text = migrated({"main.py": before + site})[0]["main.py"]
        assert text.count("def spmd_map(") == 1
        helper = text.partition("def spmd_map(")[2].partition('"""')[0]
        assert ("in_axes" in helper) is ("axes" in parameters)
        assert ("donate_argnums" in helper) is ("donate" in parameters)
        assert migrated({"main.py": text})[0]["main.py"] == text
