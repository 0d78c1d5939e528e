"""What each agent says to the programs that run it, as its configuration has it."""

import math

import pytest
import tensorflow as tf

from common.cluster.layout import imported
from common.environments.spec import EnvironmentSpec
from common.replay.memory import ContextualPriorityTree, Fifo, Proportional, Uniform
from reproductions import AGENTS


def agent_of(name, **values):
    return imported(AGENTS[name]).make_agent(**values)


@pytest.mark.parametrize(
    "name, values, expected",
    [
        ("apex_dqn", {}, {"trim_period": 100, "prefetch": 16, "updates_per_call": 1}),
        ("apex_dqn", {}, {"jit_compile": False, "decodes": True, "num_frames": 4}),
        ("apex_dqn", {"num_copies": 8}, {"num_copies": 8, "_reward_clip": 1.0, "_is_soft": True}),
        ("apex_dqn", {"reward_clip": 0.0, "torso": "mlp"}, {"_reward_clip": None}),
        (
            "apex_dqn",
            {"single_process": True, "samples_per_insert": 4.0},
            {"updates_per_call": 16, "samples_per_insert": 4.0},
        ),
        ("apex_dpg", {}, {"trim_period": 100, "_reward_clip": None, "_is_soft": True}),
        # Sixteen batches are drawn ahead, however many a call holds.
        ("apex_dpg", {}, {"prefetch": 1, "updates_per_call": 16}),
        ("apex_dpg", {"updates_per_call": 1}, {"prefetch": 16}),
        ("apex_dpg", {"updates_per_call": 5}, {"prefetch": 4}),
        ("d4pg", {}, {"trim_period": None, "_reward_clip": None, "_is_soft": False}),
        ("reactor", {}, {"sequence_length": 33, "batch_size": 4, "samples_per_insert": 0.8}),
        ("reactor", {}, {"target_period": 1000, "jit_compile": False, "decodes": False}),
        ("reactor", {"reward_clip": 0.0, "png_frames": True}, {"decodes": True}),
    ],
)
def test_what_the_programs_ask_it_for(name, values, expected):
    agent = agent_of(name, **values)
    places = agent, agent.data, agent.declaration
    for key, value in expected.items():
        assert next(getattr(place, key) for place in places if hasattr(place, key)) == value


@pytest.mark.parametrize(
    "name, values, sample, remove",
    [
        ("apex_dqn", {}, Proportional(0.6), Fifo()),
        ("apex_dqn", {"priority_exponent": 0.0}, Uniform(), Fifo()),
        ("apex_dpg", {}, Proportional(0.6), Proportional(-0.4)),
        ("apex_dpg", {"removal": "fifo"}, Proportional(0.6), Fifo()),
        ("d4pg", {"priority_exponent": 0.5}, Proportional(0.5), Fifo()),
        ("d4pg", {"removal": "priority"}, Proportional(0.6), Proportional(-0.4)),
        ("reactor", {}, ContextualPriorityTree(1.0, 0.1), Fifo()),
        ("reactor", {"prioritization": "uniform"}, Uniform(), Fifo()),
        ("reactor", {"prioritization": "max"}, Proportional(1.0, 0.1), Fifo()),
    ],
)
def test_items_are_drawn_and_removed_as_in_the_paper(name, values, sample, remove):
    """A memory applies these exponents to the priorities, which are the learner's errors."""
    distributions = agent_of(name, **values).data.distributions
    assert distributions == {"sample": sample, "remove": remove}


def test_without_a_seed_a_learner_leaves_tensorflows_random_numbers_as_they_are():
    agent, spec = agent_of("d4pg"), EnvironmentSpec(3, 2)
    drawn = []
    for seed in (1, 2):
        tf.random.set_seed(seed)
        agent.make_learner(spec)
        drawn.append(float(tf.random.uniform([])))
    assert drawn[0] != drawn[1]


def test_the_bound_of_values_is_that_of_rewards_and_discount():
    bounds = map(agent_of("d4pg").q_bound, ("control:walker:walk", "gym:HalfCheetah-v4"))
    assert list(bounds) == [pytest.approx(1 / (1 - 0.99)), math.inf]
    dqn = agent_of("apex_dqn")  # whose rewards are clipped to 1
    assert dqn.q_bound("atari:pong") == pytest.approx(1 / (1 - dqn.config.discount))
