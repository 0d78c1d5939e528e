"""The layouts of several papers, with their flags. This module does not import TensorFlow."""

from collections.abc import Mapping

from absl import flags

from common.program.layout import FlagValues, Layout, LayoutError, Role
from common.replay.key_layout import MAX_SHARDS

flags.DEFINE_integer(
    "actor_processes",
    None,
    "Processes that share the actors among them; each evaluates the policies of its actors as one "
    "batch. The same for all roles. Default: with --role=local one for every second core, or as "
    "many as --replay_shards if that is more; else the actors that TF_CONFIG lists. Not in the "
    "paper (a core for each actor).",
    lower_bound=1,
)
flags.DEFINE_integer(
    "learner_threads",
    None,
    "Threads of the learner. Default: with --role=local the cores that the actor processes leave "
    "over, else all: threads that wait for each other lose more to actors on their cores than they "
    "gain. Not in the paper (a GPU).",
    lower_bound=1,
)
flags.DEFINE_enum(
    "replay",
    "process",
    ["process", "learner"],
    "With --role=local, where the replay memory is: in a process of its own, as in the paper "
    "(Ape-X section 3), or in the learner's, which saves the calls between them.",
)
flags.DEFINE_integer(
    "replay_shards",
    1,
    "With --role=local, processes that share the replay memory among them; each actor process adds "
    "to one of them, the learner draws from all. They fill evenly only if as many actors, of equal "
    "speed, add to each. Otherwise TF_CONFIG lists them. Not in the paper (one replay server, "
    "Ape-X section 3).",
    lower_bound=1,
    upper_bound=MAX_SHARDS,
)


def _learner_threads(values: FlagValues, cores: int) -> int:
    return values["learner_threads"] or cores


_EVALUATOR = Role(
    "evaluator", calls=("learner",), run="common.roles.evaluator:run", outlives_keeper=True
)


def _replay_tasks(values: FlagValues) -> int:
    return values["replay_shards"] if values["replay"] == "process" else 0


def _local_values(values: FlagValues, num_actors: int, cores: int) -> FlagValues:
    """Gives the learner the cores that the actor processes leave over."""
    if values["replay"] == "learner" and values["replay_shards"] > 1:
        raise LayoutError(
            f"--replay_shards is {values['replay_shards']}, but with --replay=learner there is one "
            "memory, in the learner's process: leave one of them out"
        )
    processes = values["actor_processes"] or min(
        num_actors, max(cores // 2, values["replay_shards"])
    )
    threads = values["learner_threads"] or max(1, cores - processes)
    return {"actor_processes": processes, "learner_threads": threads}


def _check_shards(tasks: Mapping[str, int]) -> None:
    replays, processes = tasks.get("replay", 0), tasks.get("actor", 0)
    if processes and replays > processes:
        raise LayoutError(
            f"there are {replays} replays, but each actor process adds to one of them and there "
            f"are {processes}: have fewer replays (--replay_shards, or the replay tasks of "
            "TF_CONFIG), or raise --actor_processes"
        )


DISTRIBUTED = Layout(
    "learner, replay and actors",
    (
        Role(
            "learner",
            calls=("replay",),
            is_called=True,
            max_tasks=1,
            run="common.roles.learner:run",
            threads=_learner_threads,
            uses_gpu=True,
            replay_share=lambda topology: float(topology.hosts("replay")),
        ),
        Role(
            "replay",
            is_called=True,
            host="learner",
            max_tasks=MAX_SHARDS,
            run="common.roles.replay:run",
            local_tasks=_replay_tasks,
            threads=lambda values, cores: min(2, cores),
            replay_share=lambda topology: 1 / len(topology.service("replay")),
        ),
        Role(
            "actor",
            calls=("learner", "replay"),
            run="common.roles.actor:run",
            local_tasks=lambda values: values["actor_processes"],
            acts=True,
        ),
        _EVALUATOR,
    ),
    flags=("actor_processes", "learner_threads", "replay", "replay_shards"),
    local_values=_local_values,
    check=_check_shards,
)
"""A learner, a replay and many actors (Ape-X figure 1, D4PG algorithm 1)."""

ONE_PROCESS = Layout(
    "one process",
    (
        Role(
            "learner",
            is_called=True,
            max_tasks=1,
            run="common.roles.in_process:run",
            threads=_learner_threads,
            acts=True,
            uses_gpu=True,
            replay_share=lambda topology: 1.0,
        ),
        _EVALUATOR,
    ),
    flags=("learner_threads",),
    local_values=lambda values, actors, cores: {
        "learner_threads": values["learner_threads"] or cores
    },
)
"""A process that acts and learns in turns and keeps the replay, as DDPG does (D4PG section 4.1)."""
