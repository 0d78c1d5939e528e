"""Learners of other libraries, with which D4PG's learner is compared.

    build/peers/bin/python common/benchmarks/learner_peers.py jax

`make peers` creates that environment. The program prints the title of the peer. Then it reads
numbers of updates from standard input, one a line. For each number it makes these updates and
prints their speed in updates a second.

The sizes are D4PG's for a walker. JAX and PyTorch run D4PG's update, on one fixed batch without a
replay: the categorical projection, both losses, two Adams, and a copy of the targets every 100
updates. Stable-Baselines3 has no D4PG. Its TD3 has networks of the same sizes and its own uniform
replay; it trains a second critic, and the policy in every second update.

This module imports nothing of the project, and each library only where it is measured.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import functools
import pathlib
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / "build" / "peers" / "bin" / "python"
"""The Python with the peers' libraries, created by `make peers`."""

# A test holds these equal to D4PG's defaults.
OBSERVATION_SIZE, ACTION_SIZE, BATCH_SIZE = 24, 6, 256
POLICY_SIZES, CRITIC_SIZES = (300, 200), (400, 300)
NUM_ATOMS, V_MIN, V_MAX = 51, -150.0, 150.0
LEARNING_RATE, TARGET_PERIOD = 1e-4, 100
UPDATES_PER_CALL = 16
"""Updates in each call of a compiled function, as in D4PG's learner."""

Updates = Callable[[int], object]
"""A function that makes a number of updates, or a few more, and returns when they are done."""


