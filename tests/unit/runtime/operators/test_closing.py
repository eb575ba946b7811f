"""Which rows are late for their window."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import Collected, operator_context, restored

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.expressions import AggregateCall
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.window.closing import LATE, drop_late
from sqlstream.runtime.state.snapshots.snapshot import key_group_column
from sqlstream.schema import Schema
from sqlstream.specs import WindowAggregateSpec
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.types import BIGINT, timestamp

ROWS = Schema.of(("end", BIGINT))


@pytest.mark.parametrize(
    ("ends", "closed_ms", "kept"),
    [
        ([100, 200], 98, [100, 200]),
        ([100, 200], 99, [200]),
        ([100, 200], 100, [200]),
        ([200, 100, 300], 199, [300]),
        ([100, 200], 198, [200]),
        ([100, 200], WATERMARK_MAX, []),
        ([100], WATERMARK_MIN, [100]),
        ([], 5, []),
    ],
)
def test_a_row_is_late_from_the_last_millisecond_of_its_window_on(
    ends: list[int], closed_ms: int, kept: list[int]
) -> None:
    counts: Counter[str] = Counter()
    context = operator_context([ROWS], ROWS, count=lambda name, n: counts.update({name: n}))
    batch = pa.record_batch({"end": pa.array(ends, pa.int64())})
    rows, left = drop_late(batch, np.array(ends, dtype=np.int64), closed_ms, context)
    assert rows.column(0).to_pylist() == left.tolist() == kept
    assert counts[LATE] == len(ends) - len(kept)


KEYED = Schema.of(("k", BIGINT), ("t", timestamp(3)))
COUNTED = Schema.of(
    *(("k", BIGINT), ("n", BIGINT)),
    *((name, timestamp(3)) for name in ("window_start", "window_end", "window_time")),
)
KEYS = range(20)


def _rows(time: int) -> pa.RecordBatch:
    times = pa.array([time] * len(KEYS), pa.timestamp("ms"))
    return pa.record_batch({"k": pa.array(KEYS, pa.int64()), "t": times})


@pytest.mark.parametrize(
    "window",
    [
        WindowSpec(WindowKind.TUMBLE, 100),
        WindowSpec(WindowKind.HOP, 200, 100),
        WindowSpec(WindowKind.CUMULATE, 200, 100),
        WindowSpec(WindowKind.SESSION, 30),
    ],
    ids=lambda window: window.kind.value,
)
@pytest.mark.parametrize("then", [1, 2, 3])
def test_no_window_is_emitted_twice_when_subtasks_of_different_event_time_are_rescaled(
    window: WindowSpec, then: int
) -> None:
    """Two subtasks, of which one has come further because it has heard of an idle channel first."""
    spec = WindowAggregateSpec((0,), (AggregateCall("COUNT", (), BIGINT),), window, 1)
    context = operator_context([KEYED], COUNTED)
    empty = make_operator(spec, context).context.state.snapshot()
    emitted: list[tuple[int, int]] = []

    def run(subtask: int, parallelism: int, snapshots: list, rows: list[int], watermarks: list[int]):
        operator, output = restored(spec, context, snapshots, subtask, parallelism), Collected()
        owned = _owned(subtask, parallelism)
        for time in rows:
            batch = _rows(time)
            operator.on_batch(batch.filter(pa.array([k in owned for k in KEYS])), 0, output)
        for watermark_ms in watermarks:
            operator.on_watermark(watermark_ms, output)
        for batch in output.batches:
            ends = batch.column("window_end").cast(pa.int64()).to_pylist()
            emitted.extend(zip(batch.column("k").to_pylist(), ends, strict=True))
        return operator.context.state.snapshot()

    halves = [run(n, 2, [empty], [10, 110, 210], [watermark_ms]) for n, watermark_ms in enumerate((99, 199))]
    # Once more before time goes on: what has come further is saved with what has not.
    again = [run(n, then, halves, [], []) for n in range(then)]
    for n in range(2):
        run(n, 2, again, [120], [150, 250, WATERMARK_MAX])
    times = Counter(emitted)
    assert set(times.values()) == {1}
    if window.kind is not WindowKind.SESSION:
        # The row at 120 has been late for those that had come further; for the others it has made another session.
        assert set(times) == {(k, end) for k in KEYS for end in {end for _, end in emitted}}


def _owned(subtask: int, parallelism: int) -> set[int]:
    column = key_group_column([pa.array(KEYS, pa.int64())], len(KEYS), 128).to_pylist()
    return {
        k for k, group in zip(KEYS, column, strict=True) if group in key_groups_of(subtask, parallelism, 128)
    }


def test_a_restored_window_hands_on_no_watermark_from_before_its_own_time() -> None:
    spec = WindowAggregateSpec(
        (0,), (AggregateCall("COUNT", (), BIGINT),), WindowSpec(WindowKind.TUMBLE, 100), 1
    )
    context = operator_context([KEYED], COUNTED)
    before = make_operator(spec, context)
    assert before.on_watermark(500, Collected()) == 500
    after = restored(spec, context, [before.context.state.snapshot()], 0, 1)
    assert [after.on_watermark(t, Collected()) for t in (400, 500, 600)] == [None, 500, 600]
