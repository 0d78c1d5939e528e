"""Plays the policy that a run has learnt, without exploration noise.

    python -m binaries.evaluate --workdir=runs/quickstart
    python -m binaries.evaluate --workdir=runs/quickstart --episodes=1 --video=cartpole.gif
    python -m binaries.evaluate --workdir=runs/pendulum --episodes=1 --proposals=pendulum.png
    python -m binaries.evaluate --policy=d4pg_cartpole_swingup --video=swingup.gif
    python -m binaries.evaluate --workdir=runs/flow --environment=flow:cylinder_32
    python -m binaries.evaluate --policy=apex_pong --episodes=10 --record_starts=pong.json
    python -m binaries.evaluate --workdir=runs/pong --episodes=100 --starts=pong.json

Reads the newest checkpoint of the run directory, or the parameters of its best evaluation, and
changes nothing in it; the run may still be training. --policy plays a policy that comes with the
code. Prints the mean return and its standard deviation over the episodes.

Atari: an episode begins after 0 to 30 no-op frames and ends with the game or after 108,000 frames
(half an hour); lost lives do not end it and rewards are not clipped. With --episodes=200 these are
the Ape-X paper's "no-op starts" (the number of episodes and their limit are not in the paper). The
policy takes a random action with the probability that the run's evaluation_epsilon gives. For the
57 games of table 2 the human-normalised score is printed as well.

The papers' other regime, "human starts" (Nair et al. 2015), begins episodes in states from games of
human experts, and counts only the rewards after these. The states were never published. --starts
plays from the states of any file; --record_starts writes a stand-in, with states that this policy
reaches at random times.
"""

import argparse
import dataclasses
from importlib import util
import json
import os
import pathlib
from typing import Any

from common.agents.declaration import AgentDeclaration
from common.cluster import processes
from common.reporting import records
from common.reporting.command_line import (
    Parser,
    check_writable,
    exit_with,
    fail,
    native_output_only_on_failure,
    say,
)
from common.reporting.run_directory import CHECKPOINT_NAMES, RunDirectory
from reproductions import agent_of

