"""Tests of common.networks.recurrent."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import numpy_twins, packing
from common.networks.control import OUTPUT_SCALE
from common.networks.recurrent import LSTM, LSTMNetwork, LSTMState, Window

T, B, F, H = 7, 3, 5, 4


def normal(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def make_lstms():
    """Ours and Sonnet's with the same weights."""
    tf.random.set_seed(0)
    lstm, sonnets = LSTM(F, H), snt.LSTM(H)
    sonnets(tf.zeros([1, F]), sonnets.initial_state(1))
    for ours, theirs in (
        (lstm.w_i, sonnets.input_to_hidden),
        (lstm.w_h, sonnets.hidden_to_hidden),
        (lstm.b, sonnets.b),
    ):
        assert ours.shape == theirs.shape
        theirs.assign(ours)
    return lstm, sonnets


def test_equals_sonnets_step_by_step():
    lstm, sonnets = make_lstms()
    inputs, state = normal(T, B, F), LSTMState(normal(B, H, seed=1), normal(B, H, seed=2))
    outputs, last = lstm.unroll(inputs, tf.zeros([T, B], tf.bool), state)
    theirs = snt.LSTMState(*state)
    for t in range(T):
        output, theirs = sonnets(inputs[t], theirs)
        np.testing.assert_allclose(outputs[t], output, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last.hidden, theirs.hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last.cell, theirs.cell, rtol=1e-5, atol=1e-6)


def test_a_row_that_is_first_begins_with_zeros_and_no_other_does():
    lstm, _ = make_lstms()
    inputs, state = normal(T, B, F), LSTMState(normal(B, H, seed=1), normal(B, H, seed=2))
    is_first = np.zeros([T, B], bool)
    is_first[3, 1] = is_first[0, 2] = True
    outputs, last = lstm.unroll(inputs, tf.constant(is_first), state)
    never, never_last = lstm.unroll(inputs, tf.zeros([T, B], tf.bool), state)
    anew, anew_last = lstm.unroll(inputs[3:], tf.zeros([T - 3, B], tf.bool), lstm.initial_state(B))
    from_zeros, _ = lstm.unroll(inputs, tf.zeros([T, B], tf.bool), lstm.initial_state(B))
    np.testing.assert_allclose(outputs[:, 0], never[:, 0], rtol=1e-6)
    np.testing.assert_allclose(outputs[:3, 1], never[:3, 1], rtol=1e-6)
    np.testing.assert_allclose(outputs[3:, 1], anew[:, 1], rtol=1e-5)
    np.testing.assert_allclose(outputs[:, 2], from_zeros[:, 2], rtol=1e-5)
    np.testing.assert_allclose(last.cell[0], never_last.cell[0], rtol=1e-6)
    np.testing.assert_allclose(last.cell[1], anew_last.cell[1], rtol=1e-5)


def test_initial_values_are_sonnets():
    tf.random.set_seed(0)
    lstm = LSTM(256, 128)
    assert sum(variable.shape.num_elements() for variable in lstm.trainable_variables) == 197_120
    for weights in (lstm.w_i, lstm.w_h):
        inputs = weights.shape[0]
        assert np.abs(weights).max() <= 2 * inputs**-0.5  # truncated at two standard deviations
        np.testing.assert_allclose(np.std(weights), 0.88 * inputs**-0.5, rtol=0.02)
    np.testing.assert_array_equal(np.asarray(lstm.b).reshape(4, 128)[:, 0], [0, 1, 0, 0])


def make_network(activation=None):
    tf.random.set_seed(0)
    network = LSTMNetwork(F, [H, H + 1], 3, activation)
    for variable in network.trainable_variables:
        variable.assign(variable + 0.3 * tf.random.stateless_normal(variable.shape, [1, 2]))
    return network


def test_states_and_the_step_after_them_are_one_unroll():
    network, inputs, begins = make_network(), normal(B, T, F), tf.constant([0, 3, T - 1])

    def unrolled():
        outputs, is_first = tf.transpose(inputs, [1, 0, 2]), tf.range(T)[:, tf.newaxis] == begins
        for lstm in network.lstms:
            outputs, _ = lstm.unroll(outputs, is_first, lstm.initial_state(B))
        return network.layers[0](outputs[-1])

    results = []
    for outputs_of in (unrolled, lambda: network(Window(inputs, begins))):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = outputs_of()
            loss = tf.reduce_sum(tf.square(outputs))
        results.append([outputs, *tape.gradient(loss, [inputs, *network.trainable_variables])])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for state in network.states(Window(inputs, tf.constant([0, 3, T]))):
        assert np.all(state.hidden[:2] != 0) and not np.any(state.hidden[2])
        assert np.all(state.cell[:2] != 0) and not np.any(state.cell[2])


