"""Tests of the arguments that adders refuse."""

import numpy as np
import pytest
from timesteps import FIRST, timestep

from common.acting.episode_adder import EpisodeAdder
from common.acting.n_step_adder import NStepAdder
from common.acting.sequence_adder import SequenceAdder
from common.acting.unrolls import UnrollAdder

NUM_ENVIRONMENTS = "num_environments must be at least 1, got 0"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 3, 0.9), NUM_ENVIRONMENTS),
        ((1, 3, 1.1), "gamma"),
        ((1, 3, float("nan")), "gamma"),
        ((1, 3, 0.9, 0.0), "reward_clip"),
        ((1, 3, 0.9, float("nan")), "reward_clip"),
    ],
)
@pytest.mark.parametrize("adder", [NStepAdder, SequenceAdder])
def test_bad_arguments_of_adders_that_discount(adder, arguments, message):
    with pytest.raises(ValueError, match=message):
        adder(*arguments)


@pytest.mark.parametrize(
    "adder, arguments, message",
    [
        (NStepAdder, (1, 0, 0.9), "n, the steps"),
        (SequenceAdder, (1, 1, 0.9), "length, the timesteps"),
        (UnrollAdder, (0, 30), NUM_ENVIRONMENTS),
        (UnrollAdder, (1, 1), "length.* must be at least 2: 1"),
        (EpisodeAdder, (0, 100), NUM_ENVIRONMENTS),
    ],
)
def test_bad_arguments(adder, arguments, message):
    with pytest.raises(ValueError, match=message):
        adder(*arguments)


@pytest.mark.parametrize(
    "adder",
    [NStepAdder(2, 3, 0.9), SequenceAdder(2, 3, 0.9), UnrollAdder(2, 30), EpisodeAdder(2, 100)],
    ids=lambda adder: type(adder).__name__,
)
def test_another_number_of_environments_is_refused(adder):
    step = timestep([FIRST], [0], [1], np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match=r"for 2 environments, but .* shape \(1,\)"):
        adder.observe(step, {})
