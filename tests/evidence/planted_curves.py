"""Kept runs whose returns are given, so that figures and claims are tested in no time."""

import bisect
import contextlib
import functools

import numpy as np

from common.evidence.keep import TableWriter
from common.reporting.budget import Budget


@contextlib.contextmanager
def planting(root, paper="d4pg", scale="two_cores"):
    """Yields `plant_run` for this place, whose runs are kept at once at the end."""
    writer = TableWriter(root, paper, scale)
    yield functools.partial(plant_run, root, paper=paper, scale=scale, writer=writer)
    writer.write()


def plant_run(
    root,
    setting,
    environment,
    seed,
    returns,
    *,
    paper="d4pg",
    agent_setting=None,
    scale="two_cores",
    seconds=300.0,
    steps=30_000,
    outcome="finished",
    num_actors=8,
    episodes=(),
    speed=100.0,
    budget=None,
    cores=2,
    learner=None,
    gpus=(),
    from_starts=(),
    writer=None,
    **config,
):
    """Keeps a run whose evaluations are `returns`, evenly over its time.

    setting: the curve. agent_setting: of config.json, by default the same. episodes: (wall_seconds,
    actor, return) of training. outcome None: it was killed. budget: of its last start, without
    limits by default. cores, gpus: of its machine. learner: further columns of training, the same
    value all the time. from_starts: returns of its last evaluation's episodes from a file of
    starts. writer: of several runs, see `planting`.
    """
    number = max(1, len(returns))
    rows = []
    for part in range(1, number + 1):
        step = int(steps * part / number)
        progress = {"wall_seconds": seconds * part / number, "actor_steps": step}
        rows.append(progress | {"learner_steps": step // 4})
    of_evaluation = {"episode_return_std": 1.0, "episodes": 10}
    evaluations = [
        row | {"episode_return_mean": value} | of_evaluation for row, value in zip(rows, returns)
    ]
    training = [row | {"actor_steps_per_second": speed, **(learner or {})} for row in rows]
    times, of_rows = [row["wall_seconds"] for row in rows], [[] for _ in rows]
    for when, actor, value in episodes:
        of_rows[min(bisect.bisect_left(times, when), number - 1)].append((actor, value))
    for row, found in zip(training, of_rows):
        greediest = [value for actor, value in found if actor == num_actors - 1]
        means = {"greediest_actor": greediest, "all_actors": [value for _, value in found]}
        row |= {name: np.mean(values) for name, values in means.items() if values}
    own = writer or TableWriter(root, paper, scale)
    own.put(
        (setting, environment, seed),
        {
            "paper": paper,
            "setting": agent_setting or setting,
            "num_actors": num_actors,
            "config": {"batch_size": 256} | config,
        },
        {
            "progress": rows[-1],
            "starts": [
                {
                    "outcome": outcome,
                    "seed": seed,
                    "scale": scale,
                    "budget": (budget or Budget()).to_json(),
                    "machine": {"usable_cores": cores, "gpus": list(gpus)},
                }
            ],
            **_evaluation(returns, from_starts),
        },
        *(
            [{name: str(cell) for name, cell in row.items()} for row in table]
            for table in (evaluations, training)
        ),
    )
    if writer is None:
        own.write()


def _evaluation(returns, from_starts):
    """The record's part on a last evaluation with episodes from starts, if there are any."""
    mean, values = "episode_return_mean", list(from_starts)
    if not values:
        return {}
    found = {"origin": "a robot", mean: float(np.mean(values)), "episode_returns": values}
    return {"evaluation": {mean: float(returns[-1]), "from_start_states": found}}
