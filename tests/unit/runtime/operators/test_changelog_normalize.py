"""Changes by key as a changelog of whole rows."""

from __future__ import annotations

from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import ChangelogNormalizeSpec

SCHEMA = Schema.of(("k", sql.INT), ("s", sql.STRING), ("tags", sql.array(sql.INT)))
SPEC = ChangelogNormalizeSpec((0,))
OUTPUTS = (ChangelogMode.RETRACT, ChangelogMode.UPSERT)

rows = st.tuples(
    st.sampled_from(["+I", "+U", "-D", "-U"]),
    st.integers(0, 3) | st.none(),
    st.sampled_from(["a", "b"]) | st.none(),
    st.lists(st.integers(0, 1), max_size=1) | st.none(),
)


def context(input_mode: ChangelogMode = ChangelogMode.UPSERT, **more: Any) -> Any:
    return operator_context([SCHEMA], SCHEMA, input_modes=(input_mode,), **more)


def last_rows(changes: list[Row]) -> dict[Any, Row]:
    """The reference: one row after the other."""
    found: dict[Any, Row] = {}
    for kind, *row in changes:
        if kind in ("-D", "-U"):
            found.pop(row[0], None)
        else:
            found[row[0]] = tuple(row)
    return found


@pytest.mark.parametrize("keeps_changes", [False, True])
@pytest.mark.parametrize("mode", OUTPUTS)
@given(st.lists(rows, max_size=20), cuts_strategy, st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_the_last_row_of_each_key_is_there_however_the_changes_come_and_the_state_moves(
    mode: ChangelogMode, keeps_changes: bool, changes: list[Row], cuts: list[int], at: int
) -> None:
    spec = ChangelogNormalizeSpec((0,), keeps_changes=keeps_changes)
    expected = last_rows(changes)
    batches = cut(changes, cuts)
    for output in (
        run_operator(spec, context(output_mode=mode), batches),
        run_moved(spec, context(output_mode=mode), batches, min(at, len(batches)), [(0,)]),
    ):
        if mode is ChangelogMode.UPSERT:
            assert output.upserted((0,)) == {(k,): (*row[:2], row[2]) for k, row in expected.items()}
        else:
            # `table` fails for a retraction of a row that is not there.
            found = [tuple(r) for r in _expanded(output)]
            assert sorted(map(repr, found)) == sorted(map(repr, expected.values()))


def _expanded(output: Collected) -> list[Row]:
    live: list[Row] = []
    for kind, *row in output.rows:
        live.append(tuple(row)) if kind in ("+I", "+U") else live.remove(tuple(row))
    return live


def test_all_changes_of_a_key_are_kept_where_they_are_asked_for() -> None:
    changes = ["+I 1 a", "-U 1 a", "+U 1 b", "+U 2 x", "-D 1 b", "-D 1 b", "+I 1 c", "+U 2 x", "-U 2 x"]
    batch = [(kind, int(key), text, None) for kind, key, text in map(str.split, changes)]
    spec = ChangelogNormalizeSpec((0,), keeps_changes=True)
    made = context(output_mode=ChangelogMode.RETRACT)
    told = [" ".join(map(str, row[:3])) for row in run_operator(spec, made, [batch]).rows]
    assert told == ["+I 1 a", "-U 1 a", "+U 1 b", "+I 2 x", "-D 1 b", "+I 1 c", "-D 2 x"]
    last = run_operator(SPEC, context(output_mode=ChangelogMode.RETRACT), [batch]).rows
    assert last == [("+I", 1, "c", None)]


def test_a_row_that_is_told_again_is_emitted_again_only_where_it_could_expire() -> None:
    changes = [[("+I", 1, "a", [1])], [("+U", 1, "a", [1])], [("-D", 2, None, None)], [("-D", 1, None, None)]]
    output = run_operator(SPEC, context(output_mode=ChangelogMode.RETRACT), changes)
    assert output.rows == [("+I", 1, "a", [1]), ("-D", 1, "a", [1])]
    clock, output = ManualClock(0), Collected()
    made = context(output_mode=ChangelogMode.RETRACT, now_ms=clock)
    operator = make_operator(ChangelogNormalizeSpec((0,), state_ttl_ms=100), made)
    feed(operator, [*changes[:2], Clock(150), [("+U", 1, "b", None)]], output)
    assert output.rows == [
        ("+I", 1, "a", [1]),
        ("-U", 1, "a", [1]),
        ("+U", 1, "a", [1]),
        ("+I", 1, "b", None),
    ]


def test_a_row_with_nothing_but_its_key_deletes() -> None:
    spec = ChangelogNormalizeSpec((0,), values=(1, 2))
    made = context(ChangelogMode.INSERT_ONLY, output_mode=ChangelogMode.RETRACT)
    batches = [[(1, "a", None), (2, None, [0])], [(1, None, None), (3, None, None), (2, "b", None)]]
    output = run_operator(spec, made, batches)
    assert output.rows == [
        ("+I", 1, "a", None),
        ("+I", 2, None, [0]),
        ("-D", 1, "a", None),
        ("-U", 2, None, [0]),
        ("+U", 2, "b", None),
    ]


MARKED = Schema.of(*((f.name, f.type) for f in SCHEMA.fields), ("marks", sql.STRING))
MARKING = ChangelogNormalizeSpec((0,), marks=3)

marked_rows = st.tuples(
    st.sampled_from(["+I", "+U", "+U", "-D"]),
    st.integers(0, 2),
    st.sampled_from(["a", "b"]) | st.none(),
    st.lists(st.integers(0, 1), max_size=1) | st.none(),
    st.sampled_from([None, ",1,", ",2,", ",1,2,"]),
)


def filled_rows(changes: list[Row]) -> dict[Any, Row]:
    """The reference: one row after the other, each with the values of the row before where it lacks its own."""
    found: dict[Any, Row] = {}
    for kind, *row, marks in changes:
        if kind == "-D":
            found.pop(row[0], None)
            continue
        before = found.get(row[0], (row[0], None, None))
        found[row[0]] = tuple(
            before[i] if f",{i}," in (marks or "") else value for i, value in enumerate(row)
        )
    return found


@given(st.lists(marked_rows, max_size=20), cuts_strategy, st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_a_value_that_a_change_lacks_is_that_of_the_row_before(
    changes: list[Row], cuts: list[int], at: int
) -> None:
    # A deletion has no value that a row behind it could take.
    changes = [(k, key, None, None, None) if k == "-D" else (k, key, *row) for k, key, *row in changes]
    expected, batches = filled_rows(changes), cut(changes, cuts)
    made = operator_context(
        [MARKED], SCHEMA, input_modes=(ChangelogMode.UPSERT,), output_mode=ChangelogMode.RETRACT
    )
    for output in (
        run_operator(MARKING, made, batches),
        run_moved(MARKING, made, batches, min(at, len(batches)), [(0,)]),
    ):
        assert sorted(map(repr, _expanded(output))) == sorted(map(repr, expected.values()))


def test_a_value_that_no_row_has_is_null_and_counted() -> None:
    counts: dict[str, int] = {}

    def count(name: str, number: int) -> None:
        counts[name] = counts.get(name, 0) + number

    modes = {"input_modes": (ChangelogMode.UPSERT,), "output_mode": ChangelogMode.RETRACT}
    made = operator_context([MARKED], SCHEMA, **modes, count=count)
    output = run_operator(MARKING, made, [[("+U", 1, None, [1], ",1,"), ("+U", 2, "b", None, None)]])
    assert output.rows == [("+I", 1, None, [1]), ("+I", 2, "b", None)]
    assert counts["numUnknownValues"] == 1
