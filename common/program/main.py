"""The main program of an agent: flags, the roles behind `--role`, and the local run.

Importing this module imports neither TensorFlow nor NumPy: the launcher stays light, and a role
sets its threads before either reads them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any

from absl import app, flags, logging

from common.cluster import probe, processes
from common.cluster import token as token_lib
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.launcher import GIVE_UP_CODE, LocalCluster, Process
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.config import Config, Settings
from common.program import flags as flags_lib
from common.program import resources
from common.program.flags import UsageError
from common.program.layout import FlagValues, Layout, imported
from common.program.setting_flags import define_config
from common.replay.key_layout import MAX_ACTORS
from common.reporting.command_line import exit_with, fail
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError

_START_VARIABLE = "REPLAY_RL_START"
"""The user's command line and changed flags as JSON; a launcher adds flags that are not his."""


@dataclasses.dataclass(frozen=True)
class AgentProgram:
    """An agent, as its binary describes it.

    Attributes:
      paper: name of the paper's directory.
      agent: name of the agent, which is that of the paper where it has only one.
      module: of the binary, to start roles with `python -m`.
      agent_class: "module:class" of the agent, built as `class(config, setting)`; importing it
        imports TensorFlow, so only roles do.
      settings: of the paper.
      num_actors: default of --num_actors, given the configuration and the setting.
      num_actors_help: of that flag.
      layouts: that the settings may have.
      layout: the one that a configuration has.
      require: "module:function" that raises ValueError, in one line, if the agent cannot act in an
        environment of a spec; without TensorFlow.
      bytes_per_step: bytes of a stored step, given the configuration, the environment's spec and
        the environment.
      num_frames: images stacked in an observation, see `common.agents.agent.Agent`.
    """

    paper: str
    agent: str
    module: str
    agent_class: str
    settings: Settings
    num_actors: Callable[[Any, str], int]
    num_actors_help: str
    layouts: tuple[Layout, ...]
    layout: Callable[[Any], Layout]
    require: str
    bytes_per_step: Callable[[Any, Any, Any], float]
    num_frames: int | None = None


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run of a program, as its flags say.

    Attributes:
      program: of the agent.
      config: the hyperparameters.
      setting: name of the configuration.
      num_actors: of the whole run.
      layout: of the configuration.
      values: of the layout's own flags.
      environment: its name.
      directory: of the run.
    """

    program: AgentProgram
    config: Config
    setting: str
    num_actors: int
    layout: Layout
    values: FlagValues
    environment: str
    directory: RunDirectory

    @property
    def record(self) -> dict[str, Any]:
        """The identity of the run, for config.json: not how long it lasts nor where it runs."""
        return {
            "paper": self.program.paper,
            "agent": self.program.agent,
            "setting": self.setting,
            "environment": self.environment,
            "seed": flags_lib.SEED.value,
            "num_actors": self.num_actors,
            "config": {
                field.name: getattr(self.config, field.name)
                for field in dataclasses.fields(self.config)
            },
        }

    @property
    def title(self) -> str:
        """Agent and environment, for people."""
        return f"{self.program.agent} on {self.environment}"

    @property
    def changed(self) -> dict[str, Any]:
        """Flags whose values are the user's, for run.json; hyperparameters as "config.NAME"."""
        chosen = self.program.settings.configuration(flags.FLAGS.setting)
        values = dataclasses.asdict(self.config)
        return flags_lib.changed() | {
            f"config.{name}": value
            for name, value in values.items()
            if value != getattr(chosen, name)
        }


def start(program: AgentProgram) -> None:
    """Runs the program of an agent with the flags of the command line, and ends the process."""
    logging.use_absl_handler()
    num_actors = flags.DEFINE_integer("num_actors", None, program.num_actors_help)
    config = define_config(program.settings)
    ours = [flag.name for flag in flags.FLAGS.get_flags_for_module(flags_lib.__name__)]
    ours += [name for layout in program.layouts for name in layout.flags]
    for name in (*ours, "num_actors", "setting", "config"):
        # --help shows those of the main module, which absl calls by its file.
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def main(argv: Sequence[str]) -> None:
        if len(argv) > 1:
            fail(f'unknown argument "{argv[1]}": flags start with --')
        try:
            run = _make_run(program, config.value, num_actors.value)
            _ROLES.get(flags_lib.ROLE.value, _run_role)(run)
        except ClusterError as error:
            fail(str(error), code=1 if error.is_transient else GIVE_UP_CODE)
        except UserError as error:
            fail(str(error))
        except KeyboardInterrupt:
            fail("interrupted twice: ended without waiting for a last checkpoint")

    exit_with(lambda: app.run(main, flags_parser=_parse_flags))


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        fail(f"{str(error).removeprefix('flag ')} (--help explains each flag)")


