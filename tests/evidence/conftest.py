"""What tests of planned and of kept runs share."""

import pytest


@pytest.fixture
def roots(tmp_path):
    """The roots of the run directories and of the tables."""
    return [tmp_path / "runs", tmp_path / "kept"]
