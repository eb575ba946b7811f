"""Files of a table as batches in the layout of its source: decoded columns, values of directories, metadata."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_type
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import partition_values
from sqlstream.runtime.connectors.files.rejected_rows import origin_of
from sqlstream.runtime.connectors.rejected_rows import RejectedRows
from sqlstream.runtime.formats import count_events, event_demand, format_of, format_options, skips_errors
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.op_column import OpColumnReader
from sqlstream.runtime.formats.text_values import parse_text
from sqlstream.runtime.host.file_systems import is_in_store
from sqlstream.runtime.update_pairs import whole_updates
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.changelog_options import ChangelogOptions, with_op_column
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import FileStatus
from sqlstream.spi.format import (
    UNKNOWN_VALUES,
    FileReader,
    ReadRequest,
    event_column,
)

FIRST_BYTES = 1 << 16
"""Bytes of text decoded at once to find a file's first rows: a few hundred rows, at hardly more cost than opening the file."""

SIDE_BY_SIDE_BYTES = 1 << 20
"""Bytes of text decoded at once when several files are open: the decoded block of each is in memory, and one of 4 MiB takes
17 MB."""


class TableFiles:
    """Opens files of the table `spec`, whose directories below `root` may stand for columns. No state but the file of
    rejected rows, which `close` closes."""

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, root: str, rejected: RejectedRows
    ) -> None:
        self._spec = spec
        self._context = context
        self._constants = FileConstants(spec, root)
        self._rejected = rejected
        self._format = format_of(spec.options["format"])
        self._format_options = format_options(spec.options["format"], spec.options)
        self._changes = ChangelogOptions.of(spec.options)
        self._demand = event_demand(spec, self._format)

    @property
    def holds_changes(self) -> bool:
        """Whether the rows are changes, so that their order counts."""
        mode = self._format.descriptor.source_mode
        return not (mode if self._changes.modes is None else self._changes.modes[0]).is_insert_only

    @property
    def _has_kinds(self) -> bool:
        """Whether the rows say what they do, and are no changes by their values alone."""
        return self.holds_changes and (self._changes.modes is None or self._changes.op_column is not None)

    def close(self) -> None:
        self._rejected.close()

    def open(
        self,
        status: FileStatus,
        skip_rows: int,
        size_max: int = -1,
        is_beside_others: bool = False,
        begin: int = 0,
    ) -> tuple[FileReader, Iterator[pa.RecordBatch]]:
        """The rows after the first `skip_rows`, from the byte `begin` on; of a text file only the first `size_max` bytes of
        these, unless that is negative, and in small blocks when other files are open too."""
        stream = self._context.files.open_read(status.path)
        if begin:
            stream.seek(begin)
        if self._format.descriptor.is_text and size_max >= 0:
            stream = FirstBytes(stream, size_max)  # type: ignore[assignment]
        block_bytes = SIDE_BY_SIDE_BYTES if is_beside_others else None
        constants = self._constants.of(status)
        columns = tuple(c for c in self._spec.columns if c not in constants)
        reader = self._reader(stream, status.path, columns, self._context.batch_rows, skip_rows, block_bytes)
        batches = self._decode(status.path, reader, stream, constants, begin)
        if self._has_kinds:
            batches = whole_updates(batches, self._spec.change_key, are_versions=self._spec.are_versions)
        return reader, batches

    def first_rows(self, status: FileStatus, places: frozenset[int], rows: int) -> tuple[list[Any], int]:
        """At most `rows` of the file's first, with the columns at `places` of the source's layout and None for the others.

        Rejected rows are skipped without a report: the reader of all rows reports them. It must find the same rows
        undecodable, so every column is decoded, but for formats that know no undecodable rows.
        """
        constants = self._constants.of(status)
        wanted = [name if i in places else None for i, name in enumerate(self._names())]
        decoded = self._spec.columns if self._format.descriptor.is_text else wanted
        columns = tuple(name for name in decoded if name is not None and name not in constants)
        stream = self._context.files.open_read(status.path)
        reader = self._reader(stream, status.path, columns, rows, 0, FIRST_BYTES)
        try:
            for batch, _ in reader.batches():
                if batch.num_rows:
                    batch = batch.slice(0, rows)
                    return [self._column(name, batch, constants) for name in wanted], batch.num_rows
        finally:
            reader.close()
        return [], 0

    def _reader(
        self,
        stream: BinaryIO,
        path: str,
        columns: tuple[str, ...],
        batch_rows: int,
        skip_rows: int,
        block_bytes: int | None,
    ) -> FileReader:
        in_directories = self._constants.in_directories(path)
        in_file = Schema(tuple(f for f in self._spec.schema.fields if f.name not in in_directories))
        op_column = self._changes.op_column
        request = ReadRequest(
            stream,
            path,
            in_file,
            columns,
            self._format_options,
            batch_rows,
            skip_rows,
            block_bytes,
            self._demand,
        )
        if op_column is None:
            return self._format.reader(request)
        # Rows are counted behind the reader of the operations, which may reject some.
        rows = self._format.reader(
            dataclasses.replace(
                request,
                schema=with_op_column(in_file, op_column),
                columns=(op_column, *columns),
                skip_rows=0,
            )
        )
        return OpColumnReader(rows, stream, path, skip_rows, skips_errors(self._format_options))

    def _decode(
        self,
        path: str,
        reader: FileReader,
        stream: BinaryIO,
        constants: dict[str, pa.Scalar],
        position: int,
    ) -> Iterator[pa.RecordBatch]:
        """`position`: the byte of the file where the rows begin."""
        for batch, rejected in reader.batches():
            self._context.count("numBytesIn", max(0, stream.tell() - position))
            position = max(position, stream.tell())
            count_events(reader, self._context.count)
            self._rejected.keep(origin_of(path), rejected)
            yield self._with_constants(batch, constants)

    def _names(self) -> list[str]:
        of_events = {f.name for f in self._demand.metadata}
        keys = (f.name for f in self._spec.metadata)
        return [*self._spec.columns, *(event_column(k) if k in of_events else k for k in keys)]

    def _with_constants(self, batch: pa.RecordBatch, constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
        names = self._names()
        if self._demand.marked:
            names.append(UNKNOWN_VALUES)
        if is_changelog(batch):
            names.append(ROW_KIND_COLUMN)
        if not names:
            return empty_columns(batch.num_rows)
        columns = [self._column(name, batch, constants) for name in names]
        return pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def _column(name: str | None, batch: pa.RecordBatch, constants: dict[str, pa.Scalar]) -> Any:
        if name is None:
            return None
        return pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name)


