"""Multi-step targets: Retrace, V-trace, Peng's Q(lambda), and generalised advantage estimates.

Retrace (Munos et al. 2016) is scalar or distributional. Its source here is Reactor (Gruslys et al.
2018), sections 2.1.2 and 3.2, and equation numbers are Reactor's. T is the number of transitions in
a sequence (T + 1 frames), A the number of actions, K the number of atoms of the support (m in the
paper).

Index 0 of every `*_t` belongs to the second frame of a sequence, x_2, and to the reward and
discount that led to it. Index 0 of the targets belongs to the first frame, x_1. In the comments,
t is the index of a target and k >= t the index of the frame x_{t+n} where an n-step backup ends.

V-trace is IMPALA's (Espeholt et al. 2018, section 4.1), with lambda 1. Generalised advantage
estimates are NumPy, for actors. Everything else is TensorFlow.
"""

import numpy as np
import tensorflow as tf


def retrace_coefficients(
    pi_t: tf.Tensor, a_t: tf.Tensor, mu_t: tf.Tensor, lambda_: float | tf.Tensor
) -> tf.Tensor:
    """Returns the trace coefficients c_s = lambda min(1, pi(a_s|x_s) / mu(a_s|x_s)) (eq 4).

    No gradient flows into any argument.

    Args:
      pi_t: [T, B, A] floating, probabilities of the policy that is evaluated.
      a_t: [T, B] integer, the actions taken.
      mu_t: [T, B, A], probabilities of the behaviour policy when it acted, or [T, B], only its
        probabilities of the actions taken. Above 0 at the actions taken.
      lambda_: scalar, 1 in Reactor (section 4.1); 0 gives one-step targets.

    Returns:
      [T, B], in the dtype of `pi_t`, between 0 and lambda.
    """
    pi_a = _of_action(pi_t, a_t)
    mu_a = mu_t if len(mu_t.shape) == len(a_t.shape) else _of_action(mu_t, a_t)
    return tf.stop_gradient(lambda_ * tf.minimum(1.0, pi_a / mu_a))


def scalar_retrace_targets(
    q_t: tf.Tensor,
    pi_t: tf.Tensor,
    a_t: tf.Tensor,
    c_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
) -> tf.Tensor:
    """Returns the Retrace targets Q(x_t, a_t) + Delta Q(x_t, a_t) (eq 3).

    They obey G_t = r_t + g_t (E_pi Q(x_{t+1}, .) - c_{t+1} Q(x_{t+1}, a_{t+1}) + c_{t+1} G_{t+1}).
    At the last frame c counts as 0, so that the sequence ends with a bootstrap from E_pi Q. The
    paper does not say how a sequence ends. No gradient flows into any argument.

    Needs O(T^2 B + T B A) operations: products of c from every t to every k replace the recursion,
    so that nothing loops over T.

    Args:
      q_t: [T, B, A] floating, action values Q.
      pi_t: [T, B, A], probabilities of the policy that is evaluated.
      a_t: [T, B] integer, the actions taken; any valid action at the last index.
      c_t: [T, B], see `retrace_coefficients`; the last is ignored.
      r_t: [T, B], rewards.
      discount_t: [T, B], gamma times the environments' discounts; 0 ends the episode and so cuts
        the target.

    Returns:
      [T, B], in the dtype of `q_t`.

    Raises:
      ValueError: a static shape differs from those above.
    """
    _check_shapes(q_t, pi_t, a_t, c_t, r_t, discount_t)
    c_t = _without_last(c_t)
    v_t = tf.reduce_sum(pi_t * q_t, axis=-1) - c_t * _of_action(q_t, a_t)
    # G_t = sum_k (c_t g_t) ... (c_{k-1} g_{k-1}) (r_k + g_k v_k)
    weights = _products_before(c_t * discount_t)  # [t, k, B]
    return tf.stop_gradient(tf.reduce_sum(weights * (r_t + discount_t * v_t), axis=1))


