"""Expressions for every scalar function, over a table whose rows are the values at which engines differ."""

# ruff: noqa: E501
from __future__ import annotations

import datetime
import itertools
import random
from decimal import Decimal
from typing import Any

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef
from sqlstream.functions import SCALAR_FUNCTIONS, ScalarFunction

COLUMNS = (
    "n TINYINT, i INT, j INT, l BIGINT, d DECIMAL(10, 2), g DECIMAL(20, 6), x DOUBLE, z DOUBLE, f FLOAT, s STRING, r STRING,"
    " c CHAR(3), o BOOLEAN, k BOOLEAN, y DATE, w DATE, h TIME(3), ts TIMESTAMP(3), us TIMESTAMP(6), lt TIMESTAMP_LTZ(3),"
    " bs BYTES, a ARRAY<INT>, m MAP<STRING, INT>, q ROW<u INT, v STRING>"
)

_UTC = datetime.UTC
_TEXTS = (
    *(
        "",
        " ",
        "a",
        "b",
        "ab",
        "abc",
        "a,b,,c",
        "ä",
        "Aß",
        "日本語",
        "x y-z",
        "  pad ",
        "%",
        "a_b",
        "\\",
        "\n",
        "'",
        '"',
    ),
    *(
        "1",
        "-12",
        "1.5",
        "+7",
        "abc123",
        "2024-02-29",
        "2024-02-29 12:34:56",
        "1e3",
        "true",
        "Σ",
        "aab",
        "a.b",
        "YWI=",
        "ǅ",
        "é",
    ),
)
_TIMES = (
    *("1970-01-01 00:00:00", "1969-12-31 23:59:59.999", "2024-02-29 12:34:56.789", "2024-03-31 02:30:00"),
    *(
        "2024-10-27 02:30:00",
        "2023-12-31 23:59:59.999",
        "1900-03-01 05:06:07.008",
        "2000-01-31 00:00:00",
        "2024-11-03 01:30:00",
    ),
)
_POOLS: dict[str, tuple[Any, ...]] = {
    "n": (0, 1, -1, 7, 127, -128),
    "i": (0, 1, -1, 2, 3, 5, -7, 255, 256, 100_000, 2**31 - 1, -(2**31)),
    "j": (0, 1, -1, 2, 3, 4, -3),
    "l": (0, 1, -1, 10, 65, 1_700_000_000, 1_709_210_096_789, -5, 2**40),
    "d": tuple(map(Decimal, ("0", "0.50", "-0.50", "1.25", "2.35", "-2.35", "99999999.99", "-3", "10"))),
    "g": tuple(map(Decimal, ("0", "1.234567", "-1.500000", "12345678901234.999999", "0.000001"))),
    "x": (0.0, 0.5, -0.5, 1.0, -2.5, 2.5, 1.005, 123.456, 1e6, -1.0, 9_999_999.0, 0.001, 3.0),
    "z": (1.0, 2.0, -0.5, 0.25, 10.0, 0.75),
    "f": (0.5, -1.25, 3.0, 1024.0),
    "s": _TEXTS,
    "r": ("", "a", "b", ",", "ab", "ä", "é", "2024-02-29", "a.b"),
    "c": ("a  ", "abc", "   ", "äb "),
    "o": (True, False),
    "k": (True, False),
    "y": tuple(map(datetime.date.fromisoformat, ("1970-01-01", "2024-02-29", "1969-12-31", "2023-12-31", "2000-01-31"))),
    "w": tuple(map(datetime.date.fromisoformat, ("1970-03-01", "2024-01-31", "2021-01-03", "1999-12-27"))),
    "h": (datetime.time(0), datetime.time(23, 59, 59, 999_000), datetime.time(12, 34, 56, 789_000)),
    "ts": tuple(map(datetime.datetime.fromisoformat, _TIMES)),
    "us": tuple(datetime.datetime.fromisoformat(t) + datetime.timedelta(microseconds=7) for t in _TIMES),
    "lt": tuple(datetime.datetime.fromisoformat(t).replace(tzinfo=_UTC) for t in _TIMES),
    "bs": (b"", b"a", b"\xc3\xa4", b"ab"),
    "a": ([], [1], [1, None, 3], [5, 4]),
    "m": ([], [("a", 1)], [("a", None), ("b", 2)]),
    "q": ({"u": 1, "v": "x"}, {"u": None, "v": None}),
}  # fmt: skip


def rows(count: int = 40, seed: int = 7) -> list[dict[str, Any]]:
    """Each value of each column at least once, NULLs among them, in random company."""
    pick = random.Random(seed)
    columns = {}
    for name, pool in _POOLS.items():
        values = [*pool, None, None]
        values += [pick.choice(values) for _ in range(count - len(values))]
        pick.shuffle(values)
        columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_COMPARED = ("i {} j", "n {} i", "d {} g", "x {} z", "s {} r", "c {} s", "y {} w", "ts {} us", "ts {} y", "o {} k", "lt {} lt", "h {} h", "bs {} bs")  # fmt: skip

