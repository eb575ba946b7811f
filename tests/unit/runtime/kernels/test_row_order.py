"""Rows in order per key, against sorted lists, while rows come and go."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import RowOrder

NAN = float("nan")
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-5, -1, 0, 3, 2**31 - 1, None]),
    "time": (pa.timestamp("us"), [-(2**62), -1, 0, 5, 2**62, None]),
    "float": (pa.float64(), [-1e300, -0.5, 0.0, 2.5, float("inf"), NAN, None]),
    "decimal": (
        pa.decimal128(38, 2),
        [Decimal(-(10**35)), Decimal("-0.01"), Decimal(0), Decimal(10**35), None],
    ),
    "text": (
        pa.string(),
        ["", "a", "ab", "eight by", "eight bytes and less", "eight bytes and more", "ä", None],
    ),
    "bool": (pa.bool_(), [False, True, None]),
}
KEYS = 3


def _sort_key(value: Any, is_descending: bool, is_nulls_first: bool, pool: list[Any]) -> tuple[bool, int]:
    """Pools are in order."""
    place = next(i for i, other in enumerate(pool) if other is value or other == value)
    return (value is None) is not is_nulls_first, 0 if value is None else (-place if is_descending else place)


@pytest.mark.parametrize(
    "columns", [("int",), ("time", "text"), ("text",), ("float", "int"), ("decimal", "bool"), ("bool",), ()]
)
def test_places_are_those_of_a_sorted_list(columns: tuple[str, ...]) -> None:
    for seed in range(6):
        fate = random.Random(f"{columns} {seed}")
        directions = [(fate.random() < 0.5, fate.random() < 0.5) for _ in columns]
        # Alone, a column of one word is kept in another layout.
        is_alone = columns == ("int",)
        names = list(columns) if is_alone else [*columns, "id"]
        types = [POOLS[c][0] for c in columns] + ([] if is_alone else [pa.int64()])
        index = KeyIndex(types)
        order = RowOrder(index, [(n, *directions[n]) for n in range(len(columns))])
        held: list[list[tuple[Any, int]]] = [[] for _ in range(KEYS)]
        sequence = np.zeros(0, dtype=np.int64)
        rows_of: dict[int, int] = {}
        if is_alone:
            held, pools = held[:1], [list(POOLS["int"][1])]
        for step in range(30):
            values = [[fate.choice(POOLS[c][1]) for c in columns] for _ in range(fate.choice([0, 1, 2, 9]))]
            if is_alone:
                fate.shuffle(pools[0])
                there = {row for _, row in held[0]}
                values = [
                    [v]
                    for v in pools[0][: len(values)]
                    if index.get([pa.array([v], types[0])])[0] not in there
                ]
            arrays = [pa.array([v[n] for v in values], POOLS[c][0]) for n, c in enumerate(columns)]
            if not is_alone:
                arrays.append(pa.array([step * 100 + n for n in range(len(values))]))
            rows = index.get_or_insert(arrays)[0]
            sequence = np.append(sequence, np.zeros(max(0, index.slot_count - len(sequence)), dtype=np.int64))
            sequence[rows] = step * 100 + np.arange(len(rows))
            keys = np.array([fate.randrange(len(held)) for _ in rows], dtype=np.int64)
            order.insert(keys, rows, sequence)
            for key, row, value in zip(keys.tolist(), rows.tolist(), values, strict=True):
                rank = tuple(
                    _sort_key(v, *d, POOLS[c][1]) for v, d, c in zip(value, directions, columns, strict=True)
                )
                held[key].append((rank, row))
                rows_of[row] = key
            for own in held:
                own.sort(key=lambda r: (r[0], sequence[r[1]]))
            _check(order, held)
            gone = [row for own in held for _, row in own if fate.random() < 0.3]
            order.remove(np.array([rows_of[r] for r in gone], np.int64), np.array(gone, np.int64))
            index.delete(np.array(gone, dtype=np.int64))
            held = [[r for r in own if r[1] not in gone] for own in held]
            if fate.random() < 0.1:
                doomed = np.array([row for _, row in held[0]], dtype=np.int64)
                index.delete(doomed)
                order.clear(np.array([0, 77]))
                held[0] = []
        assert names


def _check(order: RowOrder, held: list[list[tuple[Any, int]]]) -> None:
    keys = np.array([key for key, own in enumerate(held) if own], dtype=np.int64)
    owned = [own for own in held if own]
    sizes = np.array([len(own) for own in owned], dtype=np.int64)
    assert order.sizes(keys).tolist() == sizes.tolist()
    positions, rows = order.between(keys, sizes // 3, sizes)
    assert rows.tolist() == [row for own in owned for _, row in own[len(own) // 3 :]]
    assert positions.tolist() == [n for n, own in enumerate(owned) for _ in own[len(own) // 3 :]]
    for key, own in zip(keys.tolist(), owned, strict=True):
        rows = np.array([row for _, row in own], dtype=np.int64)
        ranks = [rank for rank, _ in own]
        mine = np.full(len(rows), key)
        assert order.places(rows).tolist() == list(range(len(own)))
        assert order.peers(mine, rows, is_end=False).tolist() == [ranks.index(r) for r in ranks]
        assert order.peers(mine, rows, is_end=True).tolist() == [
            len(ranks) - ranks[::-1].index(r) for r in ranks
        ]


@pytest.mark.parametrize(("is_descending", "is_nulls_first"), [(False, True), (True, False), (True, True)])
def test_bounds_are_by_value(is_descending: bool, is_nulls_first: bool) -> None:
    values = [5, 1, 9, None, 1, 7, -3, None]
    index = KeyIndex([pa.int64(), pa.int64()])
    order = RowOrder(index, [(0, is_descending, is_nulls_first)])
    rows, _ = index.get_or_insert([pa.array(values), pa.array(range(len(values)))])
    order.insert(np.zeros(8, dtype=np.int64), rows, np.arange(8))
    along = sorted((~v if is_descending else v) for v in values if v is not None)
    shift = 2 if is_nulls_first else 0
    targets = np.arange(-12, 12)
    for is_end in (False, True):
        found = order.bounds(np.zeros(len(targets), dtype=np.int64), targets, is_end=is_end)
        side: Any = "right" if is_end else "left"
        assert found.tolist() == (np.searchsorted(along, targets, side=side) + shift).tolist()
