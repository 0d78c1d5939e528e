"""The learners of single steps: their updates in NumPy (float64), and the rules' state."""

import dataclasses

from episode_batches import HISTORY, A, B, D, joined, make_batch, make_windows, metrics_of
from float64_networks import assert_all_equal, numeric_gradient, values_of
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.data.data import StoredState
from common.learning.updates import UpdateLoop
from common.networks.recurrent import Window
from common.types import Batch
from common.values import closed_form
from reproductions.refer import advantages, ddpg, naf, vracer
from reproductions.refer import learner as learner_lib
from reproductions.refer.config import SETTINGS

AGENTS = ("vracer", "naf", "ddpg")
MEAN, DEVIATION = np.array([0.5, -1.0, 0.0]), np.array([2.0, 0.7, 3.0])
STEPS = 1_000_000  # updates done, so that annealing has an effect


def make_config(setting, **values):
    return dataclasses.replace(SETTINGS.configuration(setting), **values)


def make_learner(setting, seed=0, **values):
    """A learner in the middle of its training, with networks that all differ."""
    config = make_config(setting, **{"hidden_size": 5, **values})
    learner = learner_lib.make_learner(config, D, A)
    rng = np.random.default_rng(seed)
    for variable in learner.trainable_variables:
        variable.assign(rng.normal(scale=0.5, size=variable.shape))
    learner.standardizer.set(MEAN, DEVIATION)
    learner.steps.assign(STEPS)
    learner.far_fraction.assign(0.2)
    learner.mean_divergence.assign(1.5)
    learner.reward_scale.assign(3.0)
    return config, learner


class Float64:
    """The MLPs of a learner in float64, on raw observations."""

    def __init__(self, learner):
        self._values = {v.ref(): v.numpy().astype(np.float64) for v in learner.variables}

    def of(self, variable):
        return self._values[variable.ref()]

    def run(self, mlp, *inputs):
        h = np.concatenate(inputs, axis=-1)
        for layer in mlp.layers:
            if isinstance(layer, snt.Linear):
                h = h @ self.of(layer.w) + self.of(layer.b)
            elif layer is tf.nn.softsign:
                h = h / (1 + np.abs(h))
            else:
                assert layer is tf.tanh
                h = np.tanh(h)
        return h


def standardized(observation):
    return (observation.numpy().astype(np.float64) - MEAN) / (DEVIATION + 1e-7)


def chained(outputs, gradients, array):
    """Gradient in `array`: those in the outputs times the outputs' finite differences."""

    def total():
        return sum(np.sum(g * o) for o, g in zip(outputs(), gradients))

    return numeric_gradient(total, array)


