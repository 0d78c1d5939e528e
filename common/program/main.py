"""The main program of an agent: flags, the roles behind `--role`, and the local run.

Importing this module imports neither TensorFlow nor NumPy: the launcher stays light, and a role
sets its threads before either reads them.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import json
import os
import sys
from typing import Any

from absl import app, flags, logging

from common.agents.declaration import AgentDeclaration
from common.cluster import credentials, processes
from common.cluster.errors import ClusterError
from common.cluster.launcher import GIVE_UP_CODE, Cluster, LocalCluster
from common.cluster.layout import FlagValues
from common.cluster.local_process import Process
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.config import Config
from common.names import with_arguments
from common.program import flags as flags_lib
from common.program import layouts, local
from common.program.flags import UsageError, define_config
from common.program.local import temporary_directory
from common.program.task import START_VARIABLE, ProgramRun, run_task
from common.replay.footprint import MAX_ACTORS
from common.reporting.command_line import exit_with, fail
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError


def start(agent: AgentDeclaration) -> None:
    """Runs the program of an agent with the flags of the command line, and ends the process."""
    logging.use_absl_handler()
    num_actors = flags.DEFINE_integer(agent.num_actors_flag, None, agent.num_actors_help)
    config = define_config(agent.settings)
    ours = [flag.name for flag in flags.FLAGS.get_flags_for_module(flags_lib.__name__)]
    ours += [name for layout in agent.layouts for name in layout.flags]
    for name in (*ours, agent.num_actors_flag, "setting", "config"):
        # --help shows those of the main module, which absl calls by its file.
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def main(argv: Sequence[str]) -> None:
        if len(argv) > 1:
            fail(f'unknown argument "{argv[1]}": flags start with --')
        try:
            run = _make_run(agent, config.value, num_actors.value)
            _ROLES.get(flags_lib.ROLE.value, run_task)(run)
        except ClusterError as error:
            fail(str(error), code=1 if error.is_transient else GIVE_UP_CODE)
        except UserError as error:
            fail(str(error))

    exit_with(lambda: app.run(main, flags_parser=functools.partial(_parse_flags, agent)))


def _parse_flags(agent: AgentDeclaration, argv: list[str]) -> list[str]:
    if {"-h", "--help"}.intersection(argv):
        print(flags_lib.help_text(agent))
        sys.exit()
    try:
        return flags.FLAGS(argv)
    except SystemExit:
        sys.exit()  # with 0 where absl has shown --helpfull and ends with 1
    except flags.Error as error:
        known = [flag.name for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0])]
        names = vars(agent.settings.configuration(agent.settings.default))
        known += [f"config.{name}" for name in names]
        fail(flags_lib.error_in_words(error, known))


def _make_run(agent: AgentDeclaration, config: Config, num_actors: int | None) -> ProgramRun:
    flags_lib.check()
    try:
        config.validate()
    except ValueError as error:
        raise UsageError(str(error)) from None
    setting = flags.FLAGS.setting
    if num_actors is None:
        num_actors = agent.num_actors(config, setting)
    if not 1 <= num_actors <= MAX_ACTORS:
        raise UsageError(f"--{agent.num_actors_flag} must be in [1, {MAX_ACTORS}], is {num_actors}")
    of_layouts = [flag.name for flag in flags.FLAGS.get_flags_for_module(layouts.__name__)]
    layout = agent.layout(config, {name: flags.FLAGS[name].value for name in of_layouts})
    if flags_lib.ROLE.value not in _ROLES:
        layout.role(flags_lib.ROLE.value, others=tuple(_ROLES))
    for name in {*of_layouts} - {*layout.flags}:
        if flags.FLAGS[name].present:
            raise UsageError(
                f"--{name} has no meaning in this setting's layout, {layout.name}: leave it out"
            )
    values = {name: flags.FLAGS[name].value for name in layout.flags}
    values[agent.num_actors_flag] = num_actors
    acting_tasks = values.get(layout.acting_flag) or 1
    if acting_tasks > num_actors:
        raise UsageError(
            f"--{layout.acting_flag} must be at most --{agent.num_actors_flag} "
            f"({num_actors}), is {acting_tasks}"
        )
    name = agent.settings.name_of(setting, config)
    environment, workdir = flags_lib.ENVIRONMENT.value, flags_lib.WORKDIR.value
    assert environment and workdir  # checked above
    try:
        environment = with_arguments(environment, flags_lib.ENV_KWARGS.value)
    except ValueError as error:
        raise UsageError(f"--{flags_lib.ENV_KWARGS.name}: {error}") from None
    directory = RunDirectory(workdir)
    return ProgramRun(agent, config, name, num_actors, layout, values, environment, directory)


def _run_local(run: ProgramRun) -> None:
    """Starts every role of the layout as processes of this machine, and stays with them."""
    directory = run.directory
    if directory.config_json.exists() and _is_finished(run):
        return
    memories = run.layout.num_memories(run.values)
    share = memories * hasattr(run.config, "replay_capacity")
    # One more environment is the evaluator's.
    _, need = run.inspect_environment(share, run.num_actors + 1, has_queue=True, is_launch=True)
    stop = StopRequest().install()  # until here signals end this process, which has nothing to save
    values, counts = _with_defaults(run, processes.usable_cores())
    run.open_directory()
    with directory.hold():
        line, saves_replay = local.check_resources(
            need,
            directory.path,
            flags_lib.IGNORE_RESOURCES.value,
            flags_lib.CHECKPOINT_REPLAY.value,
        )
        print(line, file=sys.stderr, flush=True)
        values["checkpoint_replay"] = saves_replay
        token = credentials.load_or_create_token()
        with temporary_directory(directory) as temporary:
            topology = Topology.local(run.layout.roles, counts, temporary)
            variables = {"TMPDIR": str(temporary), credentials.TOKEN_VARIABLE: token}
            found = _processes(run, values, topology, variables, "--ignore_resources")
            used = [run.agent.agent_class, *(role.run for role in run.layout.roles)]
            preload = ["tensorflow", *(name.partition(":")[0] for name in used)]
            cluster = LocalCluster(found, directory.logs, preload=preload if found[1:] else ())
            _supervise(run, cluster, stop)
    sys.exit(stop.exit_code)


def _run_ray(run: ProgramRun) -> None:
    """Starts every role of the layout on a Ray cluster, and stays with them."""
    from common.program import ray_cluster

    directory = run.directory
    if directory.config_json.exists() and _is_finished(run):
        return
    run.inspect_environment(is_launch=True)
    address = flags_lib.RAY_ADDRESS.value
    assert address  # checked by flags
    ray = ray_cluster.connect(address)
    stop = StopRequest().install()  # instead of Ray's own handler of SIGTERM
    nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    values, counts = _with_defaults(run, max(nodes))
    cores = ray_cluster.cores_of(run.layout, values, counts, max(nodes))
    ray_cluster.check_cores(cores, nodes, run.layout.flags)
    run.open_directory()
    with directory.hold():
        variables = {credentials.TOKEN_VARIABLE: credentials.load_or_create_token()}
        cluster = ray_cluster.RayCluster(
            ray,
            run.layout,
            cores,
            lambda topology: _processes(run, values, topology, variables),
            directory.logs,
        )
        _supervise(run, cluster, stop)
    sys.exit(stop.exit_code)


def _with_defaults(run: ProgramRun, cores: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns values of the layout's flags where all roles are started, and tasks by role.

    Args:
      run: of the program.
      cores: of the machine.
    """
    values = {**run.values, **run.layout.local_values(run.values, run.num_actors, cores)}
    counts = {role.name: role.local_tasks(values) for role in run.layout.roles}
    run.layout.check(counts)
    return values, counts


