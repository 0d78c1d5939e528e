"""ReF-ER's policies, and its agents: what they store, draw, write back and scale."""

import operator

from agent_loops import put
import numpy as np
from one_process import OneProcessRun
import pytest
from refer_learners import A, D, make_config, metrics_of, new_learner
import tensorflow as tf

from common import environments
from common.acting.policy import reset_rows
from common.environments import UnusableEnvironmentError
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.networks.recurrent import Window
from common.replay.episode_wire import EpisodeBatch, WindowBatch
from common.replay.memory import Proportional, RankBased, Uniform
from common.types import Batch
from common.values import gaussian
from reproductions.refer import vracer
from reproductions.refer.agent import STATELESS, ActingState, Refer, ReferPolicy
from reproductions.refer.config import SETTINGS

pytestmark = pytest.mark.usefixtures("eager")
ACER = "acer_lr1e-05"
SETTING_OF = {"vracer": "vracer_refer", "naf": "naf_refer", "ddpg": "ddpg_refer", "acer": ACER}


K = 4


def make_pair(setting, explores=True, seed=0, **values):
    """A learner with moments and parameters far from their start, and its policy."""
    config = make_config(setting, hidden_size=16, **values)
    learner = new_learner(config)
    rng = np.random.default_rng(1)
    for variable in learner.trainable_variables:
        variable.assign(rng.normal(scale=0.3, size=variable.shape))
    learner.standardizer.set(np.array([1.0, -3.0, 0.0]), np.array([2.0, 0.5, 0.0]))
    policy = ReferPolicy(config, D, A, seed, explores)
    policy.load(packing.to_numpy(learner.actor_variables))
    return learner, policy


def observations(rows=K, seed=2):
    return np.random.default_rng(seed).normal(scale=3, size=(rows, D)).astype(np.float32)


def networks_outputs(agent, learner, observation):
    """Value, mean and variance of the Sonnet networks."""
    x = learner.standardizer(observation)
    variance = np.full(A, 0.04)
    if agent == "ddpg":
        return np.zeros(len(x)), learner.networks.policy(x), variance
    if agent == "acer":
        return np.zeros(len(x)), learner.policy(x)[0], learner.policy.variance
    outputs = learner.network(x)
    if agent == "vracer":
        variance = learner.network.variance
    return outputs.value, outputs.mean, variance


@pytest.mark.parametrize("agent", SETTING_OF)
def test_the_policy_is_that_of_the_learners_networks(agent):
    learner, policy = make_pair(SETTING_OF[agent])
    observation = observations()
    kept = observation.copy()
    action, state, extras = policy(observation, policy.initial_state(K))
    value, mean, variance = networks_outputs(agent, learner, observation)
    assert state == STATELESS and set(extras) == {"mean", "variance", "value"}
    np.testing.assert_allclose(extras["value"], value, atol=1e-5)
    np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
    assert np.abs(mean).max() > 0.1
    np.testing.assert_allclose(extras["variance"], np.tile(variance, (K, 1)), rtol=1e-5)
    for array in (action, *extras.values()):
        assert array.dtype == np.float32
    assert action.shape == extras["mean"].shape == extras["variance"].shape == (K, A)
    np.testing.assert_array_equal(observation, kept)
    variance = tf.cast(variance, tf.float32)
    rho = gaussian.importance_weight(action, mean, variance, extras["mean"], extras["variance"])
    np.testing.assert_allclose(rho, np.ones(K), atol=1e-4)


@pytest.mark.parametrize("kind", ["quadratic", "gaussian"])
def test_the_advantage_is_that_of_the_action_which_was_drawn(kind):
    learner, policy = make_pair("vracer_refer", advantage=kind)
    observation = observations()
    action, _, extras = policy(observation)
    _, mean, coefficients = learner.network(learner.standardizer(observation))
    variance = learner.network.variance
    expected = vracer.centred_advantage(learner._config, coefficients, action, mean, variance)
    np.testing.assert_allclose(extras["advantage"], expected, atol=1e-5)
    assert extras["advantage"].dtype == np.float32 and np.ptp(expected) > 1e-3


