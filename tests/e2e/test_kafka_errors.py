"""What goes wrong with brokers: what passes is waited for, and what stays is named; no row is lost or doubled."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from command_harness import TIMEOUT_S
from kafka_harness import Broker, running_broker, table
from kafka_mock import (
    BEGIN_TRANSACTION,
    FENCED,
    FETCH,
    ID_REFUSED,
    LIST_OFFSETS,
    METADATA,
    NOT_LEADER,
    OFFSET_OUT_OF_RANGE,
    PRODUCE,
    STORAGE,
    TIMED_OUT,
    TOO_LARGE,
    TOPIC_REFUSED,
    UNKNOWN_TOPIC,
    MockCluster,
    mock_cluster,
)
from server_harness import RunningServer
from spark_harness.processes import wait_until

import sqlstream
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.kafka.connector import Kafka
from sqlstream.runtime.connectors.kafka.library import library
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.partitions import Partitions
from sqlstream.runtime.connectors.kafka.producer import Messages, Producer
from sqlstream.runtime.connectors.kafka.sink import KafkaWriter
from sqlstream.runtime.connectors.kafka.source import KafkaReader
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus
from sqlstream.testing.check import rows_of
from sqlstream.testing.connector_checks import context_of
from sqlstream.types import BIGINT

SERVERS = "sqlstream.server.database-servers.enabled=true"
MANY = 50
MESSAGES_WAIT_S = 200
"""Less than the library waits for a broker before a message has failed."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@contextlib.contextmanager
def answering(cluster: MockCluster, request: int, *errors: int) -> Iterator[None]:
    cluster.answer(request, errors)
    try:
        yield
    finally:
        cluster.forgive(request)


def documents(*numbers: int) -> list[str]:
    return [f'{{"n":{n}}}' for n in numbers]


def read(options: dict[str, str]) -> Counter[int]:
    return Counter(n for (n,) in rows_of([table("t", "n BIGINT", options), "SELECT n FROM t"]))


def write(options: dict[str, str], *numbers: int) -> None:
    rows = ", ".join(f"({n})" for n in numbers)
    rows_of([table("t", "n BIGINT", options), f"INSERT INTO t VALUES {rows}", "SELECT 1"])


@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_TOPIC, STORAGE])
def test_reading_goes_on_behind_an_error_that_passes(cluster: MockCluster, error: int) -> None:
    topic = cluster.topic(2)
    for partition in (0, 1):
        cluster.send(topic, documents(*range(partition, 20, 2)), partition=partition)
    with answering(cluster, FETCH, error, error):
        assert read(cluster.options(topic)) == Counter(range(20))
    with answering(cluster, LIST_OFFSETS, NOT_LEADER), answering(cluster, METADATA, TIMED_OUT):
        assert read(cluster.options(topic)) == Counter(range(20))


def test_messages_are_sent_once_although_answers_are_errors(cluster: MockCluster) -> None:
    topic = cluster.topic(2)
    with answering(cluster, PRODUCE, NOT_LEADER, TIMED_OUT, STORAGE, NOT_LEADER):
        write(cluster.options(topic), *range(20))
    assert read(cluster.options(topic)) == Counter(range(20))


def test_another_leader_is_found(cluster: MockCluster) -> None:
    topic = cluster.topic()
    for leader in (1, 2, 3):
        cluster.lead(topic, 0, leader)
        write(cluster.options(topic), leader)
    cluster.down(3)
    cluster.lead(topic, 0, 1)
    try:
        assert read(cluster.options(topic)) == Counter((1, 2, 3))
    finally:
        cluster.up(3)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TOPIC_REFUSED, "SS5303.*refuses access to partition 0 .*TOPIC_AUTHORIZATION_FAILED"),
        (OFFSET_OUT_OF_RANGE, "SS5304.*partition 0 .* does not have the offset"),
        (TIMED_OUT, "SS5301.*the broker of partition 0 .* answers with REQUEST_TIMED_OUT"),
    ],
)
def test_an_error_that_stays_is_named_by_a_reader(cluster: MockCluster, error: int, said: str) -> None:
    topic = cluster.topic()
    cluster.send(topic, documents(1))
    with answering(cluster, FETCH, *[error] * MANY), pytest.raises(sqlstream.Error, match=f"(?s){said}"):
        read(cluster.options(topic))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TOPIC_REFUSED, "SS5303.*refuses access to .*TOPIC_AUTHORIZATION_FAILED"),
        (TOO_LARGE, "SS5306.*a message is too large for partition 0"),
    ],
)
@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_an_error_that_stays_is_named_by_a_writer(
    cluster: MockCluster, error: int, said: str, guarantee: str
) -> None:
    options = cluster.options(cluster.topic()) | {"sink.delivery-guarantee": guarantee}
    with answering(cluster, PRODUCE, *[error] * MANY), pytest.raises(sqlstream.Error, match=f"(?s){said}"):
        write(options, 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ID_REFUSED,
            'SS5303.*refuses access to transactional id "shop-.*TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
        ),
        (FENCED, 'SS5311.*commit by transactional id "shop-.* was taken over'),
    ],
)
def test_an_error_of_a_transaction_is_named(
    cluster: MockCluster, error: int, said: str, tmp_path: Path
) -> None:
    options = cluster.options(cluster.topic()) | {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "shop",
        "sink.staging-directory": str(tmp_path),
    }
    with (
        answering(cluster, BEGIN_TRANSACTION, *[error] * MANY),
        pytest.raises(sqlstream.Error, match=f"(?s){said}"),
    ):
        write(options, 1)


