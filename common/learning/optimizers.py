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
    optimizer.step.assign(tf.zeros_like(optimizer.step))
