"""Roles that act (actors, workers, environments), and code that they share with an acting keeper.

An actor process hosts several of the paper's actors, whose policies run as one batch. A worker
acts, keeps its own store and computes gradients (Reactor, section 3.4). An environment process
executes the actions that the learner chooses.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import contextlib
import functools
import math
import time
from typing import NamedTuple

from absl import logging
from dm_env import specs

from common import environments
from common.acting import loop
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import UNLEARNT_SECONDS, Background, StopRequest, report_ready
from common.data.data import Delivery
from common.environments.batch import EnvironmentBatch, WatchedBatch
from common.learning.bookkeeping import Bookkeeping
from common.learning.learner import DivergedError
from common.learning.parameter_server import RemoteStep
from common.remote.environments import EnvironmentService, RemoteBatch
from common.remote.gradients import GradientSender
from common.remote.outbox import Outbox, RemoteStore
from common.remote.parameters import TARGET, ParameterClient, ParameterPuller
from common.replay.store import Counters, RateLimiter, Store
from common.roles.run_context import CALL_SECONDS, RunContext

_LATE_SECONDS = 30.0
"""Time that actors wait for newer parameters before they add more steps with the old ones, to make
up for actors that are gone. Longer than the first updates, which include compilation."""
_MOST_TIMESTEPS = 32
"""Maximum number of timesteps between two insertions: collected steps take memory, and a request to
stop waits for the insertion."""


class Acting:
    """The actors of a process, which step together as one batch.

    Attributes:
      start: number of earlier starts of these actors. Random numbers differ between starts.
      policy: the exploring policy.
      adder: collects the actors' steps into deliveries.
      timesteps: number of timesteps of the batch so far.
    """

    def __init__(
        self,
        context: RunContext,
        parameters: "ParameterPuller | LocalActing",
        seed: int | None = None,
        shard: int = 0,
        send_batch: float = math.inf,
    ):
        """Starts an episode in each environment.

        Args:
          context: the context of the run.
          parameters: source of the actors' parameters. acting.csv records their version and age.
          seed: seed of the adder's random draws; None: use the exploration seed.
          shard: number of the shard that receives the steps.
          send_batch: actor steps that the adder collects for a delivery; infinity: until `flush`.
        """
        self._context, self._parameters = context, parameters
        agent, actors = context.agent, context.actors
        self.start = loop.record_start(context.directory, actors)
        batch = _make_environments(context, self.start)
        context.closing.callback(batch.close)
        self.policy = agent.make_actor(context.spec, actors, context.num_actors, self.seed)
        self.adder = agent.data.make_adder(
            policy=self.policy,
            actors=actors,
            specs=context.step_specs,
            seed=self.seed if seed is None else seed,
            shard=shard,
            send_batch=send_batch,
            share=len(actors) / context.num_actors,
        )
        self.timesteps = 0
        self._is_between, self._added_with, self._added_at = True, -1, -math.inf
        log = loop.EpisodeLog(
            context.directory,
            actors,
            lambda: {
                "wall_seconds": round(parameters.wall_seconds, 2),
                "incarnation": self.adder.incarnation,
                "parameter_version": parameters.version,
                "parameter_age_steps": parameters.age_steps,
            },
        )
        self._loop = loop.ActingLoop(batch, self.policy, self.adder, log.write, agent.encode)

    @property
    def seed(self) -> int:
        """The seed of these actors' exploration in this start."""
        context = self._context
        return loop.exploration_seed(context.seed, context.actors.start, self.start)

    @property
    def num_steps(self) -> int:
        """Actor steps of all rows that the adder has completed so far."""
        return self.adder.num_steps

    @property
    def steps(self) -> int:
        """Steps done in all environments together, without resets."""
        return self._loop.steps

    @property
    def pull_is_due(self) -> bool:
        """True if newer parameters are due at this timestep."""
        agent = self._context.agent
        if self.adder.on_policy:
            return self._is_between
        return self.timesteps % agent.actor_period == agent.data.pull_timestep

    @property
    def may_load(self) -> bool:
        """True if newer parameters may replace those in use now."""
        return self._is_between or not self.adder.on_policy

    @property
    def awaits_parameters(self) -> bool:
        """True if the actors may not add more steps with the parameters in use."""
        return (
            self.adder.on_policy
            and self._is_between
            and self._added_with == self._parameters.version
            and time.monotonic() - self._added_at < _LATE_SECONDS
        )

    def step(self) -> Sequence[Delivery]:
        """Advances every environment by one timestep; returns the deliveries that are complete."""
        deliveries = self._loop.step()
        self._is_between = bool(deliveries)
        if deliveries:
            self._added_with, self._added_at = self._parameters.version, time.monotonic()
        self.timesteps += 1
        return deliveries


