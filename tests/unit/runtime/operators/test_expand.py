"""Rows once per grouping set, against a row-at-a-time reference."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import batch, operator_context, run_operator

from sqlstream.changelog import ChangelogMode
from sqlstream.schema import Schema
from sqlstream.specs.calc import ExpandSpec
from sqlstream.types import INT, STRING, array

SCHEMA = Schema.of(("a", STRING), ("b", INT), ("c", array(INT)))
EXPANDED = Schema.of(("a", STRING), ("b", INT), ("c", array(INT)), ("$e", INT.not_null()))
ROWS = st.lists(
    st.tuples(st.sampled_from("xy") | st.none(), st.integers(0, 3) | st.none(), st.just([1]) | st.none()),
    max_size=4,
)
SETS = st.lists(st.sets(st.sampled_from([0, 1])).map(lambda s: tuple(sorted(s))), min_size=1, max_size=4)


@given(st.lists(ROWS, max_size=3), SETS)
@settings(deadline=None)
def test_each_row_is_emitted_once_per_set_however_rows_are_cut_into_batches(batches, sets) -> None:  # type: ignore[no-untyped-def]
    output = run_operator(ExpandSpec((0, 1), tuple(sets)), operator_context([SCHEMA], EXPANDED), batches)
    expected = [
        (a if 0 in kept else None, b if 1 in kept else None, c, number)
        for rows in batches
        for number, kept in enumerate(sets)
        for a, b, c in rows
    ]
    assert output.rows == expected


def test_rows_keep_their_kinds() -> None:
    mode = ChangelogMode.RETRACT
    context = operator_context([SCHEMA], EXPANDED, input_modes=[mode], output_mode=mode)
    rows = [("-U", "x", 1, None), ("+U", "x", 2, None), ("-D", "y", 3, [4])]
    output = run_operator(ExpandSpec((0,), ((0,), ())), context, [batch(SCHEMA, rows, mode)])
    assert output.rows == [
        ("-U", "x", 1, None, 0),
        ("+U", "x", 2, None, 0),
        ("-D", "y", 3, [4], 0),
        ("-U", None, 1, None, 1),
        ("+U", None, 2, None, 1),
        ("-D", None, 3, [4], 1),
    ]
