"""The learner against algorithm 2, written down in NumPy (float64) as the paper has it.

The gradient is compared along random directions with differences of the twin's loss, so it shares
nothing with that of TensorFlow.
"""

from float64_networks import dueling
import numpy as np
import pytest
import sonnet as snt
from target_copies import check_hard_copies
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.learning import learner as learner_lib
from common.networks import packing
from common.types import Batch
from reproductions.apex.dqn import dqn
from reproductions.apex.dqn.config import DQNConfig

B, A, N_MEM = 6, 3, 40  # batch, actions, items in the memory
SPEC = EnvironmentSpec(36 * 36 * 2, A, image_shape=(36, 36, 2), is_discrete=True)
GAMMA = 0.9


def make_learner(seed=0, **values):
    """A learner whose networks differ, with values large enough to tell."""
    learner = dqn.DQNLearner(DQNConfig(**values), SPEC)
    generator = np.random.default_rng(seed)
    for variable in (
        *learner.network.trainable_variables,
        *learner.target_network.trainable_variables,
    ):
        inputs = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 10
        variable.assign(generator.normal(scale=1.4 * inputs**-0.5, size=variable.shape))
    learner.target_network.advantage.output.b.assign([3.0, -1.0, 2.0])  # prefers other actions
    return learner


def images(generator):
    """Of large squares, so that they differ in more than noise, uint8 [B, 36, 36, 2]."""
    squares = generator.integers(0, 256, (B, 3, 3, 2)) * generator.integers(0, 2, (B, 1, 1, 1))
    return tf.constant(squares.repeat(12, axis=1).repeat(12, axis=2), tf.uint8)


def make_batch(seed=0):
    """A true end (discount 0), a tail (one step), unequal probabilities."""
    generator = np.random.default_rng(seed)
    discounts = np.full(B, GAMMA**3)
    discounts[:2] = 0.0, GAMMA
    transition = StoredTransition(
        observation_tm1=images(generator),
        action_tm1=tf.constant(generator.integers(0, A, B), tf.int32),
        n_step_reward=tf.constant(generator.normal(size=B), tf.float32),
        n_step_discount=tf.constant(discounts, tf.float32),
        observation_t=images(generator),
    )
    p = generator.uniform(0.2, 2, B) / N_MEM
    return Batch(transition, tf.constant(p, tf.float32), tf.constant(float(N_MEM)))


class Twin:
    """q(s, a) in float64, of parameters that can be moved."""

    def __init__(self, network):
        self._shapes = packing.shapes(network.trainable_variables)
        self._names = [variable.ref() for variable in network.trainable_variables]
        self._network = network
        self.flat = packing.to_numpy(network.trainable_variables).astype(np.float64)

    def q(self, observation, flat=None):
        """uint8 [B, H, W, C] -> [B, A]."""
        arrays = packing.unpack(self.flat if flat is None else flat, self._shapes)
        values = dict(zip(self._names, arrays))
        return dueling(self._network, observation, lambda v: values[v.ref()])  # equation 8


class Maths:
    """Equations 4 to 12 for a batch, in float64."""

    def __init__(self, batch, online, target, beta=0.4):
        steps = StoredTransition(*(np.asarray(column) for column in batch.steps))
        rows = np.arange(B)
        best = online.q(steps.observation_t).argmax(1)  # equation 4
        bootstrap = target.q(steps.observation_t)[rows, best]
        returns = steps.n_step_reward + steps.n_step_discount * bootstrap  # equation 5
        weights = (1 / (N_MEM * batch.probabilities.numpy().astype(np.float64))) ** beta
        self.weights = weights / weights.max()  # equation 11

        def errors(flat):
            return returns - online.q(steps.observation_tm1, flat)[rows, steps.action_tm1]

        self.errors = errors  # equation 6

    def loss(self, flat):
        """Equations 7 and 12."""
        return np.mean(self.weights * 0.5 * self.errors(flat) ** 2)


def values_of(network):
    return packing.to_numpy(network.trainable_variables)


@pytest.mark.parametrize("beta", [0.4, 0.0])
def test_update_is_equations_4_to_12(beta):
    """With a step of plain SGD of size 1 the change of the weights is the gradient, sign too."""
    learner = make_learner(importance_exponent=beta, max_gradient_norm=0.0)
    learner.optimizer = snt.optimizers.SGD(1.0)
    batch = make_batch()
    online, target = Twin(learner.network), Twin(learner.target_network)
    maths = Maths(batch, online, target, beta)
    priorities, metrics = learner.update(batch)

    gradient = online.flat - values_of(learner.network)
    generator = np.random.default_rng(1)
    for _ in range(5):
        direction = gradient / np.linalg.norm(gradient)
        direction += generator.normal(size=gradient.shape) * 0.5 / len(gradient) ** 0.5
        ahead, behind = (maths.loss(online.flat + s * 1e-6 * direction) for s in (1, -1))
        np.testing.assert_allclose(gradient @ direction, (ahead - behind) / 2e-6, rtol=2e-3)

    # Priorities are without the weights (equation 9) and above 0; metrics are as they are called.
    errors = np.abs(maths.errors(online.flat))
    np.testing.assert_allclose(priorities, errors + 1e-6, rtol=2e-4)
    q = online.q(batch.steps.observation_tm1)
    expected = {
        "loss": maths.loss(online.flat),
        "mean_q": q.max(1).mean(),
        "q_max": q.max(),
        "priority_mean": errors.mean(),
        "priority_max": errors.max(),
        "importance_weight_mean": maths.weights.mean(),
        "gradient_norm": np.linalg.norm(gradient),
    }
    assert list(metrics) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, err_msg=name)


