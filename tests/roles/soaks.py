"""Soaks by name: the program that each trains, its faults, and the return that it has to reach."""

import dataclasses
import importlib
from typing import Any

from common.cluster.layout import Layout


def _field(help: str, default: Any = dataclasses.MISSING, minimum: float | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "minimum": minimum})


@dataclasses.dataclass(frozen=True)
class Soak:
    """A soak. Each field is a flag of tests/roles/soak.py, which explains it."""

    module: str = _field("the agent's program")
    flagfile: str = _field("the program's flags, a path from the project's root")
    least_return: float = _field(
        "lowest mean return of the evaluations of what was learnt after the last fault"
    )
    minutes: float = _field("length of the run", 12.0, minimum=0)
    quiet_seconds: float = _field(
        "without faults at the end: for the roles to come back, and to measure their growth",
        240.0,
        minimum=0,
    )
    warm_up_seconds: float = _field(
        "of a process, which do not count in its growth", 90.0, minimum=0
    )
    actor_processes: int = _field("acting processes, which are actors or workers", 2, minimum=1)
    replay_shards: int = _field("processes of the replay, in layouts that have them", 1, minimum=1)
    actor_kills: int = _field(
        "kills of acting processes, unless the learner's process acts", 10, minimum=0
    )
    replay_kills: int = _field(
        "kills of the replay, in layouts that have it as a process", 10, minimum=0
    )
    learner_kills: int = _field(
        "kills of what keeps the run, the learner or the parameter server", 2, minimum=0
    )
    save_kills: int = _field("more of them, each while a checkpoint is written", 2, minimum=0)
    launcher_kills: int = _field("kills of the launcher, which is started again", 1, minimum=0)
    freezes: int = _field("freezes of each role, of 30 s", 1, minimum=0)
    full_disks: int = _field("times that the disk is full, for a minute", 1, minimum=0)

    def __post_init__(self):
        for each in dataclasses.fields(self):
            value, minimum = getattr(self, each.name), each.metadata["minimum"]
            if minimum is not None and not value >= minimum:
                raise ValueError(f"--{each.name} must be at least {minimum}, is {value}")


SOAKS = {
    # Undisturbed runs end at 827 or more (results/runs/d4pg/quickstart), of about 880 possible.
    "d4pg": Soak(
        module="binaries.d4pg",
        flagfile="tests/roles/soak.flags",
        least_return=800.0,
        minutes=15.0,
        quiet_seconds=60.0,
        actor_processes=4,
        actor_kills=100,
        learner_kills=8,
    ),
    # The return of uniform search with a perfect Q (`reproductions.aql.match.uniform_return`): only
    # a learned Q and a learned proposal have more. Undisturbed runs have 81 after 400 updates and
    # 94 after 800 (results/runs/aql/small). The heap of a learner that nobody disturbs goes up and
    # down: in MB after 1, 3, 5, 9, 13 and 15 minutes it had 429, 384, 390, 395, 391 and 392.
    "aql": Soak(
        module="binaries.aql",
        flagfile="tests/roles/soak_aql.flags",
        least_return=49.4,
        minutes=17.0,
        quiet_seconds=540.0,
        warm_up_seconds=240.0,
    ),
    # An untrained policy has about -0.8, the best one 1. Undisturbed runs have 0.4 to 0.9 after
    # 3,000 updates (results/runs/reactor/small), and go up and down on the way. The heap of a
    # parameter server that nobody disturbs settles in ten minutes: in MB after 1, 5, 10, 15 and 20
    # minutes it had 344, 381, 395, 399 and 402.
    "reactor": Soak(
        module="binaries.reactor",
        flagfile="tests/roles/soak_reactor.flags",
        least_return=0.0,
        minutes=23.0,
        quiet_seconds=900.0,
        warm_up_seconds=600.0,
    ),
    # Untrained policies have about 95. Undisturbed runs have 742 or more after 40,000 updates and
    # 9,355 from 60,000 updates on (results/runs/refer/two_cores).
    "refer": Soak(
        module="binaries.refer",
        flagfile="tests/roles/soak_refer.flags",
        least_return=700.0,
        learner_kills=3,
        save_kills=4,
    ),
    # Random actions have a return of 11.5 (results/reported/reactor.csv).
    "apex_dqn": Soak(
        module="binaries.apex_dqn",
        flagfile="tests/roles/soak_apex_dqn.flags",
        least_return=500.0,
        minutes=14.0,
        quiet_seconds=120.0,
        actor_processes=4,
        actor_kills=20,
        replay_kills=3,
        save_kills=0,
        launcher_kills=0,
        freezes=0,
        full_disks=0,
    ),
}


def layout_of(soak: Soak) -> Layout:
    """Returns the layout of a soak's agent with its default setting."""
    agent = importlib.import_module(soak.module).AGENT
    return agent.layout(agent.settings.configuration(agent.settings.default))
