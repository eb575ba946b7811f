"""Queries that read each other, over tables that change: after each batch the result is that of rounds from the beginning."""

from __future__ import annotations

import random
from collections import Counter

import changing_tables
import duckdb
import pytest
from changing_tables import TABLES, Changes, freeze, load, result, scripts
from hypothesis import given, settings
from hypothesis import strategies as st
from job_in_a_thread import INSERT_ONLY, RETRACT, JobInAThread
from job_of_subtasks import JobOfSubtasks
from operator_harness import Row
from oracle import scratch_database
from planner_harness import Planner

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.planner.dialect.nodes import column_types, mutual_recursion
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.runtime.operators import unroll
from sqlstream.specs import MutualIterateSpec

EVEN_ODD = """WITH MUTUALLY RECURSIVE
    even (a INT, b INT) AS (SELECT n, n FROM starts UNION SELECT a, d FROM odd JOIN edges ON b = s),
    odd (a INT, b INT) AS (SELECT DISTINCT a, d FROM even JOIN edges ON b = s)
    SELECT 0 AS k, * FROM even UNION ALL SELECT 1, * FROM odd"""
SHORTEST = """WITH MUTUALLY RECURSIVE
    near (n INT, total INT) AS (
        SELECT n, CAST(MIN(total) AS INT) FROM (
            SELECT n, 0 AS total FROM starts UNION ALL SELECT d, total + w FROM near JOIN edges ON n = s) AS x GROUP BY n)
    SELECT * FROM near"""

ODD = """CASE n WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN CAST('-0.0' AS DOUBLE) WHEN 2 THEN CAST('Infinity' AS DOUBLE)
    WHEN 3 THEN CAST('-Infinity' AS DOUBLE) WHEN 4 THEN 0e0 END"""

SHOWN = "CASE WHEN v < -9 THEN -9 WHEN v < 9 THEN CAST(v AS INT) WHEN v IS NULL THEN 5 ELSE 9 END"

