"""The declaration and protocols of a format, which is one file in runtime/formats plus one line in its registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionDescriptor

if TYPE_CHECKING:
    import pyarrow as pa


class FormatDescriptor(msgspec.Struct, frozen=True):
    """Option keys are given without the format's prefix: `ignore-parse-errors`, written `json.ignore-parse-errors`.

    `is_text`: a reader takes the file from its beginning to its end, whatever each read gives; the first rows can be had from
    the first bytes. `source_mode`: the changelog that a reader gives, whose batches end with the column of row kinds unless it is
    INSERT_ONLY; `sink_mode`: the widest that a writer takes.
    """

    identifier: str
    options: tuple[OptionDescriptor, ...]
    file_suffix: str
    is_text: bool = False
    source_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    sink_mode: ChangelogMode = ChangelogMode.INSERT_ONLY


class Rejected(msgspec.Struct, frozen=True):
    """An undecodable row: 1-based line in its file, the reason, and the raw text as it stood there."""

    line: int
    reason: str
    text: str


class FileReader(Protocol):
    """One file as batches, in file order."""

    def batches(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        """Batches of about `batch_rows` rows with the requested columns, each with the rows rejected on the way."""

    def close(self) -> None: ...


class FileWriter(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what is buffered and the footer; the stream itself stays open."""


class Format(Protocol):
    descriptor: FormatDescriptor

    def reader(
        self,
        stream: BinaryIO,
        path: str,
        schema: Schema,
        columns: tuple[str, ...],
        options: dict[str, str],
        batch_rows: int,
        skip_rows: int = 0,
        block_bytes: int | None = None,
    ) -> FileReader:
        """A reader of `stream` that makes only `columns` of `schema`; `skip_rows` rows are passed over first.

        `block_bytes`, in a format of text, is how much (decompressed) text is decoded at once, but for longer rows; None is
        what is fastest.
        """

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter: ...

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        """Checks beyond the descriptor: types the format cannot carry. UserError SS40xx."""
