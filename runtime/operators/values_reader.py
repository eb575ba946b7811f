"""Literal rows as a source."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa

from sqlstream.schema import Schema
from sqlstream.specs import ValuesSpec
from sqlstream.spi.connector import SourceStatus


class ValuesReader:
    """Returns all rows of a VALUES clause in subtask 0; other subtasks have none. State: the batches not yet
    polled."""

    def __init__(self, spec: ValuesSpec, schema: Schema, subtask: int, batch_rows: int) -> None:
        from runtime.evaluate.values import values_batches

        self._batches: deque[pa.RecordBatch] = deque(
            values_batches(spec, schema, batch_rows) if subtask == 0 else ()
        )

    def poll(self) -> pa.RecordBatch | SourceStatus:
        return self._batches.popleft() if self._batches else SourceStatus.END

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"batches_left": len(self._batches)}]

    def close(self) -> None:
        self._batches.clear()
