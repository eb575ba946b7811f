"""Metadata of messages that rows say: time, headers and topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from kafka_harness import Broker, running_broker, table

import sqlstream
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.connectors.kafka.connector import Kafka
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import MetadataSinkSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.testing.check import rows_of
from sqlstream.types import BIGINT, STRING

AT_MS = int(time.time() * 1000) - 3_600_000
"""An hour ago: the broker removes what is old."""
AT = f"TO_TIMESTAMP_LTZ({AT_MS}, 3)"
COLUMNS = (
    "at_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', n BIGINT, headers MAP<STRING, BYTES> METADATA, part INT METADATA FROM"
    " 'partition' VIRTUAL"
)
GUARANTEES = ["at-least-once", "exactly-once"]
UTC = "SET 'table.local-time-zone' = 'UTC'"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def options(broker: Broker, topic: str, guarantee: str, place: Path, **others: str) -> dict[str, str]:
    return broker.options(topic, **others) | {
        "sink.delivery-guarantee": guarantee,
        "sink.transactional-id-prefix": topic.replace(";", "-"),
        "sink.staging-directory": str(place),
    }


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_times_and_headers_are_those_of_the_rows(broker: Broker, guarantee: str, tmp_path: Path) -> None:
    topic = broker.topic()
    made = table("t", COLUMNS, options(broker, topic, guarantee, tmp_path))
    rows = f"""
        ({AT}, 1, MAP['a', x'00ff', 'leer', x'', 'none', CAST(NULL AS BYTES)]),
        ({AT} + INTERVAL '1' SECOND, 2, CAST(NULL AS MAP<STRING, BYTES>)),
        ({AT}, 3, MAP['é', x'01'])"""
    rows_of([UTC, made, f"INSERT INTO t VALUES {rows}", "SELECT 1"])
    found = [(m.value(), m.timestamp(), m.headers()) for m in broker.messages(topic)]
    assert found == [
        (b'{"n":1}', (1, AT_MS), [("a", b"\x00\xff"), ("leer", b"")]),
        (b'{"n":2}', (1, AT_MS + 1000), None),
        (b'{"n":3}', (1, AT_MS), [("é", b"\x01")]),
    ]
    assert rows_of([UTC, made, "SELECT n, CARDINALITY(headers) FROM t ORDER BY n"]) == [
        (1, 2),
        (2, 0),
        (3, 1),
    ]


def test_a_batch_writes_metadata_too(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    made = table("t", COLUMNS, options(broker, topic, "exactly-once", tmp_path))
    batch = "SET 'execution.runtime-mode' = 'BATCH'"
    rows_of([batch, made, f"INSERT INTO t VALUES ({AT}, 1, MAP['a', x'00'])", "SELECT 1"])
    (message,) = broker.messages(topic)
    assert (message.value(), message.timestamp()) == (b'{"n":1}', (1, AT_MS))
    assert message.headers() == [("a", b"\x00")]


def test_a_time_that_rows_do_not_say_is_that_of_sending(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    made = table("t", COLUMNS, options(broker, topic, "at-least-once", tmp_path))
    rows_of([made, "INSERT INTO t (n) VALUES (1)", "SELECT 1"])
    (message,) = broker.messages(topic)
    assert message.timestamp()[1] > AT_MS
    assert message.headers() is None


@pytest.mark.parametrize("said", ["1970-01-01 00:00:00", "1969-12-31 23:59:59"])
def test_a_time_that_no_message_has_is_refused(broker: Broker, said: str, tmp_path: Path) -> None:
    made = table("t", COLUMNS, options(broker, broker.topic(), "at-least-once", tmp_path))
    row = f"CAST(TIMESTAMP '{said}' AS TIMESTAMP_LTZ(3)), 1, CAST(NULL AS MAP<STRING, BYTES>)"
    with pytest.raises(sqlstream.Error, match=rf"SS5310.*the timestamp {said} UTC"):
        rows_of([UTC, made, f"INSERT INTO t VALUES ({row})", "SELECT 1"])


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("by_pattern", [False, True])
@pytest.mark.parametrize("partitioner", ["default", "fixed"])
def test_rows_say_to_which_topic_they_go(
    broker: Broker, guarantee: str, by_pattern: bool, partitioner: str, tmp_path: Path
) -> None:
    name = broker.topic()
    topics = [f"{name}.{n}" for n in range(3)]
    for topic in topics:
        broker.create(topic)
    given = options(broker, ";".join(topics), guarantee, tmp_path)
    given["sink.partitioner"] = partitioner
    if by_pattern:
        given["topic-pattern"] = f"{name}[.].*"
        del given["topic"]
    made = table("t", "topic STRING METADATA, n BIGINT", given)
    rows = ", ".join(f"('{topics[n % 3]}', {n})" for n in range(300))
    rows_of([made, f"INSERT INTO t VALUES {rows}", "SELECT 1"])
    for place, topic in enumerate(topics):
        found = [message.value() for message in broker.messages(topic)]
        assert found == [b'{"n":%d}' % n for n in range(place, 300, 3)]
    assert rows_of([made, "SELECT topic, COUNT(*) FROM t GROUP BY topic ORDER BY topic"]) == [
        (topic, 100) for topic in topics
    ]


def test_a_commit_of_several_topics_is_repeated_when_its_rows_are_gone(
    broker: Broker, tmp_path: Path
) -> None:
    name = broker.topic()
    topics = [f"{name}.{n}" for n in range(2)]
    for topic in topics:
        broker.create(topic)
    given = options(broker, name, "exactly-once", tmp_path) | {"topic-pattern": f"{name}[.].*"}
    del given["topic"]
    spec = MetadataSinkSpec(
        "t", "kafka", given, Schema.of(("n", BIGINT)), metadata=Schema.of(("topic", STRING)).fields
    )
    context = ConnectorContext(
        job_id="j", vertex_id="v", subtask=0, parallelism=1, batch_rows=10, now_ms=now_ms, attempt=0, config={},
        count=lambda name, n: None, files=LocalFiles(), writer_name="a/job-0/1",
    )  # fmt: skip
    writer = Kafka().sink(spec, ChangelogMode.INSERT_ONLY, context)
    for checkpoint_id in (1, 2, 3):
        if checkpoint_id != 2:
            rows = [pa.array([checkpoint_id, 10 * checkpoint_id]), pa.array(topics[:: checkpoint_id - 2])]
            writer.write(pa.RecordBatch.from_arrays(rows, names=["n", "topic"]))
        prepared = writer.prepare_commit(checkpoint_id)
        for _ in range(2):
            Kafka().commit(spec, checkpoint_id, prepared, LocalFiles())
    writer.abort()
    assert [[m.value() for m in broker.messages(topic)] for topic in topics] == [
        [b'{"n":10}', b'{"n":3}'],
        [b'{"n":1}', b'{"n":30}'],
    ]


@pytest.mark.parametrize(
    ("value", "said"), [("'elsewhere'", 'names the topic "elsewhere"'), ("NULL", "names no topic")]
)
def test_a_topic_that_is_not_the_table_s_is_refused(
    broker: Broker, value: str, said: str, tmp_path: Path
) -> None:
    made = table("t", "topic STRING METADATA, n BIGINT", options(broker, "a;b", "at-least-once", tmp_path))
    with pytest.raises(sqlstream.Error, match=rf"SS5309.*{said}, and it may go to a, b"):
        rows_of([made, f"INSERT INTO t VALUES ({value}, 1)", "SELECT 1"])


def test_a_table_of_several_topics_needs_one_for_each_row(broker: Broker, tmp_path: Path) -> None:
    several = table("t", "n BIGINT", options(broker, "a;b", "at-least-once", tmp_path))
    with pytest.raises(sqlstream.Error, match=r"SS3003.*nothing says which topic a row goes to"):
        rows_of([several, "INSERT INTO t VALUES (1)", "SELECT 1"])
    one = table("t", "topic STRING METADATA, n BIGINT", options(broker, "a", "at-least-once", tmp_path))
    with pytest.raises(
        sqlstream.Error, match=r'SS3003.*metadata column "topic" of table "t" cannot be written'
    ):
        rows_of([one, "INSERT INTO t VALUES ('a', 1)", "SELECT 1"])


@pytest.mark.parametrize("key", ["partition", "offset", "timestamp-type", "leader-epoch"])
def test_what_the_broker_says_is_not_written(broker: Broker, key: str, tmp_path: Path) -> None:
    made = table("t", f"x STRING METADATA FROM '{key}', n BIGINT", options(broker, "a", "none", tmp_path))
    with pytest.raises(sqlstream.Error, match=r'SS3003.*metadata column "x" of table "t" cannot be written'):
        rows_of([made, "INSERT INTO t VALUES ('1', 1)", "SELECT 1"])


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_deletion_has_metadata_too(broker: Broker, guarantee: str, tmp_path: Path) -> None:
    topic = broker.topic()
    given = options(broker, topic, guarantee, tmp_path)
    given = {k: v for k, v in given.items() if k not in ("format", "scan.startup.mode")}
    given |= {"connector": "upsert-kafka", "value.format": "json", "key.format": "json"}
    columns = "h MAP<STRING, BYTES> METADATA FROM 'headers', k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
    numbers = "CREATE VIEW numbers AS SELECT k FROM (VALUES (1), (2), (1)) AS v (k)"
    header = "MAP['k', CAST(CAST(k AS STRING) AS BYTES)]"
    once = f"SELECT {header}, k, COUNT(*) FROM numbers GROUP BY k HAVING COUNT(*) = 1"
    rows_of([numbers, table("t", columns, given), f"INSERT INTO t {once}", "SELECT 1"])
    last = {m.key(): (m.value(), m.headers()) for m in broker.messages(topic)}
    assert last.get(b'{"k":1}', (None, [("k", b"1")])) == (None, [("k", b"1")])
    assert last[b'{"k":2}'] == (b'{"k":2,"n":1}', [("k", b"2")])
