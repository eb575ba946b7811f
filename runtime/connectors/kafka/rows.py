"""Rows of messages, and messages of rows: what the formats make of values and keys, and what is known of each message."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_type
from sqlstream.changelog import ROW_KIND_COLUMN, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.kafka.consumer import Run, Taken
from sqlstream.runtime.connectors.kafka.options import FormatOptions, KafkaOptions
from sqlstream.runtime.connectors.kafka.producer import Messages
from sqlstream.runtime.connectors.message_rows import undecodable
from sqlstream.runtime.connectors.rejected_rows import Origin, RejectedRows
from sqlstream.runtime.formats import (
    calling_through,
    count_events,
    event_demand,
    format_of,
    skips_errors,
)
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.schema import Field
from sqlstream.specs import MetadataSinkSpec, SinkSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files
from sqlstream.spi.format import (
    UNKNOWN_VALUES,
    DecodedMessages,
    HasMessages,
    MessageReader,
    MessageRequest,
    Rejected,
    event_column,
)
from sqlstream.terminal_text import shortened

_TEXT_CHARACTERS_MAX = 200
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What brokers take for the name of a topic."""
_TIME_KINDS = ("NoTimestampType", "CreateTime", "LogAppendTime")


def messages_format(form: FormatOptions) -> HasMessages:
    made = format_of(form.identifier)
    assert isinstance(made, HasMessages)
    return made


class MessageRows:
    """Decodes messages of one partition at a time. No state but that of the formats."""

    def __init__(self, spec: SourceSpec, options: KafkaOptions, context: ConnectorContext) -> None:
        self._context, self._options = context, options
        self._rejected = RejectedRows.of_messages(spec.options, context)
        value_format = options.value_format
        demand = event_demand(spec, format_of(value_format.identifier))
        values = options.value_schema(spec.schema)
        # The key says which row a message is of, also when it has no value.
        of_key = set(options.key_fields) if options.is_upsert else set(spec.columns) - set(values.names)
        of_value = tuple(c for c in spec.columns if c not in of_key)
        self._reader = calling_through(
            messages_format(value_format).message_reader(
                MessageRequest(values, of_value, value_format.options, demand)
            ),
            context.files,
        )
        self._of_keys = {options.key_name(c): c for c in spec.columns if c in of_key}
        self._key_reader: MessageReader | None = None
        if self._of_keys and options.key_format is not None:
            form = options.key_format
            self._key_reader = calling_through(
                messages_format(form).message_reader(
                    MessageRequest(options.key_schema(spec.schema), tuple(self._of_keys), form.options)
                ),
                context.files,
            )
        self._metadata = {f.name: f for f in spec.metadata if f not in demand.metadata}
        event_names = {f.name: event_column(f.name) for f in demand.metadata}
        self._names = [*spec.columns, *(event_names.get(f.name, f.name) for f in spec.metadata)]
        if demand.marked:
            self._names.append(UNKNOWN_VALUES)

    def decoded(self, taken: Taken, run: Run) -> pa.RecordBatch:
        """The rows of a run of messages, in the layout of the source."""
        self._context.count("numBytesIn", taken.bytes_of_values(run))
        values = taken.values(run)
        found = self._reader.decode(values)
        count_events(self._reader, self._context.count)
        self._refuse(taken, run, found.rejected, self._options.value_format, "message")
        if self._key_reader is None and not self._metadata:
            self._keep(taken, run, found.rejected)
            return found.batch
        if self._options.is_upsert:
            found = _with_deletions(found, values)
        columns = {n: found.batch.column(i) for i, n in enumerate(found.batch.schema.names)}
        if self._key_reader is not None:
            keys = self._key_reader.decode(taken.keys(run))
            assert self._options.key_format is not None
            self._refuse(taken, run, keys.rejected, self._options.key_format, "key of the message")
            if self._options.is_upsert:
                self._check_keys(taken, run)
            # A message whose key is undecodable is passed over as a whole.
            found = _without_messages(found, {r.line for r in keys.rejected}, len(values))
            columns = {n: found.batch.column(i) for i, n in enumerate(found.batch.schema.names)}
            columns |= self._keys(keys, len(values), found.owners)
            found = found._replace(rejected=[*found.rejected, *keys.rejected])
        self._keep(taken, run, found.rejected)
        for key, field in self._metadata.items():
            of_messages = _METADATA[key](taken, run).cast(to_arrow_type(field.type))
            columns[key] = of_messages if found.owners is None else of_messages.take(pa.array(found.owners))
        names = [*self._names, *([ROW_KIND_COLUMN] if is_changelog(found.batch) else ())]
        return (
            pa.RecordBatch.from_arrays([columns[n] for n in names], names=names)
            if names
            else empty_columns(found.batch.num_rows)
        )

    def _keys(
        self, keys: DecodedMessages, messages: int, owners: np.ndarray[Any, Any] | None
    ) -> dict[str, pa.Array]:
        """The columns of keys for the rows of these messages, None for all of them; a message without a key has NULL there."""
        rows = np.full(messages, -1)
        rows[slice(None) if keys.owners is None else keys.owners] = np.arange(keys.batch.num_rows)
        rows = rows if owners is None else rows[owners]
        places = pa.array(rows, mask=rows < 0)
        names = keys.batch.schema.names
        return {self._of_keys[n]: c.take(places) for n, c in zip(names, keys.batch.columns, strict=True)}

    def _check_keys(self, taken: Taken, run: Run) -> None:
        """UserError SS5305 for a message without a key."""
        keys = taken.keys(run)
        if not keys.null_count:
            return
        place = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise UserError(
            "SS5305",
            f"the message at offset {int(taken.offsets(run)[place])} of partition {run.partition.number} of topic"
            f' "{run.partition.topic}" has no key',
            hint="a table of upsert-kafka needs messages with the key of their row; read others with connector kafka",
        )

    def _refuse(
        self, taken: Taken, run: Run, rejected: list[Rejected], form: FormatOptions, what: str
    ) -> None:
        """UserError SS5305 for an undecodable message, unless the format passes over such."""
        if not rejected or skips_errors(form.options):
            return
        first = rejected[0]
        offset = int(taken.offsets(run)[first.line])
        topic, partition = run.partition
        what = f'the {what} at offset {offset} of partition {partition} of topic "{topic}"'
        otherwise = "read the topic with format 'raw', and decode its messages in the query"
        raise undecodable("SS5305", what, first, form.identifier, form.prefix, otherwise)

    def _keep(self, taken: Taken, run: Run, rejected: list[Rejected]) -> None:
        """Count undecodable messages, and keep or show them."""
        if not rejected:
            return
        topic, partition = run.partition
        origin = Origin(
            {"topic": topic, "partition": partition}, "offset", f'topic "{topic}", partition {partition}'
        )
        rejected = sorted(rejected, key=lambda r: r.line)
        places = pa.array([r.line for r in rejected])
        offsets = taken.offsets(run)[places.to_numpy()].tolist()
        rows = [Rejected(offset, r.reason, r.text) for offset, r in zip(offsets, rejected, strict=True)]
        keys, values = (a.take(places).to_pylist() for a in (taken.keys(run), taken.values(run)))
        contents = [{"key": k, "value": v} for k, v in zip(keys, values, strict=True)]
        self._rejected.keep(origin, rows, contents)

    def close(self) -> None:
        self._rejected.close()