POLICIES = pathlib.Path(__file__).parents[1] / "results" / "policies"
"""Trained policies. Each is a directory with those files of a run that its best policy needs."""
_SUFFIXES = {"video": (".gif", ".mp4"), "proposals": (".png", ".pdf")}
"""{flag: suffixes of the file that it names}; the suffix selects the format."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.evaluate", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--workdir", type=pathlib.Path, metavar="DIR", help="directory of the run")
    which.add_argument(
        "--policy",
        metavar="NAME",
        help=f"a trained policy in {POLICIES.relative_to(POLICIES.parents[1])}: "
        f"{', '.join(_policies())}",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="newest|best|step_N",
        help="the parameters to play: those of the newest checkpoint (default), of the best "
        "evaluation (default with --policy), or of a checkpoint of --keep_checkpoints_every",
    )
    parser.add_argument(
        "--environment",
        metavar="NAME",
        help="play in this environment instead; observations and actions must have the same sizes",
    )
    parser.add_argument(
        "--episodes", type=int, default=10, metavar="N", help="default 10; Reactor's paper uses 200"
    )
    starts = parser.add_mutually_exclusive_group()
    starts.add_argument(
        "--starts",
        type=pathlib.Path,
        metavar="FILE.json",
        help="start episodes from the states in this file, from each equally often",
    )
    starts.add_argument(
        "--record_starts",
        type=pathlib.Path,
        metavar="FILE.json",
        help="write a file of 100 states, from random times in the first five minutes of episodes",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the environments; the same seed gives the same result; default 0",
    )
    parser.add_argument(
        "--video",
        type=pathlib.Path,
        metavar="FILE.gif",
        help="film the first episode as FILE.gif or FILE.mp4, at most its first 1500 frames; "
        "without a screen, MuJoCo renders with EGL, or with the library that MUJOCO_GL names "
        "(egl, osmesa, glfw)",
    )
    parser.add_argument(
        "--proposals",
        type=pathlib.Path,
        metavar="FILE.png",
        help="for a policy that samples actions and takes the best: draw moments of the first "
        "episode to FILE.png or FILE.pdf, with a picture, the values of the samples and the "
        "probabilities of each sub-action, the chosen one in green",
    )
    parser.add_argument(
        "--moments",
        type=int,
        nargs="+",
        metavar="STEP",
        help="steps that --proposals draws; default four, evenly spaced",
    )
    parser.add_argument(
        "--export",
        type=pathlib.Path,
        metavar="DIR",
        help="write the policy to this directory for other programs: a TensorFlow SavedModel, "
        "spaces.json and, if the policy has only dense layers, policy.npz for docs/read_policy.py",
    )
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE.json",
        help="write the result and every return to this file",
    )
    parser.add_argument(
        "--trust_environment",
        action="store_true",
        help="import the environment's code even from inside the run directory",
    )
    arguments = parser.parse_args(argv)
    _check(arguments)
    return arguments


def _check(arguments: argparse.Namespace) -> None:
    """Ends the program on wrong arguments; fills in those that follow from --policy."""
    if arguments.policy is not None:
        if arguments.policy not in _policies():
            fail(f"there is no --policy={arguments.policy}: there are {', '.join(_policies())}")
        arguments.workdir = POLICIES / arguments.policy
    arguments.checkpoint = arguments.checkpoint or ("best" if arguments.policy else "newest")
    if not CHECKPOINT_NAMES.fullmatch(arguments.checkpoint):
        fail(f"--checkpoint must be newest, best or step_N, is {arguments.checkpoint}")
    if arguments.episodes < 1:
        fail(f"--episodes must be at least 1, is {arguments.episodes}")
    if not 0 <= arguments.seed < 2**31:
        fail(f"--seed must be in [0, 2^31), is {arguments.seed}")
    for flag, suffixes in _SUFFIXES.items():
        path = getattr(arguments, flag)
        if path is not None and path.suffix not in suffixes:
            fail(f"--{flag}={path} must end in {' or '.join(suffixes)}")
    is_mp4 = arguments.video is not None and arguments.video.suffix == ".mp4"
    if is_mp4 and util.find_spec("av") is None:
        fail(
            f"--video={arguments.video}: the package av is not installed: run `make video` or "
            "`.venv/bin/pip install av`, or name a .gif"
        )
    if arguments.moments is not None and (
        arguments.proposals is None or min(arguments.moments) < 0
    ):
        fail("--moments needs --proposals, and steps that are not negative")
    if (arguments.starts or arguments.record_starts) and (arguments.video or arguments.proposals):
        fail("--starts and --record_starts cannot film or draw: omit --video and --proposals")
    for flag in ("video", "json", "proposals", "export", "record_starts"):
        path = getattr(arguments, flag)
        if path is not None:
            if path.exists():
                fail(f"--{flag}={path} exists already: remove it, or give another name")
            check_writable(f"--{flag}", path)


def _policies() -> list[str]:
    """Returns the names of the trained policies that come with the code."""
    return sorted(path.parent.name for path in POLICIES.glob("*/config.json"))


def _trusted_agent(arguments: argparse.Namespace) -> AgentDeclaration:
    """Returns the agent of the run, and prints which user code will be imported to play."""
    from common.environments import user_code

    config = RunDirectory(arguments.workdir).read_config()
    for environment in filter(None, (str(config.get("environment")), arguments.environment)):
        if not arguments.trust_environment:
            user_code.require_trusted(environment, arguments.workdir)
        source = user_code.source_of(environment)
        if source is not None:
            say(f"importing {source} for {environment}")
    return agent_of(arguments.workdir)


def _evaluate(arguments: argparse.Namespace, agent: AgentDeclaration) -> None:
    """Plays, prints the result, and writes the files that the arguments name."""
    from absl import logging

    from common.acting.policy import ObservationRecorder, require_proposals
    from common.agents import exported, trained
    from common.cluster.layout import imported
    from common.environments import start_states
    from common.environments.spec import EnvironmentSpec
    from common.roles.evaluator import run_episodes

    logging.set_verbosity(logging.ERROR)  # simulators log messages when imported
    agent_class = imported(agent.agent_class)
    run = trained.load(
        arguments.workdir, agent_class, arguments.checkpoint, arguments.trust_environment
    )
    if arguments.environment:
        run = dataclasses.replace(run, environment=arguments.environment)
    starts = start_states.read(arguments.starts, run.environment) if arguments.starts else None
    batch, recorders = _make_batch(arguments, run, starts)
    if (spec := EnvironmentSpec.of(batch)) != run.spec:
        pairs = zip(spec._asdict().items(), run.spec)
        differ = [f"{name} {here}, not {there}" for (name, here), there in pairs if here != there]
        fail(f"{run.environment} is another kind of task than the run's: {', '.join(differ)}")
    policy = run.make_policy(batch.num_environments)
    observed = ObservationRecorder(policy)
    if arguments.proposals:
        try:
            require_proposals(policy)
        except ValueError as error:
            fail(f"--proposals: {run.agent.setting} on {run.environment}: {error}")
    if arguments.export:
        print(f"policy {arguments.export}: {', '.join(exported.write(arguments.export, run))}")

    episodes = f"{arguments.episodes} episode{'s' * (arguments.episodes > 1)}"
    begins = f" from {len(starts.starts)} starts: {starts.origin}" if starts else ""
    say(f"playing {episodes} of {run.environment}{begins}")
    acting = observed if arguments.proposals else policy
    returns = run_episodes(batch, acting, arguments.episodes, tell=say)
    print(
        f"return {returns.mean():.1f} +- {returns.std():.1f} (min {returns.min():.1f}, max "
        f"{returns.max():.1f}, {episodes}): {run.agent.setting} on "
        f"{run.environment} after {run.learner_steps:,} learner steps"
    )
    normalised = _human_normalised(run.environment, float(returns.mean()), bool(starts))
    if normalised is not None:
        print(f"human-normalised score {100 * normalised:.1f} %: random play is 0, a human's 100")

    if arguments.record_starts:
        _write_starts(arguments, run, recorders)
    if arguments.video:
        _write_film(arguments.video, recorders[0].film(), returns[0])
    if arguments.proposals:
        _draw_proposals(run, policy, observed.observations, recorders[0].film(), arguments)
    if arguments.json:
        result = {
            "paper": run.agent.declaration.paper,
            "setting": run.agent.setting,
            "environment": run.environment,
            "learner_steps": run.learner_steps,
            "seed": arguments.seed,
            "starts": starts.origin if starts else None,
            "episode_return_mean": float(returns.mean()),
            "episode_return_std": float(returns.std()),
            "human_normalised_score": normalised,
            "episodes": len(returns),
            "episode_returns": returns.tolist(),
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _make_batch(arguments: argparse.Namespace, run, starts) -> tuple[Any, list[Any]]:
    """Returns the environments as a batch, and those in it that record states or a film.

    Args:
      arguments: the program's arguments.
      run: the `TrainedRun` to play.
      starts: `StartStates` in which episodes begin; None: the environment's own.
    """
    from common import environments
    from common.environments import start_states
    from common.environments.batch import BatchedEnvironment
    from common.environments.film import FilmedEnvironment
    from common.roles.evaluator import environment_seeds

    name, frames = run.environment, run.agent.declaration.num_frames
    seeds = environment_seeds(arguments.seed, arguments.episodes)
    if starts:
        return start_states.make_batch(starts, len(seeds), arguments.seed, frames), []
    if arguments.record_starts:
        length = arguments.episodes
        made = [start_states.RecordedEnvironment(name, seed, length, frames) for seed in seeds]
        return BatchedEnvironment(made), made
    if arguments.video or arguments.proposals:
        filmed = FilmedEnvironment(name, seeds[0], True, frames)
        others = [environments.make(name, seed, True, frames) for seed in seeds[1:]]
        return BatchedEnvironment([filmed, *others]), [filmed]
    return environments.make_batch(name, seeds, evaluation=True, frames=frames), []


def _write_starts(arguments: argparse.Namespace, run, recorders) -> None:
    """Writes states of the played episodes as a file for --starts."""
    from common.environments import start_states

    who = arguments.policy or arguments.workdir.name
    origin = f"{run.agent.setting}, {who}, after {run.learner_steps:,} learner steps"
    content = start_states.recorded(recorders, run.environment, origin, arguments.seed)
    arguments.record_starts.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"starts {arguments.record_starts}: states of {origin}")


def _write_film(path: pathlib.Path, film, episode_return: float) -> None:
    """Writes the film of an episode in the format of the path's suffix."""
    from common.environments.film import MAX_FRAMES, WRITERS

    shown = "an episode"
    if len(film.frames) == MAX_FRAMES:
        shown = f"the first {MAX_FRAMES * film.frame_seconds:.0f} s of an episode"
    with records.whole_file(path) as file:
        WRITERS[path.suffix](file, film.frames, film.frame_seconds)
    print(
        f"video {path}: {len(film.frames)} frames, one every {film.frame_seconds * 1000:.0f} ms, "
        f"{path.stat().st_size / 1e6:.1f} MB, {shown} with a return of {episode_return:.1f}"
    )


