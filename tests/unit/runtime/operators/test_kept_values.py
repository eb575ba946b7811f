"""Values that differ each time: a row that is retracted has those with which it came, wherever its changes come from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changelog_harness import changelogs, cut, cuts_strategy, final_rows, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import Call
from sqlstream.schema import Schema
from sqlstream.specs.calc import KeptValuesSpec

INPUT = Schema.of(("k", sql.INT), ("a", sql.array(sql.INT)))
OUTPUT = Schema.of(("k", sql.INT), ("a", sql.array(sql.INT)), ("r", sql.DOUBLE), ("u", sql.STRING))
DRAWS = (Call("RAND", (), sql.DOUBLE), Call("UUID", (), sql.STRING))
BY_ROW = KeptValuesSpec((0, 1), (0,), DRAWS)
BY_KEY = KeptValuesSpec((0,), (0,), DRAWS)

rows = st.tuples(st.integers(0, 2) | st.none(), st.lists(st.integers(0, 1), max_size=1) | st.none())


def context() -> Any:
    retract = ChangelogMode.RETRACT
    return operator_context([INPUT], OUTPUT, input_modes=(retract,), output_mode=retract)


def folded(output: Collected) -> Counter[str]:
    """What is left. Fails where a retraction has no row."""
    left: Counter[str] = Counter()
    for kind, *row in output.rows:
        left[repr(row)] += 1 if kind in ("+I", "+U") else -1
    assert not -left
    return +left


@given(changelogs(rows), cuts_strategy, st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_every_retraction_finds_its_row_however_the_changes_come_and_the_state_moves(
    changes: list[Row], cuts: list[int], at: int
) -> None:
    batches = cut(changes, cuts)
    expected = Counter(repr(list(row)) for row in final_rows(changes))
    for output in (
        run_operator(BY_ROW, context(), batches),
        run_moved(BY_ROW, context(), batches, min(at, len(batches)), [(0,)]),
    ):
        left = folded(output)
        assert sum(left.values()) == sum(expected.values())
        assert [row[:3] for row in output.rows].count(None) == 0


@pytest.mark.parametrize("size", [1, 2, 6])
def test_the_row_of_a_key_is_retracted_with_its_values_whatever_else_it_says(size: int) -> None:
    changes = [
        ("+I", 1, [1]),
        ("-U", 1, [1]),
        ("+U", 1, [2]),
        ("+I", 2, None),
        ("-D", 1, [2]),
        ("-D", 2, None),
    ]
    output = run_operator(BY_KEY, context(), cut(changes, range(size, 6, size)))
    assert [row[:3] for row in output.rows] == changes
    assert not folded(output)
    first, _, second = (row[3:] for row in output.rows[:3])
    assert first != second


@pytest.mark.parametrize("size", [1, 3])
def test_a_row_whose_retraction_came_first_gets_the_values_of_that(size: int) -> None:
    changes = [("-D", 1, [1]), ("+I", 1, [1]), ("+I", 1, [1])]
    output = run_operator(BY_ROW, context(), cut(changes, range(size, 3, size)))
    values = [row[3:] for row in output.rows]
    assert values[0] == values[1] != values[2]
