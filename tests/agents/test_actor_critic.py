"""Tests of common.agents.actor_critic that no paper's learner makes."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.learning.learner import Gradients
from common.networks import control, heads, packing


class Descent(ActorCriticLearner):
    """Minimises squared actions and squared values at an observation of 1."""

    def gradients(self, batch):
        del batch
        one, networks = tf.ones([1, 1]), self.networks
        gradients = self.gradients_of(
            lambda: (tf.reduce_mean(networks.critic(one, one) ** 2), tf.zeros([1])),
            lambda: (tf.reduce_mean(networks.policy(one) ** 2), tf.zeros([]), tf.zeros([])),
        )
        return Gradients(gradients, gradients.errors, {})


def make_learner(**arguments):
    def make_networks():
        policy = control.ControlPolicy(1, (2,), False)
        critic = heads.Critic(control.ControlCriticTorso((2,), False), heads.ScalarHead())
        packing.create_variables(policy, critic, 1, 1)
        return ActorCritic(policy, critic)

    return Descent(make_networks, lambda: snt.optimizers.SGD(0.5), **arguments)


@pytest.mark.parametrize("arguments", [{}, {"target_period": 3, "target_rate": 0.1}])
def test_targets_are_either_copied_or_moved(arguments):
    with pytest.raises(ValueError, match="target_period or target_rate"):
        make_learner(**arguments)


def test_targets_may_follow_by_a_rate_after_each_update():
    learner = make_learner(target_rate=0.25)
    before = [v.numpy() for v in learner.target_networks.variables]
    learner.update(None)
    moved = False
    for target, old, online in zip(
        learner.target_networks.variables, before, learner.networks.variables
    ):
        np.testing.assert_allclose(target, 0.75 * old + 0.25 * online.numpy(), rtol=1e-6)
        moved |= bool(np.any(target.numpy() != old))
    assert moved


def test_the_policy_may_have_another_optimiser():
    learner = make_learner(target_period=1, make_policy_optimizer=lambda: snt.optimizers.SGD(0.0))
    before = [v.numpy() for v in learner.networks.variables]
    learner.update(None)
    num_policy = len(learner.networks.policy.trainable_variables)
    changed = [np.any(v.numpy() != b) for v, b in zip(learner.networks.variables, before)]
    assert not any(changed[:num_policy]) and any(changed[num_policy:])
