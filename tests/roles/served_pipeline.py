"""A run of D4PG over the loopback, in one process and in a fixed order, and what came out of it.

    .venv/bin/python tests/roles/served_pipeline.py     # prints hashes as JSON

The parts are those of the roles: actors, outbox, the store's service and client, a learner that
draws ahead, the service and client of the parameters. Only their order is fixed: the learner makes
updates while it has credit, then the actors take a timestep, and each waits for what it has sent.
"""

from collections.abc import Iterable
import json
import time

from bit_for_bit import digest
import numpy as np
import tensorflow as tf

from common.acting import loop as loop_lib
from common.cluster import rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.remote.inbox import StoreService
from common.remote.outbox import Outbox, RemoteStore
from common.remote.parameters import ParameterClient, ParameterService
from reproductions.d4pg.config import AGENT

_TOKEN = "a token of the tests"
_ENVIRONMENT, _SEED, _ACTORS, _TIMESTEPS = "gym:Hopper-v4", 3, range(3), 400
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


def run() -> dict[str, str]:
    """Makes the run; returns hashes of its parts."""
    agent = AGENT.make_agent(**_FIELDS)
    seed = loop_lib.exploration_seed(_SEED, _ACTORS.start, 0)
    environments = loop_lib.make_environments(_ENVIRONMENT, _ACTORS, _SEED, 0, None)
    spec = EnvironmentSpec.of(environments)
    actor = agent.make_actor(spec, _ACTORS, len(_ACTORS), seed)
    learner = agent.make_learner(spec, _SEED)
    data, specs = agent.data, agent.step_specs(spec)
    store = data.make_store(specs, _SEED)
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", _TOKEN)
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
        *(environments, actor, adder),
        lambda *episode: episodes.append(repr(episode).encode()),
        agent.encode,
    )
    for timestep in range(_TIMESTEPS):
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
        "arithmetic": digest(_arithmetic()),
        "episodes": digest(episodes),
        "metrics": digest(metrics),
        "memory": digest(value.numpy().tobytes() for value in (sample.masses, *sample.steps)),
        "variables": digest(variable.numpy().tobytes() for variable in learner.variables),
    }


def _arithmetic() -> Iterable[bytes]:
    """Yields what plain arithmetic gives on this machine, in TensorFlow, XLA and NumPy.

    The shapes are those of the run: in others, sums may be equal where they are not in these.
    """
    normal = np.random.default_rng(0).normal
    x, y = normal(size=(2, 64, 64)).astype(np.float32)
    inputs, weights = (normal(size=size).astype(np.float32) for size in ((16, 16), (16, 51)))

    def compute(x, y, inputs, weights):
        z = tf.exp(tf.tanh(x @ y)) + tf.nn.softmax(x) * tf.math.log(tf.abs(y) + 1)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            mean, variance = tf.nn.moments(inputs, 1, keepdims=True)
            logits = tf.nn.elu((inputs - mean) * tf.math.rsqrt(variance + 1e-5)) @ weights
            shares = 1 - tf.abs(logits[:, :, None] - tf.linspace(-2.0, 2.0, 51))
            target = tf.einsum("bm,bmk->bk", tf.nn.softmax(logits), tf.maximum(shares, 0))
            loss = tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(target), logits)
        return z, tf.reduce_sum(z, axis=0), loss, tape.gradient(loss, weights)

    for jit_compile in (False, True):
        results = tf.function(compute, jit_compile=jit_compile)(
            *map(tf.constant, (x, y, inputs, weights))
        )
        yield b"".join(result.numpy().tobytes() for result in results)
    logits = inputs[:3] @ weights
    yield np.tanh(x @ y).tobytes()
    yield (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).tobytes()


if __name__ == "__main__":
    print(json.dumps(run()))
