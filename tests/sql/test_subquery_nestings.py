"""Subqueries within subqueries, of every kind and at every place, are planned or refused there, and answer as DuckDB does.

Those that are planned run every third day, others on each; `--draws all` takes all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle import Tables
from sql_cases import today
from sql_oracles import check_generated, draw_of_the_day, generated
from sql_runs import Draw, planned, run_case

from sqlstream.errors import UserError

TABLES: Tables = {
    "o": ("a INT, b INT", [(1, 10), (2, None), (3, 30), (None, 40)]),
    "m": ("c INT, d INT", [(1, 10), (2, 20), (None, 5), (5, 30)]),
    "n": ("e INT, f INT", [(1, 20), (3, 10), (5, None)]),
}
PREDICATES = (
    "{value} IN ({query})",
    "{value} NOT IN ({query})",
    "EXISTS ({query})",
    "NOT EXISTS ({query})",
    "{value} >= (SELECT MAX(w.k) FROM ({query}) AS w(k))",
    "{value} > ANY ({query})",
    "{value} <= ALL ({query})",
)
CORRELATIONS = ("", " WHERE n.e = m.c", " WHERE n.e = o.a", " WHERE n.e = m.c AND n.f > o.b")
INNER_VALUES = ("m.d", "o.a", "m.c + o.a")
OUTER_VALUES = (
    "o.a",
    "CASE WHEN o.a IN (SELECT e FROM n) THEN 1 ELSE o.b END",
    "(SELECT MAX(e) FROM n WHERE e >= o.a)",
)
QUERIES = (
    "SELECT m.c FROM m WHERE {inner}",
    "SELECT m.c FROM m WHERE CASE WHEN {inner} THEN m.c ELSE 2 END = m.c",
    "SELECT CASE WHEN {inner} THEN m.c ELSE 1 END FROM m",
    "SELECT CASE WHEN {inner} THEN m.c ELSE 1 END FROM m WHERE m.d = o.b",
    "SELECT MAX(CASE WHEN {inner} THEN m.c END) FROM m GROUP BY m.d",
    "SELECT m.c FROM m JOIN n AS j ON j.e = m.c AND {inner}",
    "SELECT w.k FROM (SELECT m.c AS k, {inner} AS r FROM m) AS w WHERE w.r",
)
PLACES = {
    "SELECT": "SELECT o.a, {outer} AS r FROM o",
    "CASE": "SELECT o.a, CASE WHEN {outer} THEN 'x' ELSE 'y' END AS r FROM o",
    "WHERE": "SELECT o.a, o.b FROM o WHERE {outer}",
    "CASE in WHERE": "SELECT o.a, o.b FROM o WHERE CASE WHEN {outer} THEN o.a > 1 ELSE o.a = 1 END",
    "HAVING": "SELECT o.a, o.b FROM o GROUP BY o.a, o.b HAVING {outer}",
    "CASE in HAVING":
        "SELECT o.a, o.b FROM o GROUP BY o.a, o.b HAVING CASE WHEN {outer} THEN COUNT(*) > 1 ELSE COUNT(*) = 1 END",
    "grouped SELECT": "SELECT o.a, o.b, COUNT(*) AS c, {outer} AS r FROM o GROUP BY o.a, o.b",
    "ON": "SELECT o.a, z.a AS za FROM o JOIN o AS z ON o.a = z.a AND {outer}",
    "OR in ON": "SELECT o.a, z.a AS za FROM o JOIN o AS z ON o.a > z.a OR {outer}",
    "ORDER BY": "SELECT o.a, o.b FROM o ORDER BY {outer}, o.a LIMIT 2",
    "aggregate": "SELECT o.a, SUM(CASE WHEN {outer} THEN 1 ELSE 2 END) AS r FROM o GROUP BY o.a",
    "FILTER": "SELECT o.a, COUNT(*) FILTER (WHERE {outer}) AS r FROM o GROUP BY o.a",
    "function": "SELECT o.a, COALESCE(NULLIF(o.b, CAST({outer} AS INT)), 7) AS r FROM o",
    "OVER": "SELECT o.a, COUNT(CASE WHEN {outer} THEN 1 END) OVER (PARTITION BY o.a) AS r FROM o",
    "DISTINCT": "SELECT DISTINCT {outer} AS r FROM o",
    "UNION": "SELECT {outer} AS r FROM o UNION ALL SELECT {outer} FROM o",
    "WITH": "WITH q AS (SELECT o.a, {outer} AS r FROM o) SELECT a, r FROM q WHERE r",
    "LATERAL": "SELECT o.a, l.r FROM o, LATERAL (SELECT {outer} AS r) AS l",
}  # fmt: skip
REFUSED = {
    "GROUP BY": "SELECT COUNT(*) AS c FROM o GROUP BY {outer}",
    "LEFT JOIN": "SELECT o.a FROM o LEFT JOIN o AS z ON o.a = z.a AND o.a IN (SELECT c FROM m WHERE {outer})",
    "VALUES": "SELECT v.k FROM (VALUES ({outer})) AS v(k)",
}


def nestings(place: str, template: str) -> Iterator[str]:
    """Each kind of subquery at a place, and another kind within it at each place. What else differs takes turns."""
    first = list(PLACES).index(place) if place in PLACES else 0
    for turn, outer in enumerate(PREDICATES):
        inner = PREDICATES[(turn + first) % len(PREDICATES)]
        step = first * len(PREDICATES) + turn
        correlation = CORRELATIONS[step % len(CORRELATIONS)]
        within = inner.format(value=INNER_VALUES[step // 4 % 3], query=f"SELECT n.f FROM n{correlation}")
        query = QUERIES[(turn * 3 + first) % len(QUERIES)].format(inner=within)
        yield template.format(outer=outer.format(value=OUTER_VALUES[step % 3], query=query))


DAYS = 3


@pytest.mark.parametrize("place", PLACES)
def test_nested_subqueries_have_the_rows_that_duckdb_has_for_the_text(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    has_all = request.config.getoption("--draws") == "all"
    turn = list(PLACES).index(place) + (request.config.getoption("--day") or today())
    for number, sql in enumerate(nestings(place, PLACES[place])):
        case = generated(f"{place}_{number}", sql, TABLES, "duckdb", "no-batch")
        if has_all or number % DAYS == turn % DAYS:
            check_generated(case, tmp_path, draw_of_the_day(case, number, len(PREDICATES)))
        else:
            planned(case, "rows", "AUTO", 65_536)


@pytest.mark.parametrize("place", REFUSED)
def test_nested_subqueries_without_a_place_are_refused_at_theirs(place: str, tmp_path: Path) -> None:
    for sql in nestings(place, REFUSED[place]):
        with pytest.raises(UserError) as caught:
            run_case(generated("refused", sql, TABLES), Draw(), tmp_path)
        assert (caught.value.code[:3], caught.value.span is None) == ("SS3", False), sql