def _supervise(run: ProgramRun, cluster: Cluster, stop: StopRequest) -> None:
    """Runs the processes of a cluster until the run is over or stopped."""
    from common.program.local import LocalRun

    LocalRun(
        run.directory,
        run.layout,
        flags_lib.limits(),
        run.layout.num_memories(run.values) * getattr(run.config, "min_replay_size", 0),
        flags_lib.CHECKPOINT_SECONDS.value,
        run.title,
        stop,
    ).run(cluster)


def _is_finished(run: ProgramRun) -> bool:
    """Prints the result of a run that has reached its limits; returns whether it has."""
    from common.reporting import progress

    run.open_directory()
    with run.directory.hold():
        if not progress.is_over(run.directory, flags_lib.limits()):
            return False
        progress.require_updates(run.directory)
        print(progress.result_of(run.directory, run.title, finished=True), flush=True)
        return True


def _processes(
    run: ProgramRun,
    values: FlagValues,
    topology: Topology,
    variables: Mapping[str, str],
    *more: str,
) -> list[Process]:
    """Returns the processes of a run, each with its command line and environment variables.

    Args:
      run: of the program.
      values: of the layout's flags.
      topology: of the run.
      variables: that all processes get.
      *more: flags that all processes get.
    """
    found = []
    resolved = [f"--{name}={value}" for name, value in values.items() if value is not None]
    for job, addresses in topology.cluster.items():
        for index in range(len(addresses)):
            command = [
                *(sys.executable, "-m", run.agent.module, *sys.argv[1:], *resolved),
                *(f"--role={job}", f"--workdir={run.directory.path}", *more),
            ]
            environment = {
                **variables,
                "TF_CONFIG": topology.to_tf_config(job, index),
                START_VARIABLE: json.dumps([sys.orig_argv, run.changed]),
            }
            keeps_run = job == run.layout.keeper.name
            found.append(Process(job, index, command, environment, keeps_run))
    return found


def _run_slurm(run: ProgramRun) -> None:
    """Replaces this process by the role that it has in a Slurm step."""
    from common.program import slurm

    task = slurm.topology(run.layout, run.values)
    os.environ["TF_CONFIG"] = task.to_tf_config(task.job, task.index)
    command = [sys.executable, "-m", run.agent.module, *sys.argv[1:], f"--role={task.job}"]
    os.execv(sys.executable, command)


_ROLES: dict[str, Callable[[ProgramRun], None]] = {
    "local": _run_local,
    "slurm": _run_slurm,
    "ray": _run_ray,
}
