"""Normalised observations and images below the networks of D4PG and Ape-X DPG."""

import numpy as np
import pytest
import tensorflow as tf

from common.cluster.layout import imported
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions import AGENTS

SPEC = EnvironmentSpec(observation_size=3, action_size=2)
IMAGES = EnvironmentSpec(8 * 6 * 2, 2, image_shape=(8, 6, 2))
BOTH = IMAGES._replace(vector_size=5)  # in the last two of the eight rows
NORMAL, MINATAR = {"normalize_observations": True}, {"torso": "minatar", "image_features": 7}
UNITS = np.array([1e3, 1e-3, 1], np.float32)
SIZE = 32


def make_agent(name, **values):
    sizes = {"policy_sizes": (8,), "critic_sizes": (8,), "target_period": 3}
    return imported(AGENTS[name]).make_agent(**{**sizes, **values})


def with_vectors(images, spec, vectors):
    images = images.copy()
    below = images[:, spec.picture_shape[0] :].reshape(SIZE, -1)
    below[:, : 4 * spec.vector_size] = np.ascontiguousarray(vectors).view(np.uint8)
    images[:, spec.picture_shape[0] :] = below.reshape(images[:, spec.picture_shape[0] :].shape)
    return images


def observations(seed, spec=SPEC):
    generator = np.random.default_rng(seed)
    if spec.image_shape:
        images = generator.integers(256, size=(SIZE, *spec.image_shape)).astype(np.uint8)
        images[:, spec.picture_shape[0] :] = 0
        vectors = generator.normal(size=(SIZE, spec.vector_size)).astype(np.float32)
        return with_vectors(images, spec, vectors)
    return generator.normal(2.0, size=(SIZE, spec.observation_size)).astype(np.float32)


def make_batch(seed, spec=SPEC, units=1.0):
    first, last = observations(2 * seed, spec), observations(2 * seed + 1, spec)
    if not spec.image_shape:
        first, last = first * units, last * units
    generator = np.random.default_rng(seed)
    action = generator.uniform(-1, 1, (SIZE, spec.action_size)).astype(np.float32)
    reward = generator.normal(size=SIZE).astype(np.float32)
    steps = StoredTransition(first, action, reward, np.full(SIZE, 0.9, np.float32), last)
    steps = tf.nest.map_structure(tf.constant, steps)
    return Batch(steps, tf.fill([SIZE], 1 / SIZE), tf.constant(float(SIZE)))


def policy_of(agent, learner, spec, kind="make_evaluator"):
    policy = agent.make_evaluator(spec, SIZE)
    if kind == "make_actor":
        policy = agent.make_actor(spec, range(SIZE), SIZE, seed=0)
    policy.load(packing.to_numpy(learner.actor_variables))
    return policy


def test_actor_evaluator_and_learner_see_the_same_numbers_bit_for_bit():
    agent = make_agent("d4pg", **NORMAL)
    learner = agent.make_learner(SPEC, seed=0)
    batches = [make_batch(seed, units=UNITS) for seed in range(4)]
    for batch in batches:
        learner.update(batch)
    probe = UNITS * observations(99)
    compiled = tf.function(learner.networks.features, jit_compile=True)
    expected = learner.networks.features(probe).numpy()
    for seen in (
        compiled(probe),
        learner.target_networks.features(probe),  # also between two copies
        policy_of(agent, learner, SPEC).features(probe),
        policy_of(agent, learner, SPEC, "make_actor").features(probe),
    ):
        np.testing.assert_array_equal(seen, expected)
    rows = np.concatenate([batch.steps.observation_tm1 for batch in batches]).astype(np.float64)
    standardized = (probe - rows.mean(0)) / rows.std(0)
    np.testing.assert_allclose(expected, standardized, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["make_actor", "make_evaluator"])
def test_parameters_of_other_networks_are_refused(kind):
    learner = make_agent("d4pg").make_learner(SPEC, seed=0)
    policy = policy_of(make_agent("d4pg"), learner, SPEC, kind)
    flat = packing.to_numpy(learner.actor_variables)
    for other in (flat[:-1], np.append(flat, flat[:1])):
        with pytest.raises(ValueError, match="packed from networks of other sizes"):
            policy.load(other)


def test_the_units_of_observations_do_not_matter_if_they_are_normalised():
    actions = []
    for units, normal in ((1.0, NORMAL), (UNITS, NORMAL), (UNITS, {})):
        agent = make_agent("d4pg", learning_rate=1e-2, **normal)
        learner = agent.make_learner(SPEC, seed=0)
        for seed in range(6):
            learner.update(make_batch(seed, units=units))
        actions.append(policy_of(agent, learner, SPEC)(units * observations(99))[0])
    assert np.abs(actions[0] - actions[1]).max() < 2e-3
    assert np.abs(actions[0] - actions[2]).max() > 0.05


@pytest.mark.parametrize("spec", [IMAGES, BOTH], ids=["images", "both"])
def test_actors_compute_the_features_of_images_as_the_learner(spec):
    agent = make_agent("apex_dpg", **MINATAR)
    learner = agent.make_learner(spec, seed=0)
    for seed in range(2):
        learner.update(make_batch(seed, spec))
    probe = observations(99, spec)
    features = learner.networks.features(probe)
    assert features.shape == (SIZE, 7) and np.abs(features).max() < 1
    actor = policy_of(agent, learner, spec, "make_actor")
    np.testing.assert_allclose(actor.features(probe), features, atol=1e-5)
    action, _, _ = policy_of(agent, learner, spec)(probe)
    np.testing.assert_allclose(action, learner.networks.policy(features), atol=1e-5)
    assert actor(probe)[2]["taken"].shape[0] == SIZE
    if spec.vector_size:
        other = with_vectors(probe, spec, np.ones([SIZE, 5], np.float32))
        assert (np.abs(learner.networks.features(other) - features).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize("state", ["first", "last"])
def test_the_critics_loss_alone_trains_the_convolutions(state):
    agent = make_agent("d4pg", policy_gradient_state=state, **MINATAR)
    learner = agent.make_learner(IMAGES, seed=0)
    gradients = learner.gradients(make_batch(0, IMAGES)).gradients
    networks = learner.networks
    assert len(gradients.policy) == len(networks.policy.trainable_variables)
    assert len(gradients.critic) == len(networks.critic_variables)
    torso = len(networks.torso.trainable_variables)
    assert torso == 6 and all(np.any(gradient) for gradient in gradients.critic[-torso:])

    images = observations(0, IMAGES)
    without = learner.gradients_of(
        images,
        lambda features: (0.0 * tf.reduce_sum(features), tf.zeros([SIZE])),
        lambda features: (tf.reduce_sum(networks.policy(features)), 0.0, 0.0),
    )
    for gradient in without.critic[-torso:]:
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


def test_target_convolutions_are_copied_with_the_networks():
    learner = make_agent("d4pg", learning_rate=1e-2, **MINATAR).make_learner(IMAGES, seed=0)
    probe = observations(99, IMAGES)
    initial = learner.target_networks.features(probe)
    for step in range(1, 4):
        learner.update(make_batch(step, IMAGES))
        target = learner.target_networks.features(probe)
        if step < 3:
            np.testing.assert_array_equal(target, initial)
    np.testing.assert_array_equal(target, learner.networks.features(probe))
    assert np.abs(target - initial).max() > 0.01


def test_images_are_not_normalised():
    with pytest.raises(ValueError, match=r"--config\.torso must be mlp with normalize_obs"):
        make_agent("d4pg", torso="atari", **NORMAL)