@pytest.mark.parametrize("agent", ["vracer", "ddpg"])
def test_actions_have_truncated_noise_of_the_policys_variance_without_clipping(agent):
    _, policy = make_pair(SETTING_OF[agent], noise_bound=2.0)
    action, _, extras = policy(observations(20_000))
    noise = (action - extras["mean"]) / np.sqrt(extras["variance"])
    assert 1.99 < np.abs(noise).max() <= 2.0 + 1e-4
    np.testing.assert_allclose(noise.std(axis=0), 0.8796, rtol=0.02)  # of the truncated normal
    assert np.abs(action).max() > 1
    if agent == "ddpg":
        assert np.abs(extras["mean"]).max() <= 1


def test_ornstein_uhlenbeck_noise_is_the_state_and_no_part_of_the_stored_mean():
    learner, policy = make_pair("naf_er", noise="ou")
    observation = observations()
    _, mean, _ = networks_outputs("naf", learner, observation)
    state = policy.initial_state(K)
    assert state.network == ()
    np.testing.assert_array_equal(state.noise, np.zeros((K, A), np.float32))
    for _ in range(3):
        action, state, extras = policy(observation, state)
        np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
        np.testing.assert_allclose(action - extras["mean"], state.noise, atol=1e-6)
        np.testing.assert_allclose(extras["variance"], np.full((K, A), 0.04), rtol=1e-6)
    # x_t = 0.85 x_{t-1} + 0.2 N(0, I)
    large = ActingState((), np.full((20_000, A), 10.0, np.float32))
    _, (_, noise), _ = policy(observations(20_000), large)
    np.testing.assert_allclose(noise.mean(axis=0), 8.5, atol=0.01)
    np.testing.assert_allclose(noise.std(axis=0), 0.2, rtol=0.02)


@pytest.mark.parametrize(
    "setting, name, begin",
    [
        ("vracer_refer", "network.mlp", 2),
        ("ddpg_er", "networks.policy", 2),
        (ACER, "policy.mlp", 0),
    ],
)
def test_a_recurrent_policy_acts_from_its_window_and_acers_from_the_episode(setting, name, begin):
    """A row that begins anew forgets, and the others do not; the noise has a state of its own."""
    learner, policy = make_pair(setting, recurrent=True, lstm_size=5, history=3)
    network = operator.attrgetter(name)(learner)
    initial, steps = policy.initial_state(K), 6
    sequence = [observations(seed=t) for t in range(steps)]
    first = np.array([False, True, False, False])
    state = initial
    for t, observation in enumerate(sequence):
        state = reset_rows(state, initial, first & (t == 4))
        _, state, extras = policy(observation, state)
    inputs = learner.standardizer(tf.stack(sequence, 1))
    outputs = network(Window(inputs, tf.constant([begin, 4, begin, begin])))
    mean = outputs[:, 1 : 1 + A] if setting == "vracer_refer" else outputs
    np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
    assert isinstance(state.noise, tuple) == (setting != "ddpg_er")


def test_evaluators_take_the_mean_and_refuse_parameters_of_other_networks():
    _, policy = make_pair("ddpg_er", explores=False)  # with noise of a state, if it explored
    assert policy.initial_state(K) == STATELESS
    observation = observations()
    before, state, extras = policy(observation)
    np.testing.assert_array_equal(before, extras["mean"])
    assert state == STATELESS and not np.shares_memory(before, extras["mean"])
    learner, _ = make_pair("naf_refer")
    with pytest.raises(ValueError, match="networks of other sizes"):
        policy.load(packing.to_numpy(learner.actor_variables))
    np.testing.assert_array_equal(policy(observation)[0], before)


MIN_SIZE = 60
SIZES = {
    "updates_per_call": 1,
    "hidden_size": 8,
    "batch_size": 16,
    "min_replay_size": MIN_SIZE,
    "replay_capacity": 2000,
}
RECURRENT = {"recurrent": True, "lstm_size": 8, "history": 5}


