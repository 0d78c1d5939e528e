"""Calls of environments that hang, in the places where no batch checks them."""

import subprocess
import sys
import textwrap
import threading
import time

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments import watch
from common.environments.batch import BatchedEnvironment, WatchedBatch

HINT = "it hangs, or it is slow and needs a larger --environment_seconds"


class Slow(dm_env.Environment):
    """Takes its time for each call."""

    seconds = 0.4

    def reset(self):
        time.sleep(self.seconds)
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        time.sleep(self.seconds)
        return dm_env.transition(0.0, np.zeros(1, np.float32))

    def close(self):
        time.sleep(self.seconds)

    def observation_spec(self):
        return specs.Array([1], np.float32)

    def action_spec(self):
        return specs.BoundedArray([1], np.float32, minimum=-1, maximum=1)


def test_the_limit_holds_for_a_call_of_one_environment():
    """Four environments take longer than the limit, but none alone."""
    said = []
    batch = WatchedBatch(BatchedEnvironment([Slow() for _ in range(4)]), "slow", said.append, 1.0)
    batch.reset()
    batch.step(np.zeros([4, 1], np.float32))
    batch.close()
    assert not said


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.said, self.told = [], threading.Event()

    def __call__(self, message):
        self.said.append(message)
        self.told.set()


def test_close_that_hangs_is_told():
    listener, hanging = Listener(), Slow()
    hanging.close = lambda: listener.told.wait(30)
    WatchedBatch(BatchedEnvironment([hanging]), "slow", listener, 0.2).close()
    assert listener.said == [
        f"slow has not returned from close() for 0.2 s, at timestep 0 of this process: {HINT}"
    ]


@pytest.mark.parametrize("hangs", [True, False])
def test_environments_that_are_not_made_in_time_are_told(hangs):
    listener = Listener()
    with watch.Call("slow", watch.MAKING, listener, seconds=0.2 if hangs else 5.0):
        assert not hangs or listener.told.wait(30)
    expected = [f"slow has not returned from {watch.MAKING} for 0.2 s: {HINT}"]
    assert listener.said == expected * hangs


def test_in_a_call_within_another_the_inner_limit_counts_and_the_outer_end():
    inner, outer = Listener(), Listener()
    calls = watch.Call("slow", "its end", outer, 0.3), watch.Call("slow", "close()", inner, 0.8)
    with calls[0], calls[1]:
        time.sleep(0.5)
        assert not outer.said
        assert outer.told.wait(30)
    assert not inner.said and len(outer.said) == 1 and "close()" in outer.said[0]


LEFT = """
    import atexit, sys, threading, time
    from common.environments import watch
    from common.reporting.command_line import exit_with
    watch.limit_seconds = 0.5
    def main():
        with watch.Call("an environment", "a step"):
            {leave}
        print("done")
        {end}
    exit_with(main)
"""


THREAD = "threading.Thread(target=time.sleep, args=[99], name='a').start()", "its threads a did"


@pytest.mark.parametrize(
    "leave, what, end, code",
    [
        (*THREAD, "return 0", 0),
        (*THREAD, "1 / 0", 1),
        ("atexit.register(time.sleep, 99)", "a function of its end did", "sys.exit(7)", 7),
    ],
)
def test_a_process_ends_whatever_an_environment_leaves(leave, what, end, code):
    program = textwrap.dedent(LEFT.format(leave=leave, end=end))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == code and ended.stdout == "done\n"
    assert f"done its work, but {what} not end for 0.5 s" in ended.stderr


def test_a_users_process_may_take_its_time():
    """Without a program, nothing limits an environment, or the threads that go on at the end."""
    program = """
        import threading, time
        from common.environments import watch
        assert watch.Call("an environment", "a step").seconds == float("inf")
        with watch.Call("an environment", "a step"):
            watch._POLL_SECONDS = 0.05
        watch.limit_seconds = 0.1
        threading.Thread(target=lambda: (time.sleep(1.5), print("done"))).start()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
