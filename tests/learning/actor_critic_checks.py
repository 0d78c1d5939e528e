"""Checks that hold for the learner of every paper with a deterministic policy and its critic."""

from float64_networks import assert_all_equal, values_of
import numpy as np


def check_changes(before, variables, gradients, factor):
    """Asserts that an update with steps of plain SGD of size 1 added the gradients.

    Args:
      before: `Float64Networks` from before the update.
      variables: of the policy or of the critic.
      gradients: of the objective in each variable; each has a number that tells.
      factor: 1 where the update ascends, -1 where it descends, times a clipped norm's scale.
    """
    for variable, gradient in zip(variables, gradients, strict=True):
        change = variable.numpy() - before.of(variable)
        np.testing.assert_allclose(change, factor * gradient, rtol=2e-3, atol=2e-5)
        assert np.abs(gradient).max() > 1e-4


def check_gradients_that_are_none(tape, learner, critic_loss, own_loss, policy_loss):
    """Asserts that each loss reaches the networks that it trains, and no others.

    Args:
      tape: a persistent one, with the losses.
      learner: of the networks.
      critic_loss: as the learner has it.
      own_loss: the same with the online networks as their own targets, in the targets alone.
      policy_loss: as the learner has it.
    """
    policy = learner.networks.policy.trainable_variables
    critic = learner.networks.critic.trainable_variables
    targets = learner.target_networks.variables
    for loss, variables in (
        (critic_loss, policy),
        (critic_loss, targets),
        (own_loss, (*policy, *critic)),
        (policy_loss, critic),
        (policy_loss, targets),
    ):
        assert set(tape.gradient(loss, variables)) == {None}
    assert None not in tape.gradient(critic_loss, critic)
    assert None not in tape.gradient(policy_loss, policy)


def check_policy_goes_by_the_first_state_alone(make_learner, make_batch):
    """Asserts that neither later states, nor rewards, nor probabilities move the policy."""
    first, second = make_learner(), make_learner()
    batch, other = make_batch(seed=0), make_batch(seed=1)
    first.update(batch)
    steps = other.steps._replace(observation_tm1=batch.steps.observation_tm1)
    second.update(other._replace(steps=steps))
    assert_all_equal(
        values_of(first.networks.policy.trainable_variables),
        values_of(second.networks.policy.trainable_variables),
    )


def check_targets_are_copied_every_period(make_learner, make_batch):
    """Asserts that the targets are the online networks of the last multiple of the period."""
    learner = make_learner(target_period=3)
    before = values_of(learner.target_networks.variables)
    for step in range(1, 8):
        learner.update(make_batch(seed=step))
        assert int(learner.steps) == step
        if step % 3 == 0:
            before = values_of(learner.networks.variables)
        assert_all_equal(values_of(learner.target_networks.variables), before)
    online = values_of(learner.networks.variables)
    assert any(np.any(o != b) for o, b in zip(online, before))
