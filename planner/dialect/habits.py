"""What users of other dialects write, and the hint with what to write here instead. habits.txt has the words and their hints.

    hint_here(reader, expected)   by the words at the token that the grammar does not expect, and by those before it
    statement_hint(word)          by the first word of a statement that there is not
    object_hint(words)            by the first words of a CREATE, DROP or SHOW that there is not
    function_rewrite(name, …)     by the name of a function, with the texts of its arguments
    column_hint, table_hint       by names of columns and tables
    option_hint(key, known)       by the key of an option of a table

A hint is a rewrite that runs: tests/golden/errors/statements holds an example of each with its rewrite.
"""

from __future__ import annotations

import difflib
import functools
import re
import typing
from collections.abc import Container, Sequence
from pathlib import Path

from sqlglot import Token, TokenType

from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect.tokens import TABLE_FUNCTIONS, word

_ENDS = "the end of the statement"
_NILADIC = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")


@functools.cache
def _habits() -> dict[str, dict[str, str]]:
    """The hints of each section by what is written."""
    sections: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            hints = sections.setdefault(line[2:], {})
        elif sections and line:
            written, _, hint = line.partition(" -> ")
            hints |= dict.fromkeys(written.split(" | "), hint)
    return sections


def _hint(section: str, written: str) -> str:
    return _habits()[section].get(written, "")


def sample_hint() -> str:
    return _hint("words anywhere", "USING SAMPLE")


def join_hint(word: str) -> str:
    """For a kind of join that there is not."""
    return _hint("joins", word)


def share_hint() -> str:
    """For LIMIT with a percentage."""
    return _hint("limits", "PERCENT")


class Tokens(typing.Protocol):
    """What a hint looks at: the tokens around the place of the error."""

    def peek(self, ahead: int) -> Token: ...

    def source(self, start: int, end: int) -> str: ...


def hint_here(tokens: Tokens, expected: str) -> str:
    """The hint for the next token, which is not what is `expected`; empty when nothing is known of it."""
    token, before = tokens.peek(0), _before(tokens, 1)
    text, previous = word(token), word(before) if before else ""
    if before is not None and expected == '"("' and previous == "TABLE":
        return f"TABLE is a keyword; quote it as `{before.text}` to use it as a name"
    if not token:
        return ""
    two = f"{text} {word(tokens.peek(1))}"
    return (
        _subquery_hint(tokens, expected)
        or _operator_hint(tokens)
        or _literal_hint(tokens, expected)
        or _target_hint(tokens, text, expected, previous)
        or _backfill_hint(tokens, text, expected)
        or _hint("words before what is expected", f"{previous} then {expected}")
        or (_end_hint(tokens, text, two, previous) if expected.startswith(_ENDS) else "")
        or _place_hint(tokens, text, two, expected, previous)
        or _hint("words anywhere", two)
        or _hint("words anywhere", text)
    )


def _target_hint(tokens: Tokens, text: str, expected: str, previous: str) -> str:
    """The hint behind IN, INSERT and AS, where many dialects go on in their own ways."""
    token = tokens.peek(0)
    if previous == "IN" and expected == '"("':
        if text == "UNNEST":
            return "write value = ANY(array)"
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            return f"write = ANY({tokens.source(token.start, token.end + 1)}) for an array, or IN (1, 2)"
    if text == "OR" and previous == "INSERT":
        is_ignored = word(tokens.peek(1)) == "IGNORE"
        return "write INSERT INTO … ON CONFLICT DO NOTHING" if is_ignored else _hint("statements", "UPSERT")
    return "write SELECT * FROM …" if text == "FROM" and expected == "a query" else ""


def _backfill_hint(tokens: Tokens, text: str, expected: str) -> str:
    """The hint for WITH BACKFILL that is misspelled, or is not at the end of an INSERT."""
    name: Token | None = None
    if text == "WITH" and expected.startswith(_ENDS):
        name = tokens.peek(1)
    elif expected == '"AS"' and (first := _before(tokens, 2)) is not None and word(first) == "WITH":
        name = _before(tokens, 1)
    meant = "BACKFILL"
    if name is None or not (word(name) == meant or did_you_mean(word(name), (meant,))):
        return ""
    return "write it at the end of an INSERT: INSERT INTO t SELECT … WITH BACKFILL FROM history"


