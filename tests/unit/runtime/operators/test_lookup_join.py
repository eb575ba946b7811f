"""A lookup join gives each row the matches that the table has when the row arrives, however rows are cut into batches."""

from __future__ import annotations

from typing import Any

import pytest
from changelog_harness import changelogs, cut, cuts_strategy
from hypothesis import given, settings
from hypothesis import strategies as st
from lookup_harness import ListTable, locked, lookup_spec, make_lookup_join
from operator_harness import Collected, ManualClock, Row, feed, finish, operator_context

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.errors import ExternalError, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, LookupJoinSpec, RetryOnMiss

ORDERS = Schema.of(("id", sql.BIGINT), ("key", sql.STRING), ("n", sql.INT))
DIM = Schema.of(("key", sql.STRING), ("n", sql.INT), ("price", sql.BIGINT))
JOINED = ORDERS.concat(DIM)
TABLE: list[Row] = [
    ("a", 1, 10),
    ("a", 2, 20),
    ("b", 1, 30),
    ("b", 1, 31),
    ("c", 1, None),
    (None, 1, 50),
    ("d", None, 60),
]
DISTINCT: list[Row] = [("b", 1, 30), (None, 1, 50), ("a", 2, 20), ("d", None, 60)]
PRICE_ABOVE_ID: Expression = Call(">", (InputRef(5, sql.BIGINT), InputRef(0, sql.BIGINT)), sql.BOOLEAN)
CACHES: list[dict[str, str]] = [
    {},
    {"lookup.cache": "PARTIAL"},
    {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "2"},
    {"lookup.cache": "PARTIAL", "lookup.partial-cache.cache-missing-key": "false"},
    {"lookup.cache": "FULL"},
]
kinds = st.sampled_from(list(JoinKind))
conditions = st.sampled_from([None, PRICE_ABOVE_ID])
orders = st.tuples(
    st.integers(0, 40), st.sampled_from(["a", "b", "c", "d", "x", None]), st.sampled_from([1, 2, None])
)
both_keys = st.booleans()


def reference(spec: LookupJoinSpec, rows: list[Row], table: list[Row]) -> list[Row]:
    """Row by row; matches in the order of the table."""
    result = []
    for row in rows:
        *_, identity, key, n = row
        mine = (identity, key, n)
        matches = [
            other
            for other in table
            if all(
                mine[a] is not None and mine[a] == other[b]
                for a, b in zip(spec.left_keys, spec.source_keys, strict=True)
            )
            and (spec.condition is None or (other[2] is not None and other[2] > mine[0]))
        ]
        result += [(*row, *other) for other in matches]
        if not matches and spec.kind is JoinKind.LEFT:
            result.append((*row, None, None, None))
    return result


def spec_of(
    kind: JoinKind, options: dict[str, str], condition: Expression | None, both: bool, **others: Any
) -> LookupJoinSpec:
    left, right = ((1, 2), (0, 1)) if both else ((1,), (0,))
    return lookup_spec(DIM, left, right, kind, options, condition, **others)


def run(spec: LookupJoinSpec, table: ListTable, items: list[Any], **others: Any) -> Collected:
    operator, output = (
        make_lookup_join(spec, operator_context([ORDERS], JOINED, **others), table),
        Collected(),
    )
    feed(operator, items, output)
    finish(operator, output)
    assert table.is_closed
    return output


@given(
    st.lists(orders, max_size=30),
    cuts_strategy,
    kinds,
    conditions,
    both_keys,
    st.sampled_from(CACHES),
    st.sampled_from([TABLE, DISTINCT]),
)
@settings(max_examples=100, deadline=None)
def test_every_row_gets_its_matches_in_order_with_any_cache_and_however_cut(
    rows: list[Row],
    cuts: list[int],
    kind: JoinKind,
    condition: Expression | None,
    both: bool,
    options: dict[str, str],
    rows_of_table: list[Row],
) -> None:
    spec = spec_of(kind, options, condition, both)
    table = ListTable(DIM, spec.source_keys, rows_of_table)
    output = run(spec, table, cut(rows, cuts))
    assert output.rows == reference(spec, rows, rows_of_table)


