"""EXPLAIN STATE: what each operator keeps, its bound, and a size that is that of real rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import Collected
from plan_harness import compile_script

from sqlstream.arrow import to_arrow_schema
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.explain import explain_state
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.runtime.connectors.duckdb.connector import DuckDb
from sqlstream.runtime.connectors.generators.nexmark import Nexmark
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.dry_run import kept_state
from sqlstream.runtime.operators.operator import OperatorContext

NEXMARK = Path(__file__).resolve().parents[4] / "queries" / "nexmark"
GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "state"
DDL = """
CREATE TABLE clicks (id BIGINT, k BIGINT, name STRING, v BIGINT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'stream');
CREATE TABLE ended (id BIGINT, v BIGINT) WITH ('connector' = 'table');
"""
TOTALS = "SELECT id, COUNT(*), SUM(v), MAX(v) FROM clicks GROUP BY id"
NAMES = "SELECT name, COUNT(*) FROM clicks GROUP BY name"
JOIN = "SELECT a.name, b.v FROM clicks a JOIN clicks b ON a.id = b.id"
BEST = """SELECT id, name, v FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v DESC) AS n FROM clicks) WHERE n <= 3"""
LAST = """SELECT id, name, v FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY rt DESC) AS n FROM clicks) WHERE n = 1"""
TTL = "SET 'table.exec.state.ttl' = '1 h';"
ROWS, BATCH = 200_000, 10_000


def planned(sql: str) -> JobGraph:
    (plan,) = compile_script(DDL + sql)
    return plan.job_graph


@pytest.mark.parametrize("name", ["q5", "q8", "q12", "q17", "q18", "q19"])
def test_a_nexmark_query_keeps_what_its_golden_file_says(
    name: str, golden: Callable[[Path, str], None]
) -> None:
    connectors = {"nexmark": Nexmark.descriptor, "duckdb": DuckDb.descriptor}
    plans = compile_script((NEXMARK / f"{name}.sql").read_text(), {}, connectors)
    shown = "\n\n".join(explain_state(plan.job_graph) for plan in plans)
    # Sizes follow from how tables lie in memory: another test compares them with those of real rows.
    golden(GOLDEN / f"{name}.out", re.sub(r"\b\d+ bytes", "… bytes", shown))


@pytest.mark.parametrize(
    "sql", [TOTALS, NAMES, JOIN, BEST, LAST], ids=["totals", "names", "join", "best", "last"]
)
def test_a_size_is_that_of_real_rows(sql: str) -> None:
    graph = planned(sql)
    (operator,) = (o for v in graph.vertices for o in v.operators if o.spec.kept_state())
    told = kept_state(operator, {}).bytes_per_row
    for number, size in enumerate(told):
        assert size == pytest.approx(_measured(operator, number), rel=0.3)


def _measured(chained: ChainedOperator, number: int) -> float:
    """Bytes per row of the operator's state over random rows in many batches."""
    context = OperatorContext(
        chained.input_schemas, chained.input_modes, chained.output_schema, chained.output_mode
    )
    operator = make_operator(chained.spec, context)
    random = np.random.default_rng(5)
    schema = to_arrow_schema(chained.input_schemas[number])
    ids = random.permutation(10_000_000)[:ROWS]
    for start in range(0, ROWS, BATCH):
        rows = ids[start : start + BATCH]
        columns = [_random(field.type, rows) for field in schema]
        operator.on_batch(pa.RecordBatch.from_arrays(columns, schema=schema), number, Collected())
    return operator.context.state.nbytes() / ROWS


def _random(data_type: pa.DataType, ids: np.ndarray) -> pa.Array:  # type: ignore[type-arg]
    if pa.types.is_string(data_type):
        return pa.array([f"name{n:08d}"[-8:] for n in ids.tolist()])
    return pa.array(ids, pa.int64()).cast(data_type)


@pytest.mark.parametrize(
    ("sql", "bound"),
    [
        (TOTALS, "nothing but the number of distinct keys"),
        (TTL + TOTALS, "the number of keys that come within 3600000 ms"),
        ("SELECT COUNT(*) FROM clicks", "one key"),
        (JOIN, "nothing but the number of rows"),
        (TTL + JOIN, "the rows that come within 3600000 ms"),
        (BEST, "nothing but the number of distinct keys, of 3 rows each"),
        ("SELECT id FROM clicks LIMIT 5", "one number"),
        ("SELECT id FROM ended ORDER BY v", "the number of rows of the input"),
        (
            f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY c DESC) AS n FROM ({TOTALS}) t (id, c, s, m)) WHERE n < 9",
            "nothing but the number of rows",
        ),
    ],
)
def test_what_bounds_the_state_is_told(sql: str, bound: str) -> None:
    shown = explain_state(planned(sql))
    assert f"  bounded by  {bound}\n" in shown
    assert ("Nothing bounds the state of" in shown) is bound.startswith("nothing")
    assert ("SET 'table.exec.state.ttl'" in shown) is bound.startswith("nothing")


def test_edges_of_a_graph_have_no_time_to_live() -> None:
    shown = explain_state(planned("SELECT * FROM TRIANGLES(TABLE clicks, DESCRIPTOR(id, v))"))
    assert "nothing but the number of distinct edges" in shown
    assert "hint        it has no time to live" in shown


def test_values_that_a_key_has_any_number_of_are_counted_as_one() -> None:
    shown = explain_state(planned("SELECT id, COUNT(DISTINCT v) FROM clicks GROUP BY id"))
    assert " bytes per key, with one value per key in groups.EXPR$0\n" in shown


def test_a_statement_without_state_says_so() -> None:
    assert explain_state(planned("SELECT id + 1 FROM clicks WHERE v > 0")) == "No operator keeps state.\n"


def test_the_bytes_of_a_plan_of_many_operators_are_told_of_its_first_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqlstream.client.statements.explain.MEASURED_MAX", 1)
    union = " UNION ALL ".join(f"SELECT COUNT(*) + {n} FROM clicks GROUP BY k" for n in range(3))
    shown = explain_state(
        planned(f"SELECT * FROM ({union.replace('GROUP BY k', 'WHERE v > 1 GROUP BY k', 1)})")
    )
    assert (shown.count("  size "), shown.count("  keeps ")) == (1, 2)


def test_explain_state_is_a_statement_of_streams() -> None:
    clusters = LocalClusterClient()
    session = Session(clusters)
    answer = session.execute(parse_statement("EXPLAIN STATE SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (n)"))
    assert isinstance(answer, Text)
    assert "GlobalGroupAggregate[3]: SELECT COUNT(*) of SELECT, line 1" in answer.text
    session.config["execution.runtime-mode"] = "BATCH"
    with pytest.raises(UserError, match="a batch query keeps no state") as raised:
        session.execute(parse_statement("EXPLAIN STATE SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (n)"))
    assert raised.value.code == "SS6240"
    clusters.close()
