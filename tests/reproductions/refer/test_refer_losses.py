"""The losses of V-RACER, NAF and DDPG, and their learners' updates, in NumPy (float64)."""

from float64_networks import numeric_gradient
import numpy as np
import pytest
from refer_learners import (
    BETA,
    NUM_ACTIONS,
    NUM_STEPS,
    RECURRENT,
    SIGMA,
    A,
    B,
    Float64,
    assert_chained,
    assert_close,
    divergence_of,
    gradients_of,
    loss_inputs,
    make_batch,
    make_learner,
    make_rules,
    make_windows,
    near_of,
    normal,
    numeric_gradients,
    output_gradients,
    rules_of,
    standardized,
    stored,
    tensors,
    weight_of,
    weights_of,
)
import tensorflow as tf

from common.networks.recurrent import Window
from common.values import closed_form, gaussian
from reproductions.refer import ddpg, naf, networks, rules, vracer
from reproductions.refer.config import ReferConfig

# V-RACER.


@pytest.mark.parametrize("kind", ["quadratic", "gaussian"])
def test_gradients_flow_into_the_coefficients_alone(kind):
    outputs = normal(NUM_STEPS, networks.num_coefficients(kind, NUM_ACTIONS))
    arrays = outputs, *(loss_inputs()[name] for name in ("action", "mean", "variance"))
    inputs = [tf.constant(array) for array in arrays]
    outputs, *others = gradients_of(
        lambda: vracer.centred_advantage(ReferConfig(advantage=kind), *inputs), inputs
    )
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
        return vracer.losses(**inputs, rules_now=make_rules(gate), divergence=direction)

    result = call()
    error = (np.minimum(1, rho0) * residual) ** 2
    assert_close(
        result,
        rtol=1e-9,
        atol=0,
        loss=losses(*arrays),
        rho=rho0,
        policy_loss=-near * rho0 * estimate,
        error=error,
        value_loss=0.5 * near * error,
        advantage_loss=0.5 * near * (rho0 * residual) ** 2 * has_advantage,
    )
    actual = gradients_of(lambda: call().loss, online)
    for gradient, expected in zip(actual, numeric_gradients(losses, arrays)):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
    # dL/dV = -beta near rho-bar (Q_ret - V - A).
    expected = -BETA * near * np.minimum(1, rho0) * residual
    np.testing.assert_allclose(actual[0], expected, rtol=1e-9, atol=1e-12)


def test_a_stored_target_is_that_of_the_value_alone():
    """Algorithm 3: V moves to the stored V_tbc; the policy's gradient has Q_ret as before."""
    batch, v_tbc = loss_inputs(), normal(NUM_STEPS, seed=6)
    inputs = tensors(batch)
    online = [inputs[name] for name in ("value", "mean", "variance")]

    def call(**target):
        return vracer.losses(**inputs, rules_now=make_rules(True), **target)

    found = call(v_tbc=tf.constant(v_tbc))
    near = near_of(found.rho.numpy(), True)
    error = batch["value"] - v_tbc
    assert_close(found, rtol=1e-9, atol=0, error=error**2, value_loss=0.5 * near * error**2)
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
    rules_now = make_rules(False)._replace(log_bound=np.log(1000.0))
    rho = vracer.losses(**inputs, rules_now=rules_now).rho.numpy()
    assert np.all(rho >= 0.999e-3) and np.any(rho < 1.001e-3)


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
    x, twin = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, mu_variance = stored(batch)
    q_ret = tf.cast(batch.steps.q_ret, tf.float64)

    def outputs():
        h = twin.run(learner.network.mlp, x)
        variance = np.log1p(np.exp(twin.of(learner.network.raw_variance)))
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
            rules_of(config, learner),
            advantage=None if kind == "none" else advantage(*map(tf.constant, outputs)),
        )

    gradients = output_gradients(lambda *o: weights_of(config, batch) * loss(*o).loss, outputs())
    result = learner.gradients(batch)
    assert len(result.gradients) == 7
    assert_chained(result.gradients, learner.network.parameters, twin, outputs, gradients)
    expected = loss(*outputs())
    of_actions = advantage(*map(tf.constant, outputs()))
    assert np.any(of_actions) == (kind != "none")
    next_x = standardized(batch.steps.next_states.observation)
    assert_close(
        result.outputs,
        values=outputs()[0],
        divergences=expected.divergence,
        advantages=of_actions,
        next_values=twin.run(learner.network.mlp, next_x)[:, 0],
    )
    assert_close(result.outputs, atol=0, rhos=expected.rho)
    assert_close(result.outputs, rtol=1e-3, errors=expected.error)
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


# NAF.