def _make_run(program: AgentProgram, config: Config, num_actors: int | None) -> _Run:
    flags_lib.check()
    try:
        config.validate()
    except ValueError as error:
        raise UsageError(str(error)) from None
    setting = flags.FLAGS.setting
    if num_actors is None:
        num_actors = program.num_actors(config, setting)
    if not 1 <= num_actors <= MAX_ACTORS:
        raise UsageError(f"--num_actors must be in [1, {MAX_ACTORS}], is {num_actors}")
    layout = program.layout(config)
    if flags_lib.ROLE.value not in _ROLES:
        layout.role(flags_lib.ROLE.value)
    for name in {name for other in program.layouts for name in other.flags} - {*layout.flags}:
        if flags.FLAGS[name].present:
            raise UsageError(
                f"--{name} is not of this setting's layout, {layout.name}: leave it out"
            )
    values = {name: flags.FLAGS[name].value for name in layout.flags}
    acting_tasks = values.get(layout.acting_flag) or 1
    if acting_tasks > num_actors:
        raise UsageError(
            f"--{layout.acting_flag} must be at most --num_actors ({num_actors}), is {acting_tasks}"
        )
    name = program.settings.name_of(setting, config)
    environment, workdir = flags_lib.ENVIRONMENT.value, flags_lib.WORKDIR.value
    assert environment and workdir  # checked above
    directory = RunDirectory(workdir)
    return _Run(program, config, name, num_actors, layout, values, environment, directory)


def _inspect_environment(run: _Run, share: float) -> tuple[Any, int]:
    """Returns the environment's spec, and the bytes of a part of the replay when it is full.

    Args:
      run: of the program.
      share: the part of the replay.
    """
    from common import environments
    from common.environments.spec import EnvironmentSpec

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)  # simulators announce themselves at their import
    try:
        environment = environments.make(
            run.environment, flags_lib.SEED.value, frames=run.program.num_frames
        )
    except environments.UnusableEnvironmentError as error:
        raise UsageError(str(error)) from None
    finally:
        logging.set_verbosity(verbosity)
    spec = EnvironmentSpec.of(environment)
    try:
        imported(run.program.require)(spec)
    except ValueError as error:
        raise UsageError(str(error)) from None
    replay_bytes = 0
    if share:
        steps = getattr(run.config, "replay_capacity", 0)
        if flags_lib.MAX_ACTOR_STEPS.value is not None:
            copies = getattr(run.config, "num_copies", 1)
            steps = min(steps, copies * flags_lib.MAX_ACTOR_STEPS.value)
        step_bytes = run.program.bytes_per_step(run.config, spec, environment)
        replay_bytes = round(share * steps * step_bytes)
    environment.close()
    return spec, replay_bytes


def _check_resources(run: _Run, replay_bytes: int) -> str:
    """Returns a line on what this machine has to hold; raises ClusterError if it cannot."""
    return resources.check(replay_bytes, run.directory.path, flags_lib.IGNORE_RESOURCES.value)


def _run_local(run: _Run) -> None:
    """Starts every role of the layout as processes of this machine, and stays with them."""
    from common.program.local import LocalRun
    from common.reporting import result

    stop = StopRequest().install()
    directory = run.directory
    local_run = LocalRun(
        directory,
        run.layout,
        flags_lib.limits(),
        getattr(run.config, "min_replay_size", 0),
        run.title,
        stop,
    )
    has_replay = hasattr(run.config, "replay_capacity")
    _, replay_bytes = _inspect_environment(run, share=float(has_replay))
    cores = processes.usable_cores()
    values = {**run.values, **run.layout.local_values(run.values, run.num_actors, cores)}
    counts = {role.name: role.local_tasks(values) for role in run.layout.roles}
    run.layout.check(counts)
    directory.open(run.record)
    with directory.hold():
        if result.is_over(directory, flags_lib.limits()):
            print(result.of(directory, run.title, finished=True), flush=True)
            return
        print(_check_resources(run, replay_bytes), file=sys.stderr, flush=True)
        token = token_lib.load_or_create()
        with _temporary_directory(directory) as temporary:
            topology = Topology.local(run.layout.roles, counts, temporary)
            environment = {"TMPDIR": str(temporary), token_lib.TOKEN_VARIABLE: token}
            found = _processes(run, values, topology, environment)
            local_run.run(LocalCluster(found, directory.logs))


