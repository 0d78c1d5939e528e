"""Optimisers."""

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf


def create_variables(optimizer: snt.Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Creates the moments that an optimiser else creates at its first step; changes nothing.

    A run that is resumed and ends, or saves, before its first update would otherwise write a
    checkpoint without them. A step on gradients of zero leaves moments and variables as they are.
    """
    optimizer.apply([tf.zeros_like(variable) for variable in variables], variables)
    if hasattr(optimizer, "step"):  # Adam counts
        optimizer.step.assign(tf.zeros_like(optimizer.step))


class CenteredRMSProp(snt.optimizers.RMSProp):
    """Sonnet's centred RMSProp without momentum, in one kernel a variable.

        m <- decay m + (1 - decay) g,  v <- decay v + (1 - decay) g^2
        w <- w - rate g / sqrt(v - m^2 + epsilon)

    Sonnet's own is some twenty operations, each of which passes over all parameters: 17 ms instead
    of 8 for 3.3 million of them.
    """

    def __init__(self, learning_rate: float, decay: float, epsilon: float):
        """Makes the optimiser; the first `apply` makes its variables `ms` (v), `mg` (m), `mom`."""
        super().__init__(learning_rate, decay=decay, epsilon=epsilon, centered=True)

    def apply(self, updates: Sequence[tf.Tensor], parameters: Sequence[tf.Variable]) -> None:
        """Applies gradients, one a parameter."""
        self._initialize(parameters)
        for update, *variables in zip(
            updates, parameters, self.mom, self.ms, self.mg, strict=True
        ):
            parameter, mom, ms, mg = (variable.handle for variable in variables)
            tf.raw_ops.ResourceApplyCenteredRMSProp(
                var=parameter, mom=mom, ms=ms, mg=mg, lr=self.learning_rate, rho=self.decay,
                momentum=self.momentum, epsilon=self.epsilon, grad=update,
            )
