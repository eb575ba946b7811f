"""Statements whose plan, written out as a tree, would be exponentially larger than their text."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator

import pytest
from work_harness import calls_of

from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, InputRef
from sqlstream.planner.compile import CompiledPlan, explain
from sqlstream.planner.dialect.parser import iterate_script, parse_script, parse_statement
from sqlstream.planner.dialect.statements import Query
from sqlstream.planner.dialect.tokens import tokenize
from sqlstream.planner.physical import planning
from sqlstream.planner.physical.node import walk_plan
from sqlstream.planner.relational.nodes import RelationalNode, rewrite
from sqlstream.types import BIGINT

TABLE = "CREATE TABLE t (id BIGINT, v BIGINT) WITH ('connector' = 'datagen');"
LINKS = {
    "join": "SELECT {0}.id, b.v FROM {0} JOIN {0} b ON {0}.id = b.id",
    "aggregate": "SELECT {0}.id, COUNT(b.v) AS v FROM {0} JOIN {0} b ON {0}.id = b.id GROUP BY {0}.id",
    "filter": "SELECT {0}.id, b.v FROM {0} JOIN {0} b ON {0}.id = b.id WHERE b.v > 7",
    "left join": "SELECT {0}.id, b.v FROM {0} LEFT JOIN {0} b ON {0}.id = b.id",
    "projection": "SELECT id, v + v AS v FROM {0}",
}
COUNTS = (3, 6, 12)
CALLS_GROWTH_MAX = 32
GROWTH_MAX = {"filter": 4.5}
"""Of operators, from 6 to 12 links against from 3 to 6: a filter that is pushed through one side only makes another copy for each
link above it."""


def ctes(link: str, count: int) -> str:
    parts = ["a0 AS (SELECT id, v FROM t)"]
    parts += [f"a{i} AS ({link.format(f'a{i - 1}')})" for i in range(1, count + 1)]
    return f"WITH {', '.join(parts)} SELECT * FROM a{count}"


def views(link: str, count: int) -> str:
    parts = ["CREATE VIEW a0 AS SELECT id, v FROM t;"]
    parts += [f"CREATE VIEW a{i} AS {link.format(f'a{i - 1}')};" for i in range(1, count + 1)]
    return "\n".join(parts) + f"\nSELECT * FROM a{count}"


def compiled(sql: str, config: dict[str, str] | None = None) -> CompiledPlan:
    with local_session(config) as session:
        *before, query = parse_script(TABLE + sql)
        for statement in before:
            session.execute(statement)
        assert isinstance(query, Query)
        return session.compile(query)


def distinct(node: RelationalNode, seen: set[int]) -> Iterator[RelationalNode]:
    if id(node) not in seen:
        seen.add(id(node))
        yield node
        for child in node.inputs:
            yield from distinct(child, seen)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("link", "written"), [*((link, ctes) for link in LINKS), ("join", views), ("filter", views)]
)
def test_a_chain_of_self_joins_is_planned_in_time_and_operators_that_grow_with_its_length(
    link: str, written: object
) -> None:
    assert callable(written)
    plans: dict[int, CompiledPlan] = {}
    texts: dict[int, str] = {}

    def plan_and_explain(count: int) -> None:
        plans[count] = compiled(written(LINKS[link], count))
        texts[count] = explain(plans[count])

    # What is done once in a process is not counted.
    plan_and_explain(COUNTS[0])
    calls = {count: calls_of(lambda count=count: plan_and_explain(count)) for count in COUNTS}
    sizes = {count: len(plan.stream_graph.nodes) for count, plan in plans.items()}
    assert len(texts[COUNTS[-1]]) < 50_000_000
    assert growth(sizes) <= GROWTH_MAX.get(link, 2.2)
    # Of a plan that is walked as a tree, 72.
    assert growth(calls) <= CALLS_GROWTH_MAX


@pytest.mark.parametrize("term", ["", " OR v = (SELECT v FROM t)"])
def test_a_chain_of_comparisons_is_planned_in_time_that_grows_with_its_length(term: str) -> None:
    def plan(count: int) -> None:
        terms = " OR ".join(f"v = {n}" for n in range(50 * count))
        compiled(f"SELECT {terms}{term} FROM t")

    plan(COUNTS[0])
    assert growth({count: calls_of(lambda count=count: plan(count)) for count in COUNTS}) <= 2.5


def growth(counts: dict[int, int]) -> float:
    few, more, many = (counts[count] for count in COUNTS)
    return (many - more) / (more - few)


def test_explain_ends_a_tree_that_is_larger_than_anybody_reads() -> None:
    text = explain(compiled(ctes(LINKS["join"], 16)))
    assert "… and more than these 10000 lines" in text


@pytest.mark.parametrize(
    ("link", "count", "config", "message"),
    [
        ("SELECT * FROM {0} UNION ALL SELECT * FROM {0}", 40, {}, "would read more than 10000 inputs"),
        ("SELECT * FROM {0} JOIN {0} b ON 1 = 1", 40, {}, "columns, and 10000 are possible"),
        (
            LINKS["join"],
            40,
            {"table.optimizer.reuse-sub-plan-enabled": "false"},
            "needs more than 10000 operators",
        ),
        (LINKS["projection"], 3_000, {}, "nested too deeply"),
    ],
)
@pytest.mark.timeout(300)
def test_what_would_grow_without_bound_is_refused(
    link: str, count: int, config: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        compiled(ctes(link, count), config)
    assert caught.value.code == "SS3019"
    assert caught.value.hint


def test_a_statement_may_need_as_many_operators_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT v, COUNT(*) FROM t GROUP BY v"
    count = len(list(walk_plan(compiled(query).physical)))
    monkeypatch.setattr(planning, "OPERATORS_MAX", count)
    compiled(query)
    monkeypatch.setattr(planning, "OPERATORS_MAX", count - 1)
    with pytest.raises(UserError, match=f"needs more than {count - 1} operators"):
        compiled(query)


@pytest.mark.parametrize(
    ("select", "is_allowed"),
    [
        ("SELECT " + " + ".join(["v"] * 10) + " FROM t", True),
        ("SELECT " + " + ".join(["v"] * 11) + " FROM t", False),
        ("SELECT " + " + ".join(["v"] * 30) + " FROM t", False),
        ("SELECT v FROM t WHERE " + " AND ".join(["v < 7"] * 7), False),
        ("SELECT v FROM t WHERE " + " AND ".join(["v < 7"] * 6), True),
        ("SELECT v, v FROM t WHERE " + " AND ".join(["v < 7"] * 6), True),
        ("SELECT v, v, v FROM t WHERE " + " AND ".join(["v < 7"] * 6), False),
        (
            "SELECT * FROM (SELECT v * v AS v FROM t) x, (SELECT v * v AS v FROM t) y WHERE x.v = "
            + "y.v * " * 6
            + "1",
            False,
        ),
        ("VALUES " + ", ".join(["(1, 2)"] * 500), True),
    ],
)
def test_a_statement_has_as_many_expressions_as_its_option_says(select: str, is_allowed: bool) -> None:
    config = {"sqlstream.statement.max-expressions": "19"}
    if is_allowed:
        compiled(select, config)
        return
    with pytest.raises(UserError, match="more than 19 columns, operators and calls") as caught:
        compiled(select, config)
    assert (caught.value.code, caught.value.span is None) == ("SS3019", False)


def test_a_text_that_would_take_a_minute_to_parse_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="more than 400000 names, keywords and operators"):
        parse_statement("SELECT " + "+".join(["a"] * 200_001))


@pytest.mark.parametrize(
    ("opening", "item", "separator", "most", "kind"),
    [
        ("SELECT a FROM t WHERE ", "a", " AND ", 200_000, "names, keywords and operators"),
        ("SELECT COALESCE(", "a", ",", 100_001, "arguments"),
        ("SELECT ARRAY[", "a", ",", 100_001, "arguments"),
        ("SELECT f(1, g(", "1", ",", 100_001, "arguments"),
    ],
)
def test_of_a_statement_that_is_too_long_no_text_is_read_behind_the_place_where_it_is(
    opening: str, item: str, separator: str, most: int, kind: str
) -> None:
    script = "SELECT 1; " + opening + separator.join([item] * most) + separator + "\\ is no SQL"
    pieces = iterate_script(script, offset=7)
    assert next(pieces).text == "SELECT 1"
    with pytest.raises(UserError, match=f"more than [0-9]+ {kind}") as caught:
        next(pieces)
    place = caught.value.span
    assert place is not None
    assert script[place.start - 7 : place.end - 7] in (item, ",", "AND")
    assert caught.value.hint


def test_lists_that_are_no_arguments_may_be_longer() -> None:
    values = ",".join(["1"] * 100_002)
    for text in (f"SELECT a IN ({values})", f"SELECT f(a, b IN ({values}))", f"VALUES ({values})"):
        assert len(list(tokenize(text))) > 200_000


class NestedTooDeeply(Exception):
    pass


def refusing(sql: str) -> None:
    try:
        explain(compiled(sql))
    except UserError as error:
        if "nested" in error.message or "levels deep" in error.message:
            raise NestedTooDeeply from error
        raise


@pytest.mark.parametrize("depth", [300, 3_000, pytest.param(30_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [
        ("(", "1", ")"),
        ("ABS(", "1", ")"),
        ("- ", "1", ""),
        ("NOT ", "TRUE", ""),
        ("CASE WHEN TRUE THEN ", "1", " ELSE 2 END"),
        ("ARRAY[", "1", "]"),
        ("CAST(", "1", " AS BIGINT)"),
        ("1 + ", "1", ""),
        ("'x' || ", "'y'", ""),
    ],
)
@pytest.mark.timeout(300)
def test_deep_expressions_are_planned_or_refused(opening: str, middle: str, closing: str, depth: int) -> None:
    sql = "SELECT " + opening * depth + middle + closing * depth
    with contextlib.suppress(NestedTooDeeply):
        refusing(sql)


def test_equal_plans_are_equal_wherever_they_stand_and_rewrites_keep_what_is_shared() -> None:
    with local_session() as session:
        table, *queries = parse_script(TABLE + f"{ctes(LINKS['join'], 30)};\n" * 2)
        session.execute(table)
        first, second = (session.compile(query).relational[0] for query in queries)
    assert first.span != second.span
    assert first == second
    assert hash(first) == hash(second)
    assert len(list(distinct(rewrite(first, lambda node: node), set()))) == len(list(distinct(first, set())))


def test_calls_that_differ_by_their_place_alone_are_not_unequal() -> None:
    at = [Call("+", (InputRef(0, BIGINT), InputRef(1, BIGINT)), BIGINT, Span(n, n + 1)) for n in range(2)]
    assert at[0] == at[1]
    assert not operator.ne(*at)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 300 + "v" + ")" * 300 + " FROM t",
        "SELECT "
        + "".join(f"CASE WHEN v = {i} THEN {i} ELSE " for i in range(300))
        + "0"
        + " END" * 300
        + " FROM t",
        "SELECT v FROM t WHERE "
        + "(" * 300
        + "v = 0"
        + "".join(f" OR v = {i} AND id = 1)" for i in range(300)),
        "SELECT CASE " + " ".join(f"WHEN v = {i} THEN 'x{i}'" for i in range(2_000)) + " END FROM t",
        "SELECT 'a'" + " || 'b'" * 3_000 + " FROM t",
        " UNION ALL ".join(["SELECT v FROM t"] * 300),
        "SELECT v FROM t WHERE v IN (" + ", ".join(map(str, range(30_000))) + ")",
    ],
    ids=["brackets", "nested CASE", "nested OR", "CASE", "chain", "UNION ALL", "IN"],
)
@pytest.mark.timeout(300)
def test_what_generators_of_sql_write_is_planned(sql: str) -> None:
    compiled(sql)
