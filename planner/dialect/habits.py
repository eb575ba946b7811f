"""What users of other dialects write, and the hint with what to write here instead.

    hint_here(reader, expected)   by the words at the token that the grammar does not expect, and by those before it
    statement_hint(word)          by the first word of a statement that there is not
    object_hint(words)            by the first words of a CREATE, DROP or SHOW that there is not

A hint is a rewrite that runs: tests/golden/errors/statements holds an example of each with its rewrite.
"""

from __future__ import annotations

import difflib
import typing

from sqlglot import Token, TokenType

from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect.tokens import TABLE_FUNCTIONS, word

_CLAUSES = "the clauses of a query are SELECT, FROM, WHERE, GROUP BY, HAVING, WINDOW, QUALIFY, ORDER BY and LIMIT, in this order"
_REPLACE = "write INSERT INTO; in a table with a PRIMARY KEY the rows of one key replace each other"
_NO_BITS = "there are no operators on bits"
_ZONE = (
    "a TIMESTAMP_LTZ is shown in the zone of SET 'table.local-time-zone'; a TIMESTAMP goes from one zone to another by"
    " TO_TIMESTAMP(CONVERT_TZ(DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss'), 'UTC', 'Europe/Rome'))"
)
SAMPLE = "write WHERE RAND() < 0.1 for a tenth of the rows, or ORDER BY RAND() LIMIT 10 for ten"
SHARE = "write QUALIFY PERCENT_RANK() OVER (ORDER BY column) < 0.1 for a tenth of the rows"
_PATTERNS = "write LIKE for each pattern, with OR (ANY) or AND (ALL) between them"
_CONNECTOR = "say where the rows are by WITH ('connector' = '…', …)"

_ENDS = "the end of the statement"
_NILADIC = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_AT = {
    "REGEXP": "write REGEXP(string, pattern)",
    "RLIKE": "write REGEXP(string, pattern)",
    "GLOB": "write LIKE with % and _ in the pattern",
    "ISNULL": "write IS NULL",
    "NOTNULL": "write IS NOT NULL",
    "RETURNING": "INSERT, UPDATE and DELETE return no rows: leave RETURNING out",
    "AT TIME": _ZONE,
    "AT LOCAL": _ZONE,
    "USING SAMPLE": SAMPLE,
    "POSITIONAL": "number the rows of both tables with ROW_NUMBER() OVER (ORDER BY …) AS n, and join them by n",
    "LIKE ANY": _PATTERNS,
    "LIKE ALL": _PATTERNS,
    "NOT MATERIALIZED": "leave NOT MATERIALIZED out",
    "CASCADE": "leave CASCADE out: what refers to the object stays, and fails when it is used",
    "RESTRICT": "leave RESTRICT out: what refers to the object stays, and fails when it is used",
    "WITH NO": "leave WITH NO DATA out: a view has no rows of its own",
    "ON DUPLICATE": "leave it out: in a table with a PRIMARY KEY the rows of one key replace each other",
    "FOR UPDATE": "a query locks nothing: leave it out",
    "FOR SHARE": "a query locks nothing: leave it out",
    "EMIT": "leave EMIT out: a query over a stream shows every change of its result",
    "WITH ROLLUP": "write GROUP BY ROLLUP (…)",
    "WITH CUBE": "write GROUP BY CUBE (…)",
    "WITH TIES": "write QUALIFY RANK() OVER (ORDER BY …) <= n",
    "WITH (": "write options behind the name of a table: t /*+ OPTIONS('key' = 'value') */",
    "ENGINE": _CONNECTOR,
    "STORED": _CONNECTOR,
    "LOCATION": _CONNECTOR,
    "TBLPROPERTIES": _CONNECTOR,
    "CHECK": "leave CHECK out: a table does not test its rows; filter them in a query",
    "REFERENCES": "leave it out: a table does not know the rows of another",
    "AUTO_INCREMENT": "leave it out: a table does not number its rows",
    "AUTOINCREMENT": "leave it out: a table does not number its rows",
    "IDENTITY": "leave it out: a table does not number its rows",
    "GENERATED": "write a computed column as: name AS expression",
    "UNSIGNED": "write the next wider type, such as BIGINT for an unsigned INT",
    "COLLATE": "leave COLLATE out: text is compared by its characters",
    "ASCENDING": "write ASC",
    "DESCENDING": "write DESC",
    "GROUPS": "number the groups in a subquery, DENSE_RANK() OVER (ORDER BY column) AS g, and write ORDER BY g RANGE BETWEEN …",
    "APPLY": "write CROSS JOIN LATERAL (SELECT …) AS name, or LEFT JOIN LATERAL (…) AS name ON TRUE",
    "MATERIALIZED": "leave MATERIALIZED out",
    "VALUE (": "write VALUES",
    "DEFAULT VALUES": "write VALUES with a value for each column",
    "&": _NO_BITS,
    "?": "a statement has no parameters: write the value",
}
"""Words at the token that is not expected, wherever that is."""

