"""Colours for SQL while it is typed: prompt-toolkit's lexer interface over the tokenizer of the dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer

from sqlstream.client.shell.input_text import is_command

if TYPE_CHECKING:
    from sqlglot import Token

HIGHLIGHTED_CHARACTERS_MAX = 50_000
"""A longer text is shown without colours: it would be read anew with every key."""

_BEFORE_NAMES = ("TABLE", "VIEW", "INTO", "EXISTS", "AS", ".")
"""Words before a name that may have a list of columns behind it, and is no function."""

STYLES = {
    "sql.keyword": "ansiblue bold",
    "sql.function": "ansicyan",
    "sql.string": "ansigreen",
    "sql.number": "ansimagenta",
    "sql.name": "",
    "sql.comment": "ansibrightblack italic",
    "sql.wrong": "ansired",
    "sql.command": "ansiyellow",
}


class SqlLexer(Lexer):
    """Styles the tokens of Flink's SQL; text that is no SQL is marked as wrong, and an open quote as a text.

    State: the last text and its styled lines. Until `load` is called every text is plain, so that a prompt need not wait for
    the tokenizer.
    """

    def __init__(self) -> None:
        self._is_loaded = False
        self._text: str | None = None
        self._lines: list[StyleAndTextTuples] = []

    def load(self) -> None:
        """Load the tokenizer, which takes a moment; on any thread."""
        import sqlstream.client.completion.cursor  # noqa: F401

        self._is_loaded = True

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        text = document.text
        if text != self._text:
            self._lines = list(split_lines(list(self._fragments(text))))
            # A plain text is styled again once the tokenizer is there.
            self._text = text if self._is_loaded else None
        lines = self._lines
        return lambda number: lines[number] if number < len(lines) else []

    def _fragments(self, text: str) -> Iterator[tuple[str, str]]:
        if is_command(text) and text.lstrip().startswith("\\"):
            yield "class:sql.command", text
        elif not self._is_loaded or len(text) > HIGHLIGHTED_CHARACTERS_MAX:
            yield "", text
        else:
            yield from styled(text)


def styled(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces with their styles; the pieces together are the text."""
    from sqlstream.client.completion.cursor import tolerant_tokens

    tokens, opening = tolerant_tokens(text)
    position = 0
    for index, token in enumerate(tokens):
        yield from _gap(text[position : token.start])
        previous = tokens[index - 1].text.upper() if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_called = following == "(" and previous not in _BEFORE_NAMES
        yield _style(token, is_called), text[token.start : token.end + 1]
        position = token.end + 1
    if opening is not None:
        yield from _gap(text[position:opening])
        yield "class:sql.comment" if text[opening] == "/" else "class:sql.string", text[opening:]
    else:
        yield from _gap(text[position:])


def _gap(text: str) -> Iterator[tuple[str, str]]:
    """White space, comments, and characters that no token has."""
    if not text:
        return
    if text.isspace():
        yield "", text
        return
    is_comment = text.lstrip().startswith(("--", "/*"))
    yield "class:sql.comment" if is_comment else "class:sql.wrong", text


def _style(token: Token, is_called: bool) -> str:
    from sqlglot import TokenType

    from sqlstream.planner.dialect.tokens import RESERVED, is_word, word

    match token.token_type:
        case TokenType.STRING | TokenType.HEX_STRING:
            return "class:sql.string"
        case TokenType.NUMBER:
            return "class:sql.number"
        case TokenType.IDENTIFIER:
            return "class:sql.name"
    if not is_word(token):
        return ""
    if word(token) in RESERVED or word(token) in OTHER_KEYWORDS:
        return "class:sql.keyword"
    return "class:sql.function" if is_called else ""


_OTHER_TEXT = (
    "ALTER ASC BEGIN BY CASCADE CATALOG CHECKPOINTS COLUMNS COMMENT CONNECTORS DATABASE DATABASES DESC DESCRIBE DRAIN "
    "ENFORCED EXECUTE EXPLAIN FORMATS FUNCTIONS IF JOB JOBS KEY METADATA PARTITIONED PRIMARY RESET SAVEPOINT SHOW "
    "STATEMENT STOP TABLES TEMPORARY USE VERIFY VIEW VIEWS VIRTUAL WATERMARK"
)
OTHER_KEYWORDS = frozenset(_OTHER_TEXT.split())
"""Words that are keywords where a statement has them, though they can be names elsewhere."""
