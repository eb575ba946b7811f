"""Columns that stand in the names of directories."""

from __future__ import annotations

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.runtime.connectors.file_paths import DEFAULT_PARTITION_NAME, partition_values
from sqlstream.runtime.formats.text_values import parse_text
from sqlstream.runtime.inference.refusal import do_not_fit
from sqlstream.schema import Field
from sqlstream.spi.files import FileStatus
from sqlstream.types import LogicalType

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
