"""A run of an agent's program, and the execution of one of its tasks, which TF_CONFIG describes.

Importing this module imports neither TensorFlow nor NumPy, because a role sets its number of
threads before either library reads it.
"""

from collections.abc import Callable
import dataclasses
import functools
import json
import os
import pathlib
import shlex
import sys
from typing import Any, NoReturn

from absl import flags, logging

from common.agents.declaration import AgentDeclaration
from common.cluster import credentials as credentials_lib
from common.cluster import processes
from common.cluster import topology as topology_lib
from common.cluster.credentials import Credentials
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.launcher import FINAL_CODE
from common.cluster.layout import FlagValues, Layout, Role, imported
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.config import Config
from common.program import flags as flags_lib
from common.program import resources
from common.program.flags import UsageError
from common.program.resources import Need
from common.reporting.budget import Budget
from common.reporting.command_line import fail
from common.reporting.records import when_there_is_room
from common.reporting.run_directory import RunDirectory, RunInUseError


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """A run of an agent's program, as its flags describe it.

    Attributes:
      agent: declaration of the agent.
      config: the hyperparameters.
      setting: name of the setting, with a suffix for each changed hyperparameter that has one.
      num_actors: number of actors in the whole run.
      layout: the processes of the run.
      values: values of the layout's own flags and of the number of actors, by flag name.
      environment: name of the environment.
      directory: the run directory.
    """

    agent: AgentDeclaration
    config: Config
    setting: str
    num_actors: int
    layout: Layout
    values: FlagValues
    environment: str
    directory: RunDirectory

    @property
    def record(self) -> dict[str, Any]:
        """The identity of the run for config.json, without its limits and machines."""
        return {
            "paper": self.agent.paper,
            "agent": self.agent.name,
            "setting": self.setting,
            "environment": self.environment,
            "seed": flags_lib.SEED.value,
            "num_actors": self.num_actors,
            "config": dict(vars(self.config)),
        }

    def open_directory(self) -> None:
        """Creates the run directory, or checks that it holds this run; see `RunDirectory.open`."""
        self.directory.open(self.record, type(self.config))

    def check_resources(self, need: Need) -> tuple[str, bool]:
        """Returns a line about the resources needed here, and whether the replay is saved.

        Raises:
          ClusterError: memory or disk do not suffice.
        """
        ignore, saves = flags_lib.IGNORE_RESOURCES.value, flags_lib.CHECKPOINT_REPLAY.value
        return resources.check_resources(need, self.directory.path, ignore, saves)

    @property
    def limits(self) -> Budget:
        """The limits of the run."""
        return Budget(
            flags_lib.MAX_MINUTES.value,
            flags_lib.MAX_ACTOR_STEPS.value,
            flags_lib.MAX_LEARNER_STEPS.value,
            flags_lib.STOP_AT_RETURN.value,
        )

    @property
    def min_replay_size(self) -> int:
        """Items that all replays together need before the first update."""
        least = getattr(self.config, "min_replay_size", 0)
        return self.layout.num_memories(self.num_actors) * least

    @property
    def title(self) -> str:
        """Agent and environment, for people."""
        return f"{self.agent.name} on {self.environment}"

    @property
    def changed(self) -> dict[str, Any]:
        """Flags that the user set, for run.json; changed hyperparameters are "config.NAME"."""
        chosen = self.agent.settings.configuration(flags.FLAGS.setting)
        values = dataclasses.asdict(self.config)
        return flags_lib.changed() | {
            f"config.{name}": value
            for name, value in values.items()
            if value != getattr(chosen, name)
        }

    def inspect_environment(
        self,
        share: float = 0.0,
        num_environments: int = 0,
        has_queue: bool = False,
        is_launch: bool = False,
    ) -> tuple[Any, Need]:
        """Returns the environment's spec, and the bytes that a machine or process needs.

        Args:
          share: number of replays of the configured size held there; less than 1 for a shard.
          num_environments: number of environments there.
          has_queue: whether the learner's queue, if there is one, is held there.
          is_launch: whether this process starts the run. It then reads the file of --starts, and
            prints a line if a user's environment is probably wrong for the agent.

        Raises:
          UserError: there is no such environment, the agent cannot act in it, the file of --starts
            has no start states for it, or a user's environment fails.
        """
        from common import environments
        from common.environments import start_states, watch

        watch.limit_seconds = flags_lib.ENVIRONMENT_SECONDS.value
        seed, frames = flags_lib.SEED.value, self.agent.num_frames
        verbosity = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)  # simulators log messages at their import
        try:
            with environments.opened(self.environment, seed, frames) as environment:
                if is_launch and flags_lib.STARTS.value:
                    start_states.read(pathlib.Path(flags_lib.STARTS.value), self.environment)
                if is_launch and self.environment.startswith(("gym:", "python:")):
                    self._advise(environment)
                return self._inspect(environment, share, num_environments, has_queue)
        finally:
            logging.set_verbosity(verbosity)

    def _advise(self, environment: Any) -> None:
        """Prints the first problem that a moment of random play shows, if any."""
        from common.environments import advice

        seen = advice.play(self.environment, environment, max_steps=1_000, max_seconds=0.5)
        for line in filter(None, (*advice.faults(seen), advice.return_range(seen, self.config))):
            check = f"python -m binaries.environments --check {shlex.quote(self.environment)}"
            print(f"advice: {line} ({check} may say more)", file=sys.stderr, flush=True)
            break

    def _inspect(
        self, environment: Any, share: float, num_environments: int, has_queue: bool
    ) -> tuple[Any, Need]:
        """Returns the result of `inspect_environment` for an open environment."""
        from common.environments.spec import EnvironmentSpec

        spec = EnvironmentSpec.of(environment)
        try:
            self.agent.require_spec(self.config, spec)
        except ValueError as error:
            raise UsageError(str(error)) from None
        engines = num_environments * getattr(environment, "engine_bytes", 0)
        replay = queue = 0.0
        if share:
            steps = resources.replay_steps(
                share,
                getattr(self.config, "replay_capacity", 0),
                getattr(self.config, "num_copies", 1),
                flags_lib.MAX_ACTOR_STEPS.value,
            )
            replay = steps * self.agent.bytes_per_step(self.config, spec, environment)
        if has_queue:
            queue = self.agent.queue_bytes(self.config, spec, environment)
        return spec, Need(round(replay), engines, round(queue))


