"""Mapped pages stay below the limit, and what was unmapped is still there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.memory.mapped_memory import MappedMemory, Mappings
from runtime.memory.resident_limit import (
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
    return sum(pages.resident_bytes(mapping) for mapping in mappings.live())


def test_pages_beyond_the_limit_are_unmapped_and_come_back_when_they_are_read(
    pages: ProcessPages, tmp_path: Path
) -> None:
    memory = MappedMemory("Join[1]", [str(tmp_path)])
    limit = ResidentLimit(16 * MB, pages)
    limit.add(memory.mappings)
    arrays = [memory.zeros(4 * MB, np.uint8) for _ in range(4)]
    assert limit.keep() == IDLE_PAUSE_S
    arrays += [memory.zeros(8 * MB, np.int64)]
    for number, array in enumerate(arrays):
        array[:] = number + 1
    assert resident(pages, memory.mappings) == 80 * MB
    for _ in range(3):
        assert limit.keep() == BUSY_PAUSE_S
        assert resident(pages, memory.mappings) <= 16 * MB
        # Every page was written to, and some of them are mapped again.
        assert [int(array[::511].max()) for array in arrays] == [1, 2, 3, 4, 5]
        assert [int(array.min()) for array in arrays[:2]] == [1, 2]
    limit.remove(memory.mappings)
    assert limit.keep() == IDLE_PAUSE_S


class Figures:
    """Implements `PageFigures`: `others_bytes` of libraries, and all mappings whole but what was dropped."""

    def __init__(self, mappings: Mappings) -> None:
        self.others_bytes = 100 * MB
        self.mappings = mappings
        self.gone: dict[tuple[int, int], int] = {}

    def file_bytes(self) -> int:
        return self.others_bytes + sum(m.nbytes for m in self.mappings.live()) - sum(self.gone.values())

    def resident_bytes(self, mapping: object) -> int:
        (found,) = [m for m in self.mappings.live() if m is mapping]
        gone = sum(size for (address, _), size in self.gone.items() if address == found.address)
        return found.nbytes - gone


def test_parts_are_unmapped_in_turn(tmp_path: Path) -> None:
    memory = MappedMemory("Join[1]", [str(tmp_path)])
    arrays = [memory.zeros(32 * MB, np.uint8) for _ in range(4)]
    figures = Figures(memory.mappings)
    order: list[int] = []
    firsts = {m.address: n for n, m in enumerate(memory.mappings.live())}

    def drop(mapping: object, start: int, length: int) -> None:
        address = mapping.address  # type: ignore[attr-defined]
        order.append(firsts[address] * 8 + start // PART_BYTES)
        figures.gone[address, start] = length

    limit = ResidentLimit(64 * MB, figures, drop)
    limit.add(memory.mappings)
    limit.keep()
    # 32 parts of 4 MB, down to three quarters of 64 MB, in steps of eight parts.
    assert order == list(range(24))
    figures.gone.clear()
    limit.keep()
    assert order[24:] == [*range(24, 32), *range(16)]
    figures.others_bytes += 50 * MB
    limit.keep()
    assert len(order) > 48, "mapped libraries count as state until the pages are counted again"
    del arrays


def test_the_thread_keeps_the_limit_while_state_is_written(pages: ProcessPages, tmp_path: Path) -> None:
    memory = MappedMemory("Join[1]", [str(tmp_path)])
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
