"""What a run will need of memory and disk, beside what there is, before it starts.

The memory reserves address space and fills over hours, so a machine that is too small would end a
run late and without a word. The constants were measured, with the locked packages, on Linux; see
the README, "What a run needs".
"""

import dataclasses
import math
import pathlib

from common.cluster.errors import ClusterError
from common.program import available
from common.replay.footprint import HARD_CAPACITY, WITH_REMOVALS, memory_bytes

_MB = 10**6
_LIBRARIES = 460 * _MB
"""TensorFlow's and the simulator's, mapped by all processes of a machine together."""
_PROCESS = 300 * _MB
"""A process with TensorFlow, without the above."""
_COMPILER = 400 * _MB
"""What the learner has besides, once XLA has compiled the update."""
_LAUNCHER = 70 * _MB
_ENVIRONMENT = 13 * _MB
"""One of the suite whose environments take most, the Control Suite."""
_CHECKPOINTS = 3
"""Two that are kept, and the one being written."""
_DISK_AN_HOUR = 5 * _MB
"""CSV rows, TensorBoard events and logs; four times what was seen."""
_DISK_AT_START = 2 * _MB
_DEFAULT_HOURS = 24.0
_CLOSE = 0.8


class NotEnoughError(ClusterError):
    """The machine cannot hold the run; one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What of an agent takes room.

    bytes_per_step: of a stored step, as `memory_bytes` wants them.
    replay_capacity: steps of a full memory, all of its shards together.
    parameters: of all networks that are learnt, float32.
    moments: numbers that the optimiser keeps for each parameter; Adam has two.
    soft_capacity: whether more steps are kept until the learner has them removed.
    ahead_bytes: of the samples that the learner holds ahead of itself.
    copies: of each transition, in the replay.
    """

    bytes_per_step: int
    replay_capacity: int
    parameters: int
    moments: int = 2
    soft_capacity: bool = False
    ahead_bytes: int = 0
    copies: int = 1

    @property
    def learner_bytes(self) -> int:
        """Networks, targets and moments, float32: what a checkpoint holds."""
        return 4 * (2 + self.moments) * self.parameters


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is started on this machine.

    processes: that run TensorFlow. environments: in all of them.
    environment_bytes: of an environment, None where its suite does not say.
    learner: whether it is among them. launcher: whether they have one.
    replay: how many of the replay's `shards` they keep.
    max_actor_steps: of the run, None if there is no such limit.
    hours: how long the run lasts at most, None if that is open.
    """

    processes: int
    environments: int
    learner: bool
    replay: int
    shards: int = 1
    launcher: bool = False
    max_actor_steps: int | None = None
    hours: float | None = None
    environment_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class Needs:
    """Bytes of memory, of which the replay's when it is full; bytes of disk.

    away: what a replay of soft capacity takes besides if the learner, who removes, is away for
      long.
    """

    memory: int
    replay: int
    disk: int
    away: int = 0


def needs(sizes: Sizes, plan: Plan) -> Needs:
    """Estimates what `plan` takes in the end. Rather too much than too little."""
    full = most = sizes.replay_capacity
    if sizes.soft_capacity:
        full, most = math.ceil(WITH_REMOVALS * full), HARD_CAPACITY * full

    def replay_bytes(steps: int) -> int:
        steps = min(steps, sizes.copies * (plan.max_actor_steps or steps))
        return plan.replay * memory_bytes(
            *(math.ceil(one / plan.shards) for one in (steps, most)), sizes.bytes_per_step
        )

    replay = replay_bytes(full)
    # An actor holds its networks and their packed and its NumPy copies: as much as the learner has.
    process = _PROCESS + sizes.learner_bytes
    learner = _COMPILER + sizes.ahead_bytes
    environment = _ENVIRONMENT if plan.environment_bytes is None else plan.environment_bytes
    memory = (
        _LIBRARIES
        + plan.launcher * _LAUNCHER
        + plan.processes * process
        + plan.learner * learner
        + plan.environments * environment
        + replay
    )
    disk = 0
    if plan.learner:
        hours = _DEFAULT_HOURS if plan.hours is None else plan.hours
        disk = round(_DISK_AT_START + _CHECKPOINTS * sizes.learner_bytes + hours * _DISK_AN_HOUR)
    return Needs(memory, replay, disk, away=replay_bytes(most) - replay)


def check(replay_bytes, directory, ignore):
    return f"replay {replay_bytes} bytes"


def old_check(sizes: Sizes, plan: Plan, workdir: pathlib.Path, ignore: bool) -> str:
    """Returns a line that says what is needed and what there is.

    Args:
      workdir: the run's directory, which need not exist yet.
      ignore: say so, but do not refuse.

    Raises:
      NotEnoughError: memory or disk would not suffice.
    """
    wanted = needs(sizes, plan)
    return compare(wanted, plan, available.memory(), available.disk(workdir), workdir, ignore)


def compare(
    wanted: Needs,
    plan: Plan,
    memory: int | None,
    disk: int | None,
    workdir: pathlib.Path,
    ignore: bool,
) -> str:
    """`check` on a machine that has so many bytes left; None where that is not known."""
    parts = [f"replay {size(wanted.replay)} when full"] if wanted.replay else []
    if wanted.away:
        parts[0] += f", up to {size(wanted.replay + wanted.away)} while the learner is away"
    parts.append(f"{plan.processes} {'processes' if plan.processes > 1 else 'process'}")
    line = f"needs about {size(wanted.memory)} of memory ({', '.join(parts)})"
    line += _of(memory, "available")
    if wanted.disk:
        line += f", {size(wanted.disk)} of disk" + _of(disk, "free")
    short = {}
    if memory is not None and wanted.memory > memory:
        short["memory"] = _less_memory(wanted, plan)
    if disk is not None and wanted.disk > disk:
        short["disk"] = f"give --workdir another disk than that of {workdir}"
    if short and not ignore:
        raise NotEnoughError(
            f"not enough {' and '.join(short)}, {line}: {'; '.join(short.values())}; "
            "--ignore_resources starts it nevertheless"
        )
    if short:
        return f"{line}: not enough {' and '.join(short)}, ignored"
    if memory is not None and wanted.memory > _CLOSE * memory:
        return f"{line}: this may become tight"
    if memory is not None and wanted.memory + wanted.away > memory:
        return (
            f"{line}: too little if the learner, who removes from the replay, is away for long;"
            " to be safe, lower --config.replay_capacity"
        )
    return line


def size(number: int) -> str:
    """Bytes for people: "40 MB", "3.1 GB", "120 GB"."""
    if number < 10**9:
        return f"{max(1, round(number / 10**6))} MB"
    return f"{number / 10**9:.{1 if number < 10**10 else 0}f} GB"


def _of(there: int | None, what: str) -> str:
    return "" if there is None else f" of {size(there)} {what}"


def _less_memory(wanted: Needs, plan: Plan) -> str:
    """What the user can do about it."""
    flags = ["--config.replay_capacity"] if wanted.replay else []
    flags += ["--num_actors", "--actor_processes"] if plan.launcher else []
    lower = f"lower {', '.join(flags)}, or " if flags else ""
    return lower + ("give --replay=learner" if plan.launcher else "use a larger machine")
