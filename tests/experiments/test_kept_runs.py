"""What is wrong with kept runs is said with file and line, and the rest is used."""

from common.experiments.registry import Returns
from planted_curves import plant_run
import pytest

from common.experiments.runs import KeptRuns
from common.reporting.budget import Budget

SETTING, TASK = "d4pg_prioritized_n5", "control:cartpole:swingup"


@pytest.fixture(name="said")
def _said():
    return []


def read(root, said):
    return KeptRuns(root, said.append).of("d4pg", "two_cores")


def returns(run):
    return run.points("wall_seconds", "episode_return_mean", Returns.EVALUATOR)


def test_runs_are_found_with_their_points(tmp_path, said):
    for seed in (0, 10, 2):
        plant_run(tmp_path, SETTING, TASK, seed, [seed, seed + 1.0], seconds=60)
    runs = read(tmp_path, said)
    assert [run.seed for run in runs] == [0, 2, 10] and not said
    assert returns(runs[1]).to_numpy().tolist() == [[30, 2], [60, 3]]
    assert (runs[0].reached("wall_seconds"), runs[0].cores, runs[0].has_ended) == (60, 2, True)
    assert KeptRuns(tmp_path, said.append).scales("d4pg") == ("two_cores",)


def test_half_written_and_malformed_rows_are_named_and_left_out(tmp_path, said):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0, 3.0, 4.0, 5.0]) / "evaluator.csv"
    lines = path.read_text().splitlines()
    lines[2] = lines[2].rpartition(",")[0]
    lines[3] = lines[3].replace("3.0,1.0,10", "three,1.0,10")
    lines[4] = lines[4].replace("control:cartpole:swingup,0", "control:cheetah:run,0")
    path.write_text("\n".join(lines))  # the last line has no line break: it is half-written
    (run,) = read(tmp_path, said)
    assert returns(run)["episode_return_mean"].tolist() == [1.0]
    assert said == [
        f"{path}:3: 10 values for 11 columns: row left out",
        f"{path}:4: episode_return_mean is 'three', not a number: row left out",
        f"{path}:5: environment is control:cheetah:run, not control:cartpole:swingup: row left out",
        f"{path}:6: half-written: row left out",
    ]
    returns(run)
    assert len(said) == 4  # once is enough


def test_a_file_without_the_column_is_left_out(tmp_path, said):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0]) / "evaluator.csv"
    path.write_text(path.read_text().replace("episode_return_mean", "score"))
    (run,) = read(tmp_path, said)
    assert returns(run).empty
    assert said == [f"{path}:1: has no column episode_return_mean: file left out"]


def test_seeds_of_another_config_are_left_out(tmp_path, said):
    for seed, size in enumerate((256, 64, 256)):
        plant_run(tmp_path, SETTING, TASK, seed, [1.0], batch_size=size)
    assert [run.seed for run in read(tmp_path, said)] == [0, 2]
    (line,) = said
    file = tmp_path / "d4pg/two_cores" / SETTING / "control-cartpole-swingup/seed_1/config.json"
    number = 1 + file.read_text().splitlines().index('    "batch_size": 64')
    assert line.startswith(
        f"{file}:{number}: another config than the seeds beside it "
        "(config.batch_size is 64, 256 in seed_0)"
    )


def test_a_run_in_the_wrong_place_is_left_out(tmp_path, said):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    path.rename(path.with_name("seed_1"))
    assert not read(tmp_path, said)
    assert "seed_1/config.json: is of d4pg, control:cartpole:swingup, seed 0" in said[0]


def test_a_run_of_another_setting_is_left_out(tmp_path, said):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    path.parents[1].rename(path.parents[1].with_name("ddpg"))
    assert not read(tmp_path, said)
    (line,) = said
    assert f"seed_0/evaluator.csv: is of the setting {SETTING}, which does not belong" in line