def _end_hint(tokens: Tokens, text: str, two: str, previous: str) -> str:
    """The hint for a token where the statement should end."""
    before = _before(tokens, 1)
    is_number = before is not None and before.token_type is TokenType.NUMBER
    if is_number and previous_word(tokens) in ("LIMIT", "OFFSET"):
        return share_hint() if text in ("%", "PERCENT") else "write a whole number of rows, such as 10"
    if text == "NOT" and previous == "IF":
        return "write IF NOT EXISTS"
    if text in ("LIKE", "ILIKE", "SIMILAR") and previous == "*":
        return "write the columns, or * EXCLUDE (column, …)"
    if text in ("FROM", "USING") and first_word(tokens) in ("UPDATE", "DELETE"):
        return "read the other table in a subquery: SET column = (SELECT …), or WHERE column IN (SELECT …)"
    behind, anywhere = _habits()["words behind a statement"], _habits()["words anywhere"]
    if found := behind.get(two) or anywhere.get(two) or behind.get(text):
        return found
    if text == "(" and previous in _NILADIC:
        return f"write {previous} without parentheses"
    if text == "(" and tokens.peek(1).token_type is TokenType.STRING:
        return "write WITH before the options"
    return "write PARTITIONED BY (column, …)" if two == "PARTITION BY" else ""


def _place_hint(tokens: Tokens, text: str, two: str, expected: str, previous: str) -> str:
    """The hint for a word that is wrong at this place alone."""
    if expected == '")"':
        if text == "AS" and open_parenthesis(tokens).upper() == "SAFE_CAST(":
            return "write TRY_CAST(value AS type)"
        within_parentheses = {
            "EXCLUDE": "leave EXCLUDE out; a frame that ends at 1 PRECEDING or begins at 1 FOLLOWING has not the current row",
            "ORDER": "leave ORDER BY out: this aggregate takes rows in the order of their arrival;"
            " LISTAGG and ARRAY_AGG take an order",
            "NOT": "write NOT NULL, or remove NOT",
        }
        if text in within_parentheses:
            return within_parentheses[text]
    if expected.startswith("an expression"):
        if text == ",":
            return "remove the comma, or write what is missing before it"
        if text == "FROM" and previous in ("SELECT", "DISTINCT"):
            return "write the columns, or * for all of them"
    if previous == "DISTINCT" and text == "ON":
        return "keep one row of each key: QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY column) = 1"
    if text == "ALL" and previous == "BY":
        return "write the columns; ORDER BY ALL orders a whole query"
    if previous == "LIKE" and text in ("ANY", "ALL", "SOME"):
        return _hint("words anywhere", "LIKE ANY")
    if previous == "COLUMNS" or (text == "*" and open_parenthesis(tokens).upper() == "COLUMNS("):
        return "write the columns, or * EXCLUDE (column, …); a call is written for each column"
    if text == "TABLE" and tokens.peek(1).token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        name = tokens.source(tokens.peek(1).start, tokens.peek(1).end + 1)
        return f"write SELECT * FROM {name}" if expected in ("a statement", "a query") else "leave TABLE out"
    if text == "INTO" and previous == "REPLACE":
        return _hint("statements", "UPSERT")
    if text == "INTO" and previous == "OVERWRITE":
        return "leave INTO out"
    if text == "SELECT" and expected == '"AS"':
        return "write AS before the query"
    if text == "SET" and expected == "a query":
        return "write INSERT INTO table (column, …) VALUES (value, …)"
    return ""


def first_word(tokens: Tokens) -> str:
    """The word that the statement begins with."""
    back, found = 1, ""
    while (token := _before(tokens, back)) is not None and word(token) != ";":
        found, back = word(token), back + 1
    return found


def previous_word(tokens: Tokens) -> str:
    """The word before the last token that was read."""
    token = _before(tokens, 2)
    return word(token) if token is not None else ""


def habit_before(tokens: Tokens) -> tuple[Token, str] | None:
    """A word of another dialect that was read as an alias before the token that is not expected, and its hint."""
    before = _before(tokens, 1)
    hint = _hint("words read as an alias", word(before)) if before else ""
    if not hint or not tokens.peek(0) or before is None:
        return None
    token = tokens.peek(0)
    return before, hint.format(tokens.source(token.start, token.end + 1))


def is_plausible_name(tokens: Tokens) -> bool:
    """Whether the reserved word at the next token was probably meant as a name: nothing that begins a value follows it."""
    following = tokens.peek(1)
    if word(tokens.peek(0)) in ("AND", "OR", "THEN", "ELSE", "WHEN", "ON", "SELECT", "FROM", "END", "BY"):
        return word(following) in (",", ")", "FROM", ".", "=", "") and word(tokens.peek(0)) not in (
            "SELECT",
            "FROM",
        )
    return following.token_type not in (TokenType.VAR, TokenType.STRING, TokenType.NUMBER) or word(
        tokens.peek(0)
    ) not in ("INTO", "TABLE", "PARTITION", "ALL")


