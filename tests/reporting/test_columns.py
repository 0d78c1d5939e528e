from pathlib import Path
import re

from common.reporting import csv_rows

GLOSSARY = Path(__file__).parents[2] / "results" / "README.md"


def test_evaluator_columns_are_those_that_others_read():
    assert ",".join(csv_rows.EVALUATOR) == (
        "paper,setting,environment,seed,wall_seconds,actor_steps,environment_frames,learner_steps,"
        "episode_return_mean,episode_return_std,episodes"
    )


def test_glossary_explains_every_column():
    explained = set(re.findall(r"^\| `(\w+)` \|", GLOSSARY.read_text(), re.MULTILINE))
    assert {*csv_rows.EVALUATOR, *csv_rows.ACTING, *csv_rows.LEARNER} <= explained
