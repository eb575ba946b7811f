"""Literal rows as a source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.schema import Schema
from sqlstream.specs import ValuesSpec
from sqlstream.spi.connector import SourceStatus


class ValuesReader:
    """Returns all rows of a VALUES clause in subtask 0; other subtasks have none. `splits` are snapshots of the readers before,
    None without any. State: the batches not yet polled; a snapshot has the number of the rows that were."""

    def __init__(
        self,
        spec: ValuesSpec,
        schema: Schema,
        subtask: int,
        batch_rows: int,
        splits: Iterable[dict[str, Any]] | None = None,
    ) -> None:
        from sqlstream.runtime.evaluate.values import values_batches

        self._is_first = subtask == 0
        self._polled = sum(split["rows"] for split in splits or ()) if self._is_first else 0
        left = msgspec.structs.replace(spec, rows=spec.rows[self._polled :])
        self._batches: deque[pa.RecordBatch] = deque(
            values_batches(left, schema, batch_rows) if self._is_first else ()
        )

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._batches:
            return SourceStatus.END
        self._polled += self._batches[0].num_rows
        return self._batches.popleft()

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"rows": self._polled}] if self._is_first else []

    def close(self) -> None:
        self._batches.clear()
