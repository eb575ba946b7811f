"""Format `parquet`: columnar files, of which only the requested columns are read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.runtime.formats.columnar.stored_rows import StoredRows
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.flat_types import refuse_types
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor, ReadRequest
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


class ParquetReader(StoredRows):
    """Reads row group by row group, at most `batch_rows` rows at once; skipped groups are not read at all."""

    kind = "parquet"

    def stored(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        # Spark's old INT96 holds years outside the range of nanoseconds, which would silently become other years.
        unit = "ns" if any("timestamp[ns" in str(t) for t in self.targets.values()) else "us"
        file = pq.ParquetFile(self._stream, coerce_int96_timestamp_unit=unit)
        self.check_columns(file.schema_arrow)
        rows = rows_of_groups(file.metadata)
        groups = self._groups_left(rows)
        present = [name for name in self.targets if name in file.schema_arrow.names]
        if not present:
            yield from (empty_columns(rows[group]) for group in groups)
        elif groups:
            for batch in file.iter_batches(
                batch_size=self.batch_rows, row_groups=groups, columns=present, use_threads=False
            ):
                # Arrow does not check texts and offsets of a file.
                batch.validate(full=True)
                yield batch

    def _groups_left(self, rows: list[int]) -> list[int]:
        """Row groups that hold rows which are not passed over; `_skip_rows` then counts from the first of them."""
        first = 0
        while first < len(rows) and rows[first] <= self._skip_rows:
            self._skip_rows -= rows[first]
            first += 1
        return list(range(first, len(rows)))


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
