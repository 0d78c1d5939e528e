"""Networks' variables as one flat vector, the form in which they travel to the actors.

The learner packs `(*policy.trainable_variables, *critic.trainable_variables)` inside its graph;
an actor builds the same modules, unpacks by their shapes, or loads slices into NumPy twins.
"""

from collections.abc import Callable, Sequence
import math

import numpy as np
import tensorflow as tf


def create_variables(
    policy: Callable[[tf.Tensor], tf.Tensor],
    critic: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    observation_size: int,
    action_size: int,
) -> None:
    """Calls both networks once on zeros: Sonnet creates variables at the first call.

    Args:
        policy: observation [B, observation_size] -> action [B, action_size].
        critic: the two -> anything.
        observation_size: length of a flat float32 observation.
        action_size: length of an action.

    Raises:
        ValueError: the policy gives actions of another size.
    """
    observation = tf.zeros([1, observation_size])
    action = policy(observation)
    if action.shape != (1, action_size):
        raise ValueError(
            f"The policy gives actions of {action.shape[-1]} elements, but action_size is "
            f"{action_size}: construct it with that action_size."
        )
    critic(observation, tf.zeros([1, action_size]))


def shapes(variables: Sequence[tf.Variable]) -> list[tuple[int, ...]]:
    """The shape of each variable, as `unpack` wants them."""
    return [tuple(variable.shape) for variable in variables]


def pack(variables: Sequence[tf.Variable]) -> tf.Tensor:
    """All variables in one vector [P] float32, in the order given. Usable inside a graph.

    Raises:
        ValueError: there are no variables, or one is not float32.
    """
    if not variables:
        raise ValueError("There are no variables to pack: call the networks once before.")
    for variable in variables:
        if variable.dtype != tf.float32:
            raise ValueError(
                f"Only float32 variables can be packed, {variable.name} is {variable.dtype.name}."
            )
    return tf.concat([tf.reshape(variable, [-1]) for variable in variables], axis=0)


def unpack(flat: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Undoes `pack`: views of `flat` [P], one a shape, which follow it if it is written to.

    Raises:
        ValueError: the shapes do not add up to P.
    """
    sizes = [math.prod(shape) for shape in shapes]
    if flat.shape != (sum(sizes),):
        raise ValueError(
            f"The shapes take {sum(sizes)} parameters, but the flat vector is {flat.shape}: it "
            "was packed from networks of other sizes."
        )
    arrays, start = [], 0
    for shape, size in zip(shapes, sizes):
        arrays.append(flat[start : start + size].reshape(shape))
        start += size
    return arrays
