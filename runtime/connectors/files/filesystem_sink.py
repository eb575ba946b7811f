"""Writes the rows of one subtask into hidden files, which the commit of a checkpoint makes visible."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_changelog, row_kinds, with_row_kinds, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import ExternalError, UserError
from sqlstream.options.checkpointing_options import takes_checkpoints
from sqlstream.runtime.connectors.files.change_order import ORDER_DIGITS, order_behind
from sqlstream.runtime.connectors.files.compaction import change_writer
from sqlstream.runtime.connectors.files.file_commits import CLEARED, merges
from sqlstream.runtime.connectors.files.file_options import FileOptions, FileSinkOptions
from sqlstream.runtime.connectors.files.file_paths import partition_directory
from sqlstream.runtime.connectors.files.job_records import DIRECTORY as RECORDS
from sqlstream.runtime.connectors.files.partition_marks import WATERMARK
from sqlstream.runtime.connectors.files.table_log import STAGED, TableLog, staging_directory
from sqlstream.runtime.connectors.staged_rows import digits_of, new_writer_id
from sqlstream.runtime.evaluate.values import values_batches
from sqlstream.runtime.formats import format_of, format_options
from sqlstream.runtime.formats.op_column import OpColumnWriter, TombstoneWriter
from sqlstream.runtime.formats.text_values import format_text
from sqlstream.runtime.host.file_systems import escape_pattern
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.kernels.keys.group import group, run_starts
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.update_pairs import moved_kinds
from sqlstream.schema import Field, Schema
from sqlstream.specs import ChangingSinkSpec, SinkSpec, ValuesSpec
from sqlstream.spi.changelog_options import UPSERT, ChangelogOptions, with_op_column
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files
from sqlstream.spi.format import FileWriter
from sqlstream.types import LogicalType

OPEN_FILES_MAX = 100
"""The most partitions with an open file; with more, the one opened first is closed and later continues in a new file."""


@dataclass
class _OpenFile:
    hidden: str
    final: str
    stream: BinaryIO
    writer: FileWriter
    begun_ms: int
    written_ms: int


class FileSinkWriter:
    """Writes one file at a time for each partition.

    Files are written to a directory of this writer alone, `.staging-<job>-<id>` within the table's, which readers skip. A
    checkpoint ends the open ones (Flink: in progress, pending, committed); so do size, age and inactivity. Of a table whose
    partitions are marked, each checkpoint also tells the watermark.
    State: the open files, the names of those finished since the last checkpoint, the hidden paths of both, and the watermark.
    """

    def __init__(self, spec: SinkSpec, path: str, context: ConnectorContext) -> None:
        self._spec = spec
        self._path = path
        self._context = context
        status = context.files.status(path)
        if status is not None and not status.is_directory:
            raise UserError(
                "SS5013",
                f'table "{spec.table}" cannot be written: its path "{path}" is a file',
                hint="name a directory; each job adds files to it",
            )
        TableLog(path, context.files).settle()
        # Not at the first commit, when rows have been written that nobody will see.
        with self._naming_the_table():
            context.files.require_writable(path)
        if isinstance(spec, ChangingSinkSpec) or merges(spec) or takes_checkpoints(context.config):
            context.files.require_writable(os.path.join(path, RECORDS))
        self._is_directory_ours = status is None
        self._changes = ChangelogOptions.of(spec.options)
        identifier = spec.options["format"]
        self._format = format_of(identifier)
        self._is_ordered = (
            self._changes.modes is not None or not self._format.descriptor.sink_mode.is_insert_only
        )
        self._id = self._new_id()
        self._staging = staging_directory(path, context.job_id, self._id)
        self._format_options = format_options(identifier, spec.options)
        options = FileOptions.of(spec.options)
        self._sink_options = FileSinkOptions.of(spec.options)
        self._checked_ms = context.now_ms()
        self._watermark_ms = WATERMARK_MIN
        self._default_name = options.default_partition_name
        kept = [i for i in range(len(spec.schema)) if i not in spec.partition_keys]
        self._kept = kept
        self._file_schema = spec.schema.select(tuple(kept))
        self._open: dict[str, _OpenFile] = {}
        self._finished: list[dict[str, Any]] = []
        self._staged: list[str] = []
        self._file_count = 0
        self._name_bytes_max = context.files.name_bytes_max(path)
        self._path_bytes_max = context.files.path_bytes_max()

    def write(self, batch: pa.RecordBatch) -> None:
        if isinstance(self._spec, ChangingSinkSpec) and self._spec.action.changes_rows:
            # All rows of the table come, with a mark of those that change.
            batch = without_row_kinds(batch.filter(pa.array(row_kinds(batch) != RowKind.DELETE)))
        elif is_changelog(batch) and self._spec.partition_keys:
            kinds = moved_kinds(row_kinds(batch), [batch.column(key) for key in self._spec.partition_keys])
            batch = with_row_kinds(batch, kinds)
        for directory, rows in self._partitions(batch):
            file = self._open.get(directory) or self._start(directory)
            with self._errors_of(file):
                file.writer.write(rows)
                size = file.stream.tell()
            file.written_ms = self._context.now_ms()
            if size >= self._sink_options.file_bytes:
                self._end(directory)
        self._end_by_time()

    def _new_id(self) -> str:
        """Of changes it begins with their place behind what is there."""
        context, digits = self._context, new_writer_id(self._context)
        if not self._is_ordered:
            return digits[:ORDER_DIGITS]
        return f"{order_behind(self._path, context.now_ms(), context.files)}{digits[:8]}"

    def on_watermark(self, watermark_ms: int) -> None:
        self._watermark_ms = max(self._watermark_ms, watermark_ms)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        for directory in list(self._open):
            self._end(directory)
        if checkpoint_id == LAST_CHECKPOINT_ID:
            # A table into which a job has put no rows is an empty table, not a missing one.
            with self._naming_the_table():
                self._context.files.make_directories(self._path)
        finished, self._finished = self._finished, []
        self._staged.clear()
        named = (self._context.job_id, checkpoint_id, self._id, self._context.subtask)
        if isinstance(self._spec, ChangingSinkSpec):
            content = {"files": finished, CLEARED: self._cleared(self._spec), WATERMARK: self._watermark_ms}
            return [Committable(*named, content)]
        if self._sink_options.marks_partitions:
            return [Committable(*named, {"files": finished, WATERMARK: self._watermark_ms})]
        # The last commit also removes what those before it have left.
        is_told = finished or checkpoint_id == LAST_CHECKPOINT_ID
        return [Committable(*named, {"files": finished})] if is_told else []

    def _cleared(self, spec: ChangingSinkSpec) -> list[str]:
        """The partition that INSERT OVERWRITE names, which is replaced even when no rows come."""
        named = dict(spec.partition)
        if not spec.partition_keys or set(named) != set(spec.partition_keys):
            return []
        schema = spec.schema.select(spec.partition_keys)
        nullable = Schema(tuple(Field(f.name, f.type.with_nullable(True)) for f in schema.fields))
        row = ValuesSpec((tuple(named[key] for key in spec.partition_keys),))
        (batch,) = values_batches(row, nullable, 1)
        texts = [self._text(batch.column(i), f.type) for i, f in enumerate(schema.fields)]
        return [self._directory(tuple(text[0].as_py() for text in texts))]

    def abort(self) -> None:
        for file in self._open.values():
            # The file is removed, so what it still has to write is dropped.
            with contextlib.suppress(OSError):
                file.stream.close()
        self._open.clear()
        for path in self._staged:
            self._context.files.remove(path)
        self._context.files.remove_directory_if_empty(self._staging)
        if self._is_directory_ours:
            self._context.files.remove_directory_if_empty(self._path)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _partitions(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition, without its columns, and its directory."""
        if not batch.num_rows:
            return
        kinds = [batch.num_columns - 1] if is_changelog(batch) else []
        data = batch.select(self._kept + kinds)
        if not self._spec.partition_keys:
            yield "", data
            return
        # Neighbours often have one partition: then their keys become texts once, and the rows stay where they are.
        starts = run_starts([batch.column(key) for key in self._spec.partition_keys])
        keys = [self._key_texts(batch, key, starts) for key in self._spec.partition_keys]
        groups, first_runs = group(keys)
        lengths = np.diff(starts, append=batch.num_rows)
        if bool((groups[1:] >= groups[:-1]).all()):
            bounds = [*starts[first_runs].tolist(), batch.num_rows]
        else:
            order, ends = argsort_stable_by(np.repeat(groups, lengths), len(first_runs))
            data, bounds = data.take(pa.array(order)), ends.tolist()
        values = zip(*(key.take(pa.array(first_runs)).to_pylist() for key in keys), strict=True)
        for value, (start, end) in zip(values, itertools.pairwise(bounds), strict=True):
            yield self._directory(value), data.slice(start, end - start)

    def _key_texts(self, batch: pa.RecordBatch, key: int, rows: np.ndarray) -> pa.Array:
        return self._text(batch.column(key).take(pa.array(rows)), self._spec.schema.types[key])

    def _text(self, values: pa.Array, t: LogicalType) -> pa.Array:
        texts = pc.fill_null(format_text(values, t), "")
        return pc.if_else(pc.equal(texts, ""), self._default_name, texts)

    def _directory(self, values: tuple[str, ...]) -> str:
        names = [self._spec.schema.names[k] for k in self._spec.partition_keys]
        return os.path.join(*(partition_directory(n, v) for n, v in zip(names, values, strict=True)))

    # --- files --------------------------------------------------------------------------------------------------------

    def _start(self, directory: str) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._end(next(iter(self._open)))
        suffix = self._format.descriptor.file_suffix
        # Changes count in the order of their files.
        number = f"{self._file_count:08}" if self._is_ordered else str(self._file_count)
        name = f"part-{self._id}-{self._context.subtask}-{number}{suffix}"
        self._check_lengths(directory, name)
        self._file_count += 1
        hidden = os.path.join(self._staging, name + STAGED)
        final = os.path.join(self._path, directory, name)
        # Noted first, so that `abort` finds it.
        self._staged.append(hidden)
        with self._naming_the_table():
            stream = self._context.files.open_write(hidden)
        try:
            writer = self._writer(stream)
        except OSError as error:
            stream.close()
            raise file_error("write", final, error) from error
        now_ms = self._context.now_ms()
        file = _OpenFile(hidden, final, stream, writer, now_ms, now_ms)
        self._open[directory] = file
        return file

    def _writer(self, stream: BinaryIO) -> FileWriter:
        if merges(self._spec):
            return change_writer(stream, self._file_schema)
        op_column = self._changes.op_column
        if op_column is not None:
            schema = with_op_column(self._file_schema, op_column)
            return OpColumnWriter(self._format.writer(stream, schema, self._format_options), op_column)
        writer = self._format.writer(stream, self._file_schema, self._format_options)
        if self._changes.mode == UPSERT:
            keys = set(self._spec.primary_key)
            return TombstoneWriter(writer, frozenset(i for i, c in enumerate(self._kept) if c in keys))
        return writer

    def _check_lengths(self, directory: str, name: str) -> None:
        """UserError SS5019 for partition values that make a path which the file system refuses. Checked before anything is
        written, as the commit would fail otherwise."""
        final = os.path.join(self._path, directory, name)
        path_bytes = len(os.fsencode(self._context.files.absolute(final)))
        components = directory.split(os.sep) if directory else []
        columns = [self._spec.schema.names[k] for k in self._spec.partition_keys]
        limit = self._name_bytes_max
        for column, component in zip(columns, components, strict=True):
            size = len(os.fsencode(component))
            if size > limit:
                raise UserError(
                    "SS5019",
                    f'a value of column "{column}" cannot name a partition of table "{self._spec.table}": '
                    f"its directory would have a name of {size} bytes, and {limit} are possible",
                    detail=f'the name begins with "{component[:60]}"',
                    hint="partition by a shorter value, such as SUBSTRING of the column or MD5 of it",
                )
        if path_bytes > self._path_bytes_max:
            named = ", ".join(f'column "{column}"' for column in columns)
            by = f", partitioned by {named}," if columns else ""
            raise UserError(
                "SS5019",
                f'a file of table "{self._spec.table}"{by} cannot be written: its path would have '
                f"{path_bytes} bytes, and {self._path_bytes_max} are possible",
                detail=f'the path begins with "{final[:60]}"',
                hint="partition by fewer columns or shorter values" if columns else "name a shorter path",
            )

    def _end(self, directory: str) -> None:
        file = self._open[directory]
        with self._errors_of(file):
            file.writer.close()
            size = file.stream.tell()
            file.stream.flush()
            self._context.files.sync(file.stream)
            file.stream.close()
        del self._open[directory]
        self._context.count("numBytesOut", size)
        self._finished.append({"hidden": file.hidden, "final": file.final, "bytes": size})

    def _end_by_time(self) -> None:
        """No timer is needed: a file without further rows ends with the checkpoint, and nobody sees it before."""
        now_ms, options = self._context.now_ms(), self._sink_options
        # The clock may have been set back.
        if 0 <= now_ms - self._checked_ms < options.check_ms:
            return
        self._checked_ms = now_ms
        for directory, file in list(self._open.items()):
            is_old = now_ms - file.begun_ms >= options.rollover_ms
            if is_old or now_ms - file.written_ms >= options.inactivity_ms:
                self._end(directory)

    @contextlib.contextmanager
    def _naming_the_table(self) -> Iterator[None]:
        """Report a directory or file that cannot be made as what the user knows: the table and its path."""
        try:
            yield
        except ExternalError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise file_error(f'write table "{self._spec.table}" to', self._path, error.__cause__) from error

    @contextlib.contextmanager
    def _errors_of(self, file: _OpenFile) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise file_error("write", file.final, error) from error


def remove_staged_by(path: str, job_id: str, writer_names: Sequence[str], files: Files) -> None:
    """Remove the directories of these writers (`FileSinkWriter._new_id`), whatever they wrote."""
    for digits in map(digits_of, writer_names):
        for writer_id in (digits[:ORDER_DIGITS], "?" * ORDER_DIGITS + digits[:8]):
            for directory in files.match_glob(staging_directory(escape_pattern(path), job_id, writer_id)):
                files.remove(directory)
