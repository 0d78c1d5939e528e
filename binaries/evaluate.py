"""Plays the policy that a run has learnt, without exploration noise.

    python -m binaries.evaluate --workdir=runs/quickstart
    python -m binaries.evaluate --workdir=runs/quickstart --episodes=1 --video=cartpole.gif

Reads the newest checkpoint of the run directory and changes nothing in it; the run may still be
going on. Prints the mean return and its standard deviation over the episodes.
"""

import argparse
import importlib
import json
import os
import pathlib
import pkgutil

from common.cluster import processes
from common.reporting.command_line import (
    Parser, check_writable, fail, native_output_only_on_failure
)
from common.reporting.run_directory import RunDirectory, RunDirectoryError
import reproductions

_MAX_ENVIRONMENTS = 10
"""That step as one batch: more gain nothing."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.evaluate", description=__doc__)
    parser.add_argument("--workdir", type=pathlib.Path, required=True, metavar="DIR",
                        help="directory of the run")
    parser.add_argument("--episodes", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="of the environments; the same seed gives the same result; default 0")
    parser.add_argument("--video", type=pathlib.Path, metavar="FILE.gif",
                        help="write the first episode there; drawn without a screen by EGL, or by "
                             "what MUJOCO_GL names (egl, osmesa, glfw)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write the result and every return there")
    arguments = parser.parse_args(argv)
    if arguments.episodes < 1:
        fail(f"--episodes must be at least 1, is {arguments.episodes}")
    if not 0 <= arguments.seed < 2**31:
        fail(f"--seed must be in [0, 2^31), is {arguments.seed}")
    if arguments.video is not None and arguments.video.suffix.lower() != ".gif":
        fail(f"--video={arguments.video} must end in .gif, the only kind that is written")
    for flag in ("video", "json"):
        path = getattr(arguments, flag)
        if path is not None:
            check_writable(f"--{flag}", path)
            if path.exists():
                fail(f"--{flag}={path} exists already: remove it, or name another file")
    return arguments


def _paper(workdir: pathlib.Path) -> str:
    """The paper whose agent made the run: its directory in reproductions/."""
    paper = RunDirectory(workdir).read_config().get("paper")
    papers = sorted(module.name for module in pkgutil.iter_modules(reproductions.__path__))
    if paper not in papers:
        raise RunDirectoryError(
            f'{workdir} holds a run of the paper "{paper}", which is not here: there are '
            f'{", ".join(papers)}'
        )
    return paper


def _evaluate(arguments: argparse.Namespace, paper: str) -> None:
    from absl import logging

    from common import environments
    from common.acting.evaluate import environment_seeds, run_episodes
    from common.environments.batch import BatchedEnvironment
    from common.environments.film import FilmedEnvironment
    from common.learning import trained
    from common.reporting import video

    logging.set_verbosity(logging.ERROR)  # simulators announce themselves at their import
    agent_module = importlib.import_module(f"reproductions.{paper}.agent")
    run = trained.load(arguments.workdir, agent_module.from_config)
    seeds = environment_seeds(arguments.seed, min(arguments.episodes, _MAX_ENVIRONMENTS))
    makers = [environments.make] * len(seeds)
    if arguments.video:
        makers[0] = FilmedEnvironment
    batch = [make(run.environment, seed) for make, seed in zip(makers, seeds)]
    policy = run.make_policy(len(batch))
    returns = run_episodes(
        BatchedEnvironment(batch), policy, arguments.episodes, policy.initial_state(len(batch))
    )
    print(
        f"return {returns.mean():.1f} +- {returns.std():.1f} (min {returns.min():.1f}, max "
        f"{returns.max():.1f}, {len(returns)} episodes): {run.agent.setting} on "
        f"{run.environment} after {run.learner_steps:,} learner steps"
    )
    if arguments.video:
        film = batch[0].film()
        video.write_gif(arguments.video, film.frames, film.frame_seconds)
        print(
            f"video {arguments.video}: {len(film.frames)} frames, one every "
            f"{film.frame_seconds * 1000:.0f} ms, {arguments.video.stat().st_size / 1e6:.1f} MB, "
            f"an episode of return {returns[0]:.1f}"
        )
    if arguments.json:
        result = {
            "paper": run.agent.name,
            "setting": run.agent.setting,
            "environment": run.environment,
            "learner_steps": run.learner_steps,
            "seed": arguments.seed,
            "episode_return_mean": float(returns.mean()),
            "episode_return_std": float(returns.std()),
            "episodes": len(returns),
            "episode_returns": returns.tolist(),
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def main(argv: list[str] | None = None) -> None:
    """Evaluates, prints and writes; ends with one line on a user's mistake."""
    arguments = _arguments(argv)
    try:
        paper = _paper(arguments.workdir)  # before the seconds that TensorFlow takes
    except RunDirectoryError as error:
        fail(str(error))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # small networks need no GPU
    with native_output_only_on_failure():
        processes.limit_threads(1)
        from common.environments import UnusableEnvironmentError
        from common.learning.checkpoint import CheckpointError
        from common.replay.library import ReplayLibraryError

    try:
        _evaluate(arguments, paper)
    except (RunDirectoryError, CheckpointError, UnusableEnvironmentError, ReplayLibraryError) as e:
        fail(str(e))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted")
