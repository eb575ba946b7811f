"""Functions and aggregates of bitmaps against Python's sets."""

from __future__ import annotations

import random
import struct
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from expression_harness import call, col, evaluate

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates import make_accumulator
from sqlstream.runtime.evaluate.bitmap import Bitmaps, cardinalities
from sqlstream.runtime.state.storage.arrays import first_slots
from sqlstream.types import BITMAP, INT

ARRAY = sql.array(INT)
FULL = set(range(65536))


def column(*sets: set[int] | None) -> pa.Array:
    """The sets as the functions write them."""
    pairs = [(row, value) for row, values in enumerate(sets) for value in values or ()]
    owners = np.array([p[0] for p in pairs], dtype=np.int64)
    elements = np.array([p[1] for p in pairs], dtype=np.uint32).view(np.int32)
    nulls = np.array([s is None for s in sets])
    return Bitmaps.of_elements(owners, elements, len(sets), nulls if nulls.any() else None).column()


def read(bitmaps: pa.Array) -> list[set[int] | None]:
    found = Bitmaps.of(bitmaps)
    return [
        None if found.nulls is not None and found.nulls[i] else set(found.values[a:b].tolist())
        for i, (a, b) in enumerate(zip(found.starts[:-1], found.starts[1:], strict=True))
    ]


