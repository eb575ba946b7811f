"""A table of Parquet files as a relation that a batch engine reads by itself."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError, Retry
from sqlstream.runtime.connectors.duckdb.database import connect
from sqlstream.runtime.connectors.file_constants import FileConstants
from sqlstream.runtime.connectors.file_options import FileOptions
from sqlstream.runtime.connectors.file_paths import find_files, is_pattern, local_path, table_root
from sqlstream.runtime.connectors.native_parquet.constants import constant
from sqlstream.runtime.connectors.native_parquet.expressions import (
    duckdb_expression,
    is_carried,
    spark_expression,
    spark_stored_type,
)
from sqlstream.runtime.connectors.native_parquet.footers import Footer, read_footer
from sqlstream.runtime.connectors.native_parquet.refusal import NotNative
from sqlstream.runtime.connectors.native_parquet.statistics import Reading, stored_bytes
from sqlstream.runtime.connectors.path_pattern import PathPattern
from sqlstream.runtime.connectors.sql_filters import text
from sqlstream.runtime.host.rooted_files import RootedFiles
from sqlstream.spark_types import quote as spark_name
from sqlstream.specs import SourceSpec
from sqlstream.spi.batch_relation import (
    BatchRelation,
    DuckDbRelation,
    SparkFiles,
    SparkRelation,
    ThroughReader,
)
from sqlstream.spi.files import Files, FileStatus
from sqlstream.types import LogicalType

SCANS_MAX = {"duckdb": 256, "spark": 8}
"""Scans of one table: files whose constants or layouts differ are scanned apart, and an engine plans each scan by itself.
It takes DuckDB a millisecond of processor time and Spark a hundred."""

FEW_FILES = 16
SMALL_FILE_BYTES = 128 * 1024
"""Looking at a file takes 4 ms, in which our reader has read a file of this size."""

FIRST_YEAR = {"duckdb": 1, "spark": 1900}
"""Spark reads older times of some files in the calendar of Julius Caesar."""

NO_COLUMN = "_sqlstream_none"
"""Stands for the columns of a scan that has none; what a file has of this name is not used."""

_DUCKDB_READS = "hive_partitioning = false, union_by_name = false, filename = false, binary_as_string = false"
_SPARK_OPTIONS = {
    "mergeSchema": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # The paths are files, and no patterns.
    "__globPaths__": "false",
}
_SPARK_PATH = re.compile(r"[\w/=.@+~-]+")
_SPARK_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class _File:
    status: FileStatus
    path: str
    """The path that engines open."""
    constants: tuple[tuple[str, str], ...]
    footer: Footer


@dataclass(frozen=True)
class _Scan:
    """Files that differ in nothing but their rows."""

    paths: tuple[str, ...]
    constants: dict[str, str]
    stored: dict[str, pa.DataType]


def parquet_relation(
    spec: SourceSpec, engine: str, files: Files, check_cancelled: Callable[[], None]
) -> BatchRelation:
    """How an engine reads the table. Errors of files and of pyarrow: our reader says what they mean."""
    if engine == "spark" and isinstance(files, RootedFiles):
        # DuckDB opens what was checked or nothing; Spark follows a link that has taken its place.
        return ThroughReader("Spark does not check where a path leads when it opens it, as this server does")
    try:
        found = _files(spec, engine, files, check_cancelled)
        byte_count = _checked_bytes(found, engine)
    except NotNative as refused:
        return ThroughReader(refused.reason)
    words = f"native parquet, {len(found)} {'file' if len(found) == 1 else 'files'}"
    row_count = sum(f.footer.row_count for f in found)
    scans = _scans(found)
    if len(scans) > SCANS_MAX[engine]:
        return ThroughReader(
            f"its files are of {len(scans)} partitions or layouts, and at most {SCANS_MAX[engine]} are planned"
        )

    def require_unchanged() -> None:
        _require_unchanged(spec, [f.status for f in found], files)

    if engine == "duckdb":
        query = " UNION ALL ".join(_duckdb_query(spec, scan) for scan in scans)
        paths = tuple(f.path for f in found)
        return DuckDbRelation(
            words,
            query,
            paths,
            row_count=row_count,
            byte_count=byte_count,
            require_unchanged=require_unchanged,
        )
    planned = tuple(_spark_files(spec, scan) for scan in scans)
    return SparkRelation(words, "parquet", _SPARK_OPTIONS, planned, row_count, byte_count, require_unchanged)


def _files(spec: SourceSpec, engine: str, files: Files, check_cancelled: Callable[[], None]) -> list[_File]:
    path = local_path(spec.options["path"])
    constants = FileConstants(spec, table_root(path, files))
    pattern = PathPattern(FileOptions.of(spec.options).path_pattern or "")
    found = []
    statuses = [s for s in find_files(path, files, may_be_empty=False) if pattern.matches(s.path)]
    if not statuses:
        raise NotNative("it has no files")
    if len(statuses) > FEW_FILES and sum(s.size for s in statuses) < SMALL_FILE_BYTES * len(statuses):
        raise NotNative(f"its {len(statuses)} files are small")
    for status in statuses:
        check_cancelled()
        found.append(_file(spec, engine, status, constants, files))
    return found


def _file(spec: SourceSpec, engine: str, status: FileStatus, constants: FileConstants, files: Files) -> _File:
    given = constants.of(status)
    types = _types(spec)
    wanted = [name for name in spec.columns if name not in given]
    with files.open_read(status.path) as stream:
        footer = read_footer(stream, wanted)
    for name, stored in footer.columns:
        if not is_carried(stored, types[name]):
            raise NotNative(f'column "{name}" is {stored}, and declared {types[name].with_nullable(True)}')
        if engine == "spark" and not _SPARK_NAME.fullmatch(name):
            raise NotNative(f'Spark could misread the name of column "{name}"')
    written = [
        (name, constant(engine, name, given[name], types[name])) for name in _names(spec) if name in given
    ]
    return _File(status, _openable(engine, status.path, files), tuple(written), footer)


def _openable(engine: str, path: str, files: Files) -> str:
    """The path under which an engine opens the file. NotNative for one that it would take for something else."""
    handed_on = str(files.handed_on(path))
    is_misread = is_pattern(handed_on)
    if engine == "spark":
        is_hidden = os.path.basename(handed_on).startswith(("_", "."))
        is_misread = is_hidden or not _SPARK_PATH.fullmatch(handed_on)
    if is_misread or not handed_on.isprintable():
        raise NotNative(f'the engine could misread the path "{path}"')
    return handed_on


def _types(spec: SourceSpec) -> dict[str, LogicalType]:
    physical = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    return {**physical, **{f.name: f.type for f in spec.metadata}}


def _names(spec: SourceSpec) -> list[str]:
    return [*spec.columns, *(f.name for f in spec.metadata)]


def _checked_bytes(found: list[_File], engine: str) -> int:
    """The bytes of the columns that are read. NotNative as in `stored_bytes`."""
    alike: dict[tuple[str, tuple[tuple[str, pa.DataType], ...]], list[_File]] = defaultdict(list)
    for file in found:
        alike[file.footer.layout, file.footer.columns].append(file)
    connection = connect()
    try:
        return sum(
            stored_bytes(
                connection,
                Reading(
                    tuple(file.path for file in group),
                    tuple(name for name, _ in columns),
                    tuple(t for _, t in columns),
                    sum(file.footer.group_count for file in group),
                ),
                FIRST_YEAR[engine],
            )
            for (_, columns), group in alike.items()
        )
    finally:
        connection.close()


def _scans(found: list[_File]) -> list[_Scan]:
    groups: dict[tuple[Any, ...], list[_File]] = defaultdict(list)
    for file in found:
        groups[file.constants, file.footer.layout, file.footer.columns].append(file)
    return [
        _Scan(tuple(file.path for file in group), dict(constants), dict(columns))
        for (constants, _, columns), group in groups.items()
    ]


def _duckdb_query(spec: SourceSpec, scan: _Scan) -> str:
    types = _types(spec)
    values = [
        scan.constants[name]
        if name in scan.constants
        else duckdb_expression(name, scan.stored[name], types[name])
        for name in _names(spec)
    ]
    columns = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values)) or "1 AS c"
    return f"SELECT {columns} FROM read_parquet([{', '.join(text(p) for p in scan.paths)}], {_DUCKDB_READS})"


def _spark_files(spec: SourceSpec, scan: _Scan) -> SparkFiles:
    types = _types(spec)
    ddl = ", ".join(f"{spark_name(name)} {spark_stored_type(t)}" for name, t in scan.stored.items())
    expressions = tuple(
        scan.constants[name]
        if name in scan.constants
        else spark_expression(name, scan.stored[name], types[name])
        for name in _names(spec)
    )
    return SparkFiles(scan.paths, ddl or f"{spark_name(NO_COLUMN)} BOOLEAN", expressions)


def _require_unchanged(spec: SourceSpec, before: Iterable[FileStatus], files: Files) -> None:
    for status in before:
        if files.status(status.path) != status:
            raise ExternalError(
                "SS5071",
                f'the file "{status.path}" has changed while table "{spec.table}" was read',
                retry=Retry.NOW,
                hint="run the statement again when nobody writes the file",
            )
