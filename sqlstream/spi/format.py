"""The declaration and protocols of a format, which is one file in runtime/formats plus one line in its registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, runtime_checkable

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.schema import Field, Schema
from sqlstream.spi.connector import OptionDescriptor
from sqlstream.spi.files import Files
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class FormatDescriptor(msgspec.Struct, frozen=True):
    """Option keys are given without the format's prefix: `ignore-parse-errors`, written `json.ignore-parse-errors`.

    `is_text`: a reader takes the file from its beginning to its end, whatever each read gives; the first rows can be had from
    the first bytes. `source_mode`: the changelog that a reader gives, whose batches end with the column of row kinds unless it is
    INSERT_ONLY; `sink_mode`: the widest that a writer takes. `reads_events`: a row is an event that says how a table of another
    database changes (`EventDemand`); with a primary key, rows are read by it. `leaves_out_values`: an update may lack values
    that it does not change. `metadata` maps the metadata keys of an event to types; those of
    `varying_metadata` have another value in each event of a row. `has_messages`: a row, or an event, may also be one message of a
    queue (`HasMessages`), and without `has_files` it is nothing else. `subject_option`: the option that names the subject of a
    registry, by default after the topic of the messages. `path_options`: those that name local files.
    """

    identifier: str
    options: tuple[OptionDescriptor, ...]
    file_suffix: str
    is_text: bool = False
    source_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    sink_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    reads_events: bool = False
    leaves_out_values: bool = False
    metadata: dict[str, LogicalType] = {}
    varying_metadata: frozenset[str] = frozenset()
    has_messages: bool = False
    has_files: bool = True
    subject_option: str = ""
    path_options: tuple[str, ...] = ()


class EventDemand(msgspec.Struct, frozen=True):
    """What a table wants of a reader of events.

    `keys`: its primary key, by which changes are read: a +U or +I replaces the row of its key, a -D carries at least the key, and
    there is no -U. Without keys every -U and -D carries a whole row. `metadata`: what else is read of each event, by its metadata
    key; the columns are named by `event_column`. `marked`: unless it is empty, the last column is UNKNOWN_VALUES. For each event
    that column names the values that it does not have, by the places of their columns in `marked`.
    """

    keys: tuple[str, ...] = ()
    metadata: tuple[Field, ...] = ()
    marked: tuple[str, ...] = ()


_WHOLE_ROWS = EventDemand()


def event_column(key: str) -> str:
    """The name of the column with a metadata key of events, which is none of the table's columns."""
    return f"$event:{key}"


BATCH_ROWS = 65_536

VALUE_PREFIX, KEY_PREFIX = "value.", "key."
"""May stand before the options of a format where rows are messages, which have values and keys; the former also before a metadata
key of a format."""

FORMAT_KEYS = ("format", f"{VALUE_PREFIX}format", f"{KEY_PREFIX}format")
"""The options that name a format; the first two the same one."""


def value_format(options: Mapping[str, str]) -> str:
    """The format of a table's rows, which `value.format` may name too where they are messages; empty without any."""
    return options.get("format") or options.get(f"{VALUE_PREFIX}format", "")


UNKNOWN_VALUES = "$unknown_values"
"""The column of marks: `,0,3,` for a row whose columns 0 and 3 are unknown, NULL for a whole row."""


@dataclasses.dataclass(frozen=True)
class ReadRequest:
    """What is read of a file: `stream`, which the reader closes, and only `columns` of `schema`; the first `skip_rows` rows are
    passed over.

    `batch_rows`: about how many rows come at once where a file does not say it. `block_bytes`: in a format of text, how much
    (decompressed) text is decoded at once, but for longer rows; None is what is fastest. `demand`: what the table wants of
    events, for a format that `reads_events`.
    """

    stream: BinaryIO
    path: str
    schema: Schema
    columns: tuple[str, ...]
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    batch_rows: int = BATCH_ROWS
    skip_rows: int = 0
    block_bytes: int | None = None
    demand: EventDemand = _WHOLE_ROWS


class Rejected(msgspec.Struct, frozen=True):
    """An undecodable row: 1-based line in its file (of messages: its place among them, from 0), the reason, and the raw text as
    it stood there."""

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

    def reader(self, request: ReadRequest) -> FileReader: ...

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter: ...

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        """Checks beyond the descriptor: types the format cannot carry. UserError SS40xx."""


# Messages of queues: each is a row, or an event.


@dataclasses.dataclass(frozen=True)
class MessageRequest:
    """What is read of messages, as in `ReadRequest`."""

    schema: Schema
    columns: tuple[str, ...]
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    demand: EventDemand = _WHOLE_ROWS

    def types(self) -> dict[str, LogicalType]:
        """The types of the columns, by their names."""
        return {name: self.schema.types[self.schema.index_of(name)] for name in self.columns}


class DecodedMessages(NamedTuple):
    """The rows of some messages, in their order. `owners`: the place of each row's message, int64; None where each message has
    one row. `rejected`: the undecodable messages, which have no row."""

    batch: pa.RecordBatch
    owners: np.ndarray[Any, Any] | None
    rejected: list[Rejected]


class MessageReader(Protocol):
    def decode(self, messages: pa.Array) -> DecodedMessages:
        """Rows of messages, a binary array in which NULL is a message without content. It has a row if the format says so."""


class MessageWriter(Protocol):
    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """A message for each row: a binary array. The batch is a changelog if the format's writers take one."""


@runtime_checkable
class HasMessages(Protocol):
    """A format whose rows, or events, may be messages. An undecodable message is never an error of the reader: whoever has read
    it knows where it comes from, and what the options say."""

    def message_reader(self, request: MessageRequest) -> MessageReader: ...

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter: ...


class MessagesOnlyFormat:
    """The part of a format that no file has; `file_format` is the one to use for files instead, if there is one."""

    descriptor: FormatDescriptor
    file_format = ""

    def reader(self, request: ReadRequest) -> FileReader:
        raise self._no_files()

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        raise self._no_files()

    def _no_files(self) -> UserError:
        hint = f"use format {self.file_format} for files" if self.file_format else _OF_MESSAGES
        return UserError("SS4003", f'format "{self.descriptor.identifier}" is one of messages', hint=hint)


_OF_MESSAGES = "use it with a connector of messages, such as kafka"


@runtime_checkable
class CountsEvents(Protocol):
    """A reader that counts events which change no row."""

    def take_counts(self) -> dict[str, int]:
        """By metric, those since the last call."""


@runtime_checkable
class CallsServers(Protocol):
    """A reader or writer of messages that calls servers, such as a registry of schemas."""

    def call_through(self, files: Files) -> None:
        """Before the first message: whom these files let it call."""
