"""Tests of Reactor's network: table 3's sizes, its equations, where gradients flow."""

import numpy as np
import pytest
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from reproductions.reactor import networks
from reproductions.reactor.config import ReactorConfig

T, B, A = 5, 2, 3
SHAPE = (36, 36, 1)
SPEC = EnvironmentSpec(36 * 36, A, image_shape=SHAPE, is_discrete=True)


def count(module):
    return sum(variable.shape.num_elements() for variable in module.trainable_variables)


def make_atari(num_actions=18, **values):
    spec = EnvironmentSpec(84 * 84, num_actions, image_shape=(84, 84, 1), is_discrete=True)
    return networks.make_network(ReactorConfig(**values), spec)


def make_small(seed=0, **values):
    """A network of random variables, biases too."""
    network = networks.make_network(ReactorConfig(**values), SPEC)
    generator = np.random.default_rng(seed)
    for variable in network.trainable_variables:
        inputs = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 10
        variable.assign(generator.normal(scale=1.4 * inputs**-0.5, size=variable.shape))
    return network


def images(length=T, seed=0):
    generator = np.random.default_rng(seed)
    return tf.constant(generator.integers(0, 256, (length, B, *SHAPE)), tf.uint8)


def nowhere(length=T):
    return tf.zeros([length, B], tf.bool)


def test_table_3():
    network = make_atari()
    convolutions = network.torso.convolutions.layers
    assert [count(layer) for layer in convolutions] == [1_040, 16_416, 18_464]
    assert count(network.torso.linear) == 401_536
    assert count(network.policy_lstm) == count(network.value_lstm) == 197_120
    assert count(network.policy_head) == 4_128 + 65 * 18
    assert count(network.value_head) == 4_128 + 65 * 51
    assert count(network.advantage_head) == 4_128 + 65 * 18 * 51
    assert count(network) == 908_235
    assert count(make_atari(num_actions=4)) == 860_915
    assert count(make_atari(distributional=False)) == 908_235 - 65 * 50 - 65 * 18 * 50


def test_small_images_have_a_small_torso():
    spec = EnvironmentSpec(400, 6, image_shape=(10, 10, 4), is_discrete=True)
    network = networks.make_network(ReactorConfig(torso="minatar"), spec)
    assert network.torso.convolutions.output_size == 8 * 8 * 16
    assert network.torso.output_size == 128
    outputs, _ = network.unroll(
        tf.zeros([T, B, 10, 10, 4], tf.uint8), nowhere(), network.initial_state(B)
    )
    assert outputs.policy.shape == (T, B, 6) and outputs.logits.shape == (T, B, 6, 51)


def crelu(x):
    return np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], axis=-1)


def test_equals_numpy():
    """The heads and the equations of sections 3.4.1 and 6.4, from the outputs of the LSTMs."""
    network = make_small()
    outputs, _ = network.unroll(images(), nowhere(), network.initial_state(B))
    features = network.torso(tf.reshape(images(), [-1, *SHAPE]))
    maps = network.torso.convolutions(tf.reshape(images(), [-1, *SHAPE])).numpy()

    def linear(x, layer):
        return x @ layer.w.numpy().astype(np.float64) + layer.b.numpy()

    np.testing.assert_allclose(features, crelu(linear(maps, network.torso.linear)), atol=1e-4)
    inputs = tf.reshape(features, [T, B, 256])
    zeros = network.initial_state(B)
    hidden, _ = network.policy_lstm.unroll(inputs, nowhere(), zeros.policy)

    def head(x, module):
        return linear(crelu(linear(x, module.hidden)), module.output)

    e = np.exp(head(hidden.numpy(), network.policy_head))
    policy = 0.99 * e / e.sum(-1, keepdims=True) + 0.01 / A
    np.testing.assert_allclose(outputs.policy, policy, rtol=1e-4)

    hidden, _ = network.value_lstm.unroll(inputs, nowhere(), zeros.value)
    value = head(hidden.numpy(), network.value_head)[:, :, np.newaxis]
    advantage = head(hidden.numpy(), network.advantage_head).reshape(T, B, A, 51)
    logits = value + advantage - advantage.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(outputs.logits, logits, atol=1e-4)
    e = np.exp(logits)
    q = (e / e.sum(-1, keepdims=True)) @ np.linspace(-10, 10, 51)
    np.testing.assert_allclose(outputs.q, q, atol=1e-3)


def test_the_policy_has_its_floor():
    network = make_small(policy_floor=0.3)
    network.policy_head.output.b.assign([100.0, 0.0, -100.0])
    outputs, _ = network.unroll(images(), nowhere(), network.initial_state(B))
    np.testing.assert_allclose(
        outputs.policy, np.broadcast_to([0.8, 0.1, 0.1], (T, B, A)), atol=1e-6
    )


def test_both_lstms_are_reset_at_the_first_frame_of_an_episode():
    network = make_small()
    is_first = np.zeros((T, B), bool)
    is_first[2, 0] = True
    both, _ = network.unroll(images(), tf.constant(is_first), network.initial_state(B))
    never, _ = network.unroll(images(), nowhere(), network.initial_state(B))
    anew, _ = network.unroll(images()[2:], nowhere(T - 2), network.initial_state(B))
    for found, without, new in zip(both, never, anew):
        np.testing.assert_allclose(found[:, 1], without[:, 1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[:2], without[:2], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[2:, 0], new[:, 0], rtol=1e-4, atol=1e-5)
        assert np.abs(found[2:, 0] - without[2:, 0]).max() > 1e-3


@pytest.mark.parametrize("distributional", [True, False])
def test_policy_and_values_share_the_torso_which_only_the_values_train(distributional):
    network = make_small(distributional=distributional)
    with tf.GradientTape(persistent=True) as tape:
        outputs, _ = network.unroll(images(), nowhere(), network.initial_state(B))
        policy = tf.reduce_sum(tf.square(outputs.policy))
        values = tf.reduce_sum(tf.square(outputs.q))
    for loss, own, blocked in (
        (
            policy,
            (network.policy_lstm, network.policy_head),
            (network.torso, network.value_lstm, network.value_head, network.advantage_head),
        ),
        (
            values,
            (network.torso, network.value_lstm, network.value_head, network.advantage_head),
            (network.policy_lstm, network.policy_head),
        ),
    ):
        for module in own:
            gradients = tape.gradient(loss, module.trainable_variables)
            assert all(np.any(gradient) for gradient in gradients)
        for module in blocked:
            assert set(tape.gradient(loss, module.trainable_variables)) == {None}
