"""Batches in memory that two processes share: read where they were written, and their space used again."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.net.credits import NetworkMemory
from sqlstream.runtime.net.streams.frames import BadFrame, SharedPlace
from sqlstream.runtime.net.streams.shared_segment import SLOTS, SegmentReader, SegmentWriter

BATCH = pa.record_batch({"a": np.arange(10_000), "s": [f"row {i}" for i in range(10_000)]})
MEMORY_BYTES = 4 << 20

BATCHES = {
    "flat": BATCH,
    "sliced": BATCH.slice(5001, 17),
    "empty": BATCH.slice(0, 0),
    "nulls": pa.record_batch({"a": pa.array([None, 1, None], pa.int8()), "b": [True, None, False]}),
    "nested": pa.record_batch(
        {"l": [[1, None], None, []], "r": [{"x": 1, "y": "a"}, None, {"x": None, "y": ""}]}
    ),
    "map": pa.record_batch({"m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))}),
    "decimal": pa.record_batch({"d": pa.array([1, None], pa.decimal128(38, 3))}),
    "no columns": pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))),
}


class Ends:
    def __init__(self) -> None:
        self.memory = NetworkMemory(MEMORY_BYTES)
        self.writer = SegmentWriter(self.memory)
        self.reader = SegmentReader(os.dup(self.writer.file))

    def write(self, batch: pa.RecordBatch) -> SharedPlace | None:
        return self.writer.write(batch, batch.schema.serialize().size)


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_read_as_it_was_written(ends: Ends, name: str) -> None:
    batch = BATCHES[name]
    place = ends.write(batch)
    assert place is not None
    read = ends.reader.read(place, batch.schema)
    read.validate(full=True)
    assert read.equals(batch)
    assert read.schema.equals(batch.schema)


def test_a_batch_is_not_copied_and_cannot_be_written_to(ends: Ends) -> None:
    place = ends.write(BATCH)
    assert place is not None
    first, second = ends.reader.read(place, BATCH.schema), ends.reader.read(place, BATCH.schema)
    buffers = [batch.column(0).buffers()[1] for batch in (first, second)]
    assert buffers[0].address == buffers[1].address
    assert not buffers[0].is_mutable


def test_space_returns_when_the_last_use_of_a_batch_ends_in_any_order(ends: Ends) -> None:
    places = [ends.write(BATCH) for _ in range(3)]
    batches = [ends.reader.read(place, BATCH.schema) for place in places if place is not None]
    used = ends.writer.used_bytes
    column = batches[1].column(1)
    del batches[1]
    assert ends.write(BATCH.slice(0, 1)) is not None
    assert ends.writer.used_bytes > used
    # A column of it was still there.
    assert column[9_999].as_py() == "row 9999"
    del column
    again = ends.write(BATCH)
    assert places[1] is not None
    assert again is not None
    assert again.offset == places[1].offset


def test_what_is_kept_is_never_written_over(ends: Ends) -> None:
    kept, sent = [], 0
    for i in range(2_000):
        batch = pa.record_batch({"a": np.full(1_000, i)})
        place = ends.write(batch)
        if place is None:
            kept = kept[::2]
            continue
        sent += 1
        read = ends.reader.read(place, batch.schema)
        assert read.equals(batch)
        if i % 3 == 0:
            kept.append((i, read))
    assert sent > 1_500
    assert all(batch.equals(pa.record_batch({"a": np.full(1_000, i)})) for i, batch in kept)


def test_without_room_there_is_no_place_until_something_is_freed(ends: Ends) -> None:
    batch = pa.record_batch({"a": np.zeros(100_000)})
    held = []
    while (place := ends.write(batch)) is not None:
        held.append(ends.reader.read(place._replace(is_scarce=False), batch.schema))
    assert len(held) == MEMORY_BYTES // (batch.nbytes + 500)
    assert ends.memory.lent_bytes <= MEMORY_BYTES
    del held[2]
    assert ends.write(batch) is not None


def test_more_batches_than_slots_find_no_place(ends: Ends) -> None:
    tiny = pa.record_batch({"a": [1]})
    held = [ends.write(tiny) for _ in range(SLOTS)]
    assert None not in held
    assert ends.write(tiny) is None


def test_a_reader_copies_when_slots_are_scarce_and_bytes_are_not(ends: Ends) -> None:
    tiny = pa.record_batch({"a": [1]})
    held = [ends.write(tiny) for _ in range(SLOTS // 2 + 1)]
    assert [place.is_scarce for place in held if place is not None] == [False] * (SLOTS // 2) + [True]
    assert held[-1] is not None
    assert ends.reader.read(held[-1], tiny.schema).equals(tiny)
    # Its slot is free although the copy is there.
    assert ends.write(tiny) == held[-1]


def test_a_reader_copies_when_space_is_scarce(ends: Ends) -> None:
    batch = pa.record_batch({"a": np.zeros(100_000)})
    place = ends.write(batch)
    assert place is not None
    assert not place.is_scarce
    for _ in range(2):
        place = ends.write(batch)
    assert place is not None
    assert place.is_scarce
    read = ends.reader.read(place, batch.schema)
    before = ends.writer.used_bytes
    ends.writer.trim()
    assert ends.writer.used_bytes < before
    assert read.equals(batch)


def test_memory_is_borrowed_as_it_is_touched_and_trimmed_when_it_is_free(ends: Ends) -> None:
    assert ends.memory.lent_bytes == 0
    place = ends.write(pa.record_batch({"a": np.zeros(200_000)}))
    assert place is not None
    assert 1_600_000 < ends.memory.lent_bytes < 1_700_000
    blocks = os.fstat(ends.writer.file).st_blocks
    ends.reader.free(place)
    ends.writer.trim()
    assert ends.memory.lent_bytes == 0
    assert os.fstat(ends.writer.file).st_blocks < blocks // 10


def test_a_batch_outlives_both_ends(ends: Ends) -> None:
    place = ends.write(BATCH)
    assert place is not None
    read = ends.reader.read(place, BATCH.schema)
    ends.writer.close()
    assert ends.memory.lent_bytes == 0
    assert ends.write(BATCH) is None
    ends.__dict__.clear()
    gc.collect()
    assert read.equals(BATCH)


def mapped_names() -> set[str]:
    """The files of shared memory that this process has mapped and that have a name."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {path for line in maps if (path := line[73:]).startswith("/dev/shm/") and os.path.exists(path)}


def test_nothing_is_left_of_a_segment_and_it_has_no_name() -> None:
    names = mapped_names()
    files = len(os.listdir("/proc/self/fd"))
    ends = Ends()
    place = ends.write(BATCH)
    assert place is not None
    read = ends.reader.read(place, BATCH.schema)
    assert mapped_names() <= names
    ends.writer.close()
    del ends, read
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == files
    assert "sqlstream-exchange" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("place", [SharedPlace(MEMORY_BYTES, 1, 0, False), SharedPlace(0, 64, SLOTS, False)])
def test_a_place_outside_of_the_segment_is_refused(ends: Ends, place: SharedPlace) -> None:
    with pytest.raises(BadFrame):
        ends.reader.read(place, BATCH.schema)
