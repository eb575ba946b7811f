"""What the readers of all DDL statements share: a statement's text with its place, and COMMENT."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.errors import Span
from sqlstream.planner.dialect.queries import QueryParser


def extent(parser: QueryParser, first: Token) -> tuple[str, Span]:
    """The text and span of a statement from `first` to the last token read."""
    end = parser.previous_end
    return parser.source(first.start, end), Span(first.start, end)


def read_comment(parser: QueryParser) -> str:
    """Read `COMMENT 'text'` if it comes next."""
    return parser.string("the comment in single quotes").text if parser.accept("COMMENT") else ""