def open_parenthesis(tokens: Tokens) -> str:
    """The text before the innermost parenthesis that is still open at the next token, with it."""
    depth, back = 0, 1
    while (token := _before(tokens, back)) is not None:
        depth += {")": 1, "(": -1}.get(word(token), 0)
        if depth < 0:
            named = _before(tokens, back + 1)
            is_call = named is not None and named.end + 1 == token.start
            return tokens.source(named.start if is_call and named else token.start, token.end + 1)
        back += 1
    return ""


def _before(tokens: Tokens, back: int) -> Token | None:
    try:
        token = tokens.peek(-back)
    except IndexError:
        return None
    return token if token else None


def _subquery_hint(tokens: Tokens, expected: str) -> str:
    if word(tokens.peek(0)) not in ("SELECT", "WITH", "VALUES"):
        return ""
    before = _before(tokens, 1)
    if expected.startswith("an expression") or expected == '"("':
        within_call = before is not None and word(before) == "("
        return "" if within_call else "put the query in parentheses: (SELECT …)"
    if expected == "a column name" and before is not None and word(before) == "(":
        return "write AS before the parenthesis: WITH name AS (SELECT …)"
    if expected == "a table name" and word(tokens.peek(0)) == "SELECT":
        is_listed = before is not None and word(before) == ","
        return "remove the comma before it" if is_listed else "put the query in parentheses: (SELECT …)"
    return ""


def _operator_hint(tokens: Tokens) -> str:
    """The hint for an operator of two characters that is read as two operators."""
    before, token = _before(tokens, 1), tokens.peek(0)
    pair = word(before) + word(token) if before is not None and before.end + 1 == token.start else ""
    if pair in ("->", "->>"):
        return (
            "write JSON_VALUE(json, '$.key') or map['key']; functions of functions (x -> …) are not supported"
        )
    return _hint("operators", pair)


def _literal_hint(tokens: Tokens, expected: str) -> str:
    before, token = _before(tokens, 1), tokens.peek(0)
    if word(token) == "UNNEST" and expected.startswith("an expression"):
        return "write FROM t CROSS JOIN UNNEST(array) AS u (element)"
    if token.token_type is TokenType.STRING:
        if before is not None and before.end + 1 == token.start and before.token_type is TokenType.VAR:
            return "a string has no prefix: write 'text', U&'\\20AC' for a character by its number, or X'0AFF' for bytes"
        if expected in ("a column name", "a table alias") or expected.startswith(_ENDS):
            quoted = token.text.replace("`", "``")
            return f"write a name in backticks: `{quoted}`" if token.text else ""
    if word(token) == "[":
        if before is not None and expected in ('")"', '">"') and before.token_type is TokenType.VAR:
            return f"write ARRAY<{before.text}>"
        if expected.startswith("an expression"):
            return "write ARRAY[1, 2] for an array, and `name` for a name"
    if word(token) == ":":
        if expected == '"]"':
            return "write ARRAY_SLICE(array, first, last)"
        is_value = expected.startswith("an expression")
        return (
            "a statement has no parameters: write the value"
            if is_value
            else "write JSON_VALUE(json, '$.key')"
        )
    if (
        word(token) == "-"
        and expected.startswith(_ENDS)
        and before is not None
        and before.end + 1 == token.start
    ):
        following = tokens.peek(1)
        if before.token_type is TokenType.VAR and following.token_type is TokenType.VAR:
            return f"quote a name with other characters than letters, digits and _: `{before.text}-{following.text}`"
    return ""


def statement_hint(first: str) -> str:
    """What to write instead of a statement that begins with this word, in upper case; empty when nothing is known."""
    return _hint("statements", first)


def foreign_table_function(name: str) -> str:
    """What to write instead of a table function of another dialect, by its name in upper case."""
    return _hint("table functions", name)


_FLINK_TABLE_FUNCTIONS = frozenset({"ML_FORECAST"})
_TABLE_FUNCTIONS_HINT = (
    "the window functions are TUMBLE, HOP, CUMULATE and SESSION, the others FROM_CHANGELOG and TO_CHANGELOG;"
    " your own are made by CREATE FUNCTION"
)


def refused_table_function(name: str) -> bool:
    """Whether another dialect, or Flink, has a table function of this name."""
    return name.upper() in _FLINK_TABLE_FUNCTIONS or bool(foreign_table_function(name.upper()))


def unknown_table_function(name: str, span: Span | None, own: tuple[str, ...] = ()) -> UserError:
    """The error for a table function that there is not, to be raised: SS1003 where Flink has it, else SS2005 with the nearest
    name, also of a user's `own`."""
    if name.upper() in _FLINK_TABLE_FUNCTIONS:
        hint = "ML_PREDICT calls a model; a table function of yours can do the rest: CREATE FUNCTION"
        return UserError("SS1003", f'the table function "{name}" is not supported yet', span=span, hint=hint)
    hint = (
        foreign_table_function(name.upper())
        or did_you_mean(name, (*own, *TABLE_FUNCTIONS))
        or foreign_table_function(
            "".join(difflib.get_close_matches(name.upper(), _habits()["table functions"], n=1, cutoff=0.8))
        )
        or _TABLE_FUNCTIONS_HINT
    )
    return UserError("SS2005", f'table function "{name}" does not exist', span=span, hint=hint)


