"""Recognition: pmap by any name, across files, and what each site is known to be."""

import pytest

from shardlift.source.project import Project
from shardlift.source.sites import Role, Site, Usage
from shardlift.source.text import Source
from tests.source.files import parse


def _sites(*texts: str, **files: str) -> list[Site]:
    sources = [Source(f"m{number}.py", text) for number, text in enumerate(texts)]
    sources += [Source(f"pkg/{name}.py", text) for name, text in files.items()]
    project = Project.of(*sources)
    return project.file(sources[-1].path).sites


def _one(*texts: str, **files: str) -> Site:
    sites = _sites(*texts, **files)
    assert len(sites) == 1, sites
    return sites[0]


@pytest.mark.parametrize(
    "text",
    [
        "import jax\ng = jax.pmap(f)",
        "import jax as j\ng = j.pmap(f)",
        "from jax import pmap\ng = pmap(f)",
        "from jax import pmap as p\ng = p(f)",
        "from jax import *\ng = pmap(f)",
        "import jax.api\ng = jax.api.pmap(f)",
        "import equinox as eqx\ng = eqx.filter_pmap(f)",
        "from flax import nnx\ng = nnx.pmap(f)",
        "import objax\ng = objax.Parallel(f, vc)",
        "def make():\n    from jax import pmap\n    return pmap(step)",
        "import jax\nfoo(bar=[jax.pmap(f)])",
        "import jax\nif (g := jax.pmap(f)):\n    pass",
        "import jax\nasync def main():\n    await jax.pmap(f)",
        "import jax\ng = jax.pmap(fun=f)",
    ],
)
def test_pmap_by_any_name(text: str) -> None:
    assert _one(text).role is Role.MAP


@pytest.mark.parametrize(
    "text",
    [
        "g = pmap(f)",
        "import torch\ng = torch.pmap(f)",
        "def f(jax):\n    return jax.pmap(g)",
        "import jax\nclass jax:\n    pass\ng = jax.pmap(f)",
        "import jax\ndel jax\nimport mine as jax\ng = jax.pmap(f)",
        "from jax import vmap as pmap\ng = pmap(f)",
        "import jax\nfor jax in x:\n    jax.pmap(f)",
        "import jax\ng = [jax.pmap(f) for jax in mine]",
        "import jax\njax.pmap = mine",
    ],
)
def test_what_only_looks_like_pmap(text: str) -> None:
    assert _sites(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("g = jax.pmap(f)", "name"),
        ("g = jax.pmap(lambda x: x)", "lambda"),
        ("g = jax.pmap(self.step)", "method"),
        ("g = jax.pmap(functools.partial(f, 1))", "partial"),
        ("g = jax.pmap(make())", "call"),
        ("g = jax.pmap(fs[0])", "other"),
    ],
)
def test_operands(text: str, kind: str) -> None:
    assert _one(f"import functools, jax\n{text}").operand_kind == kind


def test_usage_and_targets() -> None:
    text = "import jax\nstep = jax.pmap(step)\nself.g = h = jax.pmap(f)\ny = jax.pmap(f)(x)"
    rebound, two, at_once = _sites(text)
    assert rebound.targets == ("step",)
    assert two.targets == ("self.g", "h")
    assert at_once.usage is Usage.IMMEDIATE
    assert at_once.targets == ()


def test_a_choice_is_assigned_as_a_whole() -> None:
    site = _one("import jax\nself.p = (q := jax.pmap(f) if c else g)")
    assert site.targets == ("q",)
    assert _one("import jax\nself.p = jax.pmap(f) if c else h if d else g").targets == ("self.p",)


def test_decorators() -> None:
    text = (
        "import functools, jax\n@jax.pmap\ndef f(x):\n    return x\n"
        "class A:\n    @functools.partial(jax.pmap, axis_name='i', static_broadcasted_argnums=0)\n"
        "    def g(self, x):\n        return x"
    )
    plain, method = _sites(text)
    assert (plain.usage, plain.targets) == (Usage.DECORATOR, ("f",))
    assert sorted(method.keywords) == ["axis_name", "static_broadcasted_argnums"]
    assert method.function is not None


