"""A check of a program's flag file by the program itself."""

from launched import run_light


def check_flag_file(program, path, unknown_environment, *flags):
    """Asserts that a program refuses a flag file's run only for an unknown environment."""
    own = [f"--flagfile={path}", *flags, f"--environment={unknown_environment}"]
    ended = run_light(f"binaries.{program}", own)
    assert unknown_environment in ended.output, ended.output  # nothing else was wrong