@contextlib.contextmanager
def _temporary_directory(run: RunDirectory) -> Iterator[pathlib.Path]:
    """Makes a directory for the sockets and temporary files of the roles of a local run.

    No other user can open it. A killed role leaves temporary files behind, such as those of
    TensorFlow's AutoGraph, and a killed launcher leaves the directory: a link in the run directory
    tells the next start what to remove.
    """
    link = run.path / "tmp"
    shutil.rmtree(link.resolve(), ignore_errors=True)
    link.unlink(missing_ok=True)
    # Not in the run directory itself: the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="replay_rl_", ignore_cleanup_errors=True) as directory:
        link.symlink_to(directory)
        try:
            yield pathlib.Path(directory)
        finally:
            link.unlink()


def _processes(
    run: _Run, values: FlagValues, topology: Topology, variables: Mapping[str, str]
) -> list[Process]:
    """Returns the processes of a local run, each with its command line and environment variables.

    Args:
      run: of the program.
      values: of the layout's flags.
      topology: of the run.
      variables: that all processes get.
    """
    found = []
    resolved = [f"--{name}={value}" for name, value in values.items() if value is not None]
    for job, addresses in topology.cluster.items():
        for index in range(len(addresses)):
            command = [
                *(sys.executable, "-m", run.program.module, *sys.argv[1:], *resolved),
                *(f"--role={job}", f"--workdir={run.directory.path}", "--ignore_resources"),
            ]
            environment = {
                **variables,
                "TF_CONFIG": topology.to_tf_config(job, index),
                _START_VARIABLE: json.dumps([sys.orig_argv, run.changed]),
            }
            keeps_run = job == run.layout.keeper.name
            found.append(Process(job, index, command, environment, keeps_run))
    return found


def _run_slurm(run: _Run) -> None:
    """Replaces this process by the role that it has in a Slurm step."""
    from common.program import slurm

    task = slurm.topology(run.layout, run.values)
    os.environ["TF_CONFIG"] = task.to_tf_config(task.job, task.index)
    command = [sys.executable, "-m", run.program.module, *sys.argv[1:], f"--role={task.job}"]
    os.execv(sys.executable, command)


def _run_role(run: _Run) -> None:
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
    if role.acts:
        actors = layout.actors_of(topology.index, acting_tasks, run.num_actors)
    spec, replay_bytes = _inspect_environment(run, role.replay_share(topology))
    if replay_bytes:
        logging.info("%s", _check_resources(run, replay_bytes))
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
    from common.environments import UnusableEnvironmentError
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
        agent = imported(run.program.agent_class)(run.config, run.setting)
        credentials = Credentials(token, role.name, identity)
        _greet(partners, credentials)
        context = RunContext(
            agent,
            run.environment,
            spec,
            topology,
            credentials,
            run.directory,
            flags_lib.SEED.value,
            actors,
            run.num_actors,
            flags_lib.limits(),
            flags_lib.CHECKPOINT_SECONDS.value,
            flags_lib.EVALUATION_EPISODES.value,
            flags_lib.EVALUATION_SECONDS.value,
            run.values,
            stop,
        )
        if role is layout.keeper:
            _keep(run, context, role.function())
        else:
            role.function()(context)
    except (ReplayLibraryError, CheckpointError, UnusableEnvironmentError) as error:
        raise UsageError(str(error)) from None
    if role is layout.last_role and not stop.requested:
        from common.reporting import result

        print(result.of(run.directory, run.title, finished=True), flush=True)
    sys.exit(stop.exit_code)


_ROLES: dict[str, Callable[[_Run], None]] = {"local": _run_local, "slurm": _run_slurm}


def _keep(run: _Run, context, function: Callable[[Any], None]) -> None:
    """Runs the role that keeps the run, and records its start and its end in run.json."""
    launched = os.environ.get(_START_VARIABLE)
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
