"""An actor's process: several of the paper's actors, their policies evaluated as one batch."""

import pathlib

from absl import logging
import numpy as np

from common import environments
from common.acting.loop import ActingLoop
from common.acting.n_step import NStepAdder
from common.acting.parameters import ParameterPuller
from common.acting.sender import Sender
from common.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.parameters import ParameterClient
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.environments.batch import BatchedEnvironment
from common.replay.service import RemoteMemory
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory


def run_actor(
    agent: Agent,
    environment_name: str,
    topology: Topology,
    token: str,
    directory: pathlib.Path,
    actors: range,
    seed: int,
    stop: StopRequest,
) -> None:
    """Acts with the published policy until the run is over, or `stop` is requested.

    Args:
      actors: indices of the paper's actors that live in this process.
    """
    batch = BatchedEnvironment(
        # Hashed: no environment repeats what another one does.
        [environments.make(environment_name, _environment_seed(seed, i)) for i in actors]
    )
    spec = EnvironmentSpec.of(batch)
    actor = agent.make_actor(spec, len(actors), seed=_environment_seed(seed, actors.start))
    memory = RemoteMemory(
        rpc.Client(topology.replay_addresses[0], token, 5.0), agent.step_specs(spec)
    )
    puller = ParameterPuller(ParameterClient(rpc.Client(topology.address("learner"), token, 5.0)))
    sender = Sender(agent, actor, memory, actors, stop)
    rows = CsvRows(RunDirectory(directory).acting_csv, columns.ACTING)
    acted = np.zeros(len(actors), np.int64)

    def on_episode(index: int, episode_return: float, length: int) -> None:
        acted[index] += length
        rows.append({
            "wall_seconds": round(puller.wall_seconds, 2),
            "actor": actors[index],
            "incarnation": sender.incarnation,
            "actor_steps": int(acted[index]),
            "episode_return": episode_return,
            "episode_length": length,
            "parameter_version": puller.version,
            "parameter_age_steps": puller.age_steps,
        })

    if not puller.wait(actor.load, stop) or puller.finished:
        return
    sender.start()
    loop = ActingLoop(
        batch, actor, NStepAdder(len(actors), agent.n_step, agent.discount), sender.add, on_episode,
        actor.initial_state(len(actors)),
    )
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
    logging.info("acted for %d steps", loop.steps)


def _environment_seed(seed: int, actor: int) -> int:
    """Of an actor; one that is started again begins with the same states and noise."""
    return int(np.random.SeedSequence([seed, actor]).generate_state(1)[0])
