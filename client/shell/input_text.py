r"""What a user has typed → statements: where one ends, and whether it ends at all.

A statement ends with `;`, or with `\G` for rows that are printed one below the other. A line that begins with a backslash, or
with a dot and a letter, is a command of the shell and ends with the line; so do HELP, QUIT, EXIT, CLEAR and SOURCE, with a
semicolon or without.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from sqlstream.errors import Span, UserError

if TYPE_CHECKING:
    from sqlglot import Token

VERTICAL_END = r"\G"
_COMMAND_WORDS = ("HELP", "QUIT", "EXIT", "CLEAR", "SOURCE")
_COMMAND = re.compile(
    rf"\s*(?:\\(?!G\b)|\.(?=[A-Za-z])|(?:{'|'.join(_COMMAND_WORDS)})(?![\w.]))", re.IGNORECASE
)
_COMMAND_LENGTH_MAX = 200
"""Characters in which the first word of a command must stand."""
_SEMICOLON = re.compile(r"\s*;")
_ENDS_VERTICALLY = re.compile(r"\\G\s*;?\s*\Z")


@dataclasses.dataclass(frozen=True)
class Input:
    """A statement or command without its end. `span` is its place in the text that the user gave. `is_terminated`: its end
    was typed."""

    text: str
    span: Span
    is_command: bool = False
    is_vertical: bool = False
    is_terminated: bool = True


def is_command(text: str) -> bool:
    """Whether the text begins with a command of the shell."""
    return _COMMAND.match(text) is not None


def is_complete(text: str) -> bool:
    """Whether Enter runs the text, instead of adding a line to it."""
    stripped = text.strip()
    if not stripped or is_command(stripped):
        return True
    if not stripped.endswith(";") and _ENDS_VERTICALLY.search(stripped) is None:
        return False
    try:
        inputs = list(split_input(text))
    except UserError as error:
        # An open quote or comment goes on in the next line; any other error is to be shown.
        return not error.message.startswith("unterminated")
    return not inputs or inputs[-1].is_terminated


def split_input(text: str, offset: int = 0) -> Iterator[Input]:
    """The statements and commands of a text, in order. UserError SS1001 for text that is no SQL, when it is reached."""
    position = 0
    while position < len(text):
        if is_command(text[position : position + _COMMAND_LENGTH_MAX]):
            found, position = _command(text, position, offset)
            yield found
        else:
            position = yield from _statements(text, position, offset)


def _command(text: str, start: int, offset: int) -> tuple[Input, int]:
    """A command from its first character to the end of the line, or to its semicolon."""
    while text[start].isspace():
        start += 1
    line_end = text.find("\n", start)
    end = len(text) if line_end < 0 else line_end
    line = text[start:end]
    is_word = not line.startswith(("\\", "."))
    semicolon = line.find(";")
    if is_word and semicolon >= 0 and "'" not in line[:semicolon]:
        line, end = line[:semicolon], start + semicolon + 1
    stripped = line.strip().rstrip(";").rstrip()
    return Input(stripped, Span(offset + start, offset + start + len(stripped)), is_command=True), end


def _statements(text: str, start: int, offset: int) -> Generator[Input, None, int]:
    """The statements from `start` up to the next command or vertical end; returns where to go on."""
    from sqlglot import TokenType

    from sqlstream.planner.dialect.parser import is_open_statement_set
    from sqlstream.planner.dialect.tokens import tokenize

    tokens: list[Token] = []
    try:
        for token in tokenize(text[start:], offset=start):
            if token.token_type is not TokenType.SEMICOLON or is_open_statement_set(tokens):
                tokens.append(token)
                continue
            if tokens:
                yield _input(text, tokens, offset)
                tokens = []
            if is_command(text[token.end + 1 : token.end + 1 + _COMMAND_LENGTH_MAX]):
                return token.end + 1
    except UserError as error:
        at = error.span.start if error.span is not None else 0
        if not text.startswith(VERTICAL_END, at):
            error.span = Span(at, at).shift(offset) if error.span is None else error.span.shift(offset)
            raise
        if tokens:
            yield _input(text, tokens, offset, is_vertical=True)
        semicolon = _SEMICOLON.match(text, at + len(VERTICAL_END))
        return semicolon.end() if semicolon else at + len(VERTICAL_END)
    if tokens:
        yield _input(text, tokens, offset, is_terminated=False)
    return len(text)


def _input(
    text: str, tokens: list[Token], offset: int, *, is_vertical: bool = False, is_terminated: bool = True
) -> Input:
    start, end = tokens[0].start, tokens[-1].end + 1
    span = Span(start + offset, end + offset)
    return Input(text[start:end], span, is_vertical=is_vertical, is_terminated=is_terminated)