def output_gradients(function, outputs):
    """Gradients of the mean of `function(*outputs)`, float64, in its outputs."""
    outputs = [tf.constant(output) for output in outputs]
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = tf.reduce_mean(function(*outputs))
    gradients = tape.gradient(loss, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [g.numpy() for g in gradients]


def stored(batch):
    """Action, behaviour mean, behaviour variance, float64."""
    states = batch.steps.states
    columns = states.action, states.extras["mean"], states.extras["variance"]
    return [tf.cast(column, tf.float64) for column in columns]


def weights_of(config, batch):
    """(p_min / p)^b of prioritised replay."""
    p = batch.probabilities.numpy().astype(np.float64)
    b = config.importance_exponent
    b += (1 - b) * min(1, config.annealing * STEPS)
    return (p.min() / p) ** (b if config.sampling == "rank" else 0)


def of_state(config, learner):
    """beta, c_max, whether rule 1 is on."""
    return float(learner.beta), 1 + 4 / (1 + config.annealing * STEPS), config.clipping


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
        return advantages.advantage(config, coefficients, action, mean, variance)

    def loss(*outputs):
        return vracer.loss(
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


def test_prioritised_replay_has_the_error_of_v_tbc():
    _, learner = make_learner("vracer_per")
    batch = make_batch(size=64)
    found = learner.gradients(batch).outputs
    expected = np.minimum(1, found.rhos) * (batch.steps.q_ret - found.values)
    np.testing.assert_allclose(found.errors, expected**2, rtol=1e-4, atol=1e-6)
    assert np.any(found.rhos < 1) and np.any(found.rhos > 1)


@pytest.mark.parametrize("kind", ["quadratic", "gaussian"])
def test_the_advantages_loss_moves_neither_mean_nor_variance(kind):
    _, learner = make_learner("vracer_refer", advantage=kind)
    network, batch = learner.network, make_batch()
    x = learner.standardizer(batch.steps.states.observation)
    with tf.GradientTape(persistent=True) as tape:
        outputs = network.mlp(x)
        value, mean, coefficients = outputs[:, 0], outputs[:, 1 : 1 + A], outputs[:, 1 + A :]
        action, extras = batch.steps.states.action, batch.steps.states.extras
        behaviour = extras["mean"], extras["variance"]
        advantage = advantages.advantage(
            learner._config, coefficients, action, mean, network.variance
        )
        loss = vracer.loss(
            value, mean, network.variance, action, *behaviour, batch.steps.q_ret,
            learner.beta, learner.c_max(), True, advantage=advantage,
        ).advantage_loss  # fmt: skip
    assert tape.gradient(loss, network.raw_variance) is None
    of_outputs = tape.gradient(loss, outputs).numpy()
    assert not np.any(of_outputs[:, : 1 + A]) and np.any(of_outputs[:, 1 + A :])


@pytest.mark.parametrize("setting", ["vracer_er", "vracer_refer"])
def test_a_variance_that_has_vanished_leaves_vracers_gradients_finite(setting):
    _, learner = make_learner(setting)
    learner.network.raw_variance.assign(tf.fill(learner.network.raw_variance.shape, -90.0))
    result = learner.gradients(make_batch())
    for gradient in result.gradients:
        assert np.isfinite(np.square(gradient)).all()  # as Adam needs them
    assert np.isfinite(result.outputs.divergences).all()


@pytest.mark.parametrize("setting", ["naf_refer", "naf_per"])
def test_nafs_gradients(setting):
    config, learner = make_learner(setting, max_importance_weight=20.0)
    batch = make_batch()
    x, networks = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    next_x = standardized(batch.steps.next_states.observation)
    next_value = networks.run(learner.target_network.mlp, next_x)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * next_value
    assert target[0] == batch.steps.rewards[0]  # a true end

    def outputs():
        h = networks.run(learner.network.mlp, x)
        lower = closed_form.lower_triangular(tf.constant(h[:, 1 + A :]), A).numpy()
        return h[:, 0], h[:, 1 : 1 + A], lower

    def loss(*outputs):
        state = of_state(config, learner)
        return naf.loss(*outputs, action, mu, tf.constant(target), *state, 0.2, np.log(20))

    gradients = output_gradients(lambda *o: weights_of(config, batch) * loss(*o).loss, outputs())
    result = learner.gradients(batch)
    for gradient, variable in zip(result.gradients, learner.network.parameters, strict=True):
        expected = chained(outputs, gradients, networks.of(variable))
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=5e-5)
    refresh, expected = result.outputs, loss(*outputs())
    np.testing.assert_allclose(refresh.values, outputs()[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(refresh.rhos, expected.rho, rtol=1e-3)
    np.testing.assert_allclose(refresh.divergences, expected.divergence, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(refresh.errors, (expected.q - target) ** 2, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(refresh.next_values, next_value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("setting", ["ddpg_refer", "ddpg_per"])
def test_ddpgs_gradients(setting):
    config, learner = make_learner(setting)
    batch = make_batch()
    x, networks = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    online, slow = learner.networks, learner.target_networks
    next_x = standardized(batch.steps.next_states.observation)
    next_action = networks.run(slow.policy, next_x)
    bootstrap = networks.run(slow.critic.mlp, next_x, next_action)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * bootstrap
    beta, c_max, gate = of_state(config, learner)
    mean = networks.run(online.policy, x)
    rho = ddpg.importance_weight(action, tf.constant(mean), mu, 0.2, np.log(1e3))
    weights = weights_of(config, batch)

    def q():
        return (networks.run(online.critic.mlp, x, action.numpy())[:, 0],)

    result = learner.gradients(batch)
    gradients = output_gradients(
        lambda q: weights * ddpg.critic_loss(q, tf.constant(target), rho, c_max, gate), q()
    )
    for gradient, variable in zip(result.gradients.critic, online.critic.trainable_variables):
        array = networks.of(variable)
        expected = chained(q, gradients, array) + 1e-4 * array  # coupled
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-5)

    action_gradients = numeric_gradient(
        lambda: np.sum(networks.run(online.critic.mlp, x, mean)), mean
    )
    gradients = output_gradients(
        lambda m: (
            weights
            * ddpg.policy_loss(m, tf.constant(action_gradients), mu, rho, beta, c_max, gate, 0.2)
        ),
        [mean],
    )
    for gradient, variable in zip(result.gradients.policy, online.policy.trainable_variables):
        expected = chained(
            lambda: (networks.run(online.policy, x),), gradients, networks.of(variable)
        )
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-5)

    refresh = result.outputs
    np.testing.assert_allclose(refresh.rhos, rho, rtol=1e-3)
    kl = ddpg.divergence(tf.constant(mean), mu, 0.2)
    np.testing.assert_allclose(refresh.divergences, kl, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(refresh.errors, (q()[0] - target) ** 2, rtol=1e-3, atol=1e-5)
    for zeros in (refresh.values, refresh.next_values):
        np.testing.assert_array_equal(zeros, np.zeros(B))


RECURRENT = {"recurrent": True, "lstm_size": 5, "history": HISTORY}


def alone(steps, row):
    """A step without the rows that do not belong to its window, which then is its whole history."""
    begin = HISTORY - int(steps.lengths[row])
    states = tf.nest.map_structure(lambda c: c[row : row + 1, begin:], steps.states)
    return steps._replace(
        states=states, **{n: getattr(steps, n)[row : row + 1] for n in steps._fields[1:]}
    )


@pytest.mark.parametrize("setting", ["vracer_refer", "ddpg_refer"])
def test_a_recurrent_loss_is_that_of_each_steps_own_window(setting):
    _, learner = make_learner(setting, **RECURRENT)
    batch = make_windows()
    together = learner.gradients(batch)
    parts = [
        learner.gradients(Batch(alone(batch.steps, row), batch.probabilities[:1], batch.size))
        for row in range(B)
    ]
    for name in learner_lib.Refresh._fields:
        expected = np.concatenate([getattr(part.outputs, name) for part in parts])
        if name == "next_values":  # a batch computes them if one of its steps needs it
            expected = expected * batch.steps.bootstraps.numpy()
        found = getattr(together.outputs, name)
        found = found * batch.steps.bootstraps.numpy() if name == "next_values" else found
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5, err_msg=name)
    gradients = [tf.nest.flatten(one.gradients) for one in (together, *parts)]
    for found, *each in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, np.mean(each, 0), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("setting", ["vracer_refer", "ddpg_refer"])
def test_a_recurrent_network_learns_through_its_window(setting):
    """Gradients flow from the step's loss into the states before it, and into none in front."""
    _, learner = make_learner(setting, **RECURRENT)
    steps = make_windows().steps
    policy = learner.networks.policy if setting == "ddpg_refer" else learner.network
    with tf.GradientTape() as tape:
        tape.watch(steps.states.observation)
        outputs = policy(learner.view(steps).observation)
        mean = outputs if setting == "ddpg_refer" else outputs.mean
        total = tf.reduce_sum(mean)
    gradient = tape.gradient(total, steps.states.observation).numpy()
    for row, length in enumerate(steps.lengths.numpy()):
        begin = HISTORY - length
        assert not np.any(gradient[row, :begin]) and not np.any(gradient[row, -1])
        assert np.all(gradient[row, begin:-1] != 0)


def test_a_recurrent_critic_sees_the_actions_before():
    _, learner = make_learner("ddpg_refer", **RECURRENT)
    steps = make_windows().steps
    view = learner.view(steps)
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


@pytest.mark.parametrize("agent", AGENTS)
def test_an_update_anneals_steps_and_moves_targets_and_beta(agent):
    config, learner = make_learner(f"{agent}_refer", learning_rate=1e-3, policy_learning_rate=1e-4)
    variables = learner.policy_variables
    before, beta = values_of(variables), float(learner.beta)
    slow = {"vracer": [], "naf": "target_network", "ddpg": "target_networks"}[agent]
    if slow:
        slow = getattr(learner, slow)
        slow = slow.parameters if agent == "naf" else slow.variables
        online = learner.network.parameters if agent == "naf" else learner.networks.variables
        old = values_of(slow)
    _, metrics = learner.update(make_batch())
    assert int(learner.steps) == STEPS + 1
    # Adam's first step is the learning rate, annealed, times the sign of the gradient.
    rate = (1e-4 if agent == "ddpg" else 1e-3) / (1 + 5e-7 * STEPS)
    change = np.concatenate([np.abs(v - b).ravel() for v, b in zip(variables, before)])
    assert change.max() <= 1.001 * rate
    np.testing.assert_allclose(np.median(change), rate, rtol=1e-2)
    # Of the replay 0.2 are far, more than D = 0.1; beta moves with the critic's rate.
    rate = 1e-3 / (1 + 5e-7 * STEPS)
    np.testing.assert_allclose(learner.beta, (1 - rate) * beta, rtol=1e-6)
    for s, o, v in zip(slow, old if slow else (), online if slow else ()):
        np.testing.assert_allclose(s, 0.99 * o + 0.01 * v.numpy(), rtol=1e-5, atol=1e-7)
    expected = {
        "kl_divergence": 1.5,
        "far_policy_fraction": 0.2,
        "beta": config.initial_beta,
        "c_max": 1 + 4 / 1.5,
        "learning_rate": rate,
        "reward_scale": 3.0,
    }
    assert list(metrics) == metrics_of(config)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("agent", AGENTS)
def test_actors_get_the_moments_and_the_networks_that_act(agent):
    _, learner = make_learner(f"{agent}_refer")
    mean, deviation, *variables = learner.actor_variables
    assert mean is learner.standardizer.mean and deviation is learner.standardizer.deviation
    assert variables == list(learner.policy_variables)
    before = values_of(variables)
    learner.update(make_batch())
    assert all(np.any(v.numpy() != b) for v, b in zip(variables, before))


@pytest.mark.parametrize("agent", AGENTS)
def test_without_rule_2_beta_is_1(agent):
    for setting in ("er", "refer1"):
        _, learner = make_learner(f"{agent}_{setting}")
        learner.update(make_batch())
        assert float(learner.beta) == 1


def test_targets_begin_as_copies():
    for agent in ("naf", "ddpg"):
        config = make_config(f"{agent}_er", hidden_size=4)
        learner = learner_lib.make_learner(config, D, A)
        pairs = (
            (learner.network.parameters, learner.target_network.parameters)
            if agent == "naf"
            else (learner.networks.variables, learner.target_networks.variables)
        )
        assert_all_equal(*map(values_of, pairs))


def test_optimisers_have_the_configured_constants():
    _, learner = make_learner(
        "vracer_refer", adam_beta1=0.5, adam_beta2=0.75, adam_epsilon=0.01, annealing=0.0
    )
    batch = make_batch()
    (gradient, *_), before = (
        learner.gradients(batch).gradients,
        learner.network.parameters[0].numpy(),
    )
    learner.update(batch)
    expected = before - 1e-4 * gradient / (np.abs(gradient) + 0.01)
    np.testing.assert_allclose(learner.network.parameters[0], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_checkpoint_has_networks_targets_optimisers_moments_and_beta(agent, tmp_path):
    (_, saved), (_, fresh) = (make_learner(f"{agent}_refer", seed) for seed in range(2))
    saved.update(make_batch())
    saved.standardizer.set(np.ones(D), np.full(D, 4.0))
    path = tf.train.Checkpoint(learner=saved).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(learner=fresh).read(path).assert_consumed()
    assert_all_equal(values_of(fresh.variables), values_of(saved.variables))
    assert float(fresh.beta) != fresh._config.initial_beta
    saved.update(make_batch(1)), fresh.update(make_batch(1))
    assert_all_equal(values_of(fresh.variables), values_of(saved.variables))


@pytest.mark.parametrize(
    "setting, values",
    [
        ("vracer_refer", {}),
        ("naf_per", {}),
        ("ddpg_refer", {}),
        ("vracer_refer", {"advantage": "quadratic"}),
        ("vracer_refer", RECURRENT),
        ("ddpg_refer", RECURRENT),
    ],
)
def test_several_updates_of_a_call_are_those_of_as_many_calls(setting, values):
    """As the learner's process runs them, the MLPs under XLA; one batch has no cut episode."""
    (_, together), (_, apart) = (
        make_learner(setting, learning_rate=1e-2, **values) for _ in range(2)
    )
    make = make_windows if "recurrent" in values else make_batch
    batches = [make(seed, bootstraps=seed != 1) for seed in range(3)]
    outputs, metrics = UpdateLoop(together.update, 3, B, "recurrent" not in values).learn(
        joined(batches)
    )
    parts = [apart.update(batch) for batch in batches]
    for name in learner_lib.Refresh._fields:
        expected = np.concatenate([getattr(part, name) for part, _ in parts])
        assert getattr(outputs, name).shape == (3 * B,)
        np.testing.assert_allclose(
            getattr(outputs, name), expected, rtol=1e-3, atol=1e-5, err_msg=name
        )
    for t, a in zip(together.variables, apart.variables, strict=True):
        np.testing.assert_allclose(t, a, rtol=1e-3, atol=1e-5)
    for name in metrics:
        expected = np.mean([m[name] for _, m in parts])
        np.testing.assert_allclose(metrics[name], expected, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize("setting", [n for n in SETTINGS.names if n.startswith(AGENTS)])
def test_every_setting_makes_updates(setting):
    config = make_config(setting, hidden_size=4)
    learner = learner_lib.make_learner(config, D, A)
    for seed in range(3):
        refresh, metrics = learner.update(make_batch(seed))
    assert list(metrics) == metrics_of(config)
    for value in (*metrics.values(), *refresh, *learner.variables):
        assert np.all(np.isfinite(value))


OPTIMUM = np.array([0.5, -0.3], np.float32)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_mean_goes_to_the_best_action_of_a_bandit(agent):
    """An action ends the episode, with a reward of minus its squared distance from the optimum."""
    config = make_config(
        f"{agent}_refer",
        hidden_size=16,
        learning_rate=1e-2,
        policy_learning_rate=3e-3,
        initial_beta=1.0,
        sigma=0.6,
    )
    tf.random.set_seed(0)
    learner = learner_lib.make_learner(config, D, A)
    batch, one = make_batch(size=64, bootstraps=False), tf.zeros([1, D])

    def policy():
        variance = tf.fill([A], 0.36)
        if agent == "ddpg":
            return learner.networks.policy(one), variance
        if agent == "vracer":
            variance = learner.network.variance
        return learner.network(one).mean, variance

    @tf.function
    def train(num_updates):
        for i in tf.range(num_updates):
            mean, variance = policy()
            noise = tf.random.stateless_normal([64, A], [0, i])
            action = mean + tf.sqrt(variance) * noise
            rewards = -tf.reduce_sum(tf.square(action - OPTIMUM), axis=-1)
            extras = {"mean": tf.tile(mean, [64, 1]), "variance": tf.ones([64, 1]) * variance}
            steps = batch.steps._replace(
                states=StoredState(tf.zeros([64, D]), action, extras),
                rewards=rewards,
                q_ret=rewards,
                discounts=tf.zeros([64]),
            )
            learner.update(batch._replace(steps=steps))

    train(900)
    mean, _ = policy()
    np.testing.assert_allclose(mean[0], OPTIMUM, atol=0.07)
