import pytest

from common.reporting import csv_rows, progress
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory


@pytest.mark.parametrize(
    "evaluated, learnt, limit, is_over",
    [
        (300, 300, 300, True),
        (300, None, 300, True),  # a kept run without learner.csv
        (200, 300, 300, False),
        (200, 300, 150, False),  # stopped at 300, which is not evaluated yet
        (300, 300, 400, False),
    ],
)
def test_a_run_is_over_once_its_last_update_is_evaluated(
    tmp_path, evaluated, learnt, limit, is_over
):
    run = RunDirectory(tmp_path)
    for path, names, steps in (
        (run.evaluator_csv, csv_rows.EVALUATOR, evaluated),
        (run.learner_csv, csv_rows.LEARNER, learnt),
    ):
        if steps is not None:
            row = dict.fromkeys(names, 1) | {"learner_steps": steps}
            CsvRows(path, list(names)).append(row)
    assert progress.is_over(run, Budget(learner_steps=limit)) == is_over