class Run(OneProcessRun):
    """An agent that acts and learns, in turns, and whose episodes are kept."""

    def __init__(self, setting="vracer_refer", environment="gym:InvertedPendulum-v4", **changes):
        self.config = SETTINGS.config_class(**SETTINGS.overrides[setting] | SIZES | changes)
        self.agent = Refer(self.config, setting)
        batch = BatchedEnvironment([environments.make(environment, 0)])
        self.spec, self.added = EnvironmentSpec.of(batch), []
        super().__init__(self.agent, batch, in_turns=True)

    def act(self):
        deliveries = self._acting.step()
        self.added += [episode for rows, _ in deliveries for episode in rows.episodes]
        put(self.memory, deliveries)

    def act_until(self, num_episodes):
        """Acts by the newest parameters; returns the number of episodes there were before."""
        self._actor.load(packing.to_numpy(self.learner.actor_variables))
        before = len(self.added)
        while len(self.added) < before + num_episodes:
            self.act()
        return before

    def train(self, num_updates):
        """Returns the metrics of the last call."""
        metrics = None
        while int(self.learner.steps) < num_updates:
            found = self.trainer.step()
            if found is None:
                self._actor.load(packing.to_numpy(self.learner.actor_variables))
                self.act()
            metrics = found or metrics
        return {name: float(value) for name, value in metrics.items()}


@pytest.mark.parametrize(
    "setting, changes, is_compiled",
    [
        ("vracer_refer", {}, True),
        ("ddpg_refer", {}, True),
        ("acer_lr1e-05", {}, False),
        ("vracer_refer", {"recurrent": True}, False),
    ],
)
def test_xla_compiles_neither_acer_nor_recurrent_networks(setting, changes, is_compiled):
    config = SETTINGS.config_class(**SETTINGS.overrides[setting] | changes)
    assert Refer(config, setting).jit_compile is is_compiled


@pytest.mark.parametrize(
    "setting, changes",
    [
        ("vracer_refer", {"advantage": "quadratic"}),
        ("vracer_per", RECURRENT),
        ("ddpg_er", {}),
        ("ddpg_refer", RECURRENT),
        ("naf_refer1", {}),
        ("naf_er", RECURRENT),
        ("acer_lr1e-05", {}),
    ],
)
def test_each_agent_and_replay_learns(setting, changes):
    """The other settings make updates in test_refer_rules.py."""
    run = Run(setting, **changes)
    metrics = run.train(4)
    assert list(metrics) == metrics_of(run.config) and np.isfinite(list(metrics.values())).all()
    counters = run.memory.counters()
    assert counters.sampled == 4 * 16
    if run.config.agent != "acer":  # which waits for as many episodes as a batch
        assert counters.inserted == MIN_SIZE + 3
    assert metrics["far_policy_fraction"] == pytest.approx(
        run.memory.statistics().far_policy / len(run.memory), abs=0.15
    )
    if not run.config.penalty:
        assert metrics["beta"] == 1
    if changes == RECURRENT:
        assert run.memory.draw(16).steps.states.observation.shape[1] == 7


def test_recurrent_acer_has_the_states_of_acting_in_windows_that_are_whole_episodes():
    """Also beyond its history, which only truncates the gradient."""
    run = Run("acer_lr1e-05", **RECURRENT)
    run.train(1)
    run.act_until(18)
    states, rewards, *_ = max(run.added[-17:], key=lambda episode: len(episode.rewards))
    states = tf.nest.map_structure(lambda column: tf.constant(column[None]), states)
    assert len(rewards) > 2 * RECURRENT["history"]
    lengths = tf.constant([len(rewards)], tf.int64)
    steps = WindowBatch(states, tf.constant(rewards[None]), lengths, tf.constant([False]))
    batch = Batch(steps, tf.constant([0.1]), tf.constant(10.0))
    np.testing.assert_allclose(run.learner.gradients(batch).outputs.rhos, 1, rtol=1e-3)