START_VARIABLE = "REPLAY_RL_START"
"""Environment variable with the user's command line and changed flags as JSON. The command lines of
roles also have the launcher's flags."""


def run_task(run: ProgramRun) -> NoReturn:
    """Runs one task of a role in the cluster that TF_CONFIG describes, and ends the process."""
    layout, role = run.layout, run.layout.role(flags_lib.ROLE.value)
    _require_work(run, role)
    topology = Topology.from_environment(layout.roles)
    acting_tasks = _acting_tasks(run, topology)
    token = credentials_lib.load_token()
    threads = role.threads(run.values, processes.usable_cores())
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not role.uses_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ.update(processes.thread_environment(threads))  # before NumPy is imported
    processes.seed_generators(flags_lib.SEED.value, role.name, topology.index)
    actors = range(0)
    if role is layout.acting_role:
        actors = layout.actors_of(topology.index, acting_tasks, run.num_actors)
    elif role.acts:
        actors = range(run.num_actors)
    share = layout.memory_share(topology, len(actors))
    spec, need = run.inspect_environment(share, len(actors), has_queue=role is layout.keeper)
    saves_replay = False
    if any(need):
        line, saves_replay = run.check_resources(need)
        logging.info("%s", line)
    stop = StopRequest().install()
    patience_seconds = 60 * flags_lib.PATIENCE_MINUTES.value
    processes.Patience.default_seconds = patience_seconds
    for address in topology.partners:
        topology_lib.check_service(address, patience_seconds=min(10.0, patience_seconds))
    run.open_directory()
    try:
        processes.limit_threads(threads)
    except RuntimeError:
        logging.warning(
            "the environment has used TensorFlow: this role's threads cannot be limited"
        )
    from common.environments import BrokenSpecError, watch
    from common.roles.run_context import RunContext

    try:
        agent = imported(run.agent.agent_class)(run.config, run.setting)
        credentials = Credentials(token, role.name, _identity(run, topology, spec, acting_tasks))
        _greet(topology.partners, credentials)
        source, starts = flags_lib.INIT_FROM.value, flags_lib.STARTS.value
        context = RunContext(
            agent=agent,
            environment=run.environment,
            spec=spec,
            layout=layout,
            topology=topology,
            credentials=credentials,
            directory=run.directory,
            seed=flags_lib.SEED.value,
            actors=actors,
            num_actors=run.num_actors,
            limits=run.limits,
            checkpoint_seconds=flags_lib.CHECKPOINT_SECONDS.value,
            evaluation_episodes=flags_lib.EVALUATION_EPISODES.value,
            final_episodes=flags_lib.FINAL_EPISODES.value or flags_lib.EVALUATION_EPISODES.value,
            evaluation_seconds=flags_lib.EVALUATION_SECONDS.value,
            episode_steps=flags_lib.MAX_EPISODE_STEPS.value,
            saves_replay=saves_replay,
            values=run.values,
            stop=stop,
            keeps_replay=flags_lib.KEEP_REPLAY.value,
            film_every=flags_lib.FILM_EVERY.value or 0,
            keep_every=flags_lib.KEEP_CHECKPOINTS_EVERY.value or 0,
            init_from=pathlib.Path(source) if source else None,
            start_states=pathlib.Path(starts) if starts else None,
        )
        if stop.requested:
            sys.exit(stop.exit_code)  # nothing exists yet that has to be saved
        function = imported(role.run)
        if role is layout.keeper:
            _keep(run, context, function)
        else:
            context.run(function)
    except BrokenSpecError as error:
        fail(str(error), FINAL_CODE)
    except RunInUseError:
        if not stop.requested:  # a stop ends the wait for the checkpoints' lock
            raise
    if role is layout.last_role(run.values) and not stop.requested:
        from common.reporting import progress

        print(progress.result_of(run.directory, run.title, finished=True), flush=True)
    end = functools.partial(watch.end_process, code=stop.exit_code)
    try:
        with watch.Call(run.environment, "close()", end):
            context.closing.close()
    except Exception:  # pylint: disable=broad-except
        logging.exception("all files are written, but closing %s failed", run.environment)
    sys.exit(stop.exit_code)


