"""D4PG (Barth-Maron et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.d4pg --environment=control:cartpole:swingup --workdir=runs/cartpole
python -m binaries.d4pg --setting=d3pg_uniform_n1 ...
"""

from absl import flags

from common.program import main as program
from common.program.setting_flags import define_config
from common.replay import footprint
from common.reporting.command_line import fail
from reproductions.d4pg import config as config_lib
from reproductions.d4pg import settings

_NUM_ACTORS = flags.DEFINE_integer(
    "num_actors",
    None,
    f"K, actors: {config_lib.NUM_ACTORS} on the control suite, the default; 64 beyond it (sections "
    "4.1 to 4.3); 1 in a single process (DDPG).",
)
_CONFIG = define_config(list(settings.SETTINGS), settings.DEFAULT, settings.configuration)
flags.adopt_module_key_flags(program)


def _make_agent(config: config_lib.D4PGConfig):
    from reproductions.d4pg.agent import D4PG

    return D4PG(config)


def _require(spec) -> None:
    from common.environments.requirements import require_control

    require_control(spec)


def main(argv: list[str]) -> None:
    """Runs the role that the flags name."""
    if len(argv) > 1:
        fail(f'unknown argument "{argv[1]}": flags start with --')
    config = _CONFIG.value
    num_actors = _NUM_ACTORS.value
    if num_actors is None:
        num_actors = 1 if config.single_process else config_lib.NUM_ACTORS
    program.run(
        program.Paper(
            name="d4pg",
            module="binaries.d4pg",
            config=config,
            num_actors=num_actors,
            make_agent=_make_agent,
            bytes_per_step=footprint.control_bytes_per_step,
            single_process=config.single_process,
            require=_require,
        )
    )


if __name__ == "__main__":
    program.start(main)
