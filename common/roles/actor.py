"""The actor's process: several of the paper's actors, whose policies run as one batch."""

from collections.abc import Callable
import functools

from absl import logging

from common.acting import actor_start
from common.acting.parameter_puller import ParameterPuller
from common.acting.policy import Policy
from common.acting.sender import Sender
from common.acting.unroll_sender import UnrollSender
from common.agents.item_agent import ItemAgent
from common.cluster.parameters import ParameterClient
from common.cluster.processes import report_ready
from common.environments.spec import EnvironmentSpec
from common.replay.service import RemoteMemory
from common.roles import replay
from common.roles.run_context import CALL_SECONDS, RunContext


def run(context: RunContext) -> None:
    """Acts and sends to the replay until the run is over or a stop is requested."""
    act(context, _make_sender)


def act(
    context: RunContext,
    make_sender: Callable[[RunContext, EnvironmentSpec, Policy, int], Sender | UnrollSender],
) -> None:
    """Acts with the published policy until the run is over or a stop is requested.

    After a restart, environments and exploration use other random numbers than before.

    Args:
      context: of the run.
      make_sender: builds the sender of what the adder gives, from the context, the environments'
        spec, the exploring policy and the number of earlier starts of these actors.
    """
    agent, topology, stop = context.agent, context.topology, context.stop
    start = actor_start.record_start(context.directory, context.actors)
    environments = context.watch(
        actor_start.make_environments(
            context.environment, context.actors, context.seed, start, agent.num_frames
        )
    )
    spec = EnvironmentSpec.of(environments)
    actor = agent.make_actor(
        spec,
        context.actors,
        context.num_actors,
        actor_start.actor_seed(context.seed, context.actors.start, start),
    )
    sender = make_sender(context, spec, actor, start)
    puller = ParameterPuller(ParameterClient(context.client(topology.keeper_address)))
    log = actor_start.EpisodeLog(
        context.directory,
        context.actors,
        lambda: {
            "wall_seconds": round(puller.wall_seconds, 2),
            "incarnation": sender.incarnation,
            "parameter_version": puller.version,
            "parameter_age_steps": puller.age_steps,
        },
    )

    if not puller.wait(actor.load, stop) or puller.finished:
        return
    sender.start()
    loop = agent.acting_loop(actor, environments, sender.add, log.write)
    timesteps = 0
    while not stop.requested and not puller.finished:
        puller.apply(actor.load)  # even without credit, to notice the end of the run
        if not sender.has_credit():
            continue
        if timesteps % agent.actor_period == agent.pull_timestep:
            puller.request()
        loop.step()
        if sender.num_accepted:
            report_ready()
        timesteps += 1
    sender.close()
    puller.close()
    logging.info("acted for %d steps, %d items accepted", loop.steps, sender.num_accepted)


def _make_sender(context: RunContext, spec: EnvironmentSpec, policy: Policy, start: int) -> Sender:
    """Builds the sender to the shard of the replay that these actors add to."""
    del start
    agent, topology = context.agent, context.topology
    assert isinstance(agent, ItemAgent)
    shard = topology.service_index(replay.JOB)
    memories = [
        RemoteMemory(
            context.client(address, CALL_SECONDS if number == shard else 1.0),
            agent.step_specs(spec),
        )
        for number, address in enumerate(topology.service(replay.JOB))
    ]
    memory = memories.pop(shard)
    return Sender(
        memory,
        functools.partial(agent.items, policy, context.actors, shard),
        agent.schedule(),
        agent.send_batch,
        context.stop,
        others=memories if agent.samples_per_insert is not None else (),
    )
