"""Tests of common.roles.replay: how it ends."""

import dataclasses
import socket
import threading
import time

import numpy as np
import pytest
from run_contexts import TOKEN, make_context

from common.cluster import rpc
from common.cluster.topology import Topology, split_address
from common.environments.spec import EnvironmentSpec
from common.program.layouts import DISTRIBUTED
from common.replay.service import RemoteMemory
from common.replay.shards import ShardedMemory
from common.roles import replay
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

SPEC = EnvironmentSpec(3, 2)


def replay_of(num_shards):
    """The place of the first shard."""
    topology = Topology.local(DISTRIBUTED.roles, {"learner": 1, "replay": num_shards})
    return dataclasses.replace(topology, job="replay")


class Running:
    """A replay's main function in a thread, a client of it, and a socket in a learner's place."""

    def __init__(self, topology=None):
        agent = D4PG(D4PGConfig(replay_capacity=100, min_replay_size=10, batch_size=4))
        topology = topology or replay_of(1)
        context = make_context(agent, SPEC, topology, directory=None)
        self.stop = context.stop
        host, port = split_address(topology.keeper_address)
        self.learner = socket.create_server((host, port), reuse_port=True)
        self.thread = threading.Thread(target=replay.run, args=[context])
        self.thread.start()
        client = rpc.Client(topology.own_address, TOKEN)
        client.wait_until_available(30)
        self._specs = agent.step_specs(SPEC)
        self.memory = RemoteMemory(client, self._specs)

    def insert(self, begin):
        """Adds ten transitions."""
        steps = self._specs._make(np.zeros([10, *spec.shape], np.float32) for spec in self._specs)
        self.memory.insert(np.arange(begin, begin + 10), steps, np.ones(10, np.float32))

    def ends_within(self, seconds):
        """Whether it has come to its end."""
        self.thread.join(seconds)
        return not self.thread.is_alive()


@pytest.fixture
def running():
    running = Running()
    yield running
    running.stop.request()
    running.learner.close()
    running.thread.join(30)


def test_stays_for_the_learners_last_look(running):
    incarnation = running.memory.new_incarnation()
    running.insert(0)
    assert running.memory.accepted() == {incarnation: 10}
    running.stop.request()
    time.sleep(1.0)
    running.insert(10)  # of an actor that ends
    assert running.memory.accepted() == {incarnation: 20}
    running.memory.disconnect(finished=False)
    assert running.ends_within(60)


def test_does_not_wait_for_a_learner_that_has_died(running):
    running.memory.accepted()
    running.stop.request()
    assert not running.ends_within(1.5)
    running.learner.close()
    assert running.ends_within(replay._LINGER_SECONDS / 2)


def test_does_not_wait_for_a_learner_that_is_not_there(running):
    running.memory.new_incarnation()
    running.insert(0)
    running.stop.request()
    assert running.ends_within(60)


def test_a_learner_that_leaves_ends_it_only_with_the_run(running):
    running.memory.accepted()
    running.memory.disconnect(finished=False)
    assert not running.ends_within(1.5)
    running.memory.disconnect(finished=True)
    assert running.ends_within(60)


def test_each_shard_keeps_its_part_and_all_end_with_the_run():
    first = replay_of(2)
    shards = [Running(one) for one in (first, dataclasses.replace(first, index=1))]
    memory = ShardedMemory([one.memory for one in shards])
    for one in shards:
        for begin in range(0, 60, 10):
            one.insert(begin)
    assert [one.memory.statistics().items for one in shards] == [50, 50]
    memory.accepted()
    memory.disconnect(finished=True)
    assert all(one.ends_within(60) for one in shards)
