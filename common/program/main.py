"""The main program of an agent: flags, the roles behind `--role`, and the local run.

Importing this module imports neither TensorFlow nor NumPy. This keeps the launcher light, and lets
a role set its number of threads before either library reads it.
"""

from collections.abc import Callable, Sequence
import functools
import sys

from absl import app, flags, logging

from common.agents.declaration import AgentDeclaration
from common.cluster.errors import ClusterError
from common.cluster.launcher import GIVE_UP_CODE
from common.config import Config
from common.names import with_arguments
from common.program import flags as flags_lib
from common.program import layouts, local, ray_cluster, slurm
from common.program.flags import UsageError, define_config
from common.program.task import ProgramRun, run_task
from common.replay.footprint import MAX_ACTORS
from common.reporting.command_line import exit_with, fail
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError


def start(agent: AgentDeclaration) -> None:
    """Runs the program of an agent with the flags of the command line, and ends the process."""
    logging.use_absl_handler()
    num_actors = flags.DEFINE_integer(agent.num_actors_flag, None, agent.num_actors_help)
    config = define_config(agent.settings)
    ours = [flag.name for flag in flags.FLAGS.get_flags_for_module(flags_lib.__name__)]
    ours += [name for layout in agent.layouts for name in layout.flags]
    for name in (*ours, agent.num_actors_flag, "setting", "config"):
        # --help shows the key flags of the main module, which absl identifies by its file.
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])

    def main(argv: Sequence[str]) -> None:
        if len(argv) > 1:
            fail(f'unknown argument "{argv[1]}": flags start with --')
        try:
            run = _make_run(agent, config.value, num_actors.value)
            _ROLES.get(flags_lib.ROLE.value, run_task)(run)
        except ClusterError as error:
            fail(str(error), code=1 if error.is_transient else GIVE_UP_CODE)
        except UserError as error:
            fail(str(error))

    exit_with(lambda: app.run(main, flags_parser=functools.partial(_parse_flags, agent)))


def _parse_flags(agent: AgentDeclaration, argv: list[str]) -> list[str]:
    if {"-h", "--help"}.intersection(argv):
        print(flags_lib.help_text(agent))
        sys.exit()
    try:
        return flags.FLAGS(argv)
    except SystemExit:
        sys.exit()  # absl has shown --helpfull; its exit code would be 1
    except flags.Error as error:
        known = [flag.name for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0])]
        names = vars(agent.settings.configuration(agent.settings.default))
        known += [f"config.{name}" for name in names]
        fail(flags_lib.error_in_words(error, known))


def _make_run(agent: AgentDeclaration, config: Config, num_actors: int | None) -> ProgramRun:
    flags_lib.check()
    try:
        config.validate()
    except ValueError as error:
        raise UsageError(str(error)) from None
    setting = flags.FLAGS.setting
    if num_actors is None:
        num_actors = agent.num_actors(config, setting)
    if not 1 <= num_actors <= MAX_ACTORS:
        raise UsageError(f"--{agent.num_actors_flag} must be in [1, {MAX_ACTORS}], is {num_actors}")
    of_layouts = [flag.name for flag in flags.FLAGS.get_flags_for_module(layouts.__name__)]
    layout = agent.layout(config, {name: flags.FLAGS[name].value for name in of_layouts})
    if flags_lib.ROLE.value not in _ROLES:
        layout.role(flags_lib.ROLE.value, others=tuple(_ROLES))
    for name in {*of_layouts} - {*layout.flags}:
        if flags.FLAGS[name].present:
            raise UsageError(
                f"--{name} has no meaning in this setting's layout, {layout.name}: leave it out"
            )
    values = {name: flags.FLAGS[name].value for name in layout.flags}
    values[agent.num_actors_flag] = num_actors
    name = agent.settings.name_of(setting, config)
    environment, workdir = flags_lib.ENVIRONMENT.value, flags_lib.WORKDIR.value
    assert environment and workdir  # checked above
    try:
        environment = with_arguments(environment, flags_lib.ENV_KWARGS.value)
    except ValueError as error:
        raise UsageError(f"--{flags_lib.ENV_KWARGS.name}: {error}") from None
    directory = RunDirectory(workdir)
    return ProgramRun(agent, config, name, num_actors, layout, values, environment, directory)


_ROLES: dict[str, Callable[[ProgramRun], None]] = {
    "local": local.run_local,
    "slurm": slurm.run_task,
    "ray": ray_cluster.run_on_ray,
}
