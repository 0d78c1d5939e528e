"""The help of every binary."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest

import reproductions

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = sys.executable.replace(f"{ROOT}/", "")
"""What a shell in that directory takes as it stands."""
NAMES = {path.stem for path in (ROOT / "binaries").glob("[!_]*.py")}
AGENTS = sorted(reproductions.AGENTS)
OTHERS = sorted(NAMES - {*AGENTS})


def shown(name, *flags):
    command = [sys.executable, "-m", f"binaries.{name}", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", AGENTS)
def test_an_agents_required_flags_come_first(name):
    text = shown(name, "-h")
    assert text == shown(name, "--workdir=runs/one", "--help")
    doc = importlib.import_module(f"binaries.{name}").__doc__
    assert text.startswith(doc.strip().replace("python -m", f"{PYTHON} -m"))
    groups = re.split(r"\n\n(\w+):\n", text)[1:]
    flags = {
        title: re.findall(r"^  --(?:\[no\])?(\w+):", lines, re.M)
        for title, lines in zip(groups[::2], groups[1::2])
    }
    assert list(flags) == ["required", "optional", "hyperparameters"]
    assert flags["required"] == ["environment", "workdir"]
    assert {"seed", "role", "max_minutes", "ignore_resources"} <= {*flags["optional"]}
    assert flags["hyperparameters"] == ["config", "setting"]


def test_the_help_of_absls_own_flags_is_no_failure():
    assert "--log_dir" in shown("d4pg", "--helpfull")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_another_programs_required_flags_come_first(name, flag, capsys):
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"binaries.{name}").main([flag])
    assert not end.value.code
    usage, _, text = capsys.readouterr().out.partition("\n\n")
    usage = usage.replace("[-h]", "")
    assert usage.startswith("usage: /") or usage.startswith(f"usage: {PYTHON} -m binaries.{name}")
    assert not re.search(r"(?<![/\w])python -m", usage + text)
    after = usage[usage.find("[") :] if "[" in usage else ""  # the first flag that is optional
    while "[" in after:
        after = re.sub(r"\[[^\[\]]*\]", "", after)
    assert "--" not in after, usage
