"""Tests that a memory which was saved and loaded goes on as if it had never stopped.

cc/hostile_operations.cc loads files with right checksums and wrong contents.
"""

import locale
import os
import pathlib
import resource
import shutil
import struct
import subprocess

from many_threads import run_threads
import numpy as np
import pytest
import tensorflow as tf
import tree

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory
from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Fifo,
    Memory,
    Proportional,
    RankBased,
    Uniform,
)
from common.replay.saving import ReplayFileError
from common.user_error import UserError

SPECS = {
    "x": tf.TensorSpec([3], tf.float32),
    "text": Bytes(40),
    "n": tf.TensorSpec([], tf.int64),
    "nothing": tf.TensorSpec([0], tf.float32),
}
SAMPLING = {
    "uniform": Uniform(),
    "fifo": Fifo(),
    "proportional": Proportional(0.6),
    "mixed": Proportional(0.6, uniform_mix=0.1),
    "contextual": ContextualPriorityTree(),
    "rank_based": RankBased(0.7, period=4),
}
REMOVAL = {
    "old": Fifo(),
    "any": Uniform(),
    "small": Proportional(-0.4),
    "context": ContextualPriorityTree(-0.4, 0.1),
    "rank": RankBased(0.0, period=3),
}
FAR = np.float32(3.0)


def rows(keys, width=3):
    """Returns steps whose columns are functions of the key."""
    keys = np.asarray(keys)
    text = np.empty(keys.shape, object)
    text[:] = [(b"%d" % key * (key % 9))[:40] for key in keys.tolist()]
    return {
        "x": np.repeat(keys.astype(np.float32)[:, None], width, 1),
        "text": text,
        "n": keys,
        "nothing": np.zeros([len(keys), 0], np.float32),
    }


def make_memory(sampling="proportional", removal="old", seed=5, **arguments):
    arguments = {"specs": SPECS, "capacity": 60, "hard_capacity": 90} | arguments
    distributions = {"sample": SAMPLING[sampling], "remove": REMOVAL[removal]}
    return Memory(distributions=distributions, removal="remove", seed=seed, **arguments)


def play(memory, seed, turns):
    """Makes calls of all kinds that follow from the seed; returns the text of all results."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(turns):
        kind = rng.integers(8)
        begin = int(rng.integers(0, 400))
        keys = np.arange(begin, begin + rng.integers(1, 30))
        priorities = rng.choice([UNKNOWN_PRIORITY, 0.0, 0.5, 3.0], len(keys)).astype(np.float32)
        if kind == 0:
            memory.insert(keys, rows(keys), priorities)
        elif kind == 1:
            lengths = rng.integers(1, 4, len(keys)).astype(np.int32)
            memory.insert(keys, rows(keys), priorities, keys, lengths)
        elif kind == 2:
            results.append(memory.update_priorities(keys, priorities))
        elif kind in (3, 4) and len(memory):
            for name in ("sample", "remove"):
                results.append(memory.sample(8, name, max_length=2, seed=begin * (kind == 4)))
        elif kind == 5:
            results += [memory.masses(keys), memory.masses(keys, "remove")]
        elif kind == 6:
            results += [memory.read(keys), memory.trim()]
        results += [memory.mass(), memory.mass("remove"), memory.statistics()]
    memory.check()
    return text_of(results)


def make_episodes(sampling="rank_based", removal="far_policy", seed=5, **arguments):
    arguments = {"specs": SPECS, "capacity": 120, "discount": 0.9} | arguments
    return EpisodeMemory(sampling=SAMPLING[sampling], removal=removal, seed=seed, **arguments)


def play_episodes(memory, seed, turns):
    """Makes calls of all kinds that follow from the seed; returns the text of all results."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(turns):
        kind = rng.integers(7)
        n = int(rng.integers(1, 30))
        statistics = memory.statistics()
        keys = rng.integers(0, statistics.steps + statistics.removed + 3, n)
        if kind <= 1:
            rewards, values = rng.normal(size=n), rng.normal(size=n + 1)
            states = rows(rng.integers(0, 999) + np.arange(n + 1))
            columns = np.float32(rewards), np.float32(values), n % 2 == 0, np.float32(-rewards)
            results.append(memory.add(states, *columns))
        elif kind == 2 and len(memory) >= n:
            results += [memory.sample(n, num_batches=2), memory.sample(n, seed=seed)]
        elif kind == 3:
            *numbers, advantages = rng.gamma(1.0, size=[6, n]).astype(np.float32)
            results.append(memory.refresh(keys, *numbers, FAR + n % 2, advantages=advantages))
        elif kind == 4:
            memory.set_reward_scale(rng.random(), recompute=n % 2 == 0)
            memory.count_steps(n)
        elif kind == 5:
            results += [memory.stored(keys), memory.contains(keys), memory.reward_scale()]
            results += [memory.observation_moments("x")]
        results.append(memory.statistics())
    memory.check()
    return text_of(results)


