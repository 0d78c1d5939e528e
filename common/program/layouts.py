"""Layouts that several papers share, with their flags. This module does not import TensorFlow."""

import dataclasses

from absl import flags

from common.cluster.layout import FlagValues, Layout, LayoutError, Role
from common.replay.footprint import MAX_SHARDS

flags.DEFINE_integer(
    "actor_processes",
    None,
    "Processes that share the actors; each runs the policies of its actors as one batch. Give all "
    "roles the same value. Default: with --role=local and ray a process for every second core, but "
    "at least one for each of --replay_shards; otherwise the number of actor tasks in TF_CONFIG. "
    "ReF-ER: no such process by default, so give it wherever actors run. Not in the paper (a core "
    "for each actor).",
    lower_bound=1,
)
flags.DEFINE_integer(
    "learner_threads",
    None,
    "Threads of the learner. Default: with --role=local and ray the cores that the actor processes "
    "do not use, because threads that share cores with actors slow each other down; otherwise all "
    "cores. Not in the paper (a GPU).",
    lower_bound=1,
)
flags.DEFINE_enum(
    "replay",
    "process",
    ["process", "learner"],
    "With --role=local, slurm and ray, the place of the replay memory: a separate process, as in "
    "the paper (Ape-X section 3), or the learner's process, which saves the calls between the two.",
)
flags.DEFINE_integer(
    "replay_shards",
    1,
    "With --role=local, slurm and ray, processes that share the replay memory. Each actor process "
    "adds to one of them; the learner samples from all. They fill evenly only if the same number "
    "of equally fast actors adds to each. With other roles TF_CONFIG lists them. Not in the paper "
    "(one replay server, Ape-X section 3).",
    lower_bound=1,
    upper_bound=MAX_SHARDS,
)
flags.DEFINE_integer(
    "evaluation_steps",
    None,
    "For runs of one process: learner steps from one evaluation to the next. That process then "
    "also evaluates, so that the run does not depend on the machine's speed. Default: another "
    "process evaluates, every --evaluation_seconds. Not in the paper.",
    lower_bound=1,
)


flags.DEFINE_integer(
    "worker_threads",
    None,
    "Threads of a worker. Default: with --role=local and ray its share of the cores, otherwise all "
    "cores. Not in the paper.",
    lower_bound=1,
)


_LEARNER = Role(
    "learner",
    is_called=True,
    max_tasks=1,
    run="common.roles.keeper:run",
    threads=lambda values, cores: values["learner_threads"] or cores,
    uses_gpu=True,
)
_ACTOR = Role(
    "actor",
    calls=("learner",),
    run="common.roles.actors:run_actor",
    local_tasks=lambda values: values["actor_processes"],
    acts=True,
)
_EVALUATOR = Role(
    "evaluator",
    calls=("learner",),
    max_tasks=1,
    run="common.roles.evaluator:run",
    outlives_keeper=True,
)


def _replay_tasks(values: FlagValues) -> int:
    if values["replay"] == "process":
        return values["replay_shards"]
    if values["replay_shards"] > 1:
        raise LayoutError(
            f"--replay_shards is {values['replay_shards']}, but --replay=learner has a single "
            "memory in the learner's process: drop one of the two flags"
        )
    return 0


