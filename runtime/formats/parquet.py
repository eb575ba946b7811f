"""Format `parquet`: columnar files, of which only the requested columns are read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.formats.file_rows import FileRows, absent_column, empty_columns
from sqlstream.runtime.formats.flat_types import refuse_types
from sqlstream.runtime.host.files import file_error
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor, ReadRequest, Rejected
from sqlstream.spi.table_options import descriptors_of, option, parse_options

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class ParquetOptions:
    """The options of a table."""

    compression: str = option(
        "compression",
        OptionType.ENUM,
        "How pages are compressed.",
        "SNAPPY",
        choices=("SNAPPY", "GZIP", "ZSTD", "LZ4", "UNCOMPRESSED"),
    )


class Parquet:
    """Columns are found by name; types that lose nothing are widened to the table's. One that a file lacks is NULL there."""

    descriptor = FormatDescriptor("parquet", descriptors_of(ParquetOptions), ".parquet")

    def reader(self, request: ReadRequest) -> FileReader:
        return ParquetReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        return ParquetWriter(stream, schema, parse_options(ParquetOptions, options).compression)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        refuse_types("parquet", schema, allows_nested=True)


class ParquetReader(FileRows):
    """Reads row group by row group, at most `batch_rows` rows at once; skipped groups are not read at all."""

    def __init__(self, request: ReadRequest) -> None:
        from sqlstream.arrow import to_arrow_type

        super().__init__(request)
        self._targets = {c: to_arrow_type(t) for c, t in self._types.items()}
        self._declared = request.schema.names
        self._batch_rows = request.batch_rows

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        import pyarrow as pa

        # What pyarrow raises for broken files is of many kinds, and none of them names the file.
        kinds = (pa.ArrowException, OSError, ValueError, ArithmeticError, LookupError, MemoryError, TypeError)
        stored = self._stored()
        while True:
            try:
                batch = next(stored, None)
            except kinds as error:
                raise self._unreadable(error) from error
            if batch is None:
                return
            yield self._cast(batch), []

    def _unreadable(self, error: Exception) -> SqlStreamError:
        if isinstance(error, OSError) and error.errno is not None:
            return file_error("read", self._path, error)
        reason = str(error).strip().split("\n", 1)[0].rstrip(". ") or type(error).__name__
        return UserError(
            "SS5011",
            f'could not read "{self._path}" as parquet: {reason}',
            hint="check that the file is a whole parquet file",
        )

    def _stored(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        # Spark's old INT96 holds years outside the range of nanoseconds, which would silently become other years.
        unit = "ns" if any("timestamp[ns" in str(t) for t in self._targets.values()) else "us"
        file = pq.ParquetFile(self._stream, coerce_int96_timestamp_unit=unit)
        self._check_columns(file.schema_arrow)
        rows = rows_of_groups(file.metadata)
        groups = self._groups_left(rows)
        present = [name for name in self._targets if name in file.schema_arrow.names]
        if not present:
            yield from (empty_columns(rows[group]) for group in groups)
        elif groups:
            for batch in file.iter_batches(
                batch_size=self._batch_rows, row_groups=groups, columns=present, use_threads=False
            ):
                # Arrow does not check texts and offsets of a file.
                batch.validate(full=True)
                yield batch

    def _check_columns(self, schema: pa.Schema) -> None:
        from sqlstream.runtime.formats.parquet_types import may_be_declared

        names = schema.names
        for wanted in self._targets:
            if wanted not in names:
                self._check_came_later(wanted, names)
                continue
            if names.count(wanted) > 1:
                raise UserError(
                    "SS5012",
                    f'the parquet file "{self._path}" has several columns "{wanted}"',
                    hint="write the file with other names, or leave the column out of the table",
                )
            stored, t = schema.field(wanted).type, self._types[wanted]
            if not may_be_declared(stored, t):
                raise self._misfit(wanted, stored)

    def _check_came_later(self, wanted: str, names: list[str]) -> None:
        """A column that a file lacks came to the table later, and is NULL. UserError SS5012 where that cannot be: the column is
        NOT NULL, its name is written otherwise there, or the file has no column of the table at all."""
        is_other_case = wanted.lower() in (name.lower() for name in names)
        if not self._types[wanted].nullable or is_other_case or not set(names) & set(self._declared):
            raise absent_column(f'the parquet file "{self._path}"', wanted, names)

    def _groups_left(self, rows: list[int]) -> list[int]:
        """Row groups that hold rows which are not passed over; `_skip_rows` then counts from the first of them."""
        first = 0
        while first < len(rows) and rows[first] <= self._skip_rows:
            self._skip_rows -= rows[first]
            first += 1
        return list(range(first, len(rows)))

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        if not self._targets:
            return batch
        columns = [
            self._cast_column(batch.column(name), name, t)
            if name in batch.schema.names
            else pa.nulls(batch.num_rows, t)
            for name, t in self._targets.items()
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(self._targets))

    def _cast_column(self, column: pa.Array, name: str, target: pa.DataType) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        from sqlstream.runtime.evaluate.time.time_parts import in_unit

        if column.type == target:
            return self._held(column, name)
        try:
            if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
                # A finer timestamp is cut to the table's precision, as everywhere.
                column = in_unit(self._held(column, name, target.unit), target.unit)
            return self._held(pc.cast(column, target), name)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._misfit(name, column.type, str(error).split("\n", 1)[0].rstrip(".")) from error

    def _misfit(self, name: str, stored: pa.DataType, reason: str = "") -> UserError:
        """`reason` is Arrow's, where the types fit and a value does not."""
        from sqlstream.runtime.formats.parquet_types import sql_name

        declared = self._types[name].without_time_attribute().with_nullable(True)
        which = ", and a value does not fit" if reason else ""
        return UserError(
            "SS5012",
            f'column "{name}" of file "{self._path}" is {sql_name(stored)}, the table declares {declared}{which}',
            detail=reason,
            hint="declare the column with the type that it has in the file",
        )

    def _held(self, column: pa.Array, name: str, unit: str = "") -> pa.Array:
        """The column, whose dates and timestamps lie in the range of their type (and of `unit`)."""
        import pyarrow as pa

        from sqlstream.runtime.evaluate.time.time_range import are_within_range, out_of_range

        is_time = pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type)
        if is_time and not are_within_range(column, unit):
            beyond = out_of_range(pa.timestamp(unit, column.type.tz) if unit else column.type)
            raise UserError(
                "SS5012",
                f'column "{name}" of "{self._path}" has a value beyond its type: {beyond.message}',
                hint=beyond.hint,
            )
        return column


