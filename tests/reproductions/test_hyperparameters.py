"""Tests of the hyperparameters and settings of all papers."""

import dataclasses
import json
import pathlib

import pytest

from common.cluster.layout import imported
from common.config import completed, earlier_values, from_values, help_of
from common.reporting.run_directory import ConfigMismatchError, RunDirectory
import reproductions
from reproductions import AGENTS
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dqn.config import TWO_CORES, DQNConfig
from reproductions.aql.config import AQLConfig
from reproductions.d4pg.config import FIGURE_2, D4PGConfig
from reproductions.reactor.config import ReactorConfig
from reproductions.refer.ppo.config import ReferPPOConfig

DECLARED = {name: imported(place) for name, place in AGENTS.items()}
DPG, DQN, D4PG, REACTOR, AQL = (
    DECLARED[name].settings for name in ("apex_dpg", "apex_dqn", "d4pg", "reactor", "aql")
)
ALL = [
    pytest.param(settings, id=settings.config_class.__name__)
    for settings in (D4PG, DQN, DPG, REACTOR, AQL)
]
EARLIER = pathlib.Path(__file__).parents[1] / "golden" / "earlier_config.json"
"""Of commit e474e9f7, 2026-11-22, and with the seed, which the kept file was without."""
SOURCES = ("section", "Section", "appendix", "algorithm 1", "Ape-X", "Not in the paper")


@pytest.mark.parametrize("settings", ALL)
def test_every_setting_is_allowed_and_has_its_own_name(settings):
    assert settings.default in settings.names
    for name in settings.names:
        assert settings.name_of(name, settings.configuration(name)) == name


@pytest.mark.parametrize("settings", ALL)
def test_every_field_says_where_it_comes_from(settings):
    for name, text in help_of(settings.config_class).items():
        assert any(word in text for word in SOURCES), name


@pytest.mark.parametrize("settings", ALL)
def test_every_number_has_bounds(settings):
    """The values of atoms may be any."""
    for each in dataclasses.fields(settings.config_class):
        if each.type not in (bool, str) and each.name not in ("v_min", "v_max"):
            assert each.metadata["bounds"], each.name


@pytest.mark.parametrize("settings", ALL[:3])  # of Reactor and AQL other things fill it
def test_what_is_drawn_or_sent_at_once_may_fill_the_replay_but_not_exceed_it(settings):
    sizes = dict.fromkeys(("replay_capacity", "batch_size", "min_replay_size", "send_batch"), 10)
    settings.config_class(**sizes)
    for name in ("batch_size", "min_replay_size", "send_batch"):
        message = rf"^--config.{name} must be at most replay_capacity \(10\), is 11$"
        with pytest.raises(ValueError, match=message):
            settings.config_class(**{**sizes, name: 11})


@pytest.mark.parametrize("settings", ALL[:3])
def test_a_single_process_needs_to_know_its_turns(settings):
    message = r"^--config.samples_per_insert must be above 0 with single_process.*, is 0.0$"
    with pytest.raises(ValueError, match=message):
        settings.config_class(single_process=True)
    assert settings.config_class(single_process=True, samples_per_insert=1.0).single_process


SMALL = dict(replay_capacity=40, batch_size=8, min_replay_size=8)  # holds 8 of Reactor's sequences
CEM = dict(search="cem", num_levels=0)