def test_states_before_each_input_are_those_of_the_inputs_up_to_it():
    network, inputs, begins = make_network(), normal(B, T, F), tf.constant([0, 3, T - 1])
    any_sizes = tf.TensorSpec([None, None, F]), tf.TensorSpec([None], tf.int64)
    states = tf.function(
        lambda inputs, begins: network.states_before(Window(inputs, begins), 3),
        input_signature=any_sizes,
        autograph=False,
    )(inputs, tf.cast(begins, tf.int64))
    outputs = tf.reshape(network.at(tf.reshape(inputs, [-1, F]), states), [B, T, 3])
    for row, begin in enumerate(begins.numpy()):
        for t in range(begin, T):
            window = Window(inputs[row : row + 1, : t + 1], begins[row : row + 1])
            np.testing.assert_allclose(outputs[row, t], network(window)[0], atol=1e-5)


def test_back_propagation_is_truncated_between_parts_of_a_window():
    """Within a part the gradients are those of an unroll from a state that is a constant."""
    network, inputs = make_network(), normal(B, T, F)
    begins, parts = tf.constant([0, 2, 5]), [slice(0, 1), slice(1, 4), slice(4, T)]
    is_first = tf.range(T)[:, tf.newaxis] <= begins
    weight = tf.cast(tf.range(T) >= begins[:, tf.newaxis], tf.float32)[..., tf.newaxis]
    watched = [inputs, *network.trainable_variables]

    def loss(outputs):
        return tf.reduce_sum(weight * tf.square(outputs))

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        states = network.states_before(Window(inputs, begins), 3)
        outputs = network.at(tf.reshape(inputs, [-1, F]), states)
        found = loss(tf.reshape(outputs, [B, T, 3]))
    found = [found, *tape.gradient(found, watched)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        states, collected = [lstm.initial_state(B) for lstm in network.lstms], []
        for part in parts:
            hidden = tf.transpose(inputs[:, part], [1, 0, 2])
            for i, lstm in enumerate(network.lstms):
                hidden, last = lstm.unroll(hidden, is_first[part], states[i])
                states[i] = tf.nest.map_structure(tf.stop_gradient, last)
            collected.append(network.layers[0](tf.transpose(hidden, [1, 0, 2])))
        expected = loss(tf.concat(collected, 1))
    expected = [expected, *tape.gradient(expected, watched)]
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5)


def test_the_output_begins_near_zero():
    network = LSTMNetwork(F, [32, 32], 400)
    (weights,) = [v for v in network.trainable_variables if v.shape == [32, 400]]
    bound = OUTPUT_SCALE / np.sqrt(32)
    assert 0.99 * bound < np.abs(weights).max() <= bound


@pytest.mark.parametrize("activation", [None, tf.tanh])
def test_the_numpy_twin_carries_the_state(activation):
    network, inputs = make_network(activation), normal(B, T, F)
    twin = numpy_twins.twin(network)
    state = twin.initial_state(B)
    for t in range(T):
        kept = [part.copy() for layer in state for part in layer]
        outputs, after = twin(inputs[:, t].numpy(), state)
        expected = network(Window(inputs[:, : t + 1], tf.zeros([B], tf.int32)))
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        assert outputs.dtype == np.float32
        for part, before in zip([part for layer in state for part in layer], kept):
            np.testing.assert_array_equal(part, before)
        state = after
    other = LSTMNetwork(F, [H, H + 1], 3, activation)
    twin.load(packing.to_numpy(other.trainable_variables))
    outputs, _ = twin(inputs[:, 0].numpy(), twin.initial_state(B))
    expected = other(Window(inputs[:, :1], tf.zeros([B], tf.int32)))
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_large_inputs_of_a_twin_overflow_nothing():
    network = make_network()
    twin = numpy_twins.twin(network)
    inputs = np.full((1, F), 1e6, np.float32)
    with np.errstate(all="raise", under="ignore"):
        outputs, _ = twin(inputs, twin.initial_state(1))
    expected = network(Window(tf.constant(inputs[:, np.newaxis]), tf.zeros([1], tf.int32)))
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