@given(changelogs(orders), cuts_strategy, kinds, conditions)
@settings(max_examples=60, deadline=None)
def test_a_row_is_retracted_with_its_matches_when_the_table_does_not_change(
    log: list[Row], cuts: list[int], kind: JoinKind, condition: Expression | None
) -> None:
    spec = spec_of(kind, {"lookup.cache": "FULL"}, condition, False)
    table = ListTable(DIM, spec.source_keys, TABLE)
    mode = ChangelogMode.RETRACT
    output = run(spec, table, cut(log, cuts), input_modes=[mode], output_mode=mode)
    # Whether half an update makes several rows, or none, is seen in their kinds.
    signs = {"-U": "-D", "+U": "+I"}
    found, expected = (
        [(signs.get(r[0], r[0]), *r[1:]) for r in rows] for rows in (output.rows, reference(spec, log, TABLE))
    )
    assert found == expected
    output.table()


def test_a_batch_is_one_query_of_its_distinct_keys_without_null() -> None:
    spec = spec_of(JoinKind.INNER, {}, None, False)
    table = ListTable(DIM, (0,), TABLE)
    run(spec, table, [[(1, "b", 1), (2, "a", 1), (3, "b", 1), (4, None, 1)], [(5, None, 1)], [(6, "b", 1)]])
    assert table.asked == [[("b",), ("a",)], [("b",)]]


def test_without_a_cache_each_batch_sees_the_table_as_it_is() -> None:
    spec = spec_of(JoinKind.LEFT, {}, None, False)
    table, output = ListTable(DIM, (0,), []), Collected()
    operator = make_lookup_join(spec, operator_context([ORDERS], JOINED), table)
    feed(operator, [[(1, "a", 1)]], output)
    table.rows = [("a", 1, 10)]
    feed(operator, [[(2, "a", 1)]], output)
    assert output.rows == [(1, "a", 1, None, None, None), (2, "a", 1, "a", 1, 10)]


def test_watermarks_pass_behind_the_rows_before_them() -> None:
    spec = spec_of(JoinKind.INNER, {}, None, False)
    output = run(spec, ListTable(DIM, (0,), TABLE), [[(1, "c", 1)], Watermark(5), [(2, "c", 1)]])
    assert [type(e).__name__ for e in output.elements[:3]] == ["RecordBatch", "Watermark", "RecordBatch"]


def test_many_matches_of_many_rows_come_in_several_batches() -> None:
    spec = spec_of(JoinKind.INNER, {}, None, False)
    table = ListTable(DIM, (0,), [("a", i, i) for i in range(1_000)])
    output = run(spec, table, [[(i, "a", 0) for i in range(600)]])
    assert len(output.batches) > 1
    assert sum(b.num_rows for b in output.batches) == 600_000


def test_rows_that_the_table_filters_out_do_not_match_and_columns_are_computed_over_it() -> None:
    table = ListTable(DIM, (0,), TABLE)
    plus: Expression = Call("+", (InputRef(2, sql.BIGINT), Literal(1, sql.BIGINT)), sql.BIGINT)
    right = Schema.of(("key", sql.STRING), ("more", sql.BIGINT))
    made = LookupJoinSpec(
        kind=JoinKind.LEFT,
        left_keys=(1,),
        source_keys=(0,),
        right_keys=(0,),
        source=lookup_spec(DIM, (1,), (0,)).source,
        projections=(InputRef(0, sql.STRING), plus),
        right_schema=right,
        source_condition=Call("=", (InputRef(1, sql.INT), Literal(2, sql.INT)), sql.BOOLEAN),
    )
    output = Collected()
    feed(
        make_lookup_join(made, operator_context([ORDERS], ORDERS.concat(right)), table),
        [[(1, "a", 0), (2, "b", 0)]],
        output,
    )
    assert output.rows == [(1, "a", 0, "a", 21), (2, "b", 0, None, None)]


# -- failures and retries --------------------------------------------------------------------------------------------------


def test_a_failed_lookup_is_tried_again_with_growing_pauses_and_counted() -> None:
    spec = spec_of(JoinKind.INNER, {"lookup.max-retries": "3"}, None, False)
    table, pauses, counts = ListTable(DIM, (0,), TABLE), list[int](), dict[str, int]()
    table.failures = [locked(), locked()]

    def count(name: str, n: int) -> None:
        counts[name] = counts.get(name, 0) + n

    output = run(spec, table, [[(1, "c", 1)]], pause_ms=pauses.append, count=count)
    assert output.rows == [(1, "c", 1, "c", 1, None)]
    assert pauses == [200, 400]
    assert counts == {"loadCount": 3, "numLoadFailures": 2}


def test_a_lookup_that_fails_too_often_fails_the_job_with_its_cause() -> None:
    spec = spec_of(JoinKind.INNER, {"lookup.max-retries": "1"}, None, False)
    table = ListTable(DIM, (0,), TABLE)
    table.failures = [locked(), locked()]
    with pytest.raises(ExternalError, match="the database is locked"):
        run(spec, table, [[(1, "c", 1)]])


