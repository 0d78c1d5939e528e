"""`python -m fake_program`: makes a run directory as a launcher does, without learning.

The setting "broken" fails, "slow" takes a minute, "steady" three seconds, "mortal" kills itself
once, "held" waits after five steps for the file $FAKE_GO; learner steps go on from where they were.
"""

import os
import signal
import sys
import time

from common.reporting import csv_rows
from common.reporting.run_directory import RunDirectory

values = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[1:])
if values["setting"] == "broken":
    sys.exit("error: broken")
run = RunDirectory(values["workdir"])
run.open(
    {
        "paper": "fake",
        "environment": values["environment"],
        "seed": int(values["seed"]),
        "setting": values["setting"],
        "num_actors": int(values["num_actors"]),
        "config": {"sizes": [4, 4]},
    }
)
print(f"pid {os.getpid()}", flush=True)
signals = []
signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
limit = int(values["max_learner_steps"])
rows = csv_rows.CsvRows(run.learner_csv, csv_rows.LEARNER)
csv_rows.CsvRows(run.acting_csv, csv_rows.ACTING)
step = (csv_rows.last_row(run.learner_csv) or {"learner_steps": 0})["learner_steps"]
with run.hold():
    run.write_run_record(
        seed=int(values["seed"]), scale=values["scale"], scale_changes=values["scale_changes"]
    )
    while step < limit and not signals:
        if values["setting"] == "held" and step == 5 and not os.path.exists(os.environ["FAKE_GO"]):
            time.sleep(0.05)
            continue
        step += 1
        rows.append(
            dict.fromkeys(csv_rows.LEARNER)
            | {"wall_seconds": step, "actor_steps": step, "learner_steps": step}
        )
        if values["setting"] == "mortal" and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        waits = {"slow": 60, "steady": 3}.get(values["setting"], 0)
        while waits and not signals:
            time.sleep(0.1)
            waits -= 1
    if not signals:
        evaluation = dict.fromkeys(csv_rows.EVALUATOR, 1) | {
            **{name: values.get(name, "fake") for name in csv_rows.EVALUATOR[:4]},
            **dict.fromkeys(csv_rows.EVALUATOR[4:8], step),
            "episode_return_mean": float(values["seed"]),
        }
        csv_rows.CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(evaluation)
    run.close_run_record("stopped" if signals else "finished")
print(f"signals {signals}", flush=True)
print(f"cores {sorted(os.sched_getaffinity(0))}, niceness {os.nice(0)}", flush=True)
