"""Calls of environments that hang."""

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

ACTION = np.zeros([1, 1], np.float32)
HINT = "it hangs, or it is slow and needs a larger --environment_seconds"


class Slow(dm_env.Environment):
    """Takes its time for each call."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

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


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.said, self.told = [], threading.Event()

    def __call__(self, message):
        self.said.append(message)
        self.told.set()


def test_the_limit_holds_for_a_call_of_one_environment():
    """Four environments take longer than the limit, but none alone."""
    listener = Listener()
    batch = WatchedBatch(BatchedEnvironment([Slow(0.4) for _ in range(4)]), "slow", listener, 1.0)
    batch.reset()
    batch.step(np.zeros([4, 1], np.float32))
    batch.close()
    assert not listener.said


@pytest.mark.parametrize("call, doing, timestep", [("step", "a step", 2), ("close", "close()", 3)])
def test_a_call_that_hangs_is_told_once_with_name_and_timestep(call, doing, timestep):
    listener, hanging = Listener(), Slow()
    returned = getattr(hanging, call)
    batch = WatchedBatch(BatchedEnvironment([hanging]), "slow", listener, 0.5)
    batch.reset()
    batch.step(ACTION)

    def hang(*arguments):
        assert listener.told.wait(30)
        time.sleep(0.7)  # the watch looks twice a second
        return returned(*arguments)

    setattr(hanging, call, hang)
    batch.step(ACTION)
    batch.close()
    assert listener.said == [
        f"slow has not returned from {doing} for 0.5 s, at timestep {timestep} of this "
        f"process: {HINT}"
    ]


def test_quick_steps_idle_time_and_failures_are_no_stall():
    """The time between two steps is the actor's own, and an error ends a call."""
    listener, failing = Listener(), Slow()
    failing.step = lambda action: {}["a bug of the simulator"]
    quick, broken = (
        WatchedBatch(BatchedEnvironment([each]), "slow", listener, 0.3)
        for each in (Slow(), failing)
    )
    quick.reset()
    quick.step(ACTION)
    with pytest.raises(KeyError):
        broken.step(ACTION)
    time.sleep(1.5)
    assert not listener.said


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
        ("atexit.register(time.sleep, 99)", "an exit handler did", "sys.exit(7)", 7),
    ],
)
def test_a_process_ends_whatever_an_environment_leaves(leave, what, end, code):
    program = textwrap.dedent(LEFT.format(leave=leave, end=end))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == code and ended.stdout == "done\n"
    assert f"finished its work, but {what} not end within 0.5 s" in ended.stderr


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
