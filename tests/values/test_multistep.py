"""Tests of common.values.multistep."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.values import multistep

GOLDEN = Path(__file__).parents[1] / "golden"


# Retrace.

RETRACE_CASES = json.loads((GOLDEN / "retrace.json").read_text())


class Sequence:
    """A random sequence of T + 1 frames, float64; index 0 is the first frame, x_1."""

    def __init__(self, seed, length=6, batch_size=3, num_actions=4, num_atoms=7):
        rng = np.random.default_rng(seed)
        self.z = np.linspace(-1.5, 1.0, num_atoms)
        frames = (length + 1, batch_size)
        self.q = rng.dirichlet(np.ones(num_atoms), (*frames, num_actions))
        self.pi = rng.dirichlet(np.ones(num_actions), frames)
        self.mu = rng.dirichlet(np.ones(num_actions), frames)
        self.a = rng.integers(num_actions, size=frames)
        self.r = rng.normal(size=(length, batch_size))  # r[t] leads from x_t to x_{t+1}
        self.g = rng.choice([0.0, 0.7, 0.95], p=[0.1, 0.4, 0.5], size=(length, batch_size))

    @property
    def length(self):
        return len(self.r)

    @property
    def values(self):
        return self.q @ self.z  # Q [T + 1, B, A]

    def traces(self, lambda_):
        return multistep.retrace_coefficients(self.pi[1:], self.a[1:], self.mu[1:], lambda_)

    def scalar_targets(self, lambda_=1.0):
        return multistep.scalar_retrace_targets(
            self.values[1:], self.pi[1:], self.a[1:], self.traces(lambda_), self.r, self.g
        ).numpy()

    def categorical_targets(self, lambda_=1.0):
        return multistep.categorical_retrace_targets(
            self.q[1:], self.pi[1:], self.a[1:], self.traces(lambda_), self.r, self.g, self.z
        ).numpy()


def of_action(values, a):
    return np.take_along_axis(values, a[..., np.newaxis], axis=2)[..., 0]


def equation_4(case, lambda_):
    """c_s at every frame, x_1 included, which no target may use."""
    return lambda_ * np.minimum(1, of_action(case.pi, case.a) / of_action(case.mu, case.a))


def equation_3(case, lambda_):
    """Q(x_t, a_t) + sum_{s>=t} gamma^{s-t} (c_{t+1} ... c_s) delta_s, term by term."""
    Q, pi, a, c, r, g = case.values, case.pi, case.a, equation_4(case, lambda_), case.r, case.g
    targets = np.zeros_like(r)
    for t, b in np.ndindex(*r.shape):
        targets[t, b] = Q[t, b, a[t, b]]
        for s in range(t, case.length):
            delta = r[s, b] + g[s, b] * pi[s + 1, b] @ Q[s + 1, b] - Q[s, b, a[s, b]]
            targets[t, b] += np.prod(g[t:s, b]) * np.prod(c[t + 1 : s + 1, b]) * delta
    return targets


def hat(i, x, z):
    """h_{z_i}(x) of section 3.2."""
    if (x <= z[0] and i == 0) or (x >= z[-1] and i == len(z) - 1):
        return 1.0
    return max(0.0, 1 - abs(np.clip(x, z[0], z[-1]) - z[i]) / (z[1] - z[0]))


def retrace_target_distribution(case, lambda_):
    """The equations before (12), term by term; c is 0 at the last frame."""
    q, pi, a, z, r, g = case.q, case.pi, case.a, case.z, case.r, case.g
    c = equation_4(case, lambda_)
    c[-1] = 0
    targets = np.zeros((*r.shape, len(z)))
    for t, b in np.ndindex(*r.shape):
        for n in range(1, case.length - t + 1):
            R = sum(np.prod(g[t:s, b]) * r[s, b] for s in range(t, t + n))
            z_n = R + np.prod(g[t : t + n, b]) * z
            h = np.array([[hat(i, x, z) for x in z_n] for i in range(len(z))])
            for action in range(pi.shape[2]):
                taken = action == a[t + n, b]
                alpha = np.prod(c[t + 1 : t + n, b]) * (pi[t + n, b, action] - taken * c[t + n, b])
                targets[t, b] += alpha * h @ q[t + n, b, action]
    return targets


def test_coefficients_equal_equation_4():
    case = Sequence(0)
    for lambda_ in (0.0, 0.6, 1.0):
        expected = equation_4(case, lambda_)[1:]
        np.testing.assert_allclose(case.traces(lambda_), expected, rtol=1e-12)
        of_taken = multistep.retrace_coefficients(
            case.pi[1:], case.a[1:], of_action(case.mu, case.a)[1:], lambda_
        )
        np.testing.assert_allclose(of_taken, expected, rtol=1e-12)
    assert np.any(case.traces(1.0) == 1) and np.any(case.traces(1.0) < 1)


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
def test_targets_equal_the_papers_sums(lambda_):
    """Discounts of 0 end returns, and elements of q* may be negative."""
    for seed, length in ((0, 1), (1, 2), (2, 6), (3, 6)):
        case = Sequence(seed, length)
        actual = case.scalar_targets(lambda_)
        np.testing.assert_allclose(actual, equation_3(case, lambda_), atol=1e-12)
        actual = case.categorical_targets(lambda_)
        np.testing.assert_allclose(actual, retrace_target_distribution(case, lambda_), atol=1e-12)
        np.testing.assert_allclose(actual.sum(-1), 1, atol=1e-12)
    assert np.any(case.g == 0) and np.any(actual < 0) == (lambda_ > 0)


@pytest.mark.parametrize("case", RETRACE_CASES, ids=lambda case: case["source"])
def test_scalar_targets_equal_published_vectors(case):
    q_t, pi_t, mu_t, r_t, discount_t = (
        np.swapaxes(np.array(case[name], np.float32), 0, 1)
        for name in ("q_t", "pi_t", "mu_t", "r_t", "discount_t")
    )
    a_t = np.array(case["a_t"]).T
    c_t = multistep.retrace_coefficients(pi_t, a_t, mu_t, case["lambda"])
    targets = multistep.scalar_retrace_targets(q_t, pi_t, a_t, c_t, r_t, discount_t).numpy().T
    assert targets.dtype == np.float32
    if "expected_targets" in case:
        np.testing.assert_allclose(targets, case["expected_targets"], rtol=1e-6)
    else:
        losses = 0.5 * (targets - case["q_tm1_of_a"]) ** 2
        np.testing.assert_allclose(losses, case["expected_losses"], rtol=1e-4)


def test_a_worked_example():
    """By hand, T = 2, B = 1: x_2 and x_3 are bootstrapped from, and no c belongs to x_3."""
    z = tf.constant([-1.0, 0.0, 1.0])
    q_t = tf.constant([[[[0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]], [[[0.25, 0.5, 0.25], [0, 0.5, 0.5]]]])
    pi_t = tf.constant([[[0.75, 0.25]], [[0.4, 0.6]]])
    a_t = tf.constant([[0], [1]])
    c_t = multistep.retrace_coefficients(pi_t, a_t, tf.fill([2, 1, 2], 0.5), 0.8)
    np.testing.assert_allclose(c_t, [[0.8], [0.8]])
    c_t = tf.stack([c_t[0], [float("nan")]])
    r_t, discount_t = tf.constant([[0.5], [-0.25]]), tf.constant([[0.5], [0.5]])

    actual = multistep.categorical_retrace_targets(q_t, pi_t, a_t, c_t, r_t, discount_t, z)
    assert actual.dtype == tf.float32
    np.testing.assert_allclose(actual, [[[0, 0.5275, 0.4725]], [[0.2, 0.7, 0.1]]], atol=1e-6)
    q_t = tf.reduce_sum(q_t * z, -1)
    actual = multistep.scalar_retrace_targets(q_t, pi_t, a_t, c_t, r_t, discount_t)
    np.testing.assert_allclose(actual, [[0.4725], [-0.1]], atol=1e-6)


def test_positions_on_atoms_and_far_outside():
    """A discount of 0 puts all mass on the reward, clipped to the support."""
    r_t = tf.constant([[-1e30, -1.0, 0.0, 0.25, 1.0, 1e30, float("nan")]])
    targets = multistep.categorical_retrace_targets(
        tf.fill([1, 7, 2, 3], 1 / 3),
        tf.fill([1, 7, 2], 0.5),
        tf.zeros([1, 7], tf.int32),
        tf.ones([1, 7]),
        r_t,
        tf.zeros([1, 7]),
        tf.constant([-1.0, 0.0, 1.0]),
    )
    expected = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0.75, 0.25], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_allclose(targets[0, :6], expected, atol=1e-6)
    assert np.any(np.isnan(targets[0, 6]))  # NaN is not dropped in silence.


def test_no_gradient_flows_into_any_argument():
    case = Sequence(5)
    names = ("q", "pi", "mu", "r", "g")
    variables = [tf.Variable(getattr(case, name)[0 if name in "rg" else 1 :]) for name in names]
    values = tf.Variable(case.values[1:])
    q, pi, mu, r, g = variables
    with tf.GradientTape(persistent=True) as tape:
        c = multistep.retrace_coefficients(pi, case.a[1:], mu, 1.0)
        scalar = multistep.scalar_retrace_targets(values, pi, case.a[1:], c, r, g)
        distribution = multistep.categorical_retrace_targets(q, pi, case.a[1:], c, r, g, case.z)
    for result in (c, scalar, distribution):
        assert tape.gradient(result, [*variables, values]) == [None] * 6


def test_single_precision_equals_double_at_the_papers_size():
    case = Sequence(6, 32, 4, 18, 51)
    case.z = np.linspace(-10, 10, 51)
    arguments = (case.q[1:], case.pi[1:], case.a[1:], case.traces(1.0), case.r, case.g, case.z)
    arguments = [
        tf.cast(value, tf.int32 if value is arguments[2] else tf.float32) for value in arguments
    ]
    target = tf.function(multistep.categorical_retrace_targets, jit_compile=True)
    actual = target(*arguments)
    assert actual.dtype == tf.float32 and actual.shape == (32, 4, 51)
    np.testing.assert_allclose(actual, case.categorical_targets(), atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(actual, -1), np.ones([32, 4]), atol=1e-5)


@pytest.mark.parametrize("name", ["pi_t", "a_t", "c_t", "r_t", "discount_t", "support"])
def test_refuses_other_shapes(name):
    shapes = {"q_t": [3, 2, 4, 5], "pi_t": [3, 2, 4], "support": [5]}
    shapes |= {other: [3, 2] for other in ("a_t", "c_t", "r_t", "discount_t")}
    shapes[name] = [shapes[name][0] - 1, *shapes[name][1:]]
    arguments = {
        other: tf.zeros(shape, tf.int32 if other == "a_t" else tf.float32)
        for other, shape in shapes.items()
    }
    with pytest.raises(ValueError, match=name):
        multistep.categorical_retrace_targets(**arguments)
    if name != "support":
        arguments["q_t"] = tf.zeros([3, 2, 4])
        del arguments["support"]
        with pytest.raises(ValueError, match=name):
            multistep.scalar_retrace_targets(**arguments)


# V-trace.

V_TRACE_CASE = json.loads((GOLDEN / "v_trace.json").read_text())


def v_trace_twin(log_rho, discount, reward, value, bootstrap, rho_bar, pg_rho_bar):
    """The sum of products of IMPALA's eq 1, without a recursion."""
    length, batch = value.shape
    rho = np.exp(log_rho)
    c = np.minimum(1, rho)
    after = np.concatenate([value[1:], bootstrap[None]])
    error = np.minimum(rho_bar, rho) * (reward + discount * after - value)
    v = value.copy()
    for s in range(length):
        for t in range(s, length):
            v[s] += np.prod(discount[s:t] * c[s:t], axis=0) * error[t]
    after = np.concatenate([v[1:], bootstrap[None]])
    return v, np.minimum(pg_rho_bar, rho) * (reward + discount * after - value)


