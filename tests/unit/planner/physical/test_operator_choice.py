"""Which operator a query gets, and with which spec."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.graph.stream_graph import ExchangeKind, StreamNode
from sqlstream.specs import (
    AggregatePhase,
    DeduplicateSpec,
    GroupAggregateSpec,
    IntervalJoinSpec,
    JoinSpec,
    Keep,
    LimitSpec,
    RankPhase,
    RankSpec,
    SortSpec,
    WatermarkAssignerSpec,
    WindowAggregateSpec,
    WindowJoinSpec,
    WindowRankSpec,
    WindowTvfSpec,
)

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, p AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'stream');
CREATE TABLE b (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'table');
CREATE TABLE x (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'table', 'scan.watermark.emit.strategy' = 'on-event');
"""
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
CLOSED = f"""SELECT k, count(*) AS n, window_start AS ws, window_end AS we FROM {TUMBLE}
    GROUP BY k, window_start, window_end"""
HIGHEST = f"SELECT max(v) AS top, window_end AS we FROM {TUMBLE} GROUP BY window_start, window_end"


def nodes(sql: str, **config: str) -> list[StreamNode]:
    settings = {"parallelism.default": "2"} | {
        k.replace("__", ".").replace("_", "-"): v for k, v in config.items()
    }
    (plan,) = compile_script(DDL + sql, settings)
    return list(plan.stream_graph.nodes)


def specs(sql: str, kind: type, **config: str) -> list:  # type: ignore[type-arg]
    return [n.spec for n in nodes(sql, **config) if isinstance(n.spec, kind)]


@pytest.mark.parametrize(
    "condition",
    [
        "x.c = y.d",
        "x.c = y.e",
        "FLOOR(x.ts TO HOUR) = y.ts",
        "x.v + 1 = y.k",
        "x.at = CAST(y.d AS TIMESTAMP(3))",
    ],
)
def test_values_that_are_equal_meet_by_their_bytes(condition: str) -> None:
    casts = {"c": "k AS VARCHAR(9)", "d": "k AS STRING", "e": "v AS CHAR(4)", "at": "ts AS TIMESTAMP(3)"}
    texts = f"(SELECT *, {', '.join(f'CAST({cast}) AS {name}' for name, cast in casts.items())} FROM s)"
    (join,) = specs(f"SELECT x.k, y.v FROM {texts} AS x JOIN {texts} AS y ON {condition}", JoinSpec)
    assert len(join.left_keys) == 1
    assert join.condition is None


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_a_join_on_what_is_never_true_keeps_no_rows(join: str) -> None:
    assert not specs(f"SELECT * FROM s AS x {join} b AS y ON x.k = y.k AND 1 = 0", JoinSpec)


def test_a_window_aggregate_absorbs_its_window_function_and_has_two_phases() -> None:
    local, final = specs(CLOSED.format("s"), WindowAggregateSpec)
    assert (local.phase, final.phase) == (AggregatePhase.LOCAL, AggregatePhase.GLOBAL)
    assert local.time_column >= 0
    assert not specs(CLOSED.format("s"), WindowTvfSpec)


def test_one_phase_can_be_asked_for() -> None:
    found = specs(CLOSED.format("s"), WindowAggregateSpec, table__optimizer__agg_phase_strategy="ONE_PHASE")
    assert [s.phase for s in found] == [AggregatePhase.SINGLE]


def test_a_call_that_cannot_be_split_runs_in_one_phase() -> None:
    (spec,) = specs("SELECT k, count(DISTINCT v) FROM s GROUP BY k", GroupAggregateSpec)
    assert spec.phase is AggregatePhase.SINGLE


def test_an_aggregate_of_window_results_uses_the_attached_window() -> None:
    sql = f"SELECT ws, we, max(n) FROM ({CLOSED.format('s')}) GROUP BY ws, we"
    outer = specs(sql, WindowAggregateSpec)[2:]
    assert [s.time_column for s in outer] == [-1, -1]
    assert outer[0].window_start_column >= 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, sum(v * 2) FROM {} WHERE window_start > TIMESTAMP '2020-01-01 00:00:00' AND v > 1"
        " GROUP BY k, window_start, window_end",
        "SELECT k, sum(v * 2) FROM {} GROUP BY k, window_start, window_end"
        " HAVING window_end > TIMESTAMP '2020-01-01 00:00:00' AND k > 3",
        "SELECT k, sum(w) FROM (SELECT k, v * 2 AS w, window_start, window_end FROM {})"
        " WHERE window_end > TIMESTAMP '2020-01-01 00:00:00' GROUP BY k, window_start, window_end",
    ],
)
def test_a_filter_on_window_bounds_moves_above_the_aggregate(sql: str) -> None:
    found = nodes(sql.format(TUMBLE.format("s")))
    kinds = [type(n.spec).__name__ for n in found]
    assert "WindowTvfSpec" not in kinds
    assert kinds.count("CalcSpec") == 2
    assert all(n.spec.time_column >= 0 for n in found if isinstance(n.spec, WindowAggregateSpec))


