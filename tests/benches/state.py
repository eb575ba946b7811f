"""The measurement behind `main.py state`: a keyed table alone, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

BATCH_ROWS = 65_536
TTL_MS = 3_600_000
BYTES_PER_KEY = 140
"""What a key takes while the table and what it has saved are in memory: 130 were measured with 30,000,000 keys."""
_SPREAD = np.int64(-7_046_029_254_386_353_131)
"""Odd, so that it makes distinct keys of distinct numbers."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class StateFigure:
    """One operation over a table of `keys` keys. `entries` proves that it did its work: what the table has afterwards."""

    operation: str
    keys: int
    rows: int
    rows_per_cpu_s: int
    bytes_per_key: float
    entries: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class StateBench:
    """A table of BIGINT keys with a count and a time to live, filled and used in batches of random keys, then emptied."""

    def __init__(self, keys: int, rows: int) -> None:
        self._keys = keys
        self._clock = _Clock()
        self._random = np.random.default_rng(1)
        self.table, self._counts = self._empty_table()
        self._batches = max(1, rows // BATCH_ROWS)

    def _empty_table(self) -> tuple[KeyedTable, NumberColumn]:
        counts = NumberColumn("count", pa.int64())
        scope = StateScope(now_ms=self._clock)
        table = KeyedTable("bench", pa.schema([("key", pa.int64())]), [counts], scope, ttl_ms=TTL_MS)
        return table, counts

    def figures(self) -> Iterator[StateFigure]:
        yield self._figure("create", self._keys, self.fill())
        yield self._in_batches("find", self._some_keys, self.table.get_or_create)
        yield self._in_batches("write", self._some_slots, self._write)
        yield self._in_batches("gather", self._some_slots, self._counts.columns)
        begun_s = time.process_time()
        saved = self.table.save()
        yield self._figure("save", self._keys, time.process_time() - begun_s)
        yield self._figure("expire", self._keys, self._expire())
        self.table, self._counts = self._empty_table()
        begun_s = time.process_time()
        self.table.load(saved)
        yield self._figure("load", self._keys, time.process_time() - begun_s)

    def fill(self) -> float:
        """Enter every key; returns the CPU time that it took."""
        used_s = 0.0
        for start in range(0, self._keys, BATCH_ROWS):
            keys = _key_columns(np.arange(start, min(start + BATCH_ROWS, self._keys)))
            begun_s = time.process_time()
            slots, _ = self.table.get_or_create(keys)
            self.table.writing(slots)
            used_s += time.process_time() - begun_s
        return used_s

    def _expire(self) -> float:
        self._clock.now_ms += TTL_MS
        begun_s = time.process_time()
        self.table.expire()
        return time.process_time() - begun_s

    def _in_batches(self, operation: str, make: Callable[[], Any], run: Callable[[Any], Any]) -> StateFigure:
        used_s, rows = 0.0, 0
        for _ in range(self._batches):
            batch = make()
            begun_s = time.process_time()
            run(batch)
            used_s += time.process_time() - begun_s
            rows += len(batch[0]) if isinstance(batch, list) else len(batch)
        return self._figure(operation, rows, used_s)

    def _some_keys(self) -> list[pa.Array]:
        return _key_columns(self._random.integers(0, self._keys, BATCH_ROWS))

    def _some_slots(self) -> Array:
        """A batch of distinct slots, or all."""
        return self._random.choice(self._keys, min(BATCH_ROWS, self._keys), replace=False)

    def update(self, numbers: Array) -> None:
        """Count keys, which may occur several times."""
        slots, _ = self.table.get_or_create(_key_columns(numbers))
        self.table.writing(np.unique(slots))
        self.add(slots)

    def _write(self, slots: Array) -> None:
        self.table.writing(slots)
        self.add(slots)

    def add(self, slots: Array) -> None:
        """Count each slot once more."""
        add_into(self._counts.values, slots, _ONES[: len(slots)])

    def _figure(self, operation: str, rows: int, used_s: float) -> StateFigure:
        return StateFigure(
            operation,
            self._keys,
            rows,
            round(rows / max(used_s, 1e-9)),
            round(self.table.nbytes() / self._keys, 1),
            len(self.table),
        )


_ONES = np.ones(BATCH_ROWS, dtype=np.int64)


def _key_columns(numbers: Array) -> list[pa.Array]:
    return [pa.array(numbers * _SPREAD)]


def needed_bytes(keys: int) -> int:
    """Memory that the measurement of a table of `keys` keys takes at most."""
    return keys * BYTES_PER_KEY


def free_bytes() -> int:
    """Memory that processes can have without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)