def v_trace_arguments(t=9, b=4):
    generator = np.random.default_rng(0)
    log_rho, reward, value = generator.normal(size=(3, t, b))
    discount = 0.9 * (generator.random((t, b)) > 0.2)
    return log_rho, discount, reward, value, generator.normal(size=b)


def test_v_trace_equals_published_errors():
    case = {name: np.array(part) for name, part in V_TRACE_CASE.items() if name != "source"}

    def log_prob(logits):
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return np.take_along_axis(log_p, case["actions"][..., None], -1)[..., 0]

    log_rho = log_prob(case["target_logits"]) - log_prob(case["behaviour_logits"])
    rows = (log_rho, case["discounts"], case["rewards"], case["values"])
    arguments = [tf.constant(row.T, tf.float32) for row in rows]
    bootstrap = tf.constant(case["bootstrap"], tf.float32)
    v, _ = tf.function(multistep.v_trace, jit_compile=True)(*arguments, bootstrap)
    error = np.transpose(v) - case["values"]
    np.testing.assert_allclose(error, case["expected_errors"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 2.0), (3.0, 0.7)])
def test_v_trace_equals_the_sums_of_products(bounds):
    arguments = v_trace_arguments()
    found = multistep.v_trace(*map(tf.constant, arguments), *bounds)
    for actual, expected in zip(found, v_trace_twin(*arguments, *bounds), strict=True):
        assert actual.dtype == tf.float64
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_no_gradient_flows_through_v_trace():
    arguments = [tf.Variable(array) for array in v_trace_arguments()]
    with tf.GradientTape() as tape:
        v, advantage = multistep.v_trace(*(1.0 * argument for argument in arguments))
        total = tf.reduce_sum(v) + tf.reduce_sum(advantage)
    assert tape.gradient(total, arguments) == [None] * 5


