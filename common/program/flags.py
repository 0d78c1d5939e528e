"""Command-line flags of an agent's program: common flags and the agent's hyperparameters.

`--setting` and `--config.NAME` are generated from the agent's `Settings`, as is the table of
hyperparameters in its README. An invalid flag ends the program with a one-line error. This module
imports neither TensorFlow nor NumPy, which keeps the launcher light.
"""

from collections.abc import Collection, Iterable
import dataclasses
import difflib
import json
import math
import os
import pathlib
import re
import sys
from typing import Any

from absl import flags
from ml_collections import config_flags

from common.agents.declaration import AgentDeclaration
from common.config import Config, Settings, allowed_values, help_of, near_names
from common.reporting.budget import EPISODE_STEPS
from common.reporting.command_line import as_it_runs, fail
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

ENVIRONMENT = flags.DEFINE_string(
    "environment",
    None,
    'The environment to learn in, "suite:domain:task", for example control:cartpole:swingup; '
    "binaries.environments lists the names. Your own environment is python:MODULE:NAME, where NAME "
    "is a class of Gymnasium or a function that returns a gymnasium.Env or a dm_env.Environment.",
)
ENV_KWARGS = flags.DEFINE_string(
    "env_kwargs",
    "",
    "Arguments of a gym: or python: environment, as in --env_kwargs=gravity=-5,wind=true or as a "
    "JSON object. They become part of the environment's name. For gym:, the argument `wrappers` is "
    "a list of Gymnasium's wrappers.",
)
WORKDIR = flags.DEFINE_string(
    "workdir",
    None,
    "Directory of the run, for configuration, CSV files, checkpoints, TensorBoard events and logs. "
    "If it holds a run of the same configuration, that run is continued.",
)
ROLE = flags.DEFINE_string(
    "role",
    "local",
    "local starts all roles as processes on this machine. A single role, such as learner, takes "
    "the addresses from TF_CONFIG and the cluster token from REPLAY_RL_TOKEN or "
    "REPLAY_RL_TOKEN_FILE. slurm, under srun, runs the role of this task of the Slurm step. ray "
    "starts all roles on the Ray cluster at --ray_address.",
)
RAY_ADDRESS = flags.DEFINE_string(
    "ray_address",
    None,
    "With --role=ray, host:port of the head of a running Ray cluster, as `ray start --head` prints "
    "it.",
)
SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of networks, exploration, environments and replay.",
    lower_bound=0,
    upper_bound=2**31 - 1,
)
MAX_MINUTES = flags.DEFINE_float(
    "max_minutes",
    None,
    "Ends the run after this many minutes of wall-clock time, over all of its starts.",
    lower_bound=0,
)
MAX_ACTOR_STEPS = flags.DEFINE_integer(
    "max_actor_steps",
    None,
    "Ends the run after this many steps of all actors together.",
    lower_bound=1,
)
MAX_LEARNER_STEPS = flags.DEFINE_integer(
    "max_learner_steps", None, "Ends the run after this many learner updates.", lower_bound=1
)
STOP_AT_RETURN = flags.DEFINE_float(
    "stop_at_return", None, "Ends the run at the first evaluation with at least this mean return."
)
INIT_FROM = flags.DEFINE_string(
    "init_from",
    None,
    "A new run starts with the networks of this run directory or kept checkpoint "
    "(RUN/checkpoints/step_N) instead of random networks. The networks must have equal sizes.",
)
KEEP_CHECKPOINTS_EVERY = flags.DEFINE_integer(
    "keep_checkpoints_every",
    None,
    "Learner steps between checkpoints that are kept for good, as checkpoints/step_N. N is the "
    "step at the end of a call, which may make several updates.",
    lower_bound=1,
)
FILM_EVERY = flags.DEFINE_integer(
    "film_every",
    None,
    "Films an episode every this many evaluations, for TensorBoard and as films/step_N.gif.",
    lower_bound=1,
)
EVALUATION_EPISODES = flags.DEFINE_integer(
    "evaluation_episodes",
    10,
    "Episodes of each evaluation, played without noise. Not in the paper.",
    lower_bound=1,
)
FINAL_EPISODES = flags.DEFINE_integer(
    "final_episodes",
    None,
    "Episodes of the last evaluation; default: --evaluation_episodes. Not in the paper.",
    lower_bound=1,
)
STARTS = flags.DEFINE_string(
    "starts",
    None,
    "File of start states, such as Atari's human starts. The last evaluation then also plays "
    "--final_episodes episodes from these. docs/environments.md describes the file.",
)
EVALUATION_SECONDS = flags.DEFINE_float(
    "evaluation_seconds",
    60.0,
    "Seconds from one evaluation to the next. Not in the paper.",
    lower_bound=0,
)
MAX_EPISODE_STEPS = flags.DEFINE_integer(
    "max_episode_steps",
    EPISODE_STEPS,
    "Longest episode of an evaluation in steps. A longer episode is cut, and its return is the sum "
    "of the rewards so far. Episodes of the papers' tasks are shorter: Atari's have at most 27,000 "
    "steps.",
    lower_bound=1,
)
CHECKPOINT_SECONDS = flags.DEFINE_float(
    "checkpoint_seconds",
    60.0,
    "Seconds from one checkpoint to the next: the most that a learner loses when it dies.",
    lower_bound=0,
)
CHECKPOINT_REPLAY = flags.DEFINE_boolean(
    "checkpoint_replay",
    None,
    "Saves the replay's contents with the checkpoints, so that they survive a stop, and removes "
    "them when the run is over. Default: on if the disk has room for twice the contents, or if an "
    "earlier start has saved them. Not in the paper, where a lost replay is filled again (Ape-X, "
    "appendix F).",
)
KEEP_REPLAY = flags.DEFINE_boolean(
    "keep_replay",
    False,
    "Keeps a saved replay when the run is over, so that the same command with higher limits "
    "continues with it.",
)
PATIENCE_MINUTES = flags.DEFINE_float(
    "patience_minutes",
    30.0,
    "How long a role waits for another role that does not answer before it ends, so that no "
    "process outlives its run unnoticed.",
    lower_bound=0,
)
ENVIRONMENT_SECONDS = flags.DEFINE_float(
    "environment_seconds",
    60.0,
    "Seconds that a call of one environment (a reset, a step or close()) may take. If a call takes "
    "longer, its process reports it, ends and is restarted. Creating an environment may take ten "
    "times as long.",
    lower_bound=0,
)
SCALE = flags.DEFINE_string(
    "scale",
    None,
    "Size of the run relative to the paper's, for run.json; binaries.experiment sets it to its "
    "scale. Default: the number of actors.",
)
SCALE_CHANGES = flags.DEFINE_string(
    "scale_changes", "", "Differences between this run and the paper's, in words, for run.json."
)
IGNORE_RESOURCES = flags.DEFINE_boolean(
    "ignore_resources",
    False,
    "Starts even if the full replay would exceed this machine's available memory or disk.",
)

