"""Ape-X DPG (Horgan et al. 2018): launches learner, replay, actors and evaluator.

python -m binaries.apex_dpg --environment=control:humanoid:stand --workdir=runs/humanoid_stand
python -m binaries.apex_dpg --setting=dpg_uniform ...
"""

from absl import flags

from common.program import main as program
from common.program.setting_flags import define_config
from common.replay import footprint
from common.reporting.command_line import fail
from reproductions.apex.dpg import config as config_lib
from reproductions.apex.dpg import settings

_NUM_ACTORS = flags.DEFINE_integer(
    "num_actors", config_lib.NUM_ACTORS, "N, actors (section 4.2); figure 3 varies it."
)
_CONFIG = define_config(list(settings.SETTINGS), settings.DEFAULT, settings.configuration)
flags.adopt_module_key_flags(program)


def _make_agent(config: config_lib.DPGConfig):
    from reproductions.apex.dpg.agent import ApexDPG

    return ApexDPG(config)


def _require(spec) -> None:
    from common.environments.requirements import require_control

    require_control(spec)


def main(argv: list[str]) -> None:
    """Runs the role that the flags name."""
    if len(argv) > 1:
        fail(f'unknown argument "{argv[1]}": flags start with --')
    program.run(
        program.Paper(
            name="apex",
            agent="apex_dpg",
            module="binaries.apex_dpg",
            config=_CONFIG.value,
            num_actors=_NUM_ACTORS.value,
            make_agent=_make_agent,
            bytes_per_step=footprint.control_bytes_per_step,
            require=_require,
        )
    )


if __name__ == "__main__":
    program.start(main)