def text_of(results):
    return repr(tree.map_structure(lambda value: np.asarray(value).tolist(), results))


MEMORIES = [(make_memory, play, each, "old") for each in SAMPLING]
MEMORIES += [(make_memory, play, "proportional", each) for each in REMOVAL if each != "old"]
MEMORIES += [
    (make_episodes, play_episodes, "uniform", "oldest"),
    (make_episodes, play_episodes, "rank_based", "far_policy"),
    (make_episodes, play_episodes, "rank_based", "divergence"),
]


@pytest.mark.parametrize("make, play_with, sampling, removal", MEMORIES)
def test_a_loaded_memory_goes_on_as_the_saved_one(tmp_path, make, play_with, sampling, removal):
    memory = make(sampling, removal)
    for number, turns in enumerate((0, 2, 60)):
        play_with(memory, number, turns)
        before = memory.statistics()
        memory.save(tmp_path / "memory")
        assert memory.statistics() == before
        loaded = make(sampling, removal, seed=7)
        loaded.load(tmp_path / "memory")
        loaded.check()
        assert loaded.statistics() == before and len(loaded) == memory.counters().items
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "memory").read_bytes()
        further = 100 + number
        assert play_with(loaded, further, 30) == play_with(memory, further, 30)
        assert loaded.statistics() == memory.statistics()
    assert before.removed > 0
    assert sorted(os.listdir(tmp_path)) == ["again", "memory"]


def refuses(memory, path, match):
    """Requires that a file is refused in one line that names it, and the memory stays empty."""
    with pytest.raises(ReplayFileError, match=match) as error:
        memory.load(path)
    line = str(error.value)
    assert isinstance(error.value, UserError)
    assert str(path) in line and "\n" not in line and "function_node" not in line
    assert len(memory) == 0 and not any(memory.statistics())
    memory.check()


@pytest.fixture(name="saved", params=[(make_memory, play), (make_episodes, play_episodes)])
def saved_fixture(request, tmp_path):
    """A function that makes memories, and the file of one."""
    make, play_with = request.param
    memory = make()
    play_with(memory, 0, 60)
    memory.save(tmp_path / "memory")
    return make, tmp_path / "memory"


