"""`python -m fake_trial`: a run of ten evaluations, best at a learning rate of 1e-3.

$FAKE_STEP seconds lie between evaluations. SIGTERM stops it; it goes on where it was.
"""

import math
import os
import signal
import sys
import time

from common.reporting import csv_rows
from common.reporting.run_directory import RunDirectory

values = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[1:])
rate = float(values["config.learning_rate"])
run = RunDirectory(values["workdir"])
identity = {"environment": values["environment"], "seed": 0, "setting": "good", "paper": "fake"}
run.open({**identity, "num_actors": 2, "config": {"sizes": [4, 4], "learning_rate": rate}})
stopped = []
signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
learner = csv_rows.CsvRows(run.learner_csv, csv_rows.LEARNER)
evaluator = csv_rows.CsvRows(run.evaluator_csv, csv_rows.EVALUATOR)
csv_rows.CsvRows(run.acting_csv, csv_rows.ACTING)
step = int((csv_rows.last_row(run.learner_csv) or {"learner_steps": 0})["learner_steps"])
run.write_run_record(seed=0, scale=values["scale"])
while step < int(values["max_learner_steps"]) and not stopped:
    step += 1
    done = dict.fromkeys(csv_rows.PROGRESS, step)
    value = step * (1 - abs(math.log10(rate) + 3))
    row = dict.fromkeys(csv_rows.EVALUATOR, 1) | identity | done
    evaluator.append(row | {"episode_return_mean": value})
    learner.append(dict.fromkeys(csv_rows.LEARNER) | done)
    time.sleep(float(os.environ.get("FAKE_STEP", "0")))
run.close_run_record("stopped" if stopped else "finished")