def _make_environments(context: RunContext, start: int) -> EnvironmentBatch:
    """Returns the environments of this process's actors; other processes may step them."""
    layout, topology = context.layout, context.topology
    workers = layout.acting_role.name
    if workers == topology.job:
        return _own_environments(context, start)
    addresses = topology.addresses(workers)
    rows = [
        layout.actors_of(index, len(addresses), context.num_actors)
        for index in range(len(addresses))
    ]
    clients = [context.client(address) for address in addresses]
    return RemoteBatch(clients, rows, start, *_specs(context), context.stop)


def _own_environments(context: RunContext, start: int) -> WatchedBatch:
    """Returns environments in this process; random numbers differ between starts."""
    num_frames = context.agent.declaration.num_frames
    seeds = [loop.actor_seed(context.seed, actor, start) for actor in context.actors]
    return context.watch(
        lambda: environments.make_batch(context.environment, seeds, frames=num_frames), start
    )


def _specs(context: RunContext) -> tuple[specs.Array, specs.Array]:
    """Returns the specs of an environment's observations and actions."""
    spec = context.spec
    return specs.Array(spec.observation_shape, spec.observation_dtype), spec.action_array


class LocalActing(Acting):
    """Actors in a process that also learns: they add to its store and act with its parameters.

    Attributes:
      version: version of the parameters in use.
      age_steps: learner steps made since these parameters.
    """

    def __init__(
        self,
        context: RunContext,
        store: Store,
        source: Bookkeeping | RemoteStep,
        seed: int,
        incarnation: int | None = None,
    ):
        """Starts an episode in each environment.

        Args:
          context: the context of the run.
          store: receives the actors' steps.
          source: source of the parameters, copied every `agent.actor_period` timesteps.
          seed: seed of the adder's random draws.
          incarnation: number of this start if a server assigns it; None: count the run's starts.
        """
        self._source, self._store = source, store
        self._waiting: deque[Delivery] = deque()
        self.version, self._loaded_at, self._learner_steps = 0, -1, 0
        super().__init__(context, self, seed)
        # A start on a full disk is missing in lives.csv, but not in run.json.
        counted = max(1 + self.start, len(context.directory.read_starts()))
        self.adder.incarnation = incarnation or counted

    @property
    def age_steps(self) -> int:
        """Learner steps made since the parameters in use."""
        return self._learner_steps - self._loaded_at

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start."""
        return self._source.wall_seconds

    def pull(self) -> None:
        """Loads newer parameters if they are due."""
        self._learner_steps = self._source.steps
        is_due = self._loaded_at < 0 or self.pull_is_due
        if is_due and self._learner_steps != self._loaded_at:
            self.policy.load(self._source.parameters())
            self.version, self._loaded_at = self._source.version, self._learner_steps

    def step(self) -> Sequence[Delivery]:
        """Advances every environment by one timestep; complete deliveries wait for `insert`."""
        deliveries = super().step()
        self._waiting.extend(deliveries)
        return deliveries

    def insert(self) -> None:
        """Puts the waiting deliveries into the store, as far as it has room now."""
        self._waiting.extend(self.adder.flush())
        while self._waiting and self._store.put(self._waiting[0].rows):
            self._waiting.popleft()

    def act(self, is_due: Callable[[], bool] = lambda: True) -> None:
        """Advances every environment by one or more timesteps, unless deliveries wait, and inserts.

        Waiting deliveries are learnt from first, so that the next step uses the newer parameters.

        Args:
          is_due: returns whether to insert after the latest timestep; if not, another timestep
            follows. Inserting many timesteps at once takes a seventh of the time.
        """
        if not self._waiting:
            for _ in range(_MOST_TIMESTEPS):
                self.pull()
                self.step()
                if is_due():
                    break
        self.insert()


class Turns(NamedTuple):
    """The rule by which a single process acts and learns in turns.

    Attributes:
      limiter: the learner's rate limiter.
      num_samples: items that a call of the learner draws.
      num_copies: items per actor step.
    """

    limiter: RateLimiter
    num_samples: int
    num_copies: int

    def next_call_is_due(self, actors: Acting, counters: Counters) -> Callable[[], bool]:
        """Returns a function that tells whether the steps made from now on allow a learner's call.

        Args:
          actors: the actors, whose steps from now on are not inserted yet.
          counters: the store's counters, without those steps.
        """
        begin = actors.num_steps

        def is_due() -> bool:
            inserted = counters.inserted + self.num_copies * (actors.num_steps - begin)
            return self.limiter.may_sample(counters._replace(inserted=inserted), self.num_samples)

        return is_due


def acting_during_updates(
    turns: Turns, actors: LocalActing, stop: StopRequest
) -> Callable[[Counters], contextlib.AbstractContextManager[None]]:
    """Returns a context for the updates of a call, in which actors act until the next call is due.

    The actors act in a thread. They use the parameters from before the call and insert after it, so
    that equal seeds give equal runs. The context takes the store's counters before the call.

    Args:
      turns: decides when a call is due.
      actors: the actors.
      stop: ends a wait for actors whose environments are in processes that are gone.
    """
    thread = futures.ThreadPoolExecutor(1, "act")

    def act(counters: Counters) -> None:
        is_due = turns.next_call_is_due(actors, counters)
        while not (is_due() or stop.requested):
            actors.step()

    @contextlib.contextmanager
    def around(counters: Counters) -> Iterator[None]:
        actors.pull()
        after = counters._replace(sampled=counters.sampled + turns.num_samples)
        acting = thread.submit(act, after)
        try:
            yield
        finally:
            acting.result()
        actors.insert()

    return around


_AWAIT_SECONDS = 0.005
"""Time between requests of actors that wait for newer parameters."""


def run_actor(context: RunContext) -> None:
    """Acts with the published policy and sends steps until the run is over or a stop is requested.

    After a restart, environments and exploration use other random numbers than before.
    """
    topology, stop = context.topology, context.stop
    shard = topology.service_index(context.layout.store)
    puller = ParameterPuller(ParameterClient(context.client(topology.keeper_address)))
    acting = Acting(context, puller, shard=shard, send_batch=context.agent.data.send_batch)
    policy, adder = acting.policy, acting.adder
    outbox = make_outbox(context, shard)
    if not puller.wait(policy.load, stop) or puller.finished:
        return
    outbox.start()
    adder.incarnation = outbox.incarnation
    file = context.store_file(adder.replay) if adder.replay else None
    if file is not None:
        file.load()
    while not stop.requested and not puller.finished:
        if acting.may_load:
            puller.apply(policy.load)  # even without credit, to notice the end of the run
        if not outbox.has_credit():
            continue
        if acting.awaits_parameters:
            puller.request()
            stop.wait(_AWAIT_SECONDS)
            continue
        if acting.pull_is_due:
            puller.request()
        outbox.add(acting.step())
        if outbox.num_accepted:
            report_ready()
        if file is not None:
            file.save_if_due()
    outbox.close(adder.flush())
    puller.close()
    if file is not None:
        file.close(is_over=puller.finished)
    logging.info("acted for %d steps, %d accepted", acting.steps, outbox.num_accepted)


def make_outbox(context: RunContext, shard: int) -> Outbox:
    """Builds the outbox to the store, or to the shard to which these actors add."""
    agent, job = context.agent, context.layout.store
    wire = agent.data.wire(context.step_specs)
    stores = [
        RemoteStore(context.client(address, CALL_SECONDS if number == shard else 1.0), wire)
        for number, address in enumerate(context.topology.service(job))
    ]
    return Outbox(
        stores.pop(shard),
        agent.rate_limiter(),
        context.stop,
        others=stores if agent.samples_per_insert is not None else (),
        in_lockstep=agent.data.in_lockstep,
        job=job,
        most_waiting=agent.data.most_waiting,
    )


_POLL_SECONDS = 0.002


def run_worker(context: RunContext) -> None:
    """Acts in one thread and learns in another until the run is over or a stop is requested.

    The rate limiter holds both to the agent's ratio of samples to inserts. After a restart,
    environment and exploration use other random numbers than before.
    """
    agent, spec, stop = context.agent, context.spec, context.stop
    stop.end_within(UNLEARNT_SECONDS, lambda: None)  # nothing to save before an update
    actors: LocalActing | None = None

    def progress() -> tuple[int, Counters]:
        return actors.num_steps if actors else 0, store.counters()

    client = context.client(context.topology.keeper_address)
    sender = GradientSender(client, context.actors.start, progress, stop)
    if not sender.join():
        return
    seed = loop.actor_seed(context.seed, context.actors.start, sender.incarnation)
    learner = agent.make_learner(spec, seed)
    store = agent.data.make_store(context.step_specs, seed)
    file = context.store_file(store)
    file.load()
    step = RemoteStep(
        learner,
        ParameterClient(client),
        ParameterClient(client, TARGET),
        sender,
        agent.batch_size,
        agent.jit_compile,
        stop,
    )
    if not step.download():
        return
    limiter = agent.rate_limiter(in_turns=True)
    trainer = agent.make_trainer(learner, store, spec, seed, limiter, updates=step)
    actors = LocalActing(context, store, step, seed, sender.incarnation)

    def act() -> None:
        while not (stop.requested or step.finished):
            if limiter.may_insert(store.counters()):
                actors.act()
            else:
                stop.wait(_POLL_SECONDS)

    acting = Background(act, "act")
    acting.start()
    while not (stop.requested or step.finished):
        acting.check()
        if actors.num_steps:
            report_ready()
        try:
            metrics = trainer.step()
        except DivergedError:
            # A start with the same contents would diverge again.
            file.close(is_over=True, is_bad=True)
            raise
        if metrics is None:  # the store is filling, or the actor has to catch up
            if sender.report_if_due():
                step.download()
            stop.wait(_POLL_SECONDS)
        else:
            stop.take_time()
        file.save_if_due()
    stop.take_time()
    acting.join()
    acting.check()
    trainer.close()
    try:
        sender.report()
    except ServiceUnavailableError as error:
        logging.warning("the last actor steps were not reported: %s", error)
    file.close(is_over=step.finished)
    acted = actors.num_steps
    logging.info("acted for %d steps, %d accepted, until learner step %d", acted, acted, step.steps)


def run_environments(context: RunContext) -> None:
    """Steps the environments of this process's actors until the run is over or a stop is requested.

    Raises:
      PatienceError: the learner has not called for too long.
    """
    server = context.server()
    make = functools.partial(_own_environments, context)
    service = EnvironmentService(server, len(context.actors), *_specs(context), make)
    context.closing.callback(service.close)
    server.start()
    report_ready()
    service.serve(context.stop)
    server.close()
