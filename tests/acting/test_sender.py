"""Tests of common.acting.sender with real replay services."""

import functools
import time

import numpy as np
import pytest

from common.acting import sender as sender_lib
from common.acting.sender import Sender
from common.cluster import rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.replay import key_layout, keys
from common.replay.memory import Statistics
from common.replay.service import RemoteMemory, ReplayService
from common.types import NStepTransitions
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

SPEC = EnvironmentSpec(3, 2)
TOKEN = "a token of the tests"
SEND_BATCH = 10


@pytest.fixture
def agent():
    return D4PG(
        D4PGConfig(
            policy_sizes=(8,),
            critic_sizes=(8,),
            send_batch=SEND_BATCH,
            min_replay_size=10,
            replay_capacity=1000,
        )
    )


@pytest.fixture
def service(agent):
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
    memory = agent.make_memory(SPEC, seed=0)
    ReplayService(server, memory)
    server.start()
    yield server, memory
    server.close()


def replacement(agent, server):
    """Another replay at the address of one that is gone: its server, memory and accounts."""
    second = rpc.Server(server.address, TOKEN)
    memory = agent.make_memory(SPEC, seed=0)
    accounts = ReplayService(second, memory)
    second.start()
    return second, memory, accounts


def make_sender(agent, server, stop=None, shard=0, others=()):
    client = rpc.Client(server.address, TOKEN, timeout_seconds=0.5)
    actors = range(4, 6)
    actor = agent.make_actor(SPEC, actors, 6, seed=0)
    sender = Sender(
        RemoteMemory(client, agent.step_specs(SPEC)),
        functools.partial(agent.items, actor, actors, shard),
        agent.schedule(),
        agent.send_batch,
        stop or StopRequest(),
        others,
    )
    sender.start()
    return sender


def keys_in(memory):
    """Of all items."""
    sample = memory.sample(5000, seed=1)
    assert len(set(sample.keys.numpy().tolist())) == int(sample.count)
    return np.unique(sample.keys)


def transitions(first_step, count):
    logits = np.zeros([count, 51], np.float32)
    return NStepTransitions(
        environment_index=np.zeros(count, np.int32),
        step=np.arange(first_step, first_step + count),
        observation_tm1=np.ones([count, 3], np.float32),
        action_tm1=np.zeros([count, 2], np.float32),
        n_step_reward=np.ones(count, np.float32),
        n_step_discount=np.full(count, 0.9, np.float32),
        observation_t=np.ones([count, 3], np.float32),
        extras_tm1={"taken": logits, "bootstrap": logits},
        extras_t={"taken": logits, "bootstrap": logits},
    )


def test_everything_collected_in_batches_arrives(agent, service):
    server, memory = service
    sender = make_sender(agent, server)
    sender.add(transitions(0, 4))
    assert memory.statistics().inserted == 0  # not enough yet
    sender.add(transitions(4, 31))  # an episode's end gives many at once
    sender.close()
    statistics = memory.statistics()
    assert statistics.inserted == 35 and statistics.duplicates == 0
    assert sender.num_accepted == 35


def test_what_is_left_is_sent_at_the_end_also_when_asked_to_stop(agent, service):
    server, memory = service
    stop = StopRequest()
    sender = make_sender(agent, server, stop)
    for batch in range(12):
        sender.add(transitions(batch * SEND_BATCH, SEND_BATCH))
    stop.request()
    sender.add(transitions(12 * SEND_BATCH, SEND_BATCH - 3))  # the step that was under way
    sender.close()
    assert memory.statistics().inserted == sender.num_accepted == 13 * SEND_BATCH - 3


def test_a_new_replay_hears_of_all_that_the_former_one_accepted(agent, service):
    server, _ = service
    sender = make_sender(agent, server)
    sender.add(transitions(0, 25))
    while sender.num_accepted < 25:
        time.sleep(0.01)
    incarnation = sender.incarnation
    server.close()
    sender.add(transitions(25, SEND_BATCH))
    second, memory, accounts = replacement(agent, server)
    sender.close()
    assert sender.incarnation == incarnation
    assert accounts.accepted() == {incarnation: 35} and memory.statistics().inserted == 10
    second.close()


def test_a_new_replay_hears_of_it_from_an_actor_that_has_nothing_more_to_send(agent, service):
    server, _ = service
    sender = make_sender(agent, server)
    sender.add(transitions(0, 20))
    while sender.num_accepted < 20:
        time.sleep(0.01)
    server.close()
    second, memory, accounts = replacement(agent, server)
    sender.close()
    assert accounts.accepted() == {sender.incarnation: 20} and memory.statistics().inserted == 0
    second.close()


def test_close_gives_up_on_a_replay_that_is_gone(agent, service, monkeypatch):
    monkeypatch.setattr(sender_lib, "_CLOSE_SECONDS", 1.0)
    server, _ = service
    sender = make_sender(agent, server)
    server.close()
    for batch in range(5):  # one in the sender's hands, four in its queue: full
        sender.add(transitions(batch * SEND_BATCH, SEND_BATCH))
    begin = time.monotonic()
    sender.close()
    assert time.monotonic() - begin >= 1.0


def test_each_transition_is_added_as_often_as_the_agent_says(agent, service):
    server, memory = service
    agent.num_copies = 3
    sender = make_sender(agent, server, shard=2)
    sender.add(transitions(0, 14))
    sender.close()
    number = sender.incarnation % key_layout.MAX_INCARNATIONS
    expected = keys.make_keys(2, 4, number, np.arange(3 * 14))
    np.testing.assert_array_equal(keys_in(memory), expected)
    assert sender.num_accepted == 3 * 14


class Other:
    """Another shard, of which only the counters matter here."""

    def __init__(self):
        self.inserted = self.sampled = 0
        self.asked = 0

    def statistics(self):
        self.asked += 1
        zeros = dict.fromkeys(Statistics._fields, 0)
        return Statistics(
            **zeros | {"items": self.inserted, "inserted": self.inserted, "sampled": self.sampled}
        )


def test_the_ratio_is_kept_over_all_shards(agent, service):
    server, memory = service
    agent.samples_per_insert, agent.batch_size, agent.updates_per_call = 4.0, 8, 1
    other = Other()
    sender = make_sender(agent, server, others=[other])
    assert sender.has_credit()  # nothing is known yet
    sender.add(transitions(0, 40))
    while sender.num_accepted < 40:
        time.sleep(0.01)
    # 4 * (40 - 10) - 0 samples are to be paid, more than two sends of 10 transitions.
    while sender.has_credit():  # until the sender has stored the counters
        time.sleep(0.01)
    memory.sample(20)
    other.sampled = 19  # 120 - 39 > 80 >= 120 - 40
    assert not sender.has_credit()
    other.sampled = 20
    assert sender.has_credit()
    other.inserted = 1
    sender.add(transitions(40, 10))
    while sender.num_accepted < 50:
        time.sleep(0.01)
    while sender.has_credit():
        time.sleep(0.01)
    assert other.asked > 3
    sender.close()