_REQUIRED = (ENVIRONMENT.name, WORKDIR.name)
_RECORDED_ELSEWHERE = (
    *(ENVIRONMENT.name, ENV_KWARGS.name, WORKDIR.name, ROLE.name, RAY_ADDRESS.name, SEED.name),
    *(SCALE.name, SCALE_CHANGES.name, STOP_AT_RETURN.name),
    *(MAX_MINUTES.name, MAX_ACTOR_STEPS.name, MAX_LEARNER_STEPS.name),
)


class UsageError(UserError):
    """An invalid flag or environment; the message is one line that names it."""


def check() -> None:
    """Raises UsageError if a flag that the run needs is missing or has an invalid value."""
    for name in (*_REQUIRED, RAY_ADDRESS.name) if ROLE.value == "ray" else _REQUIRED:
        if not flags.FLAGS[name].value:
            raise UsageError(f"--{name} is missing: {flags.FLAGS[name].help}")
    if ROLE.value != "ray" and RAY_ADDRESS.value:
        raise UsageError(
            f"--{RAY_ADDRESS.name} has no meaning with --role={ROLE.value}: leave it out, or add "
            "--role=ray"
        )
    for flag in flags.FLAGS.get_flags_for_module(__name__):
        if isinstance(flag.value, float) and not math.isfinite(flag.value):
            raise UsageError(f"--{flag.name} must be a finite number, is {flag.value}")
    for holder, file in ((WORKDIR, "config.json"), (INIT_FROM, "checkpoint")):
        try:
            os.stat(os.path.join(holder.value or "", file))
        except (FileNotFoundError, NotADirectoryError):
            pass  # a new run, or later code reports the error in more detail
        except OSError as error:
            shown = f"--{holder.name}={holder.value}"[: _MOST_VALUE * 2]
            raise UsageError(f"{shown}: {error.strerror}: give another directory") from None
    source = pathlib.Path(INIT_FROM.value or "")
    if INIT_FROM.value and not any(
        (folder / "checkpoint").exists() for folder in (source, source / "checkpoints")
    ):
        run = RunDirectory(source.parent.parent if source.name.startswith("step_") else source)
        raise UsageError(
            f"--{INIT_FROM.name}={source} has no checkpoint: name a run directory, or a kept "
            f"checkpoint, RUN/checkpoints/step_N (in {run.path} {run.kept_in_words})"
        )


