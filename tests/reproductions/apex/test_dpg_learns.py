"""All the parts of Ape-X DPG together learn a small task in seconds, in one process."""

from one_process import OneProcessRun
from point_task import THRESHOLD, make_environments, mean_return

from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dpg.dpg import ApexDPG

NUM_CALLS = 250


def test_mini_run_learns():
    config = DPGConfig(
        discount=0.9,
        batch_size=64,
        learning_rate=1e-3,
        policy_sizes=(32, 32),
        critic_sizes=(32, 32),
        replay_capacity=2_000,
        min_replay_size=500,
        updates_per_call=8,
        send_batch=1,
        samples_per_insert=16.0,
    )
    agent = ApexDPG(config)
    run = OneProcessRun(agent, make_environments(0, 8))
    assert mean_return(run.evaluator(32)) < 0.5 * THRESHOLD
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS * agent.updates_per_call
    # The last call's step was one of those after which what exceeds the capacity is removed.
    assert statistics.inserted > 8_000 and statistics.items == 2_000
    assert mean_return(run.evaluator(32)) > THRESHOLD
