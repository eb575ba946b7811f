"""Files → the table that they are: the one object that the planner asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.cancellation import given_up_by
from sqlstream.catalog import Column, InferredTable
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.files.file_paths import (
    DEFAULT_PARTITION_NAME,
    find_files,
    is_pattern,
    local_path,
    partition_values,
    root_of,
)
from sqlstream.runtime.formats import format_options
from sqlstream.runtime.formats.blocks import is_compressed
from sqlstream.runtime.formats.text_values import parse_text
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.inference.duckdb_sniffer import interrupt_sniffing
from sqlstream.runtime.inference.samples import cannot_infer, do_not_fit
from sqlstream.schema import Field, Schema
from sqlstream.specs.source import ANSWER, InferenceAnswer, InferTableSpec
from sqlstream.spi.connector import SourceStatus
from sqlstream.spi.files import FileStatus
from sqlstream.types import LogicalType

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}
"""The format of a file by its suffix. A file of text may have the suffix of its compression behind that."""
_NULL_NAME = "partition.default-name"


class LocalFileInference:
    """Infers tables of connector `filesystem`. Implements `FileInference`; `files` is the file system that may be read.

    State: the files at each path, listed once.
    """

    def __init__(self, files: Any) -> None:
        self._files = files
        self._found: dict[str, list[FileStatus]] = {}

    def format(self, path: str) -> str:
        found = self._list(path)
        first = found[0].path
        formats = [(f.path, format_of_name(f.path)) for f in found]
        unknown = next((p for p, form in formats if not form), None)
        if unknown is not None:
            known = ", ".join(SUFFIXES)
            hint = "name its format: /*+ OPTIONS('format' = 'csv') */ in FROM, WITH ('format' = 'csv') in CREATE TABLE"
            if unknown.endswith((".duckdb", ".db", ".sqlite")):
                hint = "CREATE TABLE with 'connector' = 'duckdb' or 'jdbc' names a table of the database"
            raise cannot_infer(unknown, f"its suffix is none of {known}", hint)
        other = next((p for p, form in formats if form != formats[0][1]), None)
        if other is not None:
            raise do_not_fit(first, other, "it has another format")
        return formats[0][1]

    def table(self, options: Mapping[str, str]) -> InferredTable:
        path, form = options["path"], options["format"]
        found = self._list(path)
        schema, chosen = self._infer(found, form, dict(options))
        null_name = options.get(_NULL_NAME) or default_name(found, root_of(local_path(path)))
        partitions = infer_partitions_of(found, local_path(path), null_name)
        repeated = next((f.name for f in partitions if f.name in schema.names), None)
        if repeated is not None:
            reason = f'column "{repeated}" is in the files, and in the names of their directories'
            raise cannot_infer(path, reason)
        whole = Schema(schema.fields + partitions)
        given = {**{f"{form}.{key}": value for key, value in chosen.items()}, **options}
        if partitions and null_name != DEFAULT_PARTITION_NAME:
            given[_NULL_NAME] = null_name
        keys = tuple(f.name for f in partitions)
        connector("filesystem").validate(path, whole, given, keys)
        return InferredTable(tuple(Column(f.name, f.type) for f in whole.fields), given, keys)

    def _list(self, path: str) -> list[FileStatus]:
        if path not in self._found:
            self._found[path] = self._files_at(path)
        return self._found[path]

    def _files_at(self, path: str) -> list[FileStatus]:
        found = find_files(local_path(path), self._files, may_be_empty=False)
        if not found:
            raise cannot_infer(path, "the directory holds no files", "name a directory with files, or a file")
        return found

    def _infer(
        self, found: list[FileStatus], form: str, options: dict[str, str]
    ) -> tuple[Schema, dict[str, str]]:
        """The columns in the files, and options of the format, without its prefix."""
        match form:
            case "csv":
                from sqlstream.runtime.inference.csv import infer_csv

                return infer_csv(found, format_options(form, options), self._files)
            case "json":
                from sqlstream.runtime.inference.json import infer_json

                return infer_json(found, format_options(form, options), self._files), {}
            case "parquet":
                from sqlstream.runtime.inference.parquet import infer_parquet

                return infer_parquet(found, self._files), {}
        raise cannot_infer(options["path"], f'files of format "{form}" do not tell their columns')


def infer_partitions_of(found: list[FileStatus], path: str, null_name: str) -> tuple[Field, ...]:
    """The columns in directories below a path that is a directory or a pattern."""
    if not is_pattern(path) and len(found) == 1 and os.path.normpath(found[0].path) == os.path.normpath(path):
        return ()
    return infer_partitions(found, root_of(path), null_name)


def format_of_name(path: str) -> str:
    """The format of a file by its suffix; empty when that says nothing.

    >>> format_of_name("clicks.csv.gz"), format_of_name("clicks.parquet.gz"), format_of_name("README")
    ('csv', '', '')
    """
    name = path.lower()
    if is_compressed(name):
        form = SUFFIXES.get(os.path.splitext(os.path.splitext(name)[0])[1], "")
        return "" if form == "parquet" else form
    return SUFFIXES.get(os.path.splitext(name)[1], "")


# Columns that stand in the names of directories.


HIVE_DEFAULT_NAME = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, Spark and DuckDB write for NULL."""