# At some round nothing changes, whatever the tables have.
QUERIES = {
    "even and odd": EVEN_ODD,
    "least distances": SHORTEST,
    "pairs": """WITH MUTUALLY RECURSIVE
        r (a INT, b INT) AS (SELECT s, d FROM edges UNION SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a) SELECT * FROM r""",
    "one alone": "WITH MUTUALLY RECURSIVE r (a INT, b INT) AS (SELECT s, d FROM edges) SELECT * FROM r",
    "those behind": """WITH MUTUALLY RECURSIVE
        x (n INT) AS (SELECT n FROM y UNION ALL SELECT n + 10 FROM z),
        y (n INT) AS (SELECT n FROM z UNION ALL SELECT s FROM edges),
        z (n INT) AS (SELECT n FROM starts) SELECT * FROM x""",
    "in three": """WITH MUTUALLY RECURSIVE
        x (n INT) AS (SELECT n FROM starts UNION SELECT d FROM z JOIN edges ON n = s),
        y (n INT, w INT) AS (SELECT d, w FROM x JOIN edges ON n = s),
        z (n INT) AS (SELECT n FROM y WHERE w > 1 UNION SELECT n FROM x WHERE n > 2)
        SELECT n, 0 AS w FROM z UNION ALL SELECT * FROM y""",
    "in a subquery": """WITH MUTUALLY RECURSIVE
        r (n INT) AS (SELECT n FROM starts UNION SELECT d FROM edges WHERE s IN (SELECT n FROM r) AND w > 1) SELECT * FROM r""",
    "components": """WITH MUTUALLY RECURSIVE
        least (n INT, c INT) AS (
            SELECT n, CAST(MIN(c) AS INT) FROM (
                SELECT s AS n, s AS c FROM edges UNION ALL SELECT d, d FROM edges UNION ALL
                SELECT d, c FROM least JOIN edges ON n = s UNION ALL SELECT s, c FROM least JOIN edges ON n = d) AS x
            GROUP BY n)
        SELECT * FROM least""",
    "both ends": """WITH MUTUALLY RECURSIVE
        r (n INT, low INT, high BIGINT) AS (
            SELECT n, MIN(low), MAX(high) FROM (
                SELECT n, n AS low, CAST(NULL AS BIGINT) AS high FROM starts UNION ALL
                SELECT d, CASE WHEN w = 2 THEN low ELSE d END, GREATEST(COALESCE(high, w), w) FROM r JOIN edges ON n = s) AS x
            GROUP BY n)
        SELECT n, low, CAST(high AS INT) AS high FROM r""",
    "the widest": """WITH MUTUALLY RECURSIVE
        wide (n INT, w BIGINT) AS (
            SELECT n, MAX(w) FROM (
                SELECT n, 9 AS w FROM starts UNION ALL
                SELECT d, LEAST(wide.w, edges.w) FROM wide JOIN edges ON n = s) AS x GROUP BY n)
        SELECT n, w FROM wide""",
    "those that are near": """WITH MUTUALLY RECURSIVE
        near (total INT, n INT) AS (
            SELECT MIN(total), n FROM (
                SELECT n, 0 AS total FROM starts UNION
                SELECT d, total + w FROM near JOIN roads ON n = s AND total < 4) AS x GROUP BY n),
        met (n INT) AS (SELECT n FROM near WHERE n IN (SELECT d FROM roads WHERE w = 1) UNION
            SELECT s FROM edges WHERE d IN (SELECT n FROM met)),
        roads (s INT, d INT, w INT) AS (SELECT s, d, CASE WHEN w < 3 THEN w END FROM edges)
        SELECT n, total FROM near UNION ALL SELECT n, -1 FROM met""",
    "two legs": """WITH MUTUALLY RECURSIVE
        ways (a INT, b INT, total BIGINT) AS (
            SELECT a, b, MIN(total) FROM (
                SELECT s AS a, d AS b, CAST(w AS BIGINT) AS total FROM edges UNION ALL
                SELECT x.a, y.b, x.total + y.total FROM ways AS x JOIN ways AS y ON x.b = y.a) AS x GROUP BY a, b)
        SELECT * FROM ways""",
    "distances of doubles": """WITH MUTUALLY RECURSIVE
        near (n INT, total DOUBLE) AS (
            SELECT n, MIN(total) FROM (
                SELECT n, n * 1e-1 AS total FROM starts UNION ALL
                SELECT d, total + w FROM near JOIN ways ON n = s AND total <= 2.5e0) AS x GROUP BY n),
        ways (s INT, d INT, w DOUBLE) AS (SELECT s, d, CASE WHEN w < 3 THEN w * 1e-1 - 0e0 END FROM edges)
        SELECT n, total FROM near""",
    "losses of floats": """WITH MUTUALLY RECURSIVE
        most (n INT, total FLOAT) AS (
            SELECT n, MAX(total) FROM (
                SELECT n, CAST(n * 1e-1 AS FLOAT) AS total FROM starts UNION ALL
                SELECT d, total - CAST(w * 1e-1 AS FLOAT) FROM most JOIN edges ON n = s) AS x GROUP BY n)
        SELECT n, CAST(total AS DOUBLE) AS total FROM most""",
    "odd doubles": f"""WITH MUTUALLY RECURSIVE
        low (n INT, v DOUBLE) AS (
            SELECT n, MIN(v) FROM (
                SELECT n, {ODD} AS v FROM starts UNION ALL SELECT d, v FROM low JOIN edges ON n = s) AS x GROUP BY n),
        high (n INT, v DOUBLE) AS (
            SELECT n, MAX(v) FROM (
                SELECT n, {ODD} AS v FROM starts UNION ALL SELECT d, v FROM high JOIN edges ON n = s) AS x GROUP BY n)
        SELECT n, {SHOWN} AS v FROM low UNION ALL
        SELECT n, {SHOWN} FROM high""",
    "greatest decimals": """WITH MUTUALLY RECURSIVE
        high (n INT, v DECIMAL(18, 2)) AS (
            SELECT n, MAX(v) FROM (
                SELECT n, CAST(n - 4 AS DECIMAL(18, 2)) AS v FROM starts UNION ALL
                SELECT d, v FROM high JOIN edges ON n = s AND v > w - 5) AS x GROUP BY n)
        SELECT n, CAST(v AS INT) AS v FROM high""",
    "least decimals": """WITH MUTUALLY RECURSIVE
        low (n INT, v DECIMAL(18, 3)) AS (
            SELECT n, CAST(MIN(v) AS DECIMAL(18, 3)) FROM (
                SELECT n, CAST(n - 3 AS DECIMAL(10, 2)) AS v FROM starts UNION ALL
                SELECT d, v FROM low JOIN edges ON n = s AND v < 2) AS x GROUP BY n)
        SELECT n, CAST(v AS INT) AS v FROM low""",
    "first times": """WITH MUTUALLY RECURSIVE
        low (n INT, v DATE, t TIMESTAMP(3)) AS (
            SELECT n, MIN(v), MAX(t) FROM (
                SELECT n, CASE WHEN n < 2 THEN DATE '2024-03-01' WHEN n < 4 THEN DATE '1923-01-05' END AS v,
                    CASE WHEN n < 3 THEN TIMESTAMP '1924-03-01 10:00:00.001' ELSE TIMESTAMP '2024-03-01 10:00:00.000' END AS t
                FROM starts UNION ALL
                SELECT d, v, t FROM low JOIN edges ON n = s) AS x GROUP BY n)
        SELECT n, CAST(v AS STRING) AS v, CAST(CAST(t AS DATE) AS STRING) AS t FROM low""",
    "least texts": """WITH MUTUALLY RECURSIVE
        r (n INT, low STRING) AS (
            SELECT n, MIN(low) FROM (
                SELECT n, CAST(n AS STRING) AS low FROM starts UNION ALL SELECT d, low FROM r JOIN edges ON n = s) AS x
            GROUP BY n)
        SELECT n, CAST(low AS INT) AS low FROM r""",
    "counted": """WITH MUTUALLY RECURSIVE
        reached (n INT) AS (SELECT n FROM starts UNION SELECT d FROM reached JOIN edges ON n = s
            UNION SELECT 9 FROM total WHERE c > 2),
        total (c BIGINT, l INT) AS (SELECT COUNT(*), MIN(n) FROM reached)
        SELECT n, CAST(c AS INT) AS c FROM reached, total""",
    "those left": """WITH MUTUALLY RECURSIVE
        reached (n INT) AS (SELECT n FROM starts UNION SELECT d FROM reached JOIN edges ON n = s),
        rest (n INT) AS (SELECT s FROM edges WHERE NOT EXISTS (SELECT 1 FROM reached WHERE n = s))
        SELECT * FROM rest""",
    "not in": """WITH MUTUALLY RECURSIVE
        reached (n INT) AS (SELECT n FROM starts UNION SELECT d FROM reached JOIN edges ON n = s
            UNION SELECT CAST(NULL AS INT) FROM reached WHERE n = 3),
        rest (n INT) AS (SELECT s FROM edges WHERE s NOT IN (SELECT n FROM reached))
        SELECT * FROM rest""",
    "with and without": """WITH MUTUALLY RECURSIVE
        reached (n INT) AS (SELECT n FROM starts UNION SELECT d FROM reached JOIN edges ON n = s),
        seen (s INT, w INT, n INT) AS (SELECT s, w, n FROM edges LEFT JOIN reached ON n = d)
        SELECT * FROM seen""",
    "the two nearest": """WITH MUTUALLY RECURSIVE
        near (n INT, total INT) AS (
            SELECT n, total FROM (
                SELECT n, total, ROW_NUMBER() OVER (PARTITION BY n ORDER BY total) AS i FROM (
                    SELECT n, 0 AS total FROM starts UNION SELECT d, total + w FROM near JOIN edges ON n = s WHERE total < 12)
                    AS x) AS y
            WHERE i <= 2)
        SELECT * FROM near""",
    "except": """WITH MUTUALLY RECURSIVE
        a (n INT) AS (SELECT n FROM starts UNION SELECT d FROM a JOIN edges ON n = s),
        b (n INT) AS (SELECT s FROM edges EXCEPT SELECT n FROM a)
        SELECT * FROM b""",
    "nested": """WITH MUTUALLY RECURSIVE
        a (n INT) AS (
            WITH MUTUALLY RECURSIVE i (n INT) AS (SELECT n FROM starts UNION SELECT d FROM i JOIN edges ON n = s AND w = 1)
            SELECT n FROM i UNION SELECT d FROM a JOIN edges ON n = s AND w = 2)
        SELECT * FROM a""",
}

