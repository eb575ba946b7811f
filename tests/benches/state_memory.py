"""The measurement behind `main.py state --mapped`: keyed state in files, of which a quarter may be mapped."""

from __future__ import annotations

import contextlib
import math
import statistics
import tempfile
import threading
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
"""In each the mapped table and the one in memory take the same batches, one after the other."""
ROUND_S = 3.0
"""Batches that the mapped table has not begun by then are left out of a round."""
SAMPLE_INTERVAL_S = 0.005
"""How often it is looked how much is mapped."""

DROPS: dict[str, Callable[[Mapping, int, int], None]] = {"cached": Mapping.drop, "disk": Mapping.write_out}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MappedFigure:
    """A table of `keys` keys and `state_bytes` bytes, of which `limit_bytes` may be mapped; `mapped_bytes` were in the mean
    of the time in which it was updated, and `highest_bytes` at most.
    `cpu` and `wall` are the speed of mapped state as a part of that in memory, by CPU time and by elapsed time: medians over the
    pairs of runs. Rows are per second of elapsed time."""

    pages: str
    distribution: str
    keys: int
    state_bytes: int
    limit_bytes: int
    mapped_bytes: int
    highest_bytes: int
    memory_rows_per_s: int
    mapped_rows_per_s: int
    cpu: float
    wall: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Round:
    rows: int
    mapped_cpu_s: float
    mapped_s: float
    memory_cpu_s: float
    memory_s: float


class _Samples:
    """How many bytes of state are mapped, looked at by a thread. What is mapped when it is made is no state."""

    def __init__(self, pages: ProcessPages) -> None:
        self._pages = pages
        self._others_bytes = pages.file_bytes()
        self.found: list[int] = []

    def clear(self) -> None:
        self.found = []

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._take, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _take(self, ended: threading.Event) -> None:
        self.found.append(self._pages.file_bytes() - self._others_bytes)
        while not ended.wait(SAMPLE_INTERVAL_S):
            self.found.append(self._pages.file_bytes() - self._others_bytes)


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
        samples = _Samples(pages)
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
                        rounds = self._rounds(draw, in_memory, mapped, samples)
                        yield self._figure(
                            name, distribution, limit_bytes, rounds, in_memory.table.nbytes(), samples
                        )
                finally:
                    keeper.stop()
        finally:
            pages.close()

    def _rounds(
        self, draw: Callable[[], Array], in_memory: StateBench, mapped: StateBench, samples: _Samples
    ) -> list[_Round]:
        found = []
        samples.clear()
        # The first round brings the keys in use into memory.
        for _ in range(ROUNDS + 1):
            batches = [draw() for _ in range(self._batches)]
            with samples.taken():
                count, *in_files = _update(mapped, batches, ROUND_S)
            found.append(_Round(count * BATCH_ROWS, *in_files, *_update(in_memory, batches[:count])[1:]))
        return found[1:]

    def _figure(
        self,
        name: str,
        distribution: str,
        limit_bytes: int,
        rounds: list[_Round],
        state_bytes: int,
        samples: _Samples,
    ) -> MappedFigure:
        return MappedFigure(
            name,
            distribution,
            self._keys,
            state_bytes,
            limit_bytes,
            round(statistics.mean(samples.found)),
            max(samples.found),
            round(statistics.median(r.rows / r.memory_s for r in rounds)),
            round(statistics.median(r.rows / r.mapped_s for r in rounds)),
            round(statistics.median(r.memory_cpu_s / r.mapped_cpu_s for r in rounds), 3),
            round(statistics.median(r.memory_s / r.mapped_s for r in rounds), 3),
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


def _update(bench: StateBench, batches: list[Array], limit_s: float = math.inf) -> tuple[int, float, float]:
    """(how many of these updates were begun within the limit, CPU time of the process, elapsed time)."""
    begun_s, begun_cpu_s, count = time.perf_counter(), time.process_time(), 0
    for numbers in batches:
        if count and time.perf_counter() - begun_s > limit_s:
            break
        bench.update(numbers)
        count += 1
    return count, time.process_time() - begun_cpu_s, time.perf_counter() - begun_s
