"""Actors, memory and learner in one process, in turns: enough for a task of seconds."""

import functools

from common.acting.items import as_items
import numpy as np
import tensorflow as tf

from common.acting.loop import loop_of
from common.environments.spec import EnvironmentSpec
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.networks import packing
from common.roles.replay import make_memory


class OneProcessRun:
    """An agent that acts in a batch of environments and learns from what it did there.

    Args:
      agent: as a program in `binaries` makes it.
      environments: a `BatchedEnvironment`, an actor for each.
    """

    def __init__(self, agent, environments):
        self._agent, self._spec = agent, EnvironmentSpec.of(environments)
        self.learner = agent.make_learner(self._spec, seed=1)
        self.memory = make_memory(agent, self._spec, seed=1)
        loop = UpdateLoop(
            self.learner.update, agent.updates_per_call, agent.batch_size, agent.jit_compile
        )
        self._schedule = schedule_for(agent)
        self._replay_learner = ReplayLearner(
            self.memory,
            loop,
            self.learner.steps,
            self._schedule,
            prefetch=0,
            decode=functools.partial(agent.decode, spec=self._spec),
            removal_period=agent.removal_period,
        )
        self._pack = tf.function(lambda: packing.pack(self.learner.actor_variables))
        num_actors = environments.num_environments
        self._actors = np.arange(num_actors)
        self._actor = agent.make_actor(self._spec, range(num_actors), num_actors, seed=2)
        self._actor.load(self._pack().numpy())
        self._acting = loop_of(agent, self._actor, environments, self._add, lambda *_: None)

    def _add(self, transitions):
        self.memory.insert(*as_items(self._agent, self._actor, transitions, self._actors, 0, 0))

    def evaluator(self, count):
        """The policy of this moment, for so many environments."""
        policy = self._agent.make_evaluator(self._spec, count)
        policy.load(self._pack().numpy())
        return policy

    def train(self, num_calls):
        """Acts, as the schedule allows, until the learner has made so many calls."""
        calls = 0
        while calls < num_calls:
            if self._schedule.may_insert(self.memory.statistics()):
                self._acting.step()
            if self._replay_learner.step() is not None:
                calls += 1
                self._actor.load(self._pack().numpy())