def test_the_loss_has_no_bound_on_its_gradient():
    """0.5 delta^2 literally (eq 7), where DQN and many ports have Huber's."""
    errors = tf.constant([-30.0, 0.5])
    with tf.GradientTape() as tape:
        tape.watch(errors)
        loss = dqn.losses(errors)
    np.testing.assert_allclose(loss, [450, 0.125])
    np.testing.assert_allclose(tape.gradient(loss, errors), errors)


@pytest.mark.parametrize("limit", [1e-3, 1e6])
def test_the_gradients_global_norm_is_clipped(limit):
    learner = make_learner(max_gradient_norm=limit)
    learner.optimizer = snt.optimizers.SGD(1.0)
    before = values_of(learner.network)
    _, metrics = learner.update(make_batch())
    change = np.linalg.norm(values_of(learner.network).astype(np.float64) - before)
    norm = float(metrics["gradient_norm"])  # before it is clipped
    assert 1e-3 < norm < 1e6
    np.testing.assert_allclose(change, min(norm, limit), rtol=0.02)


def rmsprop(parameters, gradients, rate, decay, epsilon):
    """Centred RMSProp (Graves 2013) with epsilon inside the root, in float64."""
    w, v, m = parameters.astype(np.float64), 0.0, 0.0
    for g in gradients:
        m = decay * m + (1 - decay) * g
        v = decay * v + (1 - decay) * g**2
        w = w - rate * g / np.sqrt(v - m**2 + epsilon)
        yield w


def test_the_optimizer_is_centred_rmsprop_with_epsilon_inside_the_root():
    """From gradients far above the root of 1.5e-7 to some far below, where epsilon decides."""
    generator = np.random.default_rng(0)
    scales = np.array([10.0, 1e-2, 1e-4, 1e-6, 0.0])
    gradients = generator.normal(size=(30, 5)) * scales
    start = np.ones(5, np.float32)
    variable = tf.Variable(start)
    optimizer = learner_lib.CenteredRMSProp(0.00025 / 4, 0.95, 1.5e-7)
    learner_lib.create_variables(optimizer, [variable])
    sonnets = tf.Variable(start)
    published = snt.optimizers.RMSProp(0.00025 / 4, decay=0.95, epsilon=1.5e-7, centered=True)
    for g, expected in zip(gradients, rmsprop(start, gradients, 0.00025 / 4, 0.95, 1.5e-7)):
        optimizer.apply([tf.constant(g, tf.float32)], [variable])
        published.apply([tf.constant(g, tf.float32)], [sonnets])
        np.testing.assert_allclose(variable - 1.0, expected - 1.0, rtol=2e-3, atol=3e-7)
        np.testing.assert_allclose(variable, sonnets, atol=3e-7)
    moved = np.abs(variable.numpy() - 1.0)
    assert moved[0] > 1e-4 and moved[4] == 0
    outside = 0.00025 / 4 * gradients[0] / (np.sqrt(0.0475 * gradients[0] ** 2) + 1.5e-7)
    first = next(rmsprop(start, gradients, 0.00025 / 4, 0.95, 1.5e-7)) - 1.0
    assert abs(first[3]) < 0.1 * abs(outside[3])  # 1.5e-7 outside would hardly hold it back


def test_an_update_is_a_step_of_the_configured_optimizer():
    learner, batch = make_learner(), make_batch()
    plain = make_learner()
    plain.optimizer = snt.optimizers.SGD(1.0)
    before = values_of(plain.network)
    plain.update(batch)
    gradient = before - values_of(plain.network)
    learner.update(batch)
    expected = next(rmsprop(before, [gradient], 0.00025 / 4, 0.95, 1.5e-7))
    np.testing.assert_allclose(values_of(learner.network), expected, atol=3e-6)


def test_targets_begin_as_copies_and_are_copied_hard_every_period():
    learner = dqn.DQNLearner(DQNConfig(target_period=3), SPEC)
    networks = learner.network.trainable_variables, learner.target_network.trainable_variables
    check_hard_copies(learner, *networks, make_batch, period=3)
