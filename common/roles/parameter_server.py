"""The parameter server's process: networks and optimiser, to which workers send gradients."""

from common.agents.item_agent import ItemAgent
from common.cluster.parameters import TARGET
from common.learning.applied_updates import METRICS, AppliedUpdates
from common.learning.update_service import UpdateService
from common.networks import packing
from common.replay.memory import Statistics
from common.roles import keeper
from common.roles.run_context import RunContext

_KEEP_VERSIONS = 16
"""Every update is published, so a slow reader needs that many to finish reading one."""
_NOTHING = Statistics(*[0] * len(Statistics._fields))


def run(context: RunContext) -> None:
    """Applies workers' updates until a limit is reached or a stop is requested (Reactor, 3.4)."""
    agent = context.agent
    assert isinstance(agent, ItemAgent)
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(context.spec, context.seed)
    server = context.server()
    size = learner.num_parameters
    service = UpdateService(server, size, len(agent.metrics), context.num_actors)
    parameters = context.parameter_service(server, size, keep_versions=_KEEP_VERSIONS)
    target = context.parameter_service(server, size, name=TARGET)

    def publish_target() -> None:
        counters = bookkeeping.counters
        flat = packing.to_numpy(learner.target_variables)
        target.publish(flat, int(learner.steps), counters.actor_steps, counters.wall_seconds)

    def on_applied() -> None:
        if int(learner.steps) % agent.target_period == 0:
            publish_target()

    updates = AppliedUpdates(learner, service, agent.metrics, on_applied)
    bookkeeping = keeper.make_bookkeeping(
        context,
        learner,
        updates,
        parameters,
        service.accepted,
        metrics=(*agent.metrics, *METRICS),
        publish_period=1,
    )
    updates.resume()
    publish_target()
    server.start()
    keeper.keep(context, bookkeeping, updates, lambda: None, lambda: updates.statistics or _NOTHING)
    server.close()
