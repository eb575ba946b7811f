"""The measurement behind `main.py state --mapped`: keyed state in files, of which a quarter may be mapped."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benches.state import BATCH_ROWS, StateBench

from sqlstream.runtime.host.mapped_file import Mapping
from sqlstream.runtime.memory.array_memory import in_force
from sqlstream.runtime.memory.mapped_memory import MappedMemory
from sqlstream.runtime.memory.resident_limit import ProcessPages, ResidentKeeper, ResidentLimit

LIMIT_PART = 4
ROUNDS = 8
"""In each the table in memory and the mapped one take the same batches, one after the other."""

DROPS: dict[str, Callable[[Mapping, int, int], None]] = {"cached": Mapping.drop, "disk": Mapping.write_out}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MappedFigure:
    """A table of `keys` keys and `state_bytes` bytes, of which `limit_bytes` may be mapped and `mapped_bytes` were at most.
    `cpu` and `wall` are the speed of mapped state as a part of that in memory, by CPU time and by elapsed time: medians over the
    pairs of runs. Rows are per second of elapsed time."""

    pages: str
    distribution: str
    keys: int
    state_bytes: int
    limit_bytes: int
    mapped_bytes: int
    memory_rows_per_s: int
    mapped_rows_per_s: int
    cpu: float
    wall: float

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
            # The first look of the thread that unmaps finds the whole table.
            mapped.fill()
            for name, drop in DROPS.items():
                limit = ResidentLimit(limit_bytes, pages, drop)
                limit.add(memory.mappings)
                keeper = ResidentKeeper(limit)
                keeper.start()
                try:
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
        limit: ResidentLimit,
    ) -> MappedFigure:
        pairs = []
        # The first round brings the keys in use into memory.
        for _ in range(ROUNDS + 1):
            batches = [draw() for _ in range(self._batches)]
            pairs.append((_seconds(in_memory, batches), _seconds(mapped, batches)))
        measured, rows = pairs[1:], self._batches * BATCH_ROWS
        return MappedFigure(
            name,
            distribution,
            self._keys,
            in_memory.table.nbytes(),
            limit.limit_bytes,
            limit.highest_bytes,
            round(rows / statistics.median(memory[1] for memory, _ in measured)),
            round(rows / statistics.median(files[1] for _, files in measured)),
            round(statistics.median(memory[0] / files[0] for memory, files in measured), 3),
            round(statistics.median(memory[1] / files[1] for memory, files in measured), 3),
        )

    def _uniform(self) -> Array:
        return self._random.integers(0, self._keys, BATCH_ROWS)

    def _zipf(self) -> Callable[[], Array]:
        """The key of rank r occurs in proportion to 1 / r. Keys are numbered, and were entered, in an order in which they may
        come first: that of exponential times with these rates."""
        ranks = np.arange(1, self._keys + 1)
        sums = np.cumsum(1 / ranks)
        key_of_rank = np.argsort(np.argsort(self._random.exponential(size=self._keys) * ranks))

        def draw() -> Array:
            found: Array = key_of_rank[np.searchsorted(sums, self._random.random(BATCH_ROWS) * sums[-1])]
            return found

        return draw


def _seconds(bench: StateBench, batches: list[Array]) -> tuple[float, float]:
    """(CPU time of the process, elapsed time) of these updates."""
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for numbers in batches:
        bench.update(numbers)
    return time.process_time() - begun_cpu_s, time.perf_counter() - begun_s
