"""Imports a Python function as the source of a task."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.runtime.python.loading import load_function
from sqlstream.specs.infer_table import ANSWER
from sqlstream.specs.inspect_function import InspectFunctionSpec, InspectionAnswer
from sqlstream.spi.connector import SourceStatus


class InspectionReader:
    """Implements `SourceReader` with one row. State: whether the row was read."""

    def __init__(self, spec: InspectFunctionSpec) -> None:
        self._spec = spec
        self._is_read = False

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._is_read:
            return SourceStatus.END
        self._is_read = True
        text = msgspec.json.encode(self._answer()).decode()
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], schema=to_arrow_schema(ANSWER))

    def _answer(self) -> InspectionAnswer:
        try:
            found = load_function(self._spec.module, self._spec.attribute, "SS2031")
        except SqlStreamError as error:
            # It belongs to a statement that is still planned.
            return InspectionAnswer(error=ErrorInfo.of(error))
        return InspectionAnswer(found.declared)

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        """Nothing is open."""
