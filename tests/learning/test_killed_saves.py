"""kill -9 of a process that saves checkpoints without a pause."""

import subprocess
import sys

from launched import ROOT

# Forks processes that restore, check, and save without a pause; a save is of one number throughout.
# Each says the number it restored, -1 for none, and each that it has saved.
SAVER = """
import os, pathlib, random, signal, sys, time
import numpy as np, tensorflow as tf
from common.learning.checkpoint import Checkpoints

def save(say):
    state = tf.Module()
    state.values = [tf.Variable(tf.zeros([100_000]), trainable=False) for _ in range(20)]
    checkpoints = Checkpoints(pathlib.Path(sys.argv[1]), {"learner": state})
    say(int(state.values[0][0]) if checkpoints.restore() else -1)
    step = state.values[0][0]
    assert all(np.all(value == step) for value in state.values), "the parts of several saves"
    while True:
        step += 1
        for value in state.values:
            value.assign(tf.fill([100_000], step))
        checkpoints.save()
        say(int(step))

random.seed(0)
seconds_a_save = None
for _ in range(int(sys.argv[2])):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save(lambda number: os.write(write, b"%d " % number))
    os.close(write)
    said = os.read(read, 10)  # it has restored
    if seconds_a_save is None:  # the first tells how fast this machine saves
        begin = time.monotonic()
        while said.count(b" ") < 5:
            said += os.read(read, 1000)
        seconds_a_save = (time.monotonic() - begin) / 4
    else:
        for _ in range(random.randrange(5)):
            said += os.read(read, 10)
        time.sleep(random.uniform(0.0, 1.0) * seconds_a_save)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(read, 1000):
        said += more
    os.close(read)
    print(said.decode(), flush=True)
"""


def test_kill_9_in_the_middle_of_a_save_leaves_one_to_restore(tmp_path):
    kills = 12
    saver = subprocess.run(
        [sys.executable, "-c", SAVER, str(tmp_path), str(kills)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    starts = [[int(number) for number in line.split()] for line in saver.stdout.splitlines()]
    assert len(starts) == kills and all(starts), saver.stderr
    assert starts[0][0] == -1
    for before, after in zip(starts, starts[1:]):
        # A save may have been done whose end could not be told any more.
        assert after[0] in (before[-1], max(before[-1], 0) + 1)
    assert sum(map(len, starts)) > 2 * kills  # it was saves that were cut, and some went through
