"""Exported policies act as the agents' own evaluators do, for each agent and kind of policy."""

import dataclasses
import json
import pathlib
import runpy

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
import tree

from common import environments
from common.agents import exported
from common.agents.trained import TrainedRun
from common.cluster.layout import imported
from common.environments.spec import EnvironmentSpec
from common.learning import checkpoint
from common.networks import packing
from reproductions import AGENTS

FLAT, CONTROL = EnvironmentSpec(3, 4, is_discrete=True), EnvironmentSpec(3, 2)
IMAGES = EnvironmentSpec(8 * 8 * 2, 3, is_discrete=True, image_shape=(8, 8, 2))
INTEGERS = EnvironmentSpec(3, 2, action_choices=(3, 2))
HYBRID = EnvironmentSpec(3, 2, action_choices=(3, 0))
PIXELS = IMAGES._replace(is_discrete=False)
LAB = EnvironmentSpec(9 * 9 * 3, 2, image_shape=(9, 9, 3), action_choices=(3, 2))
ROOT = pathlib.Path(__file__).parents[2]
SIZES = {"policy_sizes": (8, 6), "critic_sizes": (8, 6)}
AQL = {
    "state_size": 6,
    "action_size": 7,
    "joint_sizes": (8, 5),
    "proposal_sizes": (9,),
    "num_proposal_samples": 4,
    "num_uniform_samples": 3,
}
CNN = {"channels": (3,), "lstm_size": 6}
CEM = {"search": "cem", "num_levels": 0, "cem_samples": 8, "cem_elites": 3}
ACER = {"agent": "acer", "clipping": False, "penalty": False}
CASES = {
    "d4pg_normalized": ("d4pg", CONTROL, {**SIZES, "normalize_observations": True}),
    "d4pg_images": ("d4pg", PIXELS, {**SIZES, "torso": "minatar"}),
    "apex_dpg": ("apex_dpg", CONTROL, SIZES),
    "apex_dqn_mlp": ("apex_dqn", FLAT, {"torso": "mlp", "mlp_sizes": (8, 7)}),
    "apex_dqn_images": ("apex_dqn", IMAGES, {"torso": "minatar"}),
    "vracer_quadratic": ("refer", CONTROL, {"hidden_size": 8, "advantage": "quadratic"}),
    "vracer_recurrent": ("refer", CONTROL, {"recurrent": True, "lstm_size": 5}),
    "ddpg": ("refer", CONTROL, {"agent": "ddpg", "hidden_size": 8}),
    "acer": ("refer", CONTROL, {**ACER, "hidden_size": 8}),
    "refer_ppo": ("refer_ppo", CONTROL, {"hidden_size": 8}),
    "d4pg_ppo": ("d4pg_ppo", CONTROL, SIZES),
    "d3pg": ("aql", CONTROL, {**AQL, "search": "policy", "num_levels": 0, "shared_sizes": (5,)}),
    "exact": ("aql", INTEGERS, {**AQL, "search": "exact"}),
}
"""{name: (agent, spec, hyperparameters)} of policies that draw nothing."""
DRAWS = {
    "reactor_stored": ("reactor", IMAGES, {"torso": "minatar", "stored_state": True}),
    "d4pg_ppo_with_noise": ("d4pg_ppo", CONTROL, {**SIZES, "noisy_evaluation": True}),
    "aql": ("aql", CONTROL, AQL),
    "aql_gaussian": ("aql", CONTROL, {**AQL, "num_levels": 0}),
    "aql_hybrid": ("aql", HYBRID, AQL),
    "aql_hybrid_gaussian": ("aql", HYBRID, {**AQL, "num_levels": 0}),
    "aql_uniform": ("aql", INTEGERS, {**AQL, "search": "uniform"}),
    "aql_without_proposed": ("aql", INTEGERS, {**AQL, "num_proposal_samples": 0}),
    "qt_opt": ("aql", CONTROL, {**AQL, **CEM}),
    "impala_flat": (
        "aql",
        LAB,
        {**AQL, **CNN, "search": "none", "flat_policy": True, "replayed_unrolls": 0},
    ),
}


def run_of(case):
    agent, spec, fields = case
    agent = imported(AGENTS[agent]).make_agent(**fields)
    generator = np.random.default_rng(1)
    flat = generator.normal(0, 0.5, agent.make_learner(spec, 0).num_parameters).astype(np.float32)
    if "refer" in agent.declaration.name or "ppo" in agent.declaration.name:
        flat[3:6] = (0.5, 1, 2)  # deviations of observations
    if fields.get("normalize_observations"):
        flat[-3:] = (0.5, 1, 2)
    return TrainedRun(agent, "an environment", spec, 7, flat)


def observations(spec, rows):
    """Of all sizes, so that actions differ."""
    generator = np.random.default_rng(2)
    if spec.image_shape:
        images = generator.integers(256, size=(*spec.image_shape, rows))
        return np.moveaxis(images * np.linspace(1, 0, rows), -1, 0).astype(np.uint8)
    return (10 * generator.normal(size=(rows, spec.observation_size))).astype(np.float32)


LAYERLESS = ("apex_dqn_images", "d4pg_images", "vracer_recurrent", "exact", "d3pg")


def policies_of(run, rows):
    """Returns the exported policy and the own one, which refuses another number of parameters.

    The evaluators of D4PG and Ape-X DPG take the beginning of what they get, without the critic.
    """
    own = run.make_policy(rows)
    if run.agent.declaration.name not in ("d4pg", "apex_dpg"):
        for wrong in (run.parameters[1:], np.append(run.parameters, run.parameters[:1])):
            with pytest.raises(ValueError, match="have .* parameters|of other sizes"):
                own.load(wrong)
    return exported.ExportedPolicy(run), own


