"""The learner against algorithm 1, written down in NumPy (float64) as the paper has it.

The gradients of the twin are finite differences of what equations 10 and 11 differentiate, so they
share nothing with those of TensorFlow.
"""

from float64_networks import Float64Networks, check_changes, numeric_gradient, values_of
import numpy as np
import pytest
import sonnet as snt
from target_copies import check_hard_copies
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.learning.updates import UpdateLoop
from common.types import Batch
from common.values import categorical, gaussian
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig

X, A, M, R = 3, 2, 6, 40  # sizes of observations and actions, batch and replay
SPEC = EnvironmentSpec(X, A)
GAMMA, N = 0.9, 3
C, J, MIN_VARIANCE = 2, 4, 0.1  # Gaussians of a mixture, samples of it, least variance
SEED = tf.constant([0, 0])


def make_config(**values):
    defaults = dict(
        n_step=N,
        discount=GAMMA,
        batch_size=M,
        num_atoms=5,
        v_min=-1.0,
        v_max=2.0,
        policy_sizes=(5, 4),
        critic_sizes=(6, 5),
        learning_rate=1e-2,
        num_components=C,
        num_target_samples=J,
        min_variance=MIN_VARIANCE,
    )
    return D4PGConfig(**{**defaults, **values})


def make_learner(seed=0, **values):
    """A learner whose four networks all differ, none of them near zero."""
    learner = d4pg.D4PGLearner(make_config(**values), SPEC)
    generator = np.random.default_rng(seed)
    for variable in (*learner.networks.variables, *learner.target_networks.variables):
        variable.assign(generator.normal(scale=0.6, size=variable.shape))
    return learner


def make_batch(seed=0, size=M):
    """Returns that clip at both ends, a true end (discount 0), a cut tail, unequal p_i."""
    generator = np.random.default_rng(seed)
    rewards = generator.normal(size=size)
    rewards[:3] = 5.0, -5.0, 0.3
    discounts = np.full(size, GAMMA**N)
    discounts[2:4] = 0.0, GAMMA
    transition = StoredTransition(
        observation_tm1=generator.normal(size=[size, X]),
        action_tm1=generator.uniform(-1, 1, [size, A]),
        n_step_reward=rewards,
        n_step_discount=discounts,
        observation_t=generator.normal(size=[size, X]),
    )
    transition = StoredTransition(*(tf.constant(c, tf.float32) for c in transition))
    p = generator.uniform(0.2, 2, size) / R
    return Batch(transition, tf.constant(p, tf.float32), tf.constant(float(R)))


class Twin(Float64Networks):
    """With what the outputs of D4PG's critics mean."""

    def z(self, x, a):
        """Probabilities p_i(x, a) of the atoms of Z_w (equations 9 and 14)."""
        return softmax(self.outputs(x, a))


def softmax(omega):
    return np.exp(omega) / np.exp(omega).sum(1, keepdims=True)


def atoms(config):
    """z_i = Vmin + i Delta (equation 14)."""
    delta = (config.v_max - config.v_min) / (config.num_atoms - 1)
    return np.array([config.v_min + i * delta for i in range(config.num_atoms)])


def target_distribution(transition, target, z):
    """Phi Y_i with Y_i = R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N})) (equations 9 and 15)."""
    _, _, rewards, discounts, x_n = (np.asarray(c, np.float64) for c in transition)
    positions = rewards[:, np.newaxis] + discounts[:, np.newaxis] * z
    return categorical.project_np(positions, target.z(x_n, target.pi(x_n)), z)


class CategoricalMaths:
    """Y, d(Y, Z), E[Z] and priorities as the paper has them for the categorical distribution."""

    def __init__(self, batch, target):
        self._z = atoms(make_config())
        self._y = target_distribution(batch.steps, target, self._z)

    def distance(self, online, x, a):
        return -np.sum(self._y * np.log(online.z(x, a)), 1)  # equation 16

    def mean(self, online, x, a):
        return online.z(x, a) @ self._z

    def priorities(self, d):
        return d