def test_an_error_of_the_user_is_not_tried_again() -> None:
    table = ListTable(DIM, (0,), TABLE)
    table.failures = [UserError("SS5062", "no such column"), locked()]
    with pytest.raises(UserError, match="no such column"):
        run(spec_of(JoinKind.INNER, {}, None, False), table, [[(1, "c", 1)]])
    assert len(table.asked) == 1


@pytest.mark.parametrize("options", CACHES[:2], ids=["none", "partial"])
def test_keys_without_rows_are_looked_up_again_as_the_hint_says(options: dict[str, str]) -> None:
    spec = spec_of(JoinKind.LEFT, options, None, False, retry=RetryOnMiss(attempts_max=3, delay_ms=1_000))
    table, pauses = ListTable(DIM, (0,), [("a", 1, 10)]), list[int]()

    def pause(ms: int) -> None:
        pauses.append(ms)
        if len(pauses) == 2:
            table.rows.append(("b", 1, 20))

    output = run(spec, table, [[(1, "a", 1), (2, "b", 1), (3, "x", 1)]], pause_ms=pause)
    assert output.rows == [(1, "a", 1, "a", 1, 10), (2, "b", 1, "b", 1, 20), (3, "x", 1, None, None, None)]
    assert table.asked == [[("a",), ("b",), ("x",)], [("b",), ("x",)], [("b",), ("x",)], [("x",)]]
    assert pauses == [1_000] * 3


# -- caches ----------------------------------------------------------------------------------------------------------------


class RowAtATime:
    """Flink's partial cache, one row at a time: what a batch sees is what its first row sees."""

    def __init__(self, write_ms: int, access_ms: int, keeps_missing: bool) -> None:
        self.write_ms, self.access_ms, self.keeps_missing = write_ms, access_ms, keeps_missing
        self.entries: dict[str, tuple[list[Row], int, int]] = {}

    def answer(self, keys: list[str | None], table: list[Row], now_ms: int) -> list[list[Row]]:
        answers = []
        for key in keys:
            entry = self.entries.get(key) if key is not None else None
            if entry is not None:
                rows, written, used = entry
                is_old = (self.write_ms and now_ms - written >= self.write_ms) or (
                    self.access_ms and now_ms - used >= self.access_ms
                )
                entry = None if is_old else (rows, written, now_ms)
            if entry is None:
                entry = ([r for r in table if key is not None and r[0] == key], now_ms, now_ms)
            if key is not None:
                self.entries[key] = entry
            answers.append(entry[0])
        if not self.keeps_missing:
            self.entries = {k: e for k, e in self.entries.items() if e[0]}
        return answers


steps = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.lists(st.sampled_from(["a", "b", "c", "x", None]), min_size=1, max_size=6),
        st.sampled_from(["", "a", "b", "c", "x"]),
    ),
    max_size=12,
)


@given(steps, st.sampled_from([0, 20]), st.sampled_from([0, 15]), st.booleans())
@settings(max_examples=70, deadline=None)
def test_a_partial_cache_expires_keys_like_one_that_works_row_by_row(
    plan: list[tuple[int, list[str | None], str]], write_ms: int, access_ms: int, keeps_missing: bool
) -> None:
    """Between two batches time passes, and the rows of one key change."""
    options = {
        "lookup.cache": "PARTIAL",
        "lookup.partial-cache.cache-missing-key": str(keeps_missing).lower(),
    }
    if write_ms:
        options["lookup.partial-cache.expire-after-write"] = f"{write_ms} ms"
    if access_ms:
        options["lookup.partial-cache.expire-after-access"] = f"{access_ms} ms"
    clock, table, output = ManualClock(), ListTable(DIM, (0,), TABLE), Collected()
    spec = spec_of(JoinKind.LEFT, options, None, False)
    operator = make_lookup_join(spec, operator_context([ORDERS], JOINED, now_ms=clock), table)
    slow, expected, number = RowAtATime(write_ms, access_ms, keeps_missing), list[Row](), 0
    for elapsed_ms, keys, changed in plan:
        clock.now_ms += elapsed_ms
        if changed:
            number += 1
            table.rows = [r for r in table.rows if r[0] != changed]
            table.rows += [(changed, 1, number)] * (number % 3)
        rows = [(i, key, 1) for i, key in enumerate(keys)]
        for row, matches in zip(rows, slow.answer(keys, table.rows, clock.now_ms), strict=True):
            expected += [(*row, *m) for m in matches] or [(*row, None, None, None)]
        feed(operator, [rows], output)
    assert output.rows == expected