# Edges lead to larger numbers alone.
LEADING_ON = {
    "paths": """WITH MUTUALLY RECURSIVE
        r (n INT, total INT) AS (SELECT n, 0 FROM starts UNION ALL SELECT d, total + w FROM r JOIN edges ON n = s)
        SELECT * FROM r""",
    "sums": """WITH MUTUALLY RECURSIVE
        all_of (n INT, c BIGINT) AS (
            SELECT n, SUM(c) FROM (SELECT n, CAST(1 AS BIGINT) AS c FROM starts UNION ALL
                SELECT d, c * w FROM all_of JOIN edges ON n = s) AS x GROUP BY n)
        SELECT n, CAST(c AS INT) AS c FROM all_of""",
    "won": """WITH MUTUALLY RECURSIVE
        won (n INT) AS (SELECT DISTINCT s FROM edges WHERE NOT EXISTS (SELECT 1 FROM won WHERE n = d)) SELECT * FROM won""",
    "shares": """WITH MUTUALLY RECURSIVE
        r (n INT, c INT) AS (
            SELECT n, 1 FROM starts UNION ALL
            SELECT d, CAST(COUNT(*) OVER (PARTITION BY d) AS INT) FROM r JOIN edges ON n = s)
        SELECT * FROM r""",
}
LIMITED = {
    "three rounds": """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3)
        even (n INT) AS (SELECT n FROM starts UNION SELECT d FROM odd JOIN edges ON n = s),
        odd (n INT) AS (SELECT d FROM even JOIN edges ON n = s)
        SELECT * FROM even UNION ALL SELECT * FROM odd""",
    "the order of queries": """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 2)
        x (n INT) AS (SELECT n FROM y UNION ALL SELECT n FROM x), y (n INT) AS (SELECT n FROM z),
        z (n INT) AS (SELECT n FROM starts)
        SELECT n, 0 AS k FROM x UNION ALL SELECT n, 1 FROM y""",
    "without an end": """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4)
        r (n INT, c INT) AS (SELECT n, 0 FROM starts UNION ALL SELECT d, c + 1 FROM r JOIN edges ON n = s),
        t (c BIGINT) AS (SELECT COUNT(*) - (SELECT COUNT(*) FROM t) FROM r)
        SELECT n, c FROM r UNION ALL SELECT 0, CAST(c AS INT) FROM t""",
}