def test_a_filter_that_compares_rows_with_their_window_keeps_the_window_function() -> None:
    table = TUMBLE.format("s")
    sql = f"SELECT count(*) FROM {table} WHERE window_start > ts GROUP BY window_start, window_end"
    assert specs(sql, WindowTvfSpec)
    assert all(s.window_end_column >= 0 for s in specs(sql, WindowAggregateSpec))


def test_on_event_watermarks_travel_with_the_row_to_the_window_aggregate_alone() -> None:
    found = nodes(CLOSED.format("x"))
    assert found[1].output_schema.names[-1] == "$watermark"
    local, final = (n.spec for n in found if isinstance(n.spec, WindowAggregateSpec))
    assert local.row_watermark_column == len(found[1].output_schema) - 1
    assert final.row_watermark_column == -1
    joined = nodes("SELECT a.k FROM x a, b WHERE a.k = b.k AND a.ts = b.ts")
    assert all("$watermark" not in n.output_schema.names for n in joined)


def test_equal_windows_make_a_window_join() -> None:
    on = "l.k = r.k AND l.ws = r.ws AND l.we = r.we"
    (spec,) = specs(
        f"SELECT l.n FROM ({CLOSED.format('s')}) l JOIN ({CLOSED.format('b')}) r ON {on}", WindowJoinSpec
    )
    assert (len(spec.left_keys), spec.broadcast_input) == (1, -1)


def test_one_bound_is_enough_for_windows_of_a_fixed_size() -> None:
    sql = (
        f"SELECT l.n FROM ({CLOSED.format('s')}) l JOIN ({CLOSED.format('b')}) r ON l.k = r.k AND l.we = r.we"
    )
    assert specs(sql, WindowJoinSpec)


def test_bounded_times_make_an_interval_join() -> None:
    on = "s.k = b.k AND s.ts > b.ts - INTERVAL '5' SECOND AND s.ts <= b.ts + INTERVAL '1' MINUTE"
    (spec,) = specs(f"SELECT s.v FROM s JOIN b ON {on}", IntervalJoinSpec)
    assert (spec.lower_ms, spec.upper_ms, spec.condition) == (-4999, 60000, None)


@pytest.mark.parametrize("on", ["s.k = b.k", "s.k = b.k AND s.ts > b.ts", "s.k = b.k AND s.v > b.v"])
def test_everything_else_is_a_regular_join(on: str) -> None:
    assert specs(f"SELECT s.v FROM s JOIN b ON {on}", JoinSpec)


def test_a_result_of_one_row_a_window_is_broadcast_and_the_other_side_stays() -> None:
    on = "s.v = h.top AND s.ts BETWEEN h.we - INTERVAL '10' SECOND AND h.we"
    found = nodes(f"SELECT s.v FROM s JOIN ({HIGHEST.format('s')}) h ON {on}")
    (join,) = [n for n in found if isinstance(n.spec, IntervalJoinSpec)]
    assert [e.exchange.kind for e in join.inputs] == [ExchangeKind.FORWARD, ExchangeKind.BROADCAST]
    assert join.spec.broadcast_input == 1  # type: ignore[union-attr]
    assert join.parallelism == 2


def test_a_left_join_is_never_broadcast() -> None:
    on = "s.v = h.top AND s.ts BETWEEN h.we - INTERVAL '10' SECOND AND h.we"
    (spec,) = specs(f"SELECT s.v FROM s LEFT JOIN ({HIGHEST.format('s')}) h ON {on}", IntervalJoinSpec)
    assert spec.broadcast_input == -1


def test_joins_without_keys_meet_in_one_subtask() -> None:
    found = nodes("SELECT s.v FROM s JOIN b ON s.v > b.v")
    (join,) = [n for n in found if isinstance(n.spec, JoinSpec)]
    assert join.parallelism == 1
    assert {e.exchange.kind for e in join.inputs} == {ExchangeKind.SINGLETON}


def numbered(table: str, order: str, condition: str, keys: str = "k") -> str:
    return f"""SELECT k, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS rn FROM {table})
        WHERE rn {condition}"""


@pytest.mark.parametrize(("order", "keep"), [("ts", Keep.FIRST), ("ts DESC", Keep.LAST), ("p", Keep.FIRST)])
def test_one_row_a_key_by_time_is_deduplication(order: str, keep: Keep) -> None:
    local, final = specs(numbered("s", order, "= 1"), DeduplicateSpec)
    assert (local.phase, final.phase, final.keep) == (RankPhase.LOCAL, RankPhase.GLOBAL, keep)
    assert (final.time_column == -1) == (order == "p")


@pytest.mark.parametrize(("order", "condition"), [("v", "= 1"), ("ts", "<= 2"), ("ts, v", "= 1")])
def test_other_ranges_and_orders_are_a_rank(order: str, condition: str) -> None:
    local, final = specs(numbered("s", order, condition), RankSpec)
    assert (local.phase, final.phase) == (RankPhase.LOCAL, RankPhase.GLOBAL)


