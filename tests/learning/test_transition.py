"""Tests of common.learning.transition."""

from common.learning.transition import control_specs
import numpy as np

from common.types import NStepTransitions, StoredTransition


def test_a_transition_is_what_its_specs_say():
    columns = {
        "observation_tm1": np.zeros((2, 3)),
        "action_tm1": np.zeros((2, 1)),
        "n_step_reward": np.zeros(2),
        "n_step_discount": np.zeros(2),
        "observation_t": np.ones((2, 3)),
    }
    transition = StoredTransition.of(
        NStepTransitions(
            environment_index=np.zeros(2), step=np.zeros(2), extras_tm1={}, extras_t={}, **columns
        )
    )
    assert transition._asdict().keys() == columns.keys()
    for name, spec in control_specs(3, 1)._asdict().items():
        assert getattr(transition, name) is columns[name]
        assert [2, *spec.shape] == list(columns[name].shape)
