"""Tests of AQL's losses and of its learner's update, against float64 twins."""

from ended_unrolls import METRICS, B, T, ends
from float64_networks import Float64Values, numeric_gradient
import numpy as np
import pytest
import scipy.special
from target_copies import check_hard_copies
import tensorflow as tf

from common.data.unrolls import Unrolls
from common.environments.spec import EnvironmentSpec
from common.types import Batch
from reproductions.aql import aql
from reproductions.aql.actions import ActionSpace
from reproductions.aql.aql import AQLLearner
from reproductions.aql.config import AQLConfig
from reproductions.aql.d3pg import D3PGLearner

OBSERVATION = 4
SPACE = ActionSpace((3, 0, 2))
CONTINUOUS = ActionSpace((0, 0))
SMALL = {
    "state_size": 4,
    "action_size": 3,
    "joint_sizes": (4, 3),
    "proposal_sizes": (4,),
    "batch_size": B,
    "unroll_length": T,
}


def config_of(**values):
    return AQLConfig(**{**SMALL, **values})


def make_unrolls(space, seed=0):
    generator = np.random.default_rng(seed)
    reward, discount, is_last = ends(generator)
    observation = generator.standard_normal((B, T, OBSERVATION)).astype(np.float32)
    extras = {name: space.uniform((B, T), generator) for name in ("action_index", "best_index")}
    return Unrolls(observation, reward, discount, is_last, extras)


def batch_of(unroll):
    steps = tf.nest.map_structure(tf.constant, unroll)
    return Batch(steps, tf.fill([B], 0.1), tf.constant(10.0))


def randomize(variables, seed=2):
    generator = np.random.default_rng(seed)
    for variable in variables:
        variable.assign(0.7 * generator.standard_normal(variable.shape))


# The targets.


def targets64(reward, discount, is_last, value, gamma, lambda_):
    """G_t of each row from its definition: [T, B] -> [T - 1, B]."""
    steps, rows = reward.shape
    found = np.zeros((steps - 1, rows))
    for b in range(rows):
        for t in range(steps - 1):
            total, factor, share = 0.0, 1.0, 1.0
            for k in range(t, steps - 1):
                total += factor * share * reward[k, b]
                factor *= gamma * discount[k, b]
                ends = is_last[k + 1, b] or k + 1 == steps - 1
                total += factor * share * (1.0 if ends else 1 - lambda_) * value[k + 1, b]
                if ends:
                    break
                share *= lambda_
            found[t, b] = total
    return found


def test_targets_are_pengs_within_each_episode():
    unroll = make_unrolls(SPACE)
    value = np.random.default_rng(1).standard_normal((T, B))
    columns = [c.T.astype(np.float64) for c in (unroll.reward, unroll.discount)]
    arguments = (*columns, unroll.is_last.T, value, 0.9, 0.8)
    target, weight = aql.targets(*map(tf.constant, arguments[:4]), *arguments[4:])
    np.testing.assert_allclose(target, targets64(*arguments), rtol=1e-12)
    np.testing.assert_array_equal(weight, 1 - unroll.is_last.T[:-1].astype(float))


# The learner's update.


class Twin64(Float64Values):
    """The learner's networks and losses in float64."""

    def value(self, network, observation, encoded):
        part = self.run(network.state, self.run(network.shared, observation))
        hidden = np.maximum(part + self.run(network.action, encoded), 0)
        return self.run(network.joint, hidden)[..., 0]

    def value_loss(self, network, unroll, target, space):
        observation, encoded = (
            x.astype(np.float64)
            for x in (unroll.observation, space.encode(unroll.extras["action_index"]))
        )
        value = self.value(network, observation, encoded).T[:-1]
        return np.sum((1 - unroll.is_last.T[:-1]) * np.square(target - value))

    def proposal_loss(self, network, features, unroll, entropy_cost):
        """Of the hybrid space; sums over all T timesteps."""
        encoded = SPACE.encode(unroll.extras["best_index"]).astype(np.float64)
        weights = self.of(network.proposal.action_weights)
        outputs = self.run(network.trunk, features) @ self.of(network.proposal.state_weights)
        outputs += self.of(network.proposal.bias)
        first = outputs[..., :3]
        second = outputs[..., 3] + encoded[..., :3] @ weights[:3, 3]
        third = outputs[..., 4:] + encoded[..., :4] @ weights[:4, 4:]
        total = np.sum(np.square(encoded[..., 3] - second)) / (2 * 0.25)
        total += second.size * 0.5 * np.log(2 * np.pi * 0.25)
        total -= second.size * entropy_cost * 0.5 * np.log(2 * np.pi * np.e * 0.25)
        for logits, taken in ((first, encoded[..., :3]), (third, encoded[..., 4:])):
            log_p = logits - scipy.special.logsumexp(logits, axis=-1, keepdims=True)
            total -= np.sum(taken * log_p) - entropy_cost * np.sum(np.exp(log_p) * log_p)
        return total


def assert_numeric(gradients, variables, twin, loss):
    for gradient, variable in zip(gradients, variables, strict=True):
        expected = numeric_gradient(loss, twin.of(variable))
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-3, err_msg=variable.name)