def step(t: str, least: str, value: str, condition: str = "TRUE") -> str:
    """The least or greatest value of type `t`, with that made of one along an edge, whose w has the type, too."""
    return f"""WITH MUTUALLY RECURSIVE
        r (n INT, v {t}) AS (SELECT n, {least}(v) FROM (
            SELECT n, CAST(n AS {t}) AS v FROM starts UNION ALL
            SELECT d, {value} FROM r JOIN (SELECT s, d, CAST(w AS {t}) AS w FROM edges) AS e ON n = s
            WHERE {condition}) AS x GROUP BY n)
        SELECT n FROM r"""


STEPS = [
    (step("DOUBLE", "MIN", "v + w", "v < w"), "ranks"),
    (step("DOUBLE", "MAX", "v + w"), "ranks"),
    (step("DOUBLE", "MIN", "v - w", "v <= 5"), "ranks"),
    (step("FLOAT", "MIN", "LEAST(v, w)"), "ranks"),
    # NaN is the greatest number, and not greater than another.
    (step("DOUBLE", "MAX", "v + w", "v > w"), "rounds"),
    # -Infinity + Infinity is not less than Infinity.
    (step("DOUBLE", "MIN", "v", "v <= w"), "rounds"),
    (step("DOUBLE", "MIN", "w - (w - v)"), "rounds"),
    (step("DECIMAL(18, 3)", "MAX", "LEAST(v, w)", "v >= w"), "ranks"),
    (step("DECIMAL(19, 3)", "MIN", "v"), "rounds"),
    (step("DECIMAL(10, 2)", "MIN", "CAST(v + w AS DECIMAL(10, 2))"), "rounds"),
    (step("BIGINT", "MIN", "w - (w - v)"), "ranks"),
]


