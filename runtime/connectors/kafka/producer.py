"""A producer of librdkafka that takes arrays. No Python runs for a message, unless its delivery has failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import SqlStreamError
from sqlstream.runtime.connectors.kafka import library as rdkafka
from sqlstream.runtime.connectors.kafka.errors import error_of
from sqlstream.runtime.connectors.kafka.library import library
from sqlstream.runtime.kernels.buffers import valid_mask, view_offsets

_MESSAGE = np.dtype(rdkafka.Message)
_BATCH_ROWS = 10_000
_WAIT_MS = 100
_TRANSACTION_MS = 60_000
"""How long a step of a transaction may take."""
_PURGED = 7
"""RD_KAFKA_PURGE_F_QUEUE, …_INFLIGHT and …_NON_BLOCKING."""

_PRODUCER = {
    "delivery.report.only.error": "true",
    "linger.ms": "5",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "131072",
    "partitioner": "murmur2_random",
    "enable.idempotence": "true",
}
"""As Java's producers do by default: the partition of a key, and that none is written twice when an answer was lost."""


class Producer:
    """Sends messages to topics. State: the library's producer with its queue, and the first delivery that has failed."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._failure: SqlStreamError | None = None
        # The callback must live as long as the producer.
        self._on_delivery = rdkafka.DELIVERY_CALLBACK(self._note_delivery)
        self._producer = rdkafka.new_client(rdkafka.PRODUCER, {**_PRODUCER, **settings}, self._on_delivery)
        self._topics: dict[str, int] = {}

    def _note_delivery(self, producer: int, message: Any, opaque: int) -> None:
        failed = message.contents
        if self._failure is None and failed.err != rdkafka.NO_ERROR:
            topic = library().topic_name(failed.topic).decode() if failed.topic else ""
            text = library().message_errstr(message)
            self._failure = error_of(
                failed.err, text.decode("utf-8", "replace") if text else "", topic, failed.partition
            )

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = library().topic_new(self._producer, name.encode(), None)
        return self._topics[name]

    def send(
        self,
        topic: str,
        values: pa.Array,
        keys: pa.Array | None = None,
        partition: int = rdkafka.ANY_PARTITION,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Queue messages, binary arrays of values and keys. Waits while the queue is full, and calls `check` meanwhile. Raises
        what has failed so far."""
        rows = len(values)
        messages = np.zeros(rows, dtype=_MESSAGE)
        kept = [_placed(messages, "value", values)]
        if keys is not None:
            kept.append(_placed(messages, "key", keys))
        handle = self._topic(topic)
        for first in range(0, rows, _BATCH_ROWS):
            part = messages[first : first + _BATCH_ROWS]
            while len(part):
                library().produce_batch(handle, partition, rdkafka.COPIES, part.ctypes.data, len(part))
                errors = part["err"]
                bad = np.flatnonzero((errors != rdkafka.NO_ERROR) & (errors != rdkafka.QUEUE_FULL))
                if len(bad):
                    code = int(errors[bad[0]])
                    raise error_of(code, rdkafka.error_text(code), topic, partition)
                part = np.ascontiguousarray(part[errors == rdkafka.QUEUE_FULL])
                library().poll(self._producer, _WAIT_MS if len(part) else 0)
                self._raise_failure()
                check()
        del kept

    # --- transactions

    def begin(self, timeout_ms: int = _TRANSACTION_MS) -> None:
        """Begin a transaction. Another producer of this `transactional.id` can commit nothing from here on, and what it had begun
        is undone."""
        self._checked("init_transactions", timeout_ms)
        self._checked("begin_transaction")

    def commit(self, group: str, topic: str, number: int, timeout_ms: int = _TRANSACTION_MS) -> None:
        """Make what was sent visible, and `number` what the group has committed of partition 0 of the topic: both or none."""
        listed = rdkafka.partition_list([(topic, 0, number)])
        metadata = library().consumer_group_metadata_new(group.encode())
        try:
            self._checked("send_offsets_to_transaction", listed, metadata, timeout_ms)
        finally:
            library().consumer_group_metadata_destroy(metadata)
            library().topic_partition_list_destroy(listed)
        self._checked("commit_transaction", timeout_ms)

    def undo(self, timeout_ms: int = _TRANSACTION_MS) -> None:
        """Undo a transaction that has failed, if the broker can be told so; it undoes it by itself after a while."""
        error = library().abort_transaction(self._producer, timeout_ms)
        if error:
            library().error_destroy(error)

    def _checked(self, function: str, *arguments: Any) -> None:
        error = getattr(library(), function)(self._producer, *arguments)
        if error:
            code = library().error_code(error)
            text = library().error_string(error).decode("utf-8", "replace")
            library().error_destroy(error)
            raise self._failure or error_of(code, text, self._settings.get("transactional.id", ""))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def flush(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until all messages are delivered. Raises what has failed."""
        while library().flush(self._producer, _WAIT_MS) != rdkafka.NO_ERROR:
            self._raise_failure()
            check()
        self._raise_failure()

    def close(self) -> None:
        """What is not delivered is dropped."""
        if self._producer:
            library().purge(self._producer, _PURGED)
            for topic in self._topics.values():
                library().topic_destroy(topic)
            library().destroy_flags(self._producer, 0)
            self._producer = 0


def _placed(messages: np.ndarray[Any, Any], part: str, texts: pa.Array) -> object:
    """Note where the values or keys of messages lie; returns what keeps them there."""
    offsets, address = view_offsets(texts)
    if not len(texts):
        return texts
    messages[part] = address + offsets[:-1].astype(np.int64)
    messages[f"{part}_bytes"] = np.diff(offsets)
    is_there = valid_mask(texts)
    if is_there is not None:
        messages[part][is_there == 0] = 0
        messages[f"{part}_bytes"][is_there == 0] = 0
    # An empty text may have no memory at all, and is there.
    messages[part][(messages[part] == 0) & (is_there is None or is_there == 1)] = _SOMEWHERE.ctypes.data
    return texts


_SOMEWHERE = np.zeros(1, dtype=np.uint8)