_AT_END = {
    "INTO": "write INSERT INTO table SELECT …, or CREATE TABLE … AS SELECT …",
    "NOT NULL": "write IS NOT NULL",
    "SELECT": "put a semicolon between two statements, or UNION ALL between two queries",
    **dict.fromkeys(
        ("UNION", "INTERSECT", "EXCEPT", "MINUS"), "put the query before it in parentheses: (SELECT …)"
    ),
    **dict.fromkeys(("FROM", "WHERE", "GROUP BY", "HAVING", "WINDOW", "QUALIFY", "ORDER BY"), _CLAUSES),
    **dict.fromkeys(("JOIN", "LEFT", "INNER", "CROSS", "ON"), "joins stand in FROM, before WHERE"),
    "EXCLUDE": "write * EXCLUDE (column, …)",
    "RENAME": "write * RENAME (column AS name, …)",
    "TABLESAMPLE": SAMPLE,
    "ASOF": "write a temporal join: JOIN versions FOR SYSTEM_TIME AS OF t.ts AS v ON t.key = v.key",
    "REPLACE": "write * REPLACE (expression AS column, …)",
    ")": "remove it: no parenthesis is open here",
}
"""The same where a statement should end."""

_BEHIND = {
    "TOP": "write LIMIT {0} at the end of the query",
    "DIV": "write /, which divides whole numbers to a whole number",
    "MOD": "write % or MOD(a, b)",
    "XOR": "write <> between two conditions",
    "GROUPBY": "write GROUP BY",
    "ORDERBY": "write ORDER BY",
    "START": "recursive queries are not supported",
    "CONNECT": "recursive queries are not supported",
    "DATABASE": "leave DATABASE out: USE {0}",
    "AT": _ZONE,
}
"""The word before the token that is not expected, which was read as an alias; {0} is the token."""

_EXPECTED = {
    ('"BY"', "GROUP"): "write GROUP BY",
    ('"BY"', "ORDER"): "write ORDER BY",
    ('"BY"', "PARTITION"): "write PARTITION BY",
    ('"AND"', ","): "write BETWEEN low AND high",
    ('"WHERE"', "("): "write FILTER (WHERE condition)",
    ('"("', "IN"): "put the values or the query in parentheses: IN (1, 2)",
    ('"("', "USING"): "write USING (column)",
    ('"("', "ROLLUP"): "write ROLLUP (a, b)",
    ('"("', "CUBE"): "write CUBE (a, b)",
    ('"("', "SETS"): "write GROUPING SETS ((a, b), (a), ())",
    ('"("', "PIVOT"): "write t PIVOT (SUM(x) FOR column IN (value, …))",
    ('"INTO"', "INSERT"): "write INSERT INTO",
    ('"BEGIN"', "SET"): "write EXECUTE STATEMENT SET BEGIN insert; … END",
    (
        '"STATEMENT"',
        "BEGIN",
    ): "there are no transactions: every INSERT is a job of its own; several are one in "
    "EXECUTE STATEMENT SET BEGIN … END",
    ("FIRST or NEXT", "FETCH"): "write FETCH FIRST n ROWS ONLY, or LIMIT n",
    ("a window name or (", "OVER"): "write OVER (PARTITION BY … ORDER BY …)",
    ("NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM", "IS"): "compare values with =",
    ("a query", "WITH"): "write WITH name AS (SELECT …) SELECT …",
}
"""What is expected, and the word before it."""


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
        or _EXPECTED.get((expected, previous), "")
        or (_end_hint(tokens, text, two, previous) if expected.startswith(_ENDS) else "")
        or _place_hint(tokens, text, two, expected, previous)
        or _AT.get(two)
        or _AT.get(text, "")
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
        return "write INSERT INTO … ON CONFLICT DO NOTHING" if is_ignored else _REPLACE
    return "write SELECT * FROM …" if text == "FROM" and expected == "a query" else ""


