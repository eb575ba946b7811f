"""Files that a commit writes anew: small ones joined, changes merged into present rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.runtime.connectors.files.change_order import is_change_file
from sqlstream.runtime.connectors.files.job_records import written_whole
from sqlstream.runtime.connectors.files.table_log import STAGED, Move, staging_directory
from sqlstream.runtime.formats import format_of, format_options
from sqlstream.runtime.formats.op_column import OpColumnReader, OpColumnWriter
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.changelog_options import with_op_column
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files
from sqlstream.spi.format import FileWriter, Format, ReadRequest

# Which files of a checkpoint are joined into one, and the joining.


_COPIED_BYTES = 1 << 20
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class JoinedFile:
    """`parts` are hidden files, relative to the table's path as the move's, whose rows become those of the move's file."""

    move: Move
    parts: tuple[str, ...]


def joined_files(path: str, committables: list[Committable], target_bytes: int) -> list[JoinedFile]:
    """The files of a commit by partition, each joined with the next ones until it has the target's size.

    The committables are `in_order`. The same in every repetition of the commit. A file of one part alone is that part. Files of
    changes, which are read in the order of their names, are joined with those of the same writer only."""
    partitions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for committable in committables:
        for file in committable.content["files"]:
            directory, name = os.path.split(file["final"])
            writer = committable.writer_id if is_change_file(name) else ""
            partitions.setdefault((directory, writer), []).append(file)
    return [
        _joined(path, group)
        for _, written in sorted(partitions.items())
        for group in _groups(written, target_bytes)
    ]


def _groups(written: list[dict[str, Any]], target_bytes: int) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for file in written:
        if group and size + file["bytes"] > target_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file["bytes"]
    if group:
        yield group


def _joined(path: str, group: list[dict[str, Any]]) -> JoinedFile:
    first = Move(os.path.relpath(group[0]["hidden"], path), os.path.relpath(group[0]["final"], path))
    if len(group) == 1:
        return JoinedFile(first, ())
    # part-<writer>-… becomes part-<writer>-joined-…: it is that writer's, and no other file of it is called so.
    directory, name = os.path.split(first.final)
    writer = "-".join(name.split("-")[:2])
    if is_change_file(name):
        # It is read where its first part would be: behind what the writer wrote before, and before what it writes later.
        stem, dot, suffix = name.partition(".")
        name = f"{stem}-joined{dot}{suffix}"
    else:
        name = f"{writer}-joined{name.removeprefix(writer)}"
    hidden = os.path.join(os.path.dirname(first.hidden), name + STAGED)
    move = Move(hidden, os.path.join(directory, name))
    return JoinedFile(move, tuple(os.path.relpath(file["hidden"], path) for file in group))


def _options_of_whole_files(options: dict[str, str]) -> dict[str, str]:
    """Those of the format. A row that cannot be decoded fails the commit: left out, it would be gone for good."""
    of_format = format_options(options["format"], options)
    return {key: value for key, value in of_format.items() if key != "ignore-parse-errors"}


def _rows_of(
    path: str, form: Format, schema: Schema, options: dict[str, str], files: Files
) -> Iterator[pa.RecordBatch]:
    stream = files.open_read(path)
    reader = form.reader(ReadRequest(stream, path, schema, schema.names, options, _BATCH_ROWS))
    arrow = to_arrow_schema(schema)
    try:
        for batch, _ in reader.batches():
            if batch.num_rows:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=arrow)
    finally:
        reader.close()


class FileJoiner:
    """Writes the rows of several files of a format into one. No state."""

    def __init__(self, schema: Schema, options: dict[str, str], files: Files) -> None:
        """`schema` has the columns that are in the files."""
        self._schema = schema
        self._format = format_of(options["format"])
        self._options = _options_of_whole_files(options)
        self._files = files

    def join(self, parts: list[str], joined: str) -> None:
        """`joined` is there, whole, when this returns. ExternalError SS5001."""
        draft = f"{joined}.draft"
        with written_whole(draft, self._files, joined) as stream:
            if self._format.descriptor.is_text:
                self._append_texts(parts, stream)
            else:
                self._append_rows(parts, stream)
        self._files.publish(draft, joined)

    def _append_texts(self, parts: list[str], stream: BinaryIO) -> None:
        """Rows of texts end with their line, and files have no heads."""
        for part in parts:
            with self._files.open_read(part) as source:
                shutil.copyfileobj(source, stream, _COPIED_BYTES)

    def _append_rows(self, parts: list[str], stream: BinaryIO) -> None:
        writer = self._format.writer(stream, self._schema, self._options)
        for part in parts:
            for batch in _rows_of(part, self._format, self._schema, self._options, self._files):
                writer.write(batch)
        writer.close()


# Merges the changes of a checkpoint into files that hold the present rows: those of a key replace the ones that are
# there.


_STAGED = "parquet"
"""The format of staged changes, in which every type and NULL is what it was."""
_OP = "$op"


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
        self._options = _options_of_whole_files(spec.options)
        self._path, self._first, self._files = path, first, files

    def merge(self, number: int, directory: str, changes: list[str], present: list[str]) -> Move | None:
        """The file that takes the place of the present ones; None when no row is left."""
        rows, is_deletion, index = self._last_changes(changes)
        first = self._first
        name = f"part-{first.writer_id}-{first.checkpoint_id}-{number}{self._format.descriptor.file_suffix}"
        hidden = os.path.join(staging_directory(self._path, first.job_id, first.writer_id), name + STAGED)
        written = 0
        with written_whole(hidden, self._files) as stream:
            writer = self._format.writer(stream, self._schema, self._options)
            for batch in self._unchanged(present, index):
                written += batch.num_rows
                writer.write(batch)
            added = rows.filter(pa.array(~is_deletion))
            if added.num_rows:
                written += added.num_rows
                writer.write(added)
            writer.close()
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
            for batch in _rows_of(path, self._format, self._schema, self._options, self._files):
                is_left = index.get([batch.column(key) for key in self._keys]) < 0
                if is_left.any():
                    yield batch if is_left.all() else batch.filter(pa.array(is_left))
