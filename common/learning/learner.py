"""Base class of a paper's learner, and parts that learners share.

The parts are updates of target networks, optimisers, and functions on metrics, which reduce them
over several updates and check that they are finite.
"""

import abc
from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.types import Batch, Metrics, Nest
from common.user_error import UserError


class Gradients(NamedTuple):
    """The results of `Learner.gradients`.

    Attributes:
      gradients: nest of the gradients that `Learner.apply` takes.
      outputs: nest of [B, ...] that the agent writes back to the replay, such as new priorities
        [B].
      metrics: scalars by name. If a gradient is not finite, at least one metric, such as the norm,
        must not be finite: the run then ends (`common.learning.learner.check_finite`).
    """

    gradients: Nest
    outputs: Nest
    metrics: Metrics


class Learner(tf.Module, abc.ABC):
    """Networks, target networks and optimisers as a module, so that a checkpoint saves them all.

    A learner step has two halves, `gradients` and `apply`, which may be in different processes. All
    methods are called inside a graph, which XLA compiles if the agent says so.

    Attributes:
      steps: int64 scalar, number of updates made.
      actor_variables: variables published to actors and evaluator, in this order.
      target_variables: variables of the target networks, which a parameter server publishes.
    """

    target_variables: Sequence[tf.Variable] = ()

    def __init__(self):
        """Creates the counter of updates."""
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="learner_steps")

    @property
    @abc.abstractmethod
    def actor_variables(self) -> Sequence[tf.Variable]:
        """Variables published to actors and evaluator."""

    @property
    def num_parameters(self) -> int:
        """Number of parameters in `actor_variables`."""
        return sum(variable.shape.num_elements() for variable in self.actor_variables)

    @abc.abstractmethod
    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step; changes nothing.

        It is traced without AutoGraph: use `tf.cond` for branches on a tensor's value.

        Args:
          batch: B items drawn from replay.
        """

    @abc.abstractmethod
    def apply(self, gradients: Nest) -> None:
        """Takes a step of the optimisers, counts it, and updates target networks if that is due.

        Args:
          gradients: the field `gradients` of `Gradients`.
        """

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Performs one learner step.

        Args:
          batch: B items drawn from replay.

        Returns:
          outputs: the field `outputs` of `Gradients`.
          metrics: the field `metrics` of `Gradients`.
        """
        gradients, outputs, metrics = self.gradients(batch)
        self.apply(gradients)
        return outputs, metrics


def copy_variables(source: Sequence[tf.Variable], target: Sequence[tf.Variable]) -> None:
    """Copies the values of `source` to `target`."""
    for s, t in zip(source, target, strict=True):
        t.assign(s)


def copy_periodically(
    step: tf.Tensor, period: int, source: Sequence[tf.Variable], target: Sequence[tf.Variable]
) -> None:
    """Copies `source` to `target` if `step` is a multiple of `period` (D4PG algorithm 1, line 9).

    It selects values instead of branching, so XLA needs no conditional around variables.
    """
    due = tf.equal(step % period, 0)
    for s, t in zip(source, target, strict=True):
        t.assign(tf.where(due, s, t))


def copy_in_branch(
    step: tf.Tensor, period: int, source: Sequence[tf.Variable], target: Sequence[tf.Variable]
) -> None:
    """Copies as `copy_periodically` does, but in a branch, for networks that XLA does not compile.

    Steps between two copies then write nothing.
    """
    tf.cond(tf.equal(step % period, 0), lambda: copy_variables(source, target), lambda: None)


def move_towards(source: Sequence[tf.Variable], target: Sequence[tf.Variable], rate: float) -> None:
    """Moves `target` towards `source`: t <- (1 - rate) t + rate s (DDPG's soft update)."""
    for s, t in zip(source, target, strict=True):
        t.assign((1.0 - rate) * t + rate * s)