def _end_hint(tokens: Tokens, text: str, two: str, previous: str) -> str:
    """The hint for a token where the statement should end."""
    before = _before(tokens, 1)
    is_number = before is not None and before.token_type is TokenType.NUMBER
    if is_number and previous_word(tokens) in ("LIMIT", "OFFSET"):
        return SHARE if text in ("%", "PERCENT") else "write a whole number of rows, such as 10"
    if text == "NOT" and previous == "IF":
        return "write IF NOT EXISTS"
    if text in ("LIKE", "ILIKE", "SIMILAR") and previous == "*":
        return "write the columns, or * EXCLUDE (column, …)"
    if text in ("FROM", "USING") and first_word(tokens) in ("UPDATE", "DELETE"):
        return "read the other table in a subquery: SET column = (SELECT …), or WHERE column IN (SELECT …)"
    if found := _AT_END.get(two) or _AT.get(two) or _AT_END.get(text):
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
        return _PATTERNS
    if previous == "COLUMNS" or (text == "*" and open_parenthesis(tokens).upper() == "COLUMNS("):
        return "write the columns, or * EXCLUDE (column, …); a call is written for each column"
    if text == "TABLE" and tokens.peek(1).token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        name = tokens.source(tokens.peek(1).start, tokens.peek(1).end + 1)
        return f"write SELECT * FROM {name}" if expected in ("a statement", "a query") else "leave TABLE out"
    if text == "INTO" and previous == "REPLACE":
        return _REPLACE
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
    hint = _BEHIND.get(word(before), "") if before else ""
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
    hints = {
        "**": "write POWER(x, y)",
        "//": "write /, which divides whole numbers to a whole number",
        "<<": _NO_BITS,
        ">>": _NO_BITS,
        "><": "write <> for unequal",
        "=<": "write <=",
        "=>": "write >=",
        "==": "write a single = to compare",
    }
    return hints.get(pair, "")


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


_STATEMENTS = {
    "FROM": "write SELECT * FROM …; the columns come first",
    "PIVOT": "write SELECT * FROM t PIVOT (SUM(x) FOR column IN (value, …))",
    "UNPIVOT": "write SELECT * FROM t UNPIVOT (value FOR name IN (a, b))",
    **dict.fromkeys(
        ("COMMIT", "ROLLBACK", "START", "SAVEPOINT"),
        "there are no transactions: every INSERT is a job of its own",
    ),
    **dict.fromkeys(
        ("GRANT", "REVOKE"), "rights are not part of SQL here; a server has tokens (docs/server.md)"
    ),
    **dict.fromkeys(
        ("VACUUM", "OPTIMIZE", "REFRESH", "CHECKPOINT"), "leave it out: nothing needs to be tidied up"
    ),
    **dict.fromkeys(
        ("COPY", "IMPORT", "EXPORT", "ATTACH"),
        "read files with SELECT * FROM 'file.csv', and write them with INSERT INTO a table of connector filesystem",
    ),
    **dict.fromkeys(("PRAGMA", "DECLARE"), "SET 'key' = 'value' changes a setting; SET alone lists them"),
    **dict.fromkeys(("MERGE", "UPSERT"), _REPLACE),
    "SUMMARIZE": "write the aggregates: SELECT COUNT(*), MIN(column), MAX(column) FROM t",
    **dict.fromkeys(
        ("HELP", "EXIT", "QUIT", "CLEAR"), "this is a command of the shell; leave it out of scripts"
    ),
    "KILL": "write STOP JOB 'id'; SHOW JOBS lists the jobs",
    "CANCEL": "write STOP JOB 'id'; SHOW JOBS lists the jobs",
    "LIST": "write SHOW TABLES",
}


def statement_hint(first: str) -> str:
    """What to write instead of a statement that begins with this word, in upper case; empty when nothing is known."""
    return _STATEMENTS.get(first, "")


