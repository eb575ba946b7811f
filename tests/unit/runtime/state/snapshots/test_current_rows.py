"""The rows that a chain of segments describes, against a dict."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.runtime.state.snapshots.current_rows import SLOT_COLUMN, VERSION_COLUMN, current_rows
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN

Row = tuple[int, int, int, int]
"""Key group, slot, version and a value."""


def batch(rows: list[Row]) -> pa.RecordBatch:
    groups, slots, versions, values = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 4
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(groups, pa.int32()),
            pa.array(slots, pa.int32()),
            pa.array(versions, pa.int64()),
            pa.array(values, pa.int64()),
        ],
        names=[KEY_GROUP_COLUMN, SLOT_COLUMN, VERSION_COLUMN, "v"],
    )


def described(segments: list[list[Row]]) -> list[int]:
    """The values that remain, segment by segment: an increment with any row of an entry replaces all earlier ones of it."""
    found: dict[tuple[int, int], list[int]] = {}
    for segment in segments:
        of_segment: dict[tuple[int, int], list[int]] = {}
        for group, slot, version, value in segment:
            of_segment.setdefault((group, slot), []).extend([value] if version >= 0 else [])
        found |= of_segment
    return sorted(value for values in found.values() for value in values)


def chain(choice: random.Random, groups: range) -> list[list[Row]]:
    """One old subtask's: a whole copy, then increments that change entries, forget them and use their slots for others."""
    at: dict[int, int] = {}
    segments: list[list[Row]] = []
    for version in range(choice.randint(1, 4)):
        rows: list[Row] = []
        for slot in choice.sample(range(40), 20):
            if slot in at and choice.random() < 0.4:
                rows.append((at.pop(slot), slot, -version, 0))
            if version == 0 or choice.random() < 0.7:
                group = at.setdefault(slot, choice.choice(groups))
                rows += (
                    (group, slot, version, choice.randint(0, 10**6)) for _ in range(choice.randint(1, 2))
                )
        segments.append(rows)
    return segments


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_are_those_that_nothing_later_has_replaced(seed: int) -> None:
    choice = random.Random(seed)
    chains = [chain(choice, groups) for groups in (range(5), range(5, 9))][: choice.randint(1, 2)]
    segments = [segment for each in chains for segment in each]
    pieces: list[pa.RecordBatch] = []
    for segment in segments:
        cut = choice.randint(0, len(segment))
        pieces += (batch(segment[:cut]), batch(segment[cut:]))
    found: list[Any] = [v for piece in current_rows(pieces) for v in piece.column(3).to_pylist()]
    assert sorted(found) == sorted(v for each in chains for v in described(each))


def test_whole_copies_are_given_as_they_are() -> None:
    pieces = [batch([(1, 0, 0, 5)]), batch([(1, 1, 0, 6)])]
    assert all(found is piece for found, piece in zip(current_rows(pieces), pieces, strict=True))
    assert list(current_rows([])) == []