def jax_d4pg() -> tuple[str, Updates]:
    """Returns D4PG in JAX, compiled, with the Adam of optax."""
    import jax
    import jax.numpy as jnp
    import optax

    def network(key: Any, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
        keys = jax.random.split(key, len(sizes) - 1)
        init = jax.nn.initializers.lecun_normal()
        layers = [
            {"w": init(key, pair), "b": jnp.zeros(pair[1])}
            for key, pair in zip(keys, zip(sizes, sizes[1:]))
        ]
        layers[0] |= {"scale": jnp.ones(sizes[1]), "offset": jnp.zeros(sizes[1])}
        return layers

    def outputs(layers: list[dict[str, Any]], x: Any) -> Any:
        first, *hidden, last = layers
        x = jax.nn.standardize(x @ first["w"] + first["b"], epsilon=1e-5)
        x = jnp.tanh(x * first["scale"] + first["offset"])
        for layer in hidden:
            x = jax.nn.elu(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]

    def policy(networks: Any, state: Any) -> Any:
        return jnp.tanh(outputs(networks["policy"], state))

    def critic(networks: Any, state: Any, action: Any) -> Any:
        return outputs(networks["critic"], jnp.concatenate([state, action], -1))

    atoms = jnp.linspace(V_MIN, V_MAX, NUM_ATOMS)

    def project(positions: Any, probabilities: Any) -> Any:
        distance = jnp.abs(jnp.clip(positions, V_MIN, V_MAX)[:, None] - atoms[:, None])
        near = jnp.clip(1 - distance / (atoms[1] - atoms[0]), 0, 1)
        return (near * probabilities[:, None]).sum(-1)

    adam = optax.adam(LEARNING_RATE)

    def losses(networks: Any, targets: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        action = policy(targets, batch["next_state"])
        probabilities = jax.nn.softmax(critic(targets, batch["next_state"], action))
        positions = batch["reward"][:, None] + batch["discount"][:, None] * atoms
        projected = jax.lax.stop_gradient(project(positions, probabilities))
        logits = critic(networks, batch["state"], batch["action"])
        distances = -(projected * jax.nn.log_softmax(logits)).sum(-1)
        held = {"policy": networks["policy"], "critic": jax.lax.stop_gradient(networks["critic"])}
        logits = critic(held, batch["state"], policy(held, batch["state"]))
        value = (jax.nn.softmax(logits) * atoms).sum(-1)
        return (batch["weight"] * distances).mean() - value.mean(), distances

    def update(carry: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], Any]:
        networks, targets, state, step, batch = carry
        gradients, priorities = jax.grad(losses, has_aux=True)(networks, targets, batch)
        changes, state = adam.update(gradients, state)
        networks = optax.apply_updates(networks, changes)
        is_due = step % TARGET_PERIOD == 0
        targets = jax.tree.map(lambda new, old: jnp.where(is_due, new, old), networks, targets)
        return (networks, targets, state, step + 1, batch), priorities

    @jax.jit
    def call(carry: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        return jax.lax.scan(update, carry, None, length=UPDATES_PER_CALL)

    keys = jax.random.split(jax.random.key(0), 2)
    networks = {
        "policy": network(keys[0], (OBSERVATION_SIZE, *POLICY_SIZES, ACTION_SIZE)),
        "critic": network(keys[1], (OBSERVATION_SIZE + ACTION_SIZE, *CRITIC_SIZES, NUM_ATOMS)),
    }
    batch = {name: jnp.asarray(column) for name, column in _batch().items()}
    carry = networks, networks, adam.init(networks), jnp.int32(1), batch

    def updates(count: int) -> None:
        nonlocal carry
        for _ in range(-(-count // UPDATES_PER_CALL)):
            carry, priorities = call(carry)
            jax.block_until_ready(priorities)

    return f"JAX {jax.__version__}", updates


def torch_d4pg() -> tuple[str, Updates]:
    """Returns D4PG in PyTorch, not compiled."""
    import copy

    import torch
    from torch import nn

    def network(size: int, first: int, second: int, outputs: int, *last: nn.Module) -> nn.Module:
        return nn.Sequential(
            *(nn.Linear(size, first), nn.LayerNorm(first), nn.Tanh()),
            *(nn.Linear(first, second), nn.ELU(), nn.Linear(second, outputs), *last),
        )

    policy = network(OBSERVATION_SIZE, *POLICY_SIZES, ACTION_SIZE, nn.Tanh())
    critic = network(OBSERVATION_SIZE + ACTION_SIZE, *CRITIC_SIZES, NUM_ATOMS)
    networks = policy, critic
    targets = target_policy, target_critic = copy.deepcopy(policy), copy.deepcopy(critic)
    optimizers = [torch.optim.Adam(each.parameters(), LEARNING_RATE) for each in networks]
    batch = {name: torch.from_numpy(column) for name, column in _batch().items()}
    atoms = torch.linspace(V_MIN, V_MAX, NUM_ATOMS)
    step = 0

    @torch.no_grad()
    def projected() -> torch.Tensor:
        state = batch["next_state"]
        probabilities = target_critic(torch.cat([state, target_policy(state)], -1)).softmax(-1)
        positions = batch["reward"][:, None] + batch["discount"][:, None] * atoms
        distance = (positions.clamp(V_MIN, V_MAX)[:, None] - atoms[:, None]).abs()
        near = (1 - distance / (atoms[1] - atoms[0])).clamp(0, 1)
        return (near * probabilities[:, None]).sum(-1)

    def update() -> None:
        nonlocal step
        state = batch["state"]
        logits = critic(torch.cat([state, batch["action"]], -1))
        distances = -(projected() * logits.log_softmax(-1)).sum(-1)
        logits = critic(torch.cat([state, policy(state)], -1))
        value = (logits.softmax(-1) * atoms).sum(-1).mean()
        losses = -value, (batch["weight"] * distances).mean()
        for loss, trained in zip(losses, networks):
            variables = list(trained.parameters())
            for variable, gradient in zip(variables, torch.autograd.grad(loss, variables)):
                variable.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        if step % TARGET_PERIOD == 0:
            for target, source in zip(targets, networks):
                target.load_state_dict(source.state_dict())

    def updates(count: int) -> None:
        for _ in range(count):
            update()

    return f"PyTorch {torch.__version__.partition('+')[0]}", updates


def stable_baselines3_td3() -> tuple[str, Updates]:
    """Returns TD3 of Stable-Baselines3, which draws its batches from its replay."""
    import gymnasium
    import numpy as np
    import stable_baselines3
    from stable_baselines3.common.logger import Logger

    class Walker(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE,))
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_SIZE,))

    sizes = {"pi": list(POLICY_SIZES), "qf": list(CRITIC_SIZES)}
    model = stable_baselines3.TD3(
        "MlpPolicy", Walker(), LEARNING_RATE, policy_kwargs={"net_arch": sizes}, device="cpu"
    )
    model.set_logger(Logger(None, []))
    batch = _batch()
    ends = np.zeros(1, bool)
    for row in range(BATCH_SIZE):
        columns = [batch[name][row] for name in ("state", "next_state", "action", "reward")]
        model.replay_buffer.add(*columns, ends, [{}])

    def updates(count: int) -> None:
        model.train(count, BATCH_SIZE)

    return f"TD3 of Stable-Baselines3 {stable_baselines3.__version__}", updates


_PEERS = {"jax": jax_d4pg, "torch": torch_d4pg, "stable_baselines3": stable_baselines3_td3}


@contextlib.contextmanager
def started() -> Iterator[dict[str, tuple[str, Callable[[int], float]]]]:
    """Starts each peer as a process of `PYTHON`, which ends with the context.

    Yields:
      For each peer's name its title, and a function that makes a number of updates and returns its
      speed in updates a second.

    Raises:
      RuntimeError: a process ends early; its standard error says why.
    """
    with contextlib.ExitStack() as stack:
        peers = {}
        for name in _PEERS:
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = stack.enter_context(subprocess.Popen([PYTHON, __file__, name], **pipes))
            stack.callback(process.kill)
            peers[name] = _answer(process), functools.partial(_measure, process)
        yield peers


def _answer(process: Any) -> str:
    if line := process.stdout.readline():
        return line.strip()
    raise RuntimeError(f"the peer {process.args[-1]} has ended, see above: run `make peers` again")


def _measure(process: Any, count: int) -> float:
    print(count, file=process.stdin, flush=True)
    return float(_answer(process))


def _batch() -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, BATCH_SIZE, OBSERVATION_SIZE), np.float32)
    return {
        "state": states[0],
        "action": rng.uniform(-1, 1, (BATCH_SIZE, ACTION_SIZE)).astype(np.float32),
        "reward": rng.random(BATCH_SIZE, np.float32),
        "discount": np.full(BATCH_SIZE, 0.99**5, np.float32),
        "next_state": states[1],
        "weight": np.ones(BATCH_SIZE, np.float32),
    }


def main(name: str) -> None:
    """Prints the title of a peer, then its speed for each number of updates that it reads."""
    title, updates = _PEERS[name]()
    print(title, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        updates(int(line))
        print(int(line) / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
