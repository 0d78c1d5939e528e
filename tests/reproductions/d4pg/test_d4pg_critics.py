"""D4PG's categorical critic against one that shares no code with it; see `policy_evaluation`."""

import numpy as np
import policy_evaluation


def test_the_categorical_critic_learns_what_an_independent_one_does():
    """From the same batches of a kept policy's episode; RESULTS.md has Monte Carlo returns."""
    run = policy_evaluation.load()
    data = policy_evaluation.play(run.make_policy(1), num_noisy=0, num_greedy=1)
    found = []
    for kind in ("categorical", "independent"):
        config = policy_evaluation.configuration(kind, critic_sizes=(32, 32), learning_rate=1e-3)
        evaluation = policy_evaluation.Evaluation(run, data, kind, config)
        before = evaluation.values()
        evaluation.learn(200, jit_compile=False)
        found.append(evaluation.values())
        assert np.abs(found[-1] - before).mean() > 1  # ten copies of the targets
    np.testing.assert_allclose(*found, atol=0.01)