def job_of(text: str, mode: ChangelogMode = RETRACT, **settings: str) -> JobInAThread:
    return JobInAThread(text, TABLES, mode, **settings)


def recomputed(text: str, rows: dict[str, list[Row]]) -> Counter[Row]:
    """Rounds of the queries on DuckDB, each over tables with the rows that there are of the others."""
    query = parse_query(text)
    clause = query.args["with_"]
    mutual = mutual_recursion(clause)
    assert mutual is not None
    limit = mutual.rounds_max or 100
    bodies = {}
    with scratch_database() as connection:
        load(connection, rows)
        for cte in clause.expressions:
            alias, span = cte.args["alias"], cte.this.meta["span"]
            columns = zip(alias.args["columns"], column_types(cte), strict=True)
            connection.execute(
                f"CREATE TABLE {alias.this.name} ({', '.join(f'{c.name} {t}' for c, t in columns)})"
            )
            bodies[alias.this.name] = as_duckdb(text[span.start : span.end])
        for _ in range(limit):
            before = [rows_of(connection, name) for name in bodies]
            for name, body in bodies.items():
                connection.execute(f"CREATE TABLE made AS {body}")
                connection.execute(
                    f"DELETE FROM {name}; INSERT INTO {name} SELECT * FROM made; DROP TABLE made"
                )
            if before == [rows_of(connection, name) for name in bodies]:
                break
        final = text[clause.expressions[-1].meta["span"].end :]
        return Counter(freeze(row) for row in connection.execute(final).fetchall())


def as_duckdb(body: str) -> str:
    """DuckDB's WITH RECURSIVE is the same for a query that is alone and distinct."""
    return body.replace("WITH MUTUALLY RECURSIVE i (n INT)", "WITH RECURSIVE i (n)")


def rows_of(connection: duckdb.DuckDBPyConnection, table: str) -> Counter[Row]:
    return Counter(connection.execute(f"SELECT * FROM {table}").fetchall())


def run(text: str, script: list[Changes | str], mode: ChangelogMode = RETRACT, ends_before: int = -1) -> None:
    changing_tables.run(job_of(text, mode), lambda rows: recomputed(text, rows), script, ends_before)