def categorical_retrace_targets(
    q_t: tf.Tensor,
    pi_t: tf.Tensor,
    a_t: tf.Tensor,
    c_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    support: tf.Tensor,
) -> tf.Tensor:
    """Returns the distributional Retrace targets q*_i(x_t, a_t) (section 3.2, before eq 12).

    q*_i(x_t, a_t) = sum_n sum_a alpha_{n,a} sum_j q_j(x_{t+n}, a) h_{z_i}(z^n_j), where z^n_j =
    R_{t,n} + D_{t,n} z_j are the atoms after n steps, h_{z_i} is the hat function of atom i with 1
    beyond the ends, and alpha_{n,a} = (c_{t+1} ... c_{t+n-1}) (pi(a|x_{t+n}) - 1{a = a_{t+n}}
    c_{t+n}). The paper prints q_j(x_{t+n}, a_{t+n}), but only with q_j(x_{t+n}, a) is the mean
    equal to eq 3.

    Each n-step backup is projected once, because a projection at each step of a recursion would
    widen the distribution. At the last frame c counts as 0, so that each target sums to 1. Single
    elements may be below 0 or above 1. They are neither clipped nor normalised, because that would
    change the expected gradient. The mean equals `scalar_retrace_targets` unless an atom is clipped
    to the range of the support. No gradient flows into any argument.

    Needs O(T^2 B K + T B A K) operations and O(T^2 B K) memory. Each of the T (T + 1) / 2 backups
    scatters its K masses to two atoms each, whereas the hat functions of `categorical.project`
    would take K^2 operations.

    Args:
      q_t: [T, B, A, K] floating, probabilities q_j(x, a) of the atoms.
      pi_t: [T, B, A], probabilities of the policy that is evaluated.
      a_t: [T, B] integer, the actions taken; any valid action at the last index.
      c_t: [T, B], see `retrace_coefficients`; the last is ignored.
      r_t: [T, B], rewards.
      discount_t: [T, B], gamma times the environments' discounts; 0 ends the episode and so cuts
        the target.
      support: [K] increasing, K >= 2 and evenly spaced, see `categorical.support`.

    Returns:
      [T, B, K], in the dtype of `q_t`.

    Raises:
      ValueError: a static shape differs from those above.
    """
    _check_shapes(q_t, pi_t, a_t, c_t, r_t, discount_t, support)
    length, batch_size, _, num_atoms = tf.unstack(tf.shape(q_t))
    c_t = _without_last(c_t)
    # sum_a alpha_{n,a} q(x_{t+n}, a) = C_{t,k} v_k
    mixture_t = tf.reduce_sum(pi_t[..., tf.newaxis] * q_t, axis=2)
    v_t = mixture_t - c_t[..., tf.newaxis] * _of_action(q_t, a_t)  # [T, B, K]

    traces = _products_before(c_t)  # C_{t,k} = c_t ... c_{k-1}; all [t, k, B]
    discounts_before = _products_before(discount_t)
    returns = tf.cumsum(discounts_before * r_t, axis=1)  # R_{t,k}
    discounts = discounts_before * discount_t  # D_{t,k} = g_t ... g_k

    pairs = tf.where(tf.linalg.band_part(tf.ones([length, length], tf.bool), 0, -1))  # k >= t
    t, k = tf.unstack(tf.cast(pairs, tf.int32), axis=1)
    traces, returns, discounts = (
        tf.gather(tf.reshape(values, [-1, batch_size]), t * length + k)[..., tf.newaxis]
        for values in (traces, returns, discounts)
    )  # [pair, B, 1]
    rows = t[:, tf.newaxis] * batch_size + tf.range(batch_size)

    projected = _scatter(
        returns + discounts * tf.cast(support, q_t.dtype),
        traces * tf.gather(v_t, k),
        rows[..., tf.newaxis],
        length * batch_size,
        tf.cast(support, q_t.dtype),
    )
    targets = tf.reshape(projected, [length, batch_size, num_atoms])
    return tf.stop_gradient(tf.ensure_shape(targets, [*q_t.shape[:2], q_t.shape[3]]))