def _without_messages(found: DecodedMessages, left_out: set[int], messages: int) -> DecodedMessages:
    """The rows of the other messages."""
    if not left_out:
        return found
    owners = np.arange(messages) if found.owners is None else found.owners
    kept = ~np.isin(owners, list(left_out))
    return DecodedMessages(found.batch.filter(pa.array(kept)), owners[kept], found.rejected)


def _with_deletions(found: DecodedMessages, values: pa.Array) -> DecodedMessages:
    """Rows as changes by key: one of a message with a value takes the place of what was there, one without deletes it."""
    deleted = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
    owners = np.arange(len(values)) if found.owners is None else found.owners
    # A format may have rows for messages without a value.
    is_row = ~np.isin(owners, deleted)
    batch, owners = (
        (found.batch, owners) if is_row.all() else (found.batch.filter(pa.array(is_row)), owners[is_row])
    )
    kinds = np.full(len(owners) + len(deleted), int(RowKind.UPDATE_AFTER), dtype=np.int8)
    kinds[len(owners) :] = int(RowKind.DELETE)
    owners = np.concatenate((owners, deleted))
    order = np.argsort(owners, kind="stable")
    empty = [pa.nulls(len(deleted), c.type) for c in batch.columns]
    columns = [
        pa.concat_arrays([c, n]).take(pa.array(order)) for c, n in zip(batch.columns, empty, strict=True)
    ]
    names = [*batch.schema.names, ROW_KIND_COLUMN]
    rows = pa.RecordBatch.from_arrays([*columns, pa.array(kinds[order])], names=names)
    return DecodedMessages(rows, owners[order], found.rejected)


def _timestamps(taken: Taken, run: Run) -> pa.Array:
    times, _ = taken.timestamps(run)
    return pa.array(times).view(pa.timestamp("ms", "UTC"))


def _timestamp_kinds(taken: Taken, run: Run) -> pa.Array:
    _, kinds = taken.timestamps(run)
    return pa.array(_TIME_KINDS).take(pa.array(kinds))


def _repeated(value: object, run: Run, t: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, t), run.end - run.first)


