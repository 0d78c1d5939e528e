"""V-RACER's advantages, losses and its learner's update against their equations in float64."""

import numpy as np
import pytest
from refer_learners import (
    BETA,
    C_MAX,
    NUM_ACTIONS,
    NUM_STEPS,
    A,
    B,
    Float64,
    chained,
    divergence_of,
    gradients_of,
    loss_inputs,
    make_batch,
    make_learner,
    near_of,
    normal,
    numeric_gradients,
    of_state,
    output_gradients,
    standardized,
    stored,
    tensors,
    weight_of,
    weights_of,
)
import tensorflow as tf

from reproductions.refer import networks, vracer
from reproductions.refer.config import ReferConfig

KINDS = ("quadratic", "gaussian")


def make_inputs(kind, rows=NUM_STEPS, seed=0):
    """Coefficients, actions, means and a variance, float32."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=[rows, networks.num_coefficients(kind, NUM_ACTIONS)])
    action, mean = rng.normal(size=[2, rows, NUM_ACTIONS])
    arrays = outputs, action, mean, rng.uniform(0.1, 0.4, NUM_ACTIONS)
    return [tf.constant(array, tf.float32) for array in arrays]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_into_the_coefficients_alone(kind):
    inputs = make_inputs(kind)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(vracer.centred_advantage(ReferConfig(advantage=kind), *inputs))
    outputs, *others = tape.gradient(total, inputs)
    assert np.all(outputs.numpy() != 0) and others == [None] * 3


def test_biases_are_those_of_height_and_squared_widths():
    config = ReferConfig(advantage="gaussian", advantage_scale_bias=-2.0, advantage_width_bias=3.0)
    mean, variance = tf.zeros([1, NUM_ACTIONS]), tf.fill([NUM_ACTIONS], 0.2)
    outputs = tf.zeros([1, 1 + 2 * NUM_ACTIONS])
    height, squared_width = np.log1p(np.exp([-2.0, 3.0]))
    expected = height * (1 - np.sqrt(squared_width / (squared_width + 0.2)) ** NUM_ACTIONS)
    given = vracer.centred_advantage(config, outputs, mean, mean, variance)
    np.testing.assert_allclose(given, [expected], rtol=1e-5)


def test_the_initial_variance_is_a_variance_of_all_states():
    network = networks.VracerNetwork(ReferConfig(hidden_size=4), 3, 2)
    np.testing.assert_allclose(network.variance, [0.2, 0.2], rtol=1e-6)
    assert network.raw_variance.numpy() == pytest.approx(-1.5078, abs=1e-4)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    "direction, has_advantage",
    [("behavior_to_policy", False), ("policy_to_behavior", False), ("behavior_to_policy", True)],
)
def test_vracers_loss_and_gradients(gate, direction, has_advantage):
    batch = loss_inputs()
    if has_advantage:
        batch["advantage"] = normal(NUM_STEPS, seed=5)
    behaviour = batch["behaviour_mean"], batch["behaviour_variance"]
    rho0 = weight_of(batch["action"], batch["mean"], batch["variance"], *behaviour)
    near = near_of(rho0, gate)
    assert gate == (near.sum() < NUM_STEPS) and near.sum() > 3
    estimate = batch["q_ret"] - batch["value"]
    residual = estimate - (batch["advantage"] if has_advantage else 0)
    v_tbc = batch["value"] + np.minimum(1, rho0) * residual

    def losses(value, mean, variance, advantage=None):
        """With Q_ret - V, V_tbc and the mask as constants (eqs 5, 8, 10, 11, 23)."""
        rho = weight_of(batch["action"], mean, variance, *behaviour)
        pi = mean, variance
        to_policy = direction == "behavior_to_policy"
        kl = divergence_of(*behaviour, *pi) if to_policy else divergence_of(*pi, *behaviour)
        own = -rho * estimate + 0.5 * (value - v_tbc) ** 2
        if has_advantage:
            own += 0.5 * (rho0 * (advantage + batch["value"] - batch["q_ret"])) ** 2
        return BETA * near * own + (1 - BETA) * kl

    inputs = tensors(batch)
    names = ("value", "mean", "variance", *(["advantage"] if has_advantage else []))
    online = [inputs[name] for name in names]
    arrays = [batch[name] for name in names]

    def call():
        return vracer.losses(**inputs, beta=BETA, c_max=C_MAX, gate=gate, divergence=direction)

    result = call()
    np.testing.assert_allclose(result.loss, losses(*arrays), rtol=1e-9)
    np.testing.assert_allclose(result.rho, rho0, rtol=1e-9)
    np.testing.assert_allclose(result.policy_loss, -near * rho0 * estimate, rtol=1e-9)
    error = (np.minimum(1, rho0) * residual) ** 2
    np.testing.assert_allclose(result.error, error, rtol=1e-9)
    np.testing.assert_allclose(result.value_loss, 0.5 * near * error, rtol=1e-9)
    expected = 0.5 * near * (rho0 * residual) ** 2 if has_advantage else np.zeros(NUM_STEPS)
    np.testing.assert_allclose(result.advantage_loss, expected, rtol=1e-9)
    actual = gradients_of(lambda: call().loss, online)
    for gradient, expected in zip(actual, numeric_gradients(losses, arrays)):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
    # dL/dV = -beta near rho-bar (Q_ret - V - NUM_ACTIONS).
    expected = -BETA * near * np.minimum(1, rho0) * residual
    np.testing.assert_allclose(actual[0], expected, rtol=1e-9, atol=1e-12)


def test_a_stored_target_is_that_of_the_value_alone():
    """Algorithm 3: V moves to the stored V_tbc; the policy's gradient has Q_ret as before."""
    batch, v_tbc = loss_inputs(), normal(NUM_STEPS, seed=6)
    inputs = tensors(batch)
    online = [inputs[name] for name in ("value", "mean", "variance")]

    def call(**target):
        return vracer.losses(**inputs, beta=BETA, c_max=C_MAX, gate=True, **target)

    found = call(v_tbc=tf.constant(v_tbc))
    near = near_of(found.rho.numpy(), True)
    error = batch["value"] - v_tbc
    np.testing.assert_allclose(found.error, error**2, rtol=1e-9)
    np.testing.assert_allclose(found.value_loss, 0.5 * near * error**2, rtol=1e-9)
    stored_one, current = (
        gradients_of(lambda given=given: call(**given).loss, online)
        for given in ({"v_tbc": tf.constant(v_tbc)}, {})
    )
    np.testing.assert_allclose(stored_one[0], BETA * near * error, rtol=1e-9)
    for now, before in zip(stored_one[1:], current[1:], strict=True):
        np.testing.assert_array_equal(now, before)
    _, learner = make_learner("vracer_refer", value_target="stored")
    steps, refresh = make_batch().steps, learner.gradients(make_batch()).outputs
    np.testing.assert_allclose(refresh.errors, (refresh.values - steps.v_tbc) ** 2, rtol=1e-6)


