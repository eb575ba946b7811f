"""librdkafka's C interface: the calls that move whole batches, and what they need.

The library is the one in the package confluent-kafka, which asks brokers about topics and offsets through its own interface.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ssize_t,
    c_void_p,
)
from typing import Any

from sqlstream.errors import ExternalError, UserError, did_you_mean

_ERROR_BYTES = 512

LOG_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)

PRODUCER, CONSUMER = 0, 1
CONF_OK, CONF_UNKNOWN = 0, -2
NO_ERROR, PARTITION_EOF, QUEUE_FULL, INVALID_ARGUMENT, TIMED_OUT = 0, -191, -184, -186, -185
ANY_PARTITION = -1
DELIVERY = 1
"""RD_KAFKA_EVENT_DR: messages that were delivered, or were not."""
COPIES = 2
"""RD_KAFKA_MSG_F_COPY: the bytes of messages are the caller's when a call has returned."""


class TopicPartition(Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class TopicPartitions(Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = [("count", c_int), ("size", c_int), ("elements", POINTER(TopicPartition))]


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_bytes", c_size_t),
        ("key", c_void_p),
        ("key_bytes", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


class TopicMetadata(Structure):
    """rd_kafka_metadata_topic_t."""

    _fields_ = [("topic", c_char_p), ("partition_count", c_int), ("partitions", c_void_p), ("err", c_int)]


class Metadata(Structure):
    """rd_kafka_metadata_t."""

    _fields_ = [
        ("broker_count", c_int),
        ("brokers", c_void_p),
        ("topic_count", c_int),
        ("topics", POINTER(TopicMetadata)),
        ("broker_id", c_int32),
        ("broker_name", c_char_p),
    ]


_LIST = POINTER(TopicPartitions)
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "conf_new": ([], c_void_p),
    "conf_destroy": ([c_void_p], None),
    "conf_set": ([c_void_p, c_char_p, c_char_p, c_char_p, c_size_t], c_int),
    "conf_dump": ([c_void_p, POINTER(c_size_t)], POINTER(c_char_p)),
    "conf_dump_free": ([POINTER(c_char_p), c_size_t], None),
    "conf_set_log_cb": ([c_void_p, LOG_CALLBACK], None),
    "new": ([c_int, c_void_p, c_char_p, c_size_t], c_void_p),
    "destroy_flags": ([c_void_p, c_int], None),
    "poll_set_consumer": ([c_void_p], c_int),
    "queue_get_consumer": ([c_void_p], c_void_p),
    "queue_destroy": ([c_void_p], None),
    "queue_io_event_enable": ([c_void_p, c_int, c_char_p, c_size_t], None),
    "consume_batch_queue": ([c_void_p, c_int, c_void_p, c_size_t], c_ssize_t),
    "topic_partition_list_new": ([c_int], _LIST),
    "topic_partition_list_add": ([_LIST, c_char_p, c_int32], POINTER(TopicPartition)),
    "topic_partition_list_destroy": ([_LIST], None),
    "incremental_assign": ([c_void_p, _LIST], c_void_p),
    "incremental_unassign": ([c_void_p, _LIST], c_void_p),
    "get_watermark_offsets": (
        [c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64)],
        c_int,
    ),
    "commit": ([c_void_p, _LIST, c_int], c_int),
    "error_string": ([c_void_p], c_char_p),
    "error_code": ([c_void_p], c_int),
    "error_destroy": ([c_void_p], None),
    "last_error": ([], c_int),
    "err2str": ([c_int], c_char_p),
    "err2name": ([c_int], c_char_p),
    "message_errstr": ([POINTER(Message)], c_char_p),
    "message_destroy": ([POINTER(Message)], None),
    "topic_name": ([c_void_p], c_char_p),
    "message_timestamp": ([c_void_p, c_void_p], c_int64),
    "message_headers": ([c_void_p, c_void_p], c_int),
    "header_get_all": ([c_void_p, c_size_t, c_void_p, c_void_p, c_void_p], c_int),
    "message_leader_epoch": ([c_void_p], c_int32),
    "conf_set_events": ([c_void_p, c_int], None),
    "conf": ([c_void_p], c_void_p),
    "conf_get": ([c_void_p, c_char_p, c_char_p, POINTER(c_size_t)], c_int),
    "queue_get_main": ([c_void_p], c_void_p),
    "queue_poll": ([c_void_p, c_int], c_void_p),
    "event_message_next": ([c_void_p], POINTER(Message)),
    "event_destroy": ([c_void_p], None),
    "topic_new": ([c_void_p, c_char_p, c_void_p], c_void_p),
    "topic_destroy": ([c_void_p], None),
    "metadata": ([c_void_p, c_int, c_void_p, POINTER(POINTER(Metadata)), c_int], c_int),
    "metadata_destroy": ([POINTER(Metadata)], None),
    "produce_batch": ([c_void_p, c_int32, c_int, c_void_p, c_int], c_int),
    "produceva": ([c_void_p, c_void_p, c_size_t], c_void_p),
    "headers_new": ([c_size_t], c_void_p),
    "headers_destroy": ([c_void_p], None),
    "header_add": ([c_void_p, c_char_p, c_ssize_t, c_void_p, c_ssize_t], c_int),
    "init_transactions": ([c_void_p, c_int], c_void_p),
    "begin_transaction": ([c_void_p], c_void_p),
    "send_offsets_to_transaction": ([c_void_p, _LIST, c_void_p, c_int], c_void_p),
    "commit_transaction": ([c_void_p, c_int], c_void_p),
    "abort_transaction": ([c_void_p, c_int], c_void_p),
    "consumer_group_metadata_new": ([c_char_p], c_void_p),
    "consumer_group_metadata_destroy": ([c_void_p], None),
    "purge": ([c_void_p, c_int], c_int),
    "flush": ([c_void_p, c_int], c_int),
}


class Library:
    """The functions of librdkafka by their names without `rd_kafka_`. Calls release the interpreter's lock."""

    def __init__(self) -> None:
        import confluent_kafka

        folder = os.path.dirname(os.path.dirname(confluent_kafka.__file__))
        found = glob.glob(os.path.join(glob.escape(folder), "confluent_kafka.libs", "librdkafka*"))
        if not found:
            raise UserError(
                "SS4015",
                "the installed confluent-kafka has no librdkafka",
                hint="install its wheel: pip install --force-reinstall --only-binary :all: confluent-kafka",
            )
        self._library = ctypes.CDLL(found[0])
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(self._library, f"rd_kafka_{name}")
            function.argtypes, function.restype = arguments, result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"rd_kafka_{name}")

    def address(self, name: str) -> int:
        """Of a function, for kernels."""
        return int(ctypes.cast(getattr(self, name), c_void_p).value or 0)


