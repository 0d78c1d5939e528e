import os

import pytest

from common.cluster import credentials
from common.cluster.errors import ClusterError


def test_new_tokens_are_long_and_differ():
    first, second = credentials.new_token(), credentials.new_token()
    assert first != second
    assert len(first) >= 40


def test_reads_the_variable_without_surrounding_space():
    secret = credentials.new_token()
    assert credentials.load_token({"REPLAY_RL_TOKEN": f" {secret}\n"}) == secret


def test_reads_the_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o600)
    assert credentials.load_token({"REPLAY_RL_TOKEN_FILE": str(path)}) == "0123456789abcdef"


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644])
def test_refuses_a_file_open_to_all(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text("0123456789abcdef")
    path.chmod(mode)
    with pytest.raises(ClusterError, match="chmod 600"):
        credentials.load_token({"REPLAY_RL_TOKEN_FILE": str(path)})


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"REPLAY_RL_TOKEN": ""},
        {"REPLAY_RL_TOKEN": "short"},
        {"REPLAY_RL_TOKEN_FILE": os.path.join(os.sep, "no", "such", "file")},
    ],
)
def test_errors_are_one_line_and_name_the_variable(environment):
    with pytest.raises(ClusterError, match="REPLAY_RL_TOKEN") as caught:
        credentials.load_token(environment)
    assert "\n" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_load_or_create_prefers_what_is_set():
    assert (
        credentials.load_or_create_token({"REPLAY_RL_TOKEN": "0123456789abcdef"})
        == "0123456789abcdef"
    )
    assert credentials.load_or_create_token({}) != credentials.load_or_create_token({})
    with pytest.raises(ClusterError):
        credentials.load_or_create_token({"REPLAY_RL_TOKEN": "short"})
