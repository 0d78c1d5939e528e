"""A short `make sanitize`: hostile operations under the sanitizers of addresses and UB."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = "build/sanitize/quick"


def run(*command, **options):
    # A make that runs the tests must not hand its flags to the make that builds the program.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, **options
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program of `make sanitize`, not optimised; skips where the compiler cannot build it."""
    compiler = os.environ.get("CXX", "g++")
    for tool in ("make", compiler):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on the PATH")
    probe = str(tmp_path_factory.mktemp("probe") / "probe")
    flags = ("-fsanitize=address,undefined", "-xc++", "-", "-o", probe)
    built = run(compiler, *flags, input="int main() {}\n")
    if built.returncode or run(probe).returncode:
        pytest.skip(f"{compiler} has no address sanitizer here: {built.stderr.strip()[:200]}")
    made = run("make", PROGRAM)
    assert made.returncode == 0, made.stderr
    return PROGRAM


def test_hostile_operations_leave_the_memories_whole(program):
    ended = run(program, "4000", "400")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 2
    # The last count of the second line, calls that found no room, depends on the threads' timing.
    lines[1] = lines[1].rpartition(",")[0]
    for line, num_counts in zip(lines, (12, 7)):
        counts = re.findall(r"([a-z][a-z ]*) (\d+)", line.partition(";")[2])
        assert len(counts) == num_counts and all(int(count) for _, count in counts), line
