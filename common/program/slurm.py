"""Assignment of the tasks of a Slurm step to the roles of a run.

    srun python -m binaries.d4pg --role=slurm --environment=... --workdir=...

Each role of the layout gets as many tasks as in a local run; the acting role gets all others. The
cluster's token comes from the environment; see `common.cluster.credentials`.
"""

from collections.abc import Sequence
import os
import shlex
import sys

from common.cluster.errors import ClusterError
from common.cluster.layout import FlagValues, Layout
from common.cluster.topology import Topology
from common.program.task import ProgramRun

_PORTS, _FIRST_PORT, _LAST_PORT = 64, 20_000, 32_000
"""Ports per Slurm step and their range. The numbers of job and step select the ports, so that steps
on the same node rarely collide. Linux assigns higher ports to clients."""
_STEP = 60
"""A job's next step uses the ports of the job this many numbers later, since jobs with consecutive
numbers often share a node."""


def run_task(run: ProgramRun) -> None:
    """Replaces this process by its role in the Slurm step."""
    task = topology(run.layout, run.values, run.num_actors)
    os.environ["TF_CONFIG"] = task.to_tf_config(task.job, task.index)
    command = [sys.executable, "-m", run.agent.module, *sys.argv[1:], f"--role={task.job}"]
    os.execv(sys.executable, command)


def topology(layout: Layout, values: FlagValues, num_actors: int) -> Topology:
    """Returns the cluster and this process's task, from the variables that Slurm sets.

    Args:
      layout: the run's layout.
      values: values of the layout's own flags.
      num_actors: number of actors in the whole run.

    Raises:
      ClusterError: this is not a Slurm step, or its number of tasks does not fit the layout.
    """
    num_tasks = _number("SLURM_STEP_NUM_TASKS")
    acting = layout.acting_role
    jobs = {role.name: role.local_tasks(values) for role in layout.roles if role is not acting}
    jobs[acting.name] = num_tasks - sum(jobs.values())
    if not 1 <= jobs[acting.name] <= (acting.max_tasks or num_tasks):
        others = ", ".join(f"{jobs[name]} x {name}" for name in jobs if name != acting.name)
        needed = num_tasks - jobs[acting.name] + 1
        raise ClusterError(
            f"the Slurm step has {num_tasks} tasks: use srun --ntasks={needed}, for {others} and "
            f"1 x {acting.name}{'' if acting.max_tasks else ', or more'}"
        )
    layout.require_tasks(jobs, num_actors)
    number = _number("SLURM_JOB_ID") + _STEP * _number("SLURM_STEP_ID")
    port = _FIRST_PORT + _PORTS * (number % ((_LAST_PORT - _FIRST_PORT) // _PORTS))
    local = _number("SLURM_LOCALID")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf  # takes seconds, so mistakes are reported first

    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            jobs={name: count for name, count in jobs.items() if count},
            port_base=port,
            # The resolver drops tasks without a GPU, so it is told that each has one. Slurm itself
            # assigns the real GPUs.
            gpus_per_node=num_tasks,
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        cluster = resolver.cluster_spec().as_dict()
    except (RuntimeError, ValueError) as error:
        raise ClusterError(f"Slurm's variables do not describe a step: {error}") from None
    # The resolver's rank is not usable: it sorts nodes by name, and Slurm's order may differ.
    own = f"{os.environ.get('SLURMD_NODENAME')}:{port + local}"
    for job, addresses in cluster.items():
        if own in addresses:
            return Topology(layout.roles, cluster, job, addresses.index(own))
    raise ClusterError(
        f"this task would be {own}, which does not belong to the Slurm step: keep the values of "
        "SLURMD_NODENAME and SLURM_LOCALID that srun sets"
    )


def array_script(commands: Sequence[Sequence[str]], name: str, at_once: int | None) -> str:
    """Returns a script for `sbatch` that runs a command in each task of an array job.

    A task that Slurm stops or moves to another node resumes its run when it starts again.

    Args:
      commands: command lines, at least one.
      name: name of the job.
      at_once: maximum number of tasks at the same time; None: Slurm decides.
    """
    limit = f"%{at_once}" if at_once else ""
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={shlex.quote(name)}",
            f"#SBATCH --array=0-{len(commands) - 1}{limit}",
            "#SBATCH --output=%x-%A_%a.log",
            "#SBATCH --open-mode=append",
            "#SBATCH --requeue",
            "#SBATCH --signal=B:TERM@120  # two minutes for the last checkpoint",
            "# Add --time, --cpus-per-task, --mem and --partition here, or give them to sbatch.",
            f"cd {shlex.quote(os.getcwd())}",
            "commands=(",
            *(f"  {shlex.quote(shlex.join(command))}" for command in commands),
            ")",
            'eval "exec ${commands[$SLURM_ARRAY_TASK_ID]}"',
            "",
        ]
    )


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    if not text.isdigit():
        raise ClusterError(f"{variable} is {text!r}, not a number: start this program with srun")
    return int(text)
