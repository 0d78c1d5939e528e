"""The replay's process."""

import math
import time

from common.agents.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.handshake import Credentials
from common.cluster.processes import Patience, StopRequest
from common.cluster.topology import Topology
from common.replay.memory import HARD_CAPACITY, Memory
from common.replay.service import ReplayService

FAREWELL_SECONDS = 50.0
"""How long the replay stays for the learner's last look at what was accepted."""


def make_memory(agent: Agent, spec: EnvironmentSpec, seed: int, num_shards: int = 1) -> Memory:
    """Builds the memory that an agent learns from, or one of the shards that make it up.

    Its capacity is soft if the learner removes what is too much (`agent.removal_period`).
    """
    distributions, removal = agent.distributions()
    capacity = math.ceil(agent.replay_capacity / num_shards)
    is_soft = agent.removal_period is not None
    return Memory(
        agent.step_specs(spec),
        capacity,
        distributions,
        removal,
        seed=seed + 1,
        hard_capacity=HARD_CAPACITY * capacity if is_soft else None,
    )


def run_replay(
    agent: Agent,
    spec: EnvironmentSpec,
    topology: Topology,
    credentials: Credentials,
    seed: int,
    stop: StopRequest,
) -> None:
    """Serves a memory until the learner says that the run is over, or `stop` is requested.

    One of several replay tasks serves one of as many shards.

    Raises:
      ClusterError: nobody has added or sampled anything for too long.
    """
    server = rpc.Server(topology.bind_address, credentials, topology.own_address)
    num_shards = len(topology.replay_addresses)
    memory = make_memory(agent, spec, seed + topology.shard, num_shards)
    service = ReplayService(server, memory)
    server.start()
    patience, before = Patience("nobody has used the replay"), None
    while not service.finished and not stop.wait(0.5):
        statistics = memory.statistics()
        if statistics != before:
            patience.renew()
        before = statistics
        patience.check()
    _wait_for_learner(service)
    time.sleep(0.5)  # it still waits for the reply
    server.close()


def _wait_for_learner(service: ReplayService) -> None:
    """Stays while actors that end send their last transitions and the learner counts them."""
    deadline = time.monotonic() + FAREWELL_SECONDS
    while service.learner_present and time.monotonic() < deadline:
        time.sleep(0.1)