@pytest.mark.parametrize(
    "config_class, values, message",
    [
        (D4PGConfig, {"v_min": 150.0, "v_max": 150.000001}, "v_max must be such that the atoms.*"),
        (
            ReactorConfig,
            {"replay_capacity": 32},
            r"sequence_length must be at most .* \(32\), is 33",
        ),
        (
            ReactorConfig,
            {**SMALL, "batch_size": 9},
            r"batch_size must be at most 8, .* \(40\), is 9",
        ),
        (ReactorConfig, {**SMALL, "min_replay_size": 9}, "min_replay_size must be at most 8, .*"),
        (ReactorConfig, {"torso": "mlp", "png_frames": True}, "png_frames must be false with .*"),
        (
            AQLConfig,
            {"num_proposal_samples": 0, "num_uniform_samples": 0},
            "num_uniform_samples .*",
        ),
        (AQLConfig, {"num_levels": 1}, "num_levels must be 0 or at least 2, is 1"),
        (AQLConfig, {"search": "cem"}, "num_levels must be 0 with search=cem, is 5"),
        (AQLConfig, {"search": "policy"}, "num_levels must be 0 with search=policy, is 5"),
        (
            AQLConfig,
            {"search": "exact", "num_levels": 0},
            "num_levels must be above 0 .*exact, is 0",
        ),
        (AQLConfig, {"search": "none", "num_levels": 0}, "num_levels must be above 0 .*none, is 0"),
        (AQLConfig, {"search": "none"}, "replayed_unrolls must be 0 with search=none, is 2"),
        (
            AQLConfig,
            {**CEM, "channels": (4,)},
            "search must be neither cem nor policy for images, is cem",
        ),
        (AQLConfig, {"shared_sizes": (4,), "channels": (4,)}, "shared_sizes must be empty .*"),
        (
            AQLConfig,
            {"action_set": "curated"},
            "action_set must be own if channels is empty, is .*",
        ),
        (
            AQLConfig,
            {"flat_policy": True},
            "flat_policy must be false unless search is none, is .*",
        ),
        (AQLConfig, {"cem_elites": 101}, r"cem_elites must be at most cem_samples \(100\), is 101"),
        (AQLConfig, {"replay_capacity": 29}, r"unroll_length must be at most .* \(29\), is 30"),
        (AQLConfig, {"queue_capacity": 31}, r"batch_size must be at most .* \(31\), is 32"),
        (AQLConfig, {"updates_per_call": 3}, r"updates_per_call must be at most .* \(2\), is 3"),
        (ReferPPOConfig, {"horizon": 2000}, r"horizon must be a multiple of batch_size \(64\).*"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(config_class, values, message):
    with pytest.raises(ValueError, match=f"^--config.{message}$"):
        config_class(**values)


def test_zero_turns_off_what_it_should():
    DPGConfig(noise_sigma=0.0, dqda_clip=0.0, max_gradient_norm=0.0, removal_exponent=0.0)
    DQNConfig(reward_clip=0.0, max_gradient_norm=0.0, epsilon_alpha=0.0, evaluation_epsilon=0.0)


def test_the_default_is_the_papers():
    """The rest is not in the paper."""
    c = DQN.configuration("dqn")  # Ape-X, section 4.1 and appendix C
    assert (c.n_step, c.batch_size, c.learning_rate) == (3, 512, 6.25e-5)
    assert (c.rmsprop_decay, c.rmsprop_epsilon, c.max_gradient_norm) == (0.95, 1.5e-7, 40.0)
    assert (c.target_period, c.replay_capacity, c.removal_period) == (2500, 2_000_000, 100)
    assert (c.priority_exponent, c.importance_exponent) == (0.6, 0.4)
    assert (c.min_replay_size, c.send_batch, c.actor_period, c.prefetch) == (50_000, 50, 100, 16)
    assert (c.epsilon, c.epsilon_alpha, c.epsilons, c.reward_clip) == (0.4, 7.0, (), 1.0)
    assert (c.samples_per_insert, c.num_copies, c.discount) == (0.0, 1, 0.99)
    c = DPG.configuration("dpg")  # section 4.2 and appendix D, with what is said of DQN
    assert (c.policy_sizes, c.critic_sizes, c.layer_norm) == ((300, 200), (400, 300), False)
    assert (c.batch_size, c.learning_rate, c.target_period, c.dqda_clip) == (256, 1e-4, 100, 1.0)
    assert (c.replay_capacity, c.removal, c.removal_exponent) == (1_000_000, "priority", -0.4)
    assert (c.priority_exponent, c.importance_exponent, c.noise_sigma) == (0.6, 0.4, 0.3)
    assert (c.removal_period, c.min_replay_size, c.send_batch) == (100, 50_000, 50)
    assert (c.prefetch, c.actor_period, c.max_gradient_norm) == (16, 400, 40.0)
    assert (c.n_step, c.discount, c.samples_per_insert) == (3, 0.99, 0.0)
    c = REACTOR.configuration("reactor")  # sections 3.3, 3.4, 3.4.1, 4.1 and 6.4
    assert (c.sequence_length, c.batch_size, c.acting_steps_per_update) == (33, 4, 5.0)
    assert c.samples_per_insert == 0.8
    assert (c.learning_rate, c.adam_beta1, c.adam_beta2, c.adam_epsilon) == (5e-5, 0, 0.999, 1e-8)
    assert (c.target_period, c.trace_lambda, c.policy_floor) == (1000, 1.0, 0.01)
    assert (c.distributional, c.policy_gradient, c.c) == (True, "beta_loo", 1.0)
    assert (c.prioritization, c.importance_exponent) == ("contextual", 1.0)
    assert (c.discount, c.reward_clip, c.entropy_cost, c.uniform_mix) == (0.99, 1.0, 0.01, 0.1)
    assert (c.num_atoms, c.v_min, c.v_max) == (51, -10.0, 10.0)
    assert (c.stored_state, c.single_process, c.png_frames, c.torso) == (False,) * 3 + ("atari",)
    c = AQL.configuration("qt_opt")  # section 5.1: M = 400 of all methods but D3PG
    found = c.cem_samples, c.cem_elites, c.cem_iterations, c.cem_uniform_samples
    assert found == (100, 10, 3, 400)
    assert AQL.configuration("aql") == AQLConfig()
    assert (REACTOR.default, AQL.default) == ("reactor", "aql")


@pytest.mark.parametrize("setting", FIGURE_2)
def test_d4pgs_settings_are_what_their_names_say(setting):
    config = D4PG.configuration(setting)
    if setting == "ddpg":
        assert (config.critic, config.priority_exponent, config.n_step) == ("scalar", 0, 1)
        assert config.single_process
        assert (config.actor_period, config.updates_per_call) == (1, 1)
        assert config.samples_per_insert == config.batch_size
        return
    agent, replay, n = setting.split("_")
    assert config.critic == {"d4pg": "categorical", "d3pg": "scalar"}[agent]
    assert bool(config.priority_exponent) == (replay == "prioritized")
    assert f"n{config.n_step}" == n
    assert not config.single_process


@pytest.mark.parametrize("setting", [name for name in D4PG.names if name != "ddpg_lillicrap"])
def test_the_rest_is_as_d4pgs_paper_says_for_the_control_suite(setting):
    c = D4PG.configuration(setting)
    assert (c.batch_size, c.noise, c.noise_sigma) == (256, "gaussian", 0.3)
    assert (c.num_atoms, c.replay_capacity, c.policy_gradient_state) == (51, 1_000_000, "first")
    assert c.learning_rate == (5e-5 if "lr5e-05" in setting else 1e-4)


@pytest.mark.parametrize("settings, setting", [(DPG, "ddpg"), (D4PG, "ddpg_lillicrap")])
def test_standard_ddpg_is_that_of_lillicrap(settings, setting):
    """Lillicrap et al. 2016, section 7, but for batch normalisation, activations and layout."""
    c = settings.configuration(setting)
    assert (c.learning_rate, c.critic_learning_rate, c.critic_decay) == (1e-4, 1e-3, 1e-2)
    assert (c.target_rate, c.discount, c.batch_size, c.replay_capacity) == (1e-3, 0.99, 64, 10**6)
    assert (c.noise, c.ou_theta, c.noise_sigma) == ("ou", 0.15, 0.2)
    assert (c.policy_sizes, c.critic_sizes) == ((400, 300), (400, 300))
    assert (c.n_step, c.priority_exponent, c.dqda_norm, c.unit_norm) == (1, 0, 0, False)
    # One actor, and an update after each of its steps.
    assert c.single_process and c.samples_per_insert == c.batch_size
    assert (c.actor_period, c.updates_per_call, c.removal) == (1, 1, "fifo")
    clips = [getattr(c, name, 0) for name in ("dqda_clip", "weight_clip", "max_gradient_norm")]
    assert clips == [0, 0, 0]
    assert getattr(c, "critic", "scalar") == "scalar"


_MILLION, _UNIFORM = {"replay_capacity": 1_000_000}, {"priority_exponent": 0.0}


@pytest.mark.parametrize(
    "settings, setting, changed",
    [
        (DQN, "dqn_uniform", {**_UNIFORM, "learning_rate": 0.00025}),
        (DQN, "dqn_replay_250k", {"replay_capacity": 250_000}),
        (DQN, "dqn_replay_500k", {"replay_capacity": 500_000}),
        (DQN, "dqn_replay_1m", _MILLION),
        (DQN, "dqn_replay_1m_copies8", {**_MILLION, "num_copies": 8}),
        (DQN, "dqn_full_range", {"evaluation_epsilon": 0.4**7}),
        (DQN, "dqn_uniform_replay_1m", {**_MILLION, **_UNIFORM, "learning_rate": 0.00025}),
        (DQN, "dqn_replay_1m_lr0.00025", {**_MILLION, "learning_rate": 0.00025}),
        (
            DQN,
            "dqn_uniform_replay_1m_lr6.25e-05",
            {**_MILLION, **_UNIFORM, "learning_rate": 6.25e-5},
        ),
        (REACTOR, "reactor_nd", {"distributional": False}),
        (REACTOR, "reactor_uniform", {"prioritization": "uniform"}),
        (REACTOR, "reactor_tislr", {"policy_gradient": "tislr", "c": 10.0}),
        (REACTOR, "reactor_20_workers", {}),
        (REACTOR, "reactor_max_priority", {"prioritization": "max"}),
        (REACTOR, "reactor_one_step", {"trace_lambda": 0.0}),
        (REACTOR, "reactor_one_over_mu", {"policy_gradient": "one_over_mu"}),
        (REACTOR, "reactor_islr", {"policy_gradient": "islr"}),
        (REACTOR, "reactor_stored_state", {"stored_state": True}),
        (AQL, "impala", {"search": "none", "replayed_unrolls": 0}),
        (AQL, "d3pg", {"search": "policy", "num_levels": 0}),
    ],
)
def test_a_setting_changes_what_it_studies_and_no_more(settings, setting, changed):
    assert settings.configuration(setting) == settings.config_class(**changed)


NO_OTHER = dict(min_replay_size=2_000, samples_per_insert=64.0)
"""What makes no other algorithm."""


def test_six_policies_lie_on_the_ladder():
    six = DQN.configuration("dqn_six_epsilons")
    assert six.evaluation_epsilon == 0.4**7
    assert len(six.epsilons) == 6
    assert (six.epsilons[0], six.epsilons[-1]) == (0.4, pytest.approx(0.4**8))


def test_shared_layers_come_with_rmsprop():
    for name in ("aql", "d3pg", "impala"):
        base, deep = map(AQL.configuration, (name, f"{name}_shared_rmsprop"))
        assert (base.optimizer, deep.optimizer) == ("adam", "rmsprop")
        assert not base.shared_sizes and deep.shared_sizes and base.search == deep.search


@pytest.mark.parametrize(
    "settings, setting, changed, suffix",
    [
        (
            DPG,
            "dpg",
            {
                **NO_OTHER,
                "activation": "tanh",
                "layer_norm": True,
                "removal": "fifo",
                "dqda_clip": 0.0,
            },
            "_tanh_layer_norm_clip0_remove_by_fifo",
        ),
        (DPG, "dpg_uniform", {"learning_rate": 1e-3}, "_lr0.001"),
        (
            DQN,
            "dqn_bfloat16",
            {**NO_OTHER, "n_step": 5, "rescale_gradient": True, "epsilons": (0.1,), "prefetch": 2},
            "_n5_other_epsilons_rescaled",
        ),
        (DQN, "dqn_two_cores", {"learning_rate": 3e-4}, "_lr0.0003"),
        (DQN, "dqn_ten_minutes", {"priority_exponent": 0.0}, "_alpha0"),
        (
            D4PG,
            "d4pg_prioritized_n5",
            {**NO_OTHER, "noise": "ou", "removal": "priority", "importance_exponent": 0.0},
            "_ou_beta0_remove_by_priority",
        ),
        (
            D4PG,
            "d4pg_prioritized_n5",
            {"v_max": 100.0, "policy_gradient_state": "last", "priority_exponent": 1.0},
            "_vmax100_gradient_at_last_alpha1",
        ),
        (D4PG, "d4pg_prioritized_n5", {"critic": "scalar", "n_step": 1}, "_scalar_n1"),
        (D4PG, "d4pg_prioritized_n5", {"layer_norm": False}, "_no_layer_norm"),
        (DECLARED["d4pg_ppo"].settings, "ppo", {"layer_norm": False}, "_no_layer_norm"),
        (
            REACTOR,
            "reactor_tislr",
            {"distributional": False, "v_max": 2.0},
            "_no_distributional_vmax2",
        ),
        (AQL, "qt_opt", {"cem_uniform_samples": 0}, "_cem_uniform0"),
        (AQL, "d3pg", {"policy_network": "d4pg"}, "_network_of_d4pg"),
    ],
)
def test_another_algorithm_has_another_name(settings, setting, changed, suffix):
    config = dataclasses.replace(settings.configuration(setting), **changed)
    assert settings.name_of(setting, config) == setting + suffix


@pytest.mark.parametrize(
    "name, others, number",
    [
        ("apex_dqn", dict.fromkeys(TWO_CORES, 8), 360),
        ("apex_dpg", {"ddpg": 1}, 64),
        ("d4pg", {"ddpg": 1, "ddpg_lillicrap": 1}, 32),
        ("reactor", {"reactor_20_workers": 20, "reactor_two_cores": 2}, 10),
        ("aql", {}, 100),
    ],
)
def test_numbers_of_actors_are_the_papers_but_few_on_two_cores(name, others, number):
    settings = DECLARED[name].settings
    for setting in settings.names:
        found = DECLARED[name].num_actors(settings.configuration(setting), setting)
        assert found == others.get(setting, number), setting


def test_what_follows_from_aqls_unrolls():
    config = AQLConfig(unroll_length=20, replayed_unrolls=14)
    assert config.actor_period == 20
    assert config.samples_per_insert == 15


def test_reactors_settings_are_those_of_the_figures_and_claims():
    names = {
        run.setting
        for experiment in reproductions.paper("reactor").experiments
        for run in experiment.runs
    }
    names = {name for name in names if "_momentum" not in name}  # flags of section 6.1
    assert names - {"reactor_500m"} <= set(REACTOR.names)  # "reactor" with more frames


def test_reactors_section_6_1_is_three_rates_two_momenta_and_two_periods_on_seven_games():
    """Without prioritisation and distributions (section 6.1)."""
    runs = reproductions.paper("reactor").experiment("section 6.1").runs
    assert len({run.environment for run in runs}) == 7 and len(runs) == 7 * 3 * 2 * 2
    found = set()
    for run in runs:
        values = dict(flag.removeprefix("--").split("=") for flag in run.flags)
        assert values["setting"] == "reactor_nd" and values["config.prioritization"] == "uniform"
        names = ("learning_rate", "adam_beta1", "target_period")
        found.add(tuple(float(values[f"config.{name}"]) for name in names))
    assert len(found) == 12 and (5e-5, 0, 1000) in found  # the values that were kept


@pytest.mark.parametrize("name", AGENTS)
def test_a_run_from_before_a_field_existed_goes_on(name, tmp_path):
    config_class = DECLARED[name].settings.config_class
    config, earlier = dataclasses.asdict(config_class()), earlier_values(config_class)
    run = RunDirectory(tmp_path)
    for absent in config:
        fewer = {name: value for name, value in config.items() if name != absent}
        run.config_json.write_text(json.dumps({"agent": name, "config": fewer}))
        value = completed(fewer, earlier)[absent]
        run.open({"agent": name, "config": config | {absent: value}}, config_class)
        expected = dataclasses.replace(config_class(), **{absent: value})
        assert from_values(config_class, fewer) == expected


def test_a_run_of_an_earlier_version_goes_on_but_only_with_its_values(tmp_path):
    settings = DECLARED["refer"].settings
    run, there = RunDirectory(tmp_path), json.loads(EARLIER.read_text())
    run.config_json.write_bytes(EARLIER.read_bytes())
    config = from_values(settings.config_class, there["config"])
    assert not {"recurrent", "advantage", "window"} & there["config"].keys()
    assert settings.name_of("ddpg_er", config) == there["setting"]
    run.open(there | {"config": vars(config)}, settings.config_class)
    assert run.config_json.read_bytes() == EARLIER.read_bytes()
    other = there | {"config": vars(dataclasses.replace(config, recurrent=True))}
    with pytest.raises(ConfigMismatchError, match="config: config.recurrent false -> true; resume"):
        run.open(other, settings.config_class)
