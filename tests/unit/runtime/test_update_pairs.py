"""Halves of updates: which stay together, and what becomes of those that are alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.arrow import row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.kernels.keys.partition import KeySplitter
from sqlstream.runtime.update_pairs import (
    derived_kinds,
    filtered_kinds,
    moved_kinds,
    paired_kinds,
    portion_kinds,
    whole_updates,
)

SYMBOLS = [kind.symbol for kind in RowKind]


def kinds(text: str) -> np.ndarray:
    return np.array([SYMBOLS.index(symbol) for symbol in text.split()], dtype=np.int8)


def text(found: np.ndarray) -> str:
    return " ".join(SYMBOLS[kind] for kind in found)


def rows(ops: str, keys: Sequence[int], values: Sequence[int] = ()) -> pa.RecordBatch:
    data = {"k": pa.array(keys, pa.int64()), "v": pa.array(values or range(len(keys)), pa.int64())}
    return with_row_kinds(pa.RecordBatch.from_pydict(data), kinds(ops))


@pytest.mark.parametrize(
    ("kept", "expected"),
    [("111111", "+I -U +U -U +U -D"), ("101001", "+I -U +I -U +U -D"), ("010111", "+I -D +U -U +U -D")],
)
def test_a_filter_that_keeps_half_an_update_deletes_or_inserts(kept: str, expected: str) -> None:
    mask = np.array([c == "1" for c in kept])
    found = filtered_kinds(kinds("+I -U +U -U +U -D"), mask)
    assert text(found[mask]) == text(kinds(expected)[mask])


def test_halves_that_do_not_belong_together_stand_for_themselves() -> None:
    apart = np.array([True, True, False, True, True])
    assert text(paired_kinds(kinds("-U +U -U +U -U +U"), apart)) == "-U +U -D +I -U +U"
    assert text(portion_kinds(kinds("+U -U +U +I -U"))) == "+I -U +U +I -D"
    assert text(portion_kinds(kinds(""))) == ""


@pytest.mark.parametrize(
    ("origins", "others", "expected"),
    [
        ([0, 1, 2, 3], None, "+I -U +U -D"),
        ([0, 2, 3], None, "+I +I -D"),
        # Which of several rows an update changes into which others nobody says.
        ([1, 1, 2, 2], None, "-D -D +I +I"),
        ([1, 1, 2], None, "-D -D +I"),
        ([1, 2, 2], None, "-D +I +I"),
        ([1, 2], [7, 7], "-U +U"),
        ([1, 2], [7, 8], "-D +I"),
    ],
)
def test_an_update_of_a_row_is_one_of_the_row_that_is_made_of_it(
    origins: list[int], others: list[int] | None, expected: str
) -> None:
    partners = None if others is None else np.array(others)
    assert text(derived_kinds(kinds("+I -U +U -D"), np.array(origins), partners)) == expected


def test_by_another_key_an_update_is_a_deletion_and_an_insertion() -> None:
    keys = [pa.array([1, 1, 2, 3, None, None, 5])]
    assert text(moved_kinds(kinds("-U +U -U +U -U +U +I"), keys)) == "-U +U -D +I -U +U +I"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_written_changes_have_whole_updates_however_they_are_cut(size: int) -> None:
    batch = rows("+I -U +U -U +U -U -U +U +U -D -U", [1, 1, 1, 1, 2, 2, 3, 3, 4, 3, 4])
    cut = [batch.slice(start, size) for start in range(0, batch.num_rows, size)]
    found = list(whole_updates(cut, ["k"]))
    assert pa.Table.from_batches(found).column("v").to_pylist() == list(range(11))
    assert text(np.concatenate([row_kinds(part) for part in found])) == "+I -U +U -D +I -D -U +U +I -D -D"
    assert not any(part.num_rows and row_kinds(part)[-1] == RowKind.UPDATE_BEFORE for part in found)


def test_the_end_of_a_version_has_the_time_of_the_change_of_its_key() -> None:
    (found,) = whole_updates([rows("-U +U -U +U", [1, 2, 2, 2], [10, 20, 20, 30])], ["k"], are_versions=True)
    assert text(row_kinds(found)) == "-D +I -U +U"
    assert (found.column("k").to_pylist(), found.column("v").to_pylist()) == ([1, 2, 2, 2], [20, 20, 20, 30])


@pytest.mark.parametrize("chosen", [None, [0, 1, 2, 3, 4, 5], [0, 1, 4, 5]])
def test_an_exchange_that_separates_an_update_deletes_here_and_inserts_there(
    chosen: list[int] | None,
) -> None:
    splitter = KeySplitter([0], 2, 128)
    places = {key: splitter.split(rows("+I", [key]), None)[0][0] for key in range(20)}
    here, there = next((a, b) for a in places for b in places if places[a] < places[b])
    batch = rows("-U +U -U +U +I -D", [here, here, here, there, there, here])
    parts = splitter.split(batch, None if chosen is None else np.array(chosen, dtype=np.int32))
    found = [(text(row_kinds(part)), part.column("k").to_pylist()) for _, part, _, _ in parts]
    if chosen is not None and len(chosen) == 4:
        assert found == [("-U +U -D", [here] * 3), ("+I", [there])]
    else:
        assert found == [("-U +U -D -D", [here] * 4), ("+I +I", [there] * 2)]
