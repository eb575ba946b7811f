"""Tables of Arrow batches that this process has: kept as Parquet files, which a job that fails reads again."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.arrow import to_arrow_type
from sqlstream.client.dbapi.errors import DataError, ProgrammingError
from sqlstream.client.dbapi.literals import text_literal
from sqlstream.client.dbapi.tables.text import Duration, interval, path_text, quoted
from sqlstream.planner.dialect.parser import parse_type

if TYPE_CHECKING:
    from sqlstream.client.dbapi.connection import Connection
    from sqlstream.client.dbapi.tables.table import Table

_SIMPLE = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary(): "BYTES",
    pa.large_binary(): "BYTES",
    pa.binary_view(): "BYTES",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FILE = re.compile(r"batches-(\d{12})\.parquet")


def sql_type(t: pa.DataType) -> str:
    """The SQL type that holds the values of an Arrow type. ProgrammingError SS3447 for one that there is none for.

    >>> sql_type(pa.list_(pa.int32())), sql_type(pa.timestamp("us", "UTC")), sql_type(pa.dictionary(pa.int8(), pa.string()))
    ('ARRAY<INT>', 'TIMESTAMP_LTZ(6)', 'STRING')
    """
    if t in _SIMPLE:
        return _SIMPLE[t]
    if pa.types.is_timestamp(t):
        return f"TIMESTAMP{'_LTZ' if t.tz else ''}({_DIGITS[t.unit]})"
    if pa.types.is_time(t):
        return "TIME(3)"
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_dictionary(t):
        return sql_type(t.value_type)
    if pa.types.is_fixed_size_binary(t):
        return f"BINARY({t.byte_width})"
    if pa.types.is_map(t):
        return f"MAP<{sql_type(t.key_type)}, {sql_type(t.item_type)}>"
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return f"ARRAY<{sql_type(t.value_type)}>"
    if pa.types.is_struct(t):
        return f"ROW<{', '.join(f'{quoted(field.name)} {sql_type(field.type)}' for field in t)}>"
    raise ProgrammingError(
        f"there is no SQL type for {t} of Arrow", code="SS3447", hint="cast the column to another type"
    )


@dataclasses.dataclass(frozen=True)
class TableOfFiles:
    """The declaration of a table over a directory of Parquet files. `schema` has the types of what is written."""

    name: str
    columns: tuple[tuple[str, str], ...]
    directory: Path
    watermark: tuple[str, Duration] | None = None
    primary_key: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        types = {name: parse_type(type_) for name, type_ in self.columns}
        return pa.schema([pa.field(n, to_arrow_type(t), t.nullable) for n, t in types.items()])

    @property
    def statement(self) -> str:
        parts = [f"{quoted(name)} {type_}" for name, type_ in self.columns]
        if self.watermark is not None:
            time, delay = quoted(self.watermark[0]), interval(self.watermark[1])
            parts.append(f"WATERMARK FOR {time} AS {time} - {delay}")
        if self.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self.primary_key))}) NOT ENFORCED")
        place = (("connector", "filesystem"), ("path", str(self.directory)), ("format", "parquet"))
        options = ", ".join(f"{text_literal(k)} = {text_literal(v)}" for k, v in (*place, *self.options))
        return f"CREATE TEMPORARY TABLE {path_text(self.name)} ({', '.join(parts)}) WITH ({options})"

    def fitted(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """The rows in the types of the table. DataError where they do not fit, and for columns that would be lost."""
        _check_batch(batch)
        names = [name for name, _ in self.columns]
        if more := [name for name in batch.schema.names if name not in names]:
            raise DataError(
                f"a batch does not fit the table, which has no columns {', '.join(more)}",
                hint=f"leave them out: batch.select({names})",
            )
        try:
            rows = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            return rows.select(names).cast(self.schema)
        except (
            pa.ArrowInvalid,
            pa.ArrowNotImplementedError,
            pa.ArrowTypeError,
            KeyError,
            ValueError,
        ) as error:
            hint = "give every batch the columns and types of the first one, or of the schema"
            raise DataError(f"a batch does not fit the table: {error}", hint=hint) from error

    def _publish(self, hidden: Path) -> None:
        """Give a file the next name: names are in the order in which they were made, and each writer has its own."""
        while True:
            found = [_FILE.fullmatch(path.name) for path in self.directory.iterdir()]
            number = max((int(match[1]) for match in found if match is not None), default=-1) + 1
            path = self.directory / f"batches-{number:012}.parquet"
            try:
                return os.link(hidden, path)
            except FileExistsError:
                continue
            except OSError:
                # A file system without links: it is for one writer.
                return os.replace(hidden, path)

    def write(self, tables: Iterable[pa.Table]) -> None:
        """Add a file with these rows, which is there as a whole or not at all."""
        # Readers skip what begins with a point.
        hidden = self.directory / f".batches-{secrets.token_hex(8)}"
        try:
            with open(hidden, "wb") as file:
                with pq.ParquetWriter(file, self.schema) as writer:
                    for table in tables:
                        writer.write_table(table)
                file.flush()
                os.fsync(file.fileno())
            self._publish(hidden)
        finally:
            hidden.unlink(missing_ok=True)


class Feed:
    """A table that grows: what `write` has added is read by the queries that run, and by those that start later.

    The rows are files of a directory, which a job that fails reads again where its checkpoint says. A program that is started
    again goes on with the same name and directory.
    """

    def __init__(self, declared: TableOfFiles, table: Table) -> None:
        self._declared = declared
        self.table = table

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows; they are kept when this returns. DataError for a batch that does not fit."""
        self._declared.write([self._declared.fitted(batch)])


