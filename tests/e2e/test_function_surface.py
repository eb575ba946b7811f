"""What Flink's description of its functions says of them, in its own examples and at their edges."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

import sqlstream

UTC = datetime.UTC


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    with sqlstream.connect("embedded://") as connection:
        yield connection.cursor()


EXPRESSIONS: dict[str, Any] = {
    # NULLs without a type
    "NULL IS DISTINCT FROM NULL": False,
    "NULL IS NOT DISTINCT FROM NULL": True,
    "1 IS DISTINCT FROM NULL": True,
    "NULL IN (NULL)": None,
    "NULL IN (1)": None,
    "GREATEST(NULL, NULL)": None,
    "COALESCE(NULL, NULL)": None,
    "NULLIF(NULL, NULL)": None,
    "CASE NULL WHEN NULL THEN 1 END": None,
    "NULL BETWEEN NULL AND NULL": None,
    "NULL || NULL": None,
    "CARDINALITY(NULL)": None,
    # comparisons
    "12 BETWEEN 15 AND 12": False,
    "12 BETWEEN SYMMETRIC 15 AND 12": True,
    "12 BETWEEN 10 AND NULL": None,
    "12 BETWEEN NULL AND 10": False,
    "12 BETWEEN SYMMETRIC NULL AND 12": None,
    "12 NOT BETWEEN 15 AND NULL": True,
    "4 IN (1, 2, NULL)": None,
    "1 NOT IN (1, 2, NULL)": False,
    "CASE 2 WHEN 1, 2 THEN 'a' ELSE 'b' END": "a",
    "CASE 3 WHEN 1, 2 THEN 'a' WHEN 3 THEN 'c' END": "c",
    "CASE NULL WHEN 1, NULL THEN 'a' ELSE 'b' END": "b",
    # time
    "TIMESTAMPADD(MICROSECOND, 1, TIMESTAMP '2020-01-01 00:00:00')": datetime.datetime(
        2020, 1, 1, 0, 0, 0, 1
    ),
    "CAST(TIMESTAMPADD(NANOSECOND, -1, TIMESTAMP '2020-01-01 00:00:00') AS STRING)": (
        "2019-12-31 23:59:59.999999999"
    ),
    "TIMESTAMPADD(MICROSECOND, 1, DATE '2020-01-01')": datetime.datetime(2020, 1, 1, 0, 0, 0, 1),
    "TIMESTAMPADD(SQL_TSI_DAY, 1, DATE '2020-01-01')": datetime.date(2020, 1, 2),
    "TIMESTAMPADD(MICROSECOND, CAST(NULL AS INT), TIMESTAMP '2020-01-01 00:00:00')": None,
    "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '2020-01-01 00:00:00', DATE '2020-01-02')": 86_400_000_000,
    "TIMESTAMPDIFF(NANOSECOND, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-01 00:00:01.000000001')": (
        1_000_000_001
    ),
    "UNIX_TIMESTAMP('1970-01-01 08:00:01.001', 'yyyy-MM-dd HH:mm:ss.SSS')": 28801,
    "UNIX_TIMESTAMP('1970-01-01 08:00:01.001 +0800', 'yyyy-MM-dd HH:mm:ss.SSS X')": 1,
    "UNIX_TIMESTAMP('1970-01-01 08:00:01.001 +0800', 'yyyy-MM-dd HH:mm:ss.SSS')": 28801,
    "UNIX_TIMESTAMP('1970-01-01 08:00:01.001', 'yyyy-MM-dd HH:mm:ss.SSS X')": -(2**63),
    "UNIX_TIMESTAMP('1970-01-01 00:00:00-02:30', 'yyyy-MM-dd HH:mm:ssXXX')": 9000,
    "TO_TIMESTAMP_LTZ('2023-01-01 12:30:00.123456 +08', 'yyyy-MM-dd HH:mm:ss.SSSSSS X')": datetime.datetime(
        2023, 1, 1, 4, 30, 0, 123456, UTC
    ),
    "TO_TIMESTAMP('2023-01-01 12:30:00+08:00', 'yyyy-MM-dd HH:mm:ssXXX')": datetime.datetime(
        2023, 1, 1, 12, 30
    ),
    "TO_TIMESTAMP_LTZ('2023-01-01 12:30:00Z', 'yyyy-MM-dd HH:mm:ssX', 'Asia/Tokyo')": datetime.datetime(
        2023, 1, 1, 12, 30, tzinfo=UTC
    ),
}


def test_expressions_have_the_values_of_the_description(cursor: Any) -> None:
    cursor.execute("SELECT " + ", ".join(EXPRESSIONS))
    values = dict(zip(EXPRESSIONS, cursor.fetchone(), strict=True))
    assert values == EXPRESSIONS


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "SELECT t.r.*, r.* FROM (SELECT CAST(ROW(1, 2) AS ROW<a INT, b INT>) AS r) t": [(1, 2, 1, 2)],
    "SELECT CARDINALITY(COLLECT(x)) FROM (VALUES (1), (2), (2), (NULL)) t(x)": [(3,)],
    "SELECT COLLECT(NULL), COUNT(NULL), MIN(NULL) FROM (VALUES (1)) t(x)": [({}, 0, None)],
    "SELECT OBJECT_OF('c.User', 'name', 'Bob', 'at', OBJECT_OF('c.At', 'city', 'Berlin')).at.city": [
        ("Berlin",)
    ],
    """SELECT OBJECT_UPDATE(o, 'name', 'Alice', 'age', NULL), OBJECT_UPDATE(n, 'age', 1) FROM (
       SELECT OBJECT_OF('User', 'name', 'Bob', 'age', x) AS o, CAST(NULL AS ROW<age INT>) AS n FROM (VALUES (14)) t(x))""": [
        (("Alice", None), None)
    ],
    "SELECT APPROX_COUNT_DISTINCT(x), APPROX_COUNT_DISTINCT(x) FILTER (WHERE x > 1) FROM (VALUES (1), (2), (2), (NULL)) t(x)": [
        (2, 1)
    ],
    """SELECT k, BITMAP_TO_STRING(BITMAP_BUILD_AGG(x)), BITMAP_BUILD_CARDINALITY_AGG(x)
       FROM (VALUES (1, 2), (1, -1), (1, 2), (2, NULL)) t(k, x) GROUP BY k""": [
        (1, "{2,4294967295}", 2),
        (2, None, None),
    ],
    """SELECT BITMAP_TO_STRING(BITMAP_AND_AGG(b)), BITMAP_TO_STRING(BITMAP_XOR_AGG(b)), BITMAP_OR_CARDINALITY_AGG(b)
       FROM (SELECT BITMAP_BUILD(a) AS b FROM (VALUES (ARRAY[1, 2]), (ARRAY[2, 3]), (ARRAY[2]), (NULL)) t(a))""": [
        ("{2}", "{1,2,3}", 3)
    ],
    "SELECT NULL AS x UNION SELECT NULL": [(None,)],
    "SELECT NULL AS x, 1 AS y UNION ALL SELECT 2, NULL": [(None, 1), (2, None)],
}


def test_queries_have_the_rows_of_the_description(cursor: Any) -> None:
    assert {query: cursor.execute(query).fetchall() for query in ROWS} == ROWS
    verified = cursor.execute("VERIFY SELECT NULL AS x UNION SELECT NULL").fetchall()
    assert verified[0][0].startswith("equal: 1 row")


REFUSED: dict[str, tuple[str, str]] = {
    "SELECT CASE WHEN 1 = 1, 2 = 2 THEN 'a' END": ("SS1001", 'expected "THEN"'),
    "SELECT TIMESTAMPADD(NANOSECOND, 1, TIMESTAMP '9020-01-01 00:00:00')": ("SS5102", "out of range"),
    "SELECT TIMESTAMPADD(MICROSECOND, 9223372036854775807, TIMESTAMP '2020-01-01 00:00:00')": (
        "SS5102",
        "the years 0001 to 9999",
    ),
    "SELECT OBJECT_OF('User', 'name')": ("SS2006", "a key before each value"),
    "SELECT OBJECT_OF('User', 'a', 1, 'a', 2)": ("SS2006", "occurs twice"),
    "SELECT OBJECT_UPDATE(OBJECT_OF('User', 'name', 'Bob'), 'nam', 'x')": ("SS2003", 'did you mean "name"'),
    "SELECT OBJECT_UPDATE(1, 'name', 'x')": ("SS2006", "an object or a ROW"),
    "SELECT APPROX_COUNT_DISTINCT(1, 2)": ("SS1", "takes 1 argument"),
    "SELECT BITMAP_FROM_BYTES(x'00')": ("SS5102", "not a bitmap"),
    "SELECT CAST(BITMAP_BUILD(ARRAY[1]) AS BYTES)": ("SS2008", "use BITMAP_TO_BYTES"),
    "SELECT BITMAP_BUILD(ARRAY[1]) = BITMAP_BUILD(ARRAY[1])": ("SS2008", "BITMAP"),
    "CREATE TABLE t (b BITMAP) WITH ('connector' = 'datagen')": ("SS3453", "BITMAP_FROM_BYTES"),
    "SELECT RAND_INTEGER(1, 0)": ("SS5106", "not above 0"),
    "SELECT q.* FROM (SELECT CAST(ROW(1, 2) AS ROW<a INT, b INT>) AS r) t": ("SS2001", '"q"'),
}


def test_wrong_calls_are_refused_where_they_stand(cursor: Any) -> None:
    for statement, (code, words) in REFUSED.items():
        with pytest.raises(sqlstream.Error) as raised:
            cursor.execute(statement).fetchall()
        assert raised.value.code.startswith(code), statement
        assert words in str(raised.value), statement
        assert raised.value.line == 1, statement
