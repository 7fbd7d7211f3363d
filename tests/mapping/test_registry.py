"""Sites belong to functions: shared by equal pmaps, freed with the function."""

import dataclasses
import functools

import pytest

import shardlift
from shardlift.mapping import registry
from shardlift.mapping.pmap_options import check_options


def options(fun, **given):
    return check_options(fun, **given)


@pytest.mark.parametrize(
    ("option", "values"),
    [("axis_name", (1, True)), ("axis_name", (1, 1.0)), ("view", ("local", "global"))],
)
def test_names_of_other_types_and_other_options_do_not_share(option, values):
    def fun(x):
        return x

    first, second = (registry.site_of(fun, options(fun, **{option: value})) for value in values)
    assert first is not second


def test_an_option_without_a_hash_gets_a_site_of_its_own():
    def fun(x):
        return x

    given = dataclasses.replace(options(fun), backend=["cpu"])
    assert registry.site_of(fun, given) is not registry.site_of(fun, given)


def test_the_site_behind_a_pmap():
    def fun(x):
        return x

    pmapped = shardlift.pmap(fun)
    assert registry.site_behind(pmapped) is registry.site_of(fun, options(fun))

    @functools.wraps(pmapped)
    def wrapper(x):
        return pmapped(x)

    assert registry.site_behind(wrapper) is None
    assert registry.site_behind(fun) is None
    assert registry.site_behind({}) is None
