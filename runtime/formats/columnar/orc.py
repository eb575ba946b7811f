"""Format `orc`: columnar files in stripes, of which only the requested columns are read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.errors import UserError
from sqlstream.runtime.formats.columnar.stored_rows import StoredRows
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.flat_types import refuse_types
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor, ReadRequest
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    import pyarrow as pa


_COMPRESSED_BYTES = 1 << 18
"""How many bytes are compressed at once, as by default in Java."""


@dataclass(frozen=True, kw_only=True)
class OrcOptions:
    """The options of a table, which are properties of ORC's tables."""

    compression: str = option(
        "compress",
        OptionType.ENUM,
        "How what is written is compressed.",
        "ZLIB",
        choices=("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"),
    )
    stripe_bytes: int = option(
        "stripe.size", OptionType.LONG, "How many bytes a stripe has.", "67108864", minimum=1024
    )
    index_rows: int = option(
        "row.index.stride",
        OptionType.INTEGER,
        "How many rows an entry of the index is about.",
        "10000",
        minimum=1000,
    )


class Orc:
    """All types but TIME. TIMESTAMP has the range of nanoseconds, the years 1678 to 2261."""

    descriptor = FormatDescriptor("orc", descriptors_of(OrcOptions), ".orc")

    def reader(self, request: ReadRequest) -> FileReader:
        return OrcReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        for field in schema.fields:
            if _has_row_in_row(field.type):
                raise UserError(
                    "SS4006",
                    f'format "orc" cannot write column "{field.name}" of type {field.type}',
                    column=field.name,
                    detail="the library for ORC moves values of a ROW within a ROW where one of them is NULL",
                    hint="write the fields as columns, or use format parquet",
                )
        return OrcWriter(stream, schema, parse_options(OrcOptions, options))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        refuse_types("orc", schema, allows_nested=True)
        for field in schema.fields:
            if _has_time(field.type):
                raise UserError(
                    "SS4006",
                    f'format "orc" cannot carry column "{field.name}" of type {field.type}',
                    column=field.name,
                    hint="use a cast to STRING, or format parquet",
                )


def _has_row_in_row(t: LogicalType, *, is_inner: bool = False) -> bool:
    is_row = t.root is TypeRoot.ROW
    return (is_row and is_inner) or any(_has_row_in_row(p, is_inner=is_inner or is_row) for p in t.parts)


def _has_time(t: LogicalType) -> bool:
    return t.root in (TypeRoot.TIME, TypeRoot.NULL) or any(map(_has_time, t.parts))


class OrcReader(StoredRows):
    """Reads stripe by stripe, and gives at most `batch_rows` rows at once."""

    kind = "orc"

    def stored(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.orc

        file = pyarrow.orc.ORCFile(self._stream)
        _check_tail(file.reader.serialized_file_tail(), file.file_length)
        self.check_columns(file.schema)
        present = [name for name in self.targets if name in file.schema.names]
        if not present:
            yield empty_columns(file.nrows)
            return
        for stripe in range(file.nstripes):
            rows = file.read_stripe(stripe, columns=present)
            # Arrow does not check texts and offsets of a file.
            rows.validate(full=True)
            for first in range(0, rows.num_rows, self.batch_rows):
                yield rows.slice(first, self.batch_rows)


_TAIL = """
syntax = "proto2";
message Tail { optional Footer footer = 2; }
message Footer { repeated Stripe stripes = 3; repeated Type types = 4; optional uint64 rows = 6; }
message Stripe {
  optional uint64 offset = 1; optional uint64 index = 2; optional uint64 data = 3; optional uint64 footer = 4;
  optional uint64 rows = 5;
}
message Type { optional uint32 kind = 1; optional uint32 precision = 5; }
"""
"""What is looked at of ORC's own descriptor of a tail."""
_DECIMAL, _PRECISION_MAX = 14, 38


@functools.cache
def _tail_message() -> Any:
    from google.protobuf import message_factory

    from sqlstream.runtime.formats.protobuf.descriptors import files_of_text

    return message_factory.GetMessageClass(files_of_text(_TAIL)[0].message_types_by_name["Tail"])


def _check_tail(tail: bytes, file_bytes: int) -> None:
    """ValueError for a damaged tail. The library ends the process at a DECIMAL of too many digits, and takes what the tail says
    of rows and stripes for true."""
    footer = _tail_message().FromString(tail).footer
    digits = max((t.precision for t in footer.types if t.kind == _DECIMAL), default=0)
    if digits > _PRECISION_MAX:
        raise ValueError(f"its footer has a DECIMAL of {digits} digits")
    if sum(stripe.rows for stripe in footer.stripes) != footer.rows:
        raise ValueError("the rows of its stripes are not those of the file")
    if any(s.offset + s.index + s.data + s.footer > file_bytes for s in footer.stripes):
        raise ValueError("a stripe ends behind the file")


@functools.cache
def _arrow_writer() -> Any:
    """pyarrow's writer without its destructor, which would write the rest of an aborted file."""
    import pyarrow.orc

    class Writer(pyarrow.orc.ORCWriter):  # type: ignore[misc]
        def __del__(self) -> None:
            return

    return Writer


class OrcWriter:
    """The library collects rows into stripes."""

    def __init__(self, stream: BinaryIO, schema: Schema, options: OrcOptions) -> None:
        from sqlstream.arrow import to_arrow_schema

        compression = "uncompressed" if options.compression == "NONE" else options.compression.lower()
        self._writer = _arrow_writer()(
            stream,
            compression=compression,
            compression_block_size=_COMPRESSED_BYTES,
            stripe_size=options.stripe_bytes,
            row_index_stride=options.index_rows,
        )
        # Also a file without rows has columns.
        self._writer.write(to_arrow_schema(schema).empty_table())

    def write(self, batch: pa.RecordBatch) -> None:
        import numpy as np
        import pyarrow as pa

        if any(column.offset for column in batch.columns):
            # The library takes NULLs of nested columns from the begin of their memory.
            batch = batch.take(pa.array(np.arange(batch.num_rows)))
        self._writer.write(pa.Table.from_batches([batch]))

    def close(self) -> None:
        self._writer.close()
