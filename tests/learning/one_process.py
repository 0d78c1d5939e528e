"""Actors, memory and learner in one process, in turns: enough for a task of seconds."""

from agent_loops import make_loop, put
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks import packing


class OneProcessRun:
    """An agent that acts in a batch of environments and learns from what it did there.

    Args:
      agent: as a program in `binaries` makes it.
      environments: a `BatchedEnvironment`, an actor for each.
      in_turns: whether actors and learner are as close to their ratio as they can be.
    """

    def __init__(self, agent, environments, in_turns=False):
        self._agent, self._spec = agent, EnvironmentSpec.of(environments)
        self.learner = agent.make_learner(self._spec, seed=1)
        self.memory = agent.data.make_store(agent.step_specs(self._spec), seed=1)
        self._limiter = agent.rate_limiter(in_turns)
        self.trainer = agent.make_trainer(self.learner, self.memory, self._spec, 0, self._limiter)
        self._pack = tf.function(lambda: packing.pack(self.learner.actor_variables))
        actors = range(environments.num_environments)
        self._actor = agent.make_actor(self._spec, actors, len(actors), seed=2)
        self._actor.load(self._pack().numpy())
        _, self._acting = make_loop(agent, self._actor, environments, seed=3)

    def act(self):
        """Advances the environments by a timestep, and stores what that completes."""
        put(self.memory, self._acting.step())

    def evaluator(self, count):
        """The policy of this moment, for so many environments."""
        policy = self._agent.make_evaluator(self._spec, count)
        policy.load(self._pack().numpy())
        return policy

    def train(self, num_calls):
        """Acts, as the rate limiter allows, until the learner has made so many calls."""
        calls = 0
        while calls < num_calls:
            if self._limiter.may_insert(self.memory.counters()):
                self.act()
            if self.trainer.step() is not None:
                calls += 1
                self._actor.load(self._pack().numpy())
