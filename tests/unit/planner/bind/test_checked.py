"""What no row could make work is refused by the planner alone, at the call itself."""

from __future__ import annotations

from typing import Any

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.functions import SCALAR_FUNCTIONS

TABLE = """CREATE TABLE t (
  s STRING, p STRING, i INT, d DATE, h TIME(3), ts TIMESTAMP(3), y BYTES, a ARRAY<INT>, b BOOLEAN, m MULTISET<INT>
) WITH ('connector' = 'datagen')"""

REFUSED: list[tuple[str, str, str, str]] = [
    ("LIKE", "s LIKE 'a!b' ESCAPE '!'", "SS3103", 'its escape character before "b"'),
    ("SIMILAR TO", "s SIMILAR TO '(a'", "SS3104", "is malformed"),
    ("REGEXP", "REGEXP(s, '(?=a')", "SS3104", "is malformed"),
    ("REGEXP_EXTRACT", "REGEXP_EXTRACT(s, '(', 1)", "SS3104", "is malformed"),
    ("REGEXP_REPLACE", "REGEXP_REPLACE(s, '*', '')", "SS3104", "is malformed"),
    ("REGEXP_COUNT", "REGEXP_COUNT(s, 'a+++')", "SS3104", "is malformed"),
    ("REGEXP_EXTRACT_ALL", "REGEXP_EXTRACT_ALL(s, '[')", "SS3104", "is malformed"),
    ("REGEXP_INSTR", "REGEXP_INSTR(s, ')')", "SS3104", "is malformed"),
    ("REGEXP_SUBSTR", "REGEXP_SUBSTR(s, '(a)\\k<n>')", "SS3104", "is malformed"),
    ("STR_TO_MAP", "STR_TO_MAP(s, ',', '(')", "SS3104", "is malformed"),
    ("PARSE_URL", "PARSE_URL(s, 'QUERY', '(?!a)')", "SS3104", "uses look-ahead"),
    ("DATE_FORMAT", "DATE_FORMAT(ts, 'yyyy-F')", "SS3105", 'letter "F"'),
    ("DATE_FORMAT", "DATE_FORMAT(ts, 'yyyy[-MM]')", "SS3105", '"[" of date pattern "yyyy[-MM]"'),
    ("TO_TIMESTAMP", "TO_TIMESTAMP(s, 'yyyy-MM-dd[ HH:mm]')", "SS3105", "parts are not optional"),
    ("DATE_FORMAT", "DATE_FORMAT(ts, 'HH:mm XXX')", "SS3105", '"XXX" of date pattern "HH:mm XXX" writes a time zone'),
    ("SIMILAR TO", "s SIMILAR TO '[[:foo:]]'", "SS3103", 'has "[:foo:]"'),
    ("FROM_UNIXTIME", "FROM_UNIXTIME(i, '''')", "SS3105", "a quote without its end"),
    ("TO_TIMESTAMP", "TO_TIMESTAMP(s, 'YYYY-MM-dd')", "SS3105", "does not say which day"),
    ("TO_DATE", "TO_DATE(s, 'uuuu-dd yyyy')", "SS3105", 'twice, by "y"'),
    ("TO_DATE", "TO_DATE(s, 'yyyy-MM-dd' || ' W')", "SS3105", 'letter "W"'),
    ("UNIX_TIMESTAMP", "UNIX_TIMESTAMP(s, 'kk')", "SS3105", 'letter "k"'),
    ("TO_TIMESTAMP", "TO_TIMESTAMP(s, 'yyyy.SSSSSSSSSS')", "SS3105", '"SSSSSSSSSS" of date pattern'),
    ("UNIX_TIMESTAMP", "UNIX_TIMESTAMP(s, 'dd.MM.yy')", "SS3105", "years of two digits"),
    ("TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_LTZ(i, 3 + 7)", "SS3102", "with precision 10"),
    ("TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_LTZ(s, 'yyyy', 'Mars')", "SS4020", '"Mars" does not exist'),
    ("CONVERT_TZ", "CONVERT_TZ(s, 'UTC', 'Mars')", "SS4020", '"Mars" does not exist'),
    ("CONVERT_TZ", "CONVERT_TZ(s, '', 'UTC')", "SS4020", '"" does not exist'),
    ("CEILING", "CEILING(ts, 'FORTNIGHT')", "SS3102", "to FORTNIGHT"),
    ("FLOOR", "FLOOR(h TO DAY)", "SS3102", "of a TIME to DAY"),
    ("CEIL", "CEIL(h TO YEAR)", "SS3102", "of a TIME to YEAR"),
    ("TYPEOF", "TYPEOF(i, b)", "SS3101", "argument 2 of TYPEOF"),
    ("SHA2", "SHA2(s, 255 + 2)", "SS3102", "with 257 bits"),
    ("INSTR", "INSTR(s, s, 1, 0)", "SS3102", "with appearance 0"),
    ("TIMESTAMPADD", "TIMESTAMPADD(MONTH, i, h)", "SS3102", "with unit MONTH of a TIME"),
    ("ENCODE", "ENCODE(s, 'EBCDIC')", "SS3460", '"EBCDIC" does not exist'),
    ("DECODE", "DECODE(y, 'utf8')", "SS3460", '"utf8" does not exist'),
    ("PRINTF", "PRINTF('%d %e', i, i)", "SS3462", "does not know %e"),
    ("ITEM", "a[1 - 1]", "SS3102", "at position 0"),
    ("MAP", "MAP[a, 1]", "SS3102", "with keys of type ARRAY<INT>"),
    ("CAST", "CAST(m AS MULTISET<STRING>)", "SS3106", "CAST of MULTISET<INT> to MULTISET<STRING>"),
    ("TRY_CAST", "TRY_CAST(ARRAY[m] AS ARRAY<MULTISET<STRING>>)", "SS3106", "to MULTISET<STRING>"),
    ("JSON_STRING", "JSON_STRING(MAP[i, s])", "SS3102", "of a MAP with keys of type INT"),
    ("JSON_STRING", "JSON_STRING(ROW(i, ARRAY[m]))", "SS3102", "of MULTISET<INT>"),
    ("JSON_LENGTH", "JSON_LENGTH(s, p)", "SS3101", "argument 2 of JSON_LENGTH"),
    ("JSON_TYPE", "JSON_TYPE(s, 'lax $.a')", "SS3452", "takes no lax or strict"),
]  # fmt: skip
"""A function, a call of it, and what it is refused with."""