@pytest.mark.parametrize("name", QUERIES)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_rows_are_those_of_rounds_from_the_beginning_whatever_came_and_went(
    name: str, data: st.DataObject
) -> None:
    script = data.draw(scripts(leads_on=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unroll, "CELLS_AT_ONCE", data.draw(st.sampled_from([1, 9, 1 << 20])))
        run(QUERIES[name], script, ends_before=data.draw(st.integers(-1, len(script))))


@pytest.mark.parametrize("name", LEADING_ON)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_rows_come_as_often_as_they_are_made(name: str, data: st.DataObject) -> None:
    script = data.draw(scripts(leads_on=True))
    run(LEADING_ON[name], script, ends_before=data.draw(st.integers(-1, len(script))))


@pytest.mark.parametrize("name", LIMITED)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_a_limit_returns_the_rows_of_exactly_so_many_rounds(name: str, data: st.DataObject) -> None:
    run(LIMITED[name], data.draw(scripts(leads_on=False)))


@pytest.mark.parametrize("name", [*QUERIES, *LEADING_ON])
@given(st.data())
@settings(max_examples=6, deadline=None)
def test_tables_that_only_grow_give_the_same_answer(name: str, data: st.DataObject) -> None:
    text = {**QUERIES, **LEADING_ON}[name]
    run(text, data.draw(scripts(name in LEADING_ON, has_deletions=False)), INSERT_ONLY)


SUBTASKS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@pytest.mark.parametrize("name", [*QUERIES, *LEADING_ON, *LIMITED])
@given(st.data())
@settings(max_examples=8, deadline=None)
def test_several_subtasks_give_the_same_answer_also_as_their_number_changes(
    name: str, data: st.DataObject
) -> None:
    text = {**QUERIES, **LEADING_ON, **LIMITED}[name]
    mode = data.draw(st.sampled_from([RETRACT, INSERT_ONLY]))
    job = JobOfSubtasks(text, TABLES, data.draw(SUBTASKS), data.draw(st.integers(0, 99)), mode)
    script = data.draw(scripts(name in LEADING_ON, has_deletions=mode is RETRACT))
    ends_before = data.draw(st.integers(-1, len(script)))
    changing_tables.run(job, lambda rows: recomputed(text, rows), script, ends_before)


@pytest.mark.parametrize(("read", "placement"), [("r", (0,)), ("q", (1,))])
def test_rows_of_a_key_of_the_result_come_from_one_subtask_and_others_are_where_they_are_needed(
    read: str, placement: tuple[int, ...]
) -> None:
    text = f"""WITH MUTUALLY RECURSIVE
        r (n INT, c BIGINT) AS (
            SELECT n, SUM(w) FROM (SELECT n, 1 AS w FROM starts UNION ALL SELECT d, n FROM r JOIN edges ON c = s) GROUP BY n),
        q (c BIGINT) AS (SELECT c FROM r)
        SELECT * FROM {read}"""
    (spec,) = (s for s in job_of(text).specs if isinstance(s, MutualIterateSpec))
    assert spec.placements[0] == placement


def test_a_circle_that_is_cut_off_from_its_start_goes_as_a_whole() -> None:
    job = job_of(EVEN_ODD)
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", a, b, 1) for a, b in ((1, 2), (2, 3), (3, 4), (4, 2))])
    job.flush()
    assert len(result(job)) == 7
    job.change("edges", [("-D", 1, 2, 1)])
    job.flush()
    assert result(job) == Counter([(0, 1, 1)])


def test_a_shortest_way_that_is_closed_gives_room_to_the_next_one() -> None:
    job = job_of(SHORTEST)
    job.change("starts", [("+I", 0)])
    job.change("edges", [("+I", 0, 1, 1), ("+I", 1, 2, 1), ("+I", 2, 1, 1), ("+I", 0, 2, 9)])
    job.flush()
    assert result(job) == Counter([(0, 0), (1, 1), (2, 2)])
    job.change("edges", [("-D", 0, 1, 1)])
    job.flush()
    assert result(job) == Counter([(0, 0), (1, 10), (2, 9)])


def test_what_stays_as_it_is_emits_nothing() -> None:
    job = job_of(SHORTEST)
    job.change("starts", [("+I", 0)])
    job.change("edges", [("+I", 0, 1, 1), ("+I", 1, 2, 1)])
    job.flush()
    before = len(job.output.batches)
    job.change("edges", [("+I", 0, 2, 2), ("+I", 2, 0, 1)])
    job.flush()
    assert len(job.output.batches) == before


COUNTING = "{limit} n (i INT) AS (SELECT n FROM starts UNION SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n"


@pytest.mark.parametrize("mode", [RETRACT, INSERT_ONLY])
@pytest.mark.parametrize("lost", ["NaN", "Infinity"])
def test_a_sum_that_is_not_a_number_is_not_told_from_one_of_infinite_values(
    lost: str, mode: ChangelogMode
) -> None:
    """Rounds take it. What NaN is not part of may be infinite."""
    text = f"""WITH MUTUALLY RECURSIVE LIMIT
        near (n INT, total DOUBLE) AS (
            SELECT n, MIN(total) FROM (
                SELECT n, CAST('-Infinity' AS DOUBLE) AS total FROM starts UNION ALL
                SELECT d, total + CASE w WHEN 1 THEN 0.5e0 ELSE CAST('{lost}' AS DOUBLE) END FROM near JOIN edges ON n = s)
            AS x GROUP BY n)
        SELECT n, total < 0 FROM near"""
    job = job_of(text.replace("LIMIT", ""), mode)
    job.change("starts", [("+I", 0)])
    job.change("edges", [("+I", 0, 1, 1)])
    job.flush()
    assert result(job) == Counter([(0, True), (1, True)])
    job.restore()

    def add() -> None:
        job.change("edges", [("+I", 1, 2, 2)])
        job.flush()

    with pytest.raises(UserError, match='the recursive query "near" is NaN') as caught:
        add()
    assert caught.value.code == "SS3585"
    limited = job_of(text.replace("LIMIT", "(ERROR AT RECURSION LIMIT 9)"), mode)
    limited.change("starts", [("+I", 0)])
    limited.change("edges", [("+I", 0, 1, 1), ("+I", 1, 2, 2)])
    limited.flush()
    assert result(limited) == Counter([(0, True), (1, True), (2, False)])


@pytest.mark.parametrize("subtasks", [1, 3])
@pytest.mark.parametrize(("limit", "code"), [("ERROR AT RECURSION LIMIT 5", "SS3513"), ("", "SS5400")])
def test_queries_that_change_after_the_last_round_stop_the_job(limit: str, code: str, subtasks: int) -> None:
    text = f"WITH MUTUALLY RECURSIVE {COUNTING.format(limit=limit and f'({limit})')}"
    job = JobOfSubtasks(text, TABLES, [subtasks], 0, **{"sqlstream.recursion.max-rounds": "5"})
    job.change("starts", [("+I", 1)])
    job.flush()
    assert result(job) == Counter([(1,), (2,), (3,), (4,), (5,)])
    job.change("starts", [("+I", 0), ("-D", 1)])
    with pytest.raises(UserError, match="5 rounds") as caught:
        job.flush()
    assert caught.value.code == code


def test_a_group_of_many_rows_in_many_rounds_stops_the_job_before_the_memory_is_full() -> None:
    text = """WITH MUTUALLY RECURSIVE
        r (n INT) AS (SELECT n FROM starts UNION SELECT n + 1 FROM r WHERE n < 300),
        c (k BIGINT) AS (SELECT COUNT(*) FROM r) SELECT * FROM c"""
    job = job_of(text, **{"sqlstream.recursion.max-pending-bytes": "1 mb"})
    job.change("starts", [("+I", 1)])
    job.flush()
    assert result(job) == Counter([(300,)])
    job.change("starts", [("+I", 0)])
    with pytest.raises(UserError, match="which take more than 1 MB") as caught:
        job.flush()
    assert (caught.value.code, "group by more columns" in caught.value.hint) == ("SS5401", True)


def test_rows_that_double_in_each_round_stop_the_job_before_the_memory_is_full() -> None:
    text = """WITH MUTUALLY RECURSIVE r (n INT) AS (
        SELECT n FROM starts UNION ALL SELECT d FROM r JOIN edges ON n = s) SELECT * FROM r"""
    job = job_of(text, **{"sqlstream.recursion.max-pending-bytes": "1 mb"})
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", 1, 1, 1), ("+I", 1, 1, 2)])
    with pytest.raises(UserError, match="more than 1 MB") as caught:
        job.flush()
    assert caught.value.code == "SS5401"


@pytest.mark.parametrize(
    ("text", "mode", "kept"),
    [
        (EVEN_ODD, INSERT_ONLY, "rows"),
        (EVEN_ODD, RETRACT, "ranks"),
        (SHORTEST, INSERT_ONLY, "rows"),
        (SHORTEST, RETRACT, "ranks"),
        (QUERIES["components"], RETRACT, "ranks"),
        (QUERIES["pairs"], RETRACT, "ranks"),
        (QUERIES["the widest"], RETRACT, "ranks"),
        (QUERIES["those that are near"], RETRACT, "ranks"),
        (QUERIES["those that are near"], INSERT_ONLY, "rows"),
        (QUERIES["two legs"], RETRACT, "ranks"),
        (QUERIES["in a subquery"], RETRACT, "ranks"),
        (QUERIES["in a subquery"], INSERT_ONLY, "rows"),
        (QUERIES["both ends"], RETRACT, "rounds"),
        (QUERIES["least texts"], INSERT_ONLY, "rounds"),
        (SHORTEST.replace("total + w", "total * w"), INSERT_ONLY, "rounds"),
        (SHORTEST.replace("total + w", "w - total"), RETRACT, "rounds"),
        (SHORTEST.replace("ON n = s", "ON n = s AND total > 2"), RETRACT, "rounds"),
        (SHORTEST.replace("ON n = s", "ON n = s AND total = w"), INSERT_ONLY, "rounds"),
        (SHORTEST.replace("SELECT d, total + w", "SELECT total, d"), INSERT_ONLY, "rounds"),
        (LEADING_ON["paths"], INSERT_ONLY, "rows"),
        (LEADING_ON["paths"], RETRACT, "rounds"),
        (QUERIES["distances of doubles"], INSERT_ONLY, "rows"),
        (QUERIES["distances of doubles"], RETRACT, "ranks"),
        (QUERIES["odd doubles"], RETRACT, "ranks"),
        (QUERIES["least decimals"], RETRACT, "ranks"),
        (QUERIES["first times"], INSERT_ONLY, "rows"),
        *((text, RETRACT, kept) for text, kept in STEPS),
        (QUERIES["those left"], INSERT_ONLY, "rounds"),
        (LIMITED["three rounds"], INSERT_ONLY, "rounds"),
    ],
)
def test_rounds_are_kept_only_where_they_matter(text: str, mode: ChangelogMode, kept: str) -> None:
    (spec,) = (s for s in job_of(text, mode).specs if isinstance(s, MutualIterateSpec))
    assert kept == ("rounds" if spec.has_rounds else "ranks" if spec.has_ranks else "rows")


HOSTED = {
    "least decimals",
    "greatest decimals",
    "losses of floats",
    "odd doubles",
    "both ends",
    "the widest",
    "least texts",
    "counted",
    "sums",
    "shares",
    "without an end",
}
"""Queries that call a function of ours, which DuckDB has in a job alone."""


@pytest.mark.parametrize("name", sorted({*QUERIES, *LEADING_ON, *LIMITED} - HOSTED))
def test_duckdb_answers_the_query_as_rounds_of_its_own_do(name: str) -> None:
    text, fate = {**QUERIES, **LEADING_ON, **LIMITED}[name], random.Random(name)
    edges = [(fate.randrange(6), fate.randrange(6), fate.randint(1, 3)) for _ in range(9)]
    if name in LEADING_ON:
        edges = [(min(s, d), max(s, d) + (s == d), w) for s, d, w in edges]
    rows: dict[str, list[Row]] = {"starts": [(0,), (fate.randrange(6),)], "edges": [*edges]}
    planner = Planner()
    for table, columns in TABLES.items():
        typed = ", ".join(f"{column} INT" for column in columns)
        planner.run(
            f"CREATE TABLE {table} ({typed}) WITH ('connector' = 'files', 'path' = 'x', 'format' = 'json')"
        )
    query = lower_duckdb(planner.bind(text), {table: table for table in TABLES})
    with duckdb.connect() as connection:
        load(connection, rows)
        found = Counter(connection.execute(query).fetchall())
    assert found == recomputed(text, rows)


def test_duckdb_stops_where_rounds_still_change_something() -> None:
    planner = Planner()
    query = lower_duckdb(
        planner.bind(
            "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3)"
            " a (x INT) AS (SELECT 1 UNION SELECT x + 1 FROM a WHERE x < 5) SELECT * FROM a"
        ),
        {},
    )
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match="still changes after 3 rounds"):
        connection.execute(query)
