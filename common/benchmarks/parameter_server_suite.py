"""Speed of a parameter server under many workers, beside methods that do nothing.

The role runs in a process of its own on the loopback. A simulated worker is a thread of this
process with a client of its own. Its rounds are a worker's learner steps without any computing: it
downloads the newest network, and the target network if it has changed, sends gradients, and waits
until the published network contains them. Workers and server share the cores of the machine.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import dataclasses
import time

import tensorflow as tf

from common.benchmarks import idle_server
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram, RoleProcess
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.parameters import SLICE_SIZE, TARGET, ParameterClient
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.learning.update_client import UpdateClient
from common.program import layouts
from common.replay.memory import Statistics

_NO_ACTING = 0, Statistics(*[0] * len(Statistics._fields))


@dataclasses.dataclass(frozen=True)
class ParameterServerSizes:
    """Amount of what is measured.

    Attributes:
      environment: its name; it decides the number of parameters.
      workers: simulated workers.
      rounds: rounds of each worker in a repeat.
    """

    environment: str = "atari:pong"
    workers: int = 10
    rounds: int = 30


FULL = ParameterServerSizes()
QUICK = ParameterServerSizes(workers=2, rounds=5)


def measure(program: BenchmarkedProgram, sizes: ParameterServerSizes, repeats: int) -> list[Row]:
    """Returns the row of the parameter server suite, rounds a second of all workers together.

    The peer sends the same gradients and reads as many parameters, in slices of the same size, but
    from methods that do nothing, and waits for no update.
    """
    topology = Topology.local(layouts.WORKERS.roles, {"parameter_server": 1})
    token = token_lib.new_token()
    num_metrics = len(program.make_agent().metrics)
    with (
        idle_server.idle_server(token) as idle_address,
        RoleProcess(program, "parameter_server", topology, token, sizes.environment, {}) as role,
    ):
        address = topology.keeper_address
        client = rpc.Client(address, token)
        role.wait_until_available(client)
        while (snapshot := ParameterClient(client).read()) is None:  # it answers, then publishes
            role.check()
            time.sleep(0.1)
        gradients = tf.random.stateless_normal(snapshot.flat.shape, (0, 0), stddev=1e-3)
        say(f"the network has {len(snapshot.flat):,} parameters")
        workers = [
            _SimulatedWorker(rpc.Client(address, token), worker, gradients, num_metrics)
            for worker in range(sizes.workers)
        ]
        transfers = [
            _transfer(rpc.Client(idle_address, token), gradients) for _ in range(sizes.workers)
        ]
        name = f"parameter_server/rounds_of_{sizes.workers}_workers"
        with futures.ThreadPoolExecutor(sizes.workers) as pool:
            speeds = interleave(
                name,
                {
                    "server": lambda: _rate_of_all(pool, workers, sizes.rounds),
                    "idle": lambda: _rate_of_all(pool, transfers, sizes.rounds),
                },
                repeats,
            )
        role.check()
    return [Row(name, speeds["server"], "rounds/s", "methods that do nothing", speeds["idle"])]


class _SimulatedWorker:
    """The calls of a worker's learner steps (`common.learning.remote_step`)."""

    def __init__(self, client: rpc.Client, worker: int, gradients: tf.Tensor, num_metrics: int):
        self._online, self._target = ParameterClient(client), ParameterClient(client, TARGET)
        self._updates = UpdateClient(client, worker, lambda: _NO_ACTING, StopRequest())
        self._updates.join()
        self._gradients = gradients
        self._metrics = tf.zeros([num_metrics])
        self._target_version = self._version = 0

    def __call__(self) -> None:
        target = self._target.read(if_newer_than=self._target_version)
        if target is not None:
            self._target_version = target.status.version
        online = self._online.read(if_newer_than=self._version)
        assert online is not None  # it contains the worker's last update
        self._version = online.status.version
        self._updates.push(online.status.learner_steps, self._gradients, self._metrics)


def _transfer(client: rpc.Client, gradients: tf.Tensor) -> Callable[[], None]:
    """Returns a round of the peer."""
    size = int(gradients.shape[0])
    slices = [gradients[offset : offset + SLICE_SIZE] for offset in range(0, size, SLICE_SIZE)]
    sizes = [tf.constant(len(one), tf.int64) for one in slices]

    def transfer() -> None:
        for future in [client.call_async(idle_server.READ, [one]) for one in sizes]:
            future.result().numpy()
        for future in [client.call_async(idle_server.SEND, [one]) for one in slices]:
            future.result()

    return transfer


def _rate_of_all(pool: futures.Executor, rounds: Sequence[Callable[[], None]], calls: int) -> float:
    """Calls each function `calls` times, all functions at once; returns calls a second."""
    begin = time.perf_counter()
    for future in [pool.submit(rate, one, calls) for one in rounds]:
        future.result()
    return len(rounds) * calls / (time.perf_counter() - begin)