@functools.cache
def library() -> Library:
    return Library()


_NO_LOG = LOG_CALLBACK(lambda client, level, facility, text: None)


def new_client(kind: int, settings: dict[str, str]) -> int:
    """A PRODUCER, which puts DELIVERY events into its main queue, or a CONSUMER. UserError SS4002 as of `check_settings`,
    ExternalError SS5301 for a client that cannot be made."""
    conf = _configuration(settings)
    library().conf_set_log_cb(conf, _NO_LOG)
    if kind == PRODUCER:
        library().conf_set_events(conf, DELIVERY)
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    made = library().new(kind, conf, text, _ERROR_BYTES)
    if not made:
        code, said = last_error(), text.value.decode("utf-8", "replace")
        library().conf_destroy(conf)
        if code == INVALID_ARGUMENT:
            hint = "correct the options 'properties.…'"
            raise UserError("SS4002", f"the properties of Kafka cannot be used: {said}", hint=hint)
        raise ExternalError("SS5301", f"could not make a client of Kafka: {said}")
    return int(made)


def setting(client: int, key: str) -> str:
    """What a client has for a property, in the library's spelling."""
    text, size = ctypes.create_string_buffer(_ERROR_BYTES), c_size_t(_ERROR_BYTES)
    library().conf_get(library().conf(client), key.encode(), text, ctypes.byref(size))
    return text.value.decode()


def _configuration(settings: dict[str, str]) -> int:
    """For `new` or `conf_destroy`."""
    conf = int(library().conf_new())
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    for key, value in settings.items():
        found = library().conf_set(conf, key.encode(), value.encode(), text, _ERROR_BYTES)
        if found != CONF_OK:
            hint = did_you_mean(key, _properties(conf)) if found == CONF_UNKNOWN else ""
            hint = (
                hint or "take the name and a value from the list of librdkafka's properties, or leave it out"
            )
            library().conf_destroy(conf)
            raise UserError(
                "SS4002",
                f'property "{key}" cannot be set: {text.value.decode("utf-8", "replace").strip()}',
                hint=hint,
            )
    return conf


_WITHOUT_DEFAULTS = (
    *("bootstrap.servers", "group.id", "client.id", "client.rack", "sasl.username", "sasl.password"),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.cipher.suites", "group.instance.id"),
)


def _properties(conf: int) -> list[str]:
    """The names of properties that the library knows."""
    count = c_size_t()
    listed = library().conf_dump(conf, ctypes.byref(count))
    names = [listed[i].decode() for i in range(0, count.value, 2)]
    library().conf_dump_free(listed, count)
    return sorted({*names, *_WITHOUT_DEFAULTS})


def check_settings(settings: dict[str, str]) -> None:
    """UserError SS4002 with the library's reason for a property that it does not take."""
    library().conf_destroy(_configuration(settings))


def partition_list(partitions: list[tuple[str, int, int]]) -> Any:
    """Topics, partitions and offsets, for `topic_partition_list_destroy`."""
    made = library().topic_partition_list_new(max(1, len(partitions)))
    for topic, partition, offset in partitions:
        library().topic_partition_list_add(made, topic.encode(), partition).contents.offset = offset
    return made


def error_name(code: int) -> str:
    """As Kafka writes it: UNKNOWN_TOPIC_OR_PART."""
    return str(library().err2name(code).decode())


def error_text(code: int) -> str:
    return str(library().err2str(code).decode())


def last_error() -> int:
    """That of a call of this thread which gave nothing."""
    return int(library().last_error())