@pytest.mark.parametrize("name", ["d4pg_normalized", "apex_dqn_mlp", "vracer_recurrent", "aql"])
def test_the_seed_gives_the_networks(name):
    agent, spec, fields = (CASES | DRAWS)[name]
    agent = imported(AGENTS[agent]).make_agent(**fields)
    first, again, other = (
        packing.to_numpy(agent.make_learner(spec, seed).actor_variables) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("name", CASES)
def test_the_graph_and_the_layers_act_as_the_agent(name, tmp_path):
    run = run_of(CASES[name])
    policy, own = policies_of(run, 40)
    batch = observations(run.spec, 40)
    state, own_state = policy.initial_state(40), own.initial_state(40)
    found = []
    for _ in range(3):  # the recurrent state is carried on
        action, state = policy.act(batch, state)
        expected, own_state, _ = own(batch, own_state)
        np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-4)
        assert action.dtype == expected.dtype
        found.append(action.numpy())
    assert len(np.unique(found[0], axis=0)) > 1
    assert bool(state) == name.endswith("_recurrent") == (not np.array_equal(*found[:2]))
    if name in LAYERLESS:
        with pytest.raises(ValueError, match="the (policy|network) "):
            own.layers()
        return
    checkpoint.export_policy(tmp_path / "policy.npz", own.layers())
    read_policy = runpy.run_path(str(ROOT / "docs/read_policy.py"))["read_policy"]
    actions = read_policy(tmp_path / "policy.npz")(batch)
    np.testing.assert_allclose(actions, found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", DRAWS)
def test_the_graph_draws_from_the_agents_distribution(name):
    """At one observation and a state that is not the initial one, for which rewards count, too."""
    run, rows = run_of(DRAWS[name]), 1000
    policy, own = policies_of(run, rows)
    batch = np.repeat(observations(run.spec, 1), rows, axis=0)
    initial = own.initial_state(rows)
    state = tree.map_structure(lambda leaf: np.full_like(leaf, 0.3), initial)
    given = policy.initial_state(rows)
    assert given.keys() == exported.named(initial).keys()
    given = {name: tf.fill(leaf.shape, 0.3) for name, leaf in given.items()}
    actions, after = policy.act(batch, given)
    expected, own_after, _ = own(batch, state)
    assert actions.dtype == expected.dtype and actions.shape == expected.shape
    for moment in (1, 2):
        there, here = actions.numpy() ** moment, expected**moment
        error = np.sqrt((there.var(axis=0) + here.var(axis=0)) / rows)
        assert np.all(abs(there.mean(axis=0) - here.mean(axis=0)) < 4.5 * error + 1e-5)
    assert np.ptp(expected, axis=0).max() > 0
    for part, leaf in exported.named(own_after).items():
        if part.startswith(("lstm", "policy", "value", "hidden", "cell")):
            np.testing.assert_allclose(after[part], leaf, rtol=1e-4, atol=1e-4)


def test_a_saved_model_keeps_its_state(tmp_path):
    policy = exported.ExportedPolicy(run_of(CASES["vracer_recurrent"]))
    tf.saved_model.save(policy, str(tmp_path))
    loaded, batch = tf.saved_model.load(str(tmp_path)), observations(CONTROL, 5)
    state, own_state = loaded.initial_state(5), policy.initial_state(5)
    for _ in range(2):
        action, state = loaded.act(batch, state)
        expected, own_state = policy.act(batch, own_state)
        np.testing.assert_allclose(action, expected, rtol=1e-5)


def test_files(tmp_path):
    run = run_of(("d4pg", EnvironmentSpec(3, 1), SIZES))
    pendulum = dataclasses.replace(run, environment="gym:Pendulum-v1")
    assert exported.write(tmp_path / "out", pendulum) == ["SavedModel", "spaces.json", "policy.npz"]
    spaces = json.loads((tmp_path / "out/spaces.json").read_text())
    assert spaces["action"]["scale"] == [2.0] and spaces["action"]["offset"] == [0.0]
    assert spaces["observation"] == {"shape": [3], "dtype": "float32"}
    assert spaces["learner_steps"] == 7 and spaces["state"] == {}


class Parts(gymnasium.Env):
    """An integer, two integers and a number are seen; actions count from -1."""

    observation_space = gymnasium.spaces.Dict(
        {
            "cell": gymnasium.spaces.Discrete(4),
            "dice": gymnasium.spaces.MultiDiscrete([2, 3]),
            "speed": gymnasium.spaces.Box(-1, 1, [2], np.float32),
        }
    )
    action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


def test_spaces_of_one_hot_parts_and_of_actions_that_do_not_count_from_0(tmp_path):
    name = f"python:{__name__}:Parts"
    with environments.opened(name, 0) as environment:
        spec = EnvironmentSpec.of(environment)
    run = run_of(("apex_dqn", spec, {"torso": "mlp", "mlp_sizes": (8, 7)}))
    exported.write(tmp_path / "out", dataclasses.replace(run, environment=name))
    spaces = json.loads((tmp_path / "out/spaces.json").read_text())
    parts = {"cell": [4], "dice/0": [2], "dice/1": [3], "speed": [2]}
    assert spaces["observation"]["parts"] == parts and spec.observation_size == 11
    assert spaces["action"] == {"kind": "discrete", "values": 3, "scale": 1, "offset": -1}
    assert spaces["own_action"] == "scale * action + offset"
