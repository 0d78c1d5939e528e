"""The learner against the paper's equations, written down in NumPy (float64).

The gradients of the twin are finite differences of what equations 16 and 17 differentiate, so they
share nothing with those of TensorFlow.
"""

from float64_networks import Float64Networks, check_changes, numeric_gradient
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.types import Batch
from reproductions.apex.dpg import dpg
from reproductions.apex.dpg.config import DPGConfig

S, A, B, N_MEM = 3, 2, 6, 40  # sizes of observations and actions, batch and memory
GAMMA, N = 0.9, 3


def make_config(**values):
    defaults = dict(
        n_step=N,
        discount=GAMMA,
        batch_size=B,
        policy_sizes=(5, 4),
        critic_sizes=(6, 5),
        learning_rate=1e-2,
    )
    return DPGConfig(**{**defaults, **values})


def make_learner(seed=0, **values):
    """A learner whose four networks all differ, none of them near zero, some dq/da beyond 1."""
    learner = dpg.DPGLearner(make_config(**values), EnvironmentSpec(S, A))
    generator = np.random.default_rng(seed)
    for variable in (*learner.networks.variables, *learner.target_networks.variables):
        variable.assign(generator.normal(scale=0.8, size=variable.shape))
    head = learner.networks.critic.head.layers[0]
    head.w.assign(4 * head.w)
    return learner


def make_batch(seed=0, size=B):
    """With a true end (discount 0), a cut tail and unequal probabilities."""
    generator = np.random.default_rng(seed)
    discounts = np.full(size, GAMMA**N)
    discounts[2:4] = 0.0, GAMMA
    transition = StoredTransition(
        observation_tm1=generator.normal(size=[size, S]),
        action_tm1=generator.uniform(-1, 1, [size, A]),
        n_step_reward=generator.normal(size=size),
        n_step_discount=discounts,
        observation_t=generator.normal(size=[size, S]),
    )
    transition = StoredTransition(*(tf.constant(column, tf.float32) for column in transition))
    p = generator.uniform(0.2, 2, size) / N_MEM
    return Batch(transition, tf.constant(p, tf.float32), tf.constant(float(N_MEM)))


def float64(transition):
    return StoredTransition(*(np.asarray(column, np.float64) for column in transition))


def returns(transition, target):
    """G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n}, phi^-), psi^-) (equation 15)."""
    s = transition.observation_t
    bootstrap = target.q(s, target.pi(s))
    return transition.n_step_reward + transition.n_step_discount * bootstrap


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"max_gradient_norm": 0.05},
        {"max_gradient_norm": 0.0, "dqda_clip": 0.3, "importance_exponent": 1.0},
        {"dqda_clip": 0.0, "layer_norm": True, "activation": "tanh"},
        {"dqda_clip": 0.0, "weight_clip": 0.05},
    ],
    ids=str,
)
def test_update_is_the_papers_equations(values):
    """With steps of plain SGD of size 1 the change of the weights is the gradient, sign and all."""
    config, learner = make_config(**values), make_learner(**values)
    learner.policy_optimizer = snt.optimizers.SGD(1.0)
    learner.critic_optimizer = snt.optimizers.SGD(1.0)
    batch = make_batch()
    steps = float64(batch.steps)
    s, a = steps.observation_tm1, steps.action_tm1
    online, target = Float64Networks(learner.networks), Float64Networks(learner.target_networks)
    p = batch.probabilities.numpy().astype(np.float64)
    weights = (1 / (N_MEM * p)) ** config.importance_exponent
    weights /= weights.max()  # equation 11
    g = returns(steps, target)

    def critic_objective():
        return np.mean(weights * 0.5 * (g - online.q(s, a)) ** 2)

    action = online.pi(s)
    dqda = numeric_gradient(lambda: online.q(s, action).sum(), action)
    if config.dqda_clip:
        is_clipped = np.abs(dqda) > config.dqda_clip
        assert is_clipped.any() and not is_clipped.all()
        dqda = np.clip(dqda, -config.dqda_clip, config.dqda_clip)

    def policy_objective():  # its gradient is that of equation 17, dq/da given
        return np.mean(np.sum(dqda * online.pi(s), 1))

    # Both of the same (phi, psi): `online` is what they were before the update.
    phi = learner.networks.policy.trainable_variables
    psi = learner.networks.critic.trainable_variables
    delta_phi = [numeric_gradient(policy_objective, online.of(v)) for v in phi]
    delta_psi = [numeric_gradient(critic_objective, online.of(v)) for v in psi]
    norm = np.sqrt(sum(np.sum(d**2) for d in delta_psi))
    scale = min(1, config.max_gradient_norm / norm) if config.max_gradient_norm else 1
    assert scale < 1 or config.max_gradient_norm != 0.05
    priorities, metrics = learner.update(batch)

    norms = [np.sqrt(sum(np.sum(d**2) for d in delta_phi))]
    if config.weight_clip:  # the other reading of appendix D
        bound = config.weight_clip
        assert any(np.abs(d).max() > bound > np.abs(d).min() for d in delta_phi)
        delta_phi = [np.clip(d, -bound, bound) for d in delta_phi]
    check_changes(online, phi, delta_phi, 1)  # ascends
    check_changes(online, psi, delta_psi, -scale)  # descends

    # Priorities are the absolute errors, without the weights; the metrics are what they are called.
    expected_priorities = np.abs(g - online.q(s, a)) + 1e-6
    np.testing.assert_allclose(priorities, expected_priorities, rtol=2e-4)
    expected = {
        "critic_loss": critic_objective(),
        "mean_q": online.q(s, online.pi(s)).mean(),
        "saturated_actions": (np.abs(online.pi(s)) > 0.99).mean(),
        "priority_mean": expected_priorities.mean(),
        "importance_weight_mean": weights.mean(),
        "importance_weight_max": 1.0,
        "critic_gradient_norm": norm,
        "policy_gradient_norm": norms[0],
    }
    assert list(metrics) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    "spec, expected",
    [
        (
            (67, 21),
            (84_821, 156_201),
        ),  # 68 * 300 + 301 * 200 + 201 * 21, 89 * 400 + 401 * 300 + 301
        ((44, 5), (74_705, 140_601)),
    ],
    ids=["humanoid", "bring_ball"],
)
def test_networks_are_those_of_appendix_d(spec, expected):
    networks = dpg.DPGLearner(DPGConfig(), EnvironmentSpec(*spec)).networks
    for module, count in zip(networks, expected):
        assert sum(np.prod(v.shape) for v in module.trainable_variables) == count
    kinds = [layer for layer in networks.critic.torso.layers if not isinstance(layer, snt.Module)]
    assert kinds == [tf.tanh, tf.nn.elu]
