"""Policies for other programs: a TensorFlow SavedModel, layers for NumPy, and spaces.json.

    policy = tf.saved_model.load(DIRECTORY)
    state = policy.initial_state(1)                                # where an episode begins
    action, state = policy.act(observation[np.newaxis], state)     # [1, ...]

`spaces.json`, next to the SavedModel, has shapes and dtypes, and the affine map from actions to the
environment's own units.
"""

from collections.abc import Mapping
import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common import environments
from common.agents.trained import TrainedRun
from common.environments.canonical import CanonicalEnvironment
from common.learning.checkpoint import export_policy
from common.networks import packing

LAYERS, SPACES = "policy.npz", "spaces.json"
"""Names of the files in an export's directory, besides those of the SavedModel."""


class ExportedPolicy(tf.Module):
    """The evaluator's policy of an agent with learnt parameters, to be saved as a SavedModel.

    Attributes:
      act: `act(observation, state) -> (action, state)`, for any number K of environments.
      initial_state: `initial_state(K) -> state` at the start of an episode; {} for a feedforward
        policy. States are dictionaries of arrays [K, ...].
      parameters: variables of the policy.
    """

    def __init__(self, run: TrainedRun):
        """Builds the policy's networks and loads the run's parameters."""
        super().__init__()
        learner = run.agent.make_learner(run.spec)
        self.parameters = list(learner.actor_variables)
        packing.assign(run.parameters, self.parameters)
        function = run.agent.graph_policy(learner, run.spec)
        structure = run.agent.make_evaluator(run.spec, 1).initial_state(1)
        initial = named(structure)

        def act(observation: tf.Tensor, state: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, dict]:
            nest = tree.unflatten_as(structure, [state[name] for name in initial])
            action, after = function(observation, nest)
            return action, named(after)

        self.act = tf.function(
            act,
            input_signature=[
                tf.TensorSpec([None, *run.spec.observation_shape], run.spec.observation_dtype),
                {
                    n: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype)
                    for n, leaf in initial.items()
                },
            ],
            autograph=False,
        )
        self.initial_state = tf.function(
            lambda number: {
                name: tf.repeat(leaf, number, axis=0) for name, leaf in initial.items()
            },
            input_signature=[tf.TensorSpec([], tf.int32)],
            autograph=False,
        )


def named(state: Any) -> dict[str, Any]:
    """Returns the leaves of a recurrent state, keyed by names such as "policy_hidden"."""
    leaves = tree.flatten_with_path(state)
    return {"_".join(map(str, path)) or "state": leaf for path, leaf in leaves}


def write(directory: pathlib.Path, run: TrainedRun) -> list[str]:
    """Writes an export; returns the names of its parts.

    Args:
      directory: directory to create; it must not exist yet.
      run: the trained run.

    Raises:
      ValueError: the agent has no policy as TensorFlow operations.
    """
    policy = ExportedPolicy(run)
    tf.saved_model.save(policy, str(directory))
    spaces = _spaces(run, policy)
    (directory / SPACES).write_text(json.dumps(spaces, indent=2) + "\n")
    try:
        layers = run.make_policy(1).layers()
    except ValueError:  # convolutions, recurrent layers, searches
        return ["SavedModel", SPACES]
    export_policy(directory / LAYERS, layers)
    return ["SavedModel", SPACES, LAYERS]


def _spaces(run: TrainedRun, policy: ExportedPolicy) -> dict[str, Any]:
    """Returns the contents of spaces.json."""
    spec = run.spec
    frames = run.agent.declaration.num_frames
    observation: dict[str, Any] = {
        "shape": list(spec.observation_shape),
        "dtype": np.dtype(spec.observation_dtype).name,
    }
    with environments.opened(run.environment, 0, frames) as environment:
        action: dict[str, Any] = {"kind": "discrete", "values": spec.action_size}
        if isinstance(environment, CanonicalEnvironment):
            parts = environment.joined_shapes
            if parts and "" not in parts:  # several, joined in this order
                observation["parts"] = parts
            if spec.is_discrete:
                action |= {"scale": 1, "offset": int(environment.own_action(np.array(0, np.int32)))}
        if spec.picture_shape is not None and spec.vector_size:
            observation |= {"vector_size": spec.vector_size, "vector_row": spec.picture_shape[0]}
        if not spec.is_discrete:
            scale, offset = getattr(environment, "scale", 1.0), getattr(environment, "offset", 0.0)
            action = {
                "kind": spec.action_kind,
                "shape": [spec.action_size],
                "minimum": environment.action_spec().minimum.tolist(),
                "maximum": environment.action_spec().maximum.tolist(),
                "scale": np.asarray(scale).tolist(),
                "offset": np.asarray(offset).tolist(),
            }
    _, state = policy.act.input_signature
    return {
        "agent": run.agent.declaration.name,
        "setting": run.agent.setting,
        "environment": run.environment,
        "learner_steps": run.learner_steps,
        "observation": observation,
        "action": action,
        "own_action": "scale * action + offset" if "scale" in action else "action",
        "state": {
            name: {"shape": leaf.shape.as_list()[1:], "dtype": leaf.dtype.name}
            for name, leaf in state.items()
        },
        "reward_in_state": run.make_policy(1).sees_rewards,
    }