def rows_of_groups(metadata: Any) -> list[int]:
    """The rows of each row group. ValueError where they are not those of the file."""
    # The columns of a group are not read: pyarrow ends the process when they are broken.
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if sum(rows) != metadata.num_rows or min(rows, default=0) < 0:
        raise ValueError(f"its {metadata.num_rows} rows are not those of its row groups")
    return rows


@functools.cache
def _arrow_writer() -> Any:
    """pyarrow's writer without its destructor, which would write the rest of an aborted file, and print to standard error
    that the stream is closed."""
    import pyarrow.parquet as pq

    class Writer(pq.ParquetWriter):  # type: ignore[misc]
        def __del__(self) -> None:
            return

    return Writer


class ParquetWriter:
    """Collects rows into row groups. State: the rows of the group that is not full."""

    def __init__(self, stream: BinaryIO, schema: Schema, compression: str) -> None:
        from sqlstream.arrow import to_arrow_schema

        self._schema = to_arrow_schema(schema)
        name = "NONE" if compression == "UNCOMPRESSED" else compression
        self._writer = _arrow_writer()(stream, self._schema, compression=name)
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            columns = [
                pa.chunked_array([b.column(i) for b in self._pending]) for i in range(len(self._schema))
            ]
            self._writer.write_table(
                pa.Table.from_arrays(columns, schema=self._schema), row_group_size=self._rows
            )
        self._pending, self._rows, self._bytes = [], 0, 0
