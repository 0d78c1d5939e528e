"""How programs end."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import os
    from common.reporting.command_line import exit_with
    def main():
        {body}
    exit_with(main)
""")


def run(body, reader="cat", unbuffered=False):
    """Returns the exit code, what the reader printed, and standard error."""
    command = [sys.executable, *["-u"] * unbuffered, "-c", PROGRAM.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        read = subprocess.run(
            reader.split(), stdin=program.stdout, stdout=subprocess.PIPE, check=False
        )
        program.stdout.close()
        error = program.stderr.read()
    return program.returncode, read.stdout.decode(), error.decode()


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_reader_that_leaves_is_no_error(unbuffered):
    code, out, error = run("print(*range(200_000), sep=chr(10))", "head -n 2", unbuffered)
    assert (code, out, error) == (141, "0\n1\n", "")


def test_nor_is_one_that_leaves_before_the_end():
    # What little there is fits the buffer and is written at the end only.
    code, _, error = run("import time; time.sleep(1); print(1); raise SystemExit(3)", "true")
    assert (code, error) == (141, "")


@pytest.mark.parametrize(
    "body, expected", [("return 3", 3), ("print(1)", 0), ("raise SystemExit(2)", 2)]
)
def test_the_exit_code_is_what_main_says(body, expected):
    assert run(body)[::2] == (expected, "")


@pytest.mark.parametrize("words, said", [("", "interrupted"), ("'twice'", "twice")])
def test_ctrl_c_is_one_line_with_its_own_exit_code(words, said):
    assert run(f"raise KeyboardInterrupt({words})") == (130, "", f"error: {said}\n")


def test_a_users_mistake_is_one_line():
    body = "from common.reporting.user_error import UserError; raise UserError('mend it')"
    assert run(body) == (2, "", "error: mend it\n")


def test_another_broken_pipe_is_an_error():
    code, _, error = run("raise BrokenPipeError('of a client')")
    assert code == 1 and "BrokenPipeError: of a client" in error
