"""All the parts of D4PG together learn a small task in seconds, in one process."""

from one_process import OneProcessRun
from point_task import THRESHOLD, RandomPolicy, make_environments, mean_return

from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

NUM_ACTORS = 8
NUM_CALLS = 500


def test_mini_run_learns():
    config = D4PGConfig(
        n_step=5,
        discount=0.9,
        batch_size=64,
        learning_rate=1e-3,
        num_atoms=21,
        v_min=-10.0,
        v_max=10.0,
        policy_sizes=(32, 32),
        critic_sizes=(32, 32),
        replay_capacity=5_000,
        min_replay_size=500,
        updates_per_call=8,
        send_batch=1,
        samples_per_insert=16.0,
    )
    agent = D4PG(config)
    run = OneProcessRun(agent, make_environments(0, NUM_ACTORS))
    assert mean_return(RandomPolicy()) < 0.5 * THRESHOLD
    assert mean_return(run.evaluator(32)) < 0.5 * THRESHOLD
    run.train(NUM_CALLS)
    run.memory.check()
    assert int(run.learner.steps) == NUM_CALLS * agent.updates_per_call
    assert run.memory.statistics().sampled == int(run.learner.steps) * agent.batch_size
    assert mean_return(run.evaluator(32)) > THRESHOLD