AT_A_PATH = [
    ("JSON_VALUE", "JSON_VALUE(s, '$.a[')", "SS3450"),
    ("JSON_QUERY", "JSON_QUERY(s, '$[0:9:2]')", "SS3451"),
    ("JSON_EXISTS", "JSON_EXISTS(s, '$[?(@.a =~ /(/)]')", "SS3104"),
]
"""Calls whose error is underlined at the path."""

FROM_SYNTAX = {
    *("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "TRIM"),
    *("IS JSON", "JSON_OBJECT", "JSON_ARRAY", "JSON_MEMBER"),
}
"""Functions whose constants are words of their syntax, which the parser looks at."""


def _refusal(expression: str, clause: str = "SELECT {} FROM t") -> tuple[UserError, str]:
    planner = Planner()
    planner.run(TABLE)
    query = clause.format(expression)
    with pytest.raises(UserError) as refused:
        planner.bind(query)
    span = refused.value.span
    assert span is not None
    return refused.value, query[span.start : span.end]


@pytest.mark.parametrize(("name", "expression", "code", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_a_call_that_no_row_could_make_work_is_refused_where_it_stands(
    name: str, expression: str, code: str, message: str
) -> None:
    for clause in (
        "SELECT {} FROM t",
        "SELECT COALESCE({}, NULL) IS NULL FROM t",
        "SELECT MAX(CASE WHEN b THEN TYPEOF({}) END) FROM t",
    ):
        error, underlined = _refusal(expression, clause)
        assert (error.code, underlined) == (code, expression)
        assert message in error.message


@pytest.mark.parametrize(("name", "expression", "code"), AT_A_PATH)
def test_a_path_is_refused_where_it_stands(name: str, expression: str, code: str) -> None:
    error, underlined = _refusal(expression)
    assert (error.code, underlined) == (code, expression[expression.index("'") : -1])


def test_every_check_refuses_something_here() -> None:
    tried: set[Any] = {name for name, *_ in (*REFUSED, *AT_A_PATH)}
    assert tried | FROM_SYNTAX == {name for name, f in SCALAR_FUNCTIONS.items() if f.check is not None}


@pytest.mark.parametrize(
    "expression",
    [
        *("1 / 0", "REPEAT(s, CAST('y' AS INT))", "ROUND(i, 1 / 0)", "ROUND(i, CHAR_LENGTH('abc'))"),
        *("REGEXP(s, p)", "s LIKE p ESCAPE '!!'", "REGEXP(s, UPPER('('))", "SHA2(s, i)", "a[i]"),
        *("DATE_FORMAT(ts, p)", "TO_TIMESTAMP_LTZ(i, NULL)", "PRINTF('%d', s)"),
        *("CONVERT_TZ(s, NULL, 'Mars')", "REGEXP(s, '')", "MAP[i, m]", "CAST(m AS MULTISET<INT>)"),
    ],
)
def test_what_only_rows_can_tell_is_left_to_them(expression: str) -> None:
    planner = Planner()
    planner.run(TABLE)
    planner.bind(f"SELECT {expression} FROM t")
