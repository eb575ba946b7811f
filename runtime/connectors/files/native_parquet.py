"""A table of Parquet files as a relation that a batch engine reads by itself."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.duckdb.database import connect
from sqlstream.runtime.connectors.duckdb.types import duckdb_type
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import (
    PathPattern,
    find_files,
    is_pattern,
    local_path,
    table_root,
)
from sqlstream.runtime.connectors.files.parquet_footers import (
    Footer,
    NotNative,
    Reading,
    read_footer,
    stored_bytes,
)
from sqlstream.runtime.connectors.files.table_files import FileConstants
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.runtime.host.rooted_files import RootedFiles
from sqlstream.spark_types import quote as spark_name
from sqlstream.spark_types import spark_type
from sqlstream.specs import SourceSpec
from sqlstream.spi.batch_relation import (
    BatchRelation,
    DuckDbRelation,
    SparkFiles,
    SparkRelation,
    ThroughReader,
)
from sqlstream.spi.files import Files, FileStatus
from sqlstream.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

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
                "SS5071", f'the file "{status.path}" has changed while table "{spec.table}" was read'
            )


# Values that all rows of a file have in common, as constants of an engine's SQL.


def constant(engine: str, name: str, value: pa.Scalar, declared: LogicalType) -> str:
    """NotNative for a type whose values have no plain constant."""
    t = value.type
    is_text, is_whole = pa.types.is_string(t), pa.types.is_integer(t) or pa.types.is_boolean(t)
    is_moment = pa.types.is_timestamp(t) and t.unit in ("ms", "us")
    if not (is_text or is_whole or is_moment or pa.types.is_date32(t)):
        raise NotNative(
            f'column "{name}" stands in the names of directories and is {declared.with_nullable(True)}'
        )
    return _duckdb(value) if engine == "duckdb" else _spark(value, spark_type(declared))


def _duckdb(value: pa.Scalar) -> str:
    t = value.type
    if not value.is_valid:
        return f"CAST(NULL AS {duckdb_type(t)})"
    if pa.types.is_string(t):
        return text(_utf8(value))
    if pa.types.is_date32(t):
        return f"(DATE '1970-01-01' + CAST({value.value} AS INTEGER))"
    if pa.types.is_timestamp(t):
        make = "make_timestamp" if t.tz is None else "make_timestamptz"
        return f"CAST({make}(CAST({_microseconds(value)} AS BIGINT)) AS {duckdb_type(t)})"
    return f"CAST({value.as_py()} AS {duckdb_type(t)})"


def _spark(value: pa.Scalar, wanted: str) -> str:
    t = value.type
    if not value.is_valid:
        return f"CAST(NULL AS {wanted})"
    if pa.types.is_string(t):
        return "'" + _utf8(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if pa.types.is_date32(t):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(t):
        return f"CAST(timestamp_micros({_microseconds(value)}) AS TIMESTAMP_NTZ)"
    return f"CAST({value.as_py()} AS {wanted})"


def _microseconds(value: pa.Scalar) -> int:
    return int(value.value) * (1000 if value.type.unit == "ms" else 1)


def _utf8(value: pa.Scalar) -> str:
    return str(value.as_py())


# Expressions of an engine that make the values of our reader of the values that a Parquet file stores.
#
# NaN: an engine passes over row groups whose greatest value is too small, and DuckDB answers MAX from there, but the
# statistics of Parquet leave NaN out. So columns of floats are wrapped, and conditions on them are checked row by
# row.


_CARRIED = (
    *INTEGER_ROOTS,
    *STRING_ROOTS,
    *BINARY_ROOTS,
    TypeRoot.BOOLEAN,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.DATE,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
)


def is_carried(stored: pa.DataType, declared: LogicalType) -> bool:
    """Whether each value of the stored type is one of the declared type, to engines as to our reader."""
    if declared.root not in _CARRIED:
        return False
    target = to_arrow_type(declared)
    if pa.types.is_integer(stored) and pa.types.is_integer(target):
        return bool(stored.bit_width <= target.bit_width)
    if pa.types.is_floating(stored) and pa.types.is_floating(target):
        return bool(stored.bit_width <= target.bit_width)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(target):
        return bool(stored.scale == target.scale and stored.precision <= target.precision)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(target):
        return (stored.tz is None) == (target.tz is None) and target.unit in ("ms", "us")
    return bool(stored == target)


def duckdb_expression(name: str, stored: pa.DataType, declared: LogicalType) -> str:
    """The column in the type that DuckDB has for the Arrow type of the declared one."""
    column, target = quote(name), to_arrow_type(declared)
    if pa.types.is_floating(target):
        # DuckDB takes the statistics of a column for those of all expressions over it but TRY.
        return f"TRY(CAST({column} AS {duckdb_type(target)}))"
    if pa.types.is_timestamp(target):
        cut = f"date_trunc('milliseconds', {column})" if _is_cut(stored, target) else column
        return f"CAST({cut} AS {duckdb_type(target)})"
    return column if stored == target else f"CAST({column} AS {duckdb_type(target)})"


def spark_expression(name: str, stored: pa.DataType, declared: LogicalType) -> str:
    """The column in the type of `sqlstream.spark_types`."""
    column, target, wanted = spark_name(name), to_arrow_type(declared), spark_type(declared)
    if pa.types.is_floating(target):
        return f"IF(isnan({column}), CAST('NaN' AS {wanted}), CAST({column} AS {wanted}))"
    if pa.types.is_string(target):
        # Our reader fails for bytes that are no text; Spark would hand them on.
        return f"validate_utf8({column})"
    if pa.types.is_timestamp(target):
        cut = f"date_trunc('MILLISECOND', {column})" if _is_cut(stored, target) else column
        return f"CAST({cut} AS TIMESTAMP_NTZ)"
    return column if stored == target else f"CAST({column} AS {wanted})"


def spark_stored_type(t: pa.DataType) -> str:
    """The type as which Spark reads a column."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return "TIMESTAMP_NTZ" if t.tz is None else "TIMESTAMP_LTZ"
    return _SPARK_TYPES[t]


_SPARK_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}


def _is_cut(stored: pa.DataType, target: pa.DataType) -> bool:
    return bool(stored.unit == "us" and target.unit == "ms")