def test_new_recurrent_steps_are_on_policy():
    """Also beyond their history, since the policy acts from the windows of the learner."""
    run = Run(**RECURRENT)
    run.train(1)
    run.learner.steps.assign(0)
    key = run.memory.statistics().steps
    begin = run.act_until(5)
    sample = run.memory.sample(run.memory.statistics().steps, history=5)
    outputs = run.learner.gradients(sample.batch()).outputs
    first = key + sum(len(episode.rewards) for episode in run.added[begin:-2])
    new, lengths = sample.keys >= first, np.asarray(sample.steps.lengths)
    assert min(np.count_nonzero(new & is_full) for is_full in (lengths < 5, lengths == 5)) >= 10
    np.testing.assert_allclose(outputs.rhos[new], 1, rtol=1e-3)
    np.testing.assert_allclose(
        outputs.values[new], run.memory.stored(sample.keys[new]).values, atol=1e-4
    )


def test_observations_are_scaled_by_the_first_steps_and_then_no_more():
    run = Run()
    run.train(1)
    stored = np.concatenate([episode.states.observation for episode in run.added])
    mean, deviation = stored.mean(0), stored.std(0)
    np.testing.assert_allclose(run.learner.standardizer.mean, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run.learner.standardizer.deviation, deviation, rtol=1e-4)
    run.train(3)
    np.testing.assert_allclose(run.learner.standardizer.mean, mean, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("steps", [0, 500])  # begun with the networks of another run, and resumed
def test_a_run_keeps_the_scale_of_observations_that_it_has_and_finds_that_of_rewards(steps):
    run = Run(environment="gym:Reacher-v4")
    size = run.spec.observation_size
    mean, deviation = np.full(size, 7, np.float32), np.full(size, 3, np.float32)
    run.learner.standardizer.set(mean, deviation)
    run.learner.steps.assign(steps)
    run.train(steps + 1)
    np.testing.assert_array_equal(run.learner.standardizer.mean, mean)
    np.testing.assert_array_equal(run.learner.standardizer.deviation, deviation)
    scale = float(run.learner.reward_scale)
    assert scale != 1 and scale == pytest.approx(float(run.memory.reward_scale()), rel=1e-5)
    # A second learner of the agent has scales of its own.
    run.learner = run.agent.make_learner(run.spec, seed=2)
    limiter = run.agent.rate_limiter(in_turns=True)
    run.trainer = run.agent.make_trainer(run.learner, run.memory, run.spec, 0, limiter)
    run.train(1)
    assert float(run.learner.reward_scale) == pytest.approx(float(run.memory.reward_scale()))
    assert np.any(run.learner.standardizer.mean != mean)


def test_rewards_are_scaled_when_training_starts_and_each_period():
    run = Run(
        environment="gym:Reacher-v4",
        min_replay_size=200,
        reward_scale_period=3,
        steps_per_update=25.0,
    )
    scales = []
    for num_updates in range(1, 9):
        run.train(num_updates)
        scales.append(float(run.learner.reward_scale))
    # Calls begin at steps 0, 1, ...; a call has the scale that its beginning has set.
    assert np.flatnonzero(np.diff(scales)).tolist() == [2, 5]
    # The end of the fourth episode, at step 200, is only seen at the next timestep.
    rewards = np.concatenate([episode.rewards for episode in run.added[:3]])
    assert scales[0] == pytest.approx(np.sqrt(np.mean(np.square(rewards))), rel=1e-5)


@pytest.mark.parametrize("kind", ["none", "gaussian"])
def test_what_an_update_finds_is_stored_and_new_steps_are_on_policy(kind):
    run = Run(advantage=kind)
    run.train(1)
    sample = run.memory.sample(16, 3)
    outputs = run.learner.gradients(sample.batch()).outputs
    run.agent.write_back(run.learner, run.memory, sample.keys, outputs)
    stored = run.memory.stored(sample.keys)
    for name in ("values", "rhos", "divergences", "errors", "advantages"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(outputs, name))

    # rho is 1 and D_KL 0 for actions of the present parameters.
    run.learner.steps.assign(0)
    run.act_until(3)
    episode = run.added[-1]
    count = len(episode.rewards)
    columns = tf.nest.map_structure(lambda column: column[:count], episode.states)
    zeros = np.zeros(count, np.float32)
    batch = EpisodeBatch(columns, columns, zeros, zeros, zeros.astype(bool), zeros, zeros)
    outputs = run.learner.gradients(Batch(batch, np.ones(count, np.float32), np.float32(1))).outputs
    np.testing.assert_allclose(outputs.rhos, 1, rtol=1e-4)
    np.testing.assert_allclose(outputs.divergences, 0, atol=1e-6)
    np.testing.assert_allclose(outputs.values, episode.values[:count], atol=1e-5)
    np.testing.assert_allclose(outputs.advantages, episode.advantages, atol=1e-5)
    assert np.any(episode.advantages) == (kind != "none")


def test_acer_draws_windows_and_writes_back_every_step_of_them():
    run = Run("acer_lr1e-05", window=7)
    run.train(1)
    windows = run.memory.draw(16, seed=3)
    assert windows.steps.rewards.shape == (16, 7)
    outputs = run.learner.gradients(windows.batch()).outputs
    run.agent.write_back(run.learner, run.memory, windows.token, outputs)
    rows = np.reshape(windows.token, [16, 7])
    assert all(
        np.unique(row).size == size for row, size in zip(rows, windows.steps.lengths.numpy())
    )
    stored = run.memory.stored(windows.token)
    last = {key: i for i, key in enumerate(windows.token.numpy().tolist())}
    for name in ("values", "rhos", "divergences", "errors"):
        wanted = getattr(outputs, name).numpy()[[last[key] for key in windows.token.numpy()]]
        np.testing.assert_array_equal(getattr(stored, name), wanted)
    assert np.any(stored.rhos != 1)  # the observations' scale has changed
    # Their windows are within the episodes that acted.
    assert windows.steps.lengths.numpy().min() < 7 or len(run.added) > 16


def test_acer_acts_until_there_are_as_many_episodes_as_a_batch():
    run = Run("acer_lr1e-05", min_replay_size=20, batch_size=16)
    while run.memory.statistics().episodes < 16:
        assert run.trainer.step() is None
        run.act()
    assert run.memory.counters().inserted > 20 and run.trainer.step() is not None


def test_a_memory_that_cannot_hold_acers_episodes_is_one_line():
    run = Run("acer_lr1e-05", replay_capacity=60, min_replay_size=60, batch_size=24)
    words = r"removes whole episodes, holds only \d+ episodes, fewer than a batch of 24: raise --c"
    with pytest.raises(UnusableEnvironmentError, match=words) as caught:
        run.train(1)
    assert "\n" not in str(caught.value)


def test_what_is_drawn_by_rank():
    config = SETTINGS.configuration
    names = {name: Refer(config(name), name).data._sample for name in SETTINGS.names}
    assert {name for name, sample in names.items() if sample == RankBased(0.5, 10)} == {
        "vracer_per",
        "ddpg_per",
        "naf_per",
    }
    assert list(names.values()).count(Uniform()) == 16
    proportional = Refer(make_config("ddpg_per", sampling="proportional"), "ddpg_per")
    assert proportional.data._sample == Proportional(0.25, 0.001)  # of squares: |error|^0.5


@pytest.mark.parametrize("sampling", ["rank", "proportional"])
def test_exponents_of_priorities_are_those_that_a_memory_takes(sampling):
    """Else the roles end again and again, in a run directory that keeps the wrong value."""
    Refer(make_config("ddpg_per", sampling=sampling, priority_exponent=7.0), "ddpg_per")
    with pytest.raises(ValueError, match=r"^--config.priority_exponent must be in \[0, 7\], is 8"):
        make_config("ddpg_per", sampling=sampling, priority_exponent=8.0)


def test_acer_may_draw_whole_episodes():
    run = Run("acer_episodes_lr1e-05")
    run.train(1)
    steps = run.memory.draw(16, seed=3).steps
    whole = sorted(len(episode.rewards) for episode in run.added)
    assert set(steps.lengths.numpy()) <= set(whole) and steps.rewards.shape[1] <= whole[-1]
    ended = [episode.terminated for episode in run.added]
    assert all(ended) and not np.any(steps.bootstraps)
