"""Flink's lexical rules: text → tokens with exact positions, and the cursor that the grammar reads."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

from planner.dialect.nodes import with_span
from planner.dialect.statements import Identifier
from sqlstream.errors import Span, UserError

Node = TypeVar("Node", bound=exp.Expr)


class TokenKind(enum.Enum):
    WORD = "word"
    QUOTED = "identifier"
    STRING = "string"
    BINARY = "binary string"
    NUMBER = "number"
    OPERATOR = "operator"
    HINT_START = "hint"
    END = "end of statement"


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """`text` is decoded (no quotes or escapes); `upper` is what keywords and operators are compared with."""

    kind: TokenKind
    text: str
    upper: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<hint>/\*\+)
  | (?P<comment>/\*.*?\*/)
  | (?P<unicode>[uU]&'(?:[^']|'')*')
  | (?P<binary>[xX]'[^']*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<operator>=>|<>|!=|<=|>=|\|\||\*/|/(?!\*)|[-+*%=<>(),.;\[\]:?])
    """,
    re.VERBOSE | re.DOTALL,
)
_UNICODE_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{4}|)")
_UNTERMINATED = {
    "'": ("string literal", "close it with a single quote; a quote inside is written twice"),
    "`": ("quoted identifier", "close it with a backtick; a backtick inside is written twice"),
    "/*": ("comment", "close it with */"),
}
_FOREIGN = {
    '"': "write identifiers in backticks (`name`) and strings in single quotes ('text')",
    "@": "variables are not part of Flink SQL",
    "\\": "statements end with a semicolon",
    "^": "use POWER(x, y) for powers",
    "~": "use LIKE, SIMILAR TO or REGEXP",
    "{": "use the parser of plain SQL; templates and ODBC escapes are not supported",
    "#": "comments start with --",
}


def tokenize(text: str, position: int = 0, end: int | None = None, offset: int = 0) -> Iterator[Token]:
    """The tokens of text[position:end], without comments; raises SS1001 at the first thing that is none.

    `offset` is added to every position. Lazy, so that what comes before a bad character can still be used.
    """
    end = len(text) if end is None else end
    in_hint = False
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise _lexical_error(text, position, end, offset)
        group = match.lastgroup
        position = match.end()
        if group in ("space", "comment"):
            continue
        token = _token(str(group), match, offset)
        if token.text == "*/" and token.kind is TokenKind.OPERATOR and not in_hint:
            raise UserError("SS1001", 'unexpected "*/"', span=token.span, hint="no comment is open here")
        in_hint = (in_hint or token.kind is TokenKind.HINT_START) and token.text != "*/"
        if token.kind is TokenKind.NUMBER and _TOKEN_WORD.match(text, position, end):
            span = Span(token.start, token.end + 1)
            raise UserError("SS1001", "malformed number", span=span, hint="put a space after the number")
        yield token


_TOKEN_WORD = re.compile(r"[^\W\d]")


def _token(group: str, match: re.Match[str], offset: int) -> Token:
    raw = match.group()
    start, end = match.start() + offset, match.end() + offset
    match group:
        case "word":
            return Token(TokenKind.WORD, raw, raw.upper(), start, end)
        case "quoted":
            return Token(TokenKind.QUOTED, raw[1:-1].replace("``", "`"), "", start, end)
        case "string":
            return Token(TokenKind.STRING, raw[1:-1].replace("''", "'"), "", start, end)
        case "unicode":
            return Token(TokenKind.STRING, _decode_unicode(raw, start), "", start, end)
        case "binary":
            return Token(TokenKind.BINARY, _checked_hex(raw[2:-1], Span(start, end)), "", start, end)
        case "number":
            return Token(TokenKind.NUMBER, raw, "", start, end)
        case "hint":
            return Token(TokenKind.HINT_START, raw, "", start, end)
        case _:
            return Token(TokenKind.OPERATOR, raw, raw, start, end)


def _checked_hex(digits: str, span: Span) -> str:
    if len(digits) % 2 or not all(c in "0123456789abcdefABCDEF" for c in digits):
        hint = "write two hexadecimal digits a byte, such as X'0AFF'"
        raise UserError("SS1001", "malformed binary literal", span=span, hint=hint)
    return digits


def _decode_unicode(raw: str, start: int) -> str:
    body = raw[3:-1].replace("''", "'")
    bad = next((m for m in _UNICODE_ESCAPE.finditer(body) if not m[1]), None)
    if bad:
        at = start + 3 + bad.start()
        hint = "write \\ and four hexadecimal digits, such as U&'\\20AC', or \\\\ for a backslash"
        raise UserError("SS1001", "malformed Unicode escape", span=Span(at, at + 1), hint=hint)
    decoded = _UNICODE_ESCAPE.sub(lambda m: "\\" if m[1] == "\\" else chr(int(m[1], 16)), body)
    # Two escaped halves of a surrogate pair are one character.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _lexical_error(text: str, position: int, end: int, offset: int) -> UserError:
    for opening, (what, hint) in _UNTERMINATED.items():
        if text.startswith(opening, position):
            line_end = text.find("\n", position, end)
            stop = end if line_end < 0 else line_end
            span = Span(position + offset, stop + offset)
            return UserError("SS1001", f"unterminated {what}", span=span, hint=hint)
    span = Span(position + offset, position + 1 + offset)
    char = text[position]
    return UserError("SS1001", f"unexpected character {char!r}", span=span, hint=_FOREIGN.get(char, ""))