class ScalarMaths:
    """The same for D3PG and DDPG: Y is a number (equation 8), d a square (equation 4)."""

    def __init__(self, batch, target):
        _, _, rewards, discounts, x_n = (np.asarray(c, np.float64) for c in batch.steps)
        self._y = rewards + discounts * target.q(x_n, target.pi(x_n))

    def distance(self, online, x, a):
        return (self._y - online.q(x, a)) ** 2

    def mean(self, online, x, a):
        return online.q(x, a)

    def priorities(self, d):
        return np.sqrt(d)


class MixtureMaths:
    """The same for mixtures of Gaussians (appendix A), given the samples z_j of the target."""

    def __init__(self, batch, target):
        _, _, rewards, discounts, x_n = (np.asarray(c, np.float64) for c in batch.steps)
        outputs = tf.constant(target.outputs(x_n, target.pi(x_n)), tf.float32)
        z = gaussian.sample_mixture(gaussian.mixture(outputs, MIN_VARIANCE), J, SEED)
        self._y = rewards[:, None] + discounts[:, None] * z.numpy()

    def distance(self, online, x, a):
        mixture = gaussian.mixture(tf.constant(online.outputs(x, a)), MIN_VARIANCE)
        return gaussian.sampled_cross_entropy(mixture, tf.constant(self._y)).numpy()

    def mean(self, online, x, a):
        omega, mu, _ = np.split(online.outputs(x, a), 3, axis=1)
        return np.sum(softmax(omega) * mu, 1)

    def priorities(self, d):
        return np.abs(d)


MATHS = {"categorical": CategoricalMaths, "scalar": ScalarMaths, "mixture": MixtureMaths}


