"""What holds for the program of every agent."""

import importlib
import signal

from launched import launched
import pytest

from common.program.layout import imported
import reproductions

BINARIES = ("d4pg", "apex_dqn", "apex_dpg", "reactor", "refer", "aql")


@pytest.mark.parametrize("name", BINARIES)
def test_its_runs_can_be_evaluated_and_loaded(name):
    program = importlib.import_module(f"binaries.{name}").PROGRAM
    assert reproductions.AGENTS[program.agent] == program.agent_class
    agent = imported(program.agent_class)
    assert (agent.paper, agent.settings) == (program.paper, program.settings)


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


def test_no_agent_is_without_a_program():
    assert set(BINARIES) == set(reproductions.AGENTS)