@pytest.mark.parametrize("shared_sizes", [(), (4,)])
def test_the_gradients_are_those_of_both_losses(shared_sizes):
    """With a* as stored; a target network or a gradient through G would make a difference."""
    config = config_of(shared_sizes=shared_sizes, discount=0.9)
    learner = AQLLearner(config, EnvironmentSpec(OBSERVATION, 2), SPACE)
    randomize(learner.actor_variables)
    unroll, twin = make_unrolls(SPACE), Twin64(learner.actor_variables)
    observation = unroll.observation.astype(np.float64)
    encoded = SPACE.encode(unroll.extras["best_index"]).astype(np.float64)
    best_value = twin.value(learner.value, observation, encoded)
    columns = (unroll.reward.T, unroll.discount.T, unroll.is_last.T)
    target = targets64(*columns, best_value.T, 0.9, config.trace)
    features = twin.run(learner.value.shared, observation)

    (value_gradients, proposal_gradients), outputs, metrics = learner.gradients(batch_of(unroll))
    assert outputs == ()
    assert_numeric(
        value_gradients,
        learner.value.parameters,
        twin,
        lambda: twin.value_loss(learner.value, unroll, target, SPACE),
    )
    assert_numeric(
        proposal_gradients,
        learner.proposal.parameters,
        twin,
        lambda: twin.proposal_loss(learner.proposal, features, unroll, config.entropy_cost),
    )
    num_terms = B * (T - 1) - 2
    expected = twin.value_loss(learner.value, unroll, target, SPACE) / num_terms
    np.testing.assert_allclose(metrics["value_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(metrics["mean_q"], best_value.mean(), rtol=1e-4)
    without = twin.proposal_loss(learner.proposal, features, unroll, 0.0)
    np.testing.assert_allclose(metrics["proposal_loss"], without / (B * T), rtol=1e-4)


@pytest.mark.parametrize("shared_sizes", [(), (4,)])
def test_each_loss_trains_its_own_variables(shared_sizes):
    """The proposal's gradient does not enter the shared layers, nor Q's the proposal."""
    learner = AQLLearner(
        config_of(shared_sizes=shared_sizes), EnvironmentSpec(OBSERVATION, 2), SPACE
    )
    value, proposal = (
        {v.ref() for v in part.parameters} for part in (learner.value, learner.proposal)
    )
    assert not value & proposal
    assert value | proposal == {v.ref() for v in learner.actor_variables}
    assert {v.ref() for v in learner.value.shared.trainable_variables} <= value
    batch = batch_of(make_unrolls(SPACE))
    with tf.GradientTape() as tape:
        features = learner.value.shared(aql.flat(batch.steps.observation))
        _, metrics = learner._proposal_gradients(
            features, aql.flat(batch.steps.extras["best_index"])
        )
    shared = tape.gradient(metrics["proposal_loss"], learner.value.parameters)
    assert set(shared) == {None}


@pytest.mark.parametrize("search", ["uniform", "exact"])
def test_without_a_proposal_there_is_q_alone(search):
    learner = AQLLearner(
        config_of(search=search), EnvironmentSpec(OBSERVATION, 2), ActionSpace((3, 2))
    )
    assert learner.proposal is None
    _, metrics = learner.update(batch_of(make_unrolls(ActionSpace((3, 2)))))
    assert list(metrics) == METRICS[search]


def test_optimisers_and_networks_exist_before_the_first_update():
    """A checkpoint of a run that has not learnt yet has all of them."""
    for config, kind, space in (
        (config_of(), AQLLearner, SPACE),
        (config_of(search="policy", num_levels=0), D3PGLearner, CONTINUOUS),
    ):
        learner = kind(config, EnvironmentSpec(OBSERVATION, 2), space)
        before = {v.ref() for v in learner.variables}
        learner.update(batch_of(make_unrolls(space)))
        assert {v.ref() for v in learner.variables} == before


# D3PG.


def make_d3pg(**values):
    config = config_of(search="policy", num_levels=0, **values)
    learner = D3PGLearner(config, EnvironmentSpec(OBSERVATION, 2), CONTINUOUS)
    randomize(learner.networks.variables, seed=2)
    randomize(learner.target_networks.variables, seed=3)
    return config, learner


@pytest.mark.parametrize("shared_sizes", [(), (4,)])
def test_d3pg_has_the_same_targets_from_its_target_networks(shared_sizes):
    config, learner = make_d3pg(shared_sizes=shared_sizes)
    unroll = make_unrolls(CONTINUOUS)
    twin = Twin64((*learner.networks.variables, *learner.target_networks.variables))
    observation = unroll.observation.astype(np.float64)
    policy, critic, _ = learner.networks
    target_policy, target_critic, _ = learner.target_networks

    def own_value(policy, critic, features):
        return twin.value(critic, observation, twin.run(policy, features))

    target_features = twin.run(target_critic.shared, observation)
    bootstrap = own_value(target_policy, target_critic, target_features)
    columns = (unroll.reward.T, unroll.discount.T, unroll.is_last.T)
    target = targets64(*columns, bootstrap.T, config.discount, config.trace)
    features = twin.run(critic.shared, observation)

    gradients, _, metrics = learner.gradients(batch_of(unroll))
    assert_numeric(
        gradients.critic,
        critic.trainable_variables,
        twin,
        lambda: twin.value_loss(critic, unroll, target, CONTINUOUS),
    )
    assert_numeric(
        gradients.policy,
        policy.trainable_variables,
        twin,
        lambda: -np.sum(own_value(policy, critic, features)),
    )
    own = own_value(policy, critic, features)
    np.testing.assert_allclose(metrics["mean_q"], own.mean(), rtol=1e-4, atol=1e-5)


def test_d3pg_copies_its_targets_periodically():
    config = config_of(search="policy", num_levels=0, target_period=2)
    learner = D3PGLearner(config, EnvironmentSpec(OBSERVATION, 2), CONTINUOUS)

    def make_batch(seed):
        return batch_of(make_unrolls(CONTINUOUS, seed))

    networks = learner.networks.variables, learner.target_networks.variables
    check_hard_copies(learner, *networks, make_batch, period=2)