@pytest.mark.parametrize("gate, beta_of_all", [(True, False), (False, False), (True, True)])
def test_nafs_loss_and_gradients(gate, beta_of_all):
    batch = loss_inputs()
    outputs = normal(NUM_STEPS, NUM_ACTIONS * (NUM_ACTIONS + 1) // 2, seed=2)
    target = normal(NUM_STEPS, seed=3)
    mean, mu, action, value = (
        batch[name] for name in ("mean", "behaviour_mean", "action", "value")
    )
    lower = closed_form.lower_triangular(tf.constant(outputs), NUM_ACTIONS).numpy()
    variance = np.full(NUM_ACTIONS, SIGMA**2)
    rho = weight_of(action, mean, variance, mu, variance)
    near = near_of(rho, gate)
    assert gate == (near.sum() < NUM_STEPS) and near.sum() > 1

    def q_of(value, mean, lower):
        d = np.einsum("bi,bij->bj", action - mean, lower)
        return value - 0.5 * np.sum(d**2, axis=-1)

    def q_losses(value, mean, lower):
        return near * 0.5 * (q_of(value, mean, lower) - target) ** 2

    def kls(mean):
        return divergence_of(mu, variance, mean, variance)

    online = [tf.constant(x) for x in (value, mean, lower)]
    fixed = [tf.constant(x) for x in (action, mu, target)]

    def call():
        return naf.losses(*online, *fixed, make_rules(gate), SIGMA, beta_of_all=beta_of_all)

    result, weight = call(), BETA if beta_of_all else 1.0
    assert_close(
        result,
        rtol=1e-9,
        atol=0,
        loss=weight * q_losses(value, mean, lower) + (1 - BETA) * kls(mean),
        divergence=kls(mean),
        q=q_of(value, mean, lower),
    )
    assert_close(result, rtol=1e-8, atol=0, rho=rho)
    # V and L as they are or with beta, m with beta, and the penalty for m alone.
    of_value, of_mean, of_lower = numeric_gradients(q_losses, [value, mean, lower])
    (of_kl,) = numeric_gradients(kls, [mean])
    expected = weight * of_value, BETA * of_mean + (1 - BETA) * of_kl, weight * of_lower
    for gradient, e in zip(gradients_of(lambda: call().loss, online), expected):
        np.testing.assert_allclose(gradient, e, rtol=1e-5, atol=1e-7)
    assert gradients_of(lambda: call().loss, fixed) == [None] * 3


@pytest.mark.parametrize("setting", ["naf_refer", "naf_per"])
def test_nafs_gradients(setting):
    config, learner = make_learner(setting, max_importance_weight=20.0)
    batch = make_batch()
    x, twin = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    next_x = standardized(batch.steps.next_states.observation)
    next_value = twin.run(learner.target_network.mlp, next_x)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * next_value
    assert target[0] == batch.steps.rewards[0]  # a true end

    def outputs():
        h = twin.run(learner.network.mlp, x)
        lower = closed_form.lower_triangular(tf.constant(h[:, 1 + A :]), A).numpy()
        return h[:, 0], h[:, 1 : 1 + A], lower

    def loss(*outputs):
        rules_now = rules_of(config, learner)
        return naf.losses(*outputs, action, mu, tf.constant(target), rules_now, 0.2)

    gradients = output_gradients(lambda *o: weights_of(config, batch) * loss(*o).loss, outputs())
    result = learner.gradients(batch)
    variables = learner.network.parameters
    assert_chained(result.gradients, variables, twin, outputs, gradients, atol=5e-5)
    expected = loss(*outputs())
    assert_close(result.outputs, values=outputs()[0], next_values=next_value)
    assert_close(result.outputs, rtol=1e-3, atol=0, rhos=expected.rho)
    assert_close(result.outputs, atol=1e-4, divergences=expected.divergence)
    assert_close(result.outputs, rtol=1e-3, errors=(expected.q - target) ** 2)


# DDPG.


def test_sigma_is_a_standard_deviation():
    action = tf.ones([1, 1])
    rho, _ = rules.rho_and_divergence(action, action, tf.zeros([1, 1]), sigma=0.5)
    variance = tf.constant([[0.25]])
    np.testing.assert_allclose(
        rho, gaussian.importance_weight(action, action, variance, tf.zeros([1, 1]), variance)
    )
    assert float(rho[0]) == pytest.approx(np.exp(0.5 / 0.25), rel=1e-6)


def test_a_small_change_of_many_means_is_far_from_the_policy():
    """17 means that move by 0.1 make most steps far at c_max = 5; one mean makes hardly any."""
    rng = np.random.default_rng(0)

    def far_share(size):
        mu = tf.zeros([4000, size])
        action = tf.constant(0.2 * rng.standard_normal([4000, size]), tf.float32)
        rho = rules.rho_and_divergence(action, mu + 0.1, mu, sigma=0.2)[0].numpy()
        return np.mean((rho <= 1 / 5) | (rho >= 5))

    assert far_share(1) < 0.01
    assert far_share(17) > 0.5


@pytest.mark.parametrize("gate", [True, False])
def test_ddpgs_losses_and_gradients(gate):
    batch, rules_now = loss_inputs(), make_rules(gate)
    mean, mu, action = (batch[name] for name in ("mean", "behaviour_mean", "action"))
    variance = np.full(NUM_ACTIONS, SIGMA**2)
    q, target = normal(NUM_STEPS, seed=2), normal(NUM_STEPS, seed=3)
    dqda = normal(NUM_STEPS, NUM_ACTIONS, seed=4)
    online, behaviour = tf.constant(mean), tf.constant(mu)
    with tf.GradientTape() as tape:
        tape.watch(online)
        rho, found = rules.rho_and_divergence(action, online, behaviour, SIGMA)
    assert tape.gradient(rho, online) is None
    expected = weight_of(action, mean, variance, mu, variance)
    np.testing.assert_allclose(rho, expected.clip(np.exp(-7), np.exp(7)), rtol=1e-8)
    near = near_of(rho.numpy(), gate)
    assert gate == (near.sum() < NUM_STEPS) and near.sum() > 1

    value, y, gradient_of_q = map(tf.constant, (q, target, dqda))

    def critic_losses():
        return ddpg.critic_losses(value, y, rho, rules_now)

    np.testing.assert_allclose(critic_losses(), near * 0.5 * (q - target) ** 2, rtol=1e-9)
    gradients = gradients_of(critic_losses, [value, y, rho])
    np.testing.assert_allclose(gradients[0], near * (q - target), rtol=1e-9)  # without beta
    assert gradients[1:] == [None, None]

    def policy_loss():
        _, kl = rules.rho_and_divergence(action, online, behaviour, SIGMA)
        return ddpg.policy_losses(online, gradient_of_q, rho, kl, rules_now)

    def losses(mean):
        kl = divergence_of(mu, variance, mean, variance)
        return -BETA * near * np.sum(dqda * mean, axis=-1) + (1 - BETA) * kl

    np.testing.assert_allclose(policy_loss(), losses(mean), rtol=1e-8)
    actual, *others = gradients_of(policy_loss, [online, gradient_of_q, behaviour, rho])
    np.testing.assert_allclose(actual, numeric_gradients(losses, [mean])[0], rtol=1e-5, atol=1e-7)
    assert others == [None] * 3
    np.testing.assert_allclose(found, divergence_of(mu, variance, mean, variance), rtol=1e-9)


@pytest.mark.parametrize("setting", ["ddpg_refer", "ddpg_per"])
def test_ddpgs_gradients(setting):
    config, learner = make_learner(setting)
    batch = make_batch()
    x, twin = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    online, slow = learner.networks, learner.target_networks
    next_x = standardized(batch.steps.next_states.observation)
    next_action = twin.run(slow.policy, next_x)
    bootstrap = twin.run(slow.critic.mlp, next_x, next_action)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * bootstrap
    rules_now, weights = rules_of(config, learner), weights_of(config, batch)
    mean = twin.run(online.policy, x)

    def rho_and_kl(mean):
        return rules.rho_and_divergence(action, mean, mu, 0.2, np.log(1e3))

    rho, kl = rho_and_kl(tf.constant(mean))

    def q():
        return (twin.run(online.critic.mlp, x, action.numpy())[:, 0],)

    result = learner.gradients(batch)
    gradients = output_gradients(
        lambda q: weights * ddpg.critic_losses(q, tf.constant(target), rho, rules_now), q()
    )
    variables = online.critic.trainable_variables
    assert_chained(result.gradients.critic, variables, twin, q, gradients, decay=1e-4)  # coupled

    dqda = numeric_gradient(lambda: np.sum(twin.run(online.critic.mlp, x, mean)), mean)
    gradients = output_gradients(
        lambda m: weights * ddpg.policy_losses(m, tf.constant(dqda), *rho_and_kl(m), rules_now),
        [mean],
    )
    variables = online.policy.trainable_variables
    assert_chained(
        result.gradients.policy, variables, twin, lambda: (twin.run(online.policy, x),), gradients
    )
    assert_close(result.outputs, rtol=0, atol=0, values=np.zeros(B), next_values=np.zeros(B))
    assert_close(result.outputs, rtol=1e-3, atol=0, rhos=rho)
    assert_close(result.outputs, atol=1e-4, divergences=kl)
    assert_close(result.outputs, rtol=1e-3, errors=(q()[0] - target) ** 2)


def test_a_recurrent_critic_sees_the_actions_before():
    _, learner = make_learner("ddpg_refer", **RECURRENT)
    steps = make_windows().steps
    view = networks.view_of(steps, learner.standardizer)
    critic, action = learner.networks.critic, view.states.action
    for observation, before in (
        (view.observation, steps.states.action[:, :-2]),
        (view.next_observation, steps.states.action[:, :-1]),
    ):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(action)
            value_of = critic.of(observation, before)
            actions = tf.concat([before, action[:, tf.newaxis]], axis=1)
            inputs = tf.concat([observation.inputs, actions], axis=-1)
            values = critic.mlp(Window(inputs, observation.begins))[:, 0], value_of(action)
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)
        for source in (action, *critic.trainable_variables):
            expected, found = (tape.gradient(value, source) for value in values)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert np.any(value_of(action) != critic.of(observation, 2 * before)(action))
    np.testing.assert_array_equal(view.actions_before, steps.states.action[:, :-2])
    np.testing.assert_array_equal(view.next_actions_before, steps.states.action[:, :-1])
