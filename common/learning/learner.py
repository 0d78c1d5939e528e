"""Base class of a paper's learner, and the parts of which learners are made.

The parts are updates of target networks, optimisers, and the metrics of updates: their reduction
over several updates, and the check that they are finite.
"""

import abc
from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.reporting.user_error import UserError
from common.types import Batch, Metrics, Nest


class Gradients(NamedTuple):
    """The results of `Learner.gradients`.

    Attributes:
      gradients: nest of the gradients that `Learner.apply` takes.
      outputs: nest of [B, ...] that the agent writes back to the replay, such as new priorities
        [B].
      metrics: scalars by name. At least one is not finite if a gradient is not, such as their norm:
        the run then ends (`common.learning.learner.check_finite`).
    """

    gradients: Nest
    outputs: Nest
    metrics: Metrics


class Learner(tf.Module, abc.ABC):
    """Networks, target networks and optimisers as a module, so that a checkpoint has them all.

    A learner step has two halves, which may be in different processes. All methods are called
    inside a graph, compiled by XLA if the agent says so.

    Attributes:
      steps: int64 scalar, updates done.
      actor_variables: variables published to actors and evaluator, in this order.
      target_variables: variables of the target networks, which a parameter server publishes.
    """

    target_variables: Sequence[tf.Variable] = ()

    def __init__(self):
        """Makes the counter of updates."""
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

        It is traced without AutoGraph: what depends on a tensor's value is a `tf.cond`.

        Args:
          batch: B items drawn from replay.
        """

    @abc.abstractmethod
    def apply(self, gradients: Nest) -> None:
        """Makes a step of the optimisers, counts it, and copies target networks if it is time.

        Args:
          gradients: of `Gradients`.
        """

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Makes one learner step.

        Args:
          batch: B items drawn from replay.

        Returns:
          outputs: of `Gradients`.
          metrics: of `Gradients`.
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

    It selects values instead of branching, so that XLA needs no conditional around variables.
    """
    due = tf.equal(step % period, 0)
    for s, t in zip(source, target, strict=True):
        t.assign(tf.where(due, s, t))


def copy_in_branch(
    step: tf.Tensor, period: int, source: Sequence[tf.Variable], target: Sequence[tf.Variable]
) -> None:
    """Copies as `copy_periodically` does, but in a branch, for networks that XLA does not compile.

    The steps between two copies then write nothing.
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
    """Sonnet's Adam, as one kernel per variable.

    Sonnet's own has a dozen operations, each of which passes over all parameters.
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
    """Sonnet's centred RMSProp without momentum, as one kernel per variable.

        m <- decay m + (1 - decay) g,  v <- decay v + (1 - decay) g^2
        w <- w - rate g / sqrt(v - m^2 + epsilon)

    Sonnet's own has some twenty operations, each of which passes over all parameters: 17 ms instead
    of 8 ms for 3.3 million parameters.

    v - m^2 is a variance, but in float32 it can come out negative where the gradient hardly
    changes. Below -epsilon its root would be NaN. A variable whose gradients are large enough for
    that is updated by separate operations that keep the variance at 0 or above, since the kernel
    cannot.
    """

    def __init__(self, learning_rate: float, decay: float, epsilon: float):
        """Makes the optimiser; the first `apply` makes its variables `ms` (v), `mg` (m), `mom`."""
        super().__init__(learning_rate, decay=decay, epsilon=epsilon, centered=True)
        # With u = 2^-24, a running mean stops moving, because steps round to nothing, while it is
        # still off by up to u / (1 - decay), relatively. v - m^2 is then off by up to three times
        # as much, in units of v. The roundings of a step itself add a few u.
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

    The run ends with it, since from its last checkpoint it would learn alike.
    """

    def __init__(self, what: str):
        """Says what has diverged."""
        super().__init__(
            f"learning has diverged: {what}; try a lower learning rate, or look for extreme "
            "rewards and observations (the last checkpoint is of before)"
        )


def is_maximum(name: str) -> bool:
    """Returns whether a metric is reduced to its maximum (`*_max`, `num_*`), not to its mean."""
    return name.endswith("_max") or name.startswith("num_")


def reduce_metric(name: str, values: Sequence[float]) -> float:
    """Returns the maximum or the mean of a metric's values, of which there is at least one."""
    return max(values) if is_maximum(name) else sum(values) / len(values)


def check_finite(metrics: Metrics) -> None:
    """Raises DivergedError, which names the first one, unless all metrics of a call are finite.

    Call it before anything is written back, published or saved.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise DivergedError(f"{name} is {float(value)}")


def check_steps(begin: int, end: int, num_updates: int) -> None:
    """Raises UserError unless the count of steps has grown by the number of updates of a call."""
    if end - begin != num_updates:
        raise UserError(
            f"the learner's `steps` went from {begin} to {end} in a call of {num_updates} "
            "updates: its `update`, or `apply`, has to add 1 each time, self.steps.assign_add(1)"
        )


def are_finite(metrics: Metrics) -> tf.Tensor:
    """Returns whether all metrics are finite, in a graph."""
    return tf.reduce_all(tf.math.is_finite(tf.stack(list(metrics.values()))))
