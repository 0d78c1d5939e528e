"""Kept runs whose returns are given, so that figures and claims are tested in no time."""

import contextlib

import numpy as np
import pandas

from common.evidence.keep import TableWriter
from common.reporting.budget import Budget


@contextlib.contextmanager
def planting(root, paper="d4pg", scale="two_cores"):
    """Yields the `writer` of several runs, which are kept at once at the end."""
    writer = TableWriter(root, paper, scale)
    yield writer
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
    changed=None,
    size=None,
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
    limits by default. changed: its flags. size: its word for the scale. cores: of its machine.
    learner: further columns of training, the same value all the time. gpus: of its machine.
    from_starts: returns of its last evaluation's episodes from a file of starts.
    writer: of several runs, see `planting`.
    """
    number = max(1, len(returns))
    time = np.linspace(seconds / number, seconds, number)
    step = np.linspace(steps / number, steps, number).astype(int)
    progress = pandas.DataFrame(
        {"wall_seconds": time, "actor_steps": step, "learner_steps": step // 4}
    )
    evaluations = progress.head(len(returns)).assign(
        episode_return_mean=returns, episode_return_std=1.0, episodes=10
    )
    training = progress.assign(actor_steps_per_second=speed, **learner or {})
    found = pandas.DataFrame(list(episodes), columns=["seconds", "actor", "return"])
    at = np.minimum(np.searchsorted(time, found["seconds"]), number - 1)
    greediest = found["actor"] == num_actors - 1
    training["greediest_actor"] = found["return"][greediest].groupby(at[greediest]).mean()
    training["all_actors"] = found["return"].groupby(at).mean()
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
            "progress": {name: values.iloc[-1].item() for name, values in progress.items()},
            **(
                {
                    "evaluation": {
                        "episode_return_mean": float(returns[-1]),
                        "from_start_states": {
                            "origin": "a robot",
                            "episode_return_mean": float(np.mean(from_starts)),
                            "episode_returns": list(from_starts),
                        },
                    }
                }
                if from_starts
                else {}
            ),
            "starts": [
                {
                    "outcome": outcome,
                    "seed": seed,
                    "scale": size or scale,
                    "budget": (budget or Budget()).to_json(),
                    "changed": changed or {},
                    "machine": {"usable_cores": cores, "gpus": list(gpus)},
                }
            ],
        },
        texts(evaluations),
        texts(training),
    )
    if writer is None:
        own.write()


def texts(table):
    """The cells of each row of a table as text, without those that are empty."""
    rows = table.astype(object).where(table.notna(), "").to_dict("records")
    return [{name: str(cell) for name, cell in row.items() if cell != ""} for row in rows]
