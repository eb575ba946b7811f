"""Which rows flow: -U is made only for consumers that need it."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.planner.physical.node import walk_plan
from sqlstream.runtime import connectors, formats
from sqlstream.specs import WatermarkAssignerSpec

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE totals (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
CREATE TABLE keyless (k BIGINT, c BIGINT) WITH ('connector' = 'upsert');
CREATE TABLE lines (k BIGINT, c BIGINT) WITH ('connector' = 'append');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE nowhere (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
"""
COUNTS = "SELECT k, count(*) FROM s GROUP BY k"
UPSERT, RETRACT, INSERT_ONLY = ChangelogMode.UPSERT, ChangelogMode.RETRACT, ChangelogMode.INSERT_ONLY


def modes(sql: str) -> dict[str, ChangelogMode]:
    (plan,) = compile_script(DDL + sql)
    return {n.name.split("[")[0]: n.output_mode for n in plan.stream_graph.nodes}


@pytest.mark.parametrize(("table", "mode"), [("totals", UPSERT), ("nowhere", UPSERT), ("console", RETRACT)])
def test_an_aggregation_makes_update_before_rows_only_where_the_sink_needs_them(
    table: str, mode: ChangelogMode
) -> None:
    assert modes(f"INSERT INTO {table} {COUNTS}")["GlobalGroupAggregate"] is mode


def test_an_append_only_query_stays_append_only() -> None:
    assert set(modes("INSERT INTO console SELECT k, v FROM s WHERE v > 1").values()) == {INSERT_ONLY}


def test_a_filter_over_updates_needs_update_before_rows_whatever_the_sink() -> None:
    found = modes(f"INSERT INTO totals SELECT * FROM ({COUNTS}) AS x (k, c) WHERE c > 1")
    assert found["GlobalGroupAggregate"] is RETRACT


def test_an_aggregation_over_updates_needs_update_before_rows() -> None:
    (plan,) = compile_script(
        DDL + f"INSERT INTO nowhere SELECT c, count(*) FROM ({COUNTS}) AS x (k, c) GROUP BY c"
    )
    globals_ = [n for n in plan.stream_graph.nodes if n.name.startswith("GlobalGroupAggregate")]
    assert [n.output_mode for n in globals_] == [RETRACT, UPSERT]
    assert [n.spec.is_retracting for n in globals_] == [False, True]  # type: ignore[union-attr]


def test_an_upsert_sink_drops_update_before_rows_that_another_sink_asked_for() -> None:
    found = modes(
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO console {COUNTS}; INSERT INTO totals {COUNTS}; END;"
    )
    assert found["GlobalGroupAggregate"] is RETRACT
    assert found["DropUpdateBefore"] is UPSERT
    assert found["Sink: totals"] is UPSERT
    assert found["Sink: console"] is RETRACT


def test_branches_of_a_union_all_carry_row_kinds_when_one_does() -> None:
    (plan,) = compile_script(DDL + f"INSERT INTO console SELECT k, v FROM s UNION ALL {COUNTS}")
    sink = plan.stream_graph.nodes[-1]
    assert {plan.stream_graph.node(e.source).output_mode for e in sink.inputs} == {RETRACT}


