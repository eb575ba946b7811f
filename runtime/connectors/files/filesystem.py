"""Connector `filesystem`: files of csv, json, parquet or raw rows, as source and sink."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.connectors.files.file_commits import FileCommits, version_of
from sqlstream.runtime.connectors.files.file_options import (
    MONITOR_INTERVAL,
    FileOptions,
    FileSinkOptions,
    check_files,
)
from sqlstream.runtime.connectors.files.file_paths import (
    PathPattern,
    absolute_path,
    estimated_files,
    find_files,
    is_pattern,
    local_path,
    partition_directory,
    partition_values,
    pattern_below,
    root_of,
    table_path,
    table_root,
)
from sqlstream.runtime.connectors.files.partition_marks import check_marks
from sqlstream.runtime.connectors.files.rejected_rows import (
    kept_directory,
    read_path,
    rejected_rows_directory,
)
from sqlstream.runtime.connectors.files.table_log import staging_directory
from sqlstream.runtime.connectors.fixed_splits import own_share
from sqlstream.runtime.formats import format_options, validate_format
from sqlstream.runtime.formats.blocks import is_compressed
from sqlstream.runtime.formats.flat_types import find_refused
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.file_systems import (
    FILE_OPTIONS,
    check_options,
    files_of,
    is_in_store,
    require_writable_table,
)
from sqlstream.schema import Field, Schema
from sqlstream.spi import connector
from sqlstream.spi.batch_relation import BatchRelation, ThroughReader
from sqlstream.spi.changelog_options import ChangelogOptions, with_op_column
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import REJECTED_ROWS_PATH
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import descriptors_of

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec, SourceSpec

_ELSEWHERE = frozenset(descriptor.key for descriptor in FILE_OPTIONS)
_PACKED_FORMATS = ("parquet", "orc")
_PACKED_FACTOR = 10
"""How much larger rows are than a file that is compressed, at most in most cases."""

_REJECTED_ROWS = (
    Field("file", sql.STRING),
    Field("line", sql.BIGINT),
    Field("reason", sql.STRING),
    Field("text", sql.STRING),
)


class Filesystem:
    """Files of this machine, or of a file system elsewhere.

    Files are read whole, each by the reader that it is assigned to, and each has a watermark of its own.
    Directories `key=value` below the path stand for the columns that they name, which are then not in the files. What a job
    writes is hidden until its checkpoint is committed; without checkpoints, until the job ends.
    """

    descriptor = connector.ConnectorDescriptor(
        identifier="filesystem",
        options=(
            *descriptors_of(FileOptions),
            *descriptors_of(FileSinkOptions),
            *descriptors_of(ChangelogOptions),
            *FILE_OPTIONS,
        ),
        reading=connector.Reading(
            boundedness=connector.Boundedness(True, unless_set=MONITOR_INTERVAL),
            metadata={
                "file.path": sql.STRING.not_null(),
                "file.name": sql.STRING.not_null(),
                "file.size": sql.BIGINT.not_null(),
                "file.modification-time": sql.timestamp_ltz(3).not_null(),
            },
            limits=True,
            watermarks=True,
            rejected_rows=_REJECTED_ROWS,
        ),
        writing=connector.Writing(changes_rows=True),
        place=connector.Place(has_format=True, partitions=True, options=("path",)),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """A local path, a regular expression that is one, types that the format carries. UserError SS4002, SS4006."""
        table_path(options["path"])
        check_options(table, options)
        check_files(table, options)
        check_marks(table, options, partition_keys)
        try:
            re.compile(FileOptions.of(options).path_pattern or "")
        except re.error as error:
            raise UserError(
                "SS4002",
                f'option "source.path.regex-pattern" of table "{table}" is no regular expression: {error}',
                option="source.path.regex-pattern",
                hint="write one such as '.*/part-[0-9]+[.]csv'",
            ) from error
        for key in partition_keys:
            t = schema.types[schema.index_of(key)]
            if find_refused(t, allows_nested=False) is not None:
                raise UserError(
                    "SS4006",
                    f'column "{key}" of type {t} cannot name the partitions of table "{table}"',
                    column=key,
                    hint="partition by columns of plain types",
                )
        # Partition columns stand in the names of directories, not in the files.
        in_files = Schema(tuple(f for f in schema.fields if f.name not in partition_keys))
        if not schema.fields:
            raise UserError(
                "SS4006",
                f'table "{table}" has no columns',
                hint="name the columns in CREATE TABLE, or another file",
            )
        if not in_files.fields:
            raise UserError(
                "SS4006",
                f'table "{table}" has no column but those that it is partitioned by: its files would be empty',
                hint="leave a column out of PARTITIONED BY",
            )
        identifier = options["format"]
        op_column = ChangelogOptions.of(options).op_column
        in_files = in_files if op_column is None else with_op_column(in_files, op_column)
        validate_format(identifier, identifier, in_files, format_options(identifier, options))

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        from sqlstream.runtime.connectors.files.filesystem_source import FileSourceReader

        share = own_share(self, spec, context) if splits is None else splits
        return FileSourceReader(spec, replaced(context, files=files_of(spec.options, context.files)), share)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        from sqlstream.runtime.connectors.files.file_enumerator import FileEnumerator

        return FileEnumerator(spec, replaced(context, files=files_of(spec.options, context.files)), state)

    def empty_copy(self, options: Mapping[str, str], place: str) -> dict[str, str] | None:
        kept = {k: v for k, v in options.items() if k != MONITOR_INTERVAL and k not in _ELSEWHERE}
        return {**kept, "path": place}

    def batch_relation(
        self, source: SourceSpec, engine: str, files: Files, check_cancelled: Callable[[], None]
    ) -> BatchRelation:
        if ChangelogOptions.of(source.options).op_column is not None:
            return ThroughReader()
        if source.options["format"] != "parquet" or is_in_store(source.options["path"]):
            # How texts become values is ours alone, and so are the keys of a store.
            return ThroughReader()
        from sqlstream.runtime.connectors.files.native_parquet import parquet_relation

        return parquet_relation(source, engine, files, check_cancelled)

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        own = FileOptions.of(options)
        kept = (kept_directory(own) or "") if own.reads_rejected_rows else options.get(REJECTED_ROWS_PATH, "")
        named = (options["path"], kept)
        return tuple(root_of(local_path(path)) for path in named if path and not is_in_store(path))

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        absolute = dict(options)
        for key in ("path", REJECTED_ROWS_PATH):
            if options.get(key):
                absolute[key] = absolute_path(key, options[key], directory)
        pattern = options.get("source.path.regex-pattern")
        path = table_path(options["path"])
        if pattern and not os.path.isabs(path) and not is_in_store(path):
            absolute["source.path.regex-pattern"] = pattern_below(directory, pattern)
        return absolute

    def without_rejected_files(self, spec: SourceSpec) -> SourceSpec:
        if FileOptions.of(spec.options).reads_rejected_rows:
            return spec
        return replace(spec, options={REJECTED_ROWS_PATH: "", **spec.options})

    def rejected_rows_directory(self, spec: SourceSpec) -> str | None:
        return rejected_rows_directory(spec)

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        try:
            path = read_path(FileOptions.of(spec.options))
            there = estimated_files(path, files_of(spec.options, files))
        except (SqlStreamError, OSError):
            # The reader says what is wrong.
            return 0
        found = PathPattern(FileOptions.of(spec.options).path_pattern or "").among(there)
        is_packed = spec.options["format"] in _PACKED_FORMATS
        return sum(f.size * (_PACKED_FACTOR if is_packed or is_compressed(f.path) else 1) for f in found)

    def sink(
        self, spec: SinkSpec, mode: ChangelogMode, context: connector.ConnectorContext
    ) -> connector.SinkWriter:
        from sqlstream.runtime.connectors.files.filesystem_sink import FileSinkWriter

        around = replaced(context, files=files_of(spec.options, context.files))
        return FileSinkWriter(spec, _written_path(spec), around)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        """Show the files of the checkpoint, all or none, joined with others if the table says so; then mark partitions. What is
        done already is left alone."""
        _commits(spec, files).commit(checkpoint_id, committables, now_ms())

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        _commits(spec, files).abort(job_id, committables)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        from sqlstream.runtime.connectors.files.filesystem_sink import remove_staged_by

        path, files = table_path(spec.options["path"]), files_of(spec.options, files)
        remove_staged_by(path, job_id, writer_names, files)

    def version(self, spec: SinkSpec, files: Files) -> str:
        require_writable_table(spec.options["path"], spec.table)
        return version_of(spec, files_of(spec.options, files))

    def partitions(self, options: Mapping[str, str], keys: tuple[str, ...], files: Files) -> tuple[str, ...]:
        path, store = table_path(options["path"]), files_of(dict(options), files)
        pattern = PathPattern(FileOptions.of(dict(options)).path_pattern or "")
        found = find_files(path, store, may_be_empty=True) if store.status(root_of(path)) is not None else []
        root = table_root(path, store)
        values = [partition_values(file.path, root) for file in pattern.among(found)]
        names = ("/".join(partition_directory(k, v[k]) for k in keys) for v in values if v.keys() >= {*keys})
        return tuple(dict.fromkeys(names))

    def begin_with(self, spec: SinkSpec, earlier_job_id: str, job_id: str, files: Files) -> None:
        if FileSinkOptions.of(spec.options).marks_partitions:
            _commits(spec, files).marks().begin_with(earlier_job_id, job_id)

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str | None:
        path = _written_path(spec)
        return None if is_in_store(path) else staging_directory(path, job_id, writer_id)


def _commits(spec: SinkSpec, files: Files) -> FileCommits:
    return FileCommits(spec, files_of(spec.options, files))


def _written_path(spec: SinkSpec) -> str:
    """UserError SS5013 for a path that cannot be written."""
    path = table_path(spec.options["path"])
    require_writable_table(path, spec.table)
    if is_pattern(path):
        raise UserError(
            "SS5013",
            f'table "{spec.table}" cannot be written: its path is the pattern "{path}"',
            hint="declare another table whose path is a directory",
        )
    return path