# The beginning of a text file that may be growing.


class FirstBytes:
    """Ends after `size` bytes, however much has been added to the file since it was found complete. It has the methods that
    readers of text call; no state but the stream's and how many bytes are left."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

    def readinto(self, room: memoryview) -> int:
        size = int(self._stream.readinto(room[: self._left]))  # type: ignore[attr-defined]
        self._left -= size
        return size

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        self._stream.close()


# Columns that have one value in all rows of a file: those that its directories stand for, and its metadata.


class FileConstants:
    """What paths say of the columns of the table `spec`, whose directories below `root` may stand for columns. No state."""

    def __init__(self, spec: SourceSpec, root: str) -> None:
        self._spec = spec
        self._root = root

    def in_directories(self, path: str) -> dict[str, str]:
        """The columns that stand in the directories of a file, with their texts: the file itself does not have them."""
        found = partition_values(path, self._root)
        return {name: value for name, value in found.items() if name in self._spec.schema.names}

    def of(self, status: FileStatus) -> dict[str, pa.Scalar]:
        """The values of a file by column name or metadata key. UserError SS5011 for a directory that is no value of its
        column."""
        in_directories = self._partition_scalars(self.in_directories(status.path), status.path)
        return {**in_directories, **_metadata(self._spec.metadata, status)}

    def _partition_scalars(self, values: dict[str, str], path: str) -> dict[str, pa.Scalar]:
        default = FileOptions.of(self._spec.options).default_partition_name
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


def _metadata(fields: tuple[Field, ...], status: FileStatus) -> dict[str, pa.Scalar]:
    path = status.path if is_in_store(status.path) else os.path.abspath(status.path)
    values = {
        "file.path": path,
        "file.name": os.path.basename(path),
        "file.size": status.size,
        "file.modification-time": status.modified_ms,
    }
    return {f.name: _metadata_scalar(values[f.name], f) for f in fields if f.name in values}


def _metadata_scalar(value: Any, field: Field) -> pa.Scalar:
    natural = pa.timestamp("ms", "UTC") if field.name == "file.modification-time" else None
    return pa.scalar(value, natural).cast(to_arrow_type(field.type))
