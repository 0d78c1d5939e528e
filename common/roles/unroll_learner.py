"""The learner's process where actors keep their replays: updates from a queue of unrolls (AQL)."""

from common.agents.unroll_agent import UnrollAgent
from common.learning.queue_learner import QueueLearner
from common.replay.unroll_queue import UnrollQueue
from common.replay.unroll_service import UnrollService
from common.roles import keeper
from common.roles.run_context import RunContext

_KEEP_VERSIONS = 32
"""Snapshots that stay readable: a call on a busy machine takes as long as several updates."""
_POLL_SECONDS = 0.002


def run(context: RunContext) -> None:
    """Learns from the newest checkpoint on, until a limit is reached or a stop is requested."""
    agent, stop = context.agent, context.stop
    assert isinstance(agent, UnrollAgent)
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(context.spec, context.seed)
    server = context.server()
    queue = UnrollQueue(agent.step_specs(context.spec), agent.queue_capacity)
    service = UnrollService(server, queue)
    parameters = context.parameter_service(
        server, learner.num_parameters, keep_versions=_KEEP_VERSIONS
    )
    updates = QueueLearner(queue, agent.update_loop(learner))
    bookkeeping = keeper.make_bookkeeping(context, learner, updates, parameters, service.accepted)
    server.start()
    keeper.keep(context, bookkeeping, updates, lambda: stop.wait(_POLL_SECONDS), queue.statistics)
    server.close()
