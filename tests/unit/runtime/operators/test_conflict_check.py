"""Rows of one primary key at a time fail the job, wherever its input is cut and its state moves."""

from __future__ import annotations

from typing import Any

import pytest
from changelog_harness import changelogs, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, feed, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.errors import UserError
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import ConflictCheckSpec

SCHEMA = Schema.of(("k", sql.INT), ("v", sql.INT))
SPEC = ConflictCheckSpec((0,), "t")
RETRACT = ChangelogMode.RETRACT


def context(**config: str) -> Any:
    return operator_context([SCHEMA], SCHEMA, input_modes=(RETRACT,), output_mode=RETRACT, config=config)


def has_conflict(items: list[Any]) -> bool:
    """The reference: one row after the other, looked at with each watermark and at the end."""
    live: list[Any] = []
    for item in [*items, Watermark(99)]:
        if isinstance(item, Watermark):
            if len(live) != len(set(live)):
                return True
            continue
        for kind, key, _ in item:
            live.append(key) if kind in ("+I", "+U") else live.remove(key)
    return False


@given(
    changelogs(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=8),
    st.lists(st.integers(0, 20), max_size=4),
    st.integers(0, 8),
)
@settings(deadline=None, max_examples=60)
def test_two_rows_of_a_key_fail_at_the_next_watermark(log: list[Row], marks: list[int], at: int) -> None:
    items: list[Any] = []
    for number, row in enumerate(log):
        items += [[row], *([Watermark(number)] if number in marks else [])]
    at = min(at, len(items))
    for run in (
        lambda: run_operator(SPEC, context(), items),
        lambda: run_moved(SPEC, context(), items, at, [(0,)]),
    ):
        if has_conflict(items):
            with pytest.raises(UserError, match="have the primary key k"):
                run()
        else:
            run()


def test_a_row_may_come_before_the_one_that_it_replaces_is_retracted() -> None:
    log = [[("+I", 1, 0)], [("-U", 2, 0)], [("+U", 1, 1)], [("-D", 1, 0)], [("+I", 2, 0)], Watermark(5)]
    assert run_operator(SPEC, context(), log).rows == [row for rows in log[:-1] for row in rows]


@pytest.mark.parametrize(
    ("setting", "is_cut"),
    [
        ({}, True),
        ({"execution.checkpointing.unaligned.enabled": "true"}, False),
        ({"execution.checkpointing.mode": "AT_LEAST_ONCE"}, False),
    ],
)
def test_a_barrier_that_may_pass_rows_looks_at_none(setting: dict[str, str], is_cut: bool) -> None:
    operator, output = make_operator(SPEC, context(**setting)), Collected()
    feed(operator, [[("+I", 1, 0)], [("+I", 1, 1)]], output)
    if is_cut:
        with pytest.raises(UserError, match="have the primary key k"):
            operator.prepare_snapshot(output)
    else:
        operator.prepare_snapshot(output)
