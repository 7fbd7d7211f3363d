"""Ways in which a value or a pmapped function could be missed: each keeps its arrays stacked.

Everything is proven here, so that only the flow of values decides.
"""

import dataclasses

import pytest

from shardlift.capture.schema import Capture, Process
from shardlift.rewrite.goal import Goal
from tests.rewrite.captures import all_proven
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
MODEL = HEAD + STEP + LOOP


def program(text: str) -> str:
    """A training program with a step, unless the text has one."""
    return HEAD + ("" if "jax.pmap(train_step" in text else STEP) + text


def is_whole(files: dict[str, str] | str, capture: Capture | None = None) -> bool:
    files = {"main.py": files} if isinstance(files, str) else files
    facts = capture or all_proven(files, needs=(0,))
    after, result = migrated(files, goal=Goal.GLOBAL, facts=facts)
    assert result.unreadable == ()  # not because of a bug
    return any(PLACED.search(text) for text in after.values())


def test_the_model_of_all_these() -> None:
    assert is_whole(MODEL)


ONE = "\n\nclass Holder:\n    def one(self, state, batch):\n        return p_step(state, batch)\n"
# What the model has before it prints the loss.
BEFORE_PRINT = {
    "a part of a condition": "if loader and show(state):\n        pass",
    "an exception in between":
        "try:\n"
        "        state = make()\n"
        "        state = jax_utils.replicate(start)\n"
        "    except ValueError:\n"
        "        pass\n"
        "    state, loss = p_step(state, state)",
    "unpacked rows": "first, *others = loss",
    "an operation in place": "state += 1",
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
    "a row that is looked for": 'assert 1 in state["w"]',
    "the elements of a comprehension": "show([state for x in loader])",
    "iterated rows": "print([x for x in state])",
    "listed rows": "rows = list(state)",
    "a dict that is part of another": "show({**state})",
    "a part that is deleted": 'del state["w"]',
}  # fmt: skip
MISSED = {
    "pmap or jit":
        'p_step = jax.pmap(train_step, axis_name="batch") if jax.device_count() > 1 else '
    + "jax.jit(train_step)\n"
    + LOOP,
    "steps of a tuple that is made further down": LOOP.replace("p_step(state", "steps()[0](state")
    + "\n\ndef other(x, y):\n    return p_step(x, y)\n\n\ndef steps():\n    return (p_step, None)\n"
    + f"\n\n{STEP}",
    "a step in a dict that is looked up": LOOP.replace("p_step(state", "STEPS[mode](state")
    + '\n\nSTEPS = {"train": p_step}\n'
    + LOOP.replace("def main", "def again"),
    "an attribute that a class gives to its objects":
        "\n\nclass Holder:\n    state = make()\n\n    def main(self, loader):\n"
    + METHODS,
    "a name of a class, which is read elsewhere":
        "\n\nclass Holder:\n    state = jax_utils.replicate(make())\n"
    "    state, loss = p_step(state, rows)\n    print(jax_utils.unreplicate(state))\n",
    "an attribute that is set on the class": "\n\nclass Holder:\n    def main(self, loader):\n"
    + METHODS
    + "\n\nHolder.state = make()\n",
    "a step with a decorator that may change its arguments":
        "\n\n@changed\ndef one(state, batch):\n    return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "one(state"),
    "an object that is handed on":
        "\n\nclass Holder:\n    def main(self, loader):\n        restore(self)\n"
    + METHODS,
    "a base class that may see it":
        "\n\nclass Holder(library.Experiment):\n    def main(self, loader):\n"
    + METHODS,
    "a function that others may call": LOOP.replace("p_step(state", "one(state")
    + "\n\ndef one(state, batch):\n    return p_step(state, batch)\n\n\nregister(one)\n",
    "a method that is called on something unknown": ONE
    + LOOP.replace("p_step(state", "Holder().one(state")
    + "\n\ndef other(thing, x):\n    return thing.one(x, x)\n",
    "a method that is read from something unknown": ONE
    + LOOP.replace("p_step(state", "Holder().one(state")
    + "\n\ndef other(thing):\n    register(thing.one)\n",
    "a method of an object that is handed on": ONE
    + LOOP.replace("p_step(state", "holder.one(state")
    + "\n\nholder = Holder()\nregister(holder)\n",
    "a method that Python calls": "\n\nclass Holder:\n    def __call__(self, state, batch):\n"
    + "        return p_step(state, batch)\n"
    + LOOP.replace("p_step(state", "holder.__call__(state")
    + "\n\nholder = Holder()\nholder(rows, rows)\n",
    "a branch of an earlier turn": LOOP.replace(
        "    for batch in loader:\n",
        "    for batch in loader:\n        if batch:\n            state = make()\n"
        "            continue\n",
    ),
    "a global that a function sets":
        "\n\nstate = None\n\n\ndef other():\n    global state\n    state = make()\n"
    + LOOP.replace("    state = jax_utils", "    global state\n    other()\n    state = jax_utils"),
    "an argument of in_axes=None": "p_all = jax.pmap(show, in_axes=(None, 0))\n"
    + LOOP.replace("    print(", "    p_all(state, rows)\n    print("),
    "a static argument": "p_fixed = jax.pmap(show, static_broadcasted_argnums=0)\n"
    + LOOP.replace("    print(", "    p_fixed(state, rows)\n    print("),
    "an object of a class without an __init__":
        "import typing\n\n\nclass Held(typing.NamedTuple):\n    tree: object\n"
    + LOOP.replace("    print(", "    print(Held(state).tree)\n    print("),
    "a class of the program that is derived from another":
        "\n\nclass Base:\n    def step(self, state, batch):\n        return p_step(state, batch)\n"
    + "\n\nclass Holder(Base):\n    def step(self, state, batch):\n        return show(state)\n"
    + LOOP.replace("p_step(state", "Base().step(state"),
    "a mapped function or another one":
        "\n\nif FAST:\n    @functools.partial(jax.pmap, axis_name='batch')\n"
    + "    def step(state, batch):\n        return train_step(state, batch)\n"
    + "else:\n    def step(state, batch):\n        return show(state)\n"
    + LOOP.replace("p_step(state", "step(state"),
    **{
        f"a name that {name} binds, too": LOOP.replace("    for", f"    {lines}\n    for")
        for name, lines in {
            "an import": "if loader:\n        from library import state",
            "a case": "match start:\n        case state:\n            pass",
            "an except": "try:\n        pass\n    except ValueError as state:\n        pass",
        }.items()
    },
    "a mapped function or a name of another module":
        f"\n\nfrom library import *\n{LOOP}".replace(
        "    for batch", "    step = p_step if start else other_step\n    for batch"
    ).replace("p_step(state", "step(state"),
    "a value of another module": f"\n\nfrom library import *\n{LOOP}".replace(
        "    for batch", "    state = initial if start else state\n    for batch"
    ),
    **{
        name: f"\n\n{text}{LOOP}".replace(
            "    for batch", "    held = Held(make())\n    state = held.tree if start else state\n"
            "    for batch",
        )
        for name, text in {
            "a field of a dataclass": "@dataclass\nclass Held:\n    tree: object\n",
            "an attribute that nothing here sets": "class Held:\n    pass\n",
            "an attribute that is computed":
                "class Held:\n    def __getattr__(self, name):\n        return make()\n",
        }.items()
    },
    "an attribute of a class with a decorator":
        "\n\n@register\nclass Holder:\n    def main(self, loader):\n"
    + METHODS
    + "\n\nHolder().start(1)\nHolder().main(2)\n",
    "one of any number of arguments": "\n\ndef keep(*held):\n    show(held)\n"
    + LOOP.replace("    print(", "    keep(state)\n    print("),
    "a walrus": LOOP.replace("p_step(state,", "p_step(state := make(),"),
    "a default": LOOP.replace("p_step(state,", "one(s=state, batch=")
    + "\n\ndef one(*, batch, s=make()):\n    return p_step(s, batch)\n",
    "rows that a function iterates over":
        "\n\ndef rows(tree):\n    found = []\n    for row in tree:\n        found.append(row)\n"
    + "    return jax_utils.unreplicate(found)\n"
    + LOOP.replace("    print(", "    print(rows(state))\n    print("),
    "a function that is made by another":
        "\n\ndef make(tree):\n    show(tree)\n    return lambda: 3\n"
    + LOOP.replace("    print(", "    make(state)()\n    print("),
    "an attribute of an object that is made at once":
        "\n\nclass Holder:\n    def __init__(self, tree):\n        self.tree = 3\n"
    + "        show(tree)\n"
    + LOOP.replace("    print(", "    print(Holder(state).tree)\n    print("),
    "a binding that may not happen":
        LOOP.replace("p_step(state,", "p_step((c and (state := make())) or state,"),
    "what a function sees before the name is bound again": LOOP.replace(
        "    state = jax_utils",
        "    state = start\n    def save():\n        return jax_utils.unreplicate(state)\n"
        "    save()\n    state = jax_utils",
    ),
    **{
        name: LOOP.replace("    print(", f"    {lines}\n    print(")
        for name, lines in BEFORE_PRINT.items()
    },
}  # fmt: skip


FOLLOWED = {
    "the keys of a state": LOOP.replace("    print(", '    assert "w" in state\n    print('),
    "a condition that is negated":
        LOOP.replace("    print(", "    if not state:\n        return None\n    print("),
    "outputs in a list":
        LOOP.replace("    print(float(loss[0]))", "        losses.append(loss)\n    show(losses)")
    .replace("    state =", "    losses = []\n    state =", 1)
    .replace("show(losses)", "print(jax_utils.unreplicate(losses))"),
    "batches of a generator": "\n\ndef sharded(loader):\n    for batch in loader:\n"
    + "        yield common_utils.shard(batch)\n"
    + LOOP.replace("in loader", "in sharded(loader)").replace("common_utils.shard(batch)", "batch"),
    "the next batch of a generator": "\n\ndef sharded(loader):\n    for batch in loader:\n"
    + "        yield common_utils.shard(batch)\n"
    + LOOP.replace("for batch in loader", "batches = sharded(loader)\n    for _ in loader")
    .replace("common_utils.shard(batch)", "next(batches)"),
    **{
        f"batches in a {name}": LOOP.replace(
            "for batch in loader", f"batches = [common_utils.shard(x) for x in xs]\n    for {loop}"
        ).replace("common_utils.shard(batch)", "batch")
        for name, loop in {
            "zip": "batch, number in zip(batches, numbers)",
            "count": "number, batch in enumerate(batches)",
        }.items()
    },
    "a function with a decorator that changes no argument":
        "\n\n@jax.jit\ndef same(tree):\n    return tree\n"
    + LOOP.replace("    print(", "    state = same(state)\n    print("),
    "a dict that is made anew":
        LOOP.replace("    print(", "    state = {k: x for k, x in state.items()}\n    print("),
    "a value beside another in a dict": LOOP.replace(
        "    print(",
        '    held = {"state": state, "other": load()}\n    state = held["state"]\n    print(',
    ),
    "a function that is defined after the last binding": LOOP.replace(
        "state = jax_utils.replicate(start)",
        "state = start\n    state = jax_utils.replicate(state)\n\n"
        "    def save():\n        return jax_utils.unreplicate(state)\n\n",
    ).replace("    print(", "    save()\n    print("),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_followed_loses_its_axis(name: str) -> None:
    after, result = migrated({"main.py": program(FOLLOWED[name])}, goal=Goal.GLOBAL)
    assert PLACED.search(after["main.py"])
    assert [change.reason for file in result.files for change in file.refused] == []


def test_lists_and_loops_are_followed() -> None:
    before = (
        "batch = {}\ndata = [1]\njax.pmap(lambda x: x + 1)(data)\nfor key in batch:\n    pass\n"
    )
    more = 'print("metrics", loss.shape, *sorted(batch))\n'
    _, result = migrated({"m.py": f"{HEAD}{before}{STEP}{LOOP}{more}"}, goal=Goal.GLOBAL)
    assert result.unreadable == ()


def test_a_list_of_whole_trees_is_whole_at_the_site() -> None:
    text = LOOP.replace("jax_utils.replicate(start)", "[jax_utils.replicate(start)]")
    text = text.replace("state, loss = ", "_, loss = ").replace(
        "unreplicate(state)", "unreplicate(loss)"
    )
    after, _ = migrated({"main.py": program(text)}, goal=Goal.GLOBAL)
    assert PLACED.search(after["main.py"])
    assert 'in_specs=(jax.P(), jax.P("batch"))' in after["main.py"]


def test_the_version_of_a_package_shows_none_of_its_names() -> None:
    text = f"import pkg\n{MODEL}\n\nprint(pkg.__version__)\n"
    files = {"pkg/__init__.py": '__version__ = "1"\n', "pkg/train.py": text}
    assert is_whole(files)
    assert not is_whole(files | {"pkg/train.py": text.replace("__version__", "__dict__")})


def test_a_tuple_keeps_its_own_parentheses() -> None:
    text = MODEL.replace("unreplicate(state)", "unreplicate((state, loss))")
    after, _ = migrated({"main.py": text}, goal=Goal.GLOBAL)
    assert after["main.py"].endswith("    return (state, loss)\n")


def test_a_run_on_some_of_the_devices_leaves_the_site_as_it_is() -> None:
    for count in (8, 16):
        devices = tuple(map(str, range(count)))
        process = Process(0, 1, "", "", "", "cpu", "cpu", devices)
        capture = dataclasses.replace(all_proven({"main.py": MODEL}), processes=(process,))
        assert is_whole(MODEL, capture) is (count == 8)


@pytest.mark.parametrize("name", MISSED)
def test_what_could_be_missed_keeps_its_axis(name: str) -> None:
    text = program(MISSED[name])
    assert not is_whole(text) or name == "unpacked rows"  # there, the loss alone does
    if name == "unpacked rows":
        after, _ = migrated({"main.py": text}, goal=Goal.GLOBAL)
        assert "in_axes=(None, None), out_axes=(None, 0)" in after["main.py"]


OTHER_MODULE = {
    "pkg/__init__.py": "",
    "pkg/train.py": HEAD
    + STEP
    + "state = jax_utils.replicate(make())\n\n\ndef main(loader):\n    for batch in loader:\n"
    "        new, loss = p_step(state, common_utils.shard(batch))\n"
    "    return float(loss[0]), jax_utils.unreplicate(new)\n",
}


def test_a_plain_class_is_followed() -> None:
    class_ = "\n\nclass Holder:\n    def main(self, loader):\n" + METHODS
    assert is_whole(program(f"{class_}\n\nHolder().start(1)\nHolder().main(2)\n"))


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("print(train.main.__name__)", True),
        ("print(train.state)", False),
        ("from pkg.train import state\n    show(state)", False),
        ("train.state = load()", False),
        ("train.main = load()", True),
        ("train.p_step = load()", False),
    ],
)
def test_a_global_of_another_module(line: str, whole: bool) -> None:
    main = f"from pkg import train\n\n\ndef run(loader):\n    {line}\n    train.main(loader)\n"
    assert is_whole(OTHER_MODULE | {"pkg/main.py": main}) is whole


def test_a_name_that_another_module_may_have_from_elsewhere() -> None:
    loop = LOOP.replace("    for", "    state = values.initial if start else state\n    for")
    text = f"from pkg import values\n{program(loop)}\n\nmain(1, 2)\n"
    files = {"pkg/__init__.py": "", "pkg/train.py": text}
    assert not is_whole(files | {"pkg/values.py": "from library import *\n"})
    assert is_whole(files | {"pkg/values.py": "initial = None\n"})


def test_a_recorded_site_that_two_files_answer_to_is_of_neither() -> None:
    files = {"a/train.py": MODEL, "b/train.py": MODEL}
    assert not is_whole(files, all_proven({"train.py": MODEL}))
