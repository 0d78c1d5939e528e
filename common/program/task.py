"""One task of a role: a process of a run, whose cluster TF_CONFIG describes.

Importing this module imports neither TensorFlow nor NumPy, since a role sets its threads before
either reads them.
"""

from collections.abc import Callable
import json
import os
import sys
from typing import Any, NoReturn

from absl import logging

from common.cluster import probe, processes
from common.cluster import token as token_lib
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.launcher import FINAL_CODE
from common.cluster.layout import imported
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.program import flags as flags_lib
from common.program import resources
from common.program.flags import UsageError
from common.program.program_run import ProgramRun
from common.reporting.command_line import fail

START_VARIABLE = "REPLAY_RL_START"
"""The user's command line and changed flags as JSON; a launcher adds flags that are not his."""


def run_task(run: ProgramRun) -> NoReturn:
    """Becomes one task of a role, whose cluster TF_CONFIG describes."""
    layout, role = run.layout, run.layout.role(flags_lib.ROLE.value)
    topology = Topology.from_environment(layout.roles)
    if topology.job != role.name:
        raise ClusterError(
            f"--role={role.name}, but the task of TF_CONFIG is {topology.job}: they must agree"
        )
    tasks = {job: len(addresses) for job, addresses in topology.cluster.items()}
    acting = layout.acting_role
    acting_tasks = run.values.get(layout.acting_flag) or tasks.get(acting.name, 0)
    listed = tasks.get(acting.name, acting_tasks)
    if listed != acting_tasks:
        raise ClusterError(
            f"--{layout.acting_flag} is {acting_tasks}, but TF_CONFIG lists {listed} tasks of "
            f"{acting.name}: make them equal"
        )
    if acting_tasks:  # tasks that come and go need not be known here
        layout.check({**tasks, acting.name: acting_tasks})
    partners = topology.partners
    token = token_lib.load()
    threads = role.threads(run.values, processes.usable_cores())
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not role.uses_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ.update(processes.thread_environment(threads))  # before NumPy
    actors = range(0)
    if role is acting:
        actors = layout.actors_of(topology.index, acting_tasks, run.num_actors)
    elif role.acts:
        actors = range(run.num_actors)
    share = role.replay_share(topology, len(actors))
    spec, need = run.inspect_environment(share, len(actors), has_queue=role is layout.keeper)
    saves_replay = False
    if any(need):
        line, saves_replay = resources.check(
            need,
            run.directory.path,
            flags_lib.IGNORE_RESOURCES.value,
            flags_lib.CHECKPOINT_REPLAY.value,
        )
        logging.info("%s", line)
    stop = StopRequest().install()
    patience_seconds = 60 * flags_lib.PATIENCE_MINUTES.value
    processes.Patience.default_seconds = patience_seconds
    for address in partners:
        probe.check(address, patience_seconds=min(10.0, patience_seconds))
    run.directory.open(run.record)
    try:
        processes.limit_threads(threads)
    except RuntimeError:
        logging.warning("the environment runs TensorFlow: the threads of this role are not limited")
    from common.environments import BrokenSpecError, UnusableEnvironmentError
    from common.learning.checkpoint import CheckpointError
    from common.replay.library import ReplayLibraryError
    from common.roles.run_context import RunContext

    identity = {
        **run.record,
        **({f"tasks of {acting.name}": acting_tasks} if acting_tasks else {}),
        **spec._asdict(),
        "cluster": {
            job.name: topology.addresses(job.name) for job in layout.roles if job.is_called
        },
    }
    try:
        agent = imported(run.agent.agent_class)(run.config, run.setting)
        credentials = Credentials(token, role.name, identity)
        _greet(partners, credentials)
        context = RunContext(
            agent,
            run.environment,
            spec,
            layout,
            topology,
            credentials,
            run.directory,
            flags_lib.SEED.value,
            actors,
            run.num_actors,
            flags_lib.limits(),
            flags_lib.CHECKPOINT_SECONDS.value,
            flags_lib.EVALUATION_EPISODES.value,
            flags_lib.FINAL_EPISODES.value or flags_lib.EVALUATION_EPISODES.value,
            flags_lib.EVALUATION_SECONDS.value,
            saves_replay,
            run.values,
            stop,
        )
        if stop.requested:
            sys.exit(stop.exit_code)  # before anything is made that has to be saved
        if role is layout.keeper:
            _keep(run, context, role.function())
        else:
            role.function()(context)
    except BrokenSpecError as error:
        fail(str(error), FINAL_CODE)
    except (ReplayLibraryError, CheckpointError, UnusableEnvironmentError) as error:
        raise UsageError(str(error)) from None
    if role is layout.last_role and not stop.requested:
        from common.reporting import result

        print(result.of(run.directory, run.title, finished=True), flush=True)
    sys.exit(stop.exit_code)


def _keep(run: ProgramRun, context, function: Callable[[Any], None]) -> None:
    """Runs the role that keeps the run, and records its start and its end in run.json."""
    launched = os.environ.get(START_VARIABLE)
    command, changed = json.loads(launched) if launched else (sys.orig_argv, run.changed)
    with run.directory.hold_checkpoints(run.layout.keeper.name):
        run.directory.write_run_record(
            seed=flags_lib.SEED.value,
            scale=flags_lib.SCALE.value or f"{run.num_actors} actors",
            scale_changes=flags_lib.SCALE_CHANGES.value,
            budget=flags_lib.limits(),
            changed=changed,
            command=command,
        )

        def record_stop() -> None:
            logging.info("stopped without a checkpoint: nothing has been learnt since the start")
            run.directory.close_run_record("stopped")

        context.stop.end_within(processes.UNLEARNT_SECONDS, record_stop)
        outcome = "failed"
        try:
            function(context)
            outcome = "stopped" if context.stop.requested else "finished"
        finally:
            run.directory.close_run_record(outcome)


def _greet(partners: tuple[str, ...], credentials: Credentials) -> None:
    """Raises what partners refuse this role for, before it has made anything.

    Those that are not there yet refuse it at its first call.
    """
    from common.cluster import rpc

    for address in partners:
        try:
            probe.probe(address)  # quicker than a client where nothing listens
            rpc.Client(address, credentials).wait_until_available(5.0)
        except ServiceUnavailableError as error:
            logging.info("not yet: %s", error)