def _scatter(
    positions: tf.Tensor,
    masses: tf.Tensor,
    rows: tf.Tensor,
    num_rows: tf.Tensor,
    support: tf.Tensor,
) -> tf.Tensor:
    """Projects masses onto the atoms of `support` and adds them up by row.

    Args:
      positions: [P, B, K] floating, in units of return.
      masses: [P, B, K], of either sign.
      rows: [P, B, 1] int32, the row of the result that receives the masses.
      num_rows: scalar int32.
      support: [K] evenly spaced.

    Returns:
      [num_rows * K].
    """
    num_atoms = tf.size(support)
    last = tf.cast(num_atoms - 1, positions.dtype)
    positions = (positions - support[0]) * (last / (support[-1] - support[0]))  # in atoms
    positions = tf.clip_by_value(positions, 0.0, last)
    # Also bounded as an integer: the last atom needs an upper neighbour, and NaN gives any index.
    lower = tf.clip_by_value(tf.cast(positions, tf.int32), 0, num_atoms - 2)
    above = (positions - tf.cast(lower, positions.dtype)) * masses
    index = rows * num_atoms + lower
    # Faster on a CPU than scatter_nd, bincount, or both neighbours as one row of two.
    size = num_rows * num_atoms
    return tf.math.unsorted_segment_sum(masses - above, index, size) + (
        tf.math.unsorted_segment_sum(above, index + 1, size)
    )


def _products_before(factors: tf.Tensor) -> tf.Tensor:
    """Returns f_t ... f_{k-1} at [t, k]: 1 where k = t, 0 where k < t; [T, B] -> [T, T, B]."""
    index = tf.range(tf.shape(factors)[0])
    after = (index >= index[:, tf.newaxis])[..., tf.newaxis]  # k >= t
    products = tf.math.cumprod(
        tf.where(after, factors, tf.ones_like(factors)), axis=1, exclusive=True
    )
    return tf.where(after, products, tf.zeros_like(products))


def _without_last(c_t: tf.Tensor) -> tf.Tensor:
    """Returns c_t with its last element replaced by 0: [T, B] -> [T, B]."""
    return tf.concat([c_t[:-1], tf.zeros_like(c_t[-1:])], axis=0)


def _of_action(values: tf.Tensor, a_t: tf.Tensor) -> tf.Tensor:
    """Returns the values of the actions taken: [T, B, A, ...], [T, B] -> [T, B, ...]."""
    return tf.gather(values, a_t, axis=2, batch_dims=2)


def _check_shapes(
    q_t: tf.Tensor,
    pi_t: tf.Tensor,
    a_t: tf.Tensor,
    c_t: tf.Tensor,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    support: tf.Tensor | None = None,
) -> None:
    """Raises ValueError if a static shape is wrong.

    Broadcasting would otherwise accept some wrong shapes, such as [T, 1] rewards.
    """
    q_shape, pi_shape = tf.TensorShape(q_t.shape), tf.TensorShape(pi_t.shape)
    atoms = [] if support is None else tf.TensorShape(support.shape)
    if pi_shape.rank != 3 or not q_shape.is_compatible_with(pi_shape + atoms):
        name = "q_t [T, B, A]" if support is None else "q_t [T, B, A, K], support [K]"
        raise ValueError(f"{name} and pi_t [T, B, A] must agree, got {q_shape} and {pi_shape}.")
    if support is not None and (support.shape[0] is not None and support.shape[0] < 2):
        raise ValueError(f"support must be [K] with K >= 2, got {support.shape}.")
    for name, value in zip(("a_t", "c_t", "r_t", "discount_t"), (a_t, c_t, r_t, discount_t)):
        if not q_shape[:2].is_compatible_with(value.shape):
            raise ValueError(f"{name} must be [T, B] = {q_shape[:2]}, got {value.shape}.")


