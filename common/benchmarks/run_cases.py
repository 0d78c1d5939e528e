"""Speed of a parameter server, and of whole runs with workers."""

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import pathlib
import tempfile
import time

import tensorflow as tf

from common.benchmarks.cases import Bench
from common.benchmarks.report import Row, rate, say
from common.benchmarks.roles import READ, SEND, ChildProcess, command_of, idle_server, started_role
from common.cluster import credentials, rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.program import layouts
from common.remote.gradients import GradientSender
from common.remote.parameters import SLICE_SIZE, TARGET, ParameterClient
from common.replay.store import Counters
from common.reporting.csv_rows import read_rows

_NO_ACTING = 0, Counters()
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second")
_END_SECONDS = 180.0


def parameter_server(
    bench: Bench, environment: str = "atari:pong", workers: int = 10, rounds: int = 30
) -> Iterator[Row]:
    """Yields rounds a second of all workers together.

    The role runs in a process of its own on the loopback. A simulated worker is a thread of this
    process with a client of its own. Its rounds are a worker's learner steps without any computing:
    it downloads the newest network, and the target network if it has changed, sends gradients, and
    waits until the published network contains them. Workers and server share the machine's cores.
    The peer sends the same gradients and reads as many parameters, in slices of the same size, but
    from methods that do nothing, and waits for no update.

    Args:
      bench: the request.
      environment: its name; it decides the number of parameters.
      workers: simulated workers.
      rounds: rounds of each worker in a repeat.
    """
    name, peer = f"parameter_server/rounds_of_{workers}_workers", "methods that do nothing"
    topology = Topology.local(layouts.WORKERS.roles, {"parameter_server": 1})
    token = credentials.new_token()
    with (
        idle_server(token) as idle_address,
        started_role(bench.program, "parameter_server", topology, token, environment) as role,
        futures.ThreadPoolExecutor(workers) as pool,
    ):
        address = topology.keeper_address
        client = rpc.Client(address, token)
        role.wait_until_available(client)
        while (snapshot := ParameterClient(client).read()) is None:  # it answers, then publishes
            role.check()
            time.sleep(0.1)
        gradients = tf.random.stateless_normal(snapshot.flat.shape, (0, 0), stddev=1e-3)
        say(f"the network has {len(snapshot.flat):,} parameters")
        simulated = [
            _SimulatedWorker(rpc.Client(address, token), worker, gradients)
            for worker in range(workers)
        ]
        transfers = [_transfer(rpc.Client(idle_address, token), gradients) for _ in simulated]
        speeds = bench.in_turns(
            name,
            {
                "server": lambda: _rate_of_all(pool, simulated, rounds),
                peer: lambda: _rate_of_all(pool, transfers, rounds),
            },
        )
        role.check()
    yield speeds.row(name, "rounds/s", "server", peer)


class _SimulatedWorker:
    """The calls of a worker's learner steps (`common.learning.parameter_server`)."""

    def __init__(self, client: rpc.Client, worker: int, gradients: tf.Tensor):
        self._online, self._target = ParameterClient(client), ParameterClient(client, TARGET)
        self._updates = GradientSender(client, worker, lambda: _NO_ACTING, StopRequest())
        self._updates.join()
        self._gradients = gradients
        self._target_version = self._version = 0

    def __call__(self) -> None:
        target = self._target.read(if_newer_than=self._target_version)
        if target is not None:
            self._target_version = target.status.version
        online = self._online.read(if_newer_than=self._version)
        assert online is not None  # it contains the worker's last update
        self._version = online.status.version
        self._updates.push(online.status.learner_steps, self._gradients, {"loss": 0.0})


def _transfer(client: rpc.Client, gradients: tf.Tensor) -> Callable[[], None]:
    """Returns a round of the peer."""
    size = int(gradients.shape[0])
    slices = [gradients[offset : offset + SLICE_SIZE] for offset in range(0, size, SLICE_SIZE)]
    sizes = [tf.constant(len(one), tf.int64) for one in slices]

    def transfer() -> None:
        for future in [client.call_async(READ, [one]) for one in sizes]:
            future.result().numpy()
        for future in [client.call_async(SEND, [one]) for one in slices]:
            future.result()

    return transfer


def _rate_of_all(pool: futures.Executor, rounds: Sequence[Callable[[], None]], calls: int) -> float:
    """Calls each function `calls` times, all functions at once; returns calls a second."""
    begin = time.perf_counter()
    for future in [pool.submit(rate, one, calls) for one in rounds]:
        future.result()
    return len(rounds) * calls / (time.perf_counter() - begin)


def workers(
    bench: Bench,
    environment: str = "atari:pong",
    seconds: float = 90.0,
    replay_capacity: int = 20_000,
    min_replay_size: int = 500,
) -> Iterator[Row]:
    """Yields applied updates and actor steps a second of a run with two workers, beside one.

    Both are started by the local launcher. Each worker has one thread for TensorFlow beside its
    acting thread, and all share the machine's cores with the parameter server. The evaluator has
    nothing to do before the end. A speed of a run is a median of learner.csv.

    Args:
      bench: the request.
      environment: its name.
      seconds: length of each run from the start of its server, filling and compilation included.
      replay_capacity: steps in the memory of a worker.
      min_replay_size: items there before its first update.

    Raises:
      RuntimeError: a run failed, did not end in time, or made no update.
    """
    config = {"replay_capacity": replay_capacity, "min_replay_size": min_replay_size}
    flags = {
        "environment": environment,
        "worker_threads": 1,
        "max_minutes": seconds / 60,
        "evaluation_seconds": 1e6,
        "evaluation_episodes": 1,
    }

    def run(num_workers: int) -> tuple[float, ...]:
        with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
            own = {"num_workers": num_workers, "workdir": f"{directory}/run"}
            command = command_of(bench.program, "local", config, {**flags, **own})
            with ChildProcess("run", command) as process:
                process.wait(seconds + _END_SECONDS)
                process.check(0)
            rows = read_rows(pathlib.Path(directory, "run/learner.csv"))
        rows = rows[rows["learner_steps_per_second"] > 0]
        if len(rows) == 0:
            raise RuntimeError(f"the run made no update in {seconds:g} s")
        # The first row with updates holds the tracing.
        rows = rows[1:] if len(rows) > 1 else rows
        return tuple(float(rows[name].median()) for name in _SPEEDS)

    runs = {"two workers": lambda: run(2), "one worker": lambda: run(1)}
    speeds = bench.in_turns("workers", runs, warm_up=False)
    for part, name in enumerate(_SPEEDS):
        yield speeds.row(f"workers/two_{name}", "steps/s", "two workers", "one worker", part=part)
