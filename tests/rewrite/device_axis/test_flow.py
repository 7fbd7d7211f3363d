"""Ways in which a value or a pmapped function could be missed: each keeps its arrays stacked.

Everything is proven here, so that only the flow of values decides.
"""

from __future__ import annotations

import dataclasses

import pytest

from shardlift.capture.schema import Capture, Process, SiteFacts
from shardlift.rewrite.goal import Goal
from tests.rewrite.captures import proof
from tests.rewrite.test_programs import PLACED, migrated

HEAD = """\
import functools
import jax
from flax import jax_utils
from flax.training import common_utils


def train_step(state, batch):
    return update(state, batch), loss(state, batch)

"""
STEP = 'p_step = jax.pmap(train_step, axis_name="batch")\n'
LOOP = """

def main(loader, start):
    state = jax_utils.replicate(start)
    for batch in loader:
        state, loss = p_step(state, common_utils.shard(batch))
    print(float(loss[0]))
    return jax_utils.unreplicate(state)
"""
METHODS = """\
        for batch in loader:
            self.state, loss = p_step(self.state, common_utils.shard(batch))
        return jax_utils.unreplicate(self.state)

    def start(self, start):
        self.state = jax_utils.replicate(start)
"""
PROOFS = (proof("output[0]", (0,)), proof("output[1]"))


def facts(files: dict[str, str], size: int = 8) -> Capture:
    """Everything is proven of every pmap of the files."""
    sites = [
        SiteFacts(path, number, "train_step", axis_size=size, calls=2, proofs=PROOFS)
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if "pmap" in line
    ]
    return Capture(sites=tuple(sites))


def is_whole(files: dict[str, str] | str, capture: Capture | None = None) -> bool:
    files = {"main.py": files} if isinstance(files, str) else files
    after, _ = migrated(files, goal=Goal.GLOBAL, facts=capture or facts(files))
    return any(PLACED.search(text) for text in after.values())


def test_the_model_of_all_these() -> None:
    assert is_whole(HEAD + STEP + LOOP)


