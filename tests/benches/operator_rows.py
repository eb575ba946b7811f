"""The rows that `main.py operators` feeds: inserts, or updates of a table of constant size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from benches.operator_families import DIMENSION, STREAM, Family

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.schema import Schema

Array = np.ndarray[Any, Any]
Fed = tuple[pa.RecordBatch, int, int | None]
"""A batch, the input that it goes to, and the watermark behind it."""

SPAN_MS = 10_000
DENSE_ROWS = 1_000_000
LIVE_ROWS = 200_000
TEXTS = 1_000
ZIPF_EXPONENT = 1.1
_VALUES = 1_000_000


class Rows:
    """Draws batches of random rows, the same ones for each measurement.

    An input of changes is a table of twice as many rows as there are keys, at least 200,000, in which each batch updates random
    rows: -U of the old row, +U of the new one, whose key stays. State: that table, and how many rows were drawn."""

    def __init__(
        self,
        schemas: tuple[Schema, ...],
        modes: tuple[ChangelogMode, ...],
        family: Family,
        keys: int,
        is_skewed: bool,
    ) -> None:
        self._random = np.random.default_rng(1)
        self._schemas, self._modes, self._family, self._keys = schemas, modes, family, keys
        self._shares = np.cumsum(1.0 / np.arange(1, keys + 1) ** ZIPF_EXPONENT) if is_skewed else None
        self._rows_per_span = keys if family.key_interval else max(4 * keys, DENSE_ROWS)
        if not family.has_keys:
            self._rows_per_span = SPAN_MS // 1_000
        self._drawn = 0
        self._texts = pa.array([f"text {n}" for n in range(TEXTS)])
        live = 0 if modes[0].is_insert_only else max(2 * keys, LIVE_ROWS)
        self._live_keys = self._some_keys(live)
        self._live_values = self._random.integers(0, _VALUES, live)

    def fill(self, size: int) -> Iterator[Fed]:
        """What comes before the measurement."""
        if len(self._schemas) == 2:
            yield from self._inserts(1, np.arange(self._keys), size)
        if self._modes[0].is_insert_only:
            yield from self._inserts(0, np.tile(np.arange(self._keys), self._family.rows_per_key), size)
            return
        for start in range(0, len(self._live_keys), size):
            ids = np.arange(start, min(start + size, len(self._live_keys)))
            kinds = np.full(len(ids), RowKind.INSERT, dtype=np.int8)
            yield self._batch(0, ids, self._live_keys[ids], self._live_values[ids], ids, kinds), 0, None

    def round(self, size: int) -> Iterator[Fed]:
        """One batch of `size` rows for each input that is measured."""
        if not self._modes[0].is_insert_only:
            yield self._updates(size), 0, None
            return
        if self._family.other_side == STREAM:
            # The watermark of the task is the one of the input that is behind.
            drawn = self._drawn
            yield self._insert(1, self._some_keys(size)), 1, None
            self._drawn = drawn
        yield self._insert(0, self._some_keys(size)), 0, self._now_ms()

    def _inserts(self, index: int, keys: Array, size: int) -> Iterator[Fed]:
        self._random.shuffle(keys)
        for start in range(0, len(keys), size):
            batch = self._insert(index, keys[start : start + size])
            yield batch, index, None if self._family.other_side == DIMENSION else self._now_ms()

    def _insert(self, index: int, keys: Array) -> pa.RecordBatch:
        ids = self._drawn + np.arange(len(keys))
        self._drawn += len(keys)
        return self._batch(index, ids, keys, self._random.integers(0, _VALUES, len(keys)), ids, None)

    def _updates(self, size: int) -> pa.RecordBatch:
        """Distinct rows of the table, each with the value that it had and the one that it gets."""
        count = size // 2
        changed = np.unique(self._random.integers(0, len(self._live_keys), count))
        self._random.shuffle(changed)
        values = np.empty(2 * len(changed), dtype=np.int64)
        values[0::2] = self._live_values[changed]
        values[1::2] = self._random.integers(0, _VALUES, len(changed))
        self._live_values[changed] = values[1::2]
        ids = np.repeat(changed, 2)
        kinds = np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], dtype=np.int8), len(changed))
        return self._batch(0, ids, self._live_keys[ids], values, ids, kinds)

    def _batch(
        self, index: int, ids: Array, keys: Array, values: Array, times: Array, kinds: Array | None
    ) -> pa.RecordBatch:
        columns = {
            "id": pa.array(ids),
            "k": pa.array(keys),
            "v": pa.array(values),
            "s": self._texts.take(pa.array(values % TEXTS)),
            "ts": pa.array(times * SPAN_MS // self._rows_per_span).cast(pa.timestamp("ms")),
        }
        schema = to_arrow_schema(self._schemas[index], self._modes[index])
        arrays = [
            columns[name].cast(field.type)
            for name, field in zip(self._schemas[index].names, schema, strict=False)
        ]
        if kinds is not None:
            arrays.append(pa.array(kinds))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _some_keys(self, rows: int) -> Array:
        """Uniform, or by Zipf's law."""
        if self._shares is None:
            return self._random.integers(0, self._keys, rows)
        return np.searchsorted(self._shares, self._random.random(rows) * self._shares[-1])

    def _now_ms(self) -> int:
        return int(self._drawn * SPAN_MS // self._rows_per_span)
