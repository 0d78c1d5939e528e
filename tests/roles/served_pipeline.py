"""A run of D4PG over the loopback, in one process and in a fixed order, and what came out of it.

    .venv/bin/python tests/roles/served_pipeline.py       # prints hashes as JSON
    .venv/bin/python tests/roles/served_pipeline.py 200   # of so many timesteps

The parts are those of the roles: actors, outbox, the store's service and client, a learner that
draws ahead, the service and client of the parameters. Only their order is fixed: the learner makes
updates while it has credit, then the actors take a timestep, and each waits for what it has sent.
"""

import json
import sys
import time

from bit_for_bit import digest

from common import environments
from common.acting import loop as loop_lib
from common.cluster import rpc, rpc_server
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.remote.inbox import StoreService
from common.remote.outbox import Outbox, RemoteStore
from common.remote.parameters import ParameterClient, ParameterService
from reproductions.d4pg.config import AGENT

_TOKEN = "a token of the tests"
_ENVIRONMENT, _SEED, _ACTORS = "gym:Hopper-v4", 3, range(3)
_FIELDS = {
    "batch_size": 16,
    "samples_per_insert": 16.0,
    "policy_sizes": (16, 16),
    "critic_sizes": (16, 16),
    "min_replay_size": 300,
    "replay_capacity": 600,
    "learning_rate": 1e-3,
    "target_period": 20,
    "actor_period": 20,
    "send_batch": 10,
}


def run(timesteps: int = 400) -> dict[str, str]:
    """Makes the run; returns hashes of its parts."""
    agent = AGENT.make_agent(**_FIELDS)
    seed = loop_lib.exploration_seed(_SEED, _ACTORS.start, 0)
    seeds = [loop_lib.actor_seed(_SEED, actor, 0) for actor in _ACTORS]
    batch = environments.make_batch(_ENVIRONMENT, seeds)
    spec = EnvironmentSpec.of(batch)
    actor = agent.make_actor(spec, _ACTORS, len(_ACTORS), seed)
    learner = agent.make_learner(spec, _SEED)
    data, specs = agent.data, agent.step_specs(spec)
    store = data.make_store(specs, _SEED)
    server = rpc_server.Server(f"127.0.0.1:{free_ports(1)[0]}", _TOKEN)
    StoreService(server, store)
    snapshots = ParameterService(server, learner.num_parameters)
    server.start()

    remotes = [RemoteStore(rpc.Client(server.address, _TOKEN), data.wire(specs)) for _ in range(2)]
    limiter = agent.rate_limiter()
    trainer = agent.make_trainer(learner, remotes[0], spec, _SEED, limiter, agent.prefetch)
    parameters = ParameterClient(rpc.Client(server.address, _TOKEN))
    sent, episodes, metrics = 0, [], []
    outbox = Outbox(remotes[1], limiter, StopRequest())
    outbox.start()
    adder = data.make_adder(
        policy=actor, actors=_ACTORS, specs=specs, seed=_SEED, send_batch=data.send_batch
    )
    adder.incarnation = outbox.incarnation
    loop = loop_lib.ActingLoop(
        *(batch, actor, adder),
        lambda *episode: episodes.append(repr(episode).encode()),
        agent.encode,
    )
    for timestep in range(timesteps):
        if timestep % agent.actor_period == 0:
            snapshots.publish(packing.to_numpy(learner.actor_variables), int(learner.steps), 0, 0.0)
            actor.load(parameters.read().flat)
        deliveries = loop.step()
        outbox.add(deliveries)
        sent += sum(delivery.steps for delivery in deliveries)
        while outbox.num_accepted < sent:
            time.sleep(0.001)
        while (means := trainer.step()) is not None:
            trainer.flush()
            metrics.append(repr({name: float(mean) for name, mean in means.items()}).encode())
    trainer.close()
    sample = store.sample(2 * _FIELDS["replay_capacity"], seed=_SEED)
    server.close()
    return {
        "episodes": digest(episodes),
        "metrics": digest(metrics),
        "memory": digest(value.numpy().tobytes() for value in (sample.masses, *sample.steps)),
        "variables": digest(variable.numpy().tobytes() for variable in learner.variables),
    }


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:]))))
