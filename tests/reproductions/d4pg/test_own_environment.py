"""The example of a user's environment: its optimum, and that D4PG comes near it in seconds."""

import dm_env
import numpy as np
from one_process import OneProcessRun
from scipy.optimize import linprog

from common import environments
from common.environments.batch import BatchedEnvironment
from common.roles.evaluator import run_episodes
from reproductions.d4pg import own_environment
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

NAME = "python:reproductions.d4pg.own_environment:make"
NUM_ACTORS = 8
NUM_CALLS = 100
THRESHOLD = 60.0


def optimal_forces():
    """From 1 m: minimises the sum of |position|, a linear programme as long as no wall is hit."""
    n, dt = own_environment.EPISODE_STEPS, own_environment.STEP_SECONDS
    sums = np.tril(np.ones((n, n)))
    moved = dt**2 * sums @ sums  # positions are 1 + moved @ forces
    identity = np.eye(n)  # variables: the forces, and bounds of |position|
    solution = linprog(
        np.concatenate([np.zeros(n), np.ones(n)]),
        A_ub=np.block([[moved, -identity], [-moved, -identity]]),
        b_ub=np.concatenate([-np.ones(n), np.ones(n)]),
        bounds=[(-own_environment.MAX_FORCE, own_environment.MAX_FORCE)] * n + [(0, None)] * n,
    )
    return solution.x[:n]


def test_the_best_return_is_what_the_docstring_says():
    forces = optimal_forces()
    environment = own_environment.make(seed=0)
    start = float(environment.reset().observation["position"][0])
    timesteps = [environment.step(np.array([start * force])) for force in forces]
    assert timesteps[-1].last() and timesteps[-1].discount == 1
    positions = [float(timestep.observation["position"][0]) for timestep in timesteps]
    assert np.max(np.abs(positions)) < own_environment.RAIL_END
    best = sum(timestep.reward for timestep in timesteps)
    assert round(best, 2) == own_environment.BEST_RETURN
    assert f"best possible return is {best:.2f}" in own_environment.__doc__


def test_a_wall_stops_the_mass_and_the_next_step_begins_anew():
    environment = own_environment.make(seed=0)
    side = float(environment.reset().observation["position"][0])
    timestep = dm_env.restart(None)
    while not timestep.last():
        timestep = environment.step(np.array([side * own_environment.MAX_FORCE]))
    assert timestep.observation["position"] == side * own_environment.RAIL_END
    assert timestep.observation["velocity"] == 0 and timestep.reward == -1
    assert environment.step(np.zeros(1)).first()


def make_environments(seed, count):
    return BatchedEnvironment([environments.make(NAME, seed + i) for i in range(count)])


def test_d4pg_learns_it():
    config = D4PGConfig(
        n_step=5,
        discount=0.95,
        batch_size=64,
        learning_rate=2e-3,
        num_atoms=41,
        v_min=-20.0,
        v_max=20.0,
        policy_sizes=(32, 32),
        critic_sizes=(32, 32),
        replay_capacity=20_000,
        min_replay_size=500,
        updates_per_call=8,
        send_batch=1,
        samples_per_insert=16.0,
    )
    agent = D4PG(config)
    agent.jit_compile = False  # compiling takes as long as half of these updates
    run = OneProcessRun(agent, make_environments(0, NUM_ACTORS))

    def mean_return():
        return run_episodes(make_environments(1_000, 4), run.evaluator(4), 4).mean()

    assert mean_return() < 0.5 * THRESHOLD
    run.train(NUM_CALLS)
    run.memory.check()
    assert run.memory.statistics().sampled == int(run.learner.steps) * config.batch_size
    assert THRESHOLD < mean_return() <= own_environment.BEST_RETURN + 1e-3
