"""Columns of Parquet files, from their footers."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.functions.merging import common_type
from sqlstream.runtime.formats.columnar.stored_types import sql_type
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.inference.samples import FILES_MAX, cannot_infer, do_not_fit
from sqlstream.schema import Field, Schema
from sqlstream.spi.files import FileStatus
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot, is_integer

FOOTER_BYTES_MAX = 64 << 20
_WITHOUT_TYPE = {"INTERVAL": "an interval", "UUID": "a UUID"}
_DECLARE = "declare the table with CREATE TABLE and the columns that you need"


def infer_parquet(found: list[FileStatus], files: Any) -> Schema:
    """The columns of all files that are looked at, in the order in which they come; a file that lacks one has NULL there."""
    first, types = found[0].path, _types(found[0].path, files)
    for status in found[1:FILES_MAX]:
        check_not_given_up()
        _add(first, types, status.path, _types(status.path, files))
    return Schema(tuple(Field(name, _carried(t)) for name, t in types.items()))


def _types(path: str, files: Any) -> dict[str, LogicalType]:
    import pyarrow.parquet as pq

    try:
        with files.open_read(path) as stream:
            _check_footer(path, stream)
            file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            stored, odd = file.schema_arrow, _odd_columns(file.schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise file_error("read", path, error) from error
        reason = str(error).strip().split("\n", 1)[0].rstrip(". ")
        raise UserError(
            "SS5011",
            f'could not read "{path}" as parquet: {reason}',
            hint="check that the file is a whole parquet file",
        ) from error
    if len(set(stored.names)) < len(stored):
        raise cannot_infer(path, "two of its columns have one name", _DECLARE)
    return {f.name: _type(path, f.name, f.type, odd) for f in stored}


def _check_footer(path: str, stream: BinaryIO) -> None:
    """UserError SS5024 for a footer that would take much memory to read; its length stands before the last four bytes."""
    end = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, end - 8))
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(0)
    if FOOTER_BYTES_MAX < size < end:
        raise cannot_infer(path, f"its footer has {size} bytes, more than {FOOTER_BYTES_MAX}", _DECLARE)


def _odd_columns(schema: Any) -> dict[str, str]:
    """The columns that are bytes to Arrow, and more than that to Parquet."""
    columns = [schema.column(i) for i in range(len(schema))]
    return {c.path.split(".", 1)[0]: _odd_kind(c) for c in columns if _odd_kind(c)}


def _odd_kind(column: Any) -> str:
    if column.converted_type == "INTERVAL":
        return "INTERVAL"
    return "UUID" if column.logical_type.type == "UUID" else ""


def _type(path: str, name: str, stored: pa.DataType, odd: dict[str, str]) -> LogicalType:
    found = sql_type(stored)
    if found is None or name in odd:
        what = _WITHOUT_TYPE.get(odd.get(name, ""), str(stored))
        raise cannot_infer(path, f'column "{name}" is {what}, which has no SQL type', _DECLARE)
    return found


def _carried(t: LogicalType) -> LogicalType:
    """The type with what our values can have: milliseconds in a TIME, and STRING where a file has nothing but NULL."""
    match t.root:
        case TypeRoot.TIME:
            return sql.time(min(t.precision, 3))
        case TypeRoot.NULL:
            return sql.STRING
        case TypeRoot.ROW:
            return sql.row(*[(f.name, _carried(f.type)) for f in t.fields])
    if t.key is not None and t.element is not None:
        return sql.map_of(_carried(t.key), _carried(t.element))
    return sql.array(_carried(t.element)) if t.element is not None else t


def _add(first: str, types: dict[str, LogicalType], path: str, found: dict[str, LogicalType]) -> None:
    """Take the columns of one more file into `types`. UserError SS5025 where it shares none of them, has a name in other
    letters, or a type that no type holds together with theirs."""
    if not types.keys() & found.keys():
        detail = f"the columns are {', '.join(types)} and {', '.join(found)}"
        raise do_not_fit(first, path, "it has other columns", detail)
    lower = {name.lower(): name for name in types}
    for name, t in found.items():
        known = types.get(name)
        if known is None and (other := lower.get(name.lower())) is not None:
            raise do_not_fit(first, path, f'column "{name}" is written "{other}" there')
        whole = t if known is None else _widened(known, t)
        if whole is None:
            raise do_not_fit(first, path, f'column "{name}" is {_carried(t)}, not {_carried(types[name])}')
        types[name] = whole


def _widened(one: LogicalType, other: LogicalType) -> LogicalType | None:
    """The type that holds the values of both; None where there is none that loses nothing."""
    if one == other or other.root is TypeRoot.NULL:
        return one
    if one.root is TypeRoot.NULL:
        return other
    if one.root is other.root is TypeRoot.ARRAY:
        assert one.element is not None
        assert other.element is not None
        element = _widened(one.element, other.element)
        return None if element is None else sql.array(element)
    is_exact = all(is_integer(t) or t.root is TypeRoot.DECIMAL for t in (one, other))
    is_approximate = all(t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) for t in (one, other))
    is_time = one.root is other.root and one.root in (TypeRoot.TIME, *TIMESTAMP_ROOTS)
    return common_type((one, other)) if is_exact or is_approximate or is_time else None