_WRITTEN: dict[str, tuple[str, ...]] = {
    **{
        symbol: tuple(form.format(symbol) for form in _COMPARED)
        for symbol in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    },
    "IS NULL": ("s IS NULL", "a IS NULL", "(i + j) IS NULL"),
    "IS NOT NULL": ("s IS NOT NULL", "q IS NOT NULL"),
    "IN": ("i IN (1, 2, NULL)", "s IN ('a', r)", "d IN (0.5, 1.25)", "x IN (0.5E0, z)", "y IN (w, DATE '1970-01-01')"),
    "LIKE": ("s LIKE 'a%'", "s LIKE '_'", "s LIKE '%b%'", "s LIKE r", "s LIKE 'a!_b' ESCAPE '!'", "s LIKE '%\\%'", "s LIKE 'a.b'"),
    "SIMILAR TO": ("s SIMILAR TO 'a%'", "s SIMILAR TO '(a|b)+'", "s SIMILAR TO '_'", "s SIMILAR TO '[a-c]*'", "s SIMILAR TO r", "s SIMILAR TO 'a!_%' ESCAPE '!'", "s SIMILAR TO '(\\\\|a.b)'"),
    "STARTSWITH": ("STARTSWITH(s, 'a')", "STARTSWITH(s, r)", "STARTSWITH(bs, bs)"),
    "ENDSWITH": ("ENDSWITH(s, 'b')", "ENDSWITH(s, r)", "ENDSWITH(bs, x'C3A4')"),
    "REGEXP": ("REGEXP(s, '^a|b$')", "REGEXP(s, '')", "REGEXP(s, '[0-9]+')", "REGEXP(s, '^$')", "REGEXP(s, r)", "REGEXP(s, '.')"),
    "AND": ("o AND k", "o AND k AND (i > 0)"),
    "OR": ("o OR k", "o OR k OR (i > 0)"),
    "NOT": ("NOT o",),
    **{f"IS {test}": (f"o IS {test}",) for test in ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")},
    "+": (
        *("j + n", "l + j", "d + g", "d + j", "x + z", "x + j", "f + n", "j + j + n + 1", "g + g + g", "f + f", "x + 1 + f"),
        *("y + INTERVAL '1' MONTH", "ts + INTERVAL '90' MINUTE", "us + INTERVAL '1' YEAR", "lt + INTERVAL '1' DAY"),
        *("h + INTERVAL '2' HOUR", "INTERVAL '3' DAY + y", "INTERVAL '1' DAY + INTERVAL '2' HOUR", "y + INTERVAL '36' HOUR"),
        *("ts + INTERVAL '1' DAY * j", "lt + INTERVAL '1' MONTH", "y + INTERVAL '-1' DAY"),
    ),
    "-": (
        *("j - n", "l - j", "d - g", "x - z", "ts - INTERVAL '1' MONTH", "y - INTERVAL '3' DAY", "lt - INTERVAL '1' HOUR"),
        *("h - INTERVAL '13' HOUR", "INTERVAL '2' MONTH - INTERVAL '3' MONTH", "CAST(ts - ts AS BIGINT)", "j - n - 3"),
        *("CAST(TIMESTAMP '2024-02-29 00:00:00' - ts AS BIGINT)", "CAST(y - w AS BIGINT)", "CAST(us - ts AS BIGINT)"),
    ),
    "*": ("j * n", "l * j", "d * g", "d * 3", "x * z", "x * j", "INTERVAL '1' HOUR * j", "j * INTERVAL '2' MONTH", "d * d"),
    "/": ("j / 3", "i / 7", "l / j", "d / 3", "d / 0.7", "g / 3", "x / z", "x / j", "x / 0", "j / NULLIF(n, 0)", "i / -1", "d / d"),
    "%": ("j % 3", "i % 7", "i % n", "d % 3", "d % 0.7", "x % z", "x % 0", "l % j", "-7 % j"),
    "MOD": ("MOD(i, 7)", "MOD(j, -4)", "MOD(d, 2)", "MOD(n, 3)", "MOD(l, 10)"),
    "NEGATE": ("- j", "- d", "- x", "- l", "- (j - n)", "- (- j)", "- INTERVAL '1' DAY", "- i"),
    "ABS": ("ABS(j)", "ABS(d)", "ABS(x)", "ABS(i)", "ABS(INTERVAL '-1' DAY)"),
    "SIGN": ("SIGN(j)", "SIGN(d)", "SIGN(x)", "SIGN(l)", "SIGN(f)"),
    "FLOOR": (
        *("FLOOR(x)", "FLOOR(d)", "FLOOR(j)", "FLOOR(g)", "FLOOR(f)"),
        *(f"FLOOR({p} TO {u})" for p in ("ts", "y", "us", "lt") for u in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")),
        *(f"FLOOR({p} TO {u})" for p in ("ts", "us", "lt", "h") for u in ("HOUR", "MINUTE", "SECOND", "MILLISECOND")),
    ),
    "CEIL": (
        *("CEIL(x)", "CEIL(d)", "CEIL(j)", "CEIL(g)", "CEIL(f)"),
        *(f"CEIL({p} TO {u})" for p in ("ts", "y", "lt") for u in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")),
        *(f"CEIL({p} TO {u})" for p in ("ts", "us", "lt") for u in ("HOUR", "MINUTE", "SECOND", "MILLISECOND")),
        "CEIL(TIME '12:34:56' TO HOUR)",
    ),
    "CEILING": ("CEILING(x)", "CEILING(d)"),
    "ROUND": ("ROUND(x)", "ROUND(x, 2)", "ROUND(d, 1)", "ROUND(d)", "ROUND(j, -1)", "ROUND(g, 3)", "ROUND(x, 0)", "ROUND(d, -1)", "ROUND(d, 5)", "ROUND(f, 1)", "ROUND(i, -2)", "ROUND(n, -1)", "ROUND(i, -9)"),
    "TRUNCATE": ("TRUNCATE(x, 1)", "TRUNCATE(d, 1)", "TRUNCATE(d)", "TRUNCATE(i, -2)", "TRUNCATE(x)", "TRUNCATE(g, 3)", "TRUNCATE(d, -1)", "TRUNCATE(j, 2)", "TRUNCATE(f, 1)"),
    "POWER": ("POWER(x, 2)", "POWER(x, z)", "POWER(j, 0.5)", "POWER(0, -1)"),
    "ATAN2": ("ATAN2(x, z)", "ATAN2(j, n)"),
    "LOG": ("LOG(x)", "LOG(2, x)", "LOG(z, x)", "LOG(10, d)", "LOG(1, 2)", "LOG(0, 2)"),
    **{name: (f"{name}(x)", f"{name}(z)", f"{name}(j)") for name in ("SQRT", "LN", "LOG10", "LOG2", "EXP", "SIN", "SINH", "COS", "COSH", "TAN", "TANH", "COT", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS")},
    "PI": ("PI()",),
    "E": ("E()",),
    "RAND": ("RAND()",),
    "RAND_INTEGER": ("RAND_INTEGER(5)",),
    "BIN": ("BIN(j)", "BIN(l)", "BIN(255)"),
    "||": ("s || r", "s || 'x' || r", "c || s", "bs || bs"),
    "CONCAT": ("CONCAT(s, r)", "CONCAT(s, 'x', r)", "CONCAT(s)"),
    "CONCAT_WS": ("CONCAT_WS('-', s, r)", "CONCAT_WS(r, s, s)", "CONCAT_WS('', s, CAST(NULL AS STRING))"),
    "CHAR_LENGTH": ("CHAR_LENGTH(s)", "CHAR_LENGTH(c)"),
    "CHARACTER_LENGTH": ("CHARACTER_LENGTH(s)",),
    "UPPER": ("UPPER(s)", "UPPER(r)"),
    "LOWER": ("LOWER(s)",),
    "INITCAP": ("INITCAP(s)",),
    "REVERSE": ("REVERSE(s)",),
    "TO_BASE64": ("TO_BASE64(s)",),
    "FROM_BASE64": ("FROM_BASE64(TO_BASE64(s))", "FROM_BASE64('YWI')", "FROM_BASE64(s)"),
    "TRIM": ("TRIM(s)", "TRIM(BOTH 'a' FROM s)", "TRIM(LEADING 'ab' FROM s)", "TRIM(TRAILING r FROM s)", "TRIM(BOTH '' FROM s)"),
    "LTRIM": ("LTRIM(s)", "LTRIM(s, 'a')", "LTRIM(s, r)"),
    "RTRIM": ("RTRIM(s)", "RTRIM(s, 'c')", "RTRIM(s, r)"),
    "BTRIM": ("BTRIM(s)", "BTRIM(s, 'ac')", "BTRIM(s, r)"),
    "SUBSTRING": ("SUBSTRING(s FROM 2)", "SUBSTRING(s FROM -2)", "SUBSTRING(s FROM 0 FOR 2)", "SUBSTRING(s FROM j)", "SUBSTRING(s FROM j FOR n)", "SUBSTRING(s FROM 1 FOR -1)", "SUBSTRING(s, -3, 2)", "SUBSTRING(s FROM l)"),
    "SUBSTR": ("SUBSTR(s, 2, 1)", "SUBSTR(s, j)"),
    "LEFT": ("LEFT(s, 2)", "LEFT(s, j)", "LEFT(s, l)", "LEFT(s, -1)"),
    "RIGHT": ("RIGHT(s, 2)", "RIGHT(s, j)", "RIGHT(s, 0)", "RIGHT(s, l)"),
    "REPLACE": ("REPLACE(s, 'a', 'zz')", "REPLACE(s, r, '-')", "REPLACE(s, '', '+')", "REPLACE(s, 'b', '\\')", "REPLACE(s, r, s)"),
    "OVERLAY": ("OVERLAY(s PLACING 'xx' FROM 2)", "OVERLAY(s PLACING r FROM j)", "OVERLAY(s PLACING 'x' FROM 1 FOR 2)", "OVERLAY(s PLACING r FROM 2 FOR j)"),
    "TRANSLATE": ("TRANSLATE(s, 'ab', 'xy')", "TRANSLATE(s, 'abc', 'x')", "TRANSLATE(s, r, 'z')", "TRANSLATE(s, 'a', CAST(NULL AS STRING))", "TRANSLATE(s, CAST(NULL AS STRING), 'a')"),
    "LPAD": ("LPAD(s, 4, '-')", "LPAD(s, j, r)", "LPAD(s, 2, 'xy')", "LPAD(s, -1, 'x')", "LPAD(s, 6, '')"),
    "RPAD": ("RPAD(s, 4, '-')", "RPAD(s, j, r)", "RPAD(s, 7, 'xy')"),
    "REPEAT": ("REPEAT(s, 2)", "REPEAT(s, j)", "REPEAT(s, -1)"),
    "POSITION": ("POSITION(r IN s)", "POSITION('' IN s)"),
    "INSTR": ("INSTR(s, r)", "INSTR(s, 'b')"),
    "LOCATE": ("LOCATE(r, s)", "LOCATE('b', s, 2)", "LOCATE(r, s, j)"),
    "SPLIT_INDEX": ("SPLIT_INDEX(s, ',', 1)", "SPLIT_INDEX(s, ',', j)", "SPLIT_INDEX(s, 44, 0)", "SPLIT_INDEX(s, j, 0)", "SPLIT_INDEX(s, r, 1)", "SPLIT_INDEX(s, '', 1)"),
    "REGEXP_EXTRACT": ("REGEXP_EXTRACT(s, '[a-z]+')", "REGEXP_EXTRACT(s, '([a-z])([a-z])', 2)", "REGEXP_EXTRACT(s, '(x)?a', 1)", "REGEXP_EXTRACT(s, r)", "REGEXP_EXTRACT(s, '(a)', 5)", "REGEXP_EXTRACT(s, '')", "REGEXP_EXTRACT(s, '(a)|(b)', 2)"),
    "REGEXP_REPLACE": ("REGEXP_REPLACE(s, '[a-c]', '#')", "REGEXP_REPLACE(s, 'x*', '-')", "REGEXP_REPLACE(s, '(a)(b)', '$2$1')", "REGEXP_REPLACE(s, r, 'Q')", "REGEXP_REPLACE(s, '(?<one>a)(b)', '${one}-$1')", "REGEXP_REPLACE(s, 'a', '$1')", "REGEXP_REPLACE(s, '', '.')", "REGEXP_REPLACE(s, 'a', '\\\\')"),
    "REGEXP_COUNT": ("REGEXP_COUNT(s, 'a')", "REGEXP_COUNT(s, '[a-z]+')", "REGEXP_COUNT(s, r)", "REGEXP_COUNT(s, '')"),
    "ASCII": ("ASCII(s)",),
    "IS JSON": ("s IS JSON", "s IS JSON SCALAR", "s IS NOT JSON OBJECT", "JSON_STRING(q) IS JSON OBJECT"),
    "JSON_EXISTS": ("JSON_EXISTS(JSON_STRING(q), '$.v')", "JSON_EXISTS(s, '$' UNKNOWN ON ERROR)", "JSON_EXISTS(JSON_STRING(a), 'lax $[1]')"),
    "JSON_VALUE": ("JSON_VALUE(JSON_STRING(q), '$.u' RETURNING INT)", "JSON_VALUE(JSON_STRING(q), 'lax $.v' DEFAULT s ON EMPTY)", "JSON_VALUE(s, '$' DEFAULT 'none' ON ERROR)", "JSON_VALUE(JSON_STRING(x), '$' RETURNING DOUBLE)"),
    "JSON_QUERY": ("JSON_QUERY(JSON_STRING(a), '$')", "JSON_QUERY(JSON_STRING(q), '$.u' WITH WRAPPER)", "JSON_QUERY(JSON_STRING(a), '$[?(@ > 1)]')", "JSON_QUERY(JSON_STRING(a), '$' RETURNING ARRAY<STRING>)", "JSON_QUERY(s, '$' EMPTY OBJECT ON ERROR)"),
    "JSON_LENGTH": ("JSON_LENGTH(JSON_STRING(a))", "JSON_LENGTH(JSON_STRING(m))", "JSON_LENGTH(s)"),
    "JSON_TYPE": ("JSON_TYPE(s)", "JSON_TYPE(JSON_STRING(q), '$.v')"),
    "JSON_STRING": tuple(f"JSON_STRING({name})" for name in ["n", "i", "l", "d", "g", "x", "f", "s", "c", "o", "y", "h", "ts", "us", "lt", "bs", "a", "m", "q"]),
    "JSON_OBJECT": ("JSON_OBJECT('s' VALUE s, 'i' VALUE i)", "JSON_OBJECT('o': o, 'm': m ABSENT ON NULL)", "JSON_OBJECT('in' VALUE JSON_OBJECT('d' VALUE d))"),
    "JSON_ARRAY": ("JSON_ARRAY(s, i, x)", "JSON_ARRAY(s, JSON_ARRAY(ts) NULL ON NULL)"),
    "JSON": ("JSON_ARRAY(JSON(JSON_STRING(q)), JSON(''))",),
    "JSON_QUOTE": ("JSON_QUOTE(s)", "JSON_QUOTE(c)"),
    "JSON_UNQUOTE": ("JSON_UNQUOTE(s)", "JSON_UNQUOTE(JSON_QUOTE(s))"),
    "PARSE_JSON": ("PARSE_JSON(JSON_STRING(q))['u']", "PARSE_JSON(s)", "CAST(PARSE_JSON(JSON_STRING(a))[1] AS INT)"),
    "TRY_PARSE_JSON": ("TRY_PARSE_JSON(s)", "TRY_PARSE_JSON(s, TRUE)"),
    "VARIANT_TEXT": ("CAST(PARSE_JSON(JSON_QUOTE(s)) AS STRING)",),
    "JSON_ITEMS": (),
    "ORDERED_ARRAY": (),
    "ORDERED_LIST": (),
    "JSON_MEMBER": (),
    "JSON_MEMBERS": (),
    "SINGLE_ROW": (),
    "KEY_BYTES": (),
    "CHR": ("CHR(l)", "CHR(i)", "CHR(65)", "CHR(j)"),
    "HEX": ("HEX(s)", "HEX(j)", "HEX(l)", "HEX(n)"),
    "UUID": ("UUID()",),
    "EXTRACT": tuple(
        f"EXTRACT({unit} FROM {point})"
        for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DOY", "DAY", "DOW", "ISODOW", "ISOYEAR", "HOUR", "MINUTE", "SECOND", "EPOCH")
        for point in ("ts", "lt", "y")
    ),
    **{name: (f"{name}(y)", f"{name}(ts)", f"{name}(lt)") for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK")},
    **{name: (f"{name}(ts)", f"{name}(lt)", f"{name}(h)") for name in ("HOUR", "MINUTE", "SECOND")},
    "DATE_FORMAT": (
        *("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss')", "DATE_FORMAT(lt, 'dd.MM.yyyy')", "DATE_FORMAT(us, 'HH:mm:ss.SSS')", "DATE_FORMAT(y, 'yyyyMMdd')"),
        *("DATE_FORMAT(ts, 'yy/M/d')", "DATE_FORMAT(ts, 'EEE MMM')", "DATE_FORMAT(s, 'yyyy')", "DATE_FORMAT(us, 'SSSSSS')", "DATE_FORMAT(ts, 'hh a')"),
        *("DATE_FORMAT(ts, 'D H m s')", "DATE_FORMAT(ts, 'EEEE, MMMM')", "DATE_FORMAT(ts, 'kk KK')", "DATE_FORMAT(us, 'S SS')"),
    ),
    "TO_TIMESTAMP": ("TO_TIMESTAMP(s)", "TO_TIMESTAMP(r, 'yyyy-MM-dd')", "TO_TIMESTAMP('2024-02-30 00:00:00')", "TO_TIMESTAMP('29/02/2024', 'dd/MM/yyyy')", "TO_TIMESTAMP('x')", "TO_TIMESTAMP('2024-02-29 01:02:03')"),
    "TO_DATE": ("TO_DATE(s)", "TO_DATE(r)", "TO_DATE('20240229', 'yyyyMMdd')", "TO_DATE('29.02.24', 'dd.MM.yy')", "TO_DATE(s, 'yy')", "TO_DATE('2024-13-01')", "TO_DATE('x')"),
    "TO_TIMESTAMP_LTZ": (
        *("TO_TIMESTAMP_LTZ(l, 3)", "TO_TIMESTAMP_LTZ(l, 0)", "TO_TIMESTAMP_LTZ(l)", "TO_TIMESTAMP_LTZ(i, 0)", "TO_TIMESTAMP_LTZ(x, 0)", "TO_TIMESTAMP_LTZ(d, 3)", "TO_TIMESTAMP_LTZ(l, 6)"),
        *("TO_TIMESTAMP_LTZ(r, 'yyyy-MM-dd')", "TO_TIMESTAMP_LTZ('2024-03-31 02:30:00', 'yyyy-MM-dd HH:mm:ss', 'Europe/Berlin')", "TO_TIMESTAMP_LTZ(s)"),
    ),
    "CONVERT_TZ": ("CONVERT_TZ(s, 'UTC', 'America/Los_Angeles')", "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'GMT+08:00')"),
    "CURRENT_DATABASE": ("CURRENT_DATABASE()",),
    "FROM_UNIXTIME": ("FROM_UNIXTIME(l)", "FROM_UNIXTIME(i)", "FROM_UNIXTIME(i, 'yyyy-MM-dd')"),
    "UNIX_TIMESTAMP": ("UNIX_TIMESTAMP(s)", "UNIX_TIMESTAMP('2024-02-29 01:02:03')", "UNIX_TIMESTAMP('29.02.2024', 'dd.MM.yyyy')"),
    "TIMESTAMPADD": tuple(
        f"TIMESTAMPADD({unit}, {count}, {point})"
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
        for count in ("j", "-3")
        for point in ("ts", "y", "lt")
    ),
    "TIMESTAMPDIFF": tuple(
        f"TIMESTAMPDIFF({unit}, {points})"
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
        for points in ("ts, us", "y, w", "lt, ts", "w, us")
    ),
    "CASE": ("CASE WHEN o THEN i WHEN k THEN j END", "CASE i WHEN 1 THEN 'x' WHEN 2 THEN s ELSE r END", "CASE WHEN i <> 0 THEN 10 / i ELSE 0 END"),
    "IF": ("IF(o, i, j)", "IF(k, s, 'none')"),
    "COALESCE": ("COALESCE(s, r)", "COALESCE(i, j, 0)", "COALESCE(d, g)"),
    "IFNULL": ("IFNULL(s, 'x')", "IFNULL(i, j)"),
    "NULLIF": ("NULLIF(i, j)", "NULLIF(s, r)", "NULLIF(d, 0.5)", "NULLIF(x, z)"),
    "GREATEST": ("GREATEST(i, j)", "GREATEST(s, r)", "GREATEST(d, g, j)", "GREATEST(y, w)", "GREATEST(x, z)"),
    "LEAST": ("LEAST(i, j)", "LEAST(s, r, 'b')", "LEAST(ts, us)"),
    "FIELD": ("q.u", "q.v"),
    "ROW": ("ROW(i, s)", "ROW(1, q)"),
    "ARRAY": ("ARRAY[i, j]", "ARRAY[s]", "ARRAY[d, 1]"),
    "MAP": ("MAP['a', i, 'b', j]", "MAP['a', 1, 'a', 2]", "MAP[COALESCE(s, 'x'), i]"),
    "ITEM": ("a[1]", "a[3]", "a[9]", "a[ABS(j) + 1]", "a[j]", "m['a']", "m['b']", "m[s]"),
    "CARDINALITY": ("CARDINALITY(a)", "CARDINALITY(m)"),
    "ARRAY_APPEND": ("ARRAY_APPEND(a, i)", "ARRAY_APPEND(a, NULL)", "ARRAY_APPEND(ARRAY[s], r)", "ARRAY_APPEND(a, d)"),
    "ARRAY_PREPEND": ("ARRAY_PREPEND(a, i)", "ARRAY_PREPEND(ARRAY[s, r], NULL)"),
    "ARRAY_CONCAT": ("ARRAY_CONCAT(a, ARRAY[i])", "ARRAY_CONCAT(a, a, a)", "ARRAY_CONCAT(a)", "ARRAY_CONCAT(ARRAY[s], ARRAY[r, s])"),
    "ARRAY_CONTAINS": ("ARRAY_CONTAINS(a, j)", "ARRAY_CONTAINS(a, NULL)", "ARRAY_CONTAINS(ARRAY[s, r], 'a')", "ARRAY_CONTAINS(ARRAY[d, g], 0.5)", "ARRAY_CONTAINS(ARRAY[q], q)"),
    "ARRAY_POSITION": ("ARRAY_POSITION(a, j)", "ARRAY_POSITION(ARRAY[s, r, 'a'], 'a')", "ARRAY_POSITION(ARRAY[y, w], y)"),
    "ARRAY_REMOVE": ("ARRAY_REMOVE(a, 1)", "ARRAY_REMOVE(a, NULL)", "ARRAY_REMOVE(ARRAY[s, r, s], r)", "ARRAY_REMOVE(a, j)"),
    "ARRAY_DISTINCT": ("ARRAY_DISTINCT(a)", "ARRAY_DISTINCT(ARRAY[i, j, i, NULL, n, NULL])", "ARRAY_DISTINCT(ARRAY[s, r, 'a'])", "ARRAY_DISTINCT(ARRAY[q, q])", "ARRAY_DISTINCT(ARRAY[o, k])"),
    "ARRAY_UNION": ("ARRAY_UNION(a, ARRAY[i, j, 1])", "ARRAY_UNION(a, a)", "ARRAY_UNION(ARRAY[s], ARRAY[r])", "ARRAY_UNION(ARRAY[1, 1], ARRAY[i])"),
    "ARRAY_EXCEPT": ("ARRAY_EXCEPT(a, ARRAY[1, NULL])", "ARRAY_EXCEPT(ARRAY[s, s, r], ARRAY[r])", "ARRAY_EXCEPT(ARRAY[i, j, NULL], a)"),
    "ARRAY_INTERSECT": ("ARRAY_INTERSECT(a, ARRAY[1, NULL])", "ARRAY_INTERSECT(ARRAY[s, s, r], ARRAY[r, 'a'])", "ARRAY_INTERSECT(ARRAY[j, 1, j], a)"),
    "ARRAY_REVERSE": ("ARRAY_REVERSE(a)", "ARRAY_REVERSE(ARRAY[s, r])", "ARRAY_REVERSE(ARRAY[q])"),
    "ARRAY_SLICE": ("ARRAY_SLICE(a, 2)", "ARRAY_SLICE(a, j, n)", "ARRAY_SLICE(ARRAY[i, j, n, 9], -3, -2)", "ARRAY_SLICE(ARRAY[1, 2, 3], 0, j)", "ARRAY_SLICE(ARRAY[1, 2, 3], j)", "ARRAY_SLICE(a, l, l)"),
    "ARRAY_SORT": ("ARRAY_SORT(a)", "ARRAY_SORT(ARRAY[i, j, NULL, n], o)", "ARRAY_SORT(ARRAY[s, r, NULL], FALSE, TRUE)", "ARRAY_SORT(ARRAY[i, j, NULL], o, k)", "ARRAY_SORT(ARRAY[x, z], FALSE)", "ARRAY_SORT(ARRAY[ts, us])"),
    "ARRAY_MAX": ("ARRAY_MAX(a)", "ARRAY_MAX(ARRAY[s, r])", "ARRAY_MAX(ARRAY[d, g, NULL])", "ARRAY_MAX(ARRAY[y, w])"),
    "ARRAY_MIN": ("ARRAY_MIN(a)", "ARRAY_MIN(ARRAY[s, r])", "ARRAY_MIN(ARRAY[x, z])", "ARRAY_MIN(ARRAY[o, k])"),
    "ARRAY_JOIN": ("ARRAY_JOIN(ARRAY[s, r, 'x'], ',')", "ARRAY_JOIN(ARRAY[s, r], r)", "ARRAY_JOIN(ARRAY[s, r], '-', s)", "ARRAY_JOIN(ARRAY[s, NULL], '-', '?')", "ARRAY_JOIN(CAST(a AS ARRAY<STRING>), '+')"),
    "ELEMENT": ("ELEMENT(ARRAY[i])", "ELEMENT(ARRAY_SLICE(a, 1, 1))", "ELEMENT(a)"),
    "SPLIT": ("SPLIT(s, ',')", "SPLIT(s, 'a')", "SPLIT(s, r)", "SPLIT(s, '')"),
    "BITMAP_BUILD": ("CAST(BITMAP_BUILD(a) AS STRING)", "BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[i, j, n]))"),
    **{
        name: (f"BITMAP_TO_STRING({name}(BITMAP_BUILD(a), BITMAP_BUILD(ARRAY[i, 1])))",)
        for name in ("BITMAP_AND", "BITMAP_ANDNOT", "BITMAP_OR", "BITMAP_XOR")
    },
    "BITMAP_CARDINALITY": ("BITMAP_CARDINALITY(BITMAP_BUILD(a))",),
    "BITMAP_FROM_BYTES": ("BITMAP_TO_STRING(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(a))))", "BITMAP_CARDINALITY(BITMAP_FROM_BYTES(bs))"),
    "BITMAP_TO_ARRAY": ("BITMAP_TO_ARRAY(BITMAP_BUILD(ARRAY[i, j, n]))",),
    "BITMAP_TO_BYTES": ("BITMAP_TO_BYTES(BITMAP_BUILD(a))",),
    "BITMAP_TO_STRING": ("BITMAP_TO_STRING(BITMAP_BUILD(a))",),
    "MAP_KEYS": ("MAP_KEYS(m)", "MAP_KEYS(MAP['a', i])"),
    "MAP_VALUES": ("MAP_VALUES(m)", "MAP_VALUES(MAP[1, s, 2, r])"),
    "MAP_ENTRIES": ("MAP_ENTRIES(m)", "MAP_ENTRIES(MAP['a', s])"),
    "MAP_FROM_ARRAYS": ("MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[i, j])", "MAP_FROM_ARRAYS(ARRAY['a', 'a', 'b'], ARRAY[i, j, n])", "MAP_FROM_ARRAYS(a, ARRAY[s, r])", "MAP_FROM_ARRAYS(ARRAY_SLICE(a, 1, 1), ARRAY[s])"),
    "MAP_UNION": ("MAP_UNION(m, m)", "MAP_UNION(m, MAP['b', i])", "MAP_UNION(m)", "MAP_UNION(m, MAP['z', i], MAP['a', j])"),
    "STR_TO_MAP": ("STR_TO_MAP(s)", "STR_TO_MAP(s, 'a', 'b')", "STR_TO_MAP(s, '[,b]', r)", "STR_TO_MAP('k=v,l,k=w=x,,')"),
    "SHA224": ("SHA224(s)",),
    "SHA384": ("SHA384(s)",),
    "SHA512": ("SHA512(s)",),
    "SHA2": ("SHA2(s, 256)", "SHA2(s, 512)"),
    "ENCODE": ("ENCODE(s, 'UTF-8')", "ENCODE(s, 'utf-16')", "ENCODE(s, 'UTF-16LE')", "ENCODE(s, 'US-ASCII')", "ENCODE(s, 'ISO-8859-1')"),
    "DECODE": ("DECODE(bs, 'UTF-8')", "DECODE(bs, 'ISO-8859-1')", "DECODE(bs, 'US-ASCII')", "DECODE(ENCODE(s, 'UTF-16'), 'UTF-16')", "DECODE(bs, 'UTF-16BE')"),
    "UNHEX": ("UNHEX(s)", "UNHEX(HEX(s))", "UNHEX('abc')"),
    "IS_VALID_UTF8": ("IS_VALID_UTF8(bs)", "IS_VALID_UTF8(x'80')", "IS_VALID_UTF8(bs || x'C3')"),
    "MAKE_VALID_UTF8": ("MAKE_VALID_UTF8(bs)", "MAKE_VALID_UTF8(bs || x'C328')"),
    "URL_ENCODE": ("URL_ENCODE(s)", "URL_ENCODE('a b*~+')"),
    "URL_DECODE": ("URL_DECODE(s)", "URL_DECODE(URL_ENCODE(s))", "URL_DECODE('%zz')", "URL_DECODE('a+b%20c')"),
    "PARSE_URL": ("PARSE_URL('http://u@h.de:8080/p/q.x?k=' || s || '#r', 'HOST')", "PARSE_URL('http://u@h.de:8080/p?k=' || s, 'QUERY', 'k')", "PARSE_URL(s, 'HOST')", "PARSE_URL('http://h/' || s, 'FILE')"),
    "INET_ATON": ("INET_ATON('127.0.0.' || s)", "INET_ATON(s)", "INET_ATON('127.1')", "INET_ATON('1.2.300')"),
    "INET_NTOA": ("INET_NTOA(l)", "INET_NTOA(i)", "INET_NTOA(2130706433)"),
    "IS_ALPHA": ("IS_ALPHA(s)", "IS_ALPHA(r)"),
    "IS_DIGIT": ("IS_DIGIT(s)", "IS_DIGIT(CAST(i AS STRING))"),
    "IS_DECIMAL": ("IS_DECIMAL(s)", "IS_DECIMAL(CAST(x AS STRING))"),
    "ELT": ("ELT(j, s, r, c)", "ELT(2, s, r)", "ELT(l, s, 'x')", "ELT(1, bs, bs)"),
    "REGEXP_EXTRACT_ALL": ("REGEXP_EXTRACT_ALL(s, '([a-z])', 1)", "REGEXP_EXTRACT_ALL(s, '[ab]', 0)", "REGEXP_EXTRACT_ALL(s, '(a)(b)')", "REGEXP_EXTRACT_ALL(s, 'a')", "REGEXP_EXTRACT_ALL(s, '[0-9]+', 0)"),
    "REGEXP_INSTR": ("REGEXP_INSTR(s, 'b')", "REGEXP_INSTR(s, '[0-9]')", "REGEXP_INSTR(s, '(b|c)')", "REGEXP_INSTR(s, '^a')"),
    "REGEXP_SUBSTR": ("REGEXP_SUBSTR(s, '[0-9]+')", "REGEXP_SUBSTR(s, 'a.')"),
    "PRINTF": ("PRINTF('%s|%5d|%-4s|', s, j, r)", "PRINTF('%05d %+,d', j, i)", "PRINTF('%.2f', x)", "PRINTF('%x', j)", "PRINTF(s, i)"),
    "TYPEOF": ("TYPEOF(i)", "TYPEOF(s)", "TYPEOF(a, TRUE)", "TYPEOF(q)", "TYPEOF('abc')"),
    "MD5": ("MD5(s)",),
    "SHA1": ("SHA1(s)",),
    "SHA256": ("SHA256(s)",),
    "CAST": (
        *("CAST(i AS STRING)", "CAST(d AS STRING)", "CAST(g AS STRING)", "CAST(x AS STRING)", "CAST(f AS STRING)", "CAST(o AS STRING)", "CAST(y AS STRING)", "CAST(ts AS STRING)"),
        *("CAST(us AS STRING)", "CAST(lt AS STRING)", "CAST(h AS STRING)", "CAST(bs AS STRING)", "CAST(s AS BYTES)", "CAST(s AS CHAR(2))", "CAST(s AS VARCHAR(1))", "CAST(c AS STRING)"),
        *("CAST(j AS TINYINT)", "CAST(i AS SMALLINT)", "CAST(l AS INT)", "CAST(x AS INT)", "CAST(x AS BIGINT)", "CAST(d AS INT)", "CAST(g AS BIGINT)", "CAST(x AS DECIMAL(12, 2))", "CAST(x AS TINYINT)", "CAST(d AS TINYINT)", "CAST(d AS SMALLINT)"),
        *("CAST(d AS DECIMAL(4, 1))", "CAST(g AS DECIMAL(30, 2))", "CAST(i AS DECIMAL(5, 1))", "CAST(l AS DECIMAL(20, 3))", "CAST(d AS DOUBLE)", "CAST(l AS FLOAT)", "CAST(x AS FLOAT)", "CAST(i AS DOUBLE)"),
        *("CAST(i AS BOOLEAN)", "CAST(o AS INT)", "CAST(o AS DECIMAL(3, 1))", "CAST(o AS DOUBLE)"),
        *("CAST(y AS TIMESTAMP(3))", "CAST(ts AS DATE)", "CAST(us AS TIMESTAMP(3))", "CAST(us AS TIMESTAMP(0))", "CAST(ts AS TIMESTAMP(6))", "CAST(lt AS TIMESTAMP(3))", "CAST(ts AS TIMESTAMP_LTZ(3))"),
        *("CAST(lt AS DATE)", "CAST(y AS TIMESTAMP_LTZ(3))", "CAST(ts AS TIME(3))", "CAST(ts AS TIME(0))", "CAST(h AS TIMESTAMP(3))", "CAST(lt AS TIME(3))", "CAST(ts AS TIMESTAMP(9))"),
        *("CAST('2024-02-29' AS DATE)", "CAST('2024-02-29 01:02:03.456' AS TIMESTAMP(3))", "CAST('12:34:56' AS TIME(0))", "CAST('true' AS BOOLEAN)", "CAST(' 12 ' AS INT)", "CAST('1.5' AS DECIMAL(3, 1))"),
        *("CAST(INTERVAL '1' DAY AS BIGINT)", "CAST(j AS INTERVAL DAY TO SECOND(3))", "CAST(INTERVAL '26' HOUR AS STRING)", "CAST(INTERVAL '14' MONTH AS STRING)", "CAST(a AS ARRAY<BIGINT>)", "CAST(a AS ARRAY<STRING>)", "CAST(q AS ROW<u BIGINT, v STRING>)"),
        *("CAST(NULL AS INT)", "CAST(h AS TIME(0))", "CAST(lt AS TIMESTAMP_LTZ(0))"),
    ),
    "TRY_CAST": (
        *("TRY_CAST(s AS INT)", "TRY_CAST(s AS DOUBLE)", "TRY_CAST(s AS DECIMAL(5, 1))", "TRY_CAST(s AS BOOLEAN)", "TRY_CAST(s AS DATE)", "TRY_CAST(s AS TIMESTAMP(3))", "TRY_CAST(s AS TIME(0))"),
        *("TRY_CAST(s AS TINYINT)", "TRY_CAST(s AS BIGINT)", "TRY_CAST(s AS FLOAT)", "TRY_CAST(s AS TIMESTAMP_LTZ(3))", "TRY_CAST(r AS DATE)", "TRY_CAST('2024-02-30' AS DATE)", "TRY_CAST('99999999999' AS INT)"),
        *("TRY_CAST('24:00:00' AS TIME(0))", "TRY_CAST('2024-1-2' AS DATE)", "TRY_CAST(i AS TINYINT)", "TRY_CAST('1e400' AS DOUBLE)", "TRY_CAST('NaN' AS DOUBLE)"),
    ),
    "CURRENT_TIMESTAMP": ("CURRENT_TIMESTAMP",),
    "CURRENT_ROW_TIMESTAMP": ("CURRENT_ROW_TIMESTAMP()",),
    "NOW": ("NOW()",),
    "LOCALTIMESTAMP": ("LOCALTIMESTAMP",),
    "CURRENT_DATE": ("CURRENT_DATE",),
    "CURRENT_TIME": ("CURRENT_TIME",),
    "LOCALTIME": ("LOCALTIME",),
    "PROCTIME": ("PROCTIME()",),
    # It needs a row time, which COLUMNS have not.
    "CURRENT_WATERMARK": (),
}  # fmt: skip
"""Function → expressions over COLUMNS that call it, with NULL, empty, negative and boundary values among their arguments. A
function that is not here is called with columns of types that its signature takes."""


_TYPED = {
    "s": sql.STRING, "r": sql.STRING, "i": sql.INT, "j": sql.INT, "l": sql.BIGINT, "d": sql.decimal(10, 2), "x": sql.DOUBLE,
    "o": sql.BOOLEAN, "y": sql.DATE, "ts": sql.timestamp(3), "lt": sql.timestamp_ltz(3), "bs": sql.BYTES,
    "a": sql.array(sql.INT), "m": sql.map_of(sql.STRING, sql.INT),
}  # fmt: skip
_OF_SIGNATURE_MAX = 4
"""Calls with the same number of arguments."""


def of_signature(function: ScalarFunction) -> tuple[str, ...]:
    """Calls by name with columns of types that the signature takes, spread over all that it takes."""
    found = list[str]()
    for count in range(function.args_min, min(function.args_max, function.args_min + 2) + 1):
        taken = [columns for columns in itertools.permutations(_TYPED, count) if _takes(function, columns)]
        step = max(1, len(taken) // _OF_SIGNATURE_MAX)
        found += [f"{function.name}({', '.join(columns)})" for columns in taken[::step]]
    return tuple(found)


def _takes(function: ScalarFunction, columns: tuple[str, ...]) -> bool:
    types = function.coerce(tuple(_TYPED[c] for c in columns))
    result = None if types is None else function.result_type(types)
    if types is None or result is None:
        return False
    try:
        if function.check is not None:
            function.check(Call(function.name, tuple(InputRef(i, t) for i, t in enumerate(types)), result))
    except UserError:
        return False
    return True


def _examples(function: ScalarFunction) -> tuple[str, ...]:
    described = (function.example,) if function.example else ()
    written = _WRITTEN.get(function.name)
    return described + (of_signature(function) if written is None else written)


EXAMPLES = {name: _examples(function) for name, function in SCALAR_FUNCTIONS.items()}
"""Function → its own example, and expressions over COLUMNS that call it."""
