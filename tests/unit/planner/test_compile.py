"""The planner's front door: a compiled plan and its explanations."""

from __future__ import annotations

import json

from plan_harness import compile_script

from sqlstream.planner.compile import explain

SQL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
SELECT k, count(*) FROM s GROUP BY k;
"""


def test_explain_prints_every_stage_in_order() -> None:
    (plan,) = compile_script(SQL)
    titles = [line for line in explain(plan).splitlines() if line.startswith("==")]
    assert titles == [
        "== Abstract Syntax Tree ==",
        "== Optimized Relational Plan ==",
        "== Optimized Physical Plan ==",
        "== Stream Graph ==",
        "== Job Graph ==",
    ]


def test_the_execution_plan_is_json() -> None:
    (plan,) = compile_script(SQL, {"parallelism.default": "2"})
    text = explain(plan, ("JSON_EXECUTION_PLAN",)).split("== Physical Execution Plan ==\n")[1]
    nodes = json.loads(text)["nodes"]
    assert [n["type"].split("[")[0] for n in nodes] == [
        "Source: s",
        "LocalGroupAggregate",
        "GlobalGroupAggregate",
        "Sink: collect",
    ]
    assert nodes[2]["predecessors"] == [{"id": 2, "ship_strategy": "HASH", "side": "first"}]


def test_compiling_twice_gives_the_same_job() -> None:
    (one,), (two,) = compile_script(SQL), compile_script(SQL)
    assert one.job_graph == two.job_graph
