"""What holds for the program of every agent."""

import importlib

import pytest

import reproductions

BINARIES = ("d4pg", "apex_dqn", "apex_dpg", "reactor", "refer", "aql")


@pytest.mark.parametrize("name", BINARIES)
def test_its_runs_can_be_evaluated_and_loaded(name):
    program = importlib.import_module(f"binaries.{name}").PROGRAM
    module, _, agent = program.agent_class.partition(":")
    assert reproductions.AGENTS[program.agent] == module
    found = importlib.import_module(module)
    assert getattr(found, agent).paper == program.paper
    assert callable(found.from_config) and callable(found.load_policy)


def test_no_agent_is_without_a_program():
    assert set(BINARIES) == set(reproductions.AGENTS)
