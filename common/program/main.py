"""The main program of a paper: flags, the roles behind `--role`, and the local run.

Importing this module imports neither TensorFlow nor NumPy: the launcher stays light, and a role
sets its threads before either reads them.
"""

from collections.abc import Callable
import dataclasses
import math
import os
import pathlib
import sys
from typing import Any

from absl import app, flags, logging

from common.cluster import probe, processes
from common.cluster import token as token_lib
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.launcher import GIVE_UP_CODE
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.program import resources
from common.replay.key_layout import MAX_ACTORS, MAX_SHARDS
from common.reporting.command_line import exit_with, fail
from common.reporting.run_directory import RunDirectory, RunDirectoryError

_ENVIRONMENT = flags.DEFINE_string(
    "environment",
    None,
    'What to learn, "suite:domain:task", for example control:cartpole:swingup. One of your own: '
    "python:MODULE:FUNCTION, whose FUNCTION(seed) gives a dm_env.Environment.",
)
_WORKDIR = flags.DEFINE_string(
    "workdir",
    None,
    "Directory of the run: configuration, CSV files, checkpoints, TensorBoard, logs. One that "
    "holds a run of the same configuration is continued.",
)
_ROLE = flags.DEFINE_enum(
    "role",
    "local",
    ["local", "learner", "replay", "actor", "evaluator"],
    "local starts all others as processes of this machine. The others take their addresses from "
    "TF_CONFIG and the cluster token from REPLAY_RL_TOKEN or REPLAY_RL_TOKEN_FILE.",
)
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Of networks, exploration, environments and replay.",
    lower_bound=0,
    upper_bound=2**31 - 1,
)
_MAX_MINUTES = flags.DEFINE_float(
    "max_minutes",
    None,
    "Ends the run after so much wall-clock time, over all of its starts.",
    lower_bound=0,
)
_MAX_ACTOR_STEPS = flags.DEFINE_integer(
    "max_actor_steps",
    None,
    "Ends the run after so many steps of all actors together.",
    lower_bound=1,
)
_MAX_LEARNER_STEPS = flags.DEFINE_integer(
    "max_learner_steps", None, "Ends the run after so many learner updates.", lower_bound=1
)
_ACTOR_PROCESSES = flags.DEFINE_integer(
    "actor_processes",
    None,
    "Processes that share the actors among them; each evaluates the policies of its actors as one "
    "batch. The same for all roles. Default: with --role=local one for every second core, or as "
    "many as --replay_shards if that is more; else the actors that TF_CONFIG lists. Not in the "
    "paper (a core for each actor).",
    lower_bound=1,
)
_LEARNER_THREADS = flags.DEFINE_integer(
    "learner_threads",
    None,
    "Threads of the learner. Default: with --role=local the cores that the actor processes leave "
    "over, else all: threads that wait for each other lose more to actors on their cores than they "
    "gain. Not in the paper (a GPU).",
    lower_bound=1,
)
_EVALUATION_EPISODES = flags.DEFINE_integer(
    "evaluation_episodes",
    10,
    "Episodes of an evaluation, without noise. Not in the paper.",
    lower_bound=1,
)
_EVALUATION_SECONDS = flags.DEFINE_float(
    "evaluation_seconds",
    60.0,
    "Time from one evaluation to the next. Not in the paper.",
    lower_bound=0,
)
_CHECKPOINT_SECONDS = flags.DEFINE_float(
    "checkpoint_seconds",
    60.0,
    "Time from one checkpoint to the next: what a learner that dies loses at most.",
    lower_bound=0,
)
_PATIENCE_MINUTES = flags.DEFINE_float(
    "patience_minutes",
    30.0,
    "How long a role waits for another one that does not answer before it ends, so that no job "
    "outlives its run unnoticed.",
    lower_bound=0,
)
_REPLAY = flags.DEFINE_enum(
    "replay",
    "process",
    ["process", "learner"],
    "With --role=local, where the memory lives: in a process of its own, as in the paper (Ape-X "
    "section 3), or in that of the learner, which saves the way between them.",
)
_SCALE = flags.DEFINE_string(
    "scale",
    None,
    "How the run's size relates to the paper's, for run.json: binaries.experiment names its "
    "scale here. Default: the number of actors.",
)
_SCALE_CHANGES = flags.DEFINE_string(
    "scale_changes", "", "What that changes from the paper's run, in words, for run.json."
)
_REPLAY_SHARDS = flags.DEFINE_integer(
    "replay_shards",
    1,
    "With --role=local, processes that share the memory among them; each actor process adds to one "
    "of them, the learner draws from all. They fill evenly only if as many actors, of equal speed, "
    "add to each. Otherwise TF_CONFIG lists them. Not in the paper (one "
    "replay server, Ape-X section 3).",
    lower_bound=1,
    upper_bound=MAX_SHARDS,
)
_IGNORE_RESOURCES = flags.DEFINE_boolean(
    "ignore_resources",
    False,
    "Starts even if the machine has too little memory for the full replay, or too little disk.",
)


