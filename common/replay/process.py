"""The replay's process."""

from common.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.processes import StopRequest
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
    """Serves a memory until the learner says that the run is over, or `stop` is requested."""
    server = rpc.Server(topology.bind_address, token, topology.own_address)
    service = ReplayService(server, make_memory(agent, spec, seed))
    server.start()
    while not service.finished and not stop.wait(0.5):
        pass
    server.close()