_METADATA: dict[str, Callable[[Taken, Run], pa.Array]] = {
    "topic": lambda taken, run: _repeated(run.partition.topic, run, pa.string()),
    "partition": lambda taken, run: _repeated(run.partition.number, run, pa.int32()),
    "offset": lambda taken, run: pa.array(taken.offsets(run)),
    "timestamp": _timestamps,
    "timestamp-type": _timestamp_kinds,
    "headers": lambda taken, run: taken.headers(run),
    "leader-epoch": lambda taken, run: taken.leader_epochs(run),
}


def written_metadata(spec: SinkSpec) -> tuple[Field, ...]:
    return spec.metadata if isinstance(spec, MetadataSinkSpec) else ()


class RowMessages:
    """Encodes rows as messages. No state but that of the formats."""

    def __init__(self, spec: SinkSpec, options: KafkaOptions, files: Files) -> None:
        values = options.value_schema(spec.schema)
        self._is_upsert = options.is_upsert
        self._values = [spec.schema.index_of(n) for n in values.names]
        self._writer = calling_through(
            messages_format(options.value_format).message_writer(values, options.value_format.options),
            files,
        )
        self._key_writer = None
        if options.key_format is not None:
            self._keys = [spec.schema.index_of(n) for n in options.key_fields]
            self._key_writer = calling_through(
                messages_format(options.key_format).message_writer(
                    options.key_schema(spec.schema), options.key_format.options
                ),
                files,
            )

        width = len(spec.schema)
        self._metadata = {f.name: width + i for i, f in enumerate(written_metadata(spec))}
        self._topics = _Topics(spec.table, options) if "topic" in self._metadata else None

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The keys of the messages of rows, in a table that has some."""
        assert self._key_writer is not None
        return self._key_writer.encode(batch.select(self._keys))

    def encoded(self, batch: pa.RecordBatch) -> RowsAsMessages:
        kinds = [batch.num_columns - 1] if is_changelog(batch) and not self._is_upsert else []
        values = self._writer.encode(batch.select([*self._values, *kinds]))
        if self._is_upsert and is_changelog(batch):
            # A key that has no row any more is a message without a value.
            is_there = pa.array(row_kinds(batch) != RowKind.DELETE)
            values = pc.if_else(is_there, values, pa.scalar(None, pa.binary()))
        keys = None if self._key_writer is None else self.keys(batch)
        given = {key: batch.column(place) for key, place in self._metadata.items()}
        if self._topics is not None:
            self._topics.check(given["topic"])
        times = _written_times(given["timestamp"]) if "timestamp" in given else None
        return RowsAsMessages(Messages(values, keys, times, given.get("headers")), given.get("topic"))


class RowsAsMessages(NamedTuple):
    """Messages, and the topic of each where rows say it."""

    messages: Messages
    topics: pa.Array | None

    def by_topic(self, topic: str) -> Iterator[tuple[str, Messages]]:
        """The messages of each topic in their order, all of `topic` where rows do not say one."""
        if self.topics is None:
            yield topic, self.messages
            return
        found = self.topics.dictionary_encode()
        if len(found.dictionary) == 1:
            yield found.dictionary[0].as_py(), self.messages
            return
        places = found.indices.to_numpy()
        for number, name in enumerate(found.dictionary.to_pylist()):
            yield name, self.messages.take(pa.array(np.flatnonzero(places == number)))


class _Topics:
    """The topics that rows of a table may name. No state."""

    def __init__(self, table: str, options: KafkaOptions) -> None:
        self._table = table
        pattern = options.given.topic_pattern
        self._listed = frozenset(options.topics)
        self._pattern = re.compile(pattern) if pattern is not None else None

    def check(self, named: pa.Array) -> None:
        """UserError SS5309 for another topic, and for none."""
        for name in named.unique().to_pylist():
            if name is not None and self._has(name):
                continue
            said = (
                "names no topic"
                if name is None
                else f'names the topic "{shortened(name, _TEXT_CHARACTERS_MAX)}"'
            )
            wanted = (
                f"the topics that match '{self._pattern.pattern}'"
                if self._pattern is not None
                else f"{', '.join(sorted(self._listed))}"
            )
            raise UserError(
                "SS5309",
                f'a row of table "{self._table}" {said}, and it may go to {wanted}',
                hint="write another topic, or correct the options 'topic' and 'topic-pattern'",
            )

    def _has(self, name: str) -> bool:
        if self._pattern is None:
            return name in self._listed
        return self._pattern.fullmatch(name) is not None and _TOPIC_NAME.fullmatch(name) is not None


def _written_times(times: pa.Array) -> pa.Array:
    """Milliseconds since 1970. UserError SS5310 for a time that no message can have."""
    written = times.cast(pa.timestamp("ms", "UTC")).view(pa.int64())
    lowest = pc.min(written).as_py()
    if lowest is not None and lowest <= 0:
        said = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=lowest)
        raise UserError(
            "SS5310",
            f"a message cannot have the timestamp {said:%Y-%m-%d %H:%M:%S} UTC",
            hint="write a time after 1970-01-01 00:00:00 UTC, or NULL for the time when it is sent",
        )
    return written
