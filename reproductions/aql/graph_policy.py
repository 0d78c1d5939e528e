"""The policies of `agent.AQL` as TensorFlow operations, for an export.

Actors use NumPy twins (`aql.SearchPolicy` and others); tests compare both.
"""

import functools

import numpy as np
import tensorflow as tf

from common.agents.agent import GraphPolicy
from common.environments.spec import EnvironmentSpec
from common.types import Nest
from reproductions.aql.actions import ActionSpace
from reproductions.aql.aql import AQLLearner
from reproductions.aql.config import AQLConfig
from reproductions.aql.d3pg import D3PGLearner
from reproductions.aql.impala import ImpalaLearner
from reproductions.aql.networks import RecurrentLayers
from reproductions.aql.proposals import FlatPolicy, Proposal


def graph_policy(
    learner: AQLLearner | D3PGLearner | ImpalaLearner,
    config: AQLConfig,
    spec: EnvironmentSpec,
    space: ActionSpace,
) -> GraphPolicy:
    """Returns the evaluator's policy; see `Agent.graph_policy`.

    With recurrent networks, the state includes the last action's reward, which the caller sets.
    """
    if isinstance(learner, D3PGLearner):
        choose, shared = learner.networks.policy, learner.networks.critic.shared
    elif isinstance(learner, ImpalaLearner):
        policy, shared = learner.network.policy, learner.network.shared

        def choose(features: tf.Tensor) -> tf.Tensor:
            return sample(policy.proposal, policy.trunk(features), 1)[:, 0]

    else:
        choose = functools.partial(_search, learner, config, space)
        shared = learner.value.shared

    def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
        if not isinstance(shared, RecurrentLayers):
            return _to_environment(choose(shared(observation)), spec, space), state
        features, lstm = shared.step(observation, state)
        action = choose(features)
        reward = tf.zeros_like(state.reward)
        after = state._replace(lstm=lstm, action=space.encode(action), reward=reward)
        return _to_environment(action, spec, space), after

    return act


def sample(proposal: Proposal | FlatPolicy, features: tf.Tensor, number: int) -> tf.Tensor:
    """Returns independent samples for each state, float32 [K, number, D]; features are [K, H]."""
    space = proposal.space
    if isinstance(proposal, FlatPolicy):
        logits = features @ proposal.weights + proposal.bias
        return tf.gather(space.all_actions(), tf.random.categorical(logits, number))
    outputs = features @ proposal.state_weights + proposal.bias
    outputs = tf.repeat(outputs, number, axis=0)
    actions, encoded = [], tf.zeros_like(outputs[:, :0])
    for k, offset, width in zip(space.choices, space.offsets, space.widths):
        block = slice(offset, offset + width)
        output = outputs[:, block]
        if proposal.autoregressive:
            output += encoded @ proposal.action_weights[:offset, block]
        if k:
            index = tf.random.categorical(output, 1)
            actions.append(tf.cast(index, tf.float32))
            encoding = tf.one_hot(index[:, 0], k)
        else:
            noise = proposal.variance**0.5 * tf.random.normal(tf.shape(output))
            encoding = tf.clip_by_value(output + noise, -1.0, 1.0)
            actions.append(encoding)
        encoded = tf.concat([encoded, encoding], axis=1)
    # The number of states is explicit, since -1 cannot be inferred if there are 0 samples.
    return tf.reshape(tf.concat(actions, axis=1), [tf.shape(features)[0], number, space.size])


def _uniform(space: ActionSpace, rows: tf.Tensor, number: int) -> tf.Tensor:
    """Returns uniformly random actions, float32 [rows, number, D]."""
    numbers, counts = tf.random.uniform([rows, number, space.size]), np.array(space.choices)
    return tf.where(counts == 0, 2 * numbers - 1, tf.floor(numbers * counts.astype(np.float32)))


def _search(
    learner: AQLLearner, config: AQLConfig, space: ActionSpace, features: tf.Tensor
) -> tf.Tensor:
    """Returns a* [K, D] of the configured search (algorithm 1, section 5.1)."""
    rows, part = tf.shape(features)[0], learner.value.state(features)

    def valued(candidates: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return candidates, learner.value.values_of(part, candidates)

    if config.search == "exact":
        every = tf.constant(space.all_actions())[tf.newaxis]
        found = [valued(tf.repeat(every, rows, axis=0))]
    elif config.search == "cem":
        found = [valued(_uniform(space, rows, config.cem_samples))]
        for _ in range(config.cem_iterations - 1):
            best = tf.argsort(found[-1][1], direction="DESCENDING")[:, : config.cem_elites]
            elites = tf.gather(found[-1][0], best, batch_dims=1)
            mean = tf.reduce_mean(elites, axis=1, keepdims=True)
            deviation = tf.math.reduce_std(elites, axis=1, keepdims=True)
            noise = tf.random.normal([rows, config.cem_samples, space.size])
            drawn = mean + tf.maximum(deviation, config.cem_min_std) * noise
            found.append(valued(tf.clip_by_value(drawn, -1.0, 1.0)))
        found.append(valued(_uniform(space, rows, config.cem_uniform_samples)))
    else:
        number = config.num_proposal_samples
        proposed = _uniform(space, rows, number)
        if learner.proposal is not None:
            hidden = learner.proposal.trunk(features)
            proposed = sample(learner.proposal.proposal, hidden, number)
        uniform = _uniform(space, rows, config.num_uniform_samples)
        found = [valued(tf.concat([proposed, uniform], axis=1))]
    candidates, values = (tf.concat(parts, axis=1) for parts in zip(*found))
    return tf.gather(candidates, tf.argmax(values, axis=1), batch_dims=1)


def _to_environment(actions: tf.Tensor, spec: EnvironmentSpec, space: ActionSpace) -> tf.Tensor:
    """Converts actions as `ActionSpace.to_environment` does."""
    if spec.is_hybrid:
        return tf.where(tf.constant(spec.action_choices) > 0, actions, space.values(actions))
    if space.elements:
        parts = [
            tf.gather(rows, tf.cast(actions[:, d], tf.int32))
            for d, rows in enumerate(space.elements)
        ]
        return tf.cast(tf.concat(parts, axis=1), tf.int32)
    if spec.is_discrete:
        return tf.cast(actions[:, 0], tf.int32)
    return tf.cast(actions, tf.int32) if spec.action_choices else space.values(actions)