@dataclasses.dataclass(frozen=True)
class Paper:
    """What a binary says of its paper.

    module: of the binary, to start roles with `python -m`.
    config: the hyperparameters, a dataclass with `validate()`.
    num_actors: K.
    make_agent: builds the agent; imports TensorFlow, so only roles call it.
    bytes_per_step: estimates the memory for each step of the replay's capacity from a config, an
      `EnvironmentSpec` and an environment, without TensorFlow; see `common.replay.footprint`.
    single_process: whether the learner's process also acts, and keeps the replay.
    agent: its name where the paper has several.
    require: as `Agent.require`, without TensorFlow, so that the launcher refuses what the agent
      cannot act in; None: the roles do.
    """

    name: str
    module: str
    config: object
    num_actors: int
    make_agent: Callable
    bytes_per_step: Callable[[Any, Any, Any], int]
    single_process: bool = False
    agent: str | None = None
    require: Callable[[Any], None] | None = None


def run(paper: Paper) -> None:
    """Runs the role that the flags name; ends the program with one line on a user's mistake."""
    try:
        _check(paper)
        _run_local(paper) if _ROLE.value == "local" else _run_role(paper)
    except ClusterError as error:
        fail(str(error), code=1 if error.may_pass else GIVE_UP_CODE)
    except (RunDirectoryError, UsageError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted twice: ended without waiting for a last checkpoint")


class UsageError(ValueError):
    """A flag or an environment that cannot be; the message is one line that names it."""


def _check(paper: Paper) -> None:
    for flag in (_ENVIRONMENT, _WORKDIR):
        if not flag.value:
            raise UsageError(f"--{flag.name} is missing: {flags.FLAGS[flag.name].help}")
    for flag in (_MAX_MINUTES, _PATIENCE_MINUTES, _EVALUATION_SECONDS, _CHECKPOINT_SECONDS):
        if flag.value is not None and not math.isfinite(flag.value):
            raise UsageError(f"--{flag.name} must be a finite number, is {flag.value}")
    try:
        paper.config.validate()
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not 1 <= paper.num_actors <= MAX_ACTORS:
        raise UsageError(f"--num_actors must be in [1, {MAX_ACTORS}], is {paper.num_actors}")
    if (_ACTOR_PROCESSES.value or 1) > paper.num_actors:
        raise UsageError(
            f"--actor_processes must be at most --num_actors ({paper.num_actors}), is "
            f"{_ACTOR_PROCESSES.value}"
        )
    if _REPLAY_SHARDS.value > 1 and (paper.single_process or _REPLAY.value == "learner"):
        raise UsageError(
            f"--replay_shards is {_REPLAY_SHARDS.value}, but the memory is in the learner's "
            "process, where it is one: leave it out"
        )


def _check_shards(count: int, actor_processes: int, said: str) -> None:
    """Refuses shards that no actor would add to; `said` is where their number comes from."""
    if count > actor_processes:
        raise UsageError(
            f"{said}, but each actor process adds to one replay and there are {actor_processes}: "
            "have fewer replays, or raise --actor_processes"
        )


def _actor_processes(topology: Topology) -> int:
    """How many there are, 0 if neither the flags nor TF_CONFIG say so."""
    return _ACTOR_PROCESSES.value or len(topology.addresses("actor"))


def _actors_of(paper: Paper, topology: Topology) -> range:
    """The paper's actors that live in this actor process, as evenly as possible."""
    process, count = topology.index, _actor_processes(topology)
    if count == 0:
        raise UsageError(
            "--actor_processes is missing: TF_CONFIG does not list the actors, so say how many "
            "processes share them"
        )
    if count > paper.num_actors:
        raise UsageError(
            f"TF_CONFIG lists {count} actor processes for --num_actors={paper.num_actors}: list "
            "fewer, or raise --num_actors"
        )
    if process >= count:
        raise UsageError(
            f"this is actor process {process}, counted from 0, but there are {count}: give every "
            "role the same --actor_processes"
        )
    return range(process * paper.num_actors // count, (process + 1) * paper.num_actors // count)


def _make_environment(paper: Paper):
    """The environment, which is asked for its spec only, and this."""
    from common import environments
    from common.environments.spec import EnvironmentSpec

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)  # simulators announce themselves at their import
    try:
        environment = environments.make(_ENVIRONMENT.value, _SEED.value)
    except environments.UnusableEnvironmentError as error:
        raise UsageError(str(error)) from None
    finally:
        logging.set_verbosity(verbosity)
    spec = EnvironmentSpec.of(environment)
    if paper.require is not None:
        _require(paper.require, spec)
    return environment, spec


def _require(condition: Callable[[Any], None], spec) -> None:
    try:
        condition(spec)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_resources(paper: Paper, spec, environment, share: float) -> str:
    """Returns what a share of the replay needs here; raises ClusterError if that is not there."""
    steps = paper.config.replay_capacity
    if _MAX_ACTOR_STEPS.value is not None:
        copies = getattr(paper.config, "num_copies", 1)
        steps = min(steps, copies * _MAX_ACTOR_STEPS.value)
    replay_bytes = 0
    if share:
        replay_bytes = share * steps * paper.bytes_per_step(paper.config, spec, environment)
    return resources.check(
        round(replay_bytes), pathlib.Path(_WORKDIR.value), _IGNORE_RESOURCES.value
    )


def _run_role(paper: Paper) -> None:
    role = _ROLE.value
    topology = Topology.from_environment()
    if paper.single_process and (role in ("actor", "replay") or not topology.replay_in_learner):
        raise UsageError(
            "this setting acts and learns in one process, the learner's: start no actor and no "
            "replay, and list none in TF_CONFIG"
        )
    if topology.job != role:
        raise ClusterError(
            f"--role={role}, but the task of TF_CONFIG is {topology.job}: they must agree"
        )
    shards = len(topology.replay_addresses)
    for job, most in (("learner", 1), ("replay", MAX_SHARDS)):
        count = len(topology.addresses(job))
        if count > most:
            raise ClusterError(f"TF_CONFIG lists {count} tasks of {job}: there can be {most}")
    actor_processes = _actor_processes(topology)
    if actor_processes:  # those that come and go need not be known here
        _check_shards(shards, actor_processes, f"TF_CONFIG lists {shards} tasks of replay")
    partners = topology.partners
    token = token_lib.load()
    cores = processes.usable_cores()
    threads = {"learner": _LEARNER_THREADS.value or cores, "replay": min(2, cores)}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if role != "learner":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # only the learner is worth a GPU
    os.environ.update(processes.thread_environment(threads.get(role, 1)))  # before NumPy
    environment, spec = _make_environment(paper)
    keeps_replay = role == ("learner" if topology.replay_in_learner else "replay")
    needed = _check_resources(paper, spec, environment, keeps_replay / max(1, shards))
    stop = StopRequest().install()
    processes.Patience.default_seconds = 60 * _PATIENCE_MINUTES.value
    for address in partners:
        probe.check(address, patience_seconds=min(10.0, 60 * _PATIENCE_MINUTES.value))
    directory = pathlib.Path(_WORKDIR.value)
    RunDirectory(directory).open(_run_config(paper))
    logging.info("%s", needed)
    try:
        processes.limit_threads(threads.get(role, 1))
    except RuntimeError:
        logging.warning("the environment runs TensorFlow: the threads of this role are not limited")
    from common.learning.checkpoint import CheckpointError
    from common.replay.library import ReplayLibraryError

    try:
        environment.close()
        agent = paper.make_agent(paper.config)
        _require(agent.require, spec)
        credentials = Credentials(token, role, _identity(paper, spec, topology))
        _greet(partners, credentials)
        _ROLES[role](paper, agent, spec, topology, credentials, directory, stop)
    except (ReplayLibraryError, CheckpointError) as error:
        raise UsageError(str(error)) from None
    sys.exit(stop.exit_code)


def _identity(paper: Paper, spec, topology: Topology) -> dict:
    """What all roles of a run have to agree on.

    A role that does not know the number of actor processes is refused by one that does.
    """
    actor_processes = 0 if paper.single_process else _actor_processes(topology)
    return {
        **_run_config(paper),
        **({"actor_processes": actor_processes} if actor_processes else {}),
        **spec._asdict(),
        "cluster": {job: topology.addresses(job) for job in ("learner", "replay")},
    }


def _greet(partners: tuple[str, ...], credentials: Credentials) -> None:
    """Ends a role that its partners refuse, before it has made anything.

    Those that are not there yet refuse it at its first call.
    """
    from common.cluster import rpc

    for address in partners:
        try:
            probe.probe(address)  # quicker than a client where nothing listens
            rpc.Client(address, credentials).wait_until_available(5.0)
        except ServiceUnavailableError as error:
            logging.info("not yet: %s", error)


def _learner(paper, agent, spec, topology, credentials, directory, stop):
    from common.roles.learner import Limits, run_learner

    limits = Limits(_MAX_MINUTES.value, _MAX_ACTOR_STEPS.value, _MAX_LEARNER_STEPS.value)
    with RunDirectory(directory).hold_checkpoints():
        run_learner(
            agent,
            spec,
            topology,
            credentials,
            directory,
            _SEED.value,
            limits,
            _CHECKPOINT_SECONDS.value,
            stop,
            _ENVIRONMENT.value,
            paper.num_actors,
        )


def _replay(paper, agent, spec, topology, credentials, directory, stop):
    del paper, directory  # the memory leaves nothing behind
    from common.roles.replay import run_replay

    run_replay(agent, spec, topology, credentials, _SEED.value, stop)


def _actor(paper, agent, spec, topology, credentials, directory, stop):
    del spec  # it builds its own environments
    actors = _actors_of(paper, topology)
    from common.roles.actor import run_actor

    run_actor(
        agent,
        _ENVIRONMENT.value,
        topology,
        credentials,
        directory,
        actors,
        paper.num_actors,
        _SEED.value,
        stop,
    )


def _evaluator(paper, agent, spec, topology, credentials, directory, stop):
    del paper, spec  # it builds its own environments
    from common.roles.evaluator import run_evaluator

    run_evaluator(
        agent,
        _ENVIRONMENT.value,
        topology,
        credentials,
        directory,
        _SEED.value,
        _EVALUATION_EPISODES.value,
        _EVALUATION_SECONDS.value,
        stop,
    )


_ROLES = {"learner": _learner, "replay": _replay, "actor": _actor, "evaluator": _evaluator}


def _run_config(paper: Paper) -> dict:
    """What makes a run what it is; how long it lasts and where it runs are not part of it."""
    return {
        "paper": paper.name,
        **({"agent": paper.agent} if paper.agent else {}),
        "environment": _ENVIRONMENT.value,
        "seed": _SEED.value,
        "num_actors": paper.num_actors,
        "config": {
            field.name: getattr(paper.config, field.name)
            for field in dataclasses.fields(paper.config)
        },
    }


def _run_local(paper: Paper) -> None:
    from common.cluster.launcher import LocalCluster, Role
    from common.program.local import LocalRun

    stop = StopRequest().install()
    environment, spec = _make_environment(paper)
    cores, shards = processes.usable_cores(), _REPLAY_SHARDS.value
    actor_processes = _ACTOR_PROCESSES.value or min(paper.num_actors, max(cores // 2, shards))
    counts = {"learner": 1, "evaluator": 1}
    if paper.single_process:
        actor_processes = 0
    else:
        _check_shards(shards, actor_processes, f"--replay_shards is {shards}")
        in_process = _REPLAY.value == "process"
        counts |= {"replay": shards if in_process else 0, "actor": actor_processes}
    needed = _check_resources(paper, spec, environment, 1.0)
    environment.close()
    directory = RunDirectory(_WORKDIR.value)
    directory.open(_run_config(paper))
    topology = Topology.local(counts)
    token = token_lib.load_or_create()
    learner_threads = _LEARNER_THREADS.value or max(1, cores - actor_processes)
    roles = []
    for job, count in counts.items():
        for index in range(count):
            command = [
                sys.executable,
                "-m",
                paper.module,
                *sys.argv[1:],
                f"--role={job}",
                f"--workdir={_WORKDIR.value}",
                f"--learner_threads={learner_threads}",
                "--ignore_resources",
            ]
            if actor_processes:
                command.append(f"--actor_processes={actor_processes}")
            environment = {
                "TF_CONFIG": topology.to_tf_config(job, index),
                token_lib.TOKEN_VARIABLE: token,
            }
            roles.append(Role(job, index, command, environment, restart=True))
    local_run = LocalRun(
        directory,
        LocalCluster(roles, directory.logs),
        stop,
        max_minutes=_MAX_MINUTES.value,
        max_actor_steps=_MAX_ACTOR_STEPS.value,
        max_learner_steps=_MAX_LEARNER_STEPS.value,
        min_replay_size=paper.config.min_replay_size,
    )
    with directory.hold():
        directory.write_run_record(
            seed=_SEED.value,
            scale=_SCALE.value or f"{paper.num_actors} actors",
            scale_changes=_SCALE_CHANGES.value,
        )
        print(needed, file=sys.stderr, flush=True)
        local_run.run(title=f"{paper.agent or paper.name} on {_ENVIRONMENT.value}")


def start(main: Callable[[list[str]], None]) -> None:
    """`absl.app.run`, with one line for a flag that cannot be."""
    logging.use_absl_handler()
    exit_with(lambda: app.run(main, flags_parser=_parse_flags))


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        fail(f"{str(error).removeprefix('flag ')} (--help explains each flag)")
