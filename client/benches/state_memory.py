"""The measurement behind `sqlstream bench state --mapped`: keyed state in files, of which a quarter may be mapped."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from client.benches.state import BATCH_ROWS, StateBench
from runtime.host.mapped_file import Mapping
from runtime.memory.array_memory import in_force
from runtime.memory.mapped_memory import MappedMemory
from runtime.memory.resident_limit import ProcessPages, ResidentKeeper, ResidentLimit

LIMIT_PART = 4
ROUNDS = 8
"""In each the table in memory and the mapped one take the same batches, one after the other."""

DROPS: dict[str, Callable[[Mapping, int, int], None]] = {"cached": Mapping.drop, "disk": Mapping.write_out}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MappedFigure:
    """A table of `keys` keys and `state_bytes` bytes, of which `limit_bytes` may be mapped and `mapped_bytes` were at most.
    `part` is the median over the pairs of runs."""

    pages: str
    distribution: str
    keys: int
    state_bytes: int
    limit_bytes: int
    mapped_bytes: int
    memory_rows_per_s: int
    mapped_rows_per_s: int
    part: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class MappedBench:
    """Two tables of BIGINT keys with a count and a time to live, one in memory and one in files, updated with the same keys."""

    def __init__(self, keys: int, rows: int) -> None:
        self._keys = keys
        self._batches = max(1, rows // BATCH_ROWS // ROUNDS)
        self._random = np.random.default_rng(1)

    def figures(self) -> Iterator[MappedFigure]:
        in_memory = StateBench(self._keys, BATCH_ROWS)
        in_memory.fill()
        memory = MappedMemory("bench", [tempfile.gettempdir()])
        with in_force(memory):
            mapped = StateBench(self._keys, BATCH_ROWS)
        pages = ProcessPages()
        limit_bytes = in_memory.table.nbytes() // LIMIT_PART
        try:
            for number, (name, drop) in enumerate(DROPS.items()):
                limit = _WatchedLimit(limit_bytes, pages, drop)
                limit.add(memory.mappings)
                keeper = ResidentKeeper(limit)
                keeper.start()
                try:
                    if number == 0:
                        mapped.fill()
                    for distribution, draw in (("zipf", self._zipf()), ("uniform", self._uniform)):
                        limit.highest_bytes = 0
                        yield self._figure(name, distribution, draw, in_memory, mapped, limit)
                finally:
                    keeper.stop()
        finally:
            pages.close()

    def _figure(
        self,
        name: str,
        distribution: str,
        draw: Callable[[], Array],
        in_memory: StateBench,
        mapped: StateBench,
        limit: _WatchedLimit,
    ) -> MappedFigure:
        speeds: list[tuple[float, float]] = []
        # The first round brings the keys in use into memory.
        for _ in range(ROUNDS + 1):
            batches = [draw() for _ in range(self._batches)]
            speeds.append((_rows_per_s(in_memory, batches), _rows_per_s(mapped, batches)))
        measured = speeds[1:]
        return MappedFigure(
            name,
            distribution,
            self._keys,
            in_memory.table.nbytes(),
            limit.limit_bytes,
            limit.highest_bytes,
            round(statistics.median(memory for memory, _ in measured)),
            round(statistics.median(files for _, files in measured)),
            statistics.median(files / memory for memory, files in measured),
        )

    def _uniform(self) -> Array:
        return self._random.integers(0, self._keys, BATCH_ROWS)

    def _zipf(self) -> Callable[[], Array]:
        """The key of rank r occurs in proportion to 1 / r; ranks are spread over the table."""
        sums = np.cumsum(1 / np.arange(1, self._keys + 1))
        key_of_rank = self._random.permutation(self._keys)

        def draw() -> Array:
            ranks = np.searchsorted(sums, self._random.random(BATCH_ROWS) * sums[-1])
            return key_of_rank[ranks]

        return draw


class _WatchedLimit(ResidentLimit):
    """State: the most bytes that were mapped when it looked."""

    highest_bytes = 0

    def _resident(self) -> int:
        found = super()._resident()
        self.highest_bytes = max(self.highest_bytes, found)
        return found


def _rows_per_s(bench: StateBench, batches: list[Array]) -> float:
    begun_s = time.perf_counter()
    for numbers in batches:
        bench.update(numbers)
    return len(batches) * BATCH_ROWS / (time.perf_counter() - begun_s)
