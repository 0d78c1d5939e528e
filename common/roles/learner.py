"""The learner's process: updates from a replay until the run is over."""

from absl import logging

from common.agents.item_agent import ItemAgent
from common.cluster.errors import ServiceUnavailableError
from common.replay.replay_memory import ReplayMemory
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory
from common.roles import keeper, replay
from common.roles.run_context import RunContext


def run(context: RunContext) -> None:
    """Learns from the newest checkpoint on, until a limit is reached or a stop is requested."""
    agent, spec, stop = context.agent, context.spec, context.stop
    assert isinstance(agent, ItemAgent)
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(spec, context.seed)
    server = context.server()
    memory: ReplayMemory
    if context.topology.hosts(replay.JOB):
        memory = own_memory = agent.make_memory(spec, context.seed)
        accepted, disconnect = ReplayService(server, own_memory).accepted, None
        prefetch = agent.prefetch if agent.decodes else 0
    else:
        memory = remote = _remote_memory(context, agent)
        accepted, disconnect = remote.accepted, remote.disconnect
        prefetch = agent.prefetch
    parameters = context.parameter_service(server, learner.num_parameters)
    updates = agent.replay_learner(learner, memory, spec, context.seed, agent.schedule(), prefetch)
    bookkeeping = keeper.make_bookkeeping(context, learner, updates, parameters, accepted)
    server.start()
    finished = keeper.keep(
        context, bookkeeping, updates, lambda: stop.wait(0.01), memory.statistics
    )
    if disconnect is not None:
        try:
            disconnect(finished)
        except ServiceUnavailableError as error:
            if finished:  # one that was stopped, too, has ended
                logging.warning("the replay was not told that the run is over: %s", error)
    server.close()


def _remote_memory(context: RunContext, agent: ItemAgent) -> RemoteMemory | ShardedMemory:
    """Returns the memory in other processes; several shards act as one memory."""
    shards = [
        RemoteMemory(context.client(address), agent.step_specs(context.spec))
        for address in context.topology.service(replay.JOB)
    ]
    return shards[0] if len(shards) == 1 else ShardedMemory(shards)
