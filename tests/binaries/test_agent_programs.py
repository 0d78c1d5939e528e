"""What holds for the program of every agent."""

import importlib

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


def test_no_agent_is_without_a_program():
    assert set(BINARIES) == set(reproductions.AGENTS)
