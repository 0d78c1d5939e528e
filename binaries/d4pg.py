"""D4PG (Barth-Maron et al. 2018): launches learner, replay, actors and evaluator.

    python -m binaries.d4pg --environment=control:cartpole:swingup --workdir=runs/cartpole
"""

from absl import flags

from common.cluster import program
from reproductions.d4pg import config as config_lib

_NUM_ACTORS = flags.DEFINE_integer(
    "num_actors", config_lib.NUM_ACTORS,
    "K, actors; 32 on the control suite, 64 beyond it (sections 4.1 to 4.3).",
)
_CONFIG = program.define_config(config_lib.D4PGConfig())
flags.adopt_module_key_flags(program)


def _make_agent(config: config_lib.D4PGConfig):
    from reproductions.d4pg.agent import D4PG

    return D4PG(config)


def main(argv: list[str]) -> None:
    """Runs the role that the flags name."""
    if len(argv) > 1:
        program.fail(f'unknown argument "{argv[1]}": flags start with --')
    program.run(
        program.Paper(
            name="d4pg",
            module="binaries.d4pg",
            config=_CONFIG.value,
            num_actors=_NUM_ACTORS.value,
            make_agent=_make_agent,
        )
    )


if __name__ == "__main__":
    program.start(main)
