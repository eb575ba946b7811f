"""Writes rows to topics as they come: each at least once, or as often as it happens."""

from __future__ import annotations

import threading

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.kafka.library import ANY_PARTITION
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.partitions import partitions_of
from sqlstream.runtime.connectors.kafka.producer import Producer
from sqlstream.runtime.connectors.kafka.rows import RowMessages
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext


class PartitionsOf:
    """The partition of all messages of a writer; ANY_PARTITION when their keys, or chance, say it. State: that of each topic."""

    def __init__(self, options: KafkaOptions, subtask: int) -> None:
        self._options, self._subtask = options, subtask
        self._found: dict[str, int] = {}

    def of(self, topic: str) -> int:
        if self._options.given.partitioner != "fixed":
            return ANY_PARTITION
        if topic not in self._found:
            self._found[topic] = self._subtask % partitions_of(self._options.settings, topic)
        return self._found[topic]


class KafkaWriter:
    """A checkpoint waits until all rows before it are delivered, unless the table says that it may lose some. State: what the
    producer has queued."""

    def __init__(self, spec: SinkSpec, options: KafkaOptions, context: ConnectorContext) -> None:
        self._rows, self._topic = RowMessages(spec, options, context.files), next(iter(options.topics), "")
        self._waits = options.given.delivery_guarantee != "none"
        self._context = context
        self._producer = Producer(options.settings)
        self._partitions = PartitionsOf(options, context.subtask)
        self._is_cancelled = threading.Event()
        context.on_cancel(self._is_cancelled.set)

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for topic, messages in self._rows.encoded(batch).by_topic(self._topic):
            self._producer.send(topic, messages, self._partitions.of(topic), self._check)
            self._context.count("numBytesOut", messages.values.nbytes)

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise UserError("SS5308", "the job was cancelled while a message waited for its broker")

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        if self._waits or checkpoint_id == LAST_CHECKPOINT_ID:
            self._producer.flush(self._check)
        if checkpoint_id == LAST_CHECKPOINT_ID:
            self._producer.close()
        return []

    def abort(self) -> None:
        self._producer.close()
