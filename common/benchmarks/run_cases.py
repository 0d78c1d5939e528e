"""Speed of keepers, the roles that keep a run's checkpoints, and of whole runs."""

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import contextlib
import functools
import pathlib
import tempfile
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from common.benchmarks.actor_cases import MUJOCO, simulators
from common.benchmarks.learner_cases import fixed_updates
from common.benchmarks.report import Bench, Row, rate, say
from common.benchmarks.roles import ChildProcess, acting_keeper, command_of, started_role
from common.cluster import credentials, rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.data.data import StoredState
from common.learning.learner import Gradients, Learner
from common.learning.parameter_server import RemoteStep
from common.program import layouts
from common.remote.gradients import GradientSender
from common.remote.parameters import TARGET, ParameterClient
from common.replay.episode_wire import Episode, Episodes
from common.replay.store import Counters, equal_batch
from common.reporting.csv_rows import read_rows
from common.roles.keeper import ActingKeeper
from common.types import Batch

_CHEETAH = "gym:HalfCheetah-v4"
_NO_ACTING = 0, Counters()
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second")
_END_SECONDS = 180.0


def episodes(
    bench: Bench,
    capacity: int = 2**18,
    updates: int = 512,
    updates_per_call: Sequence[int] = (16, 4, 1),
) -> Iterator[Row]:
    """Yields pairs a second of a process that acts during its updates and refreshes its episodes.

    A pair is an update with its environment steps: at one step an update, 1,000 pairs a second are
    1,000 updates and 1,000 steps in HalfCheetah, including their draws and sweeps. The memory is
    full of episodes of 1,000 steps with actions of the untrained policy. The bookkeeping of a run
    is left out. "episodes/acting" steps the environment with the policy, and stores nothing.

    Args:
      bench: the request.
      capacity: steps in the memory.
      updates: updates in each repeat.
      updates_per_call: numbers of updates in a graph call; other configurations have the first.
    """
    peer = "updates in one graph, one fixed sample"
    most = {"updates_per_call": updates_per_call[0]}
    configs: dict[str, dict[str, Any]] = {
        **{f"{number}_a_call": {"updates_per_call": number} for number in updates_per_call},
        "by_rank": {**most, "sampling": "rank"},
        "naf": {**most, "agent": "naf"},
        "ddpg": {**most, "agent": "ddpg", "batch_size": 128},
        "recurrent": {**most, "recurrent": True},
        "ddpg_recurrent": {**most, "agent": "ddpg", "batch_size": 128, "recurrent": True},
    }
    for name, config in configs.items():
        with _full_keeper(bench, capacity, **config) as keeper:
            n = keeper.context.agent.updates_per_call
            steps = {"pairs": functools.partial(_pair, keeper), peer: _updates_alone(keeper)}
            speeds = bench.rates(f"episodes/{name}", steps, max(1, updates // n), n)
            keeper.store.check()
            yield speeds.row(f"episodes/{name}", "pairs/s", "pairs", peer)
    with acting_keeper(bench.make_agent(), _CHEETAH) as keeper:
        spec = keeper.context.spec
        steps = {"acting": keeper.actors.step, MUJOCO: simulators(_CHEETAH, 1, spec)[MUJOCO]}
        speeds = bench.rates("episodes/acting", steps, updates)
        yield speeds.row("episodes/acting", "steps/s", "acting", MUJOCO)


def update_cost(
    bench: Bench,
    costly: str,
    cheap: str,
    capacity: int = 2**16,
    length: int = 1000,
    updates: tuple[int, int] = (10, 800),
) -> Iterator[Row]:
    """Yields updates per CPU second of two settings, and the cost of one in updates of the other.

    Each setting makes its updates on one fixed sample from a full memory, with its configured
    number of updates in a call. CPU seconds, of all threads, depend less on other programs than
    wall-clock seconds.

    Args:
      bench: the request, for an agent whose data are whole episodes.
      costly: name of the setting whose cost is measured.
      cheap: name of the setting whose update is the unit of the cost.
      capacity: steps in the memory.
      length: steps of an episode.
      updates: updates of each setting in a repeat.
    """
    measures: dict[str, Callable[[], float]] = {}
    agents = []
    with contextlib.ExitStack() as stack:
        for setting, number in zip((costly, cheap), updates):
            keeper = stack.enter_context(_full_keeper(bench, capacity, setting, length))
            agents.append(keeper.context.agent.config.agent)
            measures[setting] = _updates_per_cpu_second(keeper, number)
        speeds = bench.in_turns("learner/update_cost", measures)
    yield speeds.row(f"learner/{agents[0]}_updates", "updates/CPU s", costly, cheap)
    ratio = speeds[cheap] / speeds[costly]
    yield Row(f"learner/{agents[0]}_cost_over_{agents[1]}", ratio, "times")


@contextlib.contextmanager
def _full_keeper(
    bench: Bench, capacity: int, setting: str = "", length: int = 1000, **config: Any
) -> Iterator[ActingKeeper]:
    """Yields the keeper of a ReF-ER process whose memory is full.

    The episodes have actions of the untrained policy. The keeper has made the updates of a call.
    """
    sizes = {"replay_capacity": capacity, "min_replay_size": capacity}
    agent = bench.make_agent(setting, **{**config, **sizes})
    with acting_keeper(agent, _CHEETAH) as keeper:
        say("filling, tracing and compiling")
        policy, steps = keeper.actors.policy, min(length, capacity)
        rng = np.random.default_rng(0)
        for _ in range(capacity // steps):
            observation = rng.normal(size=(steps + 1, keeper.context.spec.observation_size))
            observation = observation.astype(np.float32)
            action, _, extras = policy(observation, policy.initial_state(steps + 1))
            values = extras.pop("value")
            rewards = rng.normal(size=steps).astype(np.float32)
            states = StoredState(observation, action, extras)
            episode = Episode(states, rewards, values, False, np.zeros_like(rewards))
            keeper.store.put(Episodes(steps, (episode,)))
        keeper.store.count_steps(capacity % steps)
        _pair(keeper)
        yield keeper


def _pair(keeper: ActingKeeper) -> None:
    """Draws, updates and writes back, and acts during the updates until a call is due."""
    while keeper.trainer.step() is None:
        keeper.await_data()


def _updates_alone(keeper: ActingKeeper) -> Callable[[], object]:
    context = keeper.context
    batch = keeper.store.draw(keeper.trainer.num_samples, 1).batch()
    return fixed_updates(context.agent, keeper.learner, batch, context.spec)


def _updates_per_cpu_second(keeper: ActingKeeper, number: int) -> Callable[[], float]:
    step, n = _updates_alone(keeper), keeper.context.agent.updates_per_call
    return lambda: n * rate(step, max(1, number // n), time.process_time)


def parameter_server(
    bench: Bench, environment: str = "atari:pong", workers: int = 10, rounds: int = 30
) -> Iterator[Row]:
    """Yields rounds a second of all workers together.

    The role runs in its own process on the loopback. A simulated worker is a thread of this process
    with its own client. A round is a worker's learner step with fixed gradients: it downloads the
    newest network, and the target network if it has changed, sends gradients, and waits until the
    published network contains them. Workers and server share the machine's cores.

    Args:
      bench: the request.
      environment: name of the environment, which determines the number of parameters.
      workers: simulated workers.
      rounds: rounds of each worker in a repeat.
    """
    name = f"parameter_server/rounds_of_{workers}_workers"
    topology = Topology.local(layouts.WORKERS.roles, {"parameter_server": 1})
    token = credentials.new_token()
    with (
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
            _simulated_worker(rpc.Client(address, token), worker, gradients)
            for worker in range(workers)
        ]
        speeds = bench.in_turns(name, {"server": lambda: _rate_of_all(pool, simulated, rounds)})
        role.check()
    yield speeds.row(name, "rounds/s", "server")


def workers(
    bench: Bench,
    environment: str = "atari:pong",
    seconds: float = 90.0,
    replay_capacity: int = 20_000,
    min_replay_size: int = 500,
) -> Iterator[Row]:
    """Yields applied updates and actor steps a second of a run with two workers, compared with one.

    The local launcher starts both runs. Each worker has one thread for TensorFlow and an acting
    thread, and all share the machine's cores with the parameter server. The evaluator is idle until
    the end. The speed of a run is a median over the rows of learner.csv.

    Args:
      bench: the request.
      environment: name of the environment.
      seconds: length of each run from the start of its server, including filling and compilation.
      replay_capacity: steps in the memory of a worker.
      min_replay_size: items in this memory before the worker's first update.

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
        # The first row with updates includes the tracing.
        rows = rows[1:] if len(rows) > 1 else rows
        return tuple(float(rows[name].median()) for name in _SPEEDS)

    runs = {"two workers": lambda: run(2), "one worker": lambda: run(1)}
    speeds = bench.in_turns("workers", runs, warm_up=False)
    for part, name in enumerate(_SPEEDS):
        yield speeds.row(f"workers/two_{name}", "steps/s", "two workers", "one worker", part=part)


class _FixedLearner(Learner):
    """A learner whose gradients and metrics are always the same."""

    def __init__(self, gradients: tf.Tensor):
        super().__init__()
        self._variable = tf.Variable(tf.zeros_like(gradients))
        self.target_variables = (tf.Variable(tf.zeros_like(gradients)),)
        self._result = Gradients([gradients], (), {"loss": tf.constant(0.0)})

    @property
    def actor_variables(self) -> Sequence[tf.Variable]:
        return (self._variable,)

    def gradients(self, batch: Batch) -> Gradients:
        del batch
        return self._result

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        raise NotImplementedError("the parameter server applies the gradients")


def _simulated_worker(
    client: rpc.Client, worker: int, gradients: tf.Tensor
) -> Callable[[], object]:
    """Returns the learner step of a worker that has joined."""
    stop = StopRequest()
    sender = GradientSender(client, worker, lambda: _NO_ACTING, stop)
    sender.join()
    networks = ParameterClient(client), ParameterClient(client, TARGET)
    step = RemoteStep(_FixedLearner(gradients), *networks, sender, 1, False, stop)
    batch = equal_batch(tf.zeros([1]))
    drawn = SimpleNamespace(batch=lambda: batch)
    return lambda: step(drawn)


def _rate_of_all(pool: futures.Executor, rounds: Sequence[Callable[[], None]], calls: int) -> float:
    """Calls each function `calls` times, all functions at once; returns calls a second."""
    begin = time.perf_counter()
    for future in [pool.submit(rate, function, calls) for function in rounds]:
        future.result()
    return len(rounds) * calls / (time.perf_counter() - begin)
