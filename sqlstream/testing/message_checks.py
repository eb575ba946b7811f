"""What a format of messages must do: give back what it wrote, and read many messages at once as each of them alone."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import ROW_KIND_COLUMN, ChangelogMode, RowKind
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.connectors.message_rows import MessageRows
from sqlstream.runtime.formats import IGNORE_PARSE_ERRORS, can_skip_errors, format_of
from sqlstream.specs import SourceSpec
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest
from sqlstream.testing.check import (
    Check,
    Row,
    batch_of,
    columns_text,
    expect_refused,
    rows_of,
    schema_of,
    table_text,
)
from sqlstream.testing.connector_checks import context_of

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = (1, 2, 3, 65_536)
SEEDS = range(8)
Message = bytes | None


class _Found(NamedTuple):
    """Rows (with their kinds in front) and the places of their messages; of undecodable messages place, reason and text."""

    rows: list[tuple[int, Row]]
    rejected: list[tuple[int, str, str]]


@dataclasses.dataclass(frozen=True)
class MessageCase:
    """A format of messages, columns and rows of theirs, which should have NULLs and extremes of each type.

    `options` gives those of the format, without its prefix. `messages` are contents, each with the rows that it has, or None for
    one that cannot be decoded; NULL and the empty message should be among them. `refused` are wrong options, each with the code
    of its error; `refused_columns` are types that it cannot carry (SS4006).
    """

    format: str
    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    messages: tuple[tuple[Message, tuple[Row, ...] | None], ...]
    options: Callable[[], Mapping[str, str]] = dict
    refused: tuple[tuple[Mapping[str, str], str], ...] = ()
    refused_columns: tuple[str, ...] = ()

    def checks(self) -> list[Check]:
        parts = {
            "round trip": self._round_trip,
            "columns": self._columns,
            "contents": self._contents,
            "split": self._split,
            "ignored": self._ignored,
            "told": self._told,
            "types": self._types,
            "options": self._options,
            "keys": self._keys,
        }
        if format_of(self.format).descriptor.sink_mode is not ChangelogMode.INSERT_ONLY:
            parts["changes"] = self._changes
        return [Check(f"messages of {self.format}: {name}", run) for name, run in parts.items()]

    # --- rows to messages, and back

    def _made(self) -> HasMessages:
        made = format_of(self.format)
        assert made.descriptor.has_messages, f"the descriptor of {self.format} does not say has_messages"
        assert isinstance(made, HasMessages)
        return made

    def _encoded(self, batch: pa.RecordBatch, rows_at_once: int = 65_536) -> pa.Array:
        import pyarrow as pa

        writer = self._made().message_writer(schema_of(self.columns), dict(self.options()))
        parts = []
        for start in range(0, batch.num_rows, rows_at_once):
            part = batch.slice(start, rows_at_once)
            parts.append(writer.encode(part))
            assert parts[-1].type == pa.binary(), f"messages are {parts[-1].type} instead of binary"
            assert len(parts[-1]) == part.num_rows, f"{len(parts[-1])} messages of {part.num_rows} rows"
        assert len(writer.encode(batch.slice(0, 0))) == 0, "messages of no rows"
        return pa.concat_arrays(parts)

    def _decoded(
        self, messages: pa.Array, sizes: Iterator[int] | None = None, columns: tuple[str, ...] | None = None
    ) -> _Found:
        """What one reader makes of messages, in pieces of these sizes."""
        wanted = tuple(self.columns) if columns is None else columns
        reader = self._made().message_reader(
            MessageRequest(schema_of(self.columns), wanted, dict(self.options()))
        )
        found = _Found([], [])
        start = 0
        while start < len(messages):
            part = messages.slice(start, next(sizes) if sizes else len(messages))
            made = reader.decode(part)
            self._check_batch(made, wanted, len(part))
            owners = range(made.batch.num_rows) if made.owners is None else made.owners.tolist()
            rows = _rows(made.batch, wanted)
            found.rows.extend((start + owner, row) for owner, row in zip(owners, rows, strict=True))
            found.rejected.extend((start + r.line, r.reason, r.text) for r in made.rejected)
            start += len(part)
        return found

    def _check_batch(self, made: DecodedMessages, wanted: tuple[str, ...], messages: int) -> None:
        names = [name for name in made.batch.schema.names if name != ROW_KIND_COLUMN]
        assert names == list(wanted), f"columns {names} instead of {wanted}"
        schema = to_arrow_schema(schema_of(self.columns))
        for name in wanted:
            assert made.batch.schema.field(name).type == schema.field(name).type, f"the type of column {name}"
        made.batch.validate(full=True)
        if made.owners is None:
            assert made.batch.num_rows == messages, "owners are left out, and not each message has one row"
        else:
            owners = made.owners.tolist()
            assert owners == sorted(owners), f"rows are not in the order of their messages: {owners}"
            assert all(0 <= owner < messages for owner in owners), f"{owners} of {messages} messages"
        lines = [r.line for r in made.rejected]
        assert lines == sorted(set(lines)), (
            f"undecodable messages are not named once, in their order: {lines}"
        )

    def _contents_array(self) -> pa.Array:
        import pyarrow as pa

        return pa.array([message for message, _ in self.messages], pa.binary())

    def _mixed(self, fate: random.Random) -> pa.Array:
        """Messages of rows among the others, in any order, as a slice of a longer array."""
        import pyarrow as pa

        written = self._encoded(batch_of(self.columns, self.rows)).to_pylist()
        mixed = [*written, *(message for message, _ in self.messages)] * 2
        fate.shuffle(mixed)
        return pa.array([b"before", *mixed], pa.binary()).slice(1)

    # --- checks

    def _round_trip(self, directory: Path) -> None:
        wanted = [(place, (RowKind.INSERT, *row)) for place, row in enumerate(self.rows)]
        for rows_at_once in AT_ONCE:
            messages = self._encoded(batch_of(self.columns, self.rows), rows_at_once)
            for messages_at_once in AT_ONCE:
                found = self._decoded(messages, _always(messages_at_once))
                said = f"written {rows_at_once}, read {messages_at_once} at once"
                assert not found.rejected, f"{said}: {found.rejected[0]}"
                for got, want in zip(found.rows, wanted, strict=True):
                    assert repr(got) == repr(want), f"{said}: {got} instead of {want}"

    def _changes(self, directory: Path) -> None:
        """What takes a row away is read as a deletion, the rest as insertions."""
        import numpy as np

        kinds = [RowKind(place % len(RowKind)) for place in range(len(self.rows))]
        changes = with_row_kinds(batch_of(self.columns, self.rows), np.array(kinds, dtype=np.int8))
        for rows_at_once in AT_ONCE:
            found = self._decoded(self._encoded(changes, rows_at_once))
            is_gone = [kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE) for kind in kinds]
            wanted = [
                (RowKind.DELETE if gone else RowKind.INSERT, *row)
                for gone, row in zip(is_gone, self.rows, strict=True)
            ]
            assert [row for _, row in found.rows] == wanted, f"{found.rows} instead of {wanted}"

    def _columns(self, directory: Path) -> None:
        messages = self._encoded(batch_of(self.columns, self.rows))
        for place, name in enumerate(self.columns):
            found = [row[1:] for _, row in self._decoded(messages, columns=(name,)).rows]
            assert found == [(row[place],) for row in self.rows], name
        assert len(self._decoded(messages, columns=()).rows) == len(self.rows), "rows without columns"
        backwards = tuple(reversed(tuple(self.columns)))
        found = [row[1:] for _, row in self._decoded(messages, columns=backwards).rows]
        assert found == [row[::-1] for row in self.rows], backwards

    def _contents(self, directory: Path) -> None:
        found = self._decoded(self._contents_array())
        for place, (message, rows) in enumerate(self.messages):
            own = tuple(row[1:] for owner, row in found.rows if owner == place)
            is_rejected = any(line == place for line, _, _ in found.rejected)
            assert is_rejected == (rows is None), f"{message!r} is {'' if is_rejected else 'not '}rejected"
            assert own == (rows or ()), f"{own} is read of {message!r}"

    def _split(self, directory: Path) -> None:
        """Each message is read as it would be alone, whatever stands before and behind it."""
        for seed in SEEDS:
            fate = random.Random(seed)
            messages = self._mixed(fate)
            alone = self._decoded(messages, _always(1))
            for sizes in (_always(len(messages)), _always(2), _any(fate)):
                found = self._decoded(messages, sizes)
                assert repr(found.rows) == repr(alone.rows), f"rows of messages together, seed {seed}"
                assert found.rejected == alone.rejected, f"undecodable messages together, seed {seed}"
        empty = self._decoded(messages.slice(0, 0))
        assert empty == ([], []), "rows of no messages"

    # --- as connectors read them

    def _source(self, **more: str) -> tuple[MessageRows, dict[str, int]]:
        """A reader of a table, and what it counts."""
        options = {"format": self.format, **self._prefixed(more)}
        spec = SourceSpec(
            table="t",
            connector="messages",
            options=options,
            schema=schema_of(self.columns),
            columns=tuple(self.columns),
        )
        counted: dict[str, int] = {}

        def count(name: str, number: int) -> None:
            counted[name] = counted.get(name, 0) + number

        context = dataclasses.replace(context_of(), count=count)
        return MessageRows(spec, context, "SS5332", "the place"), counted

    def _prefixed(self, more: Mapping[str, str]) -> dict[str, str]:
        given = {**self.options(), **more}
        return {f"{self.format}.{key}": value for key, value in given.items()}

    def _ignored(self, directory: Path) -> None:
        """Undecodable messages are counted, and the others have their rows."""
        if not can_skip_errors(self.format):
            return
        messages = self._mixed(random.Random(0))
        wanted = self._decoded(messages)
        for at_once in AT_ONCE:
            reader, counted = self._source(**{IGNORE_PARSE_ERRORS: "true"})
            rows = [
                row
                for start in range(0, len(messages), at_once)
                for row in _rows(reader.rows(messages.slice(start, at_once)), tuple(self.columns))
            ]
            assert repr(rows) == repr([row for _, row in wanted.rows]), f"rows, {at_once} at once"
            assert counted.get("numRecordsRejected", 0) == len(wanted.rejected), (
                f"{counted}, {at_once} at once"
            )

    def _told(self, directory: Path) -> None:
        """The first undecodable message ends the job, and is named."""
        messages = self._mixed(random.Random(1))
        wanted = self._decoded(messages).rejected
        for at_once in AT_ONCE if wanted else ():
            reader, _ = self._source()
            place, reason, _ = wanted[0]
            try:
                for start in range(0, len(messages), at_once):
                    reader.rows(messages.slice(start, at_once))
            except UserError as error:
                failure = error
            else:
                raise AssertionError(f"an undecodable message is passed over: {reason}")
            said = f"could not decode message {place + 1} of the place: {reason}"
            assert failure.message == said, f"{failure.message!r} instead of {said!r}"
            assert failure.hint, "without a hint"

    def _table(self, columns: str, **more: str) -> str:
        options = {"connector": "websocket", "url": "ws://localhost:1/", "format": self.format}
        return table_text("t", columns, {**options, **self._prefixed(more)})

    def _types(self, directory: Path) -> None:
        for text in self.refused_columns:
            expect_refused(self._table(f"`refused` {text}"), "SS4006", f"a column of type {text}")

    def _keys(self, directory: Path) -> None:
        """Keys and values of a topic may be of the format, unless its messages are changes."""
        name, *_ = self.columns
        for connector, more in (("kafka", {"key.fields": name}), ("upsert-kafka", {})):
            options = {
                "connector": connector,
                "topic": "t",
                "properties.bootstrap.servers": "localhost:1",
                **more,
            }
            for side in ("key", "value"):
                options[f"{side}.format"] = self.format
                options |= {f"{side}.{key}": value for key, value in self._prefixed({}).items()}
            columns = f"{columns_text(self.columns)}, PRIMARY KEY (`{name}`) NOT ENFORCED"
            made = table_text("t", columns, options)
            if format_of(self.format).descriptor.reads_events:
                expect_refused(made, "SS4003", f"keys and values of {connector} that are changes")
            else:
                rows_of([made, "SHOW TABLES"])

    def _options(self, directory: Path) -> None:
        columns = columns_text(self.columns)
        wrong = {"no-such-option": "1"}
        expect_refused(self._table(columns, **wrong), "SS4003", "an option that is not there")
        for options, code in self.refused:
            expect_refused(self._table(columns, **options), code, f"the options {dict(options)}")
        descriptor = format_of(self.format).descriptor
        if not descriptor.has_files:
            in_files = {"connector": "filesystem", "path": str(directory), "format": self.format}
            expect_refused(
                table_text("t", columns, {**in_files, **self._prefixed({})}), "SS4003", "files of messages"
            )
        try:
            format_of(self.format).validate(schema_of(self.columns), dict(self.options()))
        except SqlStreamError as error:
            raise AssertionError(f"the options of the case are refused: {error.message}") from error


def _always(number: int) -> Iterator[int]:
    while True:
        yield number


def _any(fate: random.Random) -> Iterator[int]:
    while True:
        yield fate.randrange(1, 9)


def _rows(batch: pa.RecordBatch, columns: tuple[str, ...]) -> list[Row]:
    """Rows behind their kinds."""
    kinds: list[Any] = [RowKind.INSERT] * batch.num_rows
    if ROW_KIND_COLUMN in batch.schema.names:
        kinds = [RowKind(kind) for kind in batch.column(ROW_KIND_COLUMN).to_pylist()]
    values = [batch.column(name).to_pylist() for name in columns]
    return (
        [(kind, *row) for kind, row in zip(kinds, zip(*values, strict=True), strict=True)]
        if values
        else [(kind,) for kind in kinds]
    )
