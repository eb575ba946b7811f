"""Writes of several rows of a key the last one, after a while."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import SinkWriter


class LastRowsWriter:
    """Hands another writer the last row of each key: with the first of `rows_max` rows, of `interval_ms` since the first row, and
    of a checkpoint.

    `keys` makes the key of each row, which says what is one key. State: the rows that are held, and when the first one came."""

    def __init__(
        self,
        writer: SinkWriter,
        keys: Callable[[pa.RecordBatch], pa.Array],
        buffer: tuple[int, int],
        now_ms: Callable[[], int],
    ) -> None:
        self._writer, self._keys, self._now_ms = writer, keys, now_ms
        self._rows_max, self._interval_ms = buffer
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._since_ms = 0

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            taken = batch.slice(0, self._rows_max - self._rows)
            batch = batch.slice(taken.num_rows)
            if not self._held:
                self._since_ms = self._now_ms()
            self._held.append(taken)
            self._rows += taken.num_rows
            if self._rows == self._rows_max:
                self.flush()

    def next_flush_ms(self) -> int | None:
        return self._since_ms + self._interval_ms if self._held else None

    def flush(self) -> None:
        if not self._held:
            return
        rows = pa.concat_batches(self._held)
        self._held, self._rows = [], 0
        self._writer.write(rows.take(pa.array(last_places(self._keys(rows)))))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self.flush()
        return self._writer.prepare_commit(checkpoint_id)

    def abort(self) -> None:
        self._writer.abort()


def last_places(keys: pa.Array) -> np.ndarray:
    """Where each key stands last, in their order.

    >>> last_places(pa.array([b"a", b"b", b"a", b"c"]))
    array([1, 2, 3])
    """
    found = keys.dictionary_encode(null_encoding="encode")
    last = np.zeros(len(found.dictionary), dtype=np.int64)
    np.maximum.at(last, found.indices.to_numpy(), np.arange(len(keys)))
    return np.sort(last)
