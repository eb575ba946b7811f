"""Flink's lexical rules: sqlglot's tokenizer with our tables, and a check that it skips no text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from sqlglot import Token, Tokenizer, TokenType
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenizerCore

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.planner.guards import without_collection
from sqlstream.specs.graph import GraphAlgorithm

# Words that must be quoted to be names, because a text would be ambiguous otherwise.
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
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
GRAPH_FUNCTIONS = tuple(algorithm.value for algorithm in GraphAlgorithm)
TABLE_FUNCTIONS = (
    *WINDOW_FUNCTIONS,
    *("FROM_CHANGELOG", "TO_CHANGELOG", "SNAPSHOT", "COUNT_WINDOW", "ML_PREDICT", "ML_EVALUATE"),
    "VECTOR_SEARCH",
    *GRAPH_FUNCTIONS,
)
"""Table functions that everybody has; the others are made by CREATE FUNCTION."""

# sqlglot's types for the first word of its two-word keywords.
_FIRST_WORDS = {
    "GROUP": TokenType.GROUP_BY,
    "ORDER": TokenType.ORDER_BY,
    "SIMILAR": TokenType.SIMILAR_TO,
    "MINUS": TokenType.EXCEPT,
}
_FOREIGN_CHARACTER = TokenType.BACKSLASH
_PATTERN_CHARACTERS = frozenset("{}|^")
_ROWTIME = "$rowtime"
_FOREIGN = {
    "@": "variables are not part of SQL here: write the value",
    "\\": "a statement begins with a word such as SHOW or DESCRIBE, and ends with a semicolon",
    "^": "use POWER(x, y) for powers",
    "~": "write REGEXP(string, pattern), or LIKE or SIMILAR TO",
    "{": "write MAP['key', value], ROW(value, …) or JSON_OBJECT('key' VALUE value); templates are not filled in",
    "!": "write <> for unequal, and NOT before a condition, such as NOT REGEXP(string, pattern)",
    "&": "write AND between conditions; there are no operators on bits",
    "|": "write OR between conditions, || between texts; there are no operators on bits",
    "$": "a statement has no parameters: write the value",
    _ROWTIME: "declare a column of the time of a message: ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL",
    "\u2018": "write straight quotes: 'text'",
    "\u2019": "write straight quotes: 'text'",
    "\u201c": "write straight quotes: 'text', or `name` for a name",
    "\u201d": "write straight quotes: 'text', or `name` for a name",
    "#": "comments start with --",
}
_UNTERMINATED = {
    "'": ("string literal", "close it with a single quote; a quote inside is written twice"),
    "`": ("quoted identifier", "close it with a backtick; a backtick inside is written twice"),
    "/*": ("comment", "close it with */"),
}
_GAP = re.compile(r"(?:\s+|--[^\n]*|/\*(?!\+).*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_BEFORE_SIGN = re.compile(r"\d+(?:\.\d*)?[eE]\d+(?=[+-])")
# No type has as many digits; Python reads no integer of more than 4,300 digits.
_NUMBER_CHARACTERS_MAX = 1_000
_NUMBER_RUN = re.compile(r"[\w.]{1,60}")
_WORD = re.compile(r"[^\W\d][\w$]*")
_DOUBLE_QUOTED = re.compile(r'"([^"\n]{1,100})"')
_PREFIXED_STRING = re.compile(r"(?:[xXnN]|[uU]&)(?=')")
_UNICODE_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{4}|)")


WORDS_MAX = 400_000
"""Names, keywords and operators of one statement. With `sqlstream.statement.max-expressions` at its highest no longer one can
be planned, and to read it takes a minute."""

_UNCOUNTED = frozenset(
    {TokenType.NUMBER, TokenType.STRING, TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN}
)
ARGUMENTS_MAX = 100_000
"""Arguments of one call: no function takes more."""

_TOO_MANY_WORDS = f"the statement has more than {WORDS_MAX} names, keywords and operators"
_CALLED = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.ARRAY, TokenType.ROW})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_NO_CALL = -1


class _Tokens(list[Token]):
    """The tokens of a text so far. It counts, so that a statement that is too long is refused before the rest of it is read.

    State: the words of the statement that is read, the commas within each open bracket (_NO_CALL: no call), and what it is
    refused for."""

    def __init__(self) -> None:
        super().__init__()
        self._words = 0
        self._commas: list[int] = []
        self.refusal: UserError | None = None

    def count_last(self, kind: TokenType) -> None:
        """Count the last token, of this type. UserError SS3019, which is kept, when there are too many."""
        if kind is TokenType.SEMICOLON:
            self._words, self._commas = 0, []
        elif kind is TokenType.COMMA:
            if self._commas and self._commas[-1] != _NO_CALL:
                self._commas[-1] += 1
                if self._commas[-1] == ARGUMENTS_MAX:
                    raise self._refuse(f"a call has more than {ARGUMENTS_MAX} arguments")
        elif kind in _OPENING:
            is_call = len(self) > 1 and self[-2].token_type in _CALLED
            self._commas.append(0 if is_call else _NO_CALL)
        elif kind in _CLOSING and self._commas:
            self._commas.pop()
        if kind not in _UNCOUNTED:
            self._words += 1
            if self._words > WORDS_MAX:
                raise self._refuse(_TOO_MANY_WORDS)

    def _refuse(self, message: str) -> UserError:
        self.refusal = _too_long(message, self[-1])
        return self.refusal

    def statements_before(self) -> list[Token]:
        """The tokens up to the last semicolon."""
        ends = (i for i in range(len(self) - 1, -1, -1) if self[i].token_type is TokenType.SEMICOLON)
        return self[: next(ends, -1) + 1]


class _Core(TokenizerCore):
    """Stops within a long text whose statement is given up or too long, and ends a number with its exponent: `1e8+1` is a sum."""

    __slots__ = ()

    def reset(self) -> None:
        super().reset()
        self.tokens = _Tokens()

    def _scan_number(self) -> None:
        if (number := _BEFORE_SIGN.match(self.sql, self._current - 1)) is None:
            super()._scan_number()
            return
        self._advance(number.end() - self._current)
        self._add(TokenType.NUMBER)

    def _add(self, token_type: TokenType, text: str | None = None) -> None:
        check_not_given_up()
        super()._add(token_type, text)
        cast(_Tokens, self.tokens).count_last(token_type)


class FlinkTokenizer(Tokenizer):
    """sqlglot's tokenizer for Flink SQL.

    Only the reserved words are keywords, and ASC and DESC; every other word is a VAR, and can be a name.
    sqlglot accepts an open comment, templates and malformed literals; here all of these are errors.
    """

    SINGLE_TOKENS = {
        **{c: Tokenizer.SINGLE_TOKENS[c] for c in "()[]:,.-=><%+;/*?"},
        **dict.fromkeys("\"@\\^~{}#!&|'`", _FOREIGN_CHARACTER),
    }
    KEYWORDS = {
        **{s: Tokenizer.KEYWORDS[s] for s in ("||", ">=", "<=", "<>", "!=", "=>", "::")},
        "/*+": TokenType.HINT,
        "*/": TokenType.BLOCK_END,
        # TokenType.COMMAND marks the reserved words that sqlglot has no type for.
        **{w: _FIRST_WORDS.get(w) or Tokenizer.KEYWORDS.get(w, TokenType.COMMAND) for w in RESERVED},
        "ASC": TokenType.ASC,
        "DESC": TokenType.DESC,
    }
    IDENTIFIERS = ["`"]
    HEX_STRINGS = [("X'", "'"), ("x'", "'")]
    UNICODE_STRINGS = [("U&'", "'"), ("u&'", "'")]
    COMMENTS = ["--", ("/*", "*/")]
    # A hint's content is parsed, so its start must not be one of the starts of comments.
    HINT_START = ""
    COMMANDS = set()
    NESTED_COMMENTS = False
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY = True

    def _init_core(self) -> TokenizerCore:
        core = super()._init_core()
        # sqlglot makes the core from a table of its own, and has no place to name another class.
        core.__class__ = _Core
        return core

    def tokenize(self, sql: str) -> list[Token]:
        return list(self.read(sql))

    def read(self, text: str, offset: int = 0) -> Iterator[Token]:
        """The tokens one by one, shifted by `offset`; raises SS1001 at the first text that is no token."""
        is_failed, refusal = False, None
        try:
            with without_collection():
                raw = super().tokenize(text)
        except TokenError:
            check_not_given_up()
            tokens = cast(_Tokens, self.tokens)
            raw, is_failed, refusal = tokens, True, tokens.refusal
            if refusal is not None:
                raw = tokens.statements_before()
        position, in_hint = 0, False
        place = _Surroundings()
        for token in _joined(raw):
            check_not_given_up()
            _check_gap(text, position, token.start, offset)
            position = token.end + 1
            place.follow(token)
            checked = _checked(text, token, offset, place)
            if checked.token_type is TokenType.BLOCK_END and not in_hint:
                raise UserError(
                    "SS1001", 'unexpected "*/"', span=span(checked), hint="no comment is open here"
                )
            in_hint = checked.token_type is TokenType.HINT or (
                in_hint and checked.token_type is not TokenType.BLOCK_END
            )
            yield checked
        if refusal is not None:
            assert refusal.span is not None
            refusal.span = refusal.span.shift(offset)
            raise refusal from None
        if is_failed:
            raise _lexical_error(text, _gap_end(text, position, len(text)), offset)
        _check_gap(text, position, len(text), offset)


def check_size(tokens: list[Token]) -> None:
    """UserError SS3019 when a statement of these tokens is too long: one with semicolons, as all others are refused before."""
    if len(tokens) > WORDS_MAX:
        words = [token for token in tokens if token.token_type not in _UNCOUNTED]
        if len(words) > WORDS_MAX:
            raise _too_long(_TOO_MANY_WORDS, words[WORDS_MAX])


def _too_long(message: str, token: Token) -> UserError:
    return UserError("SS3019", message, span=span(token), hint="split it, or read its values from a table")


def tokenize(text: str, offset: int = 0) -> Iterator[Token]:
    """The tokens of `text`, lazily: an error is raised only after the tokens before it."""
    yield from FlinkTokenizer().read(text, offset)


def span(token: Token) -> Span:
    """The position of a token. sqlglot's `end` is the position of its last character."""
    return Span(token.start, token.end + 1)