def test_target_distribution():
    learner, batch = make_learner(), make_batch()
    z = atoms(make_config())
    support = categorical.support(-1.0, 2.0, 5)
    np.testing.assert_allclose(support, z, rtol=1e-6)
    kind = d4pg.make_critic_kind(make_config())
    actual = d4pg.backup(batch.steps, learner.target_networks, kind, SEED)
    expected = target_distribution(batch.steps, Twin(learner.target_networks), z)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    # Row 0 is clipped at Vmax, row 1 at Vmin, row 2 is a true end at 0.3.
    np.testing.assert_allclose(actual[0], [0, 0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(actual[1], [1, 0, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(actual[2], [0, 4 / 15, 11 / 15, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"importance_exponent": 0.5, "layer_norm": False},
        {"critic": "scalar", "importance_exponent": 0.5},
        {"critic": "mixture"},
        {"critic": "scalar", "policy_gradient_state": "last"},
        {"unit_norm": True},
        {"dqda_norm": 0.2, "max_gradient_norm": 0.01},
        {"critic": "scalar", "dqda_norm": 0.27, "critic_decay": 0.3},
    ],
    ids=str,
)
def test_update_is_lines_5_to_8(values):
    """With steps of plain SGD of size 1 the change of the weights is the gradient, sign and all."""
    config, learner = make_config(**values), make_learner(**values)
    learner.policy_optimizer = snt.optimizers.SGD(1.0)
    learner.critic_optimizer = snt.optimizers.SGD(1.0)
    batch = make_batch()
    x, a = (np.asarray(c, np.float64) for c in batch.steps[:2])
    policy_x = x
    if config.policy_gradient_state == "last":  # Acme's x_{i+N}
        policy_x = np.asarray(batch.steps.observation_t, np.float64)
    p = batch.probabilities.numpy().astype(np.float64)
    weights = (1 / (R * p)) ** config.importance_exponent
    online = Twin(learner.networks)
    maths = MATHS[config.critic](batch, Twin(learner.target_networks))

    def critic_objective():
        decay = sum(np.sum(online.of(v) ** 2) / 2 for v in w if v.shape.rank == 2)
        return np.mean(weights * maths.distance(online, x, a)) + config.critic_decay * decay

    action = online.pi(policy_x)
    scale = np.ones([len(x), 1])  # of each row of dq/da
    if config.dqda_norm:  # Acme's clipping
        dqda = numeric_gradient(lambda: maths.mean(online, policy_x, action).sum(), action)
        norms = np.linalg.norm(dqda, axis=1, keepdims=True)
        assert norms.min() < config.dqda_norm < norms.max()
        scale = np.minimum(1, config.dqda_norm / norms)

    def policy_objective():  # its gradient is that of equation 11, with clipped dq/da
        moved = action + scale * (online.pi(policy_x) - action)
        return np.mean(maths.mean(online, policy_x, moved))

    # Both of the same (theta, w): `online` is what they were before the update.
    theta = learner.networks.policy.trainable_variables
    w = learner.networks.critic.trainable_variables
    delta_theta = [numeric_gradient(policy_objective, online.of(v)) for v in theta]
    delta_w = [numeric_gradient(critic_objective, online.of(v)) for v in w]
    priorities, metrics = learner.update(batch)

    norms = [np.sqrt(sum(np.sum(g**2) for g in delta)) for delta in (delta_theta, delta_w)]
    largest = config.max_gradient_norm or np.inf
    assert max(norms) > largest or not config.max_gradient_norm
    check_changes(online, theta, delta_theta, min(1, largest / norms[0]))  # ascends (equation 12)
    check_changes(online, w, delta_w, -min(1, largest / norms[1]))  # descends

    # Priorities are by the distances, without the weights; the metrics are what they are called.
    expected_priorities = maths.priorities(maths.distance(online, x, a))
    np.testing.assert_allclose(priorities, expected_priorities, rtol=2e-4)
    assert np.all(expected_priorities > 0)
    expected = {
        "critic_loss": np.mean(weights * maths.distance(online, x, a)),
        "mean_q": maths.mean(online, policy_x, action).mean(),
        "saturated_actions": 0.0,
        "priority_mean": expected_priorities.mean(),
        "importance_weight_mean": weights.mean(),
        "importance_weight_max": weights.max(),
        "critic_gradient_norm": norms[1],
        "policy_gradient_norm": norms[0],
    }
    assert list(metrics) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize("critic_rate", [0.0, 4e-3])
def test_optimisers_are_adam_at_the_configured_rates(critic_rate):
    """Adam's first step is the learning rate times the gradient's sign (section 3)."""
    values = {"learning_rate": 1e-3, "critic_learning_rate": critic_rate}
    learner, batch = make_learner(**values), make_batch()
    rates = {v.ref(): 1e-3 for v in learner.networks.policy.trainable_variables}
    before = values_of(learner.networks.variables)
    learner.update(batch)
    for b, variable in zip(before, learner.networks.variables):
        change, rate = np.abs(variable.numpy() - b), rates.get(variable.ref(), critic_rate or 1e-3)
        assert change.max() <= 1.001 * rate
        np.testing.assert_allclose(np.median(change), rate, rtol=1e-2)


def test_targets_begin_as_copies_and_are_copied_hard_every_period():
    learner = d4pg.D4PGLearner(make_config(target_period=3), SPEC)
    online, targets = learner.networks.variables, learner.target_networks.variables
    assert not {v.ref() for v in online} & {v.ref() for v in targets}
    check_hard_copies(learner, online, targets, make_batch, period=3)


def test_soft_targets_move_by_their_rate_at_each_step():
    """theta' <- tau theta + (1 - tau) theta' (Lillicrap et al. 2016, algorithm 1)."""
    learner = make_learner(target_rate=0.1, target_period=1)
    before = values_of(learner.target_networks.variables)
    learner.update(make_batch())
    online, after = (values_of(n.variables) for n in (learner.networks, learner.target_networks))
    for b, o, target in zip(before, online, after, strict=True):
        np.testing.assert_allclose(target, 0.1 * o + 0.9 * b, rtol=1e-5, atol=1e-7)


def test_an_update_under_xla_is_an_eager_one():
    """As the learner's process runs it, with a copy to the targets; a mixture: test_gaussian.py."""
    compiled, eager = (make_learner(target_period=2) for _ in range(2))
    for learner in (compiled, eager):
        learner.steps.assign(1)
    batch = make_batch()
    priorities, metrics = UpdateLoop(compiled.update, 1, M, jit_compile=True).learn(batch)
    expected, expected_metrics = eager.update(batch)
    np.testing.assert_allclose(priorities, expected, rtol=1e-4)
    for c, e in zip(
        (*compiled.networks.variables, *compiled.target_networks.variables),
        (*eager.networks.variables, *eager.target_networks.variables),
        strict=True,
    ):
        np.testing.assert_allclose(c, e, rtol=1e-3, atol=1e-4)
    for name, value in expected_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, err_msg=name)
