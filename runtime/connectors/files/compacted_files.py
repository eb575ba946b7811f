"""Merges the changes of a checkpoint into files that hold the present rows: those of a key replace the ones that are there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.runtime.connectors.files.table_log import STAGED, Move, staging_directory
from sqlstream.runtime.formats import format_of, format_options
from sqlstream.runtime.formats.op_column import OpColumnReader, OpColumnWriter
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.changelog_options import with_op_column
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files
from sqlstream.spi.format import FileWriter, ReadRequest

_STAGED = "parquet"
"""The format of staged changes, in which every type and NULL is what it was."""
_OP = "$op"
_BATCH_ROWS = 1 << 16


def change_writer(stream: Any, schema: Schema) -> FileWriter:
    """Writes the changes of a checkpoint, which only its commit reads; `schema` has the columns of the files."""
    writer = format_of(_STAGED).writer(stream, with_op_column(schema, _OP), {"compression": "LZ4"})
    return OpColumnWriter(writer, _OP)


class Merger:
    """Merges changes into the files of one partition after the other. In memory are the changes, not the files."""

    def __init__(self, spec: SinkSpec, schema: Schema, path: str, first: Committable, files: Files) -> None:
        """`schema` has the columns of the files; `first` of the committables names the new ones."""
        self._schema = schema
        names = [spec.schema.names[key] for key in spec.primary_key]
        self._keys = [schema.index_of(name) for name in names if name in schema.names]
        self._arrow = to_arrow_schema(schema)
        self._format = format_of(spec.options["format"])
        options = format_options(spec.options["format"], spec.options)
        # A row that cannot be decoded fails the commit: left out, it would be gone for good.
        self._options = {key: value for key, value in options.items() if key != "ignore-parse-errors"}
        self._path, self._first, self._files = path, first, files

    def merge(self, number: int, directory: str, changes: list[str], present: list[str]) -> Move | None:
        """The file that takes the place of the present ones; None when no row is left."""
        rows, is_deletion, index = self._last_changes(changes)
        first = self._first
        name = f"part-{first.writer_id}-{first.checkpoint_id}-{number}{self._format.descriptor.file_suffix}"
        hidden = os.path.join(staging_directory(self._path, first.job_id, first.writer_id), name + STAGED)
        written = 0
        stream = self._files.open_write(hidden)
        try:
            with stream:
                writer = self._format.writer(stream, self._schema, self._options)
                for batch in self._unchanged(present, index):
                    written += batch.num_rows
                    writer.write(batch)
                added = rows.filter(pa.array(~is_deletion))
                if added.num_rows:
                    written += added.num_rows
                    writer.write(added)
                writer.close()
                stream.flush()
                self._files.sync(stream)
        except OSError as error:
            raise file_error("write", hidden, error) from error
        if not written:
            self._files.remove(hidden)
            return None
        return Move(os.path.relpath(hidden, self._path), os.path.join(directory, name))

    def _last_changes(self, changes: list[str]) -> tuple[pa.RecordBatch, Any, KeyIndex | None]:
        """The last change of each key, whether it is a deletion, and the keys that change: None for all."""
        batches: list[pa.RecordBatch] = []
        for path in changes:
            stream = self._files.open_read(path)
            schema = with_op_column(self._schema, _OP)
            staged = format_of(_STAGED).reader(
                ReadRequest(stream, path, schema, schema.names, {}, _BATCH_ROWS)
            )
            reader = OpColumnReader(staged, stream, path, 0, False)
            try:
                batches += [batch for batch, _ in reader.batches() if batch.num_rows]
            finally:
                reader.close()
        every = pa.concat_batches(batches)
        rows = without_row_kinds(every).cast(self._arrow)
        is_deletion = ~is_accumulate(row_kinds(every))
        if not self._keys:
            last = np.array([rows.num_rows - 1])
            return rows.take(pa.array(last)), is_deletion[last], None
        keys = [rows.column(key) for key in self._keys]
        index = KeyIndex([key.type for key in keys])
        slots, _ = index.get_or_insert(keys)
        last = np.full(len(index), -1, dtype=np.int64)
        last[slots] = np.arange(rows.num_rows)
        return rows.take(pa.array(last)), is_deletion[last], index

    def _unchanged(self, present: list[str], index: KeyIndex | None) -> Iterator[pa.RecordBatch]:
        if index is None:
            return
        for path in present:
            stream = self._files.open_read(path)
            names = self._schema.names
            reader = self._format.reader(
                ReadRequest(stream, path, self._schema, names, self._options, _BATCH_ROWS)
            )
            try:
                for batch, _ in reader.batches():
                    is_left = index.get([batch.column(key) for key in self._keys]) < 0
                    if is_left.any():
                        kept = batch if is_left.all() else batch.filter(pa.array(is_left))
                        yield pa.RecordBatch.from_arrays(kept.columns, schema=self._arrow)
            finally:
                reader.close()
