"""Gives each task of a Slurm step a role, and becomes that role.

    srun python -m common.program.slurm python -m binaries.d4pg --environment=... --workdir=...
    srun python -m common.program.slurm --replay_shards=2 python -m binaries.d4pg ...

Of the step's tasks one is the learner, one the evaluator, one the replay, or so many of them share
it; the others are actor processes. A token for all comes from the environment, see
`common.cluster.token`.
"""

import os
import sys

from common.cluster.errors import ClusterError
from common.cluster.topology import Topology
from common.replay.key_layout import MAX_SHARDS
from common.reporting.command_line import fail

_SHARDS_FLAG = "--replay_shards="
_PORTS, _FIRST_PORT, _LAST_PORT = 64, 20_000, 32_000
"""A job's ports follow from its number, so that jobs on one node seldom meet; Linux gives those
above to clients."""


def topology(replay_shards: int = 1) -> Topology:
    """This task's place, from the variables that Slurm sets.

    Args:
      replay_shards: tasks that share the replay; there are at least as many actor processes.

    Raises:
      ClusterError: this is no Slurm step, or it has too few tasks.
    """
    tasks = _number("SLURM_STEP_NUM_TASKS")
    jobs = {"learner": 1, "replay": replay_shards, "evaluator": 1}
    actors = tasks - sum(jobs.values())
    if actors < replay_shards:
        raise ClusterError(
            f"the Slurm step has {tasks} tasks: give srun at least --ntasks={2 + 2 * replay_shards}"
            f", for the learner, the evaluator, {replay_shards} x the replay and as many actor "
            "processes or more"
        )
    job_number = _number("SLURM_JOB_ID")
    port = _FIRST_PORT + _PORTS * (job_number % ((_LAST_PORT - _FIRST_PORT) // _PORTS))
    local = _number("SLURM_LOCALID")
    import tensorflow as tf  # takes seconds, so a mistake comes before

    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            jobs={**jobs, "actor": actors},
            port_base=port,
            # It leaves out tasks that get no GPU, so each seems to get one; Slurm gives the real.
            gpus_per_node=tasks,
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        cluster = resolver.cluster_spec().as_dict()
    except (RuntimeError, ValueError) as error:
        raise ClusterError(f"Slurm's variables do not describe a step: {error}") from None
    # Not by the resolver's rank: it sorts nodes by name, which need not be Slurm's order.
    own = f"{os.environ.get('SLURMD_NODENAME')}:{port + local}"
    for job, addresses in cluster.items():
        if own in addresses:
            return Topology(cluster, job, addresses.index(own))
    raise ClusterError(
        f"this task would be {own}, which is none of the step's: SLURMD_NODENAME and SLURM_LOCALID "
        "must be those that srun sets"
    )


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    if not text.isdigit():
        raise ClusterError(f"{variable} is {text!r}, no number: start this with srun")
    return int(text)


def main(arguments: list[str]) -> None:
    """Replaces this process by the command in its arguments, with its role."""
    shards, command = "1", arguments
    if command and command[0].startswith(_SHARDS_FLAG):
        shards, command = command[0].removeprefix(_SHARDS_FLAG), command[1:]
    if not shards.isdigit() or not 1 <= int(shards) <= MAX_SHARDS:
        raise ClusterError(
            f"--replay_shards must be a whole number in [1, {MAX_SHARDS}], is {shards or repr('')}"
        )
    if not command:
        raise ClusterError("there is no command: srun python -m common.program.slurm COMMAND ...")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    task = topology(int(shards))
    os.environ["TF_CONFIG"] = task.to_tf_config(task.job, task.index)
    try:
        os.execvp(command[0], [*command, f"--role={task.job}"])
    except OSError as error:
        raise ClusterError(f"cannot start {command[0]}: {error.strerror}") from None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ClusterError as failure:
        fail(str(failure))
