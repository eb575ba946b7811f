"""Format `pipes`: a line of text a row, with `|` between the columns; an empty piece is NULL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.formats.file_rows import FileRows, empty_columns
from sqlstream.schema import Schema
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor, ReadRequest, Rejected
from sqlstream.types import BIGINT, STRING

if TYPE_CHECKING:
    import pyarrow as pa


class Pipes:
    """Columns of BIGINT and STRING."""

    sqlstream_api = 1
    descriptor = FormatDescriptor("pipes", options=(), file_suffix=".pipes", is_text=True)

    def reader(self, request: ReadRequest) -> FileReader:
        return PipesReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        return PipesWriter(stream)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        for field in schema.fields:
            if field.type.with_nullable(True) not in (BIGINT, STRING):
                raise UserError(
                    "SS4006",
                    f'format "pipes" cannot carry column "{field.name}" of type {field.type}',
                    hint="declare it as BIGINT or STRING",
                )


class PipesReader(FileRows):
    """Lines that have other pieces than the table has columns, or no number where one belongs, are rejected."""

    def __init__(self, request: ReadRequest) -> None:
        super().__init__(request)
        self._request = request
        self._arrow = to_arrow_schema(request.schema)

    def decoded(self) -> Iterator[tuple[Any, list[Rejected]]]:
        lines = self._request.stream.read().decode().splitlines()
        for start in range(0, len(lines), self._request.batch_rows):
            yield self._rows(start, lines[start : start + self._request.batch_rows])

    def _rows(self, start: int, lines: list[str]) -> tuple[pa.RecordBatch, list[Rejected]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces = pc.split_pattern(pa.array(lines, pa.string()), "|")
        fits = pc.equal(pc.list_value_length(pieces), len(self._arrow))
        texts: list[pa.Array] = []
        for place in range(len(self._arrow)):
            # A line of too few pieces is rejected below, and has no piece at this place.
            padded = pc.if_else(fits, pieces, pa.scalar([""] * len(self._arrow), pieces.type))
            text = pc.list_element(padded, place)
            texts.append(pc.if_else(pc.equal(text, ""), None, text))
        for field, text in zip(self._arrow, texts, strict=True):
            if pa.types.is_integer(field.type):
                is_number = pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")
                fits = pc.and_(fits, pc.fill_null(is_number, True))
        kept = pa.table(texts, names=self._arrow.names).filter(fits).combine_chunks()
        columns = [kept[name].combine_chunks().cast(self._arrow.field(name).type) for name in self._columns()]
        rejected = [
            Rejected(start + place + 1, "it is no row of the table", lines[place])
            for place in pc.indices_nonzero(pc.invert(fits)).to_pylist()
        ]
        if not columns:
            return empty_columns(kept.num_rows), rejected
        return pa.RecordBatch.from_arrays(columns, names=self._columns()), rejected

    def _columns(self) -> list[str]:
        return list(self._request.columns)


class PipesWriter:
    """Nothing is buffered."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = [pc.fill_null(column.cast(pa.string()), "") for column in batch.columns]
        lines = pc.binary_join_element_wise(*texts, "|")
        self._stream.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())

    def close(self) -> None:
        """The stream stays open."""
