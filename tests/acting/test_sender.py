"""Tests of common.acting.sender with a real replay service."""

import time

import numpy as np
import pytest

from common.acting.n_step import Transitions
from common.acting.sender import Sender
from common.agent import EnvironmentSpec
from common.cluster import rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.replay.process import make_memory
from common.replay.service import RemoteMemory, ReplayService
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

SPEC = EnvironmentSpec(3, 2)
TOKEN = "a token of the tests"
SEND_BATCH = 10


@pytest.fixture
def agent():
    return D4PG(D4PGConfig(
        policy_sizes=(8,), critic_sizes=(8,), send_batch=SEND_BATCH, min_replay_size=10,
        replay_capacity=1000,
    ))


@pytest.fixture
def service(agent):
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
    memory = make_memory(agent, SPEC, seed=0)
    ReplayService(server, memory)
    server.start()
    yield server, memory
    server.close()


def make_sender(agent, server):
    client = rpc.Client(server.address, TOKEN, timeout_seconds=0.5)
    actor = agent.make_actor(SPEC, 2, seed=0)
    sender = Sender(agent, actor, RemoteMemory(client, agent.step_specs(SPEC)), range(4, 6),
                    StopRequest())
    sender.start()
    return sender


def transitions(first_step, count):
    logits = np.zeros([count, 51], np.float32)
    return Transitions(
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


def test_close_gives_up_on_a_replay_that_is_gone(agent, service):
    server, _ = service
    sender = make_sender(agent, server)
    server.close()
    for batch in range(5):  # one in the sender's hands, four in its queue: full
        sender.add(transitions(batch * SEND_BATCH, SEND_BATCH))
    begin = time.monotonic()
    sender.close()
    assert 4.0 < time.monotonic() - begin < 8.0