# Q(lambda).

Q_LAMBDA_CASES = json.loads((GOLDEN / "q_lambda.json").read_text())


def q_lambda_case(case):
    """The case's inputs, [T, B]."""
    names = ("rewards", "discounts", "values", "lambda")
    return [np.array(case[name], np.float32).T for name in names]


def q_lambda_twin(reward, discount, value, lambda_):
    """The recursion in NumPy, from the end."""
    following, found = value[-1], []
    for r, g, v, share in zip(reward[::-1], discount[::-1], value[::-1], lambda_[::-1]):
        following = r + g * ((1 - share) * v + share * following)
        found.insert(0, following)
    return np.stack(found)


def q_lambda_arguments(dtype, t=12, b=5):
    generator = np.random.default_rng(0)
    discount = 0.99 * (generator.random((t, b)) > 0.2)
    arrays = (*generator.normal(size=(2, t, b)), discount, generator.random((t, b)))
    reward, value, discount, share = (array.astype(dtype) for array in arrays)
    return reward, discount, value, share


@pytest.mark.parametrize("case", Q_LAMBDA_CASES, ids=lambda case: case["source"][:30])
def test_q_lambda_equals_published_vectors(case):
    function = tf.function(multistep.q_lambda_returns, jit_compile=True)
    expected = np.array(case["expected"]).T
    np.testing.assert_allclose(function(*q_lambda_case(case)), expected, rtol=1e-5)


