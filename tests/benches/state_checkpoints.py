"""The measurement behind `main.py state --checkpoints`: a keyed table whose state is saved while it is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benches.state import BATCH_ROWS, StateBench

from sqlstream.runtime.state.operator_state import PendingTables
from sqlstream.runtime.state.snapshots.snapshot import SavedTables

_MIN_BATCHES = 50
_HOT_RATIO = 100
"""Hot keys are one in so many."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CheckpointFigure:
    """One checkpoint of a table of `keys` keys, while random ones of `written_keys` are written in batches of 65,536.

    `stopped_ms` is how long the operator's thread stood still when it began. `mark_ms_p50` and `mark_ms_p99` are how long a batch
    took to be marked in the interval before it, `collecting_ms_p50` and `collecting_ms_p99` while it was collected."""

    keys: int
    written_keys: int
    is_increment: bool
    saved_rows: int
    saved_bytes: int
    stopped_ms: float
    mark_ms_p50: float
    mark_ms_p99: float
    collect_s: float
    collecting_ms_p50: float
    collecting_ms_p99: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class CheckpointBench:
    """A table of BIGINT keys with a count and a time to live, of which another thread collects snapshots."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._bench = StateBench(keys, BATCH_ROWS)
        self._random = np.random.default_rng(1)
        self._last_id = 0

    def figures(self) -> Iterator[CheckpointFigure]:
        """The first checkpoint is whole; then hot keys are written, then all, then hot ones again."""
        self._bench.fill()
        hot = max(1, self._keys // _HOT_RATIO)
        for written_keys in (hot, hot, self._keys, hot, hot):
            yield self._checkpoint(written_keys)

    def _checkpoint(self, written_keys: int) -> CheckpointFigure:
        marks = [self._write(written_keys) for _ in range(max(_MIN_BATCHES, 3 * written_keys // BATCH_ROWS))]
        self._last_id += 1
        begun_s = time.perf_counter()
        pending = self._bench.table.begin(self._last_id, is_full=False)
        stopped_s = time.perf_counter() - begun_s
        collector = _Collector(pending)
        collector.start()
        collecting = [self._write(written_keys)]
        while collector.is_alive():
            collecting.append(self._write(written_keys))
        self._bench.table.completed(self._last_id)
        (rows,) = collector.saved.keyed.values()
        return CheckpointFigure(
            self._keys,
            written_keys,
            bool(collector.saved.increments),
            rows.num_rows,
            rows.nbytes,
            _ms(stopped_s),
            *_percentiles(marks),
            round(collector.used_s, 6),
            *_percentiles(collecting),
        )

    def _write(self, written_keys: int) -> float:
        """How long the table took before the batch could be written."""
        slots = self._random.integers(0, written_keys, BATCH_ROWS)
        begun_s = time.perf_counter()
        self._bench.table.writing(slots)
        used_s = time.perf_counter() - begun_s
        self._bench.add(slots)
        return used_s


class _Collector(threading.Thread):
    def __init__(self, pending: PendingTables) -> None:
        super().__init__(name="collect", daemon=True)
        self._pending = pending
        self.saved = SavedTables()
        self.used_s = 0.0

    def run(self) -> None:
        begun_s = time.perf_counter()
        self.saved = self._pending.collect()
        self.used_s = time.perf_counter() - begun_s


def _percentiles(times_s: list[float]) -> tuple[float, float]:
    return _ms(float(np.percentile(times_s, 50))), _ms(float(np.percentile(times_s, 99)))


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
