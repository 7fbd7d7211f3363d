"""Requirements that let in a JAX which is too old for the new text: raised, or named."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import fix, migrate

pytestmark = pytest.mark.usefixtures("many_sites", "project")

TRAIN = "import jax\n\nstep = jax.pmap(train, axis_name='i')\n"
PROJECT = '[project]\nname = "p"\ndependencies = ["optax", "{}"]\n'
EXTRAS = "[project.optional-dependencies]\nstable = [{}]\n"
BUILT = '[build-system]\nrequires = ["setuptools"]\n'
POETRY = "[tool.poetry.dependencies]\njax = {}\noptax = '*'\n"
MAIN, DEV, GROUP = (f"[tool.poetry.{name}dependencies]\n" for name in ("", "dev-", "group.tpu."))
PINS = "".join(f"p{k}=={k}.0\n" for k in range(6))
WHEEL = "jaxlib @ https://a.b/jaxlib-0.3.25-cp37.whl"
SETUP = "setup(install_requires=[{}], keywords=['jax'], extras_require={{'jax': ['clu', {}]}})\n"
FILES = {".git/HEAD": "", "pkg/__init__.py": "", "pkg/train.py": TRAIN}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("requirements.txt", "jax[cuda12_pip]>=0.4\n", "jax[cuda12]>=0.7\n"),
        ("requirements.txt", "jax[cuda11_cudnn86]>=0.10\n", "jax[cuda12]>=0.10\n"),
        ("requirements.txt", "numpy\njax\njaxtyping\n", "numpy\njax>=0.7\njaxtyping\n"),
        ("requirements.txt", "jax==0.4.30\r\nflax~=0.6.1\r\n", "jax>=0.7\r\nflax>=0.12.7\r\n"),
        ("requirements.txt", f"jax\n{WHEEL}\n", "jax>=0.7\njaxlib>=0.7\n"),
        ("gpu_requirements.txt", "jax[cuda]==0.3.12\n", "jax[cuda]>=0.7\n"),
        ("requirements/base.txt", "jax>=0.4,<0.9  # x\n", "jax>=0.7,<0.9  # x\n"),
        ("setup.py", SETUP.format("'jax>=0.4'", "'jax'"), SETUP.format("'jax>=0.7'", "'jax>=0.7'")),
        ("setup.cfg", "install_requires =\n    jax>=0.4.1\n", "install_requires =\n    jax>=0.7\n"),
        ("pyproject.toml", PROJECT.format("jax[tpu]~=0.4.1"), PROJECT.format("jax[tpu]>=0.7")),
        ("pyproject.toml", POETRY.format('"^0.4.30"'), POETRY.format('">=0.7"')),
        (
            "pyproject.toml",
            POETRY.format('{version = "^0.4"}'),
            POETRY.format('{version = ">=0.7"}'),
        ),
        (
            "pyproject.toml",
            PROJECT.format("jax>=0.4") + EXTRAS.format('"jax>=0.4"'),
            PROJECT.format("jax>=0.7") + EXTRAS.format('"jax>=0.7"'),
        ),
        (
            "pyproject.toml",
            PROJECT.format("jax>=0.4") + EXTRAS.format('"jax==0.4.25"'),
            PROJECT.format("jax>=0.7") + EXTRAS.format('"jax==0.4.25"'),
        ),
        (
            "pyproject.toml",
            PROJECT.format("jax>=0.4") + EXTRAS.format('"jax>=0.4.2", "chex == 0.1.5", "o==0.1"'),
            PROJECT.format("jax>=0.7") + EXTRAS.format('"jax>=0.4.2", "chex == 0.1.5", "o==0.1"'),
        ),
    ],
)
def test_they_are_part_of_the_change(project: Path, name: str, before: str, after: str) -> None:
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before.encode())
    assert f"+++ b/{name}" in migrate("pkg").stdout
    migrate("pkg", "--write", "--allow-dirty")
    assert path.read_bytes().decode() == after
    assert migrate("pkg").stdout == ""


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("requirements.txt", f"jax==0.4.1\n{PINS}", "the file pins nearly every package"),
        ("requirements.txt", f"jax~=0.4.1\n{PINS}".replace("==", "~="), "pins nearly every"),
        (
            "requirements.txt",
            "jax==0.4.1 \\\n    --hash=sha256:12\n",
            "requirements.txt:1: jax==0.4.1 has to be jax>=0.7, and is not edited: a tool wrote",
        ),
        ("docker/requirements.txt", "jax<1\n", ""),
        ("docker-requirements.txt", "jax<1\n", "it is of an image"),
        ("environment.yml", "dependencies:\n  - jax=0.3.25=py39\n", "an environment of conda"),
        (
            "docker/env.yaml",
            "dependencies:\n  - jaxlib=*=*cuda*\n  - pip:\n    - jax\n",
            "of conda",
        ),
        ("pyproject.toml", f"{DEV}jax = '^0.2.5'\n", "the group 'dev' pins what belongs"),
        ("pyproject.toml", f"{GROUP}jax = '^0.2.5'\n", "the group 'tpu' pins what belongs"),
        ("pyproject.toml", PROJECT.format("numpy") + EXTRAS.format('"jax==0.4"'), "'stable' pins"),
        ("pyproject.toml", PROJECT.format("jax<=\\u0030.9"), "spelled in a way of its own"),
        ("mkdocs.yml", "nav:\n  - jax=0.3.25\n", ""),
    ],
)
def test_some_are_named(project: Path, name: str, text: str, reason: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    result = migrate("pkg")
    assert name not in result.stdout
    assert f"is not edited: {reason}" in result.stderr or reason in result.stderr
    assert ("not edited" in result.stderr) is bool(reason)
    left = json.loads(migrate("pkg", "--format", "json").stdout)["left"]
    assert {(one["code"], one["path"]) for one in left} == (
        {("requirement", name)} if reason else set()
    )
    assert all(">=0.7" in one["suggestion"] for one in left)


def test_an_upper_bound_stops_all_of_them(project: Path) -> None:
    cap = PROJECT.replace("{}", "jax<=0.4.20") + EXTRAS.format('\n    "jax==0.4.15",\n')
    (project / "pyproject.toml").write_text(cap)
    (project / "requirements.txt").write_text("jax\n")
    (project / "pkg/sums.py").write_text("import jax.numpy as jnp\ny = jnp.trapz(x)\n")
    said = migrate("pkg").stderr
    why = "not edited: pyproject.toml keeps newer JAX away (jax<=0.4.20): decide it first.\n"
    assert f"- pyproject.toml:3: jax<=0.4.20 has to be jax>=0.4.26, and is {why}" in said
    assert "pyproject.toml:6: jax==0.4.15 has to be jax>=0.4.26, and is not edited: the" in said
    assert "needs JAX 0.7, which pyproject.toml (jax<=0.4.20) keeps away: decide that first" in said


def test_what_they_need_is_said(project: Path) -> None:
    requirements = project / "requirements.txt"
    requirements.write_text("jax==0.4.30  # pinned\nflax<0.11\n")
    said = migrate("pkg").stderr
    assert "The new text needs JAX 0.7 or newer.\n" in said
    line = "- requirements.txt:1: jax==0.4.30  # pinned -> jax>=0.7  # pinned\n"
    assert f"{line}- requirements.txt:2: flax<0.11 -> flax>=0.12.7\n" in said
    assert "- An older flax does not run on the newest JAX.\n" in said
    assert "flax>=0.12.7" not in migrate("pkg", "--target-jax", "0.10.2").stderr
    requirements.write_text("jax>=0.4\nchex==0.1.5\noptax<0.9\n")
    (project / "README.md").write_text("# P\n\n    pip install 'jax[cuda12_pip]==0.4.20'\n")
    said = migrate("pkg").stderr
    why = "not edited: older ones do not run there.\n"
    told = "README.md:3: jax[cuda12_pip]==0.4.20 has to be jax[cuda12]>=0.7, and is not edited: it"
    assert (
        f"- requirements.txt:2: chex==0.1.5 has to be chex>=0.1.85 for JAX 0.12, and is {why}"
        in said
    )
    requirements.write_text("flax==0.12.7\n")
    assert f"newer.\n- {told}" in migrate("pkg").stderr
    (project / "README.md").unlink()
    assert "needs JAX 0.7 or newer." in migrate("pkg").stderr
    requirements.write_text("jax>=0.10\nflax\n")
    assert "needs JAX" not in migrate("pkg").stderr
    (project / "other.py").write_text("import jax.numpy as jnp\ny = jnp.trapz(x)\n")
    of_years_ago = {"jax\n": False, "jax<0.5\njax\n": True, f"jax\n{WHEEL}\n": True}
    for text, is_raised in of_years_ago.items():
        requirements.write_text(f"{text}flax<0.7\n")
        assert ("+++ b/requirements.txt" in migrate("other.py").stdout) is is_raised


@pytest.mark.parametrize(
    ("required", "said"),
    [
        ("jax>=0.4,<=0.4.37", "jax>=0.12 for JAX 0.12, and is not edited: to let it in is"),
        ("jax==0.4.30", "jax>=0.12 for JAX 0.12, and is not edited: to let it in is"),
        ("jax<0.13", ""),
        ("dm-haiku==0.0.5", "dm-haiku>=0.0.16 for JAX 0.12, and is not edited: older"),
        ("flax<0.7", "flax>=0.12.7 for JAX 0.12, and is not edited: older ones do not run there"),
    ],
)
def test_fix_names_what_keeps_the_newest_jax_away(project: Path, required: str, said: str) -> None:
    (project / "pkg/train.py").write_text("import jax\ny = jax.tree_map(abs, 1)\n")
    (project / "requirements.txt").write_text(f"numpy\n{required}\n")
    (project / "uv.lock").write_text("jax==0.4.30\n")
    result = fix("pkg").stderr
    assert (f"requirements.txt:2: {required} has to be {said}" in result) is bool(said)
    assert ("not edited" in result) is bool(said)
    assert "lock" not in result


def test_those_of_the_one_folder_below_that_has_some_count(project: Path) -> None:
    (project / "pkg/setup.py").write_text('setup(install_requires=["jax>=0.4"])\n')
    assert "jax>=0.4 -> jax>=0.7" in migrate(".").stderr
    (project / "other").mkdir()
    (project / "other/a.py").touch()
    (project / "other/requirements.txt").write_text("jax>=0.5\n")
    assert "jax>=" not in migrate(".").stderr


def test_what_does_not_run_yet_raises_none(project: Path) -> None:
    (project / "requirements.txt").write_text("jax>=0.4\n")
    (project / "pkg" / "old.py").write_text("from flax import optim\n\nA = optim.Momentum(0.1)\n")
    result = migrate("pkg")
    assert "is not edited: the program does not run there yet" in result.stderr
    assert "+jax" not in result.stdout


def test_the_jax_that_lacks_a_name_that_is_left_is_kept_out(project: Path) -> None:
    (project / "requirements.txt").write_text("jax>=0.4\n")
    name = "device_put_sharded"  # of something else there
    (project / "pkg/other.py").write_text(f"import jax\ndef f({name}): return jax.{name}(x, d)\n")
    assert "+jax>=0.7,<0.10\n" in migrate("pkg").stdout


def test_no_jax_runs_what_needs_both_a_newer_and_an_older_one(project: Path) -> None:
    (project / "requirements.txt").write_text("jax>=0.4\n")
    (project / "pkg/other.py").write_text("import jax\ndef f(x, y): return jax.lax.tie_in(*x)\n")
    said = migrate("pkg").stderr
    both = "JAX 0.7 or newer, and what is left as it is one before 0.4.29: no JAX runs both.\n"
    assert both in said
    assert "jax>=0.4 has to be jax>=0.7, and is not edited: the program does not run" in said


@pytest.mark.parametrize(
    ("path", "name", "text", "is_raised"),
    [
        ("examples/a.py", "requirements.txt", "jax>=0.4\n", False),
        ("tests/a.py", "requirements.txt", "jax>=0.4\n", False),
        ("scripts/a.py", "requirements.txt", "jax>=0.4\n", True),
        ("a.py", "setup.py", SETUP.format("'jax>=0.4'", "'clu'"), False),
        ("pkg_of_another/a.py", "setup.cfg", "install_requires =\n    jax>=0.4\n", False),
        ("scripts/a.py", "pyproject.toml", PROJECT.format("jax>=0.4") + BUILT, False),
        ("scripts/a.py", "pyproject.toml", PROJECT.format("jax>=0.4"), True),
        ("src/lib/inner/a.py", "pyproject.toml", PROJECT.format("jax>=0.4") + BUILT, True),
    ],
)
def test_what_is_not_installed_raises_none(
    project: Path, path: str, name: str, text: str, is_raised: bool
) -> None:
    for file, content in ((name, text), (path, TRAIN), ("src/lib/__init__.py", "")):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(content)
    result = migrate(path)
    only = "" if is_raised else " of tests, examples, notebooks and scripts"
    assert f"The new text{only} needs JAX 0.7 or newer.\n" in result.stderr
    assert (f"- {name}:" in result.stderr) is (f"+++ b/{name}" in result.stdout) is is_raised


def test_what_scripts_need_is_said_apart(project: Path) -> None:
    (project / "setup.py").write_text(SETUP.format("'jax>=0.4'", "'clu'"))
    (project / "scripts").mkdir()
    (project / "pkg/train.py").rename(project / "scripts/train.py")
    (project / "pkg/new.py").write_text("import jax.numpy as jnp\ny = jnp.trapz(x)\n")
    said = (
        "The new text needs JAX 0.4.26 or newer, for jax.numpy.trapezoid in pkg/new.py:2.\n"
        "- setup.py:1: jax>=0.4 -> jax>=0.4.26\n"
        "The new text of tests, examples, notebooks and scripts needs JAX 0.7 or newer.\n"
    )
    assert said in migrate(".").stderr


@pytest.mark.parametrize(
    ("name", "stated", "old"),
    [
        ("pyproject.toml", 'requires-python =">=3.9"', "3.9"),
        ("pyproject.toml", 'requires-python = "<=3.12,!=3.8.1, >= 3.10.2"', "3.10"),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"', "3.8"),
        ("setup.cfg", "python_requires = ~=3.7", "3.7"),
        ("setup.py", "setup(python_requires='==3.9.*')", "3.9"),
        ("pyproject.toml", 'requires-python = ">=3.11"', ""),
        ("pyproject.toml", 'requires-python = "<=3.9"', ""),
    ],
)
def test_a_python_that_is_too_old_for_that_jax_is_said(
    project: Path, name: str, stated: str, old: str
) -> None:
    (project / "requirements.txt").write_text("jax>=0.4\n")
    (project / name).write_text(f"{stated}\n")
    place, said = f"{name}:{len(stated.splitlines())}", migrate("pkg").stderr
    line = (
        f"- {place}: Python {old} has to be Python 3.11, and is not edited: JAX 0.7 needs it, and"
    )
    assert (line in said) is ("Python" in said) is bool(old)
