"""Run directories whose returns are given, so that figures and claims are tested in no time."""

import json

import numpy as np
import pandas

from common.experiments.paper import run_path
from common.reporting import csv_rows
from common.reporting.budget import Budget


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
    frames_per_step=1,
    outcome="finished",
    num_actors=8,
    episodes=(),
    speed=100.0,
    budget=None,
    changed=None,
    size=None,
    cores=2,
    **config,
):
    """Writes a run whose evaluations are `returns`, evenly over its time.

    setting: the curve. agent_setting: of config.json and evaluator.csv, by default the same.
    episodes: (wall_seconds, actor, return) of training. outcome None: it was killed. budget: of its
    last start, without limits by default. changed: its flags. size: its word for the scale. cores:
    of its machine.
    """
    path = root / run_path(paper, scale, setting, environment, seed)
    path.mkdir(parents=True)
    time = np.linspace(seconds / len(returns), seconds, len(returns))
    step = np.linspace(steps / len(returns), steps, len(returns)).astype(int)
    pandas.DataFrame(
        {
            "paper": paper,
            "setting": agent_setting or setting,
            "environment": environment,
            "seed": seed,
            "wall_seconds": time,
            "actor_steps": step,
            "environment_frames": step * frames_per_step,
            "learner_steps": step // 4,
            "episode_return_mean": returns,
            "episode_return_std": 1.0,
            "episodes": 10,
        }
    )[list(csv_rows.EVALUATOR)].to_csv(path / "evaluator.csv", index=False)
    pandas.DataFrame(
        {
            "wall_seconds": time,
            "learner_steps": step // 4,
            "actor_steps": step,
            "actor_steps_per_second": speed,
        }
    ).reindex(columns=list(csv_rows.LEARNER)).to_csv(path / "learner.csv", index=False)
    frame = pandas.DataFrame(list(episodes), columns=["wall_seconds", "actor", "episode_return"])
    frame.assign(actor_steps=0).reindex(columns=list(csv_rows.ACTING)).to_csv(
        path / "acting.csv", index=False
    )
    (path / "config.json").write_text(
        json.dumps(
            {
                "paper": paper,
                "setting": agent_setting or setting,
                "environment": environment,
                "seed": seed,
                "num_actors": num_actors,
                "config": {"batch_size": 256} | config,
            },
            indent=2,
        )
    )
    (path / "run.json").write_text(
        json.dumps(
            {
                "starts": [
                    {
                        "outcome": outcome,
                        "seed": seed,
                        "scale": size or scale,
                        "budget": (budget or Budget()).to_json(),
                        "changed": changed or {},
                        "machine": {"usable_cores": cores},
                    }
                ]
            }
        )
    )
    return path
