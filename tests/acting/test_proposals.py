"""Policies that propose, and what is recorded of an episode."""

import numpy as np
import pytest

from common import environments
from common.acting.policy import (
    ObservationRecorder,
    Policy,
    Proposals,
    ProposingPolicy,
    require_proposals,
)
from common.environments.batch import BatchedEnvironment
from common.roles.evaluator import run_episodes

OWN = "python:reproductions.d4pg.own_environment:make"


class Pushing(Policy):
    """Pushes to the right, and knows what it was called with."""

    def load(self, flat):
        self.parameters = flat

    def initial_state(self, num_environments):
        return np.zeros(num_environments)

    def __call__(self, observation, state):
        action = np.full((len(observation), 1), 0.5, np.float32)
        return action, state + 1, {"extra": observation[:, 0]}


class Proposing(Pushing, ProposingPolicy):
    def require_proposals(self):
        raise ValueError("none today")

    def propose(self, observation):
        return Proposals(np.zeros(3), (np.full(5, 0.2),), np.array([4]))


def test_a_recorder_acts_as_its_policy_and_keeps_the_first_environments_observations():
    policy = Pushing()
    recorder = ObservationRecorder(policy)
    recorder.load(np.ones(2))
    assert policy.parameters.tolist() == [1, 1]

    def batch():
        return BatchedEnvironment([environments.make(OWN, seed) for seed in (1, 2)])

    assert np.array_equal(run_episodes(batch(), recorder, 2), run_episodes(batch(), policy, 2))
    plain = environments.make(OWN, 1)
    expected = [plain.reset()] + [plain.step(np.full(1, 0.5, np.float32)) for _ in range(99)]
    assert len(recorder.observations) == 100
    for recorded, timestep in zip(recorder.observations, expected):
        np.testing.assert_array_equal(recorded, timestep.observation)


def test_what_is_kept_is_a_copy():
    recorder = ObservationRecorder(Pushing())
    observation = np.zeros((1, 2), np.float32)
    recorder(observation, recorder.initial_state(1))
    observation += 1
    assert recorder.observations[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    "policy, words", [(Pushing(), "samples no actions"), (Proposing(), "none today")]
)
def test_a_policy_without_proposals_is_refused(policy, words):
    with pytest.raises(ValueError, match=words):
        require_proposals(policy)