def changed() -> dict[str, Any]:
    """Returns the values of the flags that the user set, by name, unless recorded elsewhere."""
    elsewhere = {*_RECORDED_ELSEWHERE, "setting", "config"}
    ours = (name for name in flags.FLAGS if name not in elsewhere and _is_ours(name))
    return {name: flags.FLAGS[name].value for name in ours if flags.FLAGS[name].present}


def variable(agent: AgentDeclaration) -> dict[str, flags.Flag]:
    """Returns the flags in which runs of an agent can differ, by name.

    Hyperparameters, the number of actors, and flags that name, limit or place a run are excluded.
    """
    ours = [flag.name for flag in flags.FLAGS.get_flags_for_module(__name__)]
    names = [name for name in ours if name not in _RECORDED_ELSEWHERE]
    names += [name for layout in agent.layouts for name in layout.flags]
    return {name: flags.FLAGS[name] for name in names}


def help_text(agent: AgentDeclaration) -> str:
    """Returns the text of --help: what the program does, and its flags in groups.

    Hyperparameters are shown with the defaults of the setting chosen on the command line.
    """
    ours = {flag.name: flag for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0])}
    layouts = {name for layout in agent.layouts for name in layout.flags}
    groups = {title: flags.FlagValues() for title in (*_GROUPS, "hyperparameters")}
    config = vars(_chosen_configuration(agent.settings))
    for name, text in help_of(agent.settings.config_class).items():
        flags.DEFINE_string(
            f"{_CONFIG}{name}", str(config[name]), text, flag_values=groups["hyperparameters"]
        )
    for name, flag in ours.items():
        if name in (agent.num_actors_flag, "setting"):
            title = "hyperparameters"
        elif name in layouts:
            title = "evaluation" if name.startswith("evaluation") else "cluster"
        else:
            found = (title for title, words in _GROUPS.items() if name.startswith(words))
            title = next(found, "run")
        if name != "config":
            groups[title][name] = flag
    needed = " and ".join(f"--{name}" for name in _REQUIRED)
    parts = [sys.modules["__main__"].__doc__ or "", f"A run needs {needed}."]
    for title, group in groups.items():
        for name in group:
            group.register_key_flag_for_module(title, group[name])
        parts.append(group.module_help(title))
    parts.append("Try --helpfull to get a list of all flags.")
    return as_it_runs("\n\n".join(map(str.strip, parts)))


_GROUPS: dict[str, tuple[str, ...]] = {
    "run": (),
    "environment": ("env",),
    "evaluation": ("evaluation", "final", "starts", "film", "max_episode", "stop_at"),
    "cluster": ("role", "ray", "patience"),
}
"""Groups of flags in --help, with prefixes of their flags' names. "run" has all other flags."""


def _is_ours(name: str) -> bool:
    """Returns whether this program defines a flag, and not absl."""
    return not (flags.FLAGS.find_module_defining_flag(name) or "").startswith("absl.")


_HEAD = "| `--config.` | Default | Allowed | Meaning and source |\n|---|---|---|---|\n"


def table(agent: AgentDeclaration) -> str:
    """Returns a Markdown table of the hyperparameters: name, default, range, meaning and source."""
    settings = agent.settings
    texts = help_of(settings.config_class)
    rows = [
        (each.name, each.default, allowed_values(each), texts[each.name])
        for each in dataclasses.fields(settings.config_class)
    ]
    actors = agent.num_actors(settings.configuration(settings.default), settings.default)
    rows.append((f"--{agent.num_actors_flag}", actors, "at least 1", agent.num_actors_help))
    lines = []
    for name, default, allowed, text in rows:
        text = text.replace("|", r"\|")
        lines.append(f"| `{name}` | `{_literal(default)}` | {allowed} | {text} |\n")
    return _HEAD + "".join(lines)


def _literal(value: object) -> str:
    """Returns a value as a reader would write it: 50_000, 1e-6, "adam"."""
    if isinstance(value, str):
        return json.dumps(value)
    if type(value) is int and value >= 10_000:
        return f"{value:_}"
    return re.sub(r"e-0", "e-", repr(value))


_EXPLAINED = (
    (r"invalid literal for int\(\).*|Exceeds the limit .*", "it must be a whole number"),
    (r"could not convert string to float.*", "it must be a number"),
    (r"\('Non-boolean argument .*", "it must be true or false"),
)
"""Pairs (pattern of Python's message about a value, clearer message)."""
_CONFIG = "config."
_MOST_VALUE = 60
"""Characters of a value that an error message shows at most."""