def test_a_rank_over_updates_keeps_all_rows_and_has_no_local_phase() -> None:
    (spec,) = specs(numbered("(SELECT k, count(*) AS v FROM s GROUP BY k)", "v DESC", "<= 3"), RankSpec)
    assert spec.is_retracting


def test_a_rank_by_window_is_final_when_the_window_closes() -> None:
    sql = f"""SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY ws, we ORDER BY n DESC) AS rn
        FROM ({CLOSED.format("s")})) WHERE rn <= 3"""
    (spec,) = specs(sql, WindowRankSpec)
    assert (spec.partition_keys, spec.rank_end, spec.outputs_rank) == ((), 3, False)


def test_order_by_sorts_bounded_input_and_keeps_a_top_n_of_unbounded() -> None:
    assert specs("SELECT k FROM b ORDER BY v LIMIT 3", SortSpec)
    assert specs("SELECT k FROM s ORDER BY v LIMIT 3", RankSpec)
    assert specs("SELECT k FROM s LIMIT 3", LimitSpec)


def test_state_time_to_live_reaches_every_keyed_operator() -> None:
    (spec,) = specs("SELECT s.v FROM s JOIN b ON s.k = b.k", JoinSpec, table__exec__state__ttl="5 s")
    assert (spec.left_ttl_ms, spec.right_ttl_ms) == (5000, 5000)
    final = specs("SELECT k, count(*) FROM s GROUP BY k", GroupAggregateSpec, table__exec__state__ttl="5 s")[
        -1
    ]
    assert final.state_ttl_ms == 5000


def test_state_lives_as_long_as_the_setting_says_in_every_operator_that_keeps_rows_or_keys() -> None:
    hour = {"table__exec__state__ttl": "1 h"}
    local, final = specs("SELECT k, count(v) FROM s GROUP BY k", GroupAggregateSpec, **hour)
    assert (local.state_ttl_ms, final.state_ttl_ms) == (0, 3_600_000)
    (join,) = specs("SELECT s.v FROM s JOIN b ON s.k = b.k", JoinSpec, **hour)
    assert (join.left_ttl_ms, join.right_ttl_ms) == (3_600_000, 3_600_000)
    numbered = "SELECT * FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS n FROM s) WHERE n <= {}"
    local, final = specs(numbered.format("v", 3), RankSpec, **hour)
    assert (local.state_ttl_ms, final.state_ttl_ms) == (0, 3_600_000)
    local, final = specs(numbered.format("ts DESC", 1), DeduplicateSpec, **hour)
    assert (local.state_ttl_ms, final.state_ttl_ms) == (0, 3_600_000)
    assert [s.state_ttl_ms for s in specs("SELECT k, count(v) FROM s GROUP BY k", GroupAggregateSpec)] == [
        0,
        0,
    ]


def test_a_source_turns_idle_as_its_table_says_else_as_the_setting_says() -> None:
    own = """CREATE TABLE own (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'stream', 'scan.watermark.idle-timeout' = '{}');"""

    def idle_timeout_ms(sql: str, **config: str) -> int:
        (spec,) = specs(sql, WatermarkAssignerSpec, **config)
        return int(spec.idle_timeout_ms)

    setting = {"table__exec__source__idle_timeout": "5 s"}
    assert idle_timeout_ms(CLOSED.format("s")) == 0
    assert idle_timeout_ms(CLOSED.format("s"), **setting) == 5_000
    assert idle_timeout_ms(own.format("2 s") + CLOSED.format("own"), **setting) == 2_000
    assert idle_timeout_ms(own.format("0 s") + CLOSED.format("own"), **setting) == 0


def test_the_parallelism_of_tables_goes_before_the_one_of_the_job() -> None:
    def parallelism(**config: str) -> set[int]:
        return {n.parallelism for n in nodes("SELECT k, count(v) FROM s GROUP BY k", **config)[:-1]}

    assert parallelism() == {2}
    assert parallelism(table__exec__resource__default_parallelism="3") == {3}
    assert parallelism(table__exec__resource__default_parallelism="-1") == {2}


@pytest.mark.parametrize(
    ("keys", "is_window_rank"),
    [
        ("window_start, window_end", True),
        ("k, window_end, window_start", True),
        ("window_start", False),
        ("window_end", False),
    ],
)
def test_rows_are_ranked_by_windows_when_their_start_and_end_are_keys(
    keys: str, is_window_rank: bool
) -> None:
    ranked = (
        f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY v DESC) AS rn FROM {TUMBLE.format('s')}"
    )
    sql = f"SELECT k, rn FROM ({ranked}) WHERE rn <= 3"
    assert bool(specs(sql, WindowRankSpec)) is is_window_rank
    assert bool(specs(sql, RankSpec)) is not is_window_rank
