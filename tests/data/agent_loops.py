"""An agent of no paper, and the acting loop of any agent, as its role makes it."""

import tensorflow as tf

from common.acting.loop import ActingLoop
from common.acting.policy import Policy
from common.agents.agent import Agent
from common.environments.spec import EnvironmentSpec


class StubPolicy(Policy):
    """A policy without parameters."""

    def load(self, flat):
        pass


class StubLearner(tf.Module):
    """A learner without parameters, whose `update` has to count `steps`."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.actor_variables = ()


class StubAgent(Agent):
    """An agent whose `policy` and `learner` are classes without arguments."""

    jit_compile = False

    def build_learner(self, spec, seed):
        return self.learner()

    def make_actor(self, spec, actors, num_actors, seed):
        return self.policy()

    def make_evaluator(self, spec, num_environments):
        return self.policy()


def make_loop(agent, policy, environments, on_episode=lambda *_: None, actors=None, **options):
    """Returns the adder of the actors in some environments, and the loop that fills it.

    Args:
      agent: as a program in `binaries` makes it.
      policy: the actors' policy.
      environments: a batch, an actor for each.
      on_episode: see `ActingLoop`.
      actors: indices; default: from 0 on.
      options: arguments of `Data.make_adder`; the default seed is 0.
    """
    specs = agent.step_specs(EnvironmentSpec.of(environments))
    actors = actors or range(environments.num_environments)
    arguments = {"policy": policy, "actors": actors, "specs": specs, "seed": 0} | options
    adder = agent.data.make_adder(**arguments)
    return adder, ActingLoop(environments, policy, adder, on_episode, agent.encode)


def put(store, deliveries):
    """Puts deliveries into a store that has room for them."""
    for delivery in deliveries:
        assert store.put(delivery.rows) is not False
