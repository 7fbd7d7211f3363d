from __future__ import annotations

import sys

import jax
from click.testing import CliRunner

import shardlift
from shardlift.cli import main
from tests import children


def test_env_names_versions_and_devices():
    out = CliRunner().invoke(main, ["env"])
    assert out.exit_code == 0
    lines = dict(line.split(": ", 1) for line in out.output.splitlines())
    assert lines["shardlift"] == shardlift.__version__
    assert lines["jax"] == jax.__version__
    assert lines["JAX_NUM_CPU_DEVICES"] == "8"
    assert lines["devices"].startswith("8 (cpu:0 ")


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None  # importing it raises ImportError
from shardlift.cli import main
main(["env"], standalone_mode=False)
"""


def test_env_works_without_jax():
    out = children.run([sys.executable, "-c", WITHOUT_JAX])
    assert out.returncode == 0, out.stderr
    assert "devices: JAX is not installed" in out.stdout


LIGHT = """
import sys
import shardlift
from shardlift.cli import main
import shardlift.cli.run, shardlift.cli.env
assert not {"jax", "numpy"} & set(sys.modules), sorted(sys.modules)
"""


def test_the_command_line_does_not_import_jax():
    children.run([sys.executable, "-c", LIGHT], check=True)


NO_DEVICE = """
import jax, shardlift, shardlift.arrays
for name in shardlift.arrays.__all__:
    getattr(shardlift.arrays, name)
jax.config.update("jax_num_cpu_devices", 3)  # refused once a device was touched
assert jax.device_count() == 3
"""


def test_importing_touches_no_device():
    children.run([sys.executable, "-c", NO_DEVICE], check=True)
