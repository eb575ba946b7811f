"""Marks of values by slot against a Python dict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import InternalError
from sqlstream.runtime.aggregates.value_sets import ValueSets
from sqlstream.runtime.kernels.slots.value_marks import ValueMarks

PAIRS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 7, 2**64 - 1]))
ROWS = st.lists(st.tuples(PAIRS, st.integers(0, 5)), max_size=12)
ALL = [(slot, word) for slot in range(4) for word in (0, 1, 7, 2**64 - 1)]

Model = dict[tuple[int, int], int]


def columns(rows: list[tuple[tuple[int, int], int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([slot for (slot, _), _ in rows], dtype=np.int64),
        np.array([word for (_, word), _ in rows], dtype=np.uint64),
        np.array([marks for _, marks in rows], dtype=np.uint32),
    )


def held(marks: ValueMarks) -> Model:
    live = marks.live()
    pairs = zip(marks.slots(live).tolist(), marks.words(live).tolist(), strict=True)
    return dict(zip(pairs, marks.marks(live).tolist(), strict=True))


@given(st.lists(st.tuples(ROWS, st.sets(st.sampled_from(ALL), max_size=3)), max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_row_is_told_of_the_marks_that_it_is_the_first_to_set(
    batches: list[tuple[list[tuple[tuple[int, int], int]], set[tuple[int, int]]]],
) -> None:
    """Also after pairs were forgotten, whose entries are used again."""
    marks, model = ValueMarks(), Model()
    for rows, gone in batches:
        before = dict(model)
        changing = marks.find_changing(*columns(rows))
        expected = []
        for pair, added in rows:
            expected.append(added & ~model.get(pair, 0))
            if added:
                model[pair] = model.get(pair, 0) | added
        pairs = zip(marks.slots(changing).tolist(), marks.words(changing).tolist(), strict=True)
        assert set(pairs) == {pair for pair, n in before.items() if model[pair] != n}
        fresh, entered = marks.mark(*columns(rows))
        assert fresh.tolist() == expected
        assert sorted(marks.slots(entered)) == sorted(slot for slot, _ in model.keys() - before.keys())
        found = held(marks)
        assert found == model
        live = marks.live()
        are_gone = [pair in gone for pair in found]
        marks.delete(live[np.array(are_gone, dtype=bool)])
        model = {pair: n for pair, n in model.items() if pair not in gone}
        assert (held(marks), len(marks)) == (model, len(model))


def test_many_pairs_outgrow_the_first_table_and_half_of_them_go() -> None:
    marks = ValueMarks()
    slots, words = np.divmod(np.arange(40_000), 200)
    words = words.astype(np.uint64) << np.uint64(40)
    everyone = np.full(40_000, 3, dtype=np.uint32)
    fresh, entered = marks.mark(slots, words, everyone)
    assert (fresh == 3).all()
    assert entered.tolist() == list(range(40_000))
    marks.delete(entered[::2].copy())
    fresh, entered = marks.mark(slots, words, everyone)
    assert np.flatnonzero(fresh).tolist() == list(range(0, 40_000, 2))
    assert (len(marks), marks.entry_count) == (40_000, 40_000)


@pytest.mark.parametrize(
    "value_type", [pa.float64(), pa.int16(), pa.bool_(), pa.date32(), pa.timestamp("ms")], ids=str
)
def test_saved_sets_have_the_values_in_their_type_and_counts_of_one(value_type: pa.DataType) -> None:
    assert ValueSets.can_hold(value_type, 2)
    values = (
        pa.array([1, 0, 1, 1], pa.int32()).cast(pa.int64()).cast(value_type)
        if value_type != pa.date32()
        else (pa.array([1, 0, 1, 1], pa.int32()).cast(value_type))
    )
    sets = ValueSets(value_type, users=2)
    second = np.array([0, 0, 0, 1], dtype=np.int8)
    brought = sets.add_each(np.array([5, 5, 5, 5]), values, [np.empty(0, np.int8), second])
    assert [rows.tolist() for rows in brought] == [[1, 1, 0, 0], [0, 0, 0, 1]]
    owners, kept, *counts = sets.saved(np.arange(sets.slot_count))[1]
    assert (owners.to_pylist(), kept.type, kept.to_pylist()) == ([5, 5], value_type, values[:2].to_pylist())
    assert [column.to_pylist() for column in counts] == [[1, 1], [1, 0]]


def test_counts_that_are_restored_are_one() -> None:
    sets = ValueSets(pa.int64())
    sets.load(np.array([0, 1]), [pa.array([7, 7]), pa.array([3, 1])])
    assert sets.add_each(np.array([0, 1, 2]), pa.array([7, 7, 7]), [np.empty(0, np.int8)])[0].tolist() == [
        0,
        0,
        1,
    ]
    assert sets.saved(np.arange(3))[1][2].to_pylist() == [1, 1, 1]


def test_a_row_that_is_retracted_is_our_fault() -> None:
    with pytest.raises(InternalError, match="retracted"):
        ValueSets(pa.int64()).add_each(np.array([0]), pa.array([7]), [np.array([-1], np.int8)])


def test_texts_decimals_rows_and_many_users_are_not_held() -> None:
    assert not any(
        ValueSets.can_hold(t, 1)
        for t in (pa.string(), pa.binary(), pa.decimal128(9, 2), pa.struct([("f0", pa.int64())]))
    )
    assert ValueSets.can_hold(pa.int64(), 32)
    assert not ValueSets.can_hold(pa.int64(), 33)
