"""Executes a plan: one run after the other, each in a process of its own, in the foreground."""

from collections.abc import Callable
import dataclasses
import functools
import os
import signal
import subprocess

from common.cluster.processes import StopRequest, set_parent_death_signal
from common.experiments.plan import Plan, PlannedRun
from common.experiments.status import State

_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that is not finished although it should be, and why in one line."""

    run: PlannedRun
    reason: str


def execute(plan: Plan, stop: StopRequest, say: Callable[[str], None]) -> list[Failure]:
    """Makes the plan's missing runs and resumes the cut ones; leaves the finished ones alone.

    A run that fails does not end the plan. On `stop` the current run ends in order and no other
    starts. If this process dies, its run ends in order, too.

    Args:
      plan: to execute.
      stop: installed; call this function from the main thread.
      say: prints a line.

    Returns:
      The runs that failed, and those that the plan found unusable.
    """
    failures = [Failure(run, run.status.note) for run in plan.of(State.UNUSABLE)]
    for number, planned in enumerate(plan.to_do, 1):
        if stop.requested:
            break
        before = planned.look()  # hours may have passed since the plan
        if before.state is State.FINISHED:
            continue
        if before.state is State.UNUSABLE:
            failures.append(Failure(planned, before.note))
            continue
        going_on = " goes on" if before.state is State.CUT else ""
        say(f"[{number}/{len(plan.to_do)}] {planned.name}{going_on}")
        exit_code = _run(planned.command, stop)
        if not stop.requested:
            failure = _failure(planned, exit_code)
            failures += [failure] if failure else []
    return failures


def _failure(planned: PlannedRun, exit_code: int) -> Failure | None:
    after = planned.look()
    if after.state is State.FINISHED:
        return None
    return Failure(
        planned,
        after.note
        or (
            f"it ended with exit code {exit_code} before its budget was used up; its output is "
            f"above, its logs in {planned.directory / 'logs'}"
        ),
    )


def _run(command: list[str], stop: StopRequest) -> int:
    """Runs a program and returns its exit code; `stop` ends it in order.

    It leads a process group of its own. Otherwise Ctrl-C would reach it twice, which ends it
    without a checkpoint.
    """
    process = subprocess.Popen(
        command,
        process_group=0,
        preexec_fn=functools.partial(set_parent_death_signal, os.getpid(), signal.SIGTERM),
    )
    told = False
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if stop.requested and not told:
                process.terminate()
                told = True
        except KeyboardInterrupt:  # the second Ctrl-C
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
