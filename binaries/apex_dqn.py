"""Ape-X DQN (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dqn --environment=atari:pong --workdir=runs/pong
python -m binaries.apex_dqn --setting=dqn_two_cores --environment=atari:pong ...
"""

from absl import flags

from common.program import main as program
from common.program.setting_flags import define_config
from common.replay import footprint
from common.reporting.command_line import fail
from reproductions.apex.dqn import config as config_lib
from reproductions.apex.dqn import settings

_NUM_ACTORS = flags.DEFINE_integer(
    "num_actors",
    None,
    f"N, actors: {config_lib.NUM_ACTORS} (section 4.1), the default, but with the settings for two "
    f"cores {settings.num_actors('dqn_two_cores')}; figures 4 to 6, 13 and 14 vary it.",
)
_CONFIG = define_config(list(settings.SETTINGS), settings.DEFAULT, settings.configuration)
flags.adopt_module_key_flags(program)


def _make_agent(config: config_lib.DQNConfig):
    from reproductions.apex.dqn.agent import ApexDQN

    return ApexDQN(config)


def _require(spec) -> None:
    from common.environments.requirements import require_images

    require_images(spec)


def main(argv: list[str]) -> None:
    """Runs the role that the flags name."""
    if len(argv) > 1:
        fail(f'unknown argument "{argv[1]}": flags start with --')
    num_actors = _NUM_ACTORS.value
    if num_actors is None:
        num_actors = settings.num_actors(flags.FLAGS.setting)
    program.run(
        program.Paper(
            name="apex",
            agent="apex_dqn",
            module="binaries.apex_dqn",
            config=_CONFIG.value,
            num_actors=num_actors,
            make_agent=_make_agent,
            bytes_per_step=footprint.image_bytes_per_step,
            require=_require,
        )
    )


if __name__ == "__main__":
    program.start(main)
