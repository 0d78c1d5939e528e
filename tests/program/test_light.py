"""The launcher and the first steps of a role import neither TensorFlow nor NumPy."""

import subprocess
import sys

import pytest

import reproductions

HEAVY = ("tensorflow", "numpy", "pandas", "matplotlib")


@pytest.mark.parametrize("agent", reproductions.AGENTS)
def test_a_program_is_light(agent):
    """NumPy reads its number of threads once, when it is imported: a role sets it before."""
    code = f"import sys, binaries.{agent}; print([name for name in {HEAVY} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
