"""Tests of common.reporting.records."""

import errno
import os

import pytest
import tensorflow as tf

from common.reporting.records import disk_full


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "learner.csv"),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        OSError(errno.ENOSPC, "cannot append a row"),
        tf.errors.ResourceExhaustedError(None, None, "ckpt-3; No space left on device\nat a line"),
        tf.errors.UnknownError(None, None, "ckpt-3; Disk quota exceeded"),
    ],
    ids=str,
)
def test_a_full_disk_is_one_line(error):
    line = disk_full(error)
    assert line.startswith("disk full: ") and "\n" not in line
    assert line.removeprefix("disk full: ") in str(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, os.strerror(errno.EACCES), "learner.csv"),
        OSError(errno.EROFS, os.strerror(errno.EROFS)),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        ValueError("28"),
        OSError(),
    ],
    ids=str,
)
def test_other_errors_are_none(error):
    assert disk_full(error) == ""
