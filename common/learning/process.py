"""The learner's process: updates, parameters, checkpoints, speeds."""

import dataclasses
import pathlib
import time

from absl import logging
import tensorflow as tf

from common.agent import Agent, EnvironmentSpec, schedule_for
from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.learning.checkpoint import Checkpoints
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.networks import packing
from common.replay.memory import Statistics
from common.replay.process import make_memory
from common.replay.service import RemoteMemory, ReplayService
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Scalars

PUBLISH_STEPS = 16
"""Learner steps between snapshots; actors pull far more seldom, so theirs is always fresh."""
LOG_SECONDS = 5.0
CHECKPOINT_SECONDS = 300.0
FAREWELL_SECONDS = 120.0
"""How long the learner stays for the evaluator's last evaluation."""
ACTORS_SECONDS = 2.0
"""How long it stays at least, for the actors, which ask every second or so."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a run is over, whichever comes first; None is never."""

    max_minutes: float | None = None
    max_actor_steps: int | None = None
    max_learner_steps: int | None = None


class _Progress(tf.Module):
    """What a run has behind it, over all of its lives; saved with the learner."""

    def __init__(self):
        super().__init__()
        self.wall_seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.actor_steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        # Of the memory, when actor_steps was taken: it may outlive this process.
        self.inserted = tf.Variable(0, dtype=tf.int64, trainable=False)


class _Counters:
    """Wall time and actor steps of a run that goes on from `progress`.

    A memory in this process (`new_memory`) begins at zero with it.
    """

    def __init__(self, progress: _Progress, new_memory: bool):
        self._progress = progress
        self._begin = time.monotonic() - float(progress.wall_seconds)
        self.actor_steps = int(progress.actor_steps)
        self._inserted = 0 if new_memory else int(progress.inserted)

    @property
    def wall_seconds(self) -> float:
        return time.monotonic() - self._begin

    def see(self, statistics: Statistics | None) -> None:
        """Adds what was inserted since; a memory that is new starts at zero again.

        None, of a memory that is gone, adds nothing.
        """
        if statistics is None:
            return
        new = statistics.inserted - self._inserted
        self.actor_steps += new if new >= 0 else statistics.inserted
        self._inserted = statistics.inserted

    def store(self) -> None:
        self._progress.wall_seconds.assign(self.wall_seconds)
        self._progress.actor_steps.assign(self.actor_steps)
        self._progress.inserted.assign(self._inserted)


def run_learner(
    agent: Agent,
    spec: EnvironmentSpec,
    topology: Topology,
    token: str,
    directory: pathlib.Path,
    seed: int,
    limits: Limits,
    stop: StopRequest,
) -> None:
    """Learns until a limit is reached or `stop` is requested, from the last checkpoint on."""
    learner = agent.make_learner(spec, seed)
    progress = _Progress()
    run = RunDirectory(directory)
    checkpoints = Checkpoints(run.checkpoints, {"learner": learner, "progress": progress})
    if checkpoints.restore():
        logging.info("resumed at learner step %d", int(learner.steps))

    server = rpc.Server(topology.bind_address, token, topology.own_address)
    variables = tuple(learner.actor_variables)
    service = ParameterService(server, sum(v.shape.num_elements() for v in variables))
    local = topology.replay_in_learner
    if local:
        memory = make_memory(agent, spec, seed)
        ReplayService(server, memory)
    else:
        client = rpc.Client(topology.address("replay"), token, timeout_seconds=5.0)
        memory = RemoteMemory(client, agent.step_specs(spec))
    server.start()

    loop = UpdateLoop(learner.update, agent.updates_per_call, agent.batch_size, agent.jit_compile)
    replay_learner = ReplayLearner(
        memory, loop, learner.steps, schedule_for(agent), prefetch=not local,
        retry_on=(ServiceUnavailableError, tf.errors.FailedPreconditionError),
    )
    counters = _Counters(progress, new_memory=local)
    log = _Log(run, agent, counters)
    pack = tf.function(lambda: packing.pack(variables))

    def publish(finished: bool = False) -> int:
        return service.publish(
            pack(), int(learner.steps), counters.actor_steps, counters.wall_seconds, finished
        )

    def save() -> None:
        counters.store()
        checkpoints.save()

    version = publish()
    published = int(learner.steps)
    saved_at = time.monotonic()
    while not stop.requested and not _reached(limits, counters, int(learner.steps)):
        metrics = replay_learner.step()
        statistics = replay_learner.statistics  # once: the thread that draws ahead replaces it
        counters.see(statistics)
        if metrics is None:
            stop.wait(0.01)
        steps = int(learner.steps)
        log.see(metrics)
        if log.is_due():
            log.write(steps, version, statistics, replay_learner.priority_lag)
        if steps - published >= PUBLISH_STEPS:
            version, published = publish(), steps
        if time.monotonic() - saved_at >= CHECKPOINT_SECONDS:
            save()
            saved_at = time.monotonic()

    replay_learner.close()
    statistics = replay_learner.statistics
    counters.see(statistics)
    save()
    log.write(int(learner.steps), version, statistics, replay_learner.priority_lag)
    log.close()
    if not stop.requested:
        _say_farewell(service, publish(finished=True), topology, stop)
        if not local:
            _finish(memory)
    server.close()
    logging.info("finished at learner step %d, actor step %d, after %.0f s",
                 int(learner.steps), counters.actor_steps, counters.wall_seconds)


