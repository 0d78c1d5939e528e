"""V-trace: off-policy targets of a state value and advantages of actions (TensorFlow).

Source: IMPALA (Espeholt et al. 2018), section 4.1, with lambda 1.
"""

import tensorflow as tf


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
      reward: [T, B], of the step that follows each state.
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

    def accumulate(after: tf.Tensor, step: tuple) -> tf.Tensor:
        step_error, decay = step
        return step_error + decay * after

    correction = tf.scan(
        accumulate, (error, discount * tf.minimum(1.0, rho)), tf.zeros_like(bootstrap), reverse=True
    )
    target = value + correction
    following = tf.concat([target[1:], bootstrap[tf.newaxis]], axis=0)
    advantage = tf.minimum(pg_rho_bar, rho) * (reward + discount * following - value)
    return tf.stop_gradient(target), tf.stop_gradient(advantage)