def create_variables(optimizer: snt.Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Creates an optimiser's variables, which Sonnet would only create at the first step.

    Otherwise a resumed run that saves before its first update would write a checkpoint without
    them. A step with gradients of zero changes neither `variables` nor moments of zero.
    """
    optimizer.apply([tf.zeros_like(variable) for variable in variables], variables)
    if hasattr(optimizer, "step"):  # Adam counts its steps
        optimizer.step.assign(tf.zeros_like(optimizer.step))


class Adam(snt.optimizers.Adam):
    """Sonnet's Adam with a single kernel per variable.

    Sonnet's implementation has a dozen operations, each of which passes over all parameters.
    """

    def apply(self, updates: Sequence[tf.Tensor], parameters: Sequence[tf.Variable]) -> None:
        """Applies a gradient to each parameter."""
        self._initialize(parameters)
        self.step.assign_add(1)
        step = tf.cast(self.step, tf.float32)
        beta1_power, beta2_power = tf.pow(self.beta1, step), tf.pow(self.beta2, step)
        # The kernel adds epsilon to sqrt(v), Kingma and Ba to sqrt(v / (1 - beta2^t)).
        epsilon = self.epsilon * tf.sqrt(1 - beta2_power)
        for update, parameter, m, v in zip(updates, parameters, self.m, self.v, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=parameter.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=beta1_power,
                beta2_power=beta2_power,
                lr=self.learning_rate,
                beta1=self.beta1,
                beta2=self.beta2,
                epsilon=epsilon,
                grad=update,
            )


class CenteredRMSProp(snt.optimizers.RMSProp):
    """Sonnet's centred RMSProp without momentum, with a single kernel per variable.

        m <- decay m + (1 - decay) g,  v <- decay v + (1 - decay) g^2
        w <- w - rate g / sqrt(v - m^2 + epsilon)

    Sonnet's implementation has about twenty operations, each of which passes over all parameters:
    it takes 17 ms instead of 8 ms for 3.3 million parameters.

    v - m^2 is a variance, but in float32 it can be negative if the gradient hardly changes. Below
    -epsilon its root would be NaN. If gradients of a variable are large enough for that, separate
    operations update the variable and clip the variance at 0, which the kernel cannot do.
    """

    def __init__(self, learning_rate: float, decay: float, epsilon: float):
        """Sets the parameters; the first `apply` creates variables `ms` (v), `mg` (m) and `mom`."""
        super().__init__(learning_rate, decay=decay, epsilon=epsilon, centered=True)
        # Let u = 2^-24. A running mean stops moving when its steps round to nothing; its relative
        # error is then up to u / (1 - decay). The error of v - m^2 is up to three times that, in
        # units of v. The roundings of a step itself add a few u.
        u = np.finfo(np.float32).epsneg
        self._largest_square = epsilon / (4 * u / (1 - decay) + 8 * u)

    def apply(self, updates: Sequence[tf.Tensor], parameters: Sequence[tf.Variable]) -> None:
        """Applies a gradient to each parameter."""
        self._initialize(parameters)
        for update, *variables in zip(updates, parameters, self.mom, self.ms, self.mg, strict=True):
            self._apply_to(update, *variables)

    def _apply_to(self, update, parameter, mom, ms, mg) -> None:
        square = tf.maximum(tf.square(tf.reduce_max(tf.abs(update))), tf.reduce_max(ms))
        tf.cond(
            square < self._largest_square,
            lambda: self._apply_kernel(update, parameter, mom, ms, mg),
            lambda: self._apply_operations(update, parameter, mom, ms, mg),
        )

    def _apply_kernel(self, update, parameter, mom, ms, mg) -> None:
        tf.raw_ops.ResourceApplyCenteredRMSProp(
            var=parameter.handle,
            mom=mom.handle,
            ms=ms.handle,
            mg=mg.handle,
            lr=self.learning_rate,
            rho=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            grad=update,
        )

    def _apply_operations(self, update, parameter, mom, ms, mg) -> None:
        ms.assign_add((tf.square(update) - ms) * (1 - self.decay))
        mg.assign_add((update - mg) * (1 - self.decay))
        variance = tf.maximum(ms - tf.square(mg), 0.0)
        mom.assign(self.learning_rate * update * tf.math.rsqrt(variance + self.epsilon))
        parameter.assign_sub(mom)


class DivergedError(UserError):
    """Error of an update whose loss or gradients are not finite.

    It ends the run, because a restart from the last checkpoint would diverge in the same way.
    """

    def __init__(self, what: str):
        """Builds the message; `what` names the value that diverged."""
        super().__init__(
            f"learning has diverged: {what}; try a lower learning rate, or look for extreme "
            "rewards and observations (the last checkpoint was written before that)"
        )


def is_maximum(name: str) -> bool:
    """Returns whether a metric is reduced to its maximum (`*_max`, `num_*`), not to its mean."""
    return name.endswith("_max") or name.startswith("num_")


def reduce_metric(name: str, values: Sequence[float]) -> float:
    """Returns the maximum or the mean of the values of a metric, a non-empty sequence."""
    return max(values) if is_maximum(name) else sum(values) / len(values)


def count(steps: tf.Variable) -> int:
    """Returns the count of updates; a raw read takes half the time of `int(steps)`."""
    return int(tf.raw_ops.ReadVariableOp(resource=steps.handle, dtype=steps.dtype))


def check_finite(metrics: Metrics) -> None:
    """Raises DivergedError, which names the first bad metric, unless all metrics are finite.

    Call it before anything is written back, published or saved.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise DivergedError(f"{name} is {float(value)}")


def check_steps(begin: int, end: int, num_updates: int) -> None:
    """Raises UserError unless a call raised the count of steps by its number of updates."""
    if end - begin != num_updates:
        raise UserError(
            f"the learner's `steps` went from {begin} to {end} in a call of {num_updates} "
            "updates: its `update` or `apply` must add 1 each time: self.steps.assign_add(1)"
        )


def are_finite(metrics: Metrics) -> tf.Tensor:
    """Returns whether all metrics are finite, in a graph."""
    return tf.reduce_all(tf.math.is_finite(tf.stack(list(metrics.values()))))