@pytest.mark.parametrize(
    ("sql", "code", "words"),
    [
        (f"INSERT INTO lines {COUNTS}", "SS3015", "doesn't support consuming update and delete changes"),
        (f"INSERT INTO keyless {COUNTS}", "SS3016", "no primary key"),
        (
            "INSERT INTO totals SELECT v, count(*) FROM s GROUP BY k, v",
            "SS3016",
            "differs from the primary key",
        ),
        ("SELECT k FROM s ORDER BY k", "SS3014", "ORDER BY on an unbounded table"),
        (
            "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM s",
            "SS3401",
            "it needs the last row of a partition",
        ),
        (
            "SELECT LEAD(v) OVER (ORDER BY p) FROM (SELECT v, PROCTIME() AS p FROM s)",
            "SS3401",
            "by processing time",
        ),
        (
            "SELECT window_end, count(*) FROM TABLE(SESSION(TABLE s /*+ OPTIONS('scan.watermark.emit.strategy'='on-event') */,"
            " DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
            "SS3018",
            "emitted on-event is refused",
        ),
        (
            "SELECT COUNT(*) FROM SESSION((SELECT *, PROCTIME() AS p FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k)),"
            " DESCRIPTOR(p), INTERVAL '1' HOUR) GROUP BY window_start, window_end",
            "SS3011",
            "SESSION window by processing time",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_a_position_and_a_hint(sql: str, code: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        compile_script(DDL + sql)
    assert caught.value.code == code
    assert caught.value.span is not None
    assert caught.value.hint


def test_the_upsert_key_check_can_be_switched_off() -> None:
    sql = "INSERT INTO totals SELECT v, count(*) FROM s GROUP BY k, v"
    compile_script(DDL + sql, {"table.exec.sink.require-on-conflict": "false"})


def test_every_physical_node_carries_its_mode_and_shared_nodes_stay_shared() -> None:
    (plan,) = compile_script(
        DDL + f"EXECUTE STATEMENT SET BEGIN INSERT INTO console {COUNTS}; INSERT INTO totals {COUNTS}; END;"
    )
    nodes = list(walk_plan(plan.physical))
    assert [n.changelog_mode for n in nodes if n.spec is not None] == [
        n.output_mode for n in plan.stream_graph.nodes
    ]
    assert len([n for n in nodes if n.name == "GlobalGroupAggregate"]) == 1


NAMED = "CREATE TABLE named (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');"


@pytest.mark.parametrize(
    ("query", "is_kept"),
    [
        # A row of `a` that gets another c is joined in another subtask.
        ("SELECT a.k, b.c FROM ({a}) a JOIN ({b}) b ON a.c = b.k", True),
        ("SELECT a.k, b.c FROM ({a}) a LEFT JOIN ({b}) b ON a.c = b.k", True),
        ("SELECT a.k, a.c FROM ({a}) a LEFT SEMI JOIN ({b}) b ON a.c = b.k", True),
        ("SELECT k, SUM(c) OVER (PARTITION BY c ORDER BY k) FROM ({a}) a", True),
        ("SELECT a.k, b.c FROM ({a}) a JOIN ({b}) b ON a.k = b.k", False),
        ("SELECT a.k, b.c FROM ({a}) a LEFT JOIN ({b}) b ON a.k = b.k", False),
        ("SELECT a.k, b.c FROM ({a}) a JOIN ({b}) b ON TRUE WHERE b.k = 1 AND a.k = b.k", False),
        ("SELECT k, SUM(c) OVER (ORDER BY c) FROM ({a}) a", False),
    ],
)
def test_rows_whose_changes_come_from_several_subtasks_are_kept_before_they_are_written(
    query: str, is_kept: bool
) -> None:
    a, b = (f"SELECT k, {f}(v) AS c FROM s GROUP BY k" for f in ("COUNT", "MAX"))
    found = modes(f"{NAMED} INSERT INTO named {query.format(a=a, b=b)}")
    assert ("SinkMaterializer" in found) is is_kept


def test_the_numbers_of_rows_that_change_are_no_key_to_write_by() -> None:
    number = "SELECT ROW_NUMBER() OVER (ORDER BY v) AS n, v FROM s"
    with pytest.raises(UserError) as caught:
        modes(f"INSERT INTO totals {number}")
    assert caught.value.code == "SS3016"
    assert "SinkMaterializer" in modes(f"INSERT INTO totals {number} ON CONFLICT DO DEDUPLICATE")


@pytest.mark.parametrize("time", ["ts TIMESTAMP(3)", "t STRING, ts AS TO_TIMESTAMP(t)"])
def test_the_watermark_of_changes_by_key_is_made_before_they_are_distributed_by_key(time: str) -> None:
    (plan,) = compile_script(
        f"CREATE TABLE c (k BIGINT, v BIGINT, {time}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND,"
        " PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '/c', 'format' = 'json',"
        " 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op', 'source.monitor-interval' = '1 s');"
        "SELECT window_start, SUM(v) FROM TUMBLE(TABLE c, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end",
        connectors=dict(connectors.descriptors()),
        formats=dict(formats.descriptors()),
    )
    names = [n.name.split("[")[0] for n in plan.stream_graph.nodes]
    assert names[1:3] == ["WatermarkAssigner", "ChangelogNormalize"]
    by_source = [
        n.spec.is_by_source for n in plan.stream_graph.nodes if isinstance(n.spec, WatermarkAssignerSpec)
    ]
    # Each split of the source has a watermark of its own.
    assert by_source == [True, True]
    # Changes by key stay changes by key on their way.
    assert [n.output_mode for n in plan.stream_graph.nodes][:3] == [UPSERT, UPSERT, RETRACT]
