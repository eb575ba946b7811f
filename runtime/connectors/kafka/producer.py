"""A producer of librdkafka that takes arrays. No Python runs for a message, unless its delivery has failed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.cancellation import is_given_up
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.connectors.kafka import library as rdkafka
from sqlstream.runtime.connectors.kafka.errors import (
    NOT_YET_THERE,
    UNREACHABLE,
    error_at,
    error_of,
    unreachable,
)
from sqlstream.runtime.connectors.kafka.library import library
from sqlstream.runtime.kernels import messages as kernel
from sqlstream.runtime.kernels.buffers import address_of, valid_mask, view_offsets, view_values

_MESSAGE = np.dtype(rdkafka.Message)
_Part = np.ndarray[Any, Any]
_WAIT_MS, _FULL_WAIT_MS = 100, 5
_ASK_MS, _ASK_S, _APPEARS_S = 1_000, 10.0, 3.0
"""How long one question for the partitions of a topic takes, all of them, and those for a topic that is not there yet."""
_TRANSACTION_MS = 60_000
"""How long a step of a transaction may take."""
_SLICE_MS = 3_000
"""How long one call of it may wait."""
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

_MESSAGE_BYTES = 40
"""What a message has in a request beside its key and value, at most, without headers."""


class Target(NamedTuple):
    """Where messages go: `partition` ANY_PARTITION when their keys, or chance, say it. `spread`: among how many partitions."""

    partition: int = rdkafka.ANY_PARTITION
    spread: int = 1


ANYWHERE = Target()


class Messages(NamedTuple):
    """Messages as arrays: bytes of values and keys, NULL where there is none, times in milliseconds since 1970 (NULL: when it is
    sent), and maps of headers, of which those without a name or value are left out. What is None no message has."""

    values: pa.Array
    keys: pa.Array | None = None
    times: pa.Array | None = None
    headers: pa.MapArray | None = None

    @property
    def nbytes(self) -> int:
        keys = self.keys.nbytes if self.keys is not None else 0
        return int(self.values.nbytes + keys + _MESSAGE_BYTES * len(self.values))

    def take(self, rows: pa.Array) -> Messages:
        return Messages(*(None if part is None else part.take(rows) for part in self))


class Producer:
    """Sends messages to topics. State: the library's producer with its queue, what of one request was queued since the queue was
    empty, and the first delivery that has failed.

    An idempotent producer has one request of a partition under way, and while the next one is ready its thread does not sleep
    (confluentinc/librdkafka#4989): with a queue as long as memory it uses a core without sending more. So here it gets one
    request of each partition at a time, and the next when they are delivered.
    """

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._failure: SqlStreamError | None = None
        made = {**_PRODUCER, **settings}
        if _forbids_idempotence(settings):
            # As Java's producers do: what the user says counts.
            made = {**made, "enable.idempotence": "false"}
        self._queued = 0.0
        self._producer = rdkafka.new_client(rdkafka.PRODUCER, made)
        self._waits = rdkafka.setting(self._producer, "enable.idempotence") == "true"
        self._batch_rows = int(rdkafka.setting(self._producer, "batch.num.messages"))
        self._batch_bytes = int(rdkafka.setting(self._producer, "batch.size"))
        self._events = library().queue_get_main(self._producer)
        self._topics: dict[str, int] = {}

    def _serve(self) -> None:
        """Take events. Raises the first failure of a delivery."""
        self._take_events()
        if self._failure is not None:
            raise self._failure

    def _take_events(self) -> None:
        while event := library().queue_poll(self._events, 0):
            # A producer tells of failed deliveries only.
            failed = library().event_message_next(event)
            if self._failure is None and failed and failed.contents.err != rdkafka.NO_ERROR:
                self._failure = _failure(failed.contents)
            library().event_destroy(event)

    def partitions(self, topic: str, check: Callable[[], None] = lambda: None) -> int:
        """How many a topic has. Calls `check` while it waits for brokers. UserError SS5302 when there is no such topic, and the
        broker makes none, ExternalError SS5301 without a broker."""
        begin_s = time.monotonic()
        while True:
            code, count = self._asked(topic)
            if code == rdkafka.NO_ERROR:
                return count
            check()
            is_unreachable, spent_s = code in UNREACHABLE, time.monotonic() - begin_s
            if is_unreachable and spent_s >= _ASK_S:
                raise unreachable(self._settings, rdkafka.error_text(code))
            if not is_unreachable and (code not in NOT_YET_THERE or spent_s >= _APPEARS_S):
                raise error_of(code, rdkafka.error_text(code), topic)
            time.sleep(_WAIT_MS / 1000)

    def _asked(self, topic: str) -> tuple[int, int]:
        """An error and the partitions of a topic, as a broker says."""
        found = ctypes.POINTER(rdkafka.Metadata)()
        code = library().metadata(self._producer, 0, self._topic(topic), ctypes.byref(found), _ASK_MS)
        if code != rdkafka.NO_ERROR:
            return int(code), 0
        said = found.contents.topics[0] if found.contents.topic_count else None
        code, count = (said.err, said.partition_count) if said is not None else (rdkafka.NO_ERROR, 0)
        library().metadata_destroy(found)
        return (NOT_YET_THERE[0] if code == rdkafka.NO_ERROR and not count else code), count

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            made = library().topic_new(self._producer, name.encode(), None)
            if not made:
                raise error_of(rdkafka.last_error(), "the library refuses its name", name)
            self._topics[name] = made
        return self._topics[name]

    def send(
        self,
        topic: str,
        sent: Messages,
        target: Target = ANYWHERE,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Queue messages. Waits while the queue is full, and calls `check` meanwhile. Raises what has failed so far."""
        rows = len(sent.values)
        if not rows:
            return
        messages = np.zeros(rows, dtype=_MESSAGE)
        kept = [_placed(messages, "value", sent.values)]
        if sent.keys is not None:
            kept.append(_placed(messages, "key", sent.keys))
        handle = self._topic(topic)
        if sent.times is None and sent.headers is None:
            produce = self._produce_batch
        else:
            produce = _OneByOne(self._producer, messages, sent).produce
        # The share that one message has of the requests which may be under way.
        share = max(1 / self._batch_rows, sent.nbytes / rows / self._batch_bytes) / target.spread
        step = max(1, int(1 / share))
        for first in range(0, rows, step):
            part = messages[first : first + step]
            self._make_room(share * len(part), check)
            while len(part):
                part, code = produce(handle, target.partition, part)
                if code != rdkafka.NO_ERROR:
                    raise error_of(code, rdkafka.error_text(code), topic, target.partition)
                if len(part):
                    # The queue is full. Nothing says when there is room: the library tells of failed deliveries only.
                    library().flush(self._producer, _FULL_WAIT_MS)
                self._serve()
                check()
        del kept

    def _make_room(self, share: float, check: Callable[[], None]) -> None:
        """Wait until what is queued has room for so much of a request."""
        if self._waits and self._queued + share > 1:
            self.flush(check)
        self._queued += share

    def _produce_batch(self, topic: int, partition: int, part: _Part) -> tuple[_Part, int]:
        """Returns what found no room in the queue, and the first other error."""
        library().produce_batch(topic, partition, rdkafka.COPIES, address_of(part), len(part))
        errors = part["err"]
        bad = errors[(errors != rdkafka.NO_ERROR) & (errors != rdkafka.QUEUE_FULL)]
        return np.ascontiguousarray(part[errors == rdkafka.QUEUE_FULL]), int(bad[0]) if len(bad) else 0

    # --- transactions

    def begin(self) -> None:
        """Begin a transaction. Another producer of this `transactional.id` can commit nothing from here on, and what it had begun
        is undone."""
        self._step("init_transactions")
        self._checked("begin_transaction")

    def commit(self, group: str, topic: str, number: int) -> None:
        """Make what was sent visible, and `number` what the group has committed of partition 0 of the topic: both or none."""
        listed = rdkafka.partition_list([(topic, 0, number)])
        metadata = library().consumer_group_metadata_new(group.encode())
        try:
            self._step("send_offsets_to_transaction", listed, metadata)
        finally:
            library().consumer_group_metadata_destroy(metadata)
            library().topic_partition_list_destroy(listed)
        self._step("commit_transaction")

    def undo(self) -> None:
        """Undo a transaction that has failed, if the broker can be told so; it undoes it by itself after a while."""
        ends_s = time.monotonic() + _SLICE_MS / 1000
        while (found := self._error_of("abort_transaction", _WAIT_MS)) is not None:
            if found[0] != rdkafka.TIMED_OUT or time.monotonic() >= ends_s:
                return
            # Messages that it drops count as queued until their events are taken, and it waits for these.
            self._take_events()

    def _step(self, function: str, *arguments: Any) -> None:
        """A step that may have to wait for the broker. One that took too long is called again, until nobody waits any more."""
        ends_s = time.monotonic() + _TRANSACTION_MS / 1000
        while (found := self._error_of(function, *arguments, _SLICE_MS)) is not None:
            code, text = found
            if code != rdkafka.TIMED_OUT or time.monotonic() >= ends_s or is_given_up():
                raise self._refusal(code, text)

    def _checked(self, function: str, *arguments: Any) -> None:
        found = self._error_of(function, *arguments)
        if found is not None:
            raise self._refusal(*found)

    def _error_of(self, function: str, *arguments: Any) -> tuple[int, str] | None:
        error = getattr(library(), function)(self._producer, *arguments)
        if not error:
            return None
        found = int(library().error_code(error)), library().error_string(error).decode("utf-8", "replace")
        library().error_destroy(error)
        return found

    def _refusal(self, code: int, text: str) -> SqlStreamError:
        transactional_id = self._settings.get("transactional.id", "")
        return self._failure or error_at(code, text, f'transactional id "{transactional_id}"')

    def flush(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until all messages are delivered. Raises what has failed."""
        while library().flush(self._producer, _WAIT_MS) != rdkafka.NO_ERROR:
            self._serve()
            check()
        self._serve()
        self._queued = 0.0

    def close(self) -> None:
        """What is not delivered is dropped."""
        if self._producer:
            library().purge(self._producer, _PURGED)
            for topic in self._topics.values():
                library().topic_destroy(topic)
            library().queue_destroy(self._events)
            library().destroy_flags(self._producer, 0)
            self._producer = 0


def _failure(failed: rdkafka.Message) -> SqlStreamError:
    topic = library().topic_name(failed.topic).decode() if failed.topic else ""
    # Of what could not be delivered the message's own text is that of the row.
    return error_of(failed.err, rdkafka.error_text(failed.err), topic, failed.partition)


def _forbids_idempotence(settings: dict[str, str]) -> bool:
    """Whether properties of the user exclude what nobody has asked for."""
    if "enable.idempotence" in settings or "transactional.id" in settings:
        return False
    at_once = [v for key in _IN_FLIGHT if (v := settings.get(key, "")).isdigit()]
    return (
        any(settings.get(key, "all") not in ("all", "-1") for key in _ACKNOWLEDGED_BY)
        or any(settings.get(key) == "0" for key in _RETRIES)
        or any(int(number) > _IN_FLIGHT_MAX for number in at_once)
    )


_ACKNOWLEDGED_BY = ("acks", "request.required.acks")
_RETRIES = ("retries", "message.send.max.retries")
_IN_FLIGHT = ("max.in.flight.requests.per.connection", "max.in.flight")
_IN_FLIGHT_MAX = 5


class _OneByOne:
    """Sends messages with times and headers, which the library's call for batches cannot have. No state."""

    def __init__(self, producer: int, messages: _Part, sent: Messages) -> None:
        rows = len(messages)
        self._producer = producer
        self._words = messages.view(np.int64).reshape(rows, -1)
        times = pa.nulls(rows, pa.int64()) if sent.times is None else sent.times
        self._times = view_values(times.fill_null(0), np.int64)
        self._lists = np.zeros((rows, 2), dtype=np.int64)
        none = pa.array([], pa.binary())
        self._names, self._values, self._is_there = none, none, np.empty(0, dtype=np.uint8)
        if sent.headers is not None:
            starts = sent.headers.offsets.to_numpy().astype(np.int64)
            self._lists[:, 0], self._lists[:, 1] = starts[:-1], np.diff(starts)
            self._lists[sent.headers.is_null().to_numpy(zero_copy_only=False), 1] = 0
            self._names, self._values = sent.headers.keys, sent.headers.items
            is_there = pc.and_(self._names.is_valid(), self._values.is_valid())
            self._is_there = is_there.to_numpy(zero_copy_only=False).view(np.uint8)
        names = ("produceva", "headers_new", "header_add", "headers_destroy", "error_code", "error_destroy")
        self._functions = np.array([library().address(name) for name in names])

    def produce(self, topic: int, partition: int, part: _Part) -> tuple[_Part, int]:
        """As `_produce_batch`, of messages that follow each other."""
        first = (address_of(part) - address_of(self._words)) // _MESSAGE.itemsize
        (name_offsets, names), (value_offsets, values) = map(view_offsets, (self._names, self._values))
        sent, code = kernel.produce(
            self._words,
            first,
            first + len(part),
            self._producer,
            topic,
            partition,
            self._times,
            self._lists,
            names,
            name_offsets,
            # What has no bytes may be at no place, and is there.
            values or address_of(_SOMEWHERE),
            value_offsets,
            self._is_there,
            self._functions,
            np.zeros(kernel.ARGUMENT_WORDS, dtype=np.int64),
        )
        left = part[sent - first :]
        return left, 0 if code == rdkafka.QUEUE_FULL else code


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
    messages[part][(messages[part] == 0) & (is_there is None or is_there == 1)] = address_of(_SOMEWHERE)
    return texts


_SOMEWHERE = np.zeros(1, dtype=np.uint8)
