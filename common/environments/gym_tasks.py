"""Gymnasium's planar MuJoCo tasks, over the states of K bodies at once.

The formulas are Gymnasium's, with the weights and ranges of the environments. A test compares each
task with Gymnasium: `tests/environments/test_gym_suite.py`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from common.environments.mujoco_batch import MujocoBatch, States, Task


def _pendulum(simulation: Any) -> Task:
    def falls(states: States) -> np.ndarray:
        finite = np.isfinite(states.qpos).all(axis=1) & np.isfinite(states.qvel).all(axis=1)
        return ~finite | (np.abs(states.qpos[:, 1]) > 0.2)

    def reward(states: States) -> np.ndarray:
        return 1.0 * (_is_v4(simulation) | ~falls(states))

    return Task(lambda states: (states.qpos, states.qvel), reward, falls)


def _double_pendulum(simulation: Any) -> Task:
    def falls(states: States) -> np.ndarray:
        return states.site_xpos[:, 0, 2] <= 1

    def observe(states: States) -> Sequence[np.ndarray]:
        angles, forces = states.qpos[:, 1:], np.clip(states.qfrc_constraint, -10, 10)
        return (
            states.qpos[:, :1],
            np.sin(angles),
            np.cos(angles),
            np.clip(states.qvel, -10, 10),
            forces if _is_v4(simulation) else forces[:, :1],
        )

    def reward(states: States) -> np.ndarray:
        (x, _, y), (v1, v2) = states.site_xpos[:, 0].T, states.qvel[:, 1:3].T
        bonus = getattr(simulation, "_healthy_reward", 10) * (_is_v4(simulation) | ~falls(states))
        return bonus - (0.01 * x**2 + (y - 2) ** 2) - (1e-3 * v1**2 + 5e-3 * v2**2)

    return Task(observe, reward, falls)


def _forward(simulation: Any) -> Task:
    """Returns the task of moving forward, in which no fall ends the episode."""
    size = simulation.observation_space.shape[0]
    skipped = simulation.model.nq + simulation.model.nv - size  # unobserved positions

    def reward(states: States) -> np.ndarray:
        velocity = (states.qpos[:, 0] - states.qpos_tm1[:, 0]) / simulation.dt
        action = states.ctrl.astype(np.float32)  # Gymnasium sums over the float32 action
        cost = simulation._ctrl_cost_weight * np.square(action).sum(axis=1)
        return simulation._forward_reward_weight * velocity - cost

    return Task(lambda states: (states.qpos[:, skipped:], states.qvel), reward)


def _upright(simulation: Any) -> Task:
    """Returns the task of moving forward, in which a fall may end the episode."""
    task = _forward(simulation)
    (low, high), (left, right) = simulation._healthy_z_range, simulation._healthy_angle_range
    least, most = getattr(simulation, "_healthy_state_range", (-np.inf, np.inf))

    def stands(states: States) -> np.ndarray:
        z, angle = states.qpos[:, 1], states.qpos[:, 2]
        others = np.concatenate([states.qpos[:, 2:], states.qvel], axis=1)
        is_inside = ((least < others) & (others < most)).all(axis=1)
        return (low < z) & (z < high) & (left < angle) & (angle < right) & is_inside

    def observe(states: States) -> Sequence[np.ndarray]:
        position, velocity = task.observe(states)
        return position, np.clip(velocity, -10, 10)

    def reward(states: States) -> np.ndarray:
        healthy = simulation._healthy_reward * ((_is_v4(simulation) & ends) | stands(states))
        return task.reward(states) + healthy

    ends = simulation._terminate_when_unhealthy
    return Task(observe, reward, (lambda states: ~stands(states)) if ends else None)


def _is_v4(simulation: Any) -> bool:
    """Returns whether this is version 4, which rewards an episode's last step like the others."""
    return type(simulation).__module__.endswith("_v4")


_KINDS = {
    "HalfCheetah": _forward,
    "Hopper": _upright,
    "InvertedDoublePendulum": _double_pendulum,
    "InvertedPendulum": _pendulum,
    "Swimmer": _forward,
    "Walker2d": _upright,
}


def batch_of(name: str, environments: Sequence[Any]) -> MujocoBatch | None:
    """Returns a batch of environments of `gym_suite` if this module has their task, else None."""
    task, _, version = name.partition("-v")
    if task not in _KINDS or version not in ("4", "5"):
        return None
    wrapped = [environment.wrapped for environment in environments]
    simulations = [each.unwrapped for each in wrapped]
    return MujocoBatch(
        environments,
        [(each.model, each.data) for each in simulations],
        _KINDS[task](simulations[0]),
        substeps=simulations[0].frame_skip,
        max_steps=wrapped[0].spec.max_episode_steps,
    )