_UNNEST = "write FROM t CROSS JOIN UNNEST(array) AS u (element)"
_FOREIGN_TABLE_FUNCTIONS = {
    **dict.fromkeys(
        ("GENERATE_SERIES", "RANGE", "SEQUENCE", "GENERATE_SEQUENCE"),
        "write FROM (VALUES (1), (2), (3)) AS v (x), or a table of connector datagen with 'fields.x.kind' = 'sequence'",
    ),
    **dict.fromkeys(
        ("READ_CSV", "READ_CSV_AUTO", "READ_JSON", "READ_JSON_AUTO", "READ_PARQUET", "PARQUET_SCAN"),
        "write the path alone: FROM 'file.csv'",
    ),
    **dict.fromkeys(("EXPLODE", "FLATTEN", "JSON_TABLE", "JSON_EACH", "UNWIND"), _UNNEST),
    "VALUES": "write FROM (VALUES (1), (2)) AS v (x)",
}


def foreign_table_function(name: str) -> str:
    """What to write instead of a table function of another dialect, by its name in upper case."""
    return _FOREIGN_TABLE_FUNCTIONS.get(name, "")


_FLINK_TABLE_FUNCTIONS = frozenset({"ML_PREDICT", "ML_FORECAST", "ML_EVALUATE", "VECTOR_SEARCH"})
_TABLE_FUNCTIONS_HINT = (
    "the window functions are TUMBLE, HOP, CUMULATE and SESSION, the others FROM_CHANGELOG and TO_CHANGELOG;"
    " your own are made by CREATE FUNCTION"
)


def unknown_table_function(name: str, span: Span | None, own: tuple[str, ...] = ()) -> UserError:
    """The error for a table function that there is not, to be raised: SS1003 where Flink has it, else SS2005 with the nearest
    name, also of a user's `own`."""
    if name.upper() in _FLINK_TABLE_FUNCTIONS:
        hint = "models are not supported; a table function of yours can call one: CREATE FUNCTION"
        return UserError("SS1003", f'the table function "{name}" is not supported yet', span=span, hint=hint)
    hint = (
        foreign_table_function(name.upper())
        or did_you_mean(name, (*own, *TABLE_FUNCTIONS))
        or foreign_table_function(
            "".join(difflib.get_close_matches(name.upper(), _FOREIGN_TABLE_FUNCTIONS, n=1, cutoff=0.8))
        )
        or _TABLE_FUNCTIONS_HINT
    )
    return UserError("SS2005", f'table function "{name}" does not exist', span=span, hint=hint)


_TABLE = "write CREATE TABLE name (…) WITH ('connector' = '…', …)"
_OBJECTS = {
    "CREATE TEMP": "write CREATE TEMPORARY",
    "CREATE EXTERNAL": _TABLE,
    "CREATE STREAM": _TABLE,
    "CREATE SOURCE": _TABLE,
    "CREATE SINK": _TABLE,
    "CREATE SCHEMA": "write CREATE DATABASE",
    "CREATE INDEX": "leave it out: tables have no indexes",
    "CREATE UNIQUE": "leave it out: tables have no indexes; declare PRIMARY KEY (…) NOT ENFORCED in CREATE TABLE",
    "CREATE MATERIALIZED": "write CREATE TABLE … AS query, whose job keeps the table up to date, or CREATE VIEW",
    "CREATE TYPE": "write the type where it is used, such as ROW<a INT, b STRING>",
    "CREATE SEQUENCE": "number rows with ROW_NUMBER() OVER (ORDER BY …), or with connector datagen",
    "CREATE USER": "rights are not part of SQL here; a server has tokens (docs/server.md)",
    "CREATE ROLE": "rights are not part of SQL here; a server has tokens (docs/server.md)",
    "CREATE TRIGGER": "write INSERT INTO … SELECT …, which runs for every row that arrives",
    "CREATE PROCEDURE": "put the statements in a file: sqlstream run file.sql",
    "DROP SCHEMA": "write DROP DATABASE",
    "DROP INDEX": "leave it out: tables have no indexes",
    "SHOW SCHEMAS": "write SHOW DATABASES",
    "SHOW INDEXES": "tables have no indexes; DESCRIBE shows the primary key",
    "SHOW INDEX": "tables have no indexes; DESCRIBE shows the primary key",
    "SHOW ALL": "write SHOW TABLES",
    "SHOW SETTINGS": "write SET",
    "SHOW VARIABLES": "write SET",
    "SHOW CREATE": "write SHOW CREATE TABLE, VIEW or CATALOG and the name",
    "DESCRIBE SCHEMA": "write DESCRIBE DATABASE",
}


def object_hint(words: str) -> str:
    """What to write instead of a statement of these two first words, in upper case; empty when nothing is known."""
    return _OBJECTS.get(words, "")