def default_name(found: list[FileStatus], root: str) -> str:
    """How the directories below the root name the partition of NULL."""
    values = (partition_values(f.path, root).values() for f in found)
    return HIVE_DEFAULT_NAME if any(HIVE_DEFAULT_NAME in each for each in values) else DEFAULT_PARTITION_NAME


def infer_partitions(found: list[FileStatus], root: str, null_name: str) -> tuple[Field, ...]:
    """The columns of the directories `key=value` between the root and the files, which must be the same for all files.
    `null_name` stands for NULL."""
    values = [(f.path, partition_values(f.path, root)) for f in found]
    first, wanted = values[0]
    for path, keys in values:
        if list(keys) != list(wanted):
            said = (", ".join(names) or "none" for names in (wanted, keys))
            raise do_not_fit(first, path, "its directories name other columns", " and ".join(said))
    return tuple(Field(key, _type([keys[key] for _, keys in values], null_name)) for key in wanted)


def _type(texts: list[str], null_name: str) -> LogicalType:
    """As DuckDB chooses: the first of BIGINT and DATE that all values have, else STRING."""
    column = pa.array([None if text == null_name else text for text in texts], pa.string())
    if column.null_count == len(column):
        return sql.STRING
    return next((t for t in (sql.BIGINT, sql.DATE) if _reads(column, t)), sql.STRING)


def _reads(column: pa.Array, t: LogicalType) -> bool:
    try:
        parse_text(column, t)
    except pa.ArrowInvalid:
        return False
    return True


# Paths of files that can be read by their path, for completion.


_NAMES_MAX = 2000
"""Bound on the names of a directory that are looked at: a user waits."""


def paths_after(prefix: str, files: Any) -> list[tuple[str, str]]:
    """The directories, with a slash behind them, and the files of a known format whose paths begin with `prefix`; each with its
    format or "directory". UserError and ExternalError for a directory that may not or cannot be listed."""
    directory, begun = os.path.split(prefix)
    found = []
    for name, is_directory in files.list_names(directory or ".", _NAMES_MAX):
        form = "directory" if is_directory else format_of_name(name)
        if form and name.startswith(begun):
            found.append((os.path.join(directory, name) + ("/" if is_directory else ""), form))
    return found


# Infers a table from files as the source of a task.


POLL_WAIT_S = 0.02
INTERRUPT_AGAIN_S = 0.05
CLOSE_TIMEOUT_S = 2.0
"""How long `close` waits for the thread, which a slow disk may hold up for longer."""


class InferenceReader:
    """Implements `SourceReader` with one row. A thread of its own reads the files, so that a slow disk does not hold up the task;
    after `close` it ends at the next file or column. State: the answer, until it is polled."""

    def __init__(self, spec: InferTableSpec, files: Any) -> None:
        """`files` is the file system that may be read."""
        self._options = spec.options
        self._files = files
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._answer: InferenceAnswer | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="infer table", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with given_up_by(self._closed):
                self._answer = answer(self._options, self._files)
        except BaseException as error:  # the thread's boundary: `poll` raises it on the task's thread
            self._error = error
        finally:
            self._ended.set()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._ended.wait(POLL_WAIT_S):
            return SourceStatus.NOTHING_YET
        if self._error is not None:
            raise self._error
        found, self._answer = self._answer, None
        if found is None:
            return SourceStatus.END
        text = msgspec.json.encode(found).decode()
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], schema=to_arrow_schema(ANSWER))

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self._closed.set()
        deadline_s = steady_s() + CLOSE_TIMEOUT_S
        while self._thread.is_alive() and steady_s() < deadline_s:
            # Again and again: a query that is about to begin would miss the first call.
            interrupt_sniffing(self._thread.ident or 0)
            self._thread.join(INTERRUPT_AGAIN_S)


def answer(options: dict[str, str], files: Any) -> InferenceAnswer:
    """What `LocalFileInference` says, with its errors as data: they belong to a statement that is still planned."""
    inference = LocalFileInference(files)
    try:
        if "format" in options:
            return InferenceAnswer(options["format"], inference.table(options))
        form = inference.format(options["path"])
    except SqlStreamError as error:
        return InferenceAnswer(error=ErrorInfo.of(error))
    try:
        return InferenceAnswer(form, inference.table({**options, "format": form}))
    except SqlStreamError:
        # It may need options that are asked for next.
        return InferenceAnswer(form)
