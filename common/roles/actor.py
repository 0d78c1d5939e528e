"""The actor's process: several of the paper's actors, whose policies run as one batch."""

import functools

from absl import logging

from common.acting import actor_start
from common.acting.parameter_puller import ParameterPuller
from common.acting.sender import Sender
from common.agents.replay_agent import ReplayAgent
from common.cluster.parameters import ParameterClient
from common.cluster.processes import report_ready
from common.environments.spec import EnvironmentSpec
from common.replay.service import RemoteMemory
from common.roles import replay
from common.roles.run_context import CALL_SECONDS, RunContext


def run(context: RunContext) -> None:
    """Acts with the published policy until the run is over or a stop is requested.

    After a restart, environments and exploration use other random numbers than before.
    """
    agent, topology, stop = context.agent, context.topology, context.stop
    assert isinstance(agent, ReplayAgent)
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
    shard = topology.service_index(replay.JOB)
    memories = [
        RemoteMemory(
            context.client(address, CALL_SECONDS if number == shard else 1.0),
            agent.step_specs(spec),
        )
        for number, address in enumerate(topology.service(replay.JOB))
    ]
    memory = memories.pop(shard)
    sender = Sender(
        memory,
        functools.partial(agent.items, actor, context.actors, shard),
        agent.schedule(),
        agent.send_batch,
        stop,
        others=memories if agent.samples_per_insert is not None else (),
    )
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
        loop.step()
        if sender.num_accepted:
            report_ready()
        timesteps += 1
        if timesteps % agent.actor_period == 0:
            puller.request()
    sender.close()
    puller.close()
    logging.info("acted for %d steps, %d items accepted", loop.steps, sender.num_accepted)