def object_hint(words: str) -> str:
    """What to write instead of a statement of these two first words, in upper case; empty when nothing is known."""
    return _hint("objects", words)


_FILE_SUFFIXES = ("CSV", "TSV", "JSON", "NDJSON", "JSONL", "PARQUET")


@functools.cache
def foreign_functions() -> dict[str, tuple[list[str], str]]:
    """By name: the parameters of its usual call, and the rewrite with them."""
    calls = ((call.rstrip(")").partition("("), rewrite) for call, rewrite in _habits()["functions"].items())
    return {name: (given.split(", ") if given else [], rewrite) for (name, _, given), rewrite in calls}


def function_rewrite(name: str, arguments: Sequence[str] | None) -> str:
    """What to write instead of a call of another dialect's function; empty when the function is not known.

    It has the texts of the arguments when they are as many as the function usually has. `unit` is written as a word.

    >>> function_rewrite("DATE_TRUNC", ["'month'", "ts"])
    'FLOOR(ts TO MONTH)'
    >>> function_rewrite("DATE_TRUNC", None)
    'FLOOR(timestamp TO unit)'
    """
    found = foreign_functions().get(name)
    if found is None:
        return ""
    names, rewrite = found
    if arguments is None or len(arguments) != len(names):
        return rewrite
    written = dict(zip(names, arguments, strict=True))
    if "days" in written and written["days"].upper().startswith("INTERVAL "):
        # DATE_ADD(date, INTERVAL 1 DAY) of MySQL.
        return f"{written['date']} {'-' if name == 'DATE_SUB' else '+'} {written['days']}"
    if "unit" in written:
        written["unit"] = written["unit"].strip("'").upper()
    if not written or any(len(text) > 60 for text in written.values()):
        return rewrite
    parts = re.split(r"('[^']*'|\b(?:" + "|".join(names) + r")\b)", rewrite)
    return "".join(written.get(part, part) for part in parts)


def column_hint(name: str) -> str:
    """What to write instead of a name that other dialects know as a column; empty when nothing is known."""
    return _hint("columns", name.upper())


def table_hint(parts: Sequence[str]) -> str:
    """The same of the parts of a table's name: a table of a system, or a file without its quotes."""
    if len(parts) > 1 and parts[-1].upper() in _FILE_SUFFIXES:
        return f"write the path of a file in single quotes: FROM '{'.'.join(parts)}'"
    return next((hint for part in parts if (hint := _hint("tables", part.upper()))), "")


_LEFT_OUT = (
    *("connector.version", "connector.property-version", "format.property-version"),
    *("update-mode", "format.derive-schema"),
)
_OLD_PROPERTIES = "connector.properties."
_OF_TOPICS = "kafka."
_IGNORE_ERRORS = ("csv.ignore-parse-errors", "json.ignore-parse-errors")


def option_hint(key: str, known: Container[str]) -> str:
    """What to write instead of another name of a table's option; empty for another key.

    `known` are the keys that the table may have. Another name is not taken, since several stand for one."""
    if key in _LEFT_OUT:
        return "leave it out"
    if "topic" in known:
        return _topic_hint(key, known) or _renamed_option(key, known)
    return _renamed_option(key, known)


def _topic_hint(key: str, known: Container[str]) -> str:
    """The same for a table of Kafka: options of Flink 1.10, and those of services that make topics for their tables."""
    if key.startswith(_OLD_PROPERTIES):
        return f"write 'properties.{key.removeprefix(_OLD_PROPERTIES)}', as it is called here"
    if key.startswith(_OF_TOPICS):
        return "leave it out, and set it where the topic is made: a table does not make its topic"
    if key == "changelog.mode":
        return "leave it out: connector 'kafka' appends, 'upsert-kafka' reads and writes changes by key"
    if key == "scan.startup.mode":
        return "leave it out: changes by key are read from the begin of their topic"
    return ""


def _renamed_option(key: str, known: Container[str]) -> str:
    keys = (_hint("options of tables", key),) if key != "format.ignore-parse-errors" else _IGNORE_ERRORS
    new = next((k for k in keys if k in known), "")
    cached = " with 'lookup.cache' = 'PARTIAL'" if new.startswith("lookup.partial-cache") else ""
    return f"write '{new}'{cached}, as it is called here" if new else ""