def test_q_lambda_of_a_long_sequence_compiles():
    """As of 1,000 steps: nothing is unrolled in Python."""
    function = tf.function(multistep.q_lambda_returns, jit_compile=True)
    arguments = q_lambda_arguments(np.float32, t=1000, b=2)
    np.testing.assert_allclose(
        function(*arguments), q_lambda_twin(*arguments), rtol=1e-4, atol=1e-5
    )


# Generalized advantage.

DISCOUNT = 0.9


def fragment(steps, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=steps), rng.normal(size=steps + 1)


@pytest.mark.parametrize("lambda_", [0.0, 0.97, 1.0])
@pytest.mark.parametrize("steps", [1, 7])
def test_generalized_advantage_is_the_sum_of_discounted_errors(steps, lambda_):
    rewards, values = fragment(steps)
    errors = rewards + DISCOUNT * values[1:] - values[:-1]
    expected = [
        sum((DISCOUNT * lambda_) ** (k - t) * errors[k] for k in range(t, steps))
        for t in range(steps)
    ]
    given = multistep.generalized_advantage(rewards, values, DISCOUNT, lambda_)
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12)
    rows = rewards.astype(np.float32)[:, np.newaxis], values.astype(np.float32)[:, np.newaxis]
    columns = multistep.generalized_advantage(*rows, DISCOUNT, lambda_)
    assert columns.dtype == np.float32
    np.testing.assert_allclose(columns[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_no_reward_crosses_a_true_end():
    rewards, values = fragment(6)
    discounts = np.array([0.9, 0.9, 0.0, 0.9, 0.9, 0.9])
    given = multistep.generalized_advantage(rewards, values, discounts, 0.97)
    values[3] = 0
    first = multistep.generalized_advantage(rewards[:3], values[:4], DISCOUNT, 0.97)
    np.testing.assert_allclose(given[:3], first, rtol=1e-12)
