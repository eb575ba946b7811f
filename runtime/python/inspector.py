"""Inspects Python functions in this process: for sessions whose user is the one who runs it."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.function_ref import InspectedFunction
from sqlstream.runtime.python.environment import use_files
from sqlstream.runtime.python.loading import load_function
from sqlstream.runtime.python.packing import large_archives, pack, split_paths
from sqlstream.specs.source import ANSWER, InspectFunctionSpec, InspectionAnswer
from sqlstream.spi.connector import SourceStatus


class LocalFunctionInspector:
    """Implements `FunctionInspector`. `python_files` is the setting, and `files` the file system that may be read."""

    def __init__(self, python_files: str, files: Any) -> None:
        self._paths = split_paths(python_files)
        self._files = files

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        paths = (*files, *self._paths)
        large = large_archives(paths, self._files)
        small = tuple(path for path in paths if path not in large)
        use_files(pack(small, self._files), large=[self._files.handed_on(path) for path in large])
        try:
            return load_function(module, attribute, "SS2031").declared
        finally:
            use_files(None)


# Imports a Python function as the source of a task.


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
