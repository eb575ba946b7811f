"""The measurements behind `sqlstream bench kafka`: what reading and writing topics costs, beside the bare library."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.client.benches.script import run_script
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.kafka.consumer import Consumer
from sqlstream.runtime.connectors.kafka.partitions import SILENT
from sqlstream.runtime.connectors.kafka.producer import Messages, Producer
from sqlstream.runtime.connectors.kafka.source import CONSUMER
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import HasMessages, MessageRequest
from sqlstream.types import BIGINT, STRING, timestamp

BATCH_ROWS = 65_536
BEHIND_ROWS_MAX = 500_000
"""Messages behind the end of what is read: what is fetched ahead costs the same then, wherever reading ends."""

TIMEOUT_S = 60
ADMIN_TIMEOUT_S = 10
PASS_BAR, WINDOW_BAR, COPY_BAR, LATENCY_BAR_MS, IDLE_BAR = 1.3, 1.2, 700_000.0, 20.0, 0.02
IDLE_TOPICS, IDLE_PARTITIONS = 100, 10
LATENCY_RATE = 1_000
LATENCY_WARM_UP_S = 2
PARTS = ("read", "window", "copy", "latency", "idle")

_COLUMNS = "id BIGINT, account BIGINT, ts TIMESTAMP(3), note STRING"
_SCHEMA = Schema.of(("id", BIGINT), ("account", BIGINT), ("ts", timestamp(3)), ("note", STRING))
_RAW = "payload BYTES"
_NOTE = "a text that makes the message about as long as those of applications often are, so"
_START_MS = 1_760_000_000_000


@dataclass(frozen=True)
class Figure:
    """What was measured, in a unit. `bar` is what it is held to; None for what others are compared with."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    is_at_least: bool = False

    @property
    def is_within_bar(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.is_at_least else self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        names = ("name", "value", "unit", "bar", "is_within_bar")
        return {name: getattr(self, name) for name in names}


def messages(first: int, end: int) -> pa.Array:
    """Messages of these numbers: objects of JSON of 164 bytes, a millisecond of event time apart."""
    numbers = np.arange(first, end)
    times = pc.add(pa.array(numbers), _START_MS).cast(pa.timestamp("ms"))
    return pc.binary_join_element_wise(
        '{"id": ', pa.array(numbers + 100_000_000).cast(pa.string()),
        ', "account": ', pa.array(numbers % 9_973 + 10_000).cast(pa.string()),
        ', "ts": "', pc.strftime(times, format="%Y-%m-%d %H:%M:%S"), f'", "note": "{_NOTE}"}}', "",
    ).cast(pa.binary())  # fmt: skip


class KafkaBench:
    """Measures one part after the other against a broker, in topics of its own, which it deletes at its end."""

    def __init__(
        self,
        servers: str,
        rows: int,
        runs: int,
        seconds: int,
        properties: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> None:
        from sqlstream.client.clusters.local_cluster import IN_PROCESS_INPUT

        self._rows, self._runs, self._seconds = rows, runs, seconds
        self._properties = {**properties, "bootstrap.servers": servers}
        self._settings = {**settings, "parallelism.default": "1", IN_PROCESS_INPUT: "0"}
        self._prefix = f"sqlstream-bench-{uuid.uuid4().hex[:8]}"
        self._topics: list[str] = []
        self._filled = ""

    def __enter__(self) -> KafkaBench:
        return self

    def __exit__(self, *ignored: object) -> None:
        from confluent_kafka.admin import AdminClient

        if self._topics:
            deleted = AdminClient(self._properties, logger=SILENT).delete_topics(
                self._topics, request_timeout=ADMIN_TIMEOUT_S
            )
            for each in deleted.values():
                # Some brokers delete no topics.
                with contextlib.suppress(Exception):
                    each.result(TIMEOUT_S)

    def measure(self, part: str) -> Iterator[Figure]:
        """The figures of a part, each as soon as it is there."""
        measures: dict[str, Callable[[], Iterator[Figure]]] = {
            "read": self._read,
            "window": self._window,
            "copy": self._copy,
            "latency": self._latency,
            "idle": self._idle,
        }
        return measures[part]()

    # --- throughput: nanoseconds of CPU for a message, by two sizes of input

    def _read(self) -> Iterator[Figure]:
        bare_ns = self._ns(self._bare)
        yield Figure("bare loop", bare_ns, "ns")
        yield Figure("kafka to blackhole", pass_ns := self._ns_of(f"{self._raw()} {_PASS}"), "ns")
        yield Figure("by bare loop", pass_ns / bare_ns, "times", PASS_BAR)

    def _window(self) -> Iterator[Figure]:
        bare_ns, decode_ns = self._ns(self._bare), self._ns(self._decode)
        yield Figure("bare loop", bare_ns, "ns")
        yield Figure("decode JSON from memory", decode_ns, "ns")
        yield Figure("JSON to count by window", window_ns := self._ns_of(f"{self._json()} {_WINDOW}"), "ns")
        yield Figure("by loop and decode", window_ns / (bare_ns + decode_ns), "times", WINDOW_BAR)

    def _copy(self) -> Iterator[Figure]:
        target = self._topic(1)
        text = f"{self._raw()} {self._table('copied', _RAW, target, {'format': 'raw'})} {_COPY}"
        yield Figure("kafka to kafka", 1e9 / self._ns_of(text), "rows/CPU-s", COPY_BAR, is_at_least=True)

    def _ns(self, cpu_s: Callable[[int], float]) -> float:
        """Of the median run: what more of the input costs, so that beginning and end of a run do not count."""
        few = self._rows // 4
        cpu_s(few)
        found = [(cpu_s(self._rows) - cpu_s(few)) / (self._rows - few) * 1e9 for _ in range(self._runs)]
        return statistics.median(found)

    def _ns_of(self, text: str) -> float:
        from sqlstream.client.clusters.local_cluster import LocalClusterClient
        from sqlstream.client.sessions.session import Session

        with contextlib.closing(LocalClusterClient(self._settings)) as clusters:
            session, cluster = Session(clusters, self._settings), clusters.cluster()

            def cpu_s(rows: int) -> float:
                end = {"scan.bounded.specific-offsets": f"partition:0,offset:{rows}"}
                before_s = cluster.cpu_seconds()
                run_script(
                    session, text, lambda t: t.options | (end if "scan.bounded.mode" in t.options else {})
                )
                return cluster.cpu_seconds() - before_s

            return self._ns(cpu_s)

    def _bare(self, rows: int) -> float:
        """The CPU time of taking messages from the library and copying their values, without anything else."""
        settings = {"group.id": self._prefix, **CONSUMER, **self._properties}
        before_s = time.process_time()
        consumer, left = Consumer(settings, BATCH_ROWS), rows
        try:
            consumer.assign([(self._source(), 0, 0)])
            deadline_s = time.monotonic() + TIMEOUT_S
            while left > 0:
                _check(deadline_s)
                taken = consumer.take(65_536)
                if taken is None:
                    time.sleep(0.01)
                    continue
                for run in taken.runs:
                    taken.values(run)
                    left -= run.end - run.first
                taken.release()
        finally:
            consumer.close()
        return time.process_time() - before_s

    def _decode(self, rows: int) -> float:
        """The CPU time of decoding what the query reads of the same messages, which are in memory."""
        form = format_of("json")
        assert isinstance(form, HasMessages)
        reader, spent_s = form.message_reader(MessageRequest(_SCHEMA, ("ts",))), 0.0
        for first in range(0, rows, BATCH_ROWS):
            values = messages(first, min(first + BATCH_ROWS, rows))
            before_s = time.process_time()
            reader.decode(values)
            spent_s += time.process_time() - before_s
        return spent_s

    # --- latency

    def _latency(self) -> Iterator[Figure]:
        from sqlstream.client.connection import connect

        topic = self._topic(1)
        options = {"format": "json", "properties.isolation.level": "read_uncommitted"}
        with connect("embedded://", config=self._settings) as connection:
            connection.execute(self._table("source", "sent BIGINT", topic, options))
            with connection.execute("SELECT sent FROM source") as result, self._sending(topic):
                lags_ms = self._lags_ms(result.batches())
        lags_ms.sort()
        yield Figure("produce to result, p50", lags_ms[len(lags_ms) // 2], "ms")
        p99 = lags_ms[len(lags_ms) * 99 // 100]
        yield Figure("produce to result, p99", p99, "ms", LATENCY_BAR_MS)

    def _lags_ms(self, batches: Iterator[pa.RecordBatch]) -> list[float]:
        """Of what was sent when the job had run for a while: those before have waited for its start."""
        lags: list[float] = []
        since_ns = 0
        for batch in batches:
            now_ns = time.time_ns()
            since_ns = since_ns or now_ns + LATENCY_WARM_UP_S * 1_000_000_000
            sent = batch.column(0).to_numpy()
            lags += ((now_ns - sent[sent >= since_ns]) / 1e6).tolist()
            if len(lags) >= self._seconds * LATENCY_RATE:
                break
        return lags

    @contextlib.contextmanager
    def _sending(self, topic: str) -> Iterator[None]:
        """Send the time LATENCY_RATE times a second, meanwhile."""
        is_over = threading.Event()
        producer = Producer({**self._properties, "linger.ms": "0"})

        def send() -> None:
            sent, since_s = 0, time.monotonic()
            while not is_over.wait(max(0.0, since_s + sent / LATENCY_RATE - time.monotonic())):
                producer.send(topic, Messages(pa.array([b'{"sent": %d}' % time.time_ns()])))
                sent += 1

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            is_over.set()
            sender.join()
            producer.close()

    # --- idle

    def _idle(self) -> Iterator[Figure]:
        from sqlstream.client.clusters.local_cluster import LocalClusterClient
        from sqlstream.client.sessions.session import Session
        from sqlstream.planner.dialect.parser import parse_script

        topics = [self._topic(IDLE_PARTITIONS) for _ in range(IDLE_TOPICS)]
        text = f"{self._table('source', _RAW, ';'.join(topics), {'format': 'raw'})} {_PASS}"
        with contextlib.closing(LocalClusterClient(self._settings)) as clusters:
            session, cluster = Session(clusters, self._settings), clusters.cluster()
            for statement in parse_script(text):
                session.execute(statement)
            time.sleep(self._seconds / 2)
            before_s, since_s = cluster.cpu_seconds(), time.monotonic()
            time.sleep(self._seconds)
            share = (cluster.cpu_seconds() - before_s) / (time.monotonic() - since_s)
        yield Figure(f"idle, {IDLE_TOPICS * IDLE_PARTITIONS:,} partitions", share, "of a core", IDLE_BAR)

    # --- topics and tables

    def _topic(self, partitions: int) -> str:
        from confluent_kafka.admin import AdminClient, NewTopic

        name = f"{self._prefix}-{len(self._topics)}"
        admin = AdminClient(self._properties, logger=SILENT)
        try:
            made = admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=ADMIN_TIMEOUT_S)
            made[name].result(TIMEOUT_S)
        except Exception as error:
            raise ExternalError("SS5301", f"could not make a topic to measure with: {error}") from error
        self._topics.append(name)
        return name

    def _source(self) -> str:
        """The topic with the messages that are read."""
        if not self._filled:
            topic, producer = self._topic(1), Producer(self._properties)
            with contextlib.closing(producer):
                rows = self._rows + min(BEHIND_ROWS_MAX, self._rows)
                for first in range(0, rows, BATCH_ROWS):
                    producer.send(topic, Messages(messages(first, min(first + BATCH_ROWS, rows))))
                producer.flush()
            self._filled = topic
        return self._filled

    def _raw(self) -> str:
        return self._table("source", _RAW, self._source(), {"format": "raw", **_BOUNDED})

    def _json(self) -> str:
        columns = f"{_COLUMNS}, WATERMARK FOR ts AS ts"
        return self._table("source", columns, self._source(), {"format": "json", **_BOUNDED})

    def _table(self, name: str, columns: str, topic: str, options: Mapping[str, str]) -> str:
        properties = {f"properties.{key}": value for key, value in self._properties.items()}
        given = {
            "connector": "kafka",
            "topic": topic,
            "scan.startup.mode": "earliest-offset",
            **properties,
            **options,
        }
        listed = ", ".join(f"'{k}' = '{v.replace(chr(39), 2 * chr(39))}'" for k, v in given.items())
        return f"CREATE TABLE {name} ({columns}) WITH ({listed});"


_BOUNDED = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:0"}
_PASS = f"CREATE TABLE nowhere ({_RAW}) WITH ('connector' = 'blackhole'); INSERT INTO nowhere SELECT payload FROM source;"
_COPY = "INSERT INTO copied SELECT payload FROM source;"
_WINDOW = """CREATE TABLE nowhere (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;"""


def _check(deadline_s: float) -> None:
    if time.monotonic() > deadline_s:
        raise ExternalError("SS5301", f"the broker has not delivered what was sent within {TIMEOUT_S} s")