def _draw_proposals(run, policy, observations, film, arguments: argparse.Namespace) -> None:
    """Draws moments of the filmed episode; a step without a frame has the nearest frame."""
    import numpy as np

    from common.evidence.drawing import Moment, moments

    # The policy is not called at the end of the last episode, so that frame has no observation.
    steps = np.array([step for step in film.steps if step < len(observations)])
    wanted = arguments.moments or [int(steps[-1] * eighth / 8) for eighth in (1, 3, 5, 7)]
    drawn = []
    for frame in sorted({int(np.argmin(np.abs(steps - step))) for step in wanted}):
        step = film.steps[frame]
        drawn.append(Moment(step, film.frames[frame], *policy.propose(observations[step])))
    caption = (
        f"{run.agent.setting} on {run.environment} after {run.learner_steps:,} learner steps, "
        f"seed {arguments.seed}. Q of {len(drawn[0].values)} proposed actions; probabilities of "
        "the values of each sub-action, given the chosen ones before it."
    )
    # As in AQL's figure 4: rewards of the Control Suite are in [0, 1].
    possible = None
    if run.environment.startswith("control:"):
        possible = (0.0, 1 / (1 - run.agent.config.discount))
    moments(drawn, possible).save("Proposals", caption, arguments.proposals)
    print(f"proposals {arguments.proposals}")


def _human_normalised(environment: str, mean: float, from_starts: bool) -> float | None:
    """Returns the human-normalised score of a mean return; None if a human's score is unknown."""
    from common.evidence.reported import Reported, human_normalised

    suite, _, game = environment.partition(":")
    references = Reported().atari_scores(from_starts)
    if suite != "atari" or game not in references.index:
        return None
    return float(human_normalised(mean, references.loc[game]))


def main(argv: list[str] | None = None) -> None:
    """Evaluates a policy, prints and writes the result; ends with one line on a user's mistake."""
    arguments = _arguments(argv)
    agent = _trusted_agent(arguments)  # before TensorFlow's import, which takes seconds
    say(f"loading the policy {arguments.policy or f'of {arguments.workdir}'}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # small networks need no GPU
    with native_output_only_on_failure():
        processes.limit_threads(1)  # imports TensorFlow
        from common.environments import watch

    watch.limit_seconds = watch.DEFAULT_SECONDS
    _evaluate(arguments, agent)


if __name__ == "__main__":
    exit_with(main)
