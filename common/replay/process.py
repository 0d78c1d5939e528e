"""The replay's process."""

from common.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.processes import Patience, StopRequest
from common.cluster.topology import Topology
from common.replay.memory import Memory
from common.replay.service import ReplayService


def make_memory(agent: Agent, spec: EnvironmentSpec, seed: int) -> Memory:
    """Builds the memory that an agent learns from."""
    distributions, removal = agent.distributions()
    return Memory(
        agent.step_specs(spec), agent.replay_capacity, distributions, removal, seed=seed + 1
    )


def run_replay(
    agent: Agent, spec: EnvironmentSpec, topology: Topology, token: str, seed: int,
    stop: StopRequest,
) -> None:
    """Serves a memory until the learner says that the run is over, or `stop` is requested.

    Raises:
      ClusterError: nobody has added or sampled anything for too long.
    """
    server = rpc.Server(topology.bind_address, token, topology.own_address)
    memory = make_memory(agent, spec, seed)
    service = ReplayService(server, memory)
    server.start()
    patience, before = Patience("nobody has used the replay"), None
    while not service.finished and not stop.wait(0.5):
        statistics = memory.statistics()
        if statistics != before:
            patience.renew()
        before = statistics
        patience.check()
    stop.wait(1.0)  # the learner still waits for the reply
    server.close()