def _require_work(run: ProgramRun, role: Role) -> None:
    """Raises UsageError if the layout's flags leave a role without a task."""
    if role is run.layout.acting_role or role.local_tasks(run.values):
        return
    reasons = [
        f"--{name}={value}"
        for name, value in run.values.items()
        if role.local_tasks({**run.values, name: flags.FLAGS[name].default})
    ]
    raise UsageError(
        f"--role={role.name} has nothing to do in a run with {' '.join(reasons)}: do not start it"
    )


def _acting_tasks(run: ProgramRun, topology: Topology) -> int:
    """Returns the number of acting tasks; TF_CONFIG may leave them out, because they come and go.

    Raises:
      ClusterError: TF_CONFIG and the flags disagree.
    """
    layout, role = run.layout, flags_lib.ROLE.value
    if topology.job != role:
        raise ClusterError(
            f"--role={role}, but the task of TF_CONFIG is {topology.job}: they must agree"
        )
    tasks = {job: len(addresses) for job, addresses in topology.cluster.items()}
    acting = layout.acting_role.name
    count = run.values.get(layout.acting_flag) or tasks.get(acting, 0)
    if (listed := tasks.get(acting, count)) != count:
        raise ClusterError(
            f"--{layout.acting_flag} is {count}, but TF_CONFIG lists {listed} tasks of {acting}: "
            "make them equal"
        )
    if count:
        layout.require_tasks({**tasks, acting: count}, run.num_actors)
    return count


def _identity(run: ProgramRun, topology: Topology, spec: Any, acting_tasks: int) -> dict[str, Any]:
    """Returns what must be equal in all processes of a run."""
    acting = run.layout.acting_role.name
    return {
        **run.record,
        **({f"tasks of {acting}": acting_tasks} if acting_tasks else {}),
        **spec._asdict(),
        "cluster": {
            job.name: topology.addresses(job.name) for job in run.layout.roles if job.is_called
        },
    }


_LOCK_SECONDS = 120.0
"""Longest wait for the lock on the checkpoints. NFS keeps a dead node's lock for 90 seconds."""


def _keep(run: ProgramRun, context, function: Callable[[Any], None]) -> None:
    """Runs the role that keeps the run, and records its start and its end in run.json."""
    launched = os.environ.get(START_VARIABLE)
    command, changed = json.loads(launched) if launched else (sys.orig_argv, run.changed)
    role, stop = run.layout.keeper.name, context.stop
    with run.directory.hold_checkpoints(role, _LOCK_SECONDS, stop.wait):
        write = functools.partial(
            run.directory.write_run_record,
            seed=flags_lib.SEED.value,
            scale=flags_lib.SCALE.value or f"{run.num_actors} actors",
            scale_changes=flags_lib.SCALE_CHANGES.value,
            budget=run.limits,
            changed=changed,
            command=command,
            config=run.record,
            config_class=type(run.config),
        )
        # Not skipped if the disk is full: parameter versions depend on run.json's number of starts.
        when_there_is_room(write, stop.wait)

        def record_stop() -> None:
            logging.info("stopped without a checkpoint: nothing has been learnt since the start")
            run.directory.close_run_record("stopped")

        stop.end_within(processes.UNLEARNT_SECONDS, record_stop)
        outcome = "failed"
        try:
            context.run(function)
            outcome = "stopped" if stop.requested else "finished"
        finally:
            close = functools.partial(run.directory.close_run_record, outcome)
            when_there_is_room(close, stop.wait)


def _greet(partners: tuple[str, ...], credentials: Credentials) -> None:
    """Raises the error with which a partner refuses this role, before the role creates anything.

    A partner that is not available yet refuses the role at its first call instead.
    """
    from common.cluster import rpc

    for address in partners:
        try:
            topology_lib.probe(address)  # faster than a client if nothing listens
            rpc.Client(address, credentials).wait_until_available(5.0)
        except ServiceUnavailableError as error:
            logging.info("a partner is not available yet: %s", error)