def test_a_partial_cache_holds_its_rows_at_most_and_forgets_the_keys_used_longest_ago() -> None:
    options = {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "4"}
    spec = spec_of(JoinKind.LEFT, options, None, False)
    table, output = ListTable(DIM, (0,), TABLE), Collected()
    operator = make_lookup_join(spec, operator_context([ORDERS], JOINED), table)
    # Two rows of a, two of b; then c and the missing x, one each, push a out.
    for key in ("a", "b", "b", "c"):
        feed(operator, [[(1, key, 1)]], output)
    table.asked.clear()
    feed(operator, [[(1, "b", 1)], [(1, "c", 1)]], output)
    assert table.asked == []
    feed(operator, [[(1, "a", 1)]], output)
    assert table.asked == [[("a",)]]
    assert operator._cache.rows.row_count <= 4


def test_a_batch_with_more_keys_than_the_cache_holds_is_answered_as_a_whole() -> None:
    options = {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "10"}
    spec = spec_of(JoinKind.INNER, options, None, False)
    table = ListTable(DIM, (0,), [(str(i), 1, i) for i in range(100)])
    output, operator = Collected(), make_lookup_join(spec, operator_context([ORDERS], JOINED), table)
    feed(operator, [[(i, str(i), 1) for i in range(100)]], output)
    assert [row[5] for row in output.rows] == list(range(100))
    assert operator._cache.rows.row_count <= 10


def prices(output: Collected) -> list[Any]:
    return [row[5] for row in output.rows]


@pytest.mark.parametrize(("mode", "second_load_ms"), [("FIXED_DELAY", 1_050), ("FIXED_RATE", 1_000)])
def test_a_full_cache_is_loaded_again_at_its_interval(mode: str, second_load_ms: int) -> None:
    options = {
        "lookup.cache": "FULL",
        "lookup.full-cache.periodic-reload.interval": "1 s",
        "lookup.full-cache.periodic-reload.schedule-mode": mode,
    }
    clock, output = ManualClock(), Collected()

    class SlowTable(ListTable):
        def load(self, rows_max: int) -> Any:
            clock.now_ms += 50
            return super().load(rows_max)

    table = SlowTable(DIM, (0,), [("a", 1, 1)])
    operator = make_lookup_join(
        spec_of(JoinKind.LEFT, options, None, False), operator_context([ORDERS], JOINED, now_ms=clock), table
    )
    feed(operator, [[(1, "a", 1)]], output)
    table.rows = [("a", 1, 2)]
    assert operator.next_processing_time_ms() == second_load_ms
    clock.now_ms = second_load_ms - 1
    feed(operator, [[(2, "a", 1)]], output)
    clock.now_ms = second_load_ms
    operator.on_processing_time(clock.now_ms, output)
    feed(operator, [[(3, "a", 1)]], output)
    assert prices(output) == [1, 1, 2]
    assert table.loads == 2


def test_a_full_cache_is_loaded_again_at_a_time_of_the_day() -> None:
    hour_ms = 3_600_000
    options = {
        "lookup.cache": "FULL",
        "lookup.full-cache.reload-strategy": "TIMED",
        "lookup.full-cache.timed-reload.iso-time": "10:00+02:00",
    }
    clock, output = ManualClock(24 * hour_ms * 10 + 7 * hour_ms), Collected()
    table = ListTable(DIM, (0,), [])
    operator = make_lookup_join(
        spec_of(JoinKind.LEFT, options, None, False), operator_context([ORDERS], JOINED, now_ms=clock), table
    )
    feed(operator, [[(1, "a", 1)]], output)
    assert operator.next_processing_time_ms() == 24 * hour_ms * 10 + 8 * hour_ms
    clock.now_ms = 24 * hour_ms * 10 + 8 * hour_ms
    feed(operator, [[(1, "a", 1)]], output)
    assert operator.next_processing_time_ms() == 24 * hour_ms * 11 + 8 * hour_ms
    assert table.loads == 2


def test_a_full_cache_asks_for_no_more_rows_than_it_may_hold() -> None:
    spec = spec_of(JoinKind.LEFT, {"lookup.cache": "FULL", "lookup.full-cache.max-rows": "3"}, None, False)
    with pytest.raises(UserError, match="too many rows"):
        run(spec, ListTable(DIM, (0,), TABLE), [[(1, "a", 1)]])
