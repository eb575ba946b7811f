"""Reads the files of one subtask, one behind the other."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.connectors.file_paths import (
    find_files,
    local_path,
    partition_values,
    root_of,
)
from runtime.connectors.rejected_rows import RejectedRows, rejected_rows_directory
from runtime.formats import format_of, format_options
from runtime.formats.row_count import empty_columns
from runtime.formats.text_values import parse_text
from sqlstream.arrow import to_arrow_type
from sqlstream.config import parse_duration_ms
from sqlstream.errors import UserError
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.spi.format import FileReader

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"


@dataclass
class FileSplit:
    """A file of this subtask; `rows` have been emitted, and `is_done` says that there are no more."""

    path: str
    rows: int = 0
    is_done: bool = False

    def snapshot(self) -> dict[str, Any]:
        return {"path": self.path, "rows": self.rows, "is_done": self.is_done}


class FileSourceReader:
    """Emit batches of exactly `batch_rows` rows, the last one of all files (or of those found so far) excepted.

    State: a position a file; the decoded rows that do not fill a batch. With a monitor interval, files that were read are
    remembered for good, so that none is read twice; otherwise they are forgotten.
    """

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> None:
        self._spec = spec
        self._context = context
        self._path = local_path(spec.options["path"])
        self._root = self._path_root()
        self._pattern = spec.options.get("source.path.regex-pattern", "")
        interval = spec.options.get("source.monitor-interval")
        self._interval_ms = parse_duration_ms(interval) if interval is not None else None
        self._rejected = RejectedRows(rejected_rows_directory(spec), context)
        self._limit = spec.limit
        self._pending: deque[tuple[FileSplit, pa.RecordBatch]] = deque()
        self._pending_rows = 0
        self._open: tuple[FileSplit, FileReader, Iterator[pa.RecordBatch]] | None = None
        self._splits: dict[str, FileSplit] = {}
        self._waiting: deque[FileSplit] = deque()
        self._scanned_ms = context.now_ms()
        for split in self._discover() if splits is None else [FileSplit(**s) for s in splits]:
            self._add(split)

    def _path_root(self) -> str:
        status = self._context.files.status(root_of(self._path))
        is_file = status is not None and not status.is_directory
        return os.path.dirname(self._path) or "." if is_file else root_of(self._path)

    def poll(self) -> pa.RecordBatch | SourceStatus:
        wanted = self._context.batch_rows
        if self._limit >= 0:
            wanted = min(wanted, self._limit)
            if wanted == 0:
                return SourceStatus.END
        while self._pending_rows < wanted and self._read_more():
            pass
        if self._pending_rows:
            return self._take(min(wanted, self._pending_rows))
        return SourceStatus.END if self._interval_ms is None else SourceStatus.NOTHING_YET

    def snapshot(self) -> list[dict[str, Any]]:
        return [split.snapshot() for split in self._splits.values()]

    def close(self) -> None:
        self._close_file()
        self._rejected.close()

    # --- which files --------------------------------------------------------------------------------------------------

    def _discover(self) -> list[FileSplit]:
        found = self._find()
        mine, readers = self._context.subtask, self._context.parallelism
        if self._interval_ms is not None:
            # Places in the list change as files come; what a path hashes to does not.
            return [FileSplit(path) for path in found if zlib.crc32(path.encode()) % readers == mine]
        return [FileSplit(path) for path in found[mine::readers]]

    def _find(self) -> list[str]:
        is_monitored = self._interval_ms is not None
        found = find_files(self._path, self._pattern, self._context.files, may_be_empty=is_monitored)
        return [status.path for status in found]

    def _add(self, split: FileSplit) -> None:
        self._splits[split.path] = split
        if not split.is_done:
            self._waiting.append(split)

    def _rescan(self) -> bool:
        """Look for further files when it is time; whether there are any."""
        now_ms = self._context.now_ms()
        if self._interval_ms is None or now_ms - self._scanned_ms < self._interval_ms:
            return False
        self._scanned_ms = now_ms
        for split in self._discover():
            if split.path not in self._splits:
                self._add(split)
        return bool(self._waiting)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _read_more(self) -> bool:
        """Decode a piece of the present file, or open the next one; false when there is none."""
        if self._open is None:
            if not self._waiting and not self._rescan():
                return False
            self._open_file(self._waiting.popleft())
        assert self._open is not None
        split, _, batches = self._open
        batch = next(batches, None)
        if batch is None:
            self._close_file()
            self._finish_if_emitted(split)
        elif batch.num_rows:
            self._pending.append((split, batch))
            self._pending_rows += batch.num_rows
        return True

    def _open_file(self, split: FileSplit) -> None:
        spec, identifier = self._spec, self._spec.options["format"]
        status = self._context.files.status(split.path)
        if status is None:
            raise UserError(
                "SS5002",
                f'the file "{split.path}" has vanished while table "{spec.table}" was read',
                hint="run the statement again",
            )
        found = partition_values(split.path, self._root)
        partitions = {name: value for name, value in found.items() if name in spec.schema.names}
        in_file = Schema(tuple(f for f in spec.schema.fields if f.name not in partitions))
        reader = format_of(identifier).reader(
            stream := self._context.files.open_read(split.path),
            split.path,
            in_file,
            tuple(c for c in spec.columns if c not in partitions),
            format_options(identifier, spec.options),
            self._context.batch_rows,
            split.rows,
        )
        constants = {**self._partition_scalars(partitions, split.path), **_metadata(spec.metadata, status)}
        self._open = (split, reader, self._decode(split, reader, stream, constants))

    def _decode(
        self, split: FileSplit, reader: FileReader, stream: Any, constants: dict[str, pa.Scalar]
    ) -> Iterator[pa.RecordBatch]:
        position = 0
        for batch, rejected in reader.batches():
            self._context.count("numBytesIn", max(0, stream.tell() - position))
            position = max(position, stream.tell())
            self._rejected.keep(split.path, rejected)
            yield self._with_constants(batch, constants)

    def _with_constants(self, batch: pa.RecordBatch, constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
        names = [*self._spec.columns, *(f.name for f in self._spec.metadata)]
        if not names:
            return empty_columns(batch.num_rows)
        columns = [
            pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _partition_scalars(self, values: dict[str, str], path: str) -> dict[str, pa.Scalar]:
        default = self._spec.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
        schema = self._spec.schema
        scalars = {}
        for name, text in values.items():
            t = schema.types[schema.index_of(name)]
            try:
                scalars[name] = parse_text(pa.array([None if text == default else text], pa.string()), t)[0]
            except pa.ArrowInvalid as error:
                raise UserError(
                    "SS5011",
                    f'the directory "{name}={text}" of "{path}" is no {t.with_nullable(True)}',
                    hint=f'declare column "{name}" with a type that fits',
                ) from error
        return scalars

    def _take(self, rows: int) -> pa.RecordBatch:
        """The first pending rows as one batch; their splits are that much further."""
        pieces, missing = [], rows
        while missing:
            split, batch = self._pending.popleft()
            piece = batch.slice(0, missing)
            if piece.num_rows < batch.num_rows:
                self._pending.appendleft((split, batch.slice(piece.num_rows)))
            split.rows += piece.num_rows
            missing -= piece.num_rows
            pieces.append(piece)
            self._finish_if_emitted(split)
        self._pending_rows -= rows
        if self._limit >= 0:
            self._limit -= rows
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_batches(pieces) if pieces[0].num_columns else empty_columns(rows)

    def _finish_if_emitted(self, split: FileSplit) -> None:
        is_read = self._open is None or self._open[0] is not split
        if not is_read or any(pending is split for pending, _ in self._pending):
            return
        if self._interval_ms is None:
            self._splits.pop(split.path, None)
        else:
            split.is_done = True

    def _close_file(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def _metadata(fields: tuple[Field, ...], status: Any) -> dict[str, pa.Scalar]:
    path = os.path.abspath(status.path)
    values = {
        "file.path": path,
        "file.name": os.path.basename(path),
        "file.size": status.size,
        "file.modification-time": status.modified_ms,
    }
    return {f.name: _metadata_scalar(values[f.name], f) for f in fields}


def _metadata_scalar(value: Any, field: Field) -> pa.Scalar:
    natural = pa.timestamp("ms", "UTC") if field.name == "file.modification-time" else None
    return pa.scalar(value, natural).cast(to_arrow_type(field.type))
