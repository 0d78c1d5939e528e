"""Ape-X DQN (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dqn --environment=atari:pong --workdir=runs/pong
python -m binaries.apex_dqn --setting=dqn_two_cores --environment=atari:pong ...
"""

from reproductions.apex.dqn.bytes_per_step import bytes_per_step

from common.environments.requirements import require_images
from common.program import layouts, main
from reproductions.apex.dqn import config as config_lib
from reproductions.apex.dqn import settings

PROGRAM = main.AgentProgram(
    paper="apex",
    agent="apex_dqn",
    module="binaries.apex_dqn",
    agent_class="reproductions.apex.dqn.agent:ApexDQN",
    settings=settings.SETTINGS,
    num_actors=lambda config, setting: settings.num_actors(setting),
    num_actors_help=(
        f"N, actors: {config_lib.NUM_ACTORS} (section 4.1), the default, but with the settings for "
        f"two cores {settings.num_actors('dqn_two_cores')}; figures 4 to 6, 13 and 14 vary it."
    ),
    layouts=(layouts.DISTRIBUTED,),
    layout=lambda config: layouts.DISTRIBUTED,
    require=require_images,
    bytes_per_step=bytes_per_step,
    num_frames=4,
)
<<<<<<< HEAD
=======
_CONFIG = define_config(settings.SETTINGS)
flags.adopt_module_key_flags(program)


def _make_agent(config: config_lib.DQNConfig):
    from reproductions.apex.dqn.agent import ApexDQN

    return ApexDQN(config, settings.SETTINGS.name_of(flags.FLAGS.setting, config))


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
            sizes=sizes.sizes,
            require=_require,
        )
    )

>>>>>>> config

if __name__ == "__main__":
    main.start(PROGRAM)
