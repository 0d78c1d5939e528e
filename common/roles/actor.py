"""An actor's process: several of the paper's actors, their policies evaluated as one batch."""

import pathlib

from absl import logging

from common.acting import episodes
from common.acting.loop import loop_of
from common.acting.parameters import ParameterPuller
from common.acting.sender import Sender
from common.agents.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.handshake import Credentials
from common.cluster.parameters import ParameterClient
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.replay.service import RemoteMemory


def run_actor(
    agent: Agent,
    environment_name: str,
    topology: Topology,
    credentials: Credentials,
    directory: pathlib.Path,
    actors: range,
    num_actors: int,
    seed: int,
    stop: StopRequest,
) -> None:
    """Acts with the published policy until the run is over, or `stop` is requested.

    One that is started again goes on with other random numbers than its former lives had.

    Args:
      actors: indices of the paper's actors that live in this process.
      num_actors: of the whole run.
    """
    life = episodes.begin_life(directory, actors)
    batch = episodes.make_environments(environment_name, actors, seed, life)
    spec = EnvironmentSpec.of(batch)
    agent_seed = episodes.actor_seed(seed, actors.start, life)
    actor = agent.make_actor(spec, actors, num_actors, agent_seed)
    memories = [
        RemoteMemory(
            rpc.Client(address, credentials, 5.0 if shard == topology.shard else 1.0),
            agent.step_specs(spec),
        )
        for shard, address in enumerate(topology.replay_addresses)
    ]
    memory = memories.pop(topology.shard)
    others = memories if agent.samples_per_insert is not None else ()
    puller = ParameterPuller(
        ParameterClient(rpc.Client(topology.address("learner"), credentials, 5.0))
    )
    sender = Sender(agent, actor, memory, actors, stop, topology.shard, others)
    log = episodes.EpisodeLog(
        directory,
        actors,
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
    loop = loop_of(agent, actor, batch, sender.add, log.write)
    timesteps = 0
    while not stop.requested and not puller.finished:
        puller.apply(actor.load)  # also without credit, or it would miss the end of the run
        if not sender.has_credit():
            continue
        loop.step()
        timesteps += 1
        if timesteps % agent.actor_period == 0:
            puller.request()
    sender.close()
    puller.close()
    logging.info("acted for %d steps, %d transitions accepted", loop.steps, sender.num_accepted)
