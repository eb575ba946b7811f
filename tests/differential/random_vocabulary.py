"""The words of random queries: the columns of their tables, and expressions, aggregates and frames by kind of value."""

from __future__ import annotations

import dataclasses
import datetime

KINDS = ("small", "int", "big", "dec", "double", "str", "bool", "date", "ts", "ltz")
KEY_KINDS = ("small", "int", "big", "dec", "str", "bool", "date", "ts", "ltz")

BASE = "a TINYINT, b INT, c BIGINT, d DECIMAL(8, 2), x DOUBLE, s STRING, o BOOLEAN, y DATE, z TIMESTAMP_LTZ(3), ts TIMESTAMP(3)"
BASE_COLUMNS = (
    *(("a", "small"), ("b", "int"), ("c", "big"), ("d", "dec"), ("x", "double"), ("s", "str")),
    *(("o", "bool"), ("y", "date"), ("z", "ltz"), ("ts", "ts")),
)
OTHER = "g SMALLINT, h BIGINT, m INT NOT NULL, p DECIMAL(12, 4), v VARCHAR(3), w CHAR(2), z TIMESTAMP_LTZ(3), ts TIMESTAMP(3)"
OTHER_COLUMNS = (
    ("g", "small"),
    ("h", "big"),
    ("m", "int"),
    ("p", "dec"),
    ("v", "str"),
    ("w", "str"),
    ("z", "ltz"),
    ("ts", "ts"),
)

CHANGED = "id INT, g SMALLINT, h BIGINT, p DECIMAL(12, 4), v VARCHAR(3), o BOOLEAN"
CHANGED_COLUMNS = (("id", "int"), ("g", "small"), ("h", "big"), ("p", "dec"), ("v", "str"), ("o", "bool"))

LOOKED_UP = "i INT, h BIGINT, v STRING, p DECIMAL(12, 4)"
LOOKED_UP_COLUMNS = (("i", "int"), ("h", "big"), ("v", "str"), ("p", "dec"))
CACHES = ("FULL", "FULL", "NONE", "PARTIAL")