def v_trace(
    log_rho: tf.Tensor,
    discount: tf.Tensor,
    reward: tf.Tensor,
    value: tf.Tensor,
    bootstrap: tf.Tensor,
    rho_bar: float = 1.0,
    pg_rho_bar: float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the V-trace targets of a sequence's values, and the advantages of its actions.

        v_t = V_t + min(rho_bar, rho_t) (r_t + g_t V_{t+1} - V_t)
              + g_t min(1, rho_t) (v_{t+1} - V_{t+1})
        A_t = min(pg_rho_bar, rho_t) (r_t + g_t v_{t+1} - V_t)

    After the last step, v and V are both `bootstrap`. On policy, v is the n-step return. No
    gradient flows into any argument.

    Args:
      log_rho: [T, B] floating, log pi(a_t|s_t) - log mu(a_t|s_t).
      discount: [T, B], g, gamma times the environment's discount of the step; 0 cuts the trace.
      reward: [T, B], r, reward of the step that follows each state.
      value: [T, B], V of each state.
      bootstrap: [B], V of the state after the last step.
      rho_bar: bound of the weights of temporal differences (IMPALA eq 1). The paper also bounds
        the trace coefficients c, by 1.
      pg_rho_bar: bound of the weights of advantages.

    Returns:
      v: [T, B], in the dtype of `value`.
      advantage: [T, B], the weight of grad log pi(a_t|s_t), importance weight included.
    """
    rho = tf.exp(log_rho)
    following = tf.concat([value[1:], bootstrap[tf.newaxis]], axis=0)
    error = tf.minimum(rho_bar, rho) * (reward + discount * following - value)

    correction = _backwards(error, discount * tf.minimum(1.0, rho), tf.zeros_like(bootstrap))
    target = value + correction
    following = tf.concat([target[1:], bootstrap[tf.newaxis]], axis=0)
    advantage = tf.minimum(pg_rho_bar, rho) * (reward + discount * following - value)
    return tf.stop_gradient(target), tf.stop_gradient(advantage)


def q_lambda_returns(
    reward_t: tf.Tensor, discount_t: tf.Tensor, value_t: tf.Tensor, lambda_: tf.Tensor | float
) -> tf.Tensor:
    """Returns the lambda-returns from each step of a sequence.

        G_t = r_t + g_t ((1 - lambda_t) v_t + lambda_t G_{t+1})

    The last step bootstraps from its value alone. Peng's Q(lambda) has a constant lambda, even
    where actions explore. A lambda of 0 where the next action explores gives Watkins'.

    Args:
      reward_t: [T, B] floating, r, reward of each step.
      discount_t: [T, B], g, gamma times the environment's discount of the step.
      value_t: [T, B], v, value of the best action in the state to which the step leads.
      lambda_: scalar or [T, B], weight of the following return. The last element has no effect.

    Returns:
      [T, B], in the dtype of `reward_t`. Gradients flow into all arguments.
    """
    lambda_ = tf.cast(lambda_, reward_t.dtype)
    constant = reward_t + discount_t * (1.0 - lambda_) * value_t
    return _backwards(constant, discount_t * lambda_, value_t[-1])


def _backwards(constant: tf.Tensor, factor: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Returns x_t = constant_t + factor_t x_{t+1}, [T, B], with x_T = `last`."""

    def before(after: tf.Tensor, step: tuple) -> tf.Tensor:
        return step[0] + step[1] * after

    return tf.scan(before, (constant, factor), last, reverse=True)


def generalized_advantage(
    rewards: np.ndarray, values: np.ndarray, discount: np.ndarray | float, lambda_: float
) -> np.ndarray:
    """Returns the advantages of the actions in fragments (Schulman et al. 2016, eq 16).

        A_t = r_t + d_t V_{t+1} - V_t + d_t lambda A_{t+1},  A_T = 0

    With lambda 1 this is the discounted sum of rewards, bootstrapped from the last value, minus V.
    With lambda 0 it is the one-step TD error.

    Args:
      rewards: [T, ...] floating, r, reward of each step.
      values: [T + 1, ...], V of each state.
      discount: scalar or [T, ...], d, gamma times the environment's discount; 0 at termination.
      lambda_: in [0, 1].

    Returns:
      [T, ...], in the dtype of `rewards`.
    """
    errors = rewards + discount * values[1:] - values[:-1]
    traces = np.broadcast_to(np.asarray(lambda_ * discount, rewards.dtype), rewards.shape)
    advantages = np.empty_like(rewards)
    following = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        advantages[t] = following = errors[t] + traces[t] * following
    return advantages
