"""The process of a command: its end, and the settings of Python's garbage collector.

An error becomes a message on standard error and an exit code, here and nowhere else.

The collector runs less often than by default. A command makes hundreds of thousands of objects, almost all of them
plain data without cycles, and ends. With the usual threshold the collector walks over all of them again and again, and
once more at the end when everything goes anyway: a third of the time of a large run. A service reads as much in every
reconcile.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Any

import click


def run_command(command: click.Command, arguments: Sequence[str] | None, name: str) -> int:
    """Run a command line and return its exit code, one of fleet.errors."""
    from fleet.errors import CancelledError, ConfigurationError, FleetError

    try:
        result = _invoke(command, arguments, name)
    except FleetError as error:
        return _print_error(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ConfigurationError.exit_code
    except click.UsageError as error:
        return _print_error(_describe_usage_error(error), ConfigurationError.exit_code, usage=_format_usage(error))
    except click.ClickException as error:
        return _print_error(error.format_message(), error.exit_code)
    except (click.Abort, EOFError, KeyboardInterrupt):
        click.secho("cancelled", fg="yellow", err=True)
        return CancelledError.exit_code
    except BrokenPipeError:  # `fleet render | head -1`: the reader has enough
        _close_outputs()
        return 0
    except OSError as error:
        _close_outputs()
        return _print_error(_describe_os_error(error), FleetError.exit_code)
    return result if isinstance(result, int) else 0


def _invoke(command: click.Command, arguments: Sequence[str] | None, name: str) -> Any:
    """Run a command line as `main` of click does, which would end a broken pipe with a code of its own."""
    if os.environ.get(f"_{name.replace('-', '_').upper()}_COMPLETE"):
        return command.main(arguments, prog_name=name, standalone_mode=False)
    try:
        with command.make_context(name, list(sys.argv[1:] if arguments is None else arguments)) as context:
            return command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _print_error(message: str, code: int, usage: str = "") -> int:
    """Print an error, if standard error can be written, and return the exit code."""
    try:
        if usage:
            click.echo(usage, err=True)
        click.secho(f"error: {message}", fg="red", err=True)
    except OSError:  # nothing reads standard error
        _close_outputs()
    return code


def _format_usage(error: click.UsageError) -> str:
    if error.ctx is None:
        return ""
    return f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n"


def _describe_usage_error(error: click.UsageError) -> str:
    """Return the message; for an argument that the command does not take, with the option for names of stacks."""
    message = error.format_message()
    options = {name for parameter in error.ctx.command.params for name in parameter.opts} if error.ctx else set()
    if message.startswith("Got unexpected extra argument") and "--stack" in options:
        return f"{message}\n  hint: stacks are named with --stack NAME"
    return message


def _describe_os_error(error: OSError) -> str:
    if not error.filename and isinstance(error, FileNotFoundError) and not _has_directory():
        return "the current directory is gone\n  hint: cd to one that exists"
    return f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else error.strerror or str(error)


def _has_directory() -> bool:
    try:
        return bool(os.getcwd())  # noqa: PTH109 - the question is whether the system knows it
    except OSError:
        return False


def _close_outputs() -> None:
    """Drop what cannot be written; else Python tries again when it ends, and prints a message of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a name of a device
                os.dup2(nowhere.fileno(), stream.fileno())


def collect_rarely() -> None:
    """Set the collector for a command, which ends."""
    gc.set_threshold(1_000_000, 20, 100)  # 10,000 objects of a cluster are 300,000 of Python's, none in a cycle
    atexit.register(gc.freeze)  # what is left when the process ends needs no looking through


def collect_less() -> None:
    """Set the collector for a process that goes on.

    What has cycles is still collected soon, and the plain data of one reconcile is left alone.
    """
    gc.set_threshold(10_000, 10, 10)
