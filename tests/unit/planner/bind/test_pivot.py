"""PIVOT: its columns and their names, and the refusals."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = (
    "CREATE TABLE t (g STRING, k STRING, n INT, x BIGINT, a MAP<STRING, INT>) WITH ('connector' = 'stream');"
)
FROM = "SELECT * FROM (SELECT g, k, n, x FROM t) AS s"


def columns(sql: str) -> list[str]:
    (plan,) = compile_script(f"{DDL} {sql};")
    return list(plan.relational[0].schema.names)


@pytest.mark.parametrize(
    ("pivot", "names"),
    [
        ("PIVOT (SUM(x) FOR k IN ('a', 'b' AS c))", ["g", "n", "a", "c"]),
        ("PIVOT (SUM(x) AS s FOR k IN ('a', 'b' c))", ["g", "n", "a_s", "c_s"]),
        ("PIVOT (SUM(x), COUNT(*) AS c FOR k IN ('a', 'b'))", ["g", "n", "a", "a_c", "b", "b_c"]),
        ("PIVOT (COUNT(*) FOR n IN (1, -2, NULL))", ["g", "k", "x", "1", "-2", "NULL"]),
        ("PIVOT (SUM(x) FOR (k, n) IN (('a', 1), ('b', 2) AS y))", ["g", "a_1", "y"]),
        ("PIVOT (SUM(x) FILTER (WHERE n > 0) FOR k IN ('a')) AS p", ["g", "a"]),
        ("PIVOT (SUM(x) FOR k IN ('a') GROUP BY n)", ["n", "a"]),
        ("PIVOT (SUM(x) FOR k IN ('a')) AS p (u, v, w)", ["u", "v", "w"]),
        ("PIVOT (SUM(x) FOR k IN ('a')) PIVOT (MAX(a) FOR n IN (1))", ["g", "1"]),
    ],
)
def test_the_columns_that_are_left_and_one_for_each_choice_and_aggregate(
    pivot: str, names: list[str]
) -> None:
    assert columns(f"{FROM} {pivot}") == names


@pytest.mark.parametrize(
    ("pivot", "message", "blamed"),
    [
        ("PIVOT (x FOR k IN ('a'))", "PIVOT takes calls of aggregate functions", "x"),
        ("PIVOT (SUM(x) + 1 FOR k IN ('a'))", "PIVOT takes calls of aggregate functions", "SUM(x) + 1"),
        ("PIVOT (SUM(x) FOR k IN (g))", "PIVOT takes constant values", "g"),
        ("PIVOT (SUM(x) FOR k IN ('a', 'b' AS a))", 'PIVOT makes two columns "a"', "'b' AS a"),
        ("PIVOT (SUM(x), MAX(x) FOR k IN ('a'))", 'PIVOT makes two columns "a"', "'a'"),
        (
            "PIVOT (SUM(x) FOR (k, n) IN (('a')))",
            "a choice of PIVOT has 1 values for 2 columns",
            "('a')",
        ),
        ("PIVOT (SUM(x) FOR y IN ('a'))", 'column "y" does not exist in table "s"', "y"),
        ("PIVOT (SUM(y) FOR k IN ('a'))", 'column "y" does not exist in table "s"', "y"),
        ("PIVOT (SUM(x) FOR k IN ('a') GROUP BY n, z)", 'column "z" does not exist in table "s"', "z"),
        ("PIVOT (SUM(x) FOR k, n IN ('a'))", 'unexpected ",", expected "IN"', ","),
    ],
)
def test_what_pivot_cannot_mean_is_refused_at_its_place(pivot: str, message: str, blamed: str) -> None:
    text = f"{DDL} {FROM} {pivot};"
    with pytest.raises(UserError) as error:
        compile_script(text)
    span = error.value.span
    assert span is not None
    assert (error.value.message, text[span.start : span.end]) == (message, blamed)


def test_a_column_that_is_no_key_is_named() -> None:
    with pytest.raises(UserError, match='PIVOT over column "a" takes no value of type MAP<STRING, INT>'):
        compile_script(f"{DDL} SELECT * FROM t PIVOT (SUM(x) FOR k IN ('a'));")


@pytest.mark.parametrize(
    ("unpivot", "names"),
    [
        ("UNPIVOT (v FOR name IN (g, k))", ["n", "x", "name", "v"]),
        ("UNPIVOT INCLUDE NULLS (v FOR name IN (n AS 'N', x AS y)) AS u", ["g", "k", "name", "v"]),
        ("UNPIVOT EXCLUDE NULLS ((v, w) FOR name IN ((n, g), (x, k)))", ["name", "v", "w"]),
        ("UNPIVOT (v FOR name IN (n)) AS u (a, b, c, d, e)", ["a", "b", "c", "d", "e"]),
    ],
)
def test_unpivot_has_the_columns_that_are_left_and_a_name_and_its_values(
    unpivot: str, names: list[str]
) -> None:
    assert columns(f"{FROM} {unpivot}") == names


@pytest.mark.parametrize(
    ("unpivot", "message"),
    [
        ("UNPIVOT ((v, w) FOR name IN ((n)))", "a choice of UNPIVOT has 1 columns for 2 values"),
        ("UNPIVOT (v FOR name IN (n, g))", 'the columns of value "v" have no common type: INT, STRING'),
        ("UNPIVOT (v FOR name IN (nothing))", '"nothing"'),
    ],
)
def test_an_unpivot_that_cannot_be_meant_is_refused_with_its_place(unpivot: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        columns(f"{FROM} {unpivot}")
    assert error.value.span is not None