# What the model has before it prints the loss.
BEFORE_PRINT = {
    "an exception in between":
        "try:\n"
        "        state = make()\n"
        "        state = jax_utils.replicate(start)\n"
        "    except ValueError:\n"
        "        pass\n"
        "    state, loss = p_step(state, state)",
    "unpacked rows": "first, *others = loss",
    "rows that are iterated over": "for row in state:\n        print(jax_utils.unreplicate(row))",
    "a lambda that is called at once": "(lambda: show(state))()",
    "the bound of a slice": "loader[: size(state)]",
    "the key of a comprehension": "print({size(state): x for x in loader})",
    "the guard of a case": "match loader:\n        case 3 if size(state):\n            pass",
    "an exception that is computed": "try:\n        pass\n    except errors(state):\n        pass",
    "a leaf that is read": "print(jax.tree.leaves(state)[0].shape)",
    "what a function sees in a later turn":
        "    def save():\n"
        "            return jax_utils.unreplicate(state)\n"
        "        save()\n"
        "        state = make()\n"
        "        save()\n"
        "        state = jax_utils.replicate(start)",
    "values of a dict whose keys are computed": "show({name: state for name in names})",
    "a map of what is unpacked": "found = list(map(show, *[state]))",
    "a zip with a keyword": "found = zip(names, [state], strict=True)",
    "a dict with a key that is computed":
        'held = {name: load(), "state": state}\n'
        '    state = held["state"]',
    "a tuple with a star": "found = (*names, state)",
    "iterated rows": "print([x for x in state])",
}  # fmt: skip
MISSED = {
    "pmap or jit": HEAD
    + 'p_step = jax.pmap(train_step, axis_name="batch") if jax.device_count() > 1 else '
    + "jax.jit(train_step)\n"
    + LOOP,
    "steps of a tuple that is made further down": HEAD
    + LOOP.replace("p_step(state", "steps()[0](state")
    + "\n\ndef other(x, y):\n    return p_step(x, y)\n\n\ndef steps():\n    return (p_step, None)\n"
    + f"\n\n{STEP}",
    "a step in a dict that is looked up": HEAD
    + STEP
    + LOOP.replace("p_step(state", "STEPS[mode](state")
    + '\n\nSTEPS = {"train": p_step}\n'
    + LOOP.replace("def main", "def again"),
    "an attribute that a class gives to its objects": HEAD
    + STEP
    + "\n\nclass Holder:\n    state = make()\n\n    def main(self, loader):\n"
    + METHODS,
    "an attribute that is set on the class": HEAD
    + STEP
    + "\n\nclass Holder:\n    def main(self, loader):\n"
    + METHODS
    + "\n\nHolder.state = make()\n",
    "an object that is handed on": HEAD
    + STEP
    + "\n\nclass Holder:\n    def main(self, loader):\n        restore(self)\n"
    + METHODS,
    "a base class that may see it": HEAD
    + STEP
    + "\n\nclass Holder(library.Experiment):\n    def main(self, loader):\n"
    + METHODS,
    "a function that others may call": HEAD
    + STEP
    + LOOP.replace("p_step(state", "one(state")
    + "\n\ndef one(state, batch):\n    return p_step(state, batch)\n\n\nregister(one)\n",
    "a method that is called on something unknown": HEAD
    + STEP
    + "\n\nclass Holder:\n    def one(self, state, batch):\n        return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "Holder().one(state")
    + "\n\ndef other(thing, x):\n    return thing.one(x, x)\n",
    "a method that is read from something unknown": HEAD
    + STEP
    + "\n\nclass Holder:\n    def one(self, state, batch):\n        return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "Holder().one(state")
    + "\n\ndef other(thing):\n    register(thing.one)\n",
    "a method of an object that is handed on": HEAD
    + STEP
    + "\n\nclass Holder:\n    def one(self, state, batch):\n        return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "holder.one(state")
    + "\n\nholder = Holder()\nregister(holder)\n",
    "a method that Python calls": HEAD
    + STEP
    + "\n\nclass Holder:\n    def __call__(self, state, batch):\n"
    + "        return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "holder.__call__(state")
    + "\n\nholder = Holder()\nholder(rows, rows)\n",
    "a branch of an earlier turn": HEAD
    + STEP
    + LOOP.replace(
        "    for batch in loader:\n",
        "    for batch in loader:\n        if batch:\n            state = make()\n"
        "            continue\n",
    ),
    "a global that a function sets": HEAD
    + STEP
    + "\n\nstate = None\n\n\ndef other():\n    global state\n    state = make()\n"
    + LOOP.replace("    state = jax_utils", "    global state\n    other()\n    state = jax_utils"),
    "an argument of in_axes=None": HEAD
    + STEP
    + "p_all = jax.pmap(show, in_axes=(None, 0))\n"
    + LOOP.replace("    print(", "    p_all(state, rows)\n    print("),
    "a static argument": HEAD
    + STEP
    + "p_fixed = jax.pmap(show, static_broadcasted_argnums=0)\n"
    + LOOP.replace("    print(", "    p_fixed(state, rows)\n    print("),
    "an object of a class without an __init__": HEAD
    + STEP
    + "import typing\n\n\nclass Held(typing.NamedTuple):\n    tree: object\n"
    + LOOP.replace("    print(", "    print(Held(state).tree)\n    print("),
    "a walrus": HEAD
    + STEP
    + LOOP.replace("p_step(state,", "p_step(state := make(),"),
    "a default": HEAD
    + STEP
    + LOOP.replace("p_step(state", "one(state")
    + "\n\ndef one(state, batch, other=make()):\n    return p_step(other, batch)\n",
    "rows that a function iterates over": HEAD
    + STEP
    + "\n\ndef rows(tree):\n    found = []\n    for row in tree:\n        found.append(row)\n"
    + "    return jax_utils.unreplicate(found)\n"
    + LOOP.replace("    print(", "    print(rows(state))\n    print("),
    "a function that is made by another": HEAD
    + STEP
    + "\n\ndef make(tree):\n    show(tree)\n    return lambda: 3\n"
    + LOOP.replace("    print(", "    make(state)()\n    print("),
    "a function of a tree map that is made by another": HEAD
    + STEP
    + "\n\ndef make(tree):\n    show(tree)\n    return lambda x: x\n"
    + LOOP.replace("    print(", "    jax.tree.map(make(state), batch)\n    print("),
    "a method of an object that is made at once": HEAD
    + STEP
    + "\n\nclass Holder:\n    def __init__(self, tree):\n        show(tree)\n\n"
    + "    def one(self):\n        return 3\n"
    + LOOP.replace("    print(", "    Holder(state).one()\n    print("),
    "an attribute of an object that is made at once": HEAD
    + STEP
    + "\n\nclass Holder:\n    def __init__(self, tree):\n        self.tree = 3\n"
    + "        show(tree)\n"
    + LOOP.replace("    print(", "    print(Holder(state).tree)\n    print("),
    "a binding that may not happen": HEAD
    + STEP
    + LOOP.replace("p_step(state,", "p_step((c and (state := make())) or state,"),
    "what a function sees before the name is bound again": HEAD
    + STEP
    + LOOP.replace(
        "    state = jax_utils",
        "    state = start\n    def save():\n        return jax_utils.unreplicate(state)\n"
        "    save()\n    state = jax_utils",
    ),
    **{
        name: HEAD + STEP + LOOP.replace("    print(", f"    {lines}\n    print(")
        for name, lines in BEFORE_PRINT.items()
    },
}  # fmt: skip


FOLLOWED = {
    "outputs in a list": HEAD
    + STEP
    + LOOP.replace("    print(float(loss[0]))", "        losses.append(loss)\n    show(losses)")
    .replace("    state =", "    losses = []\n    state =", 1)
    .replace("show(losses)", "print(jax_utils.unreplicate(losses))"),
    "batches of a generator": HEAD
    + STEP
    + "\n\ndef sharded(loader):\n    for batch in loader:\n"
    + "        yield common_utils.shard(batch)\n"
    + LOOP.replace("in loader", "in sharded(loader)").replace("common_utils.shard(batch)", "batch"),
    "a dict that is made anew": HEAD
    + STEP
    + LOOP.replace("    print(", "    state = {k: x for k, x in state.items()}\n    print("),
    "a value beside another in a dict": HEAD
    + STEP
    + LOOP.replace(
        "    print(",
        '    held = {"state": state, "other": load()}\n    state = held["state"]\n    print(',
    ),
    "a function that is defined after the last binding": HEAD
    + STEP
    + LOOP.replace(
        "state = jax_utils.replicate(start)",
        "state = start\n    state = jax_utils.replicate(state)\n\n"
        "    def save():\n        return jax_utils.unreplicate(state)\n\n",
    ).replace("    print(", "    save()\n    print("),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_followed_loses_its_axis(name: str) -> None:
    after, result = migrated(
        {"main.py": FOLLOWED[name]}, goal=Goal.GLOBAL, facts=facts({"main.py": FOLLOWED[name]})
    )
    reasons = [change.reason for file in result.files for change in file.refused]
    assert PLACED.search(after["main.py"])
    assert reasons == []


def test_the_version_of_a_package_shows_none_of_its_names() -> None:
    files = {
        "pkg/__init__.py": '__version__ = "1"\n',
        "pkg/train.py": "import pkg\n" + HEAD + STEP + LOOP + "\n\nprint(pkg.__version__)\n",
    }
    assert is_whole(files)
    files["pkg/train.py"] = files["pkg/train.py"].replace("pkg.__version__", "pkg.__dict__")
    assert not is_whole(files)


def test_a_tuple_keeps_its_own_parentheses() -> None:
    text = HEAD + STEP + LOOP.replace("unreplicate(state)", "unreplicate((state, loss))")
    after, _ = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts({"main.py": text}))
    assert after["main.py"].endswith("    return (state, loss)\n")


def _on_devices(text: str, count: int) -> Capture:
    devices = tuple(map(str, range(count)))
    process = Process(0, 1, "", "", "", "cpu", "cpu", devices)
    return dataclasses.replace(facts({"main.py": text}), processes=(process,))


def test_a_run_on_some_of_the_devices_leaves_the_site_as_it_is() -> None:
    text = HEAD + STEP + LOOP
    assert is_whole(text, _on_devices(text, 8))
    assert not is_whole(text, _on_devices(text, 16))


@pytest.mark.parametrize("name", MISSED)
def test_what_could_be_missed_keeps_its_axis(name: str) -> None:
    text = MISSED[name]
    whole = is_whole(text)
    assert not whole or name == "unpacked rows"  # there, the loss alone does
    if name == "unpacked rows":
        after, _ = migrated({"main.py": text}, goal=Goal.GLOBAL, facts=facts({"main.py": text}))
        assert "in_axes=(None, None), out_axes=(None, 0)" in after["main.py"]


OTHER_MODULE = {
    "pkg/__init__.py": "",
    "pkg/train.py": HEAD
    + STEP
    + "state = jax_utils.replicate(make())\n\n\ndef main(loader):\n    for batch in loader:\n"
    "        new, loss = p_step(state, common_utils.shard(batch))\n"
    "    return float(loss[0]), jax_utils.unreplicate(new)\n",
}


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("print(train.main.__name__)", True),
        ("print(train.state)", False),
        ("train.state = load()", False),
        ("train.main = load()", True),
        ("train.p_step = load()", False),
    ],
)
def test_a_global_of_another_module(line: str, whole: bool) -> None:
    main = f"from pkg import train\n\n\ndef run(loader):\n    {line}\n    train.main(loader)\n"
    assert is_whole(OTHER_MODULE | {"pkg/main.py": main}) is whole


def test_a_run_on_one_device_proves_nothing() -> None:
    files = {"main.py": HEAD + STEP + LOOP}
    assert not is_whole(files, facts(files, size=1))


def test_a_site_that_was_also_traced_inside_others_is_not_proven() -> None:
    files = {"main.py": HEAD + STEP + LOOP}
    (site,) = facts(files).sites
    for change in ({"nested": 1}, {"transformed": {"vmap": 1}}):
        assert not is_whole(files, Capture(sites=(dataclasses.replace(site, **change),)))


def test_a_recorded_site_that_two_files_answer_to_is_of_neither() -> None:
    files = {"a/train.py": HEAD + STEP + LOOP, "b/train.py": HEAD + STEP + LOOP}
    assert not is_whole(files, facts({"train.py": HEAD + STEP + LOOP}))
