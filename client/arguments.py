"""Words of the command line as values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.client.configuration import Configuration


FORMATS = ("table", "vertical", "json", "csv", "arrow")
"""How rows can be printed (sqlstream.client.rendering.render)."""


def count(text: str) -> int:
    """A whole number from 1, digits grouped or not.

    >>> count("10,000,000")
    10000000
    """
    digits = text.replace(",", "").replace("_", "")
    if not digits.isdecimal() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number from 1')
    return int(digits)


def size(text: str) -> int:
    """Bytes, of which there is one at least: `1gb`, `64 mb`, `4096`.

    >>> size("64 mb")
    67108864
    """
    from sqlstream.config_option import parse_memory_bytes

    try:
        found = parse_memory_bytes(text)
    except ValueError:
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no size, such as 64mb')
    return found


def text_of_file(path: str, what: str, code: str, bytes_max: int) -> str:
    """The text of a small file that a word names, or the beginning of a larger one. UserError with this code when it cannot be
    read; `what` says of what it is ("the token")."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read(bytes_max)
    except (OSError, UnicodeDecodeError) as error:
        from sqlstream.errors import UserError, reason_of_error

        reason = reason_of_error(error) if isinstance(error, OSError) else "it is no text"
        raise UserError(
            code, f'could not read {what} in "{path}": {reason}', hint="give a file that this user can read"
        ) from error


def add_script_arguments(parser: argparse.ArgumentParser, purpose: str) -> None:
    """FILE and -c, whose statements are there `purpose` ("to run")."""
    parser.add_argument("file", nargs="?", help="the SQL file, or - for standard input")
    parser.add_argument(
        "-c",
        "--command",
        dest="statements",
        action="append",
        default=[],
        metavar="SQL",
        help=f"statements {purpose} after those of the file; may be repeated",
    )


def add_task_managers_argument(parser: argparse.ArgumentParser) -> None:
    """--task-managers of a command that runs jobs in a cluster of its own."""
    parser.add_argument(
        "--task-managers",
        type=count,
        metavar="N",
        help="start this many child processes for tasks at once (default: as many as jobs need)",
    )


def add_serving_arguments(parser: argparse.ArgumentParser, ports: str, kept: str) -> None:
    """--port and --data-dir of a process that serves: what the port is for, and what is kept."""
    parser.add_argument("--port", type=int, metavar="PORT", help=f"{ports}; 0 takes a free one")
    parser.add_argument("--data-dir", metavar="DIRECTORY", help=f"where {kept} are kept")


def add_configuration_arguments(parser: argparse.ArgumentParser) -> None:
    """--config, and -D with its other name --set."""
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: sqlstream.yaml)")
    parser.add_argument(
        "-D",
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting in force from the start; may be repeated",
    )


def configuration_of(arguments: argparse.Namespace) -> Configuration:
    """The settings of a command with the arguments above. UserError for a wrong one."""
    from sqlstream.client.configuration import load_configuration

    return load_configuration(arguments.config, arguments.settings)