def _reached(limits: Limits, counters: _Counters, steps: int) -> bool:
    reached = (
        (limits.max_minutes, counters.wall_seconds / 60),
        (limits.max_actor_steps, counters.actor_steps),
        (limits.max_learner_steps, steps),
    )
    return any(limit is not None and value >= limit for limit, value in reached)


def _say_farewell(service: ParameterService, version: int, topology: Topology, stop: StopRequest):
    """Keeps the last snapshot readable until the evaluator is through with it."""
    begin = time.monotonic()
    while time.monotonic() < begin + FAREWELL_SECONDS and not stop.wait(0.1):
        if not topology.addresses("evaluator") or service.acknowledged("evaluator") >= version:
            break
    stop.wait(begin + ACTORS_SECONDS - time.monotonic())


def _finish(memory: RemoteMemory) -> None:
    try:
        memory.finish()
    except ServiceUnavailableError as error:
        logging.warning("the replay was not told that the run is over: %s", error)


class _Log:
    """learner.csv and TensorBoard: means of the metrics and speeds since the row before."""

    def __init__(self, run: RunDirectory, agent: Agent, counters: _Counters):
        self._columns = columns.learner(agent.metrics)
        self._rows = CsvRows(run.learner_csv, self._columns)
        self._scalars = Scalars(run.tensorboard)
        self._counters = counters
        self._batch_size = agent.batch_size
        self._metrics: list = []
        self._before: tuple[float, int, int] | None = None

    def see(self, metrics) -> None:
        """Takes the metrics of a call, None if it did nothing."""
        if metrics is not None:
            self._metrics.append(metrics)

    def is_due(self) -> bool:
        return self._before is None or self._counters.wall_seconds - self._before[0] >= LOG_SECONDS

    def write(
        self, steps: int, version: int, statistics: Statistics | None, priority_lag: float
    ) -> None:
        """Writes a row; statistics are those that the counters have seen."""
        wall, actor_steps = self._counters.wall_seconds, self._counters.actor_steps
        before = self._before or (wall, steps, actor_steps)
        seconds = max(wall - before[0], 1e-9)
        self._before = (wall, steps, actor_steps)
        inserted = actor_steps - before[2]
        sampled = (steps - before[1]) * self._batch_size
        row = {
            "wall_seconds": round(wall, 2),
            "learner_steps": steps,
            "actor_steps": actor_steps,
            "learner_steps_per_second": round((steps - before[1]) / seconds, 2),
            "actor_steps_per_second": round((actor_steps - before[2]) / seconds, 2),
            "samples_per_insert": round(sampled / inserted, 3) if inserted else None,
            "parameter_version": version,
            "priority_lag_steps": priority_lag,
            "replay_size": statistics.items if statistics else None,
        }
        names = self._metrics[0].keys() if self._metrics else ()
        for name in names:
            values = [float(metrics[name]) for metrics in self._metrics]
            row[name] = max(values) if name.endswith("_max") else sum(values) / len(values)
        self._metrics = []
        row = {name: row.get(name) for name in self._columns}
        self._rows.append(row)
        self._scalars.write({f"learner/{name}": value for name, value in row.items()}, steps)

    def close(self) -> None:
        self._scalars.close()
