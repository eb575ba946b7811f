"""A consumer of librdkafka, and its messages as arrays. No Python runs for a message."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.kafka import library as rdkafka
from sqlstream.runtime.connectors.kafka.errors import OUT_OF_RANGE, error_of
from sqlstream.runtime.connectors.kafka.library import library
from sqlstream.runtime.formats.decoded_columns import with_last_values
from sqlstream.runtime.kernels import messages as kernel
from sqlstream.runtime.kernels.buffers import address_of, validity_buffer

Int64s = np.ndarray[Any, np.dtype[np.int64]]

_NO_WAIT_FOR_CLOSE = 8
"""RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE: nothing is told to a group of which the consumer is no member."""


_WAKING, _WAKING_BYTES = b"!", 4096


class Partition(NamedTuple):
    topic: str
    number: int


@dataclass(frozen=True)
class Run:
    """Messages of one partition that follow each other, as rows of a Taken. Without rows: the end of a partition, as it is now,
    is at `offset`, or with `is_gone` the partition does not have the offset that was to be read."""

    partition: Partition
    first: int
    end: int
    offset: int
    is_gone: bool = False


class Taken:
    """Messages that the library has handed over, until `release`.

    `runs` are those of each partition; rows between them are events, and no messages.
    """

    def __init__(self, addresses: Int64s, count: int, topics: dict[int, str]) -> None:
        self._addresses, self._count = addresses, count
        self._table = np.empty((count, kernel.ENTRIES), dtype=np.int64)
        starts = np.empty(count, dtype=np.int64)
        found = kernel.describe(addresses, count, self._table, starts)
        try:
            self.runs = [
                self._run(int(first), int(end), topics)
                for first, end in zip(starts[:found], [*starts[1:found], count], strict=True)
            ]
        except BaseException:
            # A consumer cannot be closed while somebody has messages of it.
            self.release()
            raise

    def _run(self, first: int, end: int, topics: dict[int, str]) -> Run:
        error, topic, number = (int(v) for v in self._table[first, : kernel.OFFSET])
        if topic and topic not in topics:
            topics[topic] = library().topic_name(topic).decode()
        partition = Partition(topics.get(topic, ""), number)
        if error == rdkafka.PARTITION_EOF:
            return Run(partition, first, first, int(self._table[end - 1, kernel.OFFSET]))
        if error in OUT_OF_RANGE:
            return Run(partition, first, first, -1, is_gone=True)
        if error != rdkafka.NO_ERROR:
            message = ctypes.cast(int(self._addresses[first]), ctypes.POINTER(rdkafka.Message))
            text = library().message_errstr(message)
            raise error_of(error, text.decode("utf-8", "replace") if text else "", partition.topic, number)
        return Run(partition, first, end, int(self._table[end - 1, kernel.OFFSET]) + 1)

    def offsets(self, rows: Run) -> Int64s:
        return self._table[rows.first : rows.end, kernel.OFFSET]

    def values(self, rows: Run) -> pa.Array:
        return self._bytes(rows, kernel.VALUE)

    def keys(self, rows: Run) -> pa.Array:
        return self._bytes(rows, kernel.KEY)

    def bytes_of_values(self, rows: Run) -> int:
        return int(self._table[rows.first : rows.end, kernel.VALUE_BYTES].sum())

    def _bytes(self, rows: Run, entry: int) -> pa.Array:
        count = rows.end - rows.first
        offsets, valid = np.empty(count + 1, dtype=np.int32), np.empty(count, dtype=np.uint8)
        nulls = kernel.measure(self._table, rows.first, rows.end, entry, offsets, valid)
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        kernel.gather(self._table, rows.first, rows.end, entry, address_of(data))
        validity = validity_buffer(valid) if nulls else None
        return pa.Array.from_buffers(
            pa.binary(), count, [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def timestamps(self, rows: Run) -> tuple[Int64s, Int64s]:
        """Milliseconds since 1970, and what they are the times of (0: unknown, 1: creation, 2: the log)."""
        count = rows.end - rows.first
        times, kinds = np.empty(count, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
        kernel.timestamps(
            self._addresses, rows.first, rows.end, times, kinds, library().address("message_timestamp")
        )
        return times, kinds[:count]

    def headers(self, rows: Run) -> pa.Array:
        """A map from names to bytes for each message, which is empty without headers. The last header of a name counts."""
        count = rows.end - rows.first
        functions = np.array([library().address(n) for n in ("message_headers", "header_get_all")])
        scratch = np.zeros(kernel.SCRATCH_WORDS, dtype=np.int64)
        counts, none = np.empty(count + 1, dtype=np.int32), np.empty((1, 2), dtype=np.int32)
        around = (self._addresses, rows.first, rows.end, functions, scratch, counts)
        found, name_bytes, value_bytes = kernel.headers(*around, none, 0, 0, np.empty(0, dtype=np.uint8))
        offsets, valid = np.empty((found + 1, 2), dtype=np.int32), np.empty(found, dtype=np.uint8)
        # A byte more, so that there is an address.
        names, values = (np.empty(size + 1, dtype=np.uint8) for size in (name_bytes, value_bytes))
        kernel.headers(*around, offsets, address_of(names), address_of(values), valid)
        keys, items = (
            pa.Array.from_buffers(pa.binary(), found, [nulls, pa.py_buffer(each.copy()), pa.py_buffer(data)])
            for nulls, each, data in (
                (None, offsets[:, 0], names),
                (validity_buffer(valid) if not valid.all() else None, offsets[:, 1], values),
            )
        )
        ends, (keys, items) = with_last_values(counts, [_texts(keys), items])
        return pa.MapArray.from_arrays(pa.array(ends), keys, items)

    def leader_epochs(self, rows: Run) -> pa.Array:
        epochs = np.empty(rows.end - rows.first, dtype=np.int64)
        function = library().address("message_leader_epoch")
        kernel.leader_epochs(self._addresses, rows.first, rows.end, epochs, function)
        return pa.array(epochs, mask=epochs < 0)

    def release(self) -> None:
        """Give the messages back; call it once."""
        kernel.release(self._addresses, self._count, library().address("message_destroy"))


def _texts(names: pa.Array) -> pa.Array:
    """Bytes that are no text have the sign for that in their place, as Java writes them."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        found = names.dictionary_encode()
        texts = [name.decode("utf-8", "replace") for name in found.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(found.indices)


class Consumer:
    """Reads partitions that it is told, and is no member of a group. State: the library's consumer with its queue, and a pipe
    that can be read when messages have come since `take` found none."""

    def __init__(self, settings: dict[str, str], rows_max: int) -> None:
        self._consumer = rdkafka.new_client(rdkafka.CONSUMER, settings)
        library().poll_set_consumer(self._consumer)
        self._queue = library().queue_get_consumer(self._consumer)
        self.fileno, self._woken = os.pipe()
        for end in (self.fileno, self._woken):
            os.set_blocking(end, False)
        library().queue_io_event_enable(self._queue, self._woken, _WAKING, len(_WAKING))
        self._found_none = False
        self._addresses = np.empty(rows_max, dtype=np.int64)
        self._topics: dict[int, str] = {}

    def assign(self, partitions: Sequence[tuple[str, int, int]]) -> None:
        """Read also these (topic, partition, offset)."""
        self._change("incremental_assign", partitions)

    def unassign(self, partitions: Sequence[Partition]) -> None:
        """Read these no more; messages that are on their way may still come."""
        self._change("incremental_unassign", [(p.topic, p.number, -1) for p in partitions])

    def _change(self, function: str, partitions: Sequence[tuple[str, int, int]]) -> None:
        listed = rdkafka.partition_list(list(partitions))
        try:
            error = getattr(library(), function)(self._consumer, listed)
        finally:
            library().topic_partition_list_destroy(listed)
        if error:
            reason = library().error_string(error).decode("utf-8", "replace")
            library().error_destroy(error)
            raise ExternalError("SS5301", f"could not read from Kafka: {reason}")

    def take(self, rows_max: int) -> Taken | None:
        """What has come, so many messages at most; None when nothing has. ExternalError and UserError for a partition that cannot
        be read."""
        if self._found_none:
            with contextlib.suppress(BlockingIOError):
                os.read(self.fileno, _WAKING_BYTES)
        count = library().consume_batch_queue(
            self._queue, 0, address_of(self._addresses), min(rows_max, len(self._addresses))
        )
        self._found_none = count <= 0
        return Taken(self._addresses, int(count), self._topics) if count > 0 else None

    def commit(self, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Tell the group where readers are, (topic, partition, next offset), without waiting for the answer."""
        listed = rdkafka.partition_list(list(offsets))
        library().commit(self._consumer, listed, 1)
        library().topic_partition_list_destroy(listed)

    def end_of(self, partition: Partition) -> int | None:
        """The offset behind the last message that a broker has told of; None while none has."""
        begin, end = ctypes.c_int64(-1), ctypes.c_int64(-1)
        error = library().get_watermark_offsets(
            self._consumer, partition.topic.encode(), partition.number, ctypes.byref(begin), ctypes.byref(end)
        )
        return int(end.value) if not error and end.value >= 0 else None

    def close(self) -> None:
        if self._consumer:
            library().queue_io_event_enable(self._queue, -1, None, 0)
            library().queue_destroy(self._queue)
            library().destroy_flags(self._consumer, _NO_WAIT_FOR_CLOSE)
            self._consumer = 0
            for end in (self.fileno, self._woken):
                os.close(end)