WORDS = ("", " ", "a", "b", "ab", "ä", "A", "a ", "日本", "x,y", "7")
LITERALS: dict[str, tuple[str, ...]] = {
    "small": ("CAST(1 AS TINYINT)", "CAST(-3 AS SMALLINT)"),
    "int": ("0", "1", "-2", "5", "CAST(NULL AS INT)"),
    "big": ("CAST(2 AS BIGINT)", "3000000000"),
    "dec": ("0.5", "-1.25", "7.0", "CAST(NULL AS DECIMAL(4, 1))"),
    "double": ("0.5E0", "-2E0"),
    "str": ("''", "'a'", "'ab'", "'ä'", "CAST(NULL AS STRING)"),
    "bool": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "date": ("DATE '1969-12-31'", "DATE '2024-02-29'"),
    "ltz": (
        "CAST(TIMESTAMP '1970-01-01 00:00:00' AS TIMESTAMP_LTZ(3))",
        "TO_TIMESTAMP_LTZ(1709251199999, 3)",
    ),
    "ts": ("TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-02-29 23:59:59.999'"),
}
EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "small": ("ABS({small})", "SIGN({int})", "CAST({bool} AS TINYINT)", "({int} % CAST(7 AS TINYINT))"),
    "int": (
        "({int} + {small})", "({int} - {int})", "({small} * {int})", "({int} / 3)", "({int} / NULLIF({int}, 0))",
        "MOD({int}, -4)", "(- {int})", "CHAR_LENGTH({str})", "POSITION({str} IN {str})", "CAST({double} AS INT)",
        "CAST({dec} AS INT)", "TRY_CAST({str} AS INT)", "ROUND({int}, -1)", "CARDINALITY(ARRAY[{int}, 2])", "ARRAY[{int}, 7][2]",
        "CASE {int} WHEN 1 THEN {int} WHEN 2 THEN 0 END",
        "LOCATE({str}, {str})", "TRUNCATE({int}, -1)", "REGEXP_COUNT({str}, '[a-b]')", "CARDINALITY(MAP['a', {int}, 'b', 1])",
        "MAP['a', {int}, 'b', {small}]['b']", "ASCII({str})", "MAP_UNION(MAP['a', {int}, 'b', 2], MAP['a', {int}])['a']",
        "MAP_VALUES(MAP['a', {int}])[1]", "MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[{int}, {int}])['b']",
        "CARDINALITY(MAP_KEYS(MAP[COALESCE({str}, 'k'), 1, 'a', 2]))", "MAP_ENTRIES(MAP[7, {int}])[1].`value`",
        "ARRAY_MAX(ARRAY[{int}, {int}])", "ARRAY_POSITION(ARRAY[{int}, 1, 2], {int})", "ELEMENT(ARRAY[{int}])",
        "CARDINALITY(ARRAY_UNION(ARRAY[{int}, 1], ARRAY[{int}, 2]))", "ARRAY_SORT(ARRAY[{int}, {int}])[1]",
        "MAP[COALESCE({date}, DATE '1970-01-01'), {int}, DATE '2024-02-29', 1][DATE '2024-02-29']",
    ),
    "big": (
        "({big} + {int})", "CAST({int} AS BIGINT)", "EXTRACT(YEAR FROM {ts})", "DAYOFWEEK({date})", "QUARTER({date})",
        "HOUR({ts})", "EXTRACT(WEEK FROM {date})", "({big} / 7)", "MOD({big}, 5)", "TIMESTAMPDIFF(DAY, {ts}, {ts})",
        "TIMESTAMPDIFF(MONTH, {date}, {date})", "EXTRACT(HOUR FROM {ltz})", "TIMESTAMPDIFF(MINUTE, {ltz}, {ltz})",
    ),
    "dec": (
        "({dec} + {dec})", "({dec} * {small})", "({dec} - {int})", "({dec} / 4)", "({dec} * 0.25)", "ROUND({dec}, 1)",
        "FLOOR({dec})", "CEIL({dec})", "CAST({int} AS DECIMAL(20, 3))", "CAST({dec} AS DECIMAL(30, 1))", "ABS({dec})",
        "({dec} % 3)", "CAST({double} AS DECIMAL(12, 2))",
    ),
    "double": ("({double} + {int})", "({double} * 0.5E0)", "CAST({dec} AS DOUBLE)", "FLOOR({double})", "ABS({double})"),
    "str": (
        "({str} || {str})", "UPPER({str})", "LOWER({str})", "TRIM({str})", "SUBSTRING({str} FROM 2)", "SUBSTRING({str} FROM -1)",
        "SUBSTRING({str} FROM 1 FOR 1)", "LEFT({str}, 1)", "RIGHT({str}, 1)", "REPLACE({str}, 'a', {str})", "REVERSE({str})",
        "LPAD({str}, 3, '-')", "CONCAT_WS('-', {str}, {str})", "CAST({int} AS STRING)", "CAST({dec} AS STRING)",
        "CAST({bool} AS STRING)", "CAST({date} AS STRING)", "CAST({ts} AS STRING)", "DATE_FORMAT({ts}, 'yyyy-MM-dd HH:mm')",
        "TRANSLATE({str}, 'ab', 'x')", "OVERLAY({str} PLACING 'zz' FROM 2)", "INITCAP({str})",
        "REGEXP_REPLACE({str}, 'a|b', '<$0>')", "ARRAY[{str}, 'x'][1]",
        "CAST({ltz} AS STRING)", "DATE_FORMAT({ltz}, 'yyyy-MM-dd HH:mm:ss')",
        "DATE_FORMAT({ts}, 'EEE d MMM yy, h:m a')", "MD5({str})", "HEX({int})", "REPEAT({str}, SIGN({int}))",
        "SPLIT_INDEX({str}, ',', 1)", "CAST({str} AS CHAR(2))", "CAST({str} AS VARCHAR(1))", "REGEXP_EXTRACT({str}, '[a-z]')",
        "CAST(ROW({int}, {str}) AS ROW<f INT, g STRING>).g",
        "MAP['a', {str}, COALESCE({str}, ''), 'x']['a']", "ARRAY_JOIN(ARRAY[{str}, 'x', {str}], '|')",
        "ARRAY_JOIN(MAP_VALUES(MAP['a', {str}, 'b', {str}]), '/')", "ARRAY_REVERSE(ARRAY[{str}, 'x'])[1]", "SPLIT({str}, ',')[1]",
    ),
    "bool": (
        "({int} {cmp} {small})", "({big} {cmp} {int})", "({dec} {cmp} {int})", "({dec} {cmp} {dec})", "({double} {cmp} {int})",
        "({str} {cmp} {str})", "({date} {cmp} {date})", "({ts} {cmp} {ts})", "({ts} {cmp} {date})",
        "({ltz} {cmp} {ltz})", "({bool} AND {bool})",
        "({bool} OR {bool})", "(NOT {bool})", "({bool} IS TRUE)", "({bool} IS NOT FALSE)", "({bool} IS UNKNOWN)",
        "({int} IS NULL)", "({str} IS NOT NULL)", "({int} IN (1, 2, {small}))", "({int} NOT IN (0, NULL))",
        "({str} IN ('a', '', {str}))", "({dec} BETWEEN {int} AND {dec})", "({int} NOT BETWEEN {small} AND {int})",
        "({int} BETWEEN SYMMETRIC {int} AND 2)", "({str} LIKE 'a%')", "({str} LIKE '_')", "({str} NOT LIKE '%ä%')",
        "({str} LIKE {str})", "REGEXP({str}, '^a|b$')", "CAST({int} AS BOOLEAN)", "STARTSWITH({str}, 'a')",
        "ARRAY_CONTAINS(ARRAY[{int}, 1], {int})", "(MAP['a', {bool}]['a'])", "(ROW({int}, {str}) = ROW({small}, {str}))",
    ),
    "date": (
        "CAST({ts} AS DATE)", "({date} + INTERVAL '1' MONTH)", "({date} - INTERVAL '3' DAY)", "FLOOR({date} TO MONTH)",
        "FLOOR({date} TO YEAR)", "TO_DATE(CAST({date} AS STRING))",
        "CAST({ltz} AS DATE)", "CEIL({date} TO MONTH)", "FLOOR({date} TO WEEK)", "TRY_CAST({str} AS DATE)",
    ),
    "ts": (
        "CAST({date} AS TIMESTAMP(3))", "({ts} + INTERVAL '90' MINUTE)", "({ts} - INTERVAL '1' MONTH)", "FLOOR({ts} TO HOUR)",
        "FLOOR({ts} TO DAY)", "TIMESTAMPADD(DAY, {small}, {ts})", "CAST({ts} AS TIMESTAMP(0))",
        "CEIL({ts} TO HOUR)", "FLOOR({ts} TO WEEK)", "TO_TIMESTAMP(CAST({ts} AS STRING), 'yyyy-MM-dd HH:mm:ss.SSS')",
        "CAST(CAST({ts} AS TIMESTAMP_LTZ(3)) AS TIMESTAMP(3))", "CAST({ltz} AS TIMESTAMP(3))",
    ),
    "ltz": (
        "CAST({ts} AS TIMESTAMP_LTZ(3))", "CAST({date} AS TIMESTAMP_LTZ(3))", "({ltz} + INTERVAL '90' MINUTE)",
        "({ltz} - INTERVAL '3' DAY)", "TO_TIMESTAMP_LTZ({int}, 3)", "FLOOR({ltz} TO HOUR)", "CEIL({ltz} TO DAY)",
        "TIMESTAMPADD(HOUR, {small}, {ltz})",
    ),
}  # fmt: skip
OF_ANY_KIND = (
    "COALESCE({k}, {k})", "NULLIF({k}, {k})", "IF({bool}, {k}, {k})", "CASE WHEN {bool} THEN {k} END",
    "CASE WHEN {bool} THEN {k} WHEN {bool} THEN {k} ELSE {k} END", "GREATEST({k}, {k})", "LEAST({k}, {k})",
)  # fmt: skip
BEYOND_ENGINES: dict[str, tuple[str, ...]] = {
    "int": (
        "JSON_VALUE(JSON_OBJECT('k' VALUE {int}), '$.k' RETURNING INT)", "JSON_LENGTH(JSON_ARRAY({int}, {str} NULL ON NULL))",
        "CAST(PARSE_JSON(JSON_OBJECT('k' VALUE {int}))['k'] AS INT)",
        "CAST(BITMAP_CARDINALITY(BITMAP_BUILD(ARRAY[{int}, 3])) AS INT)",
    ),
    "big": ("ADD_ONE({big})", "ADD_ONE(CAST({int} AS BIGINT))"),
    "str": (
        "JSON_QUOTE({str})", "JSON_QUERY(JSON_OBJECT('a' VALUE {str}, 'b' VALUE {int}), '$')", "PRINTF('%s|%s', {str}, {int})",
        "JSON_VALUE('{\"a\": [1, \"x\"]}', '$.a[1]')", "REPEATED({str}, 2)", "STR_TO_MAP({str} || '=1,k=v', ',', '=')['k']",
        "STR_TO_MAP({str})[{str}]", "ARRAY_JOIN(MAP_KEYS(STR_TO_MAP({str} || ',y')), '|', '-')",
    ),
    "bool": ("({str} IS JSON)", "JSON_EXISTS(JSON_OBJECT('k' VALUE {str}), '$.k')", "({str} ILIKE 'A%')"),
}  # fmt: skip
"""Expressions whose functions the stream computes for DuckDB. ADD_ONE and REPEATED are Python functions."""
FUNCTIONS = (("ADD_ONE", "add_one"), ("REPEATED", "repeated"))
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
AGGREGATES: dict[str, tuple[tuple[str, str], ...]] = {
    "small": (("SUM(CAST({c} AS BIGINT))", "big"), ("AVG({c})", "small"), ("COUNT(DISTINCT {c})", "big")),
    "int": (
        *(("SUM({c})", "int"), ("AVG({c})", "int"), ("SUM(DISTINCT {c})", "int"), ("COUNT({c})", "big")),
        *(("COUNT(DISTINCT {c})", "big"), ("AVG(DISTINCT {c})", "int"), ("VAR_POP({c})", "approximate")),
    ),
    "big": (("SUM({c})", "big"), ("AVG({c})", "big"), ("MIN({c})", "big"), ("MAX(DISTINCT {c})", "big")),
    "dec": (("SUM({c})", "dec"), ("AVG({c})", "dec"), ("SUM(DISTINCT {c})", "dec"), ("COUNT({c})", "big")),
    "double": (("SUM({c})", "double"), ("AVG({c})", "approximate"), ("STDDEV_SAMP({c})", "approximate")),
    "bool": (("COUNT({c})", "big"),),
}
MOMENTS = (
    datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC),
    datetime.datetime(2024, 2, 29, 23, 30, tzinfo=datetime.UTC),
    datetime.datetime(2024, 7, 1, 12, 0, 0, 5_000, tzinfo=datetime.UTC),
)
ZONES = ("Asia/Kolkata", "America/New_York", "Europe/Rome")
TIMES = (
    datetime.datetime(2024, 2, 29, 23, 59, 30),
    datetime.datetime(1969, 12, 31, 23, 59, 40),
    datetime.datetime(1900, 3, 1),
)
RANKS = (
    ("ROW_NUMBER()", "big"), ("RANK()", "big"), ("DENSE_RANK()", "big"), ("NTILE(3)", "int"), ("CUME_DIST()", "approximate"),
    ("PERCENT_RANK()", "approximate"), ("LAG({c})", ""), ("LEAD({c}, 2)", ""), ("LAG({c}, 2, {c})", ""),
    ("LAG({c}, 1) IGNORE NULLS", ""), ("FIRST_VALUE({c})", ""), ("LAST_VALUE({c})", ""), ("NTH_VALUE({c}, 2)", ""),
)  # fmt: skip
"""Functions with OVER only; no kind is that of the argument."""
FRAMES = (
    "", "", " ROWS 2 PRECEDING", " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING", " RANGE CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)  # fmt: skip
SHAPES: dict[str, int] = {
    "table": 6, "projected": 4, "grouped": 4, "joined": 4, "united": 2, "distinct": 2, "top": 3, "last": 2, "windowed": 4,
    "window_joined": 1, "window_top": 1, "interval_joined": 1, "twice": 1, "unnested": 2,
    "over": 4, "compared": 4, "counted": 2, "pivoted": 1, "unpivoted": 1, "qualified": 2, "lateral": 2, "natural": 1, "listed": 1,
    "group_windowed": 2, "versioned": 1, "looked_up": 2,
    "nested_keys": 2, "nested_join": 1,
}  # fmt: skip
STREAM_ONLY = {"matched": 3, "logged": 2, "collected": 1, "in_json": 2, "mapped": 1}
"""Shapes that a batch engine has no word for: another text stands for their rows."""
SETTINGS = (
    ("table.exec.mini-batch.enabled", "true"),
    ("table.optimizer.distinct-agg.split.enabled", "true"),
    ("table.optimizer.reuse-sub-plan-enabled", "false"),
    ("table.exec.state.ttl", "1 d"),
)
SECOND = "INTERVAL '{}' SECOND"
HALF_JOINS = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", *HALF_JOINS)


@dataclasses.dataclass(frozen=True)
class Relation:
    """What may stand in FROM, and its columns with their kinds. `size` is about how many rows it may have."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    size: int