_TEXTS = frozenset({TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING})


def word(token: Token) -> str:
    """The token's text in upper case, to be compared with keywords and operators; "" for literals and quoted names."""
    return "" if token.token_type in _TEXTS else token.text.upper()


def is_word(token: Token) -> bool:
    """Whether the token is an unquoted word, reserved or not."""
    return bool(_WORD.match(word(token)))


def _joined(tokens: list[Token]) -> Iterator[Token]:
    """The tokens, with `.5` as one number, which sqlglot reads as a dot and a number."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        if (
            token.token_type is TokenType.DOT
            and following is not None
            and following.token_type is TokenType.NUMBER
            and following.start == token.end + 1
        ):
            index += 1
            text = "." + following.text
            token = Token(TokenType.NUMBER, text, token.line, token.col, token.start, following.end)
        yield token


def _gap_end(text: str, position: int, end: int) -> int:
    match = _GAP.match(text, position, end)
    return match.end() if match else position


def _check_gap(text: str, start: int, end: int, offset: int) -> None:
    """SS1001 unless the text between two tokens is white space and closed comments."""
    if start == end or (end - start == 1 and text[start] in " \n"):
        return
    if start < end and (stop := _gap_end(text, start, end)) < end:
        raise _lexical_error(text, stop, offset)


class _Surroundings:
    """Where a token stands. `in_pattern`: in `PATTERN (…)`, whose operators are foreign characters elsewhere. `in_set`: in
    `SET key = value` without quotes, whose words are no numbers: `10s`, `3-4`."""

    def __init__(self) -> None:
        self.in_pattern, self.in_set = False, False
        self._depth, self._before, self._is_first = 0, "", True

    def follow(self, token: Token) -> None:
        """Of the next token."""
        if token.token_type is TokenType.L_PAREN and (self._depth or self._before == "PATTERN"):
            self._depth += 1
        elif token.token_type is TokenType.R_PAREN and self._depth:
            self._depth -= 1
        self._before = word(token)
        self.in_pattern = self._depth > 0
        if token.token_type is TokenType.SEMICOLON:
            self._is_first, self.in_set = True, False
        elif self._is_first:
            self._is_first, self.in_set = False, self._before == "SET"


def _checked(text: str, token: Token, offset: int, around: _Surroundings) -> Token:
    """The token, shifted and decoded, without the comments around it."""
    raw = text[token.start : token.end + 1]
    kind, value, place = token.token_type, token.text, Span(token.start + offset, token.end + 1 + offset)
    if not around.in_set and (
        kind is TokenType.NUMBER or raw[0] == "0"
    ):  # sqlglot reads 0x1F in many ways, Flink in none.
        is_followed = token.end + 1 < len(text) and _WORD.match(text[token.end + 1])
        if is_followed or not _NUMBER.fullmatch(raw):
            stop = place.end + 1 if is_followed else place.end
            hint = _number_hint(text, token.start)
            raise UserError("SS1001", "malformed number", span=Span(place.start, stop), hint=hint)
        if len(raw) > _NUMBER_CHARACTERS_MAX:
            message = f"a number of {len(raw)} characters is too long"
            raise UserError("SS1001", message, span=place, hint="a DECIMAL has 38 digits at most")
    elif kind is TokenType.HEX_STRING:
        value = _checked_hex(raw[2:-1], place)
    elif kind is TokenType.NATIONAL_STRING:  # Every text is Unicode.
        kind = TokenType.STRING
    elif kind is TokenType.UNICODE_STRING:
        kind, value = TokenType.STRING, _decode_unicode(raw, place.start)
    elif kind is _FOREIGN_CHARACTER and not (around.in_pattern and raw in _PATTERN_CHARACTERS):
        raise _lexical_error(text, token.start, offset)
    elif kind is TokenType.VAR and not _WORD.fullmatch(raw):
        match = _WORD.match(raw)
        raise _lexical_error(text, token.start + (match.end() if match else 0), offset)
    if not offset and not token.comments and kind is token.token_type and value is token.text:
        return token
    return Token(kind, value, token.line, token.col, place.start, place.end - 1)


def _number_hint(text: str, start: int) -> str:
    """What to write instead of a number with letters behind it."""
    run = _NUMBER_RUN.match(text, start)
    written = run.group() if run else ""
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", written):
        return f"write the number in decimal digits: {int(written, 16)}, or X'…' for bytes"
    if re.fullmatch(r"\d+(_\d+)+", written):
        return f"write the digits alone: {written.replace('_', '')}"
    if re.fullmatch(r"\d+[^\W\d_]\w*", written):
        return f"put a space after the number, or quote a name that begins with a digit: `{written}`"
    return "put a space after the number"


def _checked_hex(digits: str, place: Span) -> str:
    if len(digits) % 2 or not all(c in "0123456789abcdefABCDEF" for c in digits):
        hint = "write two hexadecimal digits per byte, such as X'0AFF'"
        raise UserError("SS1001", "malformed binary literal", span=place, hint=hint)
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


def _lexical_error(text: str, position: int, offset: int) -> UserError:
    prefix = _PREFIXED_STRING.match(text, position)
    opening_position = prefix.end() if prefix else position
    closing = text.find("'", opening_position + 1)
    if prefix and prefix.group() in "xX" and closing >= 0:
        place = Span(position + offset, closing + 1 + offset)
        hint = "write two hexadecimal digits per byte, such as X'0AFF'"
        return UserError("SS1001", "malformed binary literal", span=place, hint=hint)
    for opening, (what, hint) in _UNTERMINATED.items():
        if text.startswith(opening, opening_position):
            line_end = text.find("\n", position)
            stop = len(text) if line_end < 0 else line_end
            place = Span(position + offset, stop + offset)
            return UserError("SS1001", f"unterminated {what}", span=place, hint=hint)
    place = Span(position + offset, position + 1 + offset)
    char = text[position]
    if char == '"' and (quoted := _DOUBLE_QUOTED.match(text, position)):
        content = quoted[1]
        place = Span(position + offset, quoted.end() + offset)
        name, string = content.replace("`", "``"), content.replace("'", "''")
        hint = f"write `{name}` for a name, or '{string}' for a text"
        return UserError("SS1001", "double quotes have no meaning", span=place, hint=hint)
    is_rowtime = text[position : position + len(_ROWTIME)].lower() == _ROWTIME
    key = _ROWTIME if is_rowtime else char
    hint = _FOREIGN.get(key, "write a name in backticks (`name`) and a text in single quotes ('text')")
    return UserError("SS1001", f"unexpected character {char!r}", span=place, hint=hint)