def error_in_words(error: flags.Error, known: Collection[str] = ()) -> str:
    """Returns a one-line message that names an invalid flag and says what is wrong with it.

    Args:
      error: the error raised when the flags were parsed.
      known: names of the program's flags, for a suggestion.
    """
    if isinstance(error, flags.CantOpenFlagFileError) and isinstance(error.__context__, OSError):
        return f"--flagfile={error.__context__.filename}: {error.__context__.strerror}"
    if isinstance(error, flags.UnrecognizedFlagError):
        name, prefix = error.flagname.removeprefix(_CONFIG), len(_CONFIG)
        hyperparameters = [flag[prefix:] for flag in known if flag.startswith(_CONFIG)]
        flags_alone = [flag for flag in known if not flag.startswith(_CONFIG)]
        near = near_names(error.flagname, flags_alone)
        near += [_CONFIG + near_name for near_name in near_names(name, hyperparameters)]
        hint = f"did you mean --{near[0]}? " if near else ""
        return f"unknown flag --{error.flagname}: {hint}--help lists them all"
    text = str(error).removeprefix("flag ")
    if value := re.fullmatch(r"(--[^=]+=)(.*?): (.*)", text, re.DOTALL):
        flag, given, reason = value.groups()
        for pattern, words in _EXPLAINED:
            reason = words if re.fullmatch(pattern, reason, re.DOTALL) else reason
        given = given if len(given) <= _MOST_VALUE else f"{given[:_MOST_VALUE]}..."
        text = f"{flag}{given}: {reason}"
    return f"{text} (--help explains each flag)"


flags.disclaim_key_flags()  # flags defined below count as the caller's, whose --help lists them


def define_config(
    settings: Settings, flag_values: flags.FlagValues = flags.FLAGS
) -> flags.FlagHolder:
    """Defines `--setting`, and `--config.NAME` for each hyperparameter.

    Ends the program with one line if the command line names an unknown setting or hyperparameter.

    Args:
      settings: the paper's settings; `--config.NAME` changes values of the chosen setting.
      flag_values: the flags to add to.

    Returns:
      The flag holder of the configuration.
    """
    config, others = _chosen_configuration(settings), _read_setting(settings.default)[1]
    flags.DEFINE_enum(
        "setting",
        settings.default,
        list(settings.names),
        "A variant from the paper; --config.NAME changes single values of it.",
        flag_values=flag_values,
    )
    _refuse_unknown_fields(others, vars(config))
    return config_flags.DEFINE_config_dataclass("config", config, "Hyperparameters.", flag_values)


def _chosen_configuration(settings: Settings) -> Config:
    """Returns the hyperparameters of --setting; ends the program if there is no such setting."""
    setting, _ = _read_setting(settings.default)
    if setting not in settings.names:
        near = _near_setting(setting, settings)
        hint = f"did you mean {near}? " if near else ""
        fail(f"unknown --setting={setting}: {hint}the settings are {', '.join(settings.names)}")
    return settings.configuration(setting)


def _read_setting(default: str) -> tuple[str, list[str]]:
    """Returns the value of --setting and the other arguments, including arguments in flag files.

    The setting determines the defaults of --config, so it is read before the flags are defined.
    """
    early = flags.FlagValues()
    early.set_gnu_getopt()
    setting = flags.DEFINE_string("setting", default, "", flag_values=early)
    try:
        others = early(sys.argv, known_only=True)
    except flags.Error as error:
        fail(error_in_words(error))
    except UnicodeDecodeError as error:
        fail(f"a --flagfile is not a text file ({error})")
    if any("\0" in line for line in others):
        fail("a --flagfile is not a text file: it contains the character NUL")
    return setting.value, others


def _near_setting(name: str, settings: Settings) -> str:
    """Returns the setting most similar to `name`, as a whole or at its beginning; "" if none is.

    The default setting wins ties.
    """

    def likeness(other: str) -> float:
        beginning = other[: len(name)]
        return max(
            difflib.SequenceMatcher(None, name, candidate).ratio()
            for candidate in (other, beginning)
        )

    nearest = max((settings.default, *settings.names), key=likeness)
    return nearest if likeness(nearest) >= 0.6 else ""


def _refuse_unknown_fields(arguments: Iterable[str], names: Collection[str]) -> None:
    """Ends the program if a `--config.NAME` is unknown; ml_collections would raise a KeyError."""
    for argument in arguments:
        match = re.match(r"--?(?:no)?config\.([^=]*)", argument)
        if match and match[1] not in names:
            unknown = flags.UnrecognizedFlagError(f"{_CONFIG}{match[1]}")
            fail(error_in_words(unknown, [f"{_CONFIG}{name}" for name in names]))