def test_a_curve_may_be_of_a_setting_with_another_name(tmp_path, said):
    # Figure 13's curves are one setting with several numbers of actors; figure 14 has it, too.
    path = plant_run(tmp_path, "dqn_two_cores", "atari:pong", 0, [1.0], paper="apex")
    path.parents[1].rename(path.parents[1].with_name("dqn_two_cores_8_actors"))
    assert len(KeptRuns(tmp_path, said.append).of("apex", "two_cores")) == 1 and not said


@pytest.mark.parametrize(
    "name, change, cores",
    [
        ("config.json", ('"seed": 0', '"seed": "0"'), None),
        ("run.json", ('{"usable_cores": 2}', "[2]"), 1),
    ],
)
def test_values_of_another_kind_end_no_program(tmp_path, said, name, change, cores):
    file = plant_run(tmp_path, SETTING, TASK, 0, [1.0]) / name
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    assert [run.cores for run in read(tmp_path, said)] == [cores] * (cores is not None)
    assert len(said) == (cores is None)


def test_broken_json_is_named_with_its_line(tmp_path, said):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    (path / "config.json").write_text('{"paper": "d4pg",\n"seed": }')
    assert not read(tmp_path, said)
    assert f"{path}/config.json:2: is not JSON" in said[0]
    path = plant_run(tmp_path, SETTING, TASK, 1, [1.0])
    (path / "run.json").unlink()
    (run,) = read(tmp_path, said)
    assert not run.has_ended and f"{path}/run.json: cannot be read" in said[-1]


def test_a_run_that_was_killed_has_not_ended(tmp_path, said):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0], outcome=None)
    assert not read(tmp_path, said)[0].has_ended


def test_training_episodes_of_the_greediest_or_of_all_actors(tmp_path, said):
    episodes = [(second, actor, 100.0 * actor) for second in range(1, 101) for actor in (0, 1)]
    plant_run(
        tmp_path,
        SETTING,
        TASK,
        0,
        [0.0] * 4,
        seconds=100,
        steps=4000,
        num_actors=2,
        episodes=episodes,
    )
    (run,) = read(tmp_path, said)
    by_time = run.points("wall_seconds", "episode_return_mean", Returns.GREEDIEST_ACTOR)
    assert len(by_time) == 50 and set(by_time["episode_return_mean"]) == {100.0}
    by_steps = run.points("actor_steps", "episode_return_mean", Returns.ALL_ACTORS)
    assert set(by_steps["episode_return_mean"]) == {50.0}
    # The learner's clock begins at its first row: 25 s, 1000 steps.
    assert by_steps["actor_steps"].iloc[-1] == pytest.approx(3980, abs=1)


def test_frames_are_steps_times_the_action_repeat(tmp_path, said):
    plant_run(tmp_path, "dqn", "atari:pong", 0, [1.0, 2.0], paper="apex", steps=100)
    (run,) = KeptRuns(tmp_path, said.append).of("apex", "two_cores")
    frame = run.points("environment_frames", "learner_steps", Returns.EVALUATOR)
    assert frame["environment_frames"].tolist() == [200, 400]


@pytest.mark.parametrize(
    "kwargs, budget",
    [
        ({"limits": ("--max_minutes=5", "--config.x=1")}, Budget(minutes=5)),
        ({"limits": ("--max_minutes=5", "--max_minutes=10")}, Budget(minutes=10)),
        ({"limits": ("--max_actor_steps=1000",)}, Budget(actor_steps=1000)),
        (
            {"limits": ("--max_minutes=5", "--max_learner_steps=20")},
            Budget(minutes=5, learner_steps=20),
        ),
        (
            {"limits": ("--max_minutes=20",), "outcome": "stopped", "seconds": 984},
            Budget(minutes=16),
        ),
        ({"seconds": 300.3}, Budget(minutes=5)),
    ],
)
def test_the_budget_is_the_command_lines_or_what_it_took(tmp_path, said, kwargs, budget):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0], **kwargs)
    (run,) = read(tmp_path, said)
    assert run.budget == budget and not said


def test_no_runs_are_no_error(tmp_path, said):
    assert not read(tmp_path / "none", said) and not said
    assert KeptRuns(tmp_path, said.append).scales("d4pg") == ()
