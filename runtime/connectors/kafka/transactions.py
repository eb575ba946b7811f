"""Writes rows to topics exactly once: they are staged in files, and a completed checkpoint puts them into the topic.

A commit is one transaction, which writes the messages of all writers and the number of the checkpoint: it is what a group of the
sink's own has committed as its offset of partition 0. So whoever repeats a commit sees that it is done. No transaction is open
between two commits, none is ever taken over, and a commit that was interrupted is undone by the next one, which bears its name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.partitions import committed_offset
from sqlstream.runtime.connectors.kafka.producer import Producer
from sqlstream.runtime.connectors.kafka.rows import RowMessages
from sqlstream.runtime.connectors.kafka.sink import partition_of
from sqlstream.runtime.connectors.staged_rows import StagedRowsWriter, remove_committed, staged_rows
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files
from sqlstream.types import BYTES

_STAGED = Schema.of(("value", BYTES), ("key", BYTES))


def staging_path(options: KafkaOptions) -> str:
    """What directories of staged messages are named after."""
    given = options.given
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    directory = given.staging_directory or os.path.join(state, "sqlstream", "staging")
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in str(given.transactional_prefix))
    return os.path.join(os.path.abspath(os.path.expanduser(directory)), f"kafka-{name}")


class TransactionalWriter:
    """Stages messages. State: the open file of staged messages."""

    def __init__(self, spec: SinkSpec, options: KafkaOptions, context: ConnectorContext) -> None:
        self._rows = RowMessages(spec, options)
        staged = msgspec.structs.replace(spec, schema=_STAGED)
        self._staged = StagedRowsWriter(staged, staging_path(options), context)
        self._schema = to_arrow_schema(_STAGED)
        self._partition = partition_of(options, context)
        # The operator of the job, which stays the same in all its attempts.
        self._sink = context.writer_name.rpartition("/")[2]

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        values, keys = self._rows.encoded(batch)
        keys = pa.nulls(len(values), pa.binary()) if keys is None else keys
        self._staged.write(pa.RecordBatch.from_arrays([values, keys], schema=self._schema))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        prepared = self._staged.prepare_commit(checkpoint_id)
        return [
            msgspec.structs.replace(
                c, content={**c.content, "sink": self._sink, "partition": self._partition}
            )
            for c in prepared
        ]

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
        name = f"{options.given.transactional_prefix}-{job_id}-{sink}"
        _commit(options, name, checkpoint_id, list(parts), files)
    remove_committed(checkpoint_id, committables, files)


def _commit(
    options: KafkaOptions, name: str, checkpoint_id: int, parts: list[Committable], files: Files
) -> None:
    topic = options.topics[0]
    producer = Producer({**options.settings, "transactional.id": name})
    try:
        producer.begin()
        # A transaction of this name that was under way has ended: what the group has is the last commit.
        if committed_offset(options.settings, name, topic) >= checkpoint_id:
            return
        for committable in parts:
            for batch in staged_rows(committable, files).to_batches():
                values, keys = batch.columns[:2]
                producer.send(topic, values, keys, committable.content["partition"])
        producer.flush()
        producer.commit(name, topic, checkpoint_id)
    except BaseException:
        producer.undo()
        raise
    finally:
        producer.close()