def _share_cores(
    values: FlagValues, num_actors: int, cores: int, min_processes: int = 1
) -> FlagValues:
    """Returns defaults that give the learner the cores that no actor process uses."""
    processes = values["actor_processes"] or min(num_actors, max(cores // 2, min_processes))
    threads = values["learner_threads"] or max(1, cores - processes)
    return {"actor_processes": processes, "learner_threads": threads}


DISTRIBUTED = Layout(
    "learner, replay and actors",
    (
        dataclasses.replace(_LEARNER, calls=("replay",)),
        Role(
            "replay",
            is_called=True,
            host="learner",
            max_tasks=MAX_SHARDS,
            run="common.roles.replay:run",
            local_tasks=_replay_tasks,
            threads=lambda values, cores: min(2, cores),
        ),
        dataclasses.replace(_ACTOR, calls=("learner", "replay")),
        _EVALUATOR,
    ),
    flags=("actor_processes", "learner_threads", "replay", "replay_shards"),
    acting_flag="actor_processes",
    local_values=lambda values, actors, cores: _share_cores(
        values, actors, cores, values["replay_shards"]
    ),
    store="replay",
    memory="replay",
)
"""Layout with a learner, a replay and many actors (Ape-X figure 1, D4PG algorithm 1)."""

LEARNER_AND_ACTORS = Layout(
    "a learner and actors",
    (_LEARNER, _ACTOR, _EVALUATOR),
    flags=("actor_processes", "learner_threads"),
    acting_flag="actor_processes",
    local_values=_share_cores,
    store="learner",
    memory="learner",
)
"""Layout with actors that send to a queue in the learner's process (PPO, Heess et al.)."""

ACTORS_WITH_REPLAY = dataclasses.replace(
    LEARNER_AND_ACTORS,
    name="actors with replays of their own, and a learner",
    memory="actor",
    has_memory_per_actor=True,
)
"""Layout with actors that keep replays and a learner with a queue (AQL section 4, appendix A.1)."""

WORKERS = Layout(
    "workers and a parameter server",
    (
        Role(
            "parameter_server",
            is_called=True,
            max_tasks=1,
            run="common.roles.keeper:run",
            threads=lambda values, cores: min(2, cores),
        ),
        Role(
            "worker",
            calls=("parameter_server",),
            run="common.roles.actors:run_worker",
            local_tasks=lambda values: values["num_workers"],
            threads=lambda values, cores: values["worker_threads"] or cores,
            acts=True,
        ),
        dataclasses.replace(_EVALUATOR, calls=("parameter_server",)),
    ),
    flags=("worker_threads",),
    acting_flag="num_workers",
    local_values=lambda values, actors, cores: {
        "worker_threads": values["worker_threads"] or max(1, cores // actors)
    },
    memory="worker",
    has_memory_per_actor=True,
    applies_gradients=True,
)
"""Layout with workers that act, store and learn, and a parameter server (Reactor, section 3.4).

A worker has one actor, so the program's flag --num_workers counts both.
"""

ONE_PROCESS = Layout(
    "one process",
    (
        dataclasses.replace(_LEARNER, acts=True),
        dataclasses.replace(
            _EVALUATOR, local_tasks=lambda values: int(values["evaluation_steps"] is None)
        ),
    ),
    flags=("learner_threads", "evaluation_steps"),
    memory="learner",
    local_values=lambda values, actors, cores: {
        "learner_threads": values["learner_threads"] or cores
    },
)
"""Layout with one process that acts, stores and learns in turn, as in DDPG (D4PG section 4.1).

With --evaluation_steps it also evaluates in turn.
"""

CENTRAL = dataclasses.replace(
    ONE_PROCESS,
    name="a learner that acts, and actors that step its environments",
    roles=(
        dataclasses.replace(ONE_PROCESS.keeper, calls=("actor",)),
        dataclasses.replace(_ACTOR, run="common.roles.actors:run_environments", is_called=True),
        *ONE_PROCESS.roles[1:],
    ),
    flags=("actor_processes", *ONE_PROCESS.flags),
    acting_flag="actor_processes",
    chosen_by="actor_processes",
    local_values=_share_cores,
)
"""`ONE_PROCESS` with slow environments in other processes (ReF-ER, section 5.4).

The learner's process chooses every action, so actions always use the newest parameters.
"""

ONE_PROCESS_WITH_REPLAYS = dataclasses.replace(ONE_PROCESS, has_memory_per_actor=True)
"""`ONE_PROCESS` with a replay for each actor."""