def from_batches(
    connection: Connection,
    batches: Any,
    schema: pa.Schema | None,
    name: str,
    directory: str,
    watermark: tuple[str, Duration] | None,
    primary_key: Sequence[str],
) -> Table:
    """See `Connection.from_batches`."""
    first, rest = _opened(batches, schema)
    place = _directory(connection, directory)
    named = name or f"batches_{next(connection.numbers)}"
    declared = TableOfFiles(named, _with_row_time(first, watermark), place, watermark, tuple(primary_key))
    if any(_FILE.fullmatch(path.name) for path in place.iterdir()):
        hint = "name an empty directory, or go on with connection.table(…)"
        raise ProgrammingError(f'"{directory}" has batches of another table', code="SS3447", hint=hint)
    declared.write(map(declared.fitted, rest))
    return _created(connection, declared)


def feed(
    connection: Connection,
    name: str,
    schema: pa.Schema,
    directory: str,
    watermark: tuple[str, Duration] | None,
    primary_key: Sequence[str],
    look_every: Duration,
) -> Feed:
    """See `Connection.feed`."""
    columns, _ = _opened((), schema)
    place = _directory(connection, directory)
    milliseconds = f"{_milliseconds(look_every)} ms"
    options = (("source.monitor-interval", milliseconds),)
    declared = TableOfFiles(
        name, _with_row_time(columns, watermark), place, watermark, tuple(primary_key), options
    )
    return Feed(declared, _created(connection, declared))


def _milliseconds(length: Duration) -> int:
    import datetime

    from sqlstream.config_option import parse_duration_ms

    if isinstance(length, datetime.timedelta):
        return length // datetime.timedelta(milliseconds=1)
    interval(length)
    return parse_duration_ms(length)


def _created(connection: Connection, declared: TableOfFiles) -> Table:
    with connection.cursor() as cursor:
        cursor.execute(declared.statement)
    return connection.table(declared.name)


def _opened(
    batches: Any, schema: pa.Schema | None
) -> tuple[tuple[tuple[str, str], ...], Iterator[pa.RecordBatch | pa.Table]]:
    """The columns of a table, and its batches."""
    if hasattr(batches, "to_batches"):
        schema, given = schema or batches.schema, iter(batches.to_batches())
    elif hasattr(batches, "iloc"):
        table = pa.Table.from_pandas(batches, preserve_index=False)
        schema, given = schema or table.schema, iter(table.to_batches())
    else:
        schema = schema or getattr(batches, "schema", None)
        given = iter([batches] if isinstance(batches, pa.RecordBatch) else batches)
    if schema is None:
        head = next(given, None)
        if head is None:
            hint = "give the schema: from_batches(batches, schema=…)"
            raise ProgrammingError("there is no batch that tells the columns", code="SS3447", hint=hint)
        _check_batch(head)
        schema, given = head.schema, _with(head, given)
    return tuple((field.name, _column_type(field)) for field in schema), given


def _column_type(field: pa.Field) -> str:
    try:
        return sql_type(field.type) + ("" if field.nullable else " NOT NULL")
    except ProgrammingError as error:
        message = f'column "{field.name}": {error.message}'
        raise ProgrammingError(message, code="SS3447", hint=error.hint) from None


def _check_batch(given: Any) -> None:
    """DataError for what has no columns of Arrow."""
    if not isinstance(given, pa.RecordBatch | pa.Table):
        raise DataError(
            f"a batch is a RecordBatch or Table of pyarrow, and not of the type {type(given).__name__}",
            hint="make one of rows: pyarrow.Table.from_pylist([{'a': 1}, …])",
        )
    names = given.schema.names
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(
            f"a batch has several columns {', '.join(twice)}", hint="give each column a name of its own"
        )


def _with_row_time(
    columns: tuple[tuple[str, str], ...], watermark: tuple[str, Duration] | None
) -> tuple[tuple[str, str], ...]:
    """The columns with a row time of milliseconds, as all are."""
    time = watermark[0] if watermark is not None else ""
    return tuple(
        (n, re.sub(r"(?<=^TIMESTAMP\()\d|(?<=^TIMESTAMP_LTZ\()\d", "3", t) if n == time else t)
        for n, t in columns
    )


def _with(head: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield head
    yield from rest


def _directory(connection: Connection, given: str) -> Path:
    """The directory of the files: what is given, or one that goes with the connection."""
    from sqlstream.client.connection.embedded import EmbeddedConnection

    if given:
        place = Path(given).absolute()
        place.mkdir(parents=True, exist_ok=True)
        return place
    if not isinstance(connection.session, EmbeddedConnection):
        raise ProgrammingError(
            "a server does not read the memory of this process",
            code="SS3447",
            hint="give a directory that both can reach: directory=…",
        )
    made = tempfile.TemporaryDirectory(prefix="sqlstream-batches-")
    connection.directories.append(made)
    return Path(made.name)
