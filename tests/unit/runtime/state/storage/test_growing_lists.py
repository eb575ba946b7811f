"""Lists and texts by slot against lists of Python, for values of every kind."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.state.storage.arrays import first_slots
from sqlstream.runtime.state.storage.growing_lists import GrowingLists, GrowingTexts

SLOTS = 5
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int64(), [1, -2, None, 1 << 40]),
    "small numbers": (pa.int8(), [1, None, -3]),
    "booleans": (pa.bool_(), [True, False, None]),
    "decimals": (pa.decimal128(38, 2), [Decimal("1.25"), None]),
    "times": (pa.timestamp("us"), [datetime.datetime(2020, 1, 1), None]),
    "texts": (pa.string(), ["", "ä", None, "long " * 40]),
    "nothing": (pa.null(), [None]),
    "rows": (pa.struct([("x", pa.int32()), ("y", pa.string())]), [None, {"x": 1, "y": None}, {"x": 2, "y": "b"}]),
    "arrays": (pa.list_(pa.string()), [None, [], ["a", None], ["b"]]),
    "maps": (pa.map_(pa.string(), pa.list_(pa.int16())), [None, [], [("k", [1, None]), ("l", None)]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [1, 400])
def test_lists_have_what_was_appended_since_they_were_put_or_reset(kind: str, times: int) -> None:
    value_type, values = KINDS[kind]
    pick, held = random.Random(kind), [[] for _ in range(SLOTS)]  # type: list[list[Any]]
    lists = GrowingLists(pa.list_(value_type))
    lists.resize(SLOTS)
    for _ in range(12):
        slots = np.array(pick.sample(range(SLOTS), 2))
        added = [[pick.choice(values) for _ in range(times * pick.randrange(1, 4))] for _ in slots]
        # A part of an array, as batches have them.
        column = pa.array([values[0], *(v for row in added for v in row), values[0]], value_type)[1:-1]
        bounds = np.cumsum([0, *map(len, added)])
        is_put, is_reset = pick.random() < 0.2, pick.random() < 0.2
        if is_reset:
            lists.reset(slots)
        (lists.put if is_put else lists.append)(slots, column, bounds)
        for slot, row in zip(slots.tolist(), added, strict=True):
            held[slot] = row if is_put or is_reset else held[slot] + row
        assert lists.get(first_slots(SLOTS)).to_pylist() == [row or None for row in held]
    assert lists.get(np.array([3, 3, 0])).to_pylist() == [held[3] or None, held[3] or None, held[0] or None]
    assert lists.get(np.array([], np.int64)).to_pylist() == []


def test_an_empty_list_that_is_put_leaves_null() -> None:
    lists = GrowingLists(pa.list_(pa.int64()))
    lists.resize(2)
    lists.append(np.array([0, 1]), pa.array([1, 2, 3]), np.array([0, 1, 3]))
    lists.put(np.array([0, 1]), pa.array([7], pa.int64()), np.array([0, 0, 1]))
    assert lists.get(np.array([0, 1])).to_pylist() == [None, [7]]


def test_what_an_append_writes_does_not_grow_with_the_text() -> None:
    texts, piece, written = GrowingTexts(), "x" * 3_000, []
    texts.resize(1)
    rows = texts._chunks._rows
    append = rows.append
    rows.append = lambda batch, *a: written.append(batch.nbytes) or append(batch, *a)  # type: ignore[func-returns-value, method-assign, assignment]
    for _ in range(200):
        texts.append(np.array([0]), pa.array([piece]))
    assert texts.get(np.array([0])).to_pylist() == [piece * 200]
    assert max(written) < 8_000
    assert texts.nbytes() < 3 * 200 * len(piece)
