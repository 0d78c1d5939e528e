"""The error that ends a program with one line."""


class UserError(ValueError):
    """A file, a directory or an argument that a program cannot use.

    The message is one line that says what is wrong, where, and what to do. `command_line.exit_with`
    prints it and ends the program.
    """