def with_runs(*containers: tuple[int, list[tuple[int, int]]]) -> bytes:
    """A bitmap whose containers are runs (first, last)."""
    count = len(containers)
    text = struct.pack("<HH", 12347, count - 1) + b"\xff" * ((count + 7) // 8)
    for key, runs in containers:
        text += struct.pack("<HH", key, sum(b - a + 1 for a, b in runs) - 1)
    text += b"\0\0\0\0" * count if count >= 4 else b""
    for _, runs in containers:
        text += struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", a, b - a) for a, b in runs)
    return text


def random_sets(seed: int, rows: int) -> list[set[int] | None]:
    """Few values and dense containers, at both ends of the range."""
    pick = random.Random(seed)
    sets: list[set[int] | None] = []
    for _ in range(rows):
        start = pick.choice([0, 65_530, 2**31 - 3, 2**32 - 70_000])
        width, count = pick.choice([(10, 5), (70_000, 50), (70_000, 9_000)])
        sets.append(None if pick.random() < 0.2 else {start + pick.randrange(width) for _ in range(count)})
    return sets


@pytest.mark.parametrize("seed", range(3))
def test_the_operations_are_those_of_sets(seed: int) -> None:
    left, right = random_sets(seed, 12), random_sets(seed + 100, 12)
    a, b = column(*left), column(*right)
    assert read(a) == left
    assert cardinalities(a).to_pylist() == [None if s is None else len(s) for s in left]
    for name, operation in (
        ("AND", set.__and__),
        ("ANDNOT", set.__sub__),
        ("OR", set.__or__),
        ("XOR", set.__xor__),
    ):
        rows = list(zip(a.to_pylist(), b.to_pylist(), strict=True))
        found = evaluate(call(f"BITMAP_{name}", col(0, BITMAP), col(1, BITMAP)), rows)
        wanted = [
            None if x is None or y is None else operation(x, y) for x, y in zip(left, right, strict=True)
        ]
        assert read(pa.array(found, pa.binary())) == wanted
        # Equal sets have equal bytes.
        assert found == column(*wanted).to_pylist()


def test_arrays_texts_and_bytes() -> None:
    rows = [([-1, 5, None, 5],), (None,), ([],)]
    built = evaluate(call("BITMAP_BUILD", col(0, ARRAY)), rows)
    assert read(pa.array(built, pa.binary())) == [{5, 2**32 - 1}, None, set()]
    bitmaps = [(b,) for b in built]
    assert evaluate(call("BITMAP_TO_ARRAY", col(0, BITMAP)), bitmaps) == [[5, -1], None, []]
    assert evaluate(call("BITMAP_TO_STRING", col(0, BITMAP)), bitmaps) == ["{5,4294967295}", None, "{}"]
    assert built[2] == struct.pack("<II", 12346, 0)
    long = [(b,) for b in column(set(range(200_000)), {1, 2}).to_pylist()]
    text, short = evaluate(call("BITMAP_TO_STRING", col(0, BITMAP)), long)
    assert short == "{1,2}"
    # RoaringBitmap.toString: no value begins behind 0x80000 characters.
    values = text.removesuffix(",...}").removeprefix("{").split(",")
    assert values == [str(i) for i in range(len(values))]
    assert len(text) - len(",...}") <= 0x80000 + 6 < len(text) - len(",...}") + 7


def test_bytes_of_other_writers_are_read_and_malformed_ones_refused() -> None:
    runs = with_runs((0, [(0, 65535)]), (1, [(3, 4), (9, 9)]), (2, [(1, 1)]), (65535, [(65535, 65535)]))
    few = with_runs((7, [(0, 1)]))
    read_in = evaluate(call("BITMAP_FROM_BYTES", col(0, sql.BYTES)), [(runs,), (few,), (None,)])
    wanted = [FULL | {65539, 65540, 65545, 131073, 2**32 - 1}, {7 << 16, (7 << 16) + 1}, None]
    assert read(pa.array(read_in, pa.binary())) == wanted
    good = column({1, 2, 70_000}).to_pylist()[0]
    dense = column(set(range(5000))).to_pylist()[0]
    flipped = bytearray(dense)
    flipped[-1] ^= 1
    wrong = [b"", b"\0", good[:-1], good[:9], b"\xff" * 20, runs[:-1], dense[:-1], bytes(flipped)]
    wrong += [good[:16] + good[17:], with_runs((0, [(4, 9), (2, 3)])), struct.pack("<II", 12346, 2**32 - 1)]
    for data in wrong:
        with pytest.raises(UserError, match="not a bitmap"):
            evaluate(call("BITMAP_FROM_BYTES", col(0, sql.BYTES)), [(data,)])


@pytest.mark.parametrize("operation", ["BUILD", "AND", "OR", "XOR"])
@pytest.mark.parametrize("is_moved", [False, True])
def test_aggregates_count_what_the_rows_of_a_slot_have(operation: str, is_moved: bool) -> None:
    pick = random.Random(operation)
    slots = 4
    of, result = (INT if operation == "BUILD" else BITMAP), (BITMAP, sql.BIGINT)
    names = (f"BITMAP_{operation}_AGG", f"BITMAP_{operation}_CARDINALITY_AGG")

    def made() -> list:
        found = [
            make_accumulator(AggregateCall(n, (0,), r), (of,), True)
            for n, r in zip(names, result, strict=True)
        ]
        for accumulator in found:
            accumulator.resize(slots)
        return found

    accumulators = made()
    held: list[list[set[int]]] = [[] for _ in range(slots)]
    for _ in range(12):
        changes: list[tuple[int, set[int] | None, int]] = []
        for _ in range(pick.randrange(1, 8)):
            slot = pick.randrange(slots - 1)
            if held[slot] and pick.random() < 0.4:
                changes.append((slot, held[slot].pop(pick.randrange(len(held[slot]))), -1))
            else:
                values = {pick.randrange(5) for _ in range(1 if operation == "BUILD" else 3)}
                held[slot].append(values)
                changes.append((slot, values, 1))
        changes.append((0, None, 1))
        rows = np.array([c[0] for c in changes], dtype=np.int64)
        weights = np.array([c[2] for c in changes], dtype=np.int8)
        sets = [c[1] for c in changes]
        if operation == "BUILD":
            values = pa.array([None if s is None else next(iter(s)) for s in sets], pa.int32())
        else:
            values = column(*sets)
        for accumulator in accumulators:
            accumulator.accumulate(rows, [values], weights)
        wanted: list[set[int] | None] = []
        for of_slot in held:
            counts = Counter(v for s in of_slot for v in s)
            for value, count in list(counts.items()):
                if not {"AND": count == len(of_slot), "XOR": count % 2}.get(operation, True):
                    del counts[value]
            wanted.append(set(counts) if of_slot else None)
        found = [a.results(first_slots(slots)) for a in accumulators]
        assert read(found[0]) == wanted
        assert found[1].to_pylist() == [None if s is None else len(s) for s in wanted]
        if is_moved:
            fresh = made()
            for old, new in zip(accumulators, fresh, strict=True):
                new.load(first_slots(slots), old.columns(first_slots(slots)))
                kept = old.kept_values
                _, saved = kept.saved(np.arange(kept.slot_count)[kept.is_live(np.arange(kept.slot_count))])
                new.kept_values.load(saved[0].cast(pa.int64()).to_numpy(), saved[1:])
            accumulators = fresh
