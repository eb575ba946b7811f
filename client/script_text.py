"""The text of a SQL file, and its statements."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.errors import UserError

if TYPE_CHECKING:
    from sqlstream.planner.dialect.statements import Statement


def read_script(path: str) -> str:
    """The file's text. UserError SS5001 when it cannot be read."""
    try:
        text = (sys.stdin.buffer.read() if path == "-" else _bytes_of(path)).decode("utf-8")
        # Without the byte order mark that some editors write first, and with one kind of line end.
        return text.removeprefix("\ufeff").replace("\r\n", "\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS5001", f'cannot read "{path}": {reason}', hint="give the path of a SQL file"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            "SS5001",
            f'"{path}" is not UTF-8 text: {error.reason} at byte {error.start}',
            hint="give the path of a SQL file, or convert it to UTF-8",
        ) from error


def scripts_of(arguments: argparse.Namespace) -> list[str]:
    """The text of the file, if given, then the text of each -c. UserError SS4001 when there is neither."""
    if arguments.file is None and not arguments.statements:
        raise UserError(
            "SS4001", "there is nothing to run", hint='give a FILE, - for standard input, or -c "SQL"'
        )
    return [*([] if arguments.file is None else [read_script(arguments.file)]), *arguments.statements]


def _bytes_of(path: str) -> bytes:
    # Not Path, to which an empty text is the present directory.
    with open(path, "rb") as file:
        return file.read()


def parsed(text: str) -> tuple[Statement, ...]:
    """The statements of a script. UserError for a wrong one, or when there is none."""
    from sqlstream.planner.dialect.parser import parse_script

    statements = tuple(parse_script(text))
    if not statements:
        raise UserError("SS1003", "the script holds no statement", hint="write a statement that ends with ;")
    return statements
