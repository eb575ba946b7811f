"""Writes rows to topics exactly once: they are staged in files, and a completed checkpoint puts them into the topic.

A commit is one transaction, which writes the messages of all writers and the number of the checkpoint: it is what a group of the
sink's own has committed as its offset of partition 0. So whoever repeats a commit sees that it is done. No transaction is open
between two commits, none is ever taken over, and a commit that was interrupted is undone by the next one, which bears its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.cancellation import is_given_up
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.partitions import committed_offset
from sqlstream.runtime.connectors.kafka.producer import Messages, Producer
from sqlstream.runtime.connectors.kafka.rows import RowMessages, RowsAsMessages, written_metadata
from sqlstream.runtime.connectors.kafka.sink import Targets, cancellation_check
from sqlstream.runtime.connectors.staged_rows import (
    CommitNote,
    StagedRowsWriter,
    remove_committed,
    staged_rows,
)
from sqlstream.runtime.connectors.staged_rows import (
    staging_path as path_of_staging,
)
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files
from sqlstream.types import BIGINT, BYTES, STRING, LogicalType, TypeRoot

_STAGED = {
    "value": BYTES,
    "key": BYTES,
    "time": BIGINT,
    "headers": LogicalType(TypeRoot.MAP, key=STRING, element=BYTES),
    "topic": STRING,
}
"""What may be staged of a message; what no message of a table has is left out."""


_TRANSACTION = {"transaction.timeout.ms": "900000"}
"""How long all messages of a checkpoint may take to be sent: the most that brokers allow by default."""


def staging_path(options: KafkaOptions) -> str:
    """What directories of staged messages are named after."""
    given = options.given
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in str(given.transactional_prefix))
    return path_of_staging(given.staging_directory, f"kafka-{name}")


_OF_METADATA = {"timestamp": "time", "headers": "headers", "topic": "topic"}
"""Where metadata is staged."""


class TransactionalWriter:
    """Stages messages. State: the open file of staged messages, and the topic of the first one, if rows say it."""

    def __init__(self, spec: SinkSpec, options: KafkaOptions, context: ConnectorContext) -> None:
        self._rows = RowMessages(spec, options, context.files)
        self._columns = ["value", *(["key"] if options.key_format is not None else ())]
        written = {f.name for f in written_metadata(spec)}
        self._columns += [column for key, column in _OF_METADATA.items() if key in written]
        staged = Schema.of(*((name, _STAGED[name]) for name in self._columns))
        self._staged = StagedRowsWriter(
            msgspec.structs.replace(spec, schema=staged), staging_path(options), context
        )
        self._schema = to_arrow_schema(staged)
        self._first_topic = ""
        if context.is_first and options.topics:
            # It would be told at the first checkpoint otherwise.
            with contextlib.closing(Producer(options.settings)) as producer:
                producer.partitions(options.topics[0], cancellation_check(context))
        # The operator of the job, which stays the same in all its attempts.
        self._sink = context.writer_name.rpartition("/")[2]

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        messages, topics = self._rows.encoded(batch)
        if topics is not None and not self._first_topic:
            self._first_topic = topics[0].as_py()
        parts = dict(zip(_STAGED, (*messages, topics), strict=True))
        columns = [parts[name].cast(self._schema.field(name).type) for name in self._columns]
        self._staged.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        prepared = self._staged.prepare_commit(checkpoint_id)
        added = {"sink": self._sink, "topic": self._first_topic}
        self._first_topic = ""
        return [msgspec.structs.replace(c, content={**c.content, **added}) for c in prepared]

    def abort(self) -> None:
        self._staged.abort()


def commit(
    options: KafkaOptions, checkpoint_id: int, committables: Sequence[Committable], files: Files
) -> None:
    """Put the messages of a checkpoint into their topic, unless they are there. ExternalError SS5066 for staged ones that have
    vanished."""

    def sink_of(committable: Committable) -> tuple[str, str]:
        return committable.job_id, committable.content["sink"]

    for (job_id, sink), parts in groupby(sorted(in_order(list(committables)), key=sink_of), key=sink_of):
        note = CommitNote.of(staging_path(options), job_id, sink)
        if note.checkpoint_id(files) < checkpoint_id:
            name = f"{options.given.transactional_prefix}-{job_id}-{sink}"
            _commit(options, name, checkpoint_id, list(parts), files)
            note.write(checkpoint_id, files)
    remove_committed(checkpoint_id, committables, files)


def _commit(
    options: KafkaOptions, name: str, checkpoint_id: int, parts: list[Committable], files: Files
) -> None:
    noted = _noted_topic(options, parts)
    if noted is None:
        return
    producer = Producer({**_TRANSACTION, **options.settings, "transactional.id": name})
    try:
        producer.begin()
        # A transaction of this name that was under way has ended: what the group has is the last commit.
        if committed_offset(options.settings, name, noted) >= checkpoint_id:
            return
        for committable in parts:
            targets = Targets(options, committable.subtask, producer)
            for rows in _staged_messages(committable, files):
                for topic, messages in rows.by_topic(noted):
                    producer.send(topic, messages, targets.of(topic, _check_awaited), _check_awaited)
        producer.flush(_check_awaited)
        producer.commit(name, noted, checkpoint_id)
    except BaseException:
        producer.undo()
        raise
    finally:
        producer.close()


def _check_awaited() -> None:
    """ExternalError SS5301 where nobody waits for the commit any more, which is repeated when the job goes on."""
    if is_given_up():
        raise ExternalError("SS5301", "the job ended before Kafka had taken the messages of a checkpoint")


def _noted_topic(options: KafkaOptions, parts: list[Committable]) -> str | None:
    """The topic of which the group of the commits has an offset: that of the table, or with a pattern that of the first message,
    which is the same whenever a commit is repeated, also when its rows are gone. None when there is none."""
    if options.topics:
        return options.topics[0]
    return next((part.content["topic"] for part in parts if part.content["topic"]), None)


def _staged_messages(committable: Committable, files: Files) -> Iterator[RowsAsMessages]:
    for batch in staged_rows(committable, files).to_batches():
        *parts, topics = (batch.column(n) if n in batch.schema.names else None for n in _STAGED)
        yield RowsAsMessages(Messages(*parts), topics)
