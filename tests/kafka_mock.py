"""librdkafka's mock cluster: brokers on loopback that answer with errors when they are told to. It has no transactions that are
undone, and keeps nothing."""

from __future__ import annotations

import contextlib
import ctypes
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_void_p
from typing import Any

from kafka_harness import Broker

from sqlstream.runtime.connectors.kafka import library as rdkafka
from sqlstream.runtime.connectors.kafka.library import library

PRODUCE, FETCH, LIST_OFFSETS, METADATA, BEGIN_TRANSACTION = 0, 1, 2, 3, 22
"""Requests; the last is InitProducerId."""
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, TOO_LARGE = 1, 3, 6, 7, 10
TOPIC_REFUSED, ID_REFUSED, STORAGE, FENCED = 29, 53, 56, 90
"""Errors of brokers."""

_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "cluster_new": ([c_void_p, c_int], c_void_p),
    "cluster_destroy": ([c_void_p], None),
    "cluster_bootstraps": ([c_void_p], c_char_p),
    "topic_create": ([c_void_p, c_char_p, c_int, c_int], c_int),
    "topic_set_error": ([c_void_p, c_char_p, c_int], None),
    "partition_set_leader": ([c_void_p, c_char_p, c_int32, c_int32], c_int),
    "push_request_errors_array": ([c_void_p, ctypes.c_int16, c_size_t, c_void_p], None),
    "clear_request_errors": ([c_void_p, ctypes.c_int16], None),
    "broker_set_down": ([c_void_p, c_int32], c_int),
    "broker_set_up": ([c_void_p, c_int32], c_int),
    "start_request_tracking": ([c_void_p], None),
    "stop_request_tracking": ([c_void_p], None),
    "get_requests": ([c_void_p, POINTER(c_size_t)], POINTER(c_void_p)),
    "request_api_key": ([c_void_p], ctypes.c_int16),
    "request_destroy_array": ([POINTER(c_void_p), c_size_t], None),
}


class MockCluster(Broker):
    """Brokers 1 to n. State: those of the library, within this process."""

    def __init__(self, brokers: int) -> None:
        self._client = rdkafka.new_client(rdkafka.PRODUCER, {"log_level": "0"})
        self._cluster = self._call("cluster_new", self._client, brokers)
        self.brokers = brokers

    def _call(self, name: str, *arguments: Any) -> Any:
        function = getattr(library(), f"mock_{name}")
        function.argtypes, function.restype = _FUNCTIONS[name]
        return function(*arguments)

    @property
    def address(self) -> str:
        return self._call("cluster_bootstraps", self._cluster).decode()

    def create(self, name: str, partitions: int = 1) -> None:
        assert self._call("topic_create", self._cluster, name.encode(), partitions, self.brokers) == 0

    def topic(self, partitions: int = 1) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.create(name, partitions)
        return name

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition."""
        self._call("partition_set_leader", self._cluster, topic.encode(), partition, broker)

    def answer(self, request: int, errors: Sequence[int]) -> None:
        """The next requests of a kind are answered with these errors, one after the other."""
        codes = (c_int * len(errors))(*errors)
        self._call("push_request_errors_array", self._cluster, request, len(errors), codes)

    def forgive(self, request: int) -> None:
        """Answer without errors from here on."""
        self._call("clear_request_errors", self._cluster, request)

    def fail(self, topic: str, error: int) -> None:
        """Answer all that is asked of a topic with an error; 0 for none."""
        self._call("topic_set_error", self._cluster, topic.encode(), error)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counter[int]]:
        """How often each request has come meanwhile, when it is over."""
        found: Counter[int] = Counter()
        self._call("start_request_tracking", self._cluster)
        yield found
        count = c_size_t()
        requests = self._call("get_requests", self._cluster, ctypes.byref(count))
        found.update(self._call("request_api_key", requests[i]) for i in range(count.value))
        self._call("request_destroy_array", requests, count)
        self._call("stop_request_tracking", self._cluster)

    def down(self, broker: int) -> None:
        self._call("broker_set_down", self._cluster, broker)

    def up(self, broker: int) -> None:
        self._call("broker_set_up", self._cluster, broker)

    def close(self) -> None:
        self._call("cluster_destroy", self._cluster)
        library().destroy_flags(self._client, 0)


@contextlib.contextmanager
def mock_cluster(brokers: int = 3) -> Iterator[MockCluster]:
    cluster = MockCluster(brokers)
    try:
        yield cluster
    finally:
        cluster.close()