def test_a_torn_file_is_refused(saved):
    make, path = saved
    content = path.read_bytes()
    lengths = [0, 1, 15, 16, 17, 31, 32, len(content) - 17, len(content) - 16, len(content) - 1]
    for length in lengths + list(range(50, len(content) - 17, len(content) // 15)):
        path.write_bytes(content[:length])
        refuses(make(), path, "cut off" if length >= 16 else "is not a saved replay memory")
    path.write_bytes(content + b"\0")
    refuses(make(), path, "longer than its content")


def test_a_flipped_bit_is_found(saved):
    make, path = saved
    content = path.read_bytes()
    memory = make()
    for place in list(range(32)) + list(range(32, len(content), 149)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        refuses(memory, path, "damaged" if place >= 16 else "not a saved replay memory|version")
    path.write_bytes(content)
    memory.load(path)
    memory.check()


def test_a_file_that_was_never_a_memory_is_refused(saved, tmp_path):
    make, path = saved
    for content in (b"", b"step,return\n" * 100):
        path.write_bytes(content)
        refuses(make(), path, "it is not a saved replay memory")
    path.unlink()
    refuses(make(), path, "cannot read .*: No such file or directory")
    refuses(make(), tmp_path, "Is a directory")


def test_a_file_of_another_version_is_refused(saved):
    make, path = saved
    content = bytearray(path.read_bytes())
    (version,) = struct.unpack_from("=Q", content, 8)
    struct.pack_into("=Q", content, 8, version - 1)
    path.write_bytes(content)
    refuses(make(), path, f"version {version - 1} of the format, this program reads .* {version}")


_MASK, _FACTOR = 2**64 - 1, 0x9E3779B97F4A7C15


def checksum(data, number):
    """Returns the checksum of a chunk, as cc/saved_file.cc computes it."""

    def mixed(total, word, bits):
        total = (total ^ word) * _FACTOR & _MASK
        return (total << bits | total >> (64 - bits)) & _MASK

    sums = [number, len(data), 2, 3]
    for (*words,) in struct.iter_unpack("=4Q", data + bytes(-len(data) % 32)):
        sums = [mixed(total, word, 29) for total, word in zip(sums, words)]
    total = 0
    for each in sums:
        total = mixed(total, each, 31)
    return total


def forge(path, place, number):
    """Writes 8 bytes at a place of the content of a file of two chunks, whose checksums fit."""
    file = bytearray(path.read_bytes())
    begin = 32 + struct.unpack_from("=Q", file, 16)[0]  # of the chunk after the signature
    end = begin + 16 + struct.unpack_from("=Q", file, begin)[0]
    assert struct.unpack_from("=Q", file, end) == (0,)
    file[begin + 16 + place : begin + 24 + place] = number
    struct.pack_into("=Q", file, begin + 8, checksum(bytes(file[begin + 16 : end]), 1))
    path.write_bytes(file)


GENERATOR = 313 * 8
"""Bytes of a generator: 312 words and a place."""


def test_wrong_contents_behind_right_checksums_are_an_error(tmp_path):
    """In empty files, where all that goes before has one size."""
    path = tmp_path / "memory"
    make_memory().save(path)
    forge(path, 8 + 8 + GENERATOR + 7 * 8, struct.pack("=q", 5))  # removed
    refuses(make_memory(), path, "memory: its content is wrong: items miscounted$")
    make_episodes().save(path)
    forge(path, 8 + 8, struct.pack("=q", 2**62 + 1))  # the next key
    refuses(make_episodes(), path, f"it has a count of {2**62 + 1}, the most is {2**62}$")
    forge(path, 8 + 8, struct.pack("=q", 0))
    forge(path, 24 + GENERATOR, struct.pack("=ff", 1, 0.5))  # the factor of rewards, c_max
    refuses(make_episodes(), path, "its content is wrong: episodes: a number is out of range$")
    forge(path, 24 + GENERATOR, struct.pack("=ff", 1, np.inf))
    forge(path, 24 + GENERATOR + 16, struct.pack("=d", 5))  # the sum of divergences
    memory = make_episodes()
    memory.load(path)  # numbers that follow from others are not computed again
    with pytest.raises(tf.errors.InternalError, match="^replay memory: episodes: wrong sum of div"):
        memory.check()
    assert memory.add(rows(range(3)), np.ones(2, "f"), np.ones(3, "f"), True) == 0


@pytest.mark.parametrize(
    "arguments, line",
    [
        ({"capacity": 61}, '"capacity: 60" where this one has "capacity: 61"'),
        ({"hard_capacity": 99}, '"hard capacity: 90" where .* "hard capacity: 99"'),
        ({"sampling": "uniform"}, '"distribution 0: prop.* 0.6, .*" where .* "distribution 0: uni'),
        ({"sampling": "mixed"}, 'uniform mix 0, .*" where .*uniform mix 0.1,'),
        ({"removal": "small"}, '"distribution 1: fifo.*removal" where .*"distribution 1: prop'),
        ({"specs": SPECS | {"x": tf.TensorSpec([4], tf.float32)}}, r"column x: float\[3\].*\[4\]"),
        ({"specs": SPECS | {"x": tf.TensorSpec([3], tf.int32)}}, r"column x: float.*x: int32"),
        ({"specs": SPECS | {"text": Bytes(41)}}, "column text: string.* 40 bytes.* 41 bytes"),
        ({"specs": SPECS | {"text": Bytes(40, b"\n")}}, r'prefix "", .*prefix "\\n"'),
        ({"specs": SPECS | {"z": tf.TensorSpec([], tf.bool)}}, 'nothing more where .*"column z'),
        ({"specs": {"x": SPECS["x"]}}, '"column n: int64.*" where .*"column x'),
    ],
)
def test_a_file_of_another_memory_is_refused(tmp_path, arguments, line):
    memory = make_memory()
    play(memory, 0, 10)
    memory.save(tmp_path / "memory")
    refuses(make_memory(**arguments), tmp_path / "memory", f"it is of another memory: .*{line}")


@pytest.mark.parametrize(
    "arguments, line",
    [
        ({"capacity": 121}, '"capacity: 120" where this one has "capacity: 121"'),
        ({"discount": 0.8}, '"discount: 0.9" where this one has "discount: 0.8"'),
        ({"sampling": "uniform"}, '"sampling: rank_based, exponent 0.7, period 4" where'),
        ({"removal": "oldest"}, '"removal: far_policy" where this one has "removal: oldest"'),
        ({"specs": {"x": SPECS["x"]}}, '"column n: int64.*" where .*"column x'),
    ],
)
def test_a_file_of_another_memory_of_episodes_is_refused(tmp_path, arguments, line):
    make_episodes().save(tmp_path / "memory")
    refuses(make_episodes(**arguments), tmp_path / "memory", f"it is of another memory: .*{line}")
    refuses(make_memory(), tmp_path / "memory", '"kind: episode memory" where .*"kind: keyed mem')


def test_a_file_of_a_program_with_another_decimal_point_is_of_the_same_memory(
    tmp_path, monkeypatch
):
    """Libraries of windows, such as Qt, set the locale of the user."""
    make = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")]
    if (
        not shutil.which(make[0])
        or subprocess.run(make, capture_output=True, check=False).returncode
    ):
        pytest.skip("there are no sources of locales")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    try:
        make_memory("mixed").save(tmp_path / "memory")
    finally:
        locale.setlocale(locale.LC_NUMERIC, "C")
    make_memory("mixed").load(tmp_path / "memory")


def test_a_memory_in_use_loads_nothing(saved):
    make, path = saved
    memory = make()
    memory.load(path)
    before = memory.statistics()
    with pytest.raises(ReplayFileError, match=f"in use, it holds {before.steps} steps: load into"):
        memory.load(path)
    assert memory.statistics() == before
    memory.check()


def test_a_full_disk_leaves_the_file_before(tmp_path):
    path = tmp_path / "memory"
    memory = make_memory()
    play(memory, 0, 60)
    memory.save(path)
    content = path.read_bytes()
    play(memory, 1, 10)

    def fails(reason):
        before = memory.statistics()
        with pytest.raises(ReplayFileError) as error:
            memory.save(path)
        assert str(error.value) == f"cannot write {path}: {reason}"
        assert os.listdir(tmp_path) == ["memory"] and path.read_bytes() == content
        assert memory.statistics() == before
        memory.check()

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 100, len(content) // 2, len(content) - 100):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            fails("File too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # What a killed process has left is overwritten.
    (tmp_path / "memory.tmp").write_bytes(2 * content)
    memory.save(path)
    loaded = make_memory()
    loaded.load(path)
    assert play(loaded, 2, 20) == play(memory, 2, 20)


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "memory.tmp").symlink_to(tmp_path / "mine")
    make_memory().save(tmp_path / "memory")
    assert (tmp_path / "mine").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["memory", "mine"]


def test_a_directory_that_is_missing_is_named(tmp_path):
    for memory in (make_memory(), make_episodes()):
        with pytest.raises(ReplayFileError, match="cannot write .*absent/memory.tmp: No such file"):
            memory.save(tmp_path / "absent" / "memory")


WIDE = SPECS | {"x": tf.TensorSpec([500], tf.float32)}
"""Columns of 2 kB, so that the rows of a memory are several chunks."""


def save_twice_at_once(memory, make, directory: pathlib.Path, functions, seconds=0.4):
    """Returns memories loaded from files that two threads wrote while others called functions."""
    paths = []

    def saver(number):
        def save(turn):
            paths.append(directory / f"{number}-{turn}")
            memory.save(paths[-1])

        return save

    run_threads([saver(0), saver(1), *functions], seconds, least_turns=2)
    loaded = []
    for path in paths[:4]:
        loaded.append(make())
        loaded[-1].load(path)
        loaded[-1].check()
        path.unlink()
    return loaded


@pytest.mark.parametrize("removal, length", [("old", 3), ("small", 1)])
def test_a_memory_serves_while_it_is_saved_as_it_was_at_one_moment(tmp_path, removal, length):
    def make():
        return make_memory("mixed", removal, specs=WIDE, capacity=6000, hard_capacity=6000)

    memory = make()
    added = 0

    def add(_):
        nonlocal added
        keys = np.arange(added, added + 60)
        items = keys[::length]
        lengths = np.full(len(items), length, np.int32)
        priorities = np.ones(len(items), np.float32)
        memory.insert(keys, rows(keys, 500), priorities, items, lengths)
        added += 60

    def learn(turn):
        sample = memory.sample(32, max_length=length)
        priorities = np.full(32, 1 + turn % 5, np.float32)
        memory.update_priorities(sample.keys, priorities)

    while added < 9000:
        add(0)
    for loaded in save_twice_at_once(memory, make, tmp_path, [add, learn]):
        statistics = loaded.statistics()
        assert statistics.items == statistics.inserted - statistics.removed
        end = statistics.inserted * length
        assert end % 60 == 0
        keys = np.arange(end)
        found = np.concatenate([loaded.read(part)[0] for part in np.array_split(keys, 20)])
        assert np.sum(found) == statistics.steps and not loaded.read([end])[0][0]
        if removal == "old":
            assert np.all(found[statistics.removed * length :])
        keys = keys[found]
        steps = loaded.read(keys)[1]
        for name, column in rows(keys, 500).items():
            np.testing.assert_array_equal(steps[name], column)
    memory.check()


def test_episodes_are_served_while_they_are_saved_as_they_were_at_one_moment(tmp_path):
    def make():
        return make_episodes("rank_based", "oldest", specs=WIDE, capacity=6000)

    memory = make()
    added = 0

    def add(turn):
        nonlocal added
        n = 20 + turn % 50
        states = rows(np.arange(added, added + n + 1), 500)
        memory.add(states, np.zeros(n, np.float32), np.zeros(n + 1, np.float32), True)
        memory.count_steps(n)
        added += n

    def learn(turn):
        sample = memory.sample(32)
        numbers = np.full([5, 32], turn % 5, np.float32)
        memory.refresh(sample.keys, *numbers, FAR)

    for turn in range(200):
        add(turn)
    for loaded in save_twice_at_once(memory, make, tmp_path, [add, learn]):
        statistics = loaded.statistics()
        begin, end = statistics.removed, statistics.removed + statistics.steps
        # An episode is added before its steps are counted.
        assert 0 <= end - statistics.inserted < 70
        assert np.all(loaded.contains(np.arange(begin, end)))
        assert not np.any(loaded.contains([begin - 1, end]))
        sample = loaded.sample(statistics.steps)
        for name, column in rows(sample.keys.numpy(), 500).items():
            np.testing.assert_array_equal(sample.steps.states[name], column)
    memory.check()