def test_vracers_weight_is_bounded_in_its_loss():
    inputs = tensors(loss_inputs())
    inputs["mean"] += 5.0
    result = vracer.losses(**inputs, beta=1.0, c_max=C_MAX, gate=False, log_bound=np.log(1000.0))
    assert np.all(result.rho.numpy() >= 0.999e-3) and np.any(result.rho.numpy() < 1.001e-3)


@pytest.mark.parametrize(
    "setting, kind",
    [
        ("vracer_refer", "none"),
        ("vracer_per", "none"),
        ("vracer_refer2", "none"),
        ("vracer_refer", "quadratic"),
        ("vracer_per", "gaussian"),
    ],
)
def test_vracers_gradients(setting, kind):
    config, learner = make_learner(setting, advantage=kind)
    batch = make_batch()
    x, networks = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, mu_variance = stored(batch)
    q_ret = tf.cast(batch.steps.q_ret, tf.float64)

    def outputs():
        h = networks.run(learner.network.mlp, x)
        variance = np.log1p(np.exp(networks.of(learner.network.raw_variance)))
        return h[:, 0], h[:, 1 : 1 + A], variance, h[:, 1 + A :]

    def advantage(_, mean, variance, coefficients):
        return vracer.centred_advantage(config, coefficients, action, mean, variance)

    def loss(*outputs):
        return vracer.losses(
            *outputs[:3],
            action,
            mu,
            mu_variance,
            q_ret,
            *of_state(config, learner),
            np.log(1e3),
            advantage=None if kind == "none" else advantage(*map(tf.constant, outputs)),
        )

    gradients = output_gradients(lambda *o: weights_of(config, batch) * loss(*o).loss, outputs())
    result = learner.gradients(batch)
    assert len(result.gradients) == 7
    for gradient, variable in zip(result.gradients, learner.network.parameters, strict=True):
        expected = chained(outputs, gradients, networks.of(variable))
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-5)
    refresh, expected = result.outputs, loss(*outputs())
    value = outputs()[0]
    np.testing.assert_allclose(refresh.values, value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(refresh.rhos, expected.rho, rtol=1e-4)
    np.testing.assert_allclose(refresh.divergences, expected.divergence, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(refresh.errors, expected.error, rtol=1e-3, atol=1e-5)
    of_actions = advantage(*map(tf.constant, outputs()))
    np.testing.assert_allclose(refresh.advantages, of_actions, rtol=1e-4, atol=1e-5)
    assert np.any(of_actions) == (kind != "none")
    next_x = standardized(batch.steps.next_states.observation)
    np.testing.assert_allclose(
        refresh.next_values, networks.run(learner.network.mlp, next_x)[:, 0], rtol=1e-4, atol=1e-5
    )
    without = learner.gradients(make_batch(bootstraps=False))
    np.testing.assert_array_equal(without.outputs.next_values, np.zeros(B))


@pytest.mark.parametrize("setting", ["vracer_er", "vracer_refer"])
def test_a_variance_that_has_vanished_leaves_vracers_gradients_finite(setting):
    _, learner = make_learner(setting)
    learner.network.raw_variance.assign(tf.fill(learner.network.raw_variance.shape, -90.0))
    result = learner.gradients(make_batch())
    for gradient in result.gradients:
        assert np.isfinite(np.square(gradient)).all()  # as Adam needs them
    assert np.isfinite(result.outputs.divergences).all()
