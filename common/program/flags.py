"""The flags that all agents' programs have. This module imports neither TensorFlow nor NumPy."""

import math
import sys
from typing import Any

from absl import flags

from common.reporting.budget import Budget
from common.reporting.command_line import as_it_runs
from common.reporting.user_error import UserError

ENVIRONMENT = flags.DEFINE_string(
    "environment",
    None,
    'What to learn, "suite:domain:task", for example control:cartpole:swingup. One of your own: '
    "python:MODULE:FUNCTION, whose FUNCTION(seed) gives a dm_env.Environment.",
)
WORKDIR = flags.DEFINE_string(
    "workdir",
    None,
    "Directory of the run: configuration, CSV files, checkpoints, TensorBoard, logs. One that "
    "holds a run of the same configuration is continued.",
)
ROLE = flags.DEFINE_string(
    "role",
    "local",
    "local starts all roles as processes of this machine. A single role, such as learner, takes "
    "the addresses from TF_CONFIG and the cluster token from REPLAY_RL_TOKEN or "
    "REPLAY_RL_TOKEN_FILE. slurm, with srun, becomes the role of this task of a Slurm step. ray "
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
    "Ends the run after so much wall-clock time, over all of its starts.",
    lower_bound=0,
)
MAX_ACTOR_STEPS = flags.DEFINE_integer(
    "max_actor_steps",
    None,
    "Ends the run after so many steps of all actors together.",
    lower_bound=1,
)
MAX_LEARNER_STEPS = flags.DEFINE_integer(
    "max_learner_steps", None, "Ends the run after so many learner updates.", lower_bound=1
)
EVALUATION_EPISODES = flags.DEFINE_integer(
    "evaluation_episodes",
    10,
    "Episodes of an evaluation, without noise. Not in the paper.",
    lower_bound=1,
)
FINAL_EPISODES = flags.DEFINE_integer(
    "final_episodes",
    None,
    "Episodes of the last evaluation; default: --evaluation_episodes. Not in the paper.",
    lower_bound=1,
)
EVALUATION_SECONDS = flags.DEFINE_float(
    "evaluation_seconds",
    60.0,
    "Time from one evaluation to the next. Not in the paper.",
    lower_bound=0,
)
CHECKPOINT_SECONDS = flags.DEFINE_float(
    "checkpoint_seconds",
    60.0,
    "Time from one checkpoint to the next: the most that a learner loses when it dies.",
    lower_bound=0,
)
CHECKPOINT_REPLAY = flags.DEFINE_boolean(
    "checkpoint_replay",
    None,
    "Whether the replay survives a stop: its contents are saved beside the checkpoints, and "
    "removed when the run is over. Default: where the disk has room for them twice. Not in the "
    "paper, where a replay that was lost is filled again (Ape-X, appendix F).",
)
PATIENCE_MINUTES = flags.DEFINE_float(
    "patience_minutes",
    30.0,
    "How long a role waits for a partner that does not answer before it ends, so that no process "
    "outlives its run unnoticed.",
    lower_bound=0,
)
SCALE = flags.DEFINE_string(
    "scale",
    None,
    "Size of the run relative to the paper's, for run.json; binaries.experiment names its scale "
    "here. Default: the number of actors.",
)
SCALE_CHANGES = flags.DEFINE_string(
    "scale_changes", "", "Differences of that size from the paper's run, in words, for run.json."
)
IGNORE_RESOURCES = flags.DEFINE_boolean(
    "ignore_resources",
    False,
    "Starts also where the full replay would exceed the memory that this machine has left.",
)

_REQUIRED = (ENVIRONMENT.name, WORKDIR.name)
_HYPERPARAMETERS = ("setting", "config")
_RECORDED_ELSEWHERE = (
    ENVIRONMENT,
    WORKDIR,
    ROLE,
    RAY_ADDRESS,
    SEED,
    MAX_MINUTES,
    MAX_ACTOR_STEPS,
    MAX_LEARNER_STEPS,
    SCALE,
    SCALE_CHANGES,
)


class UsageError(UserError):
    """A flag or an environment that cannot be; the message is one line that names it."""


def check() -> None:
    """Raises UsageError if a flag that the run needs is missing, or is no finite number."""
    for name in (*_REQUIRED, RAY_ADDRESS.name) if ROLE.value == "ray" else _REQUIRED:
        if not flags.FLAGS[name].value:
            raise UsageError(f"--{name} is missing: {flags.FLAGS[name].help}")
    if ROLE.value == "local" and RAY_ADDRESS.value:
        raise UsageError(f"--{RAY_ADDRESS.name} has no meaning with --role=local: add --role=ray")
    for number in (MAX_MINUTES, PATIENCE_MINUTES, EVALUATION_SECONDS, CHECKPOINT_SECONDS):
        if number.value is not None and not math.isfinite(number.value):
            raise UsageError(f"--{number.name} must be a finite number, is {number.value}")


def limits() -> Budget:
    """Returns the limits of the run."""
    return Budget(MAX_MINUTES.value, MAX_ACTOR_STEPS.value, MAX_LEARNER_STEPS.value)


def changed() -> dict[str, Any]:
    """Returns the flags that were given a value, by name, but for those recorded elsewhere."""
    elsewhere = {holder.name for holder in _RECORDED_ELSEWHERE} | {*_HYPERPARAMETERS}
    ours = (name for name in flags.FLAGS if name not in elsewhere and _is_ours(name))
    return {name: flags.FLAGS[name].value for name in ours if flags.FLAGS[name].present}


def help_text() -> str:
    """Returns what the program does and its flags: those that every run needs come first."""
    ours = {flag.name: flag for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0])}
    optional = ours.keys() - {*_REQUIRED, *_HYPERPARAMETERS}
    groups = {"required": _REQUIRED, "optional": optional, "hyperparameters": _HYPERPARAMETERS}
    parts = [sys.modules["__main__"].__doc__ or ""]
    for title, names in groups.items():
        group = flags.FlagValues()
        for name in names:
            group[name] = ours[name]
            group.register_key_flag_for_module(title, ours[name])
        parts.append(group.module_help(title))
    parts.append("Try --helpfull to get a list of all flags.")
    return as_it_runs("\n\n".join(map(str.strip, parts)))


def _is_ours(name: str) -> bool:
    """Returns whether a flag is this program's, not one that absl gives to all programs."""
    return not (flags.FLAGS.find_module_defining_flag(name) or "").startswith("absl.")