@pytest.mark.parametrize(
    "switch",
    [
        "g = (jax.pmap if n > 1 else jax.jit)(f)",
        "t = jax.pmap if n > 1 else jax.jit\ng = t(f)",
        "if n > 1:\n    t = jax.pmap\nelse:\n    t = jax.jit\ng = t(f)",
        "t = jax.jit\nif n > 1:\n    t = jax.pmap\ng = t(f)",
    ],
)
def test_pmap_or_jit(switch: str) -> None:
    maps = [site for site in _sites(f"import jax\n{switch}") if site.role is Role.MAP]
    assert [site.otherwise for site in maps] == [("jax.jit",)]


WRAPPERS = {
    "a partial": "import functools, jax\nwrap = functools.partial(jax.pmap, axis_name='q')",
    "a function": "import jax\ndef wrap(f, **kw):\n    return jax.pmap(f, axis_name='q', **kw)",
    "a closure": "import functools, jax\ndef wrap(f):\n    p = jax.pmap(f, axis_name='q')\n"
    "    @functools.wraps(f)\n    def inner(*args):\n        return p(*args)\n    return inner",
    "a choice": "import jax\ndef wrap(f):\n    if n > 1:\n"
    "        return jax.pmap(f, axis_name='q')\n    return jax.jit(f)",
    "an alias of a partial": "from functools import partial\nfrom jax import pmap\n"
    "base = partial(pmap, axis_name='q')\nwrap = base",
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))
@pytest.mark.parametrize(
    "use",
    [
        "from pkg import par\ng = par.wrap(f)",
        "from . import par\ng = par.wrap(f)",
        "from .par import wrap as w\ng = w(f)",
        "import pkg.par\ng = pkg.par.wrap(f)",
        "import pkg.par as par\n@par.wrap\ndef g(x):\n    return x",
        "import pkg\ng = pkg.wrap(f)",  # which passes it on
    ],
)
def test_wrappers_in_another_file(wrapper: str, use: str) -> None:
    site = _one(__init__="from .par import wrap", par=wrapper, use=use)
    assert site.role is Role.MAP
    assert site.transform.origin == "jax.pmap"
    assert "axis_name" in site.keywords


def test_a_decorator_factory() -> None:
    par = (
        "import functools, jax\ndef over(axis):\n"
        "    return functools.partial(jax.pmap, axis_name=axis)"
    )
    site = _one(par=par, use="from .par import over\n@over('i')\ndef f(x):\n    return x")
    assert (site.usage, list(site.keywords)) == (Usage.DECORATOR, ["axis_name"])


def test_a_class_attribute_and_a_method() -> None:
    text = (
        "import functools, jax\nclass T:\n    pmap = staticmethod(jax.pmap)\n"
        "    def wrap(self, f):\n        return jax.pmap(f, axis_name='i')\n"
        "    def go(self):\n        self.a = self.pmap(self.f)\n        self.b = self.wrap(self.f)"
    )
    maps = [site for site in _sites(text) if site.role is Role.MAP]
    assert [site.targets for site in maps] == [("self.a",), ("self.b",)]
    assert maps[1].transform.chain == ("wrap",)


def test_inherited_attributes() -> None:
    base = "import jax\nclass Base:\n    def __init__(self):\n        self.p = jax.pmap(self.f)"
    use = "from .base import Base\nclass A(Base):\n    def go(self, x):\n        return self.p(x)"
    assert len(parse(use, base=base).mapped_calls) == 1


def test_roles_of_wrappers_and_references() -> None:
    text = (
        "import functools, jax\np = functools.partial(jax.pmap, axis_name='i')\n"
        "def w(f):\n    return jax.pmap(f)\nrun(jax.pmap)"
    )
    assert [site.role for site in _sites(text)] == [Role.WRAPPER, Role.WRAPPER, Role.REFERENCE]


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("p = jax.pmap(f)\np(x)", True),
        ("def make():\n    return jax.pmap(f)\np = make()\np(x)", True),
        ("def make():\n    return jax.pmap(f), 1\np, n = make()\np(x)", True),
        ("if n:\n    p = jax.pmap(f)\nelse:\n    p = jax.jit(f)\np(x)", False),
        ("p = jax.pmap(f)\np = g\np(x)", False),
        ("p = g\np = jax.pmap(f)\np(x)", True),
        ("for i in y:\n    p(x)\n    p = jax.pmap(f)\np = g", True),
        ("class A:\n    p = jax.pmap(f)\n    def m(self, x):\n        return self.p(x)", True),
    ],
)
def test_calls_of_what_can_only_be_pmapped(text: str, certain: bool) -> None:
    assert len(parse(f"import jax\n{text}").mapped_calls) == int(certain)
