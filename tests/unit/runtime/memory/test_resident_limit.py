"""Mapped pages stay below the limit, and what was unmapped is still there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqlstream.runtime.host.mapped_file import Mapping
from sqlstream.runtime.memory.mapped_memory import MappedMemory, Mappings
from sqlstream.runtime.memory.resident_limit import (
    BUSY_PAUSE_S,
    IDLE_PAUSE_S,
    PART_BYTES,
    ProcessPages,
    ResidentKeeper,
    ResidentLimit,
)

MB = 1 << 20


@pytest.fixture
def pages() -> Iterator[ProcessPages]:
    made = ProcessPages()
    yield made
    made.close()


def resident(pages: ProcessPages, mappings: Mappings) -> int:
    return int(sum(pages.resident_bytes(mapping).sum() for mapping in mappings.live()))


def test_pages_beyond_the_limit_are_unmapped_and_come_back_when_they_are_read(
    pages: ProcessPages, disk_path: Path
) -> None:
    memory = MappedMemory("Join[1]", [str(disk_path)])
    limit = ResidentLimit(16 * MB, pages)
    limit.add(memory.mappings)
    arrays = [memory.zeros(4 * MB, np.uint8) for _ in range(4)]
    assert limit.keep() == IDLE_PAUSE_S
    assert not memory.is_scarce
    arrays += [memory.zeros(8 * MB, np.int64)]
    for number, array in enumerate(arrays):
        array[:] = number + 1
    assert resident(pages, memory.mappings) == 80 * MB
    for _ in range(3):
        assert limit.keep() == BUSY_PAUSE_S
        assert memory.is_scarce
        assert resident(pages, memory.mappings) <= 16 * MB
        # Every page was written to, and some of them are mapped again.
        assert [int(array[::511].max()) for array in arrays] == [1, 2, 3, 4, 5]
        assert [int(array.min()) for array in arrays[:2]] == [1, 2]
    limit.remove(memory.mappings)
    assert limit.keep() == IDLE_PAUSE_S


class Figures:
    """Implements `PageFigures`: of each array so many bytes of each part."""

    others_bytes = 100 * MB

    def __init__(self, mappings: Mappings) -> None:
        self.mappings = mappings
        self.resident = {m.address: np.zeros(m.nbytes // PART_BYTES, dtype=np.int64) for m in mappings.live()}

    def file_bytes(self) -> int:
        return self.others_bytes + int(sum(parts.sum() for parts in self.resident.values()))

    def resident_bytes(self, mapping: Mapping) -> Any:
        return self.resident[mapping.address]

    def drop(self, mapping: Mapping, start: int, length: int) -> None:
        self.resident[mapping.address][start // PART_BYTES : (start + length) // PART_BYTES] = 0


def test_parts_that_are_used_stay_mapped(disk_path: Path) -> None:
    memory = MappedMemory("Join[1]", [str(disk_path)])
    hot, cold = memory.zeros(16 * MB, np.uint8), memory.zeros(64 * MB, np.uint8)
    figures, clock = Figures(memory.mappings), [0.0]
    in_hot, in_cold = figures.resident.values()
    limit = ResidentLimit(32 * MB, figures, figures.drop, lambda: clock[0])
    limit.add(memory.mappings)
    came_back = 0
    for turn in range(400):
        clock[0] += 0.01
        came_back += int((in_hot == 0).sum()) if turn >= 100 else 0
        in_hot[:] = PART_BYTES
        # Each time a few pages of four of the 32 cold parts.
        in_cold[turn % 8 :: 8] += 128 << 10
        limit.keep()
        assert figures.file_bytes() <= 132 * MB
    assert came_back < 300 * len(in_hot) / 20
    del hot, cold


def test_pages_of_libraries_are_no_state(disk_path: Path) -> None:
    memory = MappedMemory("Join[1]", [str(disk_path)])
    array = memory.zeros(64 * MB, np.uint8)
    figures, clock = Figures(memory.mappings), [0.0]
    (resident,) = figures.resident.values()
    resident[:10] = PART_BYTES
    limit = ResidentLimit(32 * MB, figures, figures.drop, lambda: clock[0])
    limit.add(memory.mappings)
    limit.keep()
    figures.others_bytes += 500 * MB
    limit.keep()
    assert resident.sum() == 20 * MB
    resident[:] = PART_BYTES
    limit.keep()
    assert resident.sum() == 24 * MB
    del array


def test_the_thread_keeps_the_limit_while_state_is_written(pages: ProcessPages, disk_path: Path) -> None:
    memory = MappedMemory("Join[1]", [str(disk_path)])
    limit = ResidentLimit(8 * MB, pages)
    limit.add(memory.mappings)
    keeper = ResidentKeeper(limit)
    array = memory.zeros(8 * MB, np.int64)
    keeper.start()
    try:
        highest = 0
        for start in range(0, len(array), len(array) // 256):
            array[start : start + len(array) // 256] = start
            np.sort(np.random.default_rng(start).random(100_000))
            highest = max(highest, resident(pages, memory.mappings))
    finally:
        keeper.stop()
    assert highest < 48 * MB
    assert [int(array[n]) for n in range(0, len(array), len(array) // 256)] == list(
        range(0, len(array), len(array) // 256)
    )


class FailingFigures(Figures):
    """Fails twice."""

    failures = 2

    def file_bytes(self) -> int:
        if self.failures:
            self.failures -= 1
            raise OSError("no pages")
        return super().file_bytes()


def test_the_thread_goes_on_when_the_system_does_not_say_what_is_mapped(
    disk_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MappedMemory("Join[1]", [str(disk_path)])
    array = memory.zeros(64 * MB, np.uint8)
    figures = FailingFigures(memory.mappings)
    (resident,) = figures.resident.values()
    resident[:] = PART_BYTES
    limit = ResidentLimit(32 * MB, figures, figures.drop)
    limit.add(memory.mappings)
    keeper = ResidentKeeper(limit)
    keeper.start()
    try:
        deadline_s = time.monotonic() + 60
        while resident.sum() > 32 * MB and time.monotonic() < deadline_s:
            time.sleep(0.01)
    finally:
        keeper.stop()
    assert resident.sum() == 24 * MB
    assert caplog.text.count("could not keep mapped state below its limit, and try again: no pages") == 1
    del array
