"""Whatever a stream can compute is lowered to a batch engine or refused by name: nothing is forgotten."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from function_examples import COLUMNS, EXAMPLES
from planner_harness import Planner

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import FALSE, TRUE
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS
from sqlstream.planner.filled_tables import LastWritten
from sqlstream.planner.lower import duckdb, spark
from sqlstream.planner.lower.aggregates import REFUSED_AGGREGATES
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.planner.lower.expression import REFUSED
from sqlstream.planner.lower.spark import lower_spark
from sqlstream.planner.relational import nodes
from sqlstream.planner.relational.union import Backfill
from sqlstream.planner.rules import apply_rules
from sqlstream.schema import Schema
from sqlstream.specs.join import JoinKind

ENGINES = {
    "duckdb": (duckdb.FUNCTIONS, REFUSED_AGGREGATES.keys() - {"PERCENTILE"}, lower_duckdb),
    "spark": (spark.FUNCTIONS, REFUSED_AGGREGATES.keys(), lower_spark),
}
TABLES = """
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE e (id INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE r (k INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'datagen', 'number-of-rows' = '1');
"""
RELATIONS = {"t": "t", "e": "e", "r": "r"}
QUERIES = {
    nodes.TableScan: "SELECT a FROM t",
    nodes.Values: "VALUES (1, 'x'), (2, NULL)",
    nodes.Filter: "SELECT * FROM t WHERE a > 1",
    nodes.Project: "SELECT a + 1 FROM t",
    nodes.Watermark: "SELECT * FROM e",
    nodes.WindowTvf: "SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' MINUTE))",
    nodes.Aggregate: "SELECT a, COUNT(*) FROM t GROUP BY a",
    nodes.Expand: "SELECT a, COUNT(*) FROM t GROUP BY CUBE (a, b)",
    nodes.Unnest: "SELECT b, x FROM t LEFT JOIN UNNEST(ARRAY[a, 1]) WITH ORDINALITY AS u (x, i) ON TRUE",
    nodes.Window: "SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
    nodes.Sort: "SELECT * FROM t ORDER BY a LIMIT 3",
    nodes.Join: "SELECT * FROM t FULL JOIN e ON a = id",
    nodes.LookupJoin: "SELECT t.b, e.rt FROM t LEFT JOIN e FOR SYSTEM_TIME AS OF PROCTIME() ON t.a = e.id",
    nodes.Apply: "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM e WHERE id = a)",
    nodes.SnapshotJoin: "SELECT t.b, e.rt FROM t LEFT JOIN LATERAL SNAPSHOT(input => TABLE e) AS e ON t.a = e.id",
    nodes.TemporalJoin: "SELECT e.id FROM e LEFT JOIN r FOR SYSTEM_TIME AS OF e.rt ON e.id = r.k AND r.rt < e.rt",
    nodes.Union: "SELECT a FROM t UNION ALL SELECT id FROM e",
}


def planner() -> Planner:
    made = Planner()
    made.run(TABLES)
    return made


def classes(kind: type[nodes.RelationalNode]) -> set[type[nodes.RelationalNode]]:
    return {kind, *(c for below in kind.__subclasses__() for c in classes(below))}


def walk(node: nodes.RelationalNode) -> list[nodes.RelationalNode]:
    return [node, *(n for i in node.inputs for n in walk(i))]


EXAMPLES_AT_ONCE = 20


@functools.cache
def bound_examples() -> list[tuple[nodes.RelationalNode, list[str]]]:
    """Queries of several examples each, which are."""
    called = [
        example for function in sorted(EXAMPLES.keys() - REFUSED.keys()) for example in EXAMPLES[function]
    ]
    parts = [called[n : n + EXAMPLES_AT_ONCE] for n in range(0, len(called), EXAMPLES_AT_ONCE)]
    return [(bound(part), part) for part in parts]


def bound(examples: list[str]) -> nodes.RelationalNode:
    made = Planner()
    made.run(f"CREATE TABLE x ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made.bind(f"SELECT {', '.join(examples)} FROM x")


def refusal(query: nodes.RelationalNode, lower: Callable[..., str]) -> str:
    try:
        lower(query, {"x": "x"})
    except UserError as error:
        return error.message.partition(" has ")[0]
    return ""


@pytest.mark.parametrize("engine", ENGINES)
def test_each_scalar_function_is_lowered(engine: str) -> None:
    native, _, lower = ENGINES[engine]
    assert native.keys() <= SCALAR_FUNCTIONS.keys()
    refused = set()
    for query, examples in bound_examples():
        try:
            lower(query, {"x": "x"})
        except UserError:
            refused |= {why for example in examples if (why := refusal(bound([example]), lower))}
    # Of these the type has no counterpart.
    assert refused == {"type TIMESTAMP(9)", "PARSE_JSON", "TRY_PARSE_JSON", "ITEM"}


def test_each_scalar_function_has_examples_that_are_compared_with_the_engines() -> None:
    assert {name for name, f in SCALAR_FUNCTIONS.items() if f.description and not EXAMPLES[name]} == {
        "CURRENT_WATERMARK"
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", AGGREGATE_FUNCTIONS)
def test_each_aggregate_function_is_lowered_or_refused_with_a_reason(engine: str, function: str) -> None:
    _, refused, lower = ENGINES[engine]
    argument = {"LISTAGG": "s", "FIRST_VALUE": "s", "PERCENTILE": "a, 0.5"}.get(function, "a")
    if function.startswith("BITMAP_") and "BUILD" not in function:
        argument = "BITMAP_BUILD(ARRAY[a])"
    node = planner().bind(
        f"SELECT {function}({argument}), {function}({argument}) FILTER (WHERE b > 1) FROM t"
    )
    if function not in refused:
        assert lower(node, RELATIONS).startswith("SELECT")
        return
    with pytest.raises(UserError) as caught:
        lower(node, RELATIONS)
    assert (caught.value.code, caught.value.hint) == ("SS3301", REFUSED_AGGREGATES[function])


@pytest.mark.parametrize("engine", ENGINES)
def test_each_node_of_the_relational_plan_is_lowered(engine: str) -> None:
    *_, lower = ENGINES[engine]
    plain = planner()
    abstract = {
        nodes.RelationalNode,
        nodes.SingleInputNode,
        nodes.SameColumnsNode,
        nodes.ChosenColumnsNode,
        nodes.TwoInputNode,
    }
    refused = {
        nodes.MatchRecognize,
        nodes.FromChangelog,
        nodes.ToChangelog,
        nodes.LateRows,
        nodes.ModelPredict,
        nodes.VectorSearch,
        nodes.ProcessTable,
        nodes.ProcessOutput,
        nodes.TrainModel,
        nodes.GraphFunction,
        nodes.MutualIterate,
    }
    recursive = {nodes.Iterate, nodes.RecursiveScan, nodes.IterateInput, nodes.Unroll}
    # A history and its table are the UNION ALL that they derive from: tests/property/test_backfill.py.
    # EXPLAIN WHY alone makes joins of the rows that were written last: tests/property/test_why.py.
    elsewhere = {nodes.Rank, nodes.Sink, Backfill, LastWritten, *recursive}
    assert QUERIES.keys() | abstract | refused | elsewhere == classes(nodes.RelationalNode)
    for kind, query in QUERIES.items():
        bound = plain.bind(query)
        assert kind in {type(node) for node in walk(bound)}, kind
        assert lower(bound, RELATIONS).startswith("SELECT")
    top = plain.bind("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY b) AS n FROM t) WHERE n <= 2")
    ranked = apply_rules(top)
    assert nodes.Rank in {type(node) for node in walk(ranked)}
    assert lower(ranked, RELATIONS).startswith("SELECT")


def test_a_recursive_query_is_lowered_to_one_of_duckdb_alone() -> None:
    node = planner().bind(
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r"
    )
    *_, duckdb = ENGINES["duckdb"]
    *_, spark = ENGINES["spark"]
    assert "WITH RECURSIVE recursive_0(c0) AS" in duckdb(node, {})
    with pytest.raises(UserError, match="WITH RECURSIVE has no exact counterpart in Spark"):
        spark(node, {})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", JoinKind)
def test_each_kind_of_join_is_lowered(engine: str, kind: JoinKind) -> None:
    *_, lower = ENGINES[engine]
    row = nodes.Values(rows=((1,),), schema=Schema.of(("a", sql.INT)))
    is_half = kind in (JoinKind.SEMI, JoinKind.ANTI)
    schema = row.schema if is_half else Schema((*row.schema.fields, *row.schema.fields))
    for condition in (TRUE, FALSE, None):
        node = nodes.Join(left=row, right=row, kind=kind, condition=condition, schema=schema)
        assert lower(node, {}).startswith("SELECT")


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_batch_have_no_order_of_arrival(engine: str) -> None:
    *_, lower = ENGINES[engine]
    last = "SELECT a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY PROCTIME() DESC) AS n FROM t) WHERE n = 1"
    with pytest.raises(UserError, match="PROCTIME"):
        lower(planner().bind(last), RELATIONS)
