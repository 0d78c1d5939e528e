"""What holds for the program of every agent."""

import importlib
import signal

from launched import launched
import pytest

from common.cluster.layout import imported
import reproductions


@pytest.mark.parametrize("name", reproductions.AGENTS)
def test_its_program_and_its_class_are_those_of_its_declaration(name):
    declared = imported(reproductions.AGENTS[name])
    assert declared.name == name and declared.paper in reproductions.PAPERS
    assert importlib.import_module(declared.module).AGENT is declared
    assert imported(declared.agent_class).declaration is declared


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", ["d4pg", "campaign"])
def test_a_signal_during_the_imports_ends_it_in_silence(tmp_path, program, number):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else a background job ignores it
    slow = "print('importing', flush=True); import time; time.sleep(600)"
    (tmp_path / "inspect.py").write_text(slow)  # of the standard library, which all import
    with launched() as start:
        process = start("-m", f"binaries.{program}", env={"PYTHONPATH": str(tmp_path)})
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.communicate() == ("", "") and process.returncode == -number


def test_a_signal_ends_it_while_an_environment_of_the_users_own_hangs(tmp_path):
    module = "import time\ndef make(seed):\n    print('making', flush=True)\n    time.sleep(600)\n"
    (tmp_path / "hanging.py").write_text(module)
    flags = [f"--workdir={tmp_path / 'run'}", "--environment=python:hanging:make"]
    with launched() as start:
        process = start("-m", "binaries.d4pg", *flags, env={"PYTHONPATH": str(tmp_path)})
        assert process.stdout.readline() == "making\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate()[0] == "" and process.returncode == -signal.SIGTERM
    assert not (tmp_path / "run").exists()
