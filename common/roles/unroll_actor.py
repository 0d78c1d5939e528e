"""The actor's process where actors keep their replays (AQL algorithm 1)."""

import functools

from common.acting import actor_start
from common.acting.policy import Policy
from common.acting.unroll_sender import UnrollSender
from common.agents.unroll_agent import UnrollAgent
from common.environments.spec import EnvironmentSpec
from common.replay.unroll_service import RemoteUnrollQueue
from common.roles import actor
from common.roles.run_context import CALL_SECONDS, RunContext


def run(context: RunContext) -> None:
    """Acts as `common.roles.actor`. After a restart the replays of these actors are empty."""
    actor.act(context, _make_sender)


def _make_sender(
    context: RunContext, spec: EnvironmentSpec, policy: Policy, start: int
) -> UnrollSender:
    """Builds the sender of these actors' unrolls and of those from their replays."""
    del policy
    agent = context.agent
    assert isinstance(agent, UnrollAgent)
    seed = actor_start.actor_seed(context.seed, context.actors.start, start)
    client = context.client(context.topology.keeper_address, CALL_SECONDS)
    return UnrollSender(
        RemoteUnrollQueue(client, agent.step_specs(spec)),
        functools.partial(agent.burst, agent.make_replay(spec, seed), context.actors),
        agent.count_steps,
        agent.max_offer,
        context.stop,
    )
