"""Tests of common.program.flags."""

import dataclasses
import types

from absl import flags
import pytest

from common.config import Config, Settings, field
from common.program import flags as flags_lib
from common.program.flags import define_config


@dataclasses.dataclass
class Example(Config):
    """Hyperparameters of no paper."""

    n_step: int = field(5, minimum=1)
    """Length of the returns."""
    layer_norm: bool = field(True)
    """LayerNorm before the first tanh."""
    sizes: tuple[int, ...] = field((30, 20), above=0)
    """Hidden layers."""
    parts: tuple[float, ...] = field(())
    """Some numbers."""


SETTINGS = Settings(
    Example,
    {
        "d3pg_uniform_n1": {"n_step": 1},
        "d4pg_uniform_n1": {"n_step": 1, "layer_norm": False},
        "d4pg_prioritized_n5": {},
        "d4pg_prioritized_n1": {"n_step": 1},
    },
    default="d4pg_prioritized_n5",
)


@pytest.fixture
def parse(monkeypatch):
    """Returns flags and configuration of a command line."""

    def parse(*arguments):
        monkeypatch.setattr("sys.argv", ["program", *arguments])
        values = flags.FlagValues()
        flags.DEFINE_string("workdir", "", "A flag of the program.", flag_values=values)
        holder = define_config(SETTINGS, values)
        values(["program", *arguments])
        return values, holder.value

    return parse


@pytest.mark.parametrize(
    "arguments, setting, config",
    [
        ([], "d4pg_prioritized_n5", Example()),
        (["--setting=d3pg_uniform_n1"], "d3pg_uniform_n1", Example(n_step=1)),
        (["--workdir", "here", "--setting", "d3pg_uniform_n1"], "d3pg_uniform_n1", Example(1)),
        (["--config.n_step=3", "-setting=d3pg_uniform_n1"], "d3pg_uniform_n1", Example(3)),
        (
            ["--setting=d3pg_uniform_n1", "--setting=d4pg_uniform_n1"],
            "d4pg_uniform_n1",
            Example(1, layer_norm=False),
        ),
        (
            ["--noconfig.layer_norm", "--config.sizes=(8,)", "--config.parts=(0.4,1)"],
            "d4pg_prioritized_n5",
            Example(layer_norm=False, sizes=(8,), parts=(0.4, 1.0)),
        ),
    ],
)
def test_a_setting_with_what_the_flags_change(arguments, setting, config, parse):
    values, found = parse(*arguments)
    assert (values.setting, found) == (setting, config)


def test_flag_files_are_read(parse, tmp_path):
    (tmp_path / "one.flags").write_text("--setting=d4pg_uniform_n1\n--config.n_step=2\n")
    values, config = parse(f"--flagfile={tmp_path}/one.flags")
    assert values.setting == "d4pg_uniform_n1"
    assert config == Example(2, layer_norm=False)


def test_help_describes_each_hyperparameter_of_the_setting(monkeypatch):
    agent = types.SimpleNamespace(settings=SETTINGS, layouts=(), num_actors_flag="num_actors")
    monkeypatch.setattr("sys.argv", ["program", "--setting=d3pg_uniform_n1"])
    text = flags_lib.help_text(agent)
    assert "  --config.n_step: Length of the returns.\n    (default: '1')" in text


@pytest.mark.parametrize(
    "arguments, line",
    [
        (
            ["--setting=d3pg_unifrm_n1"],
            "unknown --setting=d3pg_unifrm_n1: did you mean d3pg_uniform_n1? ",
        ),
        # Its beginning counts, and among equals the default.
        (["--setting=d4gp"], "unknown --setting=d4gp: did you mean d4pg_prioritized_n5? "),
        (
            ["--setting=rainbow"],
            "unknown --setting=rainbow: the settings are d3pg_uniform_n1, d4pg_",
        ),
        (["--setting"], "Missing value for flag --setting"),
        (
            ["--noconfig.layer_nrm"],
            "unknown flag --config.layer_nrm: did you mean --config.layer_norm? ",
        ),
        (["--config.ln=1"], "unknown flag --config.ln: did you mean --config.layer_norm? "),
        (["--config.nonsense=1"], "unknown flag --config.nonsense: --help lists them all"),
        (["--flagfile=/none/d4pg.flags"], "error: --flagfile=/none/d4pg.flags: No such file"),
    ],
)
def test_an_unknown_name_ends_the_program_with_one_line(arguments, line, parse, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2 and error.count("\n") == 1
    assert error.startswith("error: ") and line in error
