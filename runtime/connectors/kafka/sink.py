"""Writes rows to topics as they come: each at least once, or as often as it happens."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.producer import Producer, Target
from sqlstream.runtime.connectors.kafka.rows import RowMessages
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext


def cancellation_check(context: ConnectorContext) -> Callable[[], None]:
    """Raises UserError SS5308 in the writer's thread once its task is cancelled."""
    is_cancelled = threading.Event()
    context.on_cancel(is_cancelled.set)

    def check() -> None:
        if is_cancelled.is_set():
            raise UserError("SS5308", "the job was cancelled while a message waited for its broker")

    return check


class Targets:
    """Where the messages of a writer go. State: that of each topic."""

    def __init__(self, options: KafkaOptions, subtask: int, producer: Producer) -> None:
        self._is_fixed, self._subtask = options.given.partitioner == "fixed", subtask
        self._producer = producer
        self._found: dict[str, Target] = {}

    def of(self, topic: str, check: Callable[[], None] = lambda: None) -> Target:
        """Raises as `Producer.partitions`."""
        if topic not in self._found:
            count = self._producer.partitions(topic, check)
            self._found[topic] = Target(self._subtask % count) if self._is_fixed else Target(spread=count)
        return self._found[topic]


class KafkaWriter:
    """A checkpoint waits until all rows before it are delivered, unless the table says that it may lose some. State: what the
    producer has queued."""

    def __init__(self, spec: SinkSpec, options: KafkaOptions, context: ConnectorContext) -> None:
        self._rows, self._topic = RowMessages(spec, options, context.files), next(iter(options.topics), "")
        self._waits = options.given.delivery_guarantee != "none"
        self._context = context
        self._producer = Producer(options.settings)
        self._targets = Targets(options, context.subtask, self._producer)
        self._check = cancellation_check(context)
        if self._topic:
            try:
                # A job without a broker says so soon, and not when a message has waited for minutes.
                self._targets.of(self._topic, self._check)
            except BaseException:
                self._producer.close()
                raise

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for topic, messages in self._rows.encoded(batch).by_topic(self._topic):
            target = self._targets.of(topic, self._check)
            self._producer.send(topic, messages, target, self._check)
            self._context.count("numBytesOut", messages.values.nbytes)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        if self._waits or checkpoint_id == LAST_CHECKPOINT_ID:
            self._producer.flush(self._check)
        if checkpoint_id == LAST_CHECKPOINT_ID:
            self._producer.close()
        return []

    def abort(self) -> None:
        self._producer.close()