def test_a_topic_that_is_refused_is_named_before_a_job_begins(cluster: MockCluster) -> None:
    topic = cluster.topic()
    cluster.fail(topic, TOPIC_REFUSED)
    with pytest.raises(sqlstream.Error, match=rf'(?s)SS5303.*refuses access to topic "{topic}"'):
        read(cluster.options(topic))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_broker_that_is_not_there_is_named_before_rows_are_written(
    guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.kafka.producer._ASK_S", 1.0)
    options = {
        "connector": "kafka",
        "topic": "t",
        "properties.bootstrap.servers": "127.0.0.1:1",
        "format": "json",
        "sink.delivery-guarantee": guarantee,
        "sink.transactional-id-prefix": "shop",
        "sink.staging-directory": str(tmp_path),
    }
    begin_s = time.monotonic()
    with pytest.raises(sqlstream.Error, match=r'(?s)SS5301.*no broker of "127.0.0.1:1" can be reached'):
        write(options, 1)
    assert time.monotonic() - begin_s < MESSAGES_WAIT_S


def test_a_checkpoint_knows_no_topics_of_later_looks(cluster: MockCluster) -> None:
    prefix = cluster.topic()
    options = cluster.options(prefix) | {"topic-pattern": f"{prefix}.*"}
    del options["topic"], options["scan.bounded.mode"]
    partitions = Partitions(KafkaOptions.of(options), None)
    partitions.discover()
    snapshot = partitions.snapshot()
    cluster.create(f"{prefix}-later")
    assert len(partitions.discover().splits) == 1
    assert snapshot == {"found": {prefix: 1}}


def test_a_writer_that_cannot_begin_leaves_no_client(cluster: MockCluster) -> None:
    topic = cluster.topic()
    options = cluster.options(topic)
    spec = SinkSpec(table="t", connector="kafka", options=options, schema=Schema.of(("n", BIGINT)))
    cluster.fail(topic, TOPIC_REFUSED)
    threads = library().thread_cnt()
    with pytest.raises(ExternalError, match="refuses access"):
        KafkaWriter(spec, KafkaOptions.of(options), context_of())
    assert library().thread_cnt() <= threads


def test_a_transaction_is_undone_although_messages_wait(cluster: MockCluster) -> None:
    settings = {"bootstrap.servers": cluster.address, "transactional.id": "undone"}
    with contextlib.closing(Producer(settings)) as producer:
        producer.begin()
        producer.send(cluster.topic(), Messages(pa.array([b"x"] * 100)))
        producer.undo()
        # It is refused while one is open.
        producer._checked("begin_transaction")


def test_a_topic_that_a_broker_makes_is_waited_for(cluster: MockCluster) -> None:
    topic = cluster.topic()
    with answering(cluster, METADATA, UNKNOWN_TOPIC):
        write(cluster.options(topic), 1)
    assert read(cluster.options(topic)) == Counter([1])


@pytest.mark.parametrize(("reset", "found"), [("earliest", [1, 2, 3]), ("latest", [])])
def test_reading_goes_on_where_the_table_says_when_an_offset_is_gone(
    cluster: MockCluster, reset: str, found: list[int]
) -> None:
    topic = cluster.topic()
    cluster.send(topic, documents(1, 2, 3))
    options = cluster.options(topic) | {"properties.auto.offset.reset": reset}
    with answering(cluster, FETCH, OFFSET_OUT_OF_RANGE):
        assert read(options) == Counter(found)


def test_the_user_is_told_of_offsets_that_are_gone(cluster: MockCluster) -> None:
    """However many partitions of a broker they are of, it is asked once where they go on."""
    topic = cluster.topic(3)
    for partition in range(3):
        cluster.lead(topic, partition, 1)
        cluster.send(topic, documents(*range(partition)), partition=partition)
    told: list[str] = []
    context = ConnectorContext(
        job_id="j", vertex_id="v", subtask=0, parallelism=1, batch_rows=10, now_ms=now_ms, attempt=0, config={},
        count=lambda name, n: None, files=LocalFiles(), print_lines=lambda lines, is_error: told.extend(lines),
    )  # fmt: skip
    options = cluster.options(topic) | {"properties.auto.offset.reset": "earliest"}
    spec = SourceSpec("t", "kafka", options, Schema.of(("n", BIGINT)), ("n",), is_bounded=False)
    splits = [{"topic": topic, "partition": n, "offset": 7} for n in range(3)]
    reader = Kafka().source(spec, context, splits)
    assert isinstance(reader, KafkaReader)
    try:
        with cluster.counting() as requests:
            queue = ctypes.c_void_p(reader._consumer._queue)
            wait_until(lambda: library().queue_length(queue) == 3, TIMEOUT_S)
            found = polled(reader, 3)
        assert (sorted(found), requests[LIST_OFFSETS]) == ([0, 0, 1], 1)
        assert sorted(told) == [
            f'topic "{topic}", partition {n}: offset 7 is gone, and reading goes on at offset 0'
            for n in range(3)
        ]
        assert reader.snapshot() == [{"topic": topic, "partition": n, "offset": n} for n in range(3)]
    finally:
        reader.close()


def polled(reader: SourceReader, rows: int) -> list[int]:
    found: list[int] = []

    def has_all() -> bool:
        batch = reader.poll()
        if not isinstance(batch, SourceStatus):
            found.extend(batch.column(0).to_pylist())
        return len(found) >= rows

    wait_until(has_all, TIMEOUT_S)
    return found


def test_a_message_is_too_large_for_its_producer(broker: Broker) -> None:
    options = broker.options(broker.topic()) | {"properties.max.request.size": "1000"}
    made = table("t", "v STRING", options)
    with pytest.raises(sqlstream.Error, match=r"(?s)SS5306.*a message is too large"):
        rows_of([made, "INSERT INTO t VALUES (REPEAT('x', 2000))", "SELECT 1"])


def test_a_topic_is_deleted_while_a_job_reads_it(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, documents(1))
    options = broker.options(topic, **{"scan.topic-partition-discovery.interval": "200 ms"})
    del options["scan.bounded.mode"]
    sink = {"connector": "filesystem", "path": str(tmp_path / "out"), "format": "json"}
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", SERVERS) as server:
        session = server.open_session()
        server.execute(session, "SET 'restart-strategy.type' = 'none'")
        for text in (table("t", "n BIGINT", options), table("o", "n BIGINT", sink)):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO o SELECT n FROM t")
        server.wait_for(job_id, "RUNNING")
        broker.delete(topic)
        assert server.wait_for(job_id, "FAILED") == "FAILED"
        exceptions = server.get(f"/jobs/{job_id}/exceptions")
        assert f'topic "{topic}" does not exist' in str(exceptions)


def test_partitions_that_are_added_are_read(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, documents(1))
    options = broker.options(topic, **{"scan.topic-partition-discovery.interval": "200 ms"})
    del options["scan.bounded.mode"]
    copied = broker.topic()
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", SERVERS) as server:
        session = server.open_session()
        for text in (table("t", "n BIGINT", options), table("o", "n BIGINT", broker.options(copied))):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO o SELECT n FROM t")
        broker.add_partitions(topic, 3)
        broker.send(topic, documents(2), partition=1)
        broker.send(topic, documents(3), partition=2)
        wait_until(lambda: len(broker.messages(copied)) == 3, TIMEOUT_S)
        server.request("PATCH", f"/jobs/{job_id}", rest=True)
    assert read(broker.options(copied)) == Counter((1, 2, 3))