# Words that cannot name a thing unless quoted: the ones that would otherwise make a text mean two things.
_RESERVED_TEXT = (
    "ALL AND ANY ARRAY AS ASYMMETRIC BETWEEN BOTH BY CASE CAST CREATE CROSS CUBE CURRENT CURRENT_DATE "
    "CURRENT_TIME CURRENT_TIMESTAMP DELETE DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXTRACT FALSE FETCH "
    "FOR FROM FULL GROUP GROUPING HAVING IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LEADING "
    "LEFT LIKE LIMIT LOCALTIME LOCALTIMESTAMP MATCH_RECOGNIZE MERGE MINUS NATURAL NOT NULL OFFSET ON OR "
    "ORDER OUTER OVER OVERLAY PARTITION PIVOT QUALIFY RIGHT ROLLUP ROW SELECT SET SIMILAR SOME SYMMETRIC "
    "TABLE TABLESAMPLE THEN TO TRAILING TRIM TRUE UNION UNKNOWN UNNEST UNPIVOT UPDATE USING VALUES WHEN "
    "WHERE WINDOW WITH "
)
RESERVED = frozenset(_RESERVED_TEXT.split())


DEPTH_MAX = 80
_OPERATOR_HINTS = {":": "write CAST(x AS type) to convert a value"}


class Cursor:
    """A position in the tokens of one statement: reads forward, and says what is wrong where it stands."""

    def __init__(self, text: str, tokens: list[Token], offset: int = 0) -> None:
        self._text = text
        self._offset = offset
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        end = tokens[-1].end if tokens else 0
        self._end = Token(TokenKind.END, "", "", max(end - 1, 0), end)

    @property
    def token(self) -> Token:
        return self.peek(0)

    def peek(self, ahead: int) -> Token:
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else self._end

    @property
    def previous_end(self) -> int:
        """Where the last token that was read ends."""
        return self._tokens[self._index - 1].end if self._index else 0

    def advance(self) -> Token:
        token = self.token
        self._index += 1
        return token

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or operators."""
        return all(self.peek(i).upper == word for i, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        return self.token.upper in words and self.token.upper != ""

    def accept(self, *words: str) -> bool:
        """Read these keywords or operators if they come next."""
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Read one of these, and say which."""
        return self.advance().upper if self.at_any(*words) else None

    def expect(self, *words: str, hint: str = "") -> Token:
        """Read these keywords or operators, or raise."""
        for word in words:
            if self.token.upper != word:
                raise self.unexpected(f'"{word}"', hint)
            self.advance()
        return self._tokens[self._index - 1]

    def at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def expect_end(self) -> None:
        if not self.at_end():
            raise self.unexpected("the end of the statement")

    def unexpected(self, expected: str = "", hint: str = "") -> UserError:
        """SS1001 at the next token, to be raised."""
        token = self.token
        if token.kind is TokenKind.END:
            message = "unexpected end of statement"
        elif token.kind is TokenKind.HINT_START:
            message = "a hint cannot stand here"
            hint = hint or "table hints stand after the table's name, as in t /*+ OPTIONS('key'='value') */"
        else:
            message = f'unexpected "{self.source(token.start, token.end)}"'
        if expected:
            message += f", expected {expected}"
        hint = hint or _OPERATOR_HINTS.get(token.text, "")
        if not hint and token.kind is TokenKind.WORD and token.upper in RESERVED and "name" in expected:
            hint = f"{token.upper} is a keyword; quote it as `{token.text}` to use it as a name"
        return UserError("SS1001", message, span=token.span, hint=hint)

    def refusal(self, message: str, token: Token, hint: str = "") -> UserError:
        """SS1003, to be raised: SQL that is not supported, from `token` to the last token read."""
        raise UserError(
            "SS1003", message, span=Span(token.start, max(token.end, self.previous_end)), hint=hint
        )

    def source(self, start: int, end: int) -> str:
        """The text between two positions."""
        return self._text[start - self._offset : end - self._offset]

    def mark(self, node: Node, start: int) -> Node:
        """`node` with the position from `start` to the last token read."""
        return with_span(node, start, self.previous_end)

    def enter(self) -> None:
        """Count one level of nesting; the bound keeps a hostile text from exhausting Python's stack."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UserError("SS1001", "the statement is nested too deeply", span=self.token.span)

    def leave(self) -> None:
        self._depth -= 1

    def at_name(self) -> bool:
        token = self.token
        return token.kind is TokenKind.QUOTED or (
            token.kind is TokenKind.WORD and token.upper not in RESERVED
        )

    def name(self, what: str = "a name") -> exp.Identifier:
        """Read one identifier."""
        if not self.at_name():
            raise self.unexpected(what)
        token = self.advance()
        if not token.text:
            raise UserError("SS1001", "an identifier cannot be empty", span=token.span)
        node = exp.Identifier(this=token.text, quoted=token.kind is TokenKind.QUOTED)
        return self.mark(node, token.start)

    def simple_name(self, what: str = "a name") -> Identifier:
        """Read one identifier that cannot be qualified."""
        start = self.token.start
        part = self.name(what)
        return Identifier((part.name,), Span(start, self.previous_end))

    def qualified_name(self, what: str = "a name") -> Identifier:
        """Read `[catalog.][database.]object`."""
        start = self.token.start
        parts = [self.name(what).name]
        while self.accept("."):
            parts.append(self.name(what).name)
        span = Span(start, self.previous_end)
        if len(parts) > 3:
            hint = "a name has at most a catalog, a database and an object"
            raise UserError("SS1001", "the name has too many parts", span=span, hint=hint)
        return Identifier(tuple(parts), span)

    def string(self, what: str = "a string in single quotes", hint: str = "") -> Token:
        if self.token.kind is not TokenKind.STRING:
            raise self.unexpected(what, hint)
        return self.advance()

    def unsigned_integer(self, what: str = "a whole number") -> int:
        token = self.token
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            raise self.unexpected(what)
        self.advance()
        return int(token.text)
