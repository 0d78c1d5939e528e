"""Kept runs are read strictly: what is wrong is said with its file and line."""

from planted_curves import plant_run
import pytest

from common.experiments.paper import Experiment, Returns, Run
from common.experiments.runs import KeptRuns
from common.experiments.selection import runs_of
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectoryError
from common.reporting.user_error import UserError
from reproductions.d4pg.config import AGENT as D4PG

SETTING, TASK = "d4pg_prioritized_n5", "control:cartpole:swingup"


def read(root, paper="d4pg"):
    return KeptRuns(root).of(paper, "two_cores")


def returns(run):
    return run.points("wall_seconds", "episode_return_mean", Returns.EVALUATOR)


def test_runs_are_found_with_their_points(tmp_path):
    for seed in (0, 10, 2):
        plant_run(tmp_path, SETTING, TASK, seed, [seed, seed + 1.0], seconds=60)
    runs = read(tmp_path)
    assert [run.seed for run in runs] == [0, 2, 10]
    assert returns(runs[1]).to_numpy().tolist() == [[30, 2], [60, 3]]
    assert (runs[0].reached("wall_seconds"), runs[0].cores, runs[0].has_ended) == (60, 2, True)
    assert KeptRuns(tmp_path).scales("d4pg") == ("two_cores",)
    assert not read(tmp_path, "apex") and KeptRuns(tmp_path).scales("apex") == ()


def test_a_root_that_is_no_directory_is_an_error(tmp_path):
    with pytest.raises(RunDirectoryError, match="there are no runs: .*/none is no directory"):
        KeptRuns(tmp_path / "none")


@pytest.mark.parametrize(
    "name, old, new, complaint",
    [
        (
            "evaluator.csv",
            ",2.0,1.0,10\n",
            ",2.0,1.0\n",
            "evaluator.csv:3: 10 cells for 11 columns",
        ),
        (
            "evaluator.csv",
            "2.0,1.0,10",
            "two,1.0,10",
            "evaluator.csv:3: episode_return_mean is 'two', not a number",
        ),
        (
            "evaluator.csv",
            f"{SETTING},{TASK},0",
            f"{SETTING},control:cheetah:run,0",
            f"evaluator.csv:2: environment is control:cheetah:run, not {TASK}",
        ),
        (
            "evaluator.csv",
            f"d4pg,{SETTING}",
            "d4pg,ddpg",
            f"evaluator.csv:2: setting is ddpg, not {SETTING}",
        ),
        (
            "evaluator.csv",
            "episode_return_mean",
            "score",
            "evaluator.csv:1: the header has no column episode_return_mean",
        ),
        ("config.json", '"seed": 0', '"seed": ', "config.json:5: is not JSON"),
        ("config.json", '"seed": 0', '"seed": "0"', "config.json: seed is '0', not a count"),
        ("config.json", '"paper": "d4pg"', '"paper": "aql"', f"config.json: is of aql, {TASK}"),
        ("run.json", '"starts"', '"ends"', "run.json is not the record of a run"),
        ("run.json", '"minutes"', '"hours"', "run.json: a budget has actor_steps, "),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, old, new, complaint):
    file = plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0, 3.0]) / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        for run in read(tmp_path):
            assert returns(run) is None or run.budget
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert str(file.parent) in str(error.value)


def test_a_torn_last_row_and_files_that_are_not_there_yet_are_no_error(tmp_path):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0])
    with open(path / "evaluator.csv", "a") as file:
        file.write("d4pg,d4pg_prior")
    assert returns(*read(tmp_path))["episode_return_mean"].tolist() == [1.0, 2.0]
    for name in ("evaluator.csv", "learner.csv", "run.json"):
        (path / name).unlink()
    (run,) = read(tmp_path)
    assert returns(run).empty and run.reached("actor_steps") == 0 and not run.has_ended


def test_seeds_of_different_configs_are_an_error(tmp_path):
    for seed, size in enumerate((256, 64)):
        plant_run(tmp_path, SETTING, TASK, seed, [1.0], batch_size=size)
    with pytest.raises(
        RunDirectoryError,
        match="seed_1/config.json: another config than the seeds beside it "
        r"\(config.batch_size is 64, 256 in seed_0\)",
    ):
        read(tmp_path)


def test_a_run_in_the_wrong_place_is_an_error(tmp_path):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    path.rename(path.with_name("seed_1"))
    with pytest.raises(RunDirectoryError, match="seed_1/config.json: is of d4pg, .*, seed 0: move"):
        read(tmp_path)


def test_a_run_of_another_setting_is_an_error(tmp_path):
    path = plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    path.parents[1].rename(path.parents[1].with_name("curve"))

    def curve(setting):
        run = Run(D4PG, "curve", TASK, (f"--setting={setting}", "--num_actors=8"))
        return runs_of(Experiment("figure 1", "", (run,)), read(tmp_path))

    assert len(curve(SETTING)) == 1  # a curve may have another name than its setting
    with pytest.raises(RunDirectoryError, match=f"is of the setting {SETTING}, not ddpg"):
        curve("ddpg")


def test_a_run_that_was_killed_has_not_ended(tmp_path):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0], outcome=None)
    assert not read(tmp_path)[0].has_ended


def test_training_episodes_of_the_greediest_or_of_all_actors(tmp_path):
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
    (run,) = read(tmp_path)
    by_time = run.points("wall_seconds", "episode_return_mean", Returns.GREEDIEST_ACTOR)
    assert len(by_time) == 50 and set(by_time["episode_return_mean"]) == {100.0}
    by_steps = run.points("actor_steps", "episode_return_mean", Returns.ALL_ACTORS)
    assert set(by_steps["episode_return_mean"]) == {50.0}
    # The learner's clock begins at its first row: 25 s, 1000 steps.
    assert by_steps["actor_steps"].iloc[-1] == pytest.approx(3980, abs=1)


def test_frames_are_steps_times_the_action_repeat(tmp_path):
    plant_run(tmp_path, "dqn", "atari:pong", 0, [1.0, 2.0], paper="apex", steps=100)
    (run,) = read(tmp_path, "apex")
    frame = run.points("environment_frames", "learner_steps", Returns.EVALUATOR)
    assert frame["environment_frames"].tolist() == [200, 400]


@pytest.mark.parametrize(
    "kwargs, budget",
    [
        ({"budget": Budget(minutes=5)}, Budget(minutes=5)),
        ({"budget": Budget(minutes=5, learner_steps=20)}, Budget(minutes=5, learner_steps=20)),
        ({"budget": Budget(minutes=20), "outcome": "stopped", "seconds": 984}, Budget(minutes=16)),
        ({"seconds": 300.3}, Budget(minutes=5)),
    ],
)
def test_the_budget_is_the_recorded_one_or_the_time_that_it_took(tmp_path, kwargs, budget):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0], **kwargs)
    assert read(tmp_path)[0].budget == budget


def test_values_of_flags(tmp_path):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0], changed={"learner_threads": 2, "num_actors": 4})
    (run,) = read(tmp_path)
    names = ("num_actors", "config.batch_size", "learner_threads", "evaluation_seconds")
    assert [run.value_of(name) for name in names] == [8, 256, 2, None]
