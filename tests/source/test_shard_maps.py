"""shard_map sites: bodies, specs and placements."""

from collections.abc import Callable

import pytest

from shardlift.source.shard_maps import placed_spec, spec
from tests.source.files import last_value, parse, shown, table

HEAD = (
    "import functools, jax\nfrom jax.experimental.shard_map import shard_map as old\n"
    "from jax.sharding import NamedSharding, PartitionSpec as P\n"
    "def f(x, y): return x\n"
)


@pytest.mark.parametrize(
    ("text", "keywords", "decorates"),
    [
        ("jax.shard_map(f, mesh=m, in_specs=P(), out_specs=P())", "mesh in_specs out_specs", False),
        ("jax.shard_map(f=f, mesh=m)", "f mesh", True),
        ("old(f, m, P('i'), P())", "f mesh in_specs out_specs", False),
        ("@jax.shard_map(mesh=m)\ndef g(x): ...", "mesh", True),
        ("@functools.partial(jax.shard_map, mesh=m)\ndef g(x): ...", "mesh", True),
        ("@functools.partial(old, m, P())\ndef g(x): ...", "in_specs mesh", True),
        ("s = functools.partial(jax.shard_map, mesh=m)\n@s\ndef g(x): ...", "mesh", True),
        ("jax.shard_map(f, **options)", "**", False),
        ("functools.partial(jax.shard_map, mesh=m)(f, in_specs=P())", "in_specs mesh", False),
        ("s = functools.partial(old, mesh=m)\ng = s(f, n, P())", "f in_specs mesh", False),
    ],
)
def test_sites(text: str, keywords: str, decorates: bool) -> None:
    (site,) = parse(HEAD + text).shard_maps
    assert sorted(site.keywords) == sorted(keywords.split())
    assert site.decorates is decorates


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("jax.shard_map(f, mesh=m)", "f"),
        ("jax.shard_map(functools.partial(f, y=1), mesh=m)", "f"),
        ("from util import g\njax.shard_map(g, mesh=m)", None),
        ("jax.shard_map(unknown, mesh=m)", None),
        ("jax.shard_map(mesh=m)", None),
        ("class C: pass\njax.shard_map(C, mesh=m)", None),
    ],
)
def test_functions_of_the_same_file(text: str, function: str | None) -> None:
    (site,) = parse(HEAD + text, util="def g(x): return x  # pmap\n").shard_maps
    assert getattr(site.function, "name", None) == function


@pytest.mark.parametrize(
    ("arguments", "checks"),
    [
        ("f", True),
        ("f, check_vma=False", False),
        ("f, check_rep=True", True),
        ("f, check_vma=flag", None),
        ("f, **options", None),
    ],
)
def test_vma_checks(arguments: str, checks: bool | None) -> None:
    (site,) = parse(f"{HEAD}jax.shard_map({arguments})").shard_maps
    assert site.checks_vma is checks


@pytest.mark.parametrize(
    ("body", "specs", "parameter", "expected"),
    [
        ("f", "in_specs=P('i')", "y", ("i",)),
        ("f", "in_specs=(P('i'), P())", "y", ()),
        ("f", "in_specs=(P('i'),)", "y", None),
        ("f", "in_specs=specs", "y", None),
        ("f", "in_specs=P('i')", "z", None),
        ("f", "mesh=m", "x", None),
        ("unknown", "in_specs=P('i')", "x", None),
    ],
)
def test_specs_of_parameters(
    body: str, specs: str, parameter: str, expected: tuple[object, ...] | None
) -> None:
    (site,) = parse(f"{HEAD}jax.shard_map({body}, {specs})").shard_maps
    assert site.spec_of(parameter) == expected


def test_partials_of_the_same_file_are_followed() -> None:
    partial = "functools.partial(jax.shard_map, in_specs=P())"
    (site,) = parse(f"{HEAD}{partial}(f, in_specs=P('i'))").shard_maps
    assert site.spec_of("x") == ("i",)
    assert parse(f"{HEAD}from util import s\ns(f)", util=f"{HEAD}s = {partial}").shard_maps == []


CASES: dict[Callable[..., object], dict[str, object]] = {
    spec: {
        "P()": (),
        "P('i', None)": ("i", None),
        "s = P('i')\ns": ("i",),
        "P(*names)": None,
        "P(name)": None,
        "P('i', unreduced={'j'})": None,
        "None": None,
    },
    placed_spec: {
        "jax.device_put(x, NamedSharding(m, P('i')))": ("i",),
        "s = NamedSharding(m, P())\ny = jax.device_put(x, s)\ny": (),
        "jax.device_put(x, NamedSharding(m, spec=P('i')))": None,
        "jax.device_put(x, device)": None,
        "jax.device_put(x)": None,
        "NamedSharding(m, P('i'))": None,
    },
}


@table(CASES)
def test_specs(function: Callable[..., object], text: str, expected: object) -> None:
    file = parse(HEAD + text)
    assert shown(function(file, last_value(file))) == expected
