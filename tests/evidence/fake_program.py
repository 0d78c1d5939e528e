"""`python -m fake_program`: makes a run directory as a launcher does, without learning.

The setting "broken" fails, "slow" takes a minute, "steady" three seconds, "mortal" kills itself
once, "held" waits after five steps for the file $FAKE_GO; learner steps go on from where they were.
With a learning rate, which is best at 1e-3, there is an evaluation after each step, and $FAKE_STEP
seconds lie between these.
"""

import math
import os
import signal
import sys
import time

from common.reporting import csv_rows
from common.reporting.run_directory import RunDirectory

values = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[1:])
setting, seed = values["setting"], int(values["seed"])
rate = float(values.get("config.learning_rate", 0))
if setting == "broken":
    sys.exit("error: broken")
run = RunDirectory(values["workdir"])
identity = {"paper": "fake", "setting": setting, "environment": values["environment"], "seed": seed}
config = {"sizes": [4, 4]} | ({"learning_rate": rate} if rate else {})
run.open(identity | {"num_actors": int(values["num_actors"]), "config": config})
print(f"pid {os.getpid()}", flush=True)
signals = []
signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
learner = csv_rows.CsvRows(run.learner_csv, csv_rows.LEARNER)
evaluator = csv_rows.CsvRows(run.evaluator_csv, csv_rows.EVALUATOR)
csv_rows.CsvRows(run.acting_csv, csv_rows.ACTING)
step = (csv_rows.last_row(run.learner_csv) or {"learner_steps": 0})["learner_steps"]


def evaluate(mean):
    done = dict.fromkeys(csv_rows.PROGRESS, step) | {"episode_return_mean": mean}
    evaluator.append(dict.fromkeys(csv_rows.EVALUATOR, 1) | identity | done)


with run.hold():
    run.write_run_record(seed=seed, scale=values["scale"], scale_changes=values["scale_changes"])
    while step < int(values["max_learner_steps"]) and not signals:
        if setting == "held" and step == 5 and not os.path.exists(os.environ["FAKE_GO"]):
            time.sleep(0.05)
            continue
        step += 1
        if rate:
            evaluate(step * (1 - abs(math.log10(rate) + 3)))
        learner.append(dict.fromkeys(csv_rows.LEARNER) | dict.fromkeys(csv_rows.PROGRESS, step))
        if setting == "mortal" and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(os.environ.get("FAKE_STEP", "0")))
        waits = {"slow": 60, "steady": 3}.get(setting, 0)
        while waits and not signals:
            time.sleep(0.1)
            waits -= 1
    if not (signals or rate):
        evaluate(float(seed))
    run.close_run_record("stopped" if signals else "finished")
print(f"signals {signals}", flush=True)
print(f"cores {sorted(os.sched_getaffinity(0))}, niceness {os.nice(0)}", flush=True)
