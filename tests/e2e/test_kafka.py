"""Tables of Kafka against a broker: what is read and written, by any number of readers, across restarts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from select import select as wait_readable

import pyarrow as pa
import pytest
from command_harness import TIMEOUT_S
from kafka_harness import Broker, running_broker, table
from registry_harness import running_registry
from server_harness import RunningServer
from spark_harness.processes import wait_until

import sqlstream
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.kafka import transactions
from sqlstream.runtime.connectors.kafka.consumer import Consumer, _texts
from sqlstream.runtime.connectors.kafka.partitions import committed_offset
from sqlstream.runtime.connectors.kafka.source import CONSUMER
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Field, Schema
from sqlstream.specs import MetadataSinkSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.testing import Check, ConnectorCase, checks
from sqlstream.testing.check import Row, rows_of
from sqlstream.types import BIGINT, STRING

SERVERS = "sqlstream.server.database-servers.enabled=true"

COLUMNS = {"n": "BIGINT", "name": "STRING"}
VALUES = ("NULLIF(n, 3)", "'row ' || CAST(n AS STRING)")
_BROKERS: list[Broker] = []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        _BROKERS.append(started)
        yield started
        _BROKERS.clear()


def _table_in(place: Path, **others: str) -> dict[str, str]:
    """A table whose topic belongs to a directory; without a broker only the options count."""
    if not _BROKERS:
        return {"sink.delivery-guarantee": "exactly-once"}
    broker = _BROKERS[-1]
    name = "t" + re.sub(r"\W", "_", str(place))[-100:]
    if not (place / "topic").exists():
        broker.create(name, 3)
        (place / "topic").touch()
    exact = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": name}
    staging = {"sink.staging-directory": str(place / "staging")}
    return {**broker.options(name), **exact, **staging, **others}


KIT = checks(
    ConnectorCase(
        "kafka",
        COLUMNS,
        _table_in,
        VALUES,
        refused=(
            ({"scan.startup.mode": "timestamp"}, "SS4005"),
            ({"properties.no.such": "1"}, "SS4002"),
            ({"properties.enable.partition.eof": "true"}, "SS4003"),
            ({"format": "parquet"}, "SS4003"),
        ),
    )
)


@pytest.mark.parametrize("check", [check for check in KIT if not check.is_slow], ids=str)
def test_the_engine_can_use_it(check: Check, broker: Broker, tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check for check in KIT if check.is_slow], ids=str)
def test_the_engine_can_use_it_although_processes_are_killed(
    check: Check, broker: Broker, tmp_path: Path
) -> None:
    check(tmp_path)


def select(options: dict[str, str], columns: str = "n BIGINT", query: str = "SELECT * FROM t") -> list[Row]:
    return rows_of([table("t", columns, options), query])


def documents(*numbers: int) -> list[str]:
    return [json.dumps({"n": n}) for n in numbers]


MIDNIGHT_MS = int(time.time() * 1000) // 86_400_000 * 86_400_000
"""Of this day: a broker removes messages that are older than a week."""

METADATA = (
    "n BIGINT, t STRING METADATA FROM 'topic', p INT METADATA FROM 'partition', o BIGINT METADATA FROM 'offset',"
    " at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', k STRING METADATA FROM 'timestamp-type',"
    " h MAP<STRING, BYTES> METADATA FROM 'headers'"
)


def test_messages_have_metadata(broker: Broker) -> None:
    topic = broker.topic(2)
    headers = [[("a", b"x"), ("b", None), ("a", b"y")], []]
    broker.send(
        topic,
        documents(1, 2),
        partition=1,
        headers=headers,
        timestamps=[MIDNIGHT_MS + 1000, MIDNIGHT_MS + 2000],
    )
    since = f"TIMESTAMPDIFF(SECOND, TO_TIMESTAMP_LTZ({MIDNIGHT_MS}, 3), at)"
    cast = f"SELECT n, t, p, o, {since}, k, CAST(h['a'] AS STRING), CARDINALITY(h) FROM t"
    assert sorted(select(broker.options(topic), METADATA, cast)) == [
        (1, topic, 1, 0, 1, "CreateTime", "y", 2),
        (2, topic, 1, 1, 2, "CreateTime", None, 0),
    ]


def test_keys_have_columns(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, documents(1, 2, 3), keys=['{"id": 7}', None, '{"id": 9}'])
    keys = {"key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_"}
    options = {**broker.options(topic), **keys, "value.fields-include": "EXCEPT_KEY"}
    assert select(options, "k_id INT, n BIGINT") == [(7, 1), (None, 2), (9, 3)]


def test_a_message_without_a_value_has_no_row(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, [documents(1)[0], None, "", documents(2)[0]])
    assert select(broker.options(topic)) == [(1,), (2,)]
    assert select(broker.options(topic, format="raw"), "v STRING")[1:3] == [(None,), ("",)]


def test_rows_are_messages_of_avro(broker: Broker) -> None:
    topic = broker.topic()
    options = broker.options(topic, format="avro")
    columns = "n BIGINT, tags ARRAY<STRING>, at_ms TIMESTAMP(3)"
    row = (
        "VALUES (1, ARRAY['a', 'ö'], TIMESTAMP '2024-05-01 12:00:00'), (2, CAST(NULL AS ARRAY<STRING>), NULL)"
    )
    rows_of([table("t", columns, options), f"INSERT INTO t {row}", "SELECT 1"])
    written = select(options, columns, "SELECT n, tags, CAST(at_ms AS STRING) FROM t")
    assert written == [(1, ["a", "ö"], "2024-05-01 12:00:00.000"), (2, None, None)]
    broker.send(topic, [None, b"\x04", bytes([2, 10, 0, 0])])
    with pytest.raises(sqlstream.Error, match=r"at offset 3 of .*: it has a branch that its union"):
        select(options, columns)
    skipping = {**options, "avro.ignore-parse-errors": "true"}
    assert select(skipping, columns, "SELECT n FROM t") == [(1,), (2,), (5,)]


def test_rows_are_messages_with_schemas_of_a_registry(broker: Broker) -> None:
    topic = broker.topic()
    with running_registry() as registry:
        both = {f"{side}.avro-confluent.url": registry.url for side in ("key", "value")}
        formats = {"key.format": "avro-confluent", "value.format": "avro-confluent"}
        options = {**upserts(broker, topic), **formats, **both}
        columns = "n BIGINT, name STRING, PRIMARY KEY (n) NOT ENFORCED"
        made = table("t", columns, options)
        rows_of([made, "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "SELECT 1"])
        assert set(registry.subjects) == {f"{topic}-key", f"{topic}-value"}
        # Another writer has another schema.
        number = registry.add({"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]})
        keys = [message.key() for message in broker.messages(topic)]
        broker.send(topic, [b"\0" + number.to_bytes(4, "big") + b"\2", None], keys=keys)
        assert rows_of([made, "SELECT * FROM t"]) == [(1, None)]


PROTO = """syntax = "proto3"; package shop;
message Order { int64 n = 1; repeated string tags = 2; Place where = 3; } message Place { optional string town = 1; }"""


def test_rows_are_messages_of_protocol_buffers(broker: Broker) -> None:
    topic = broker.topic()
    given = {"protobuf.message-class-name": "shop.Order", "protobuf.schema": PROTO}
    options = {**broker.options(topic), "format": "protobuf", **given}
    columns = "n BIGINT, tags ARRAY<STRING>, `where` ROW<town STRING>"
    values = "VALUES (1, ARRAY['a', 'ö'], ROW('b')), (2, CAST(NULL AS ARRAY<STRING>), CAST(NULL AS ROW<town STRING>))"
    rows_of([table("t", columns, options), f"INSERT INTO t {values}", "SELECT 1"])
    assert select(options, columns, "SELECT n, tags, t.`where`.town FROM t") == [
        (1, ["a", "ö"], "b"),
        (2, None, None),
    ]
    broker.send(topic, [None, b"\x08", b"\x08\x05\x20\x01"])
    with pytest.raises(sqlstream.Error, match=r"at offset 3 of .*: it ends within a value"):
        select(options, columns)
    skipping = {**options, "protobuf.ignore-parse-errors": "true"}
    assert select(skipping, columns, "SELECT n FROM t") == [(1,), (2,), (5,)]


def test_rows_are_messages_of_protocol_buffers_with_schemas_of_a_registry(broker: Broker) -> None:
    topic = broker.topic()
    with running_registry() as registry:
        given = {"format": "protobuf-confluent", "protobuf-confluent.url": registry.url}
        options = {**broker.options(topic), **given}
        columns = "n BIGINT, at_ms TIMESTAMP_LTZ(3)"
        rows_of(
            [
                table("t", columns, options),
                "INSERT INTO t VALUES (1, NULL), (2, TO_TIMESTAMP_LTZ(5, 3))",
                "SELECT 1",
            ]
        )
        assert set(registry.subjects) == {f"{topic}-value"}
        number = registry.add('syntax = "proto3"; message A {} message B { int64 n = 9; }', kind="PROTOBUF")
        broker.send(topic, [b"\0" + number.to_bytes(4, "big") + b"\2\2" + b"\x48\x03"])
        query = "SELECT n, at_ms IS NULL FROM t"
        assert select(options, columns, query) == [(1, True), (2, False), (3, True)]


def test_rows_are_objects_with_schemas_of_a_registry(broker: Broker) -> None:
    topic = broker.topic()
    with running_registry() as registry:
        options = {**broker.options(topic), "format": "json-registry", "json-registry.url": registry.url}
        columns = "n BIGINT, tags ARRAY<STRING>"
        rows_of([table("t", columns, options), "INSERT INTO t VALUES (1, ARRAY['a']), (2, NULL)", "SELECT 1"])
        assert set(registry.subjects) == {f"{topic}-value"}
        broker.send(topic, [b'\0\0\0\0\1{"n": 3}', b'{"n": 4}'])
        with pytest.raises(sqlstream.Error, match="it does not begin with a zero and the id of a schema"):
            select(options, columns)
        skipping = {**options, "json-registry.ignore-parse-errors": "true"}
        assert select(skipping, columns, "SELECT * FROM t") == [(1, ["a"]), (2, None), (3, None)]


def test_changes_are_events_of_debezium_in_avro(broker: Broker) -> None:
    topic = broker.topic()
    with running_registry() as registry:
        name = "debezium-avro-confluent"
        options = {**broker.options(topic), "format": name, f"{name}.url": registry.url}
        columns = "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED"
        made = table("t", columns, options)
        counts = "SELECT name, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS v(name) GROUP BY name"
        rows_of([made, f"INSERT INTO t {counts}", "SELECT 1"])
        assert set(registry.subjects) == {f"{topic}-value"}
        broker.send(topic, [None])
        assert sorted(rows_of([made, "SELECT * FROM t"])) == [("a", 2), ("b", 1)]


def test_an_undecodable_message_is_named(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, [*documents(1), "bad", *documents(3)])
    with pytest.raises(sqlstream.Error, match=rf'SS5305.*offset 1 of partition 0 of topic "{topic}"'):
        select(broker.options(topic))
    assert select({**broker.options(topic), "json.ignore-parse-errors": "true"}) == [(1,), (3,)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"scan.startup.mode": "latest-offset"}, []),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:2;partition:1,offset:0",
            },
            [3, 4, 11],
        ),
        (
            {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(MIDNIGHT_MS + 2000)},
            [2, 3, 4, 11],
        ),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": "partition:0,offset:2",
            },
            [1, 2],
        ),
        (
            {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(MIDNIGHT_MS + 3000)},
            [1, 2],
        ),
    ],
)
def test_a_table_begins_and_ends_where_its_options_say(
    broker: Broker, options: dict[str, str], found: list[int]
) -> None:
    topic = broker.topic(2)
    broker.send(topic, documents(1, 2, 3, 4), timestamps=[MIDNIGHT_MS + 1000 * n for n in (1, 2, 3, 4)])
    broker.send(topic, documents(11), partition=1, timestamps=[MIDNIGHT_MS + 9000])
    assert sorted(n for (n,) in select({**broker.options(topic), **options})) == found


def test_a_table_of_a_pattern_reads_all_topics_that_match(broker: Broker) -> None:
    name = broker.topic()
    broker.create(f"{name}.b", 2)
    broker.send(name, documents(1))
    broker.send(f"{name}.b", documents(2), partition=1)
    options = {k: v for k, v in broker.options(name).items() if k != "topic"}
    assert sorted(select({**options, "topic-pattern": f"{name}.*"})) == [(1,), (2,)]


def test_what_is_not_there_is_named(broker: Broker) -> None:
    with pytest.raises(sqlstream.Error, match=r'SS5302.*topic "absent" does not exist'):
        select(broker.options("absent"))
    topic = broker.topic()
    options = broker.options(topic, properties__group__id="nobody")
    with pytest.raises(sqlstream.Error, match=r"SS5307.*has committed no offset"):
        select({**options, "scan.startup.mode": "group-offsets"})
    broker.send(topic, documents(1))
    resets = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}
    assert select({**options, **resets}) == [(1,)]


def test_a_job_without_a_broker_says_so(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.kafka.partitions._TIMEOUT_S", 1.0)
    options = {**broker.options("t"), "properties.bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(sqlstream.Error, match=r'SS5301.*no broker of "127.0.0.1:1" can be reached'):
        select(options)


def test_a_partition_s_own_rows_are_not_late(broker: Broker) -> None:
    """Each partition has a watermark: rows of one are not late because another one is read first."""
    topic = broker.topic(2)
    seconds = range(20, 120, 10)
    for partition in (0, 1):
        broker.send(
            topic,
            documents(*seconds),
            partition=partition,
            timestamps=[MIDNIGHT_MS + n * 1000 for n in seconds],
        )
    columns = "n BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts"
    window = "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end"
    assert select(broker.options(topic), columns, window) == [(4,)] * 5


def test_rows_are_written_with_keys(broker: Broker) -> None:
    topic = broker.topic(3)
    options = broker.options(topic, key__format="raw", key__fields="name")
    rows = ", ".join(f"({n}, 'k{n % 3}')" for n in range(30))
    rows_of([table("t", "n BIGINT, name STRING", options), f"INSERT INTO t VALUES {rows}", "SELECT 1"])
    messages = broker.messages(topic)
    assert sorted(json.loads(m.value())["n"] for m in messages) == list(range(30))
    assert all(m.key().decode() == json.loads(m.value())["name"] for m in messages)
    assert len({(m.key(), m.partition()) for m in messages}) == 3


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_writer_may_have_one_partition(broker: Broker, guarantee: str, tmp_path: Path) -> None:
    topic = broker.topic(3)
    options = broker.options(topic) | {
        "sink.partitioner": "fixed",
        "sink.delivery-guarantee": guarantee,
        "sink.transactional-id-prefix": topic,
        "sink.staging-directory": str(tmp_path),
    }
    rows = ", ".join(f"({n})" for n in range(30))
    rows_of([table("t", "n BIGINT", options), f"INSERT INTO t VALUES {rows}", "SELECT 1"])
    assert {(m.partition(), m.offset()) for m in broker.messages(topic)} >= {(0, n) for n in range(30)}


@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_commit_is_repeated_when_its_rows_and_what_the_broker_knew_are_gone(
    broker: Broker, by_pattern: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic()
    options = broker.options(topic) | {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": topic,
        "sink.staging-directory": str(tmp_path),
    }
    if by_pattern:
        del options["topic"]
        options["topic-pattern"] = re.escape(topic)
    schema = Schema.of(("n", BIGINT))
    spec = MetadataSinkSpec("t", "kafka", options, schema, metadata=(Field("topic", STRING),))
    files, kafka = LocalFiles(), connector("kafka")
    context = ConnectorContext("j", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, files)
    writer = kafka.sink(spec, ChangelogMode.INSERT_ONLY, context)
    writer.write(pa.record_batch({"n": pa.array([1, 2]), "topic": pa.array([topic, topic])}))
    committables = writer.prepare_commit(7)
    kafka.commit(spec, 7, committables, files)
    assert not any(Path(c.content["path"]).exists() for c in committables)
    monkeypatch.setattr(transactions, "committed_offset", lambda *asked: -1)
    kafka.commit(spec, 7, committables, files)
    assert [m.value() for m in broker.messages(topic)] == [b'{"n":1}', b'{"n":2}']


def test_a_topic_that_is_not_there_cannot_be_written(broker: Broker) -> None:
    options = broker.options("t", properties__allow__auto__create__topics="false") | {"topic": "absent-sink"}
    with pytest.raises(sqlstream.Error, match="SS5302"):
        rows_of([table("t", "n BIGINT", options), "INSERT INTO t VALUES (1)", "SELECT 1"])


@pytest.mark.parametrize("has_ended", [False, True])
def test_offsets_are_committed_to_the_group_after_a_checkpoint(
    broker: Broker, has_ended: bool, tmp_path: Path
) -> None:
    topic, group = broker.topic(2), "shop-" + tmp_path.name
    broker.send(topic, documents(*range(10)))
    options = broker.options(topic, properties__group__id=group)
    settings = "SET 'execution.checkpointing.interval' = '100 ms'"
    sink = table(
        "out", "n BIGINT", {"connector": "filesystem", "path": str(tmp_path / "out"), "format": "csv"}
    )
    if has_ended:
        # One partition has, and the other one has not.
        options["scan.bounded.mode"] = "specific-offsets"
        options["scan.bounded.specific-offsets"] = "partition:0,offset:10;partition:1,offset:3"
    else:
        del options["scan.bounded.mode"]
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", SERVERS) as server:
        session = server.open_session()
        for text in (settings, table("t", "n BIGINT", options), sink):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO out SELECT n FROM t")

        asked = {"bootstrap.servers": broker.address}
        wait_until(lambda: committed_offset(asked, group, topic) == 10, TIMEOUT_S)
        server.request("PATCH", f"/jobs/{job_id}", rest=True)


HOURLY = "SET 'execution.checkpointing.interval' = '1 h'"
AUTO_COMMIT = {"properties.enable.auto.commit": "true"}


def group_offsets(broker: Broker, group: str, topic: str, partitions: int) -> list[int]:
    """Below 0 for a partition of which the group has committed nothing."""
    from confluent_kafka import Consumer, TopicPartition

    asking = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    try:
        found = asking.committed([TopicPartition(topic, n) for n in range(partitions)], timeout=TIMEOUT_S)
        return [partition.offset for partition in found]
    finally:
        asking.close()


@pytest.mark.parametrize(
    ("setting", "more", "is_told"),
    [(HOURLY, {}, True), ("SET", AUTO_COMMIT, True), (HOURLY, AUTO_COMMIT, True), ("SET", {}, False)],
)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_group_is_where_its_table_has_ended(
    broker: Broker, setting: str, more: dict[str, str], is_told: bool, parallelism: int, tmp_path: Path
) -> None:
    """No checkpoint has come before the end. The next job goes on behind it."""
    topic, group = broker.topic(3), tmp_path.name
    for partition in (0, 1):
        broker.send(topic, documents(*range(5 * (partition + 1))), partition=partition)
    options = broker.options(topic, properties__group__id=group) | more
    before = [setting, f"SET 'parallelism.default' = '{parallelism}'"]
    assert len(rows_of([*before, table("t", "n BIGINT", options), "SELECT * FROM t"])) == 15
    # The third one has no messages.
    assert group_offsets(broker, group, topic, 3) == ([5, 10, 0] if is_told else [-1001] * 3)
    broker.send(topic, documents(77))
    resets = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}
    assert len(select({**options, **resets})) == (1 if is_told else 16)


def test_a_group_is_told_only_of_partitions_that_a_table_has(broker: Broker, tmp_path: Path) -> None:
    topic, group = broker.topic(2), tmp_path.name
    for partition in (0, 1):
        broker.send(topic, documents(1, 2, 3), partition=partition)
    options = broker.options(topic, properties__group__id=group)
    options |= {
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:2",
    }
    assert rows_of([HOURLY, table("t", "n BIGINT", options), "SELECT n FROM t LIMIT 1"]) == [(1,)]
    assert group_offsets(broker, group, topic, 2) == [-1001, -1001]
    assert rows_of([HOURLY, table("t", "n BIGINT", options), "SELECT n FROM t"]) == [(1,), (2,)]
    assert group_offsets(broker, group, topic, 2) == [2, -1001]


def test_a_group_is_told_without_checkpoints_where_its_table_is(broker: Broker, tmp_path: Path) -> None:
    topic, group, copied = broker.topic(), tmp_path.name, broker.topic()
    broker.send(topic, documents(*range(10)))
    options = broker.options(topic, properties__group__id=group) | AUTO_COMMIT
    options["properties.auto.commit.interval.ms"] = "50"
    del options["scan.bounded.mode"]
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", SERVERS) as server:
        session = server.open_session()
        for text in (table("t", "n BIGINT", options), table("o", "n BIGINT", broker.options(copied))):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO o SELECT n FROM t")
        wait_until(lambda: group_offsets(broker, group, topic, 1) == [10], TIMEOUT_S)
        server.request("PATCH", f"/jobs/{job_id}", rest=True)


def test_the_last_header_of_a_name_counts_however_many_there_are(broker: Broker) -> None:
    topic = broker.topic()
    many = [(f"h{n % 10_000}", str(n).encode()) for n in range(20_000)]
    broker.send(topic, documents(1), headers=[many])
    columns = "n BIGINT, h MAP<STRING, BYTES> METADATA FROM 'headers'"
    asked = "SELECT CARDINALITY(h), h['h7'], h['h9999'] FROM t"
    assert select(broker.options(topic), columns, asked) == [(10_000, b"10007", b"19999")]


def test_a_name_of_a_header_that_is_no_text_is_read_with_signs_for_that() -> None:
    assert _texts(pa.array([b"a", b"\xff", b"a"])).to_pylist() == ["a", "\ufffd", "a"]


def upserts(broker: Broker, topic: str, **others: str) -> dict[str, str]:
    options = {k: v for k, v in broker.options(topic).items() if k not in ("format", "scan.startup.mode")}
    return {**options, "connector": "upsert-kafka", "value.format": "json", "key.format": "json", **others}


KEYED = "k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"


def test_messages_replace_each_other_by_key(broker: Broker) -> None:
    topic = broker.topic()
    keys = [json.dumps({"k": k}) for k in (1, 2, 1, 2, 3, 4, 4)]
    values = ['{"n": 1}', '{"n": 2}', '{"n": 3}', None, None, '{"n": 4}', '{"n": 5}']
    broker.send(topic, values, keys=keys)
    assert sorted(select(upserts(broker, topic), KEYED)) == [(1, 3), (4, 5)]
    assert select(upserts(broker, topic), KEYED, "SELECT COUNT(*), SUM(n) FROM t")[-1] == (2, 8)


@pytest.mark.parametrize(
    "time", ["ts TIMESTAMP(3)", "at STRING, ts AS TO_TIMESTAMP(at)"], ids=["column", "computed"]
)
def test_partitions_of_changes_by_key_need_not_be_at_one_time(broker: Broker, time: str) -> None:
    topic = broker.topic(2)
    field = time.partition(" ")[0]
    for partition in (0, 1):
        # Whichever is read first comes to a later time than the other one begins with.
        values = [f'{{"n":{n},"{field}":"2026-01-01 1{n // 4}:00:00"}}' for n in range(5)]
        broker.send(topic, values, partition, keys=[json.dumps({"k": 10 * partition + n}) for n in range(5)])
    columns = (
        f"k INT, n BIGINT, {time}, WATERMARK FOR ts AS ts, {KEYED.partition(', ')[2].partition(', ')[2]}"
    )
    query = (
        "SELECT CAST(window_start AS STRING), COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
        " GROUP BY window_start, window_end ORDER BY 1"
    )
    options = upserts(broker, topic) | {"scan.parallelism": "1"}
    single = "SET 'execution.batch-rows' = '1'"
    found = rows_of([single, table("t", columns, options), query])
    assert [row[1] for row in found] == [8, 2]


@pytest.mark.parametrize(("form", "key", "column"), [("json", '{"k": 1}', "k INT"), ("raw", "a", "k STRING")])
def test_a_message_without_a_key_is_no_row_of_a_key(broker: Broker, form: str, key: str, column: str) -> None:
    topic = broker.topic()
    broker.send(topic, documents(1, 2), keys=[key, None])
    columns = f"{column}, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
    with pytest.raises(sqlstream.Error, match=r"SS5305.*offset 1 .* has no key"):
        select(upserts(broker, topic, **{"key.format": form}), columns)


def test_a_message_with_an_undecodable_key_is_no_row_of_another_key(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, documents(1, 2, 3), keys=['{"k": 1}', "bad", "worse"])
    options = upserts(broker, topic, **{"key.json.ignore-parse-errors": "true"})
    assert select(options, KEYED) == [(1, 1)]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_updates_and_deletions_are_written_by_key(broker: Broker, guarantee: str, tmp_path: Path) -> None:
    topic = broker.topic(3)
    options = upserts(broker, topic) | {
        "sink.delivery-guarantee": guarantee,
        "sink.transactional-id-prefix": topic,
        "sink.staging-directory": str(tmp_path),
    }
    source = "CREATE VIEW numbers AS SELECT k, n FROM (VALUES (1, 1), (1, 2), (2, 3), (3, 4), (3, 5), (4, 6)) AS v (k, n)"
    wanted = "SELECT k, COUNT(*) AS n FROM numbers GROUP BY k HAVING COUNT(*) = 1"
    rows_of([source, table("t", KEYED, options), f"INSERT INTO t {wanted}", "SELECT 1"])
    messages = broker.messages(topic)
    last = {json.loads(m.key())["k"]: m.value() for m in messages}
    there = {k: json.loads(v) for k, v in last.items() if v is not None}
    assert there == {2: {"k": 2, "n": 1}, 4: {"k": 4, "n": 1}}
    assert len({(m.key(), m.partition()) for m in messages}) == len(last)
    assert sorted(select(options, KEYED)) == [(2, 1), (4, 1)]


BUFFER = {"sink.buffer-flush.max-rows": "1000", "sink.buffer-flush.interval": "50 ms"}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_of_rows_that_wait_the_last_one_of_a_key_is_written(
    broker: Broker, guarantee: str, tmp_path: Path
) -> None:
    topic = broker.topic(2)
    options = upserts(broker, topic) | {
        "sink.delivery-guarantee": guarantee,
        "sink.transactional-id-prefix": topic,
        "sink.staging-directory": str(tmp_path),
        "sink.buffer-flush.max-rows": "100000",
        "sink.buffer-flush.interval": "1 h",
    }
    rows = ", ".join(f"({n % 3}, {n})" for n in range(3000))
    rows_of([table("t", KEYED, options), f"INSERT INTO t VALUES {rows}", "SELECT 1"])
    written = [json.loads(m.value()) for m in broker.messages(topic)]
    # One for each key and writer; a bounded table without updates may have several writers.
    assert len(written) <= 6
    assert {row["k"]: row["n"] for row in written} == {0: 2997, 1: 2998, 2: 2999}


def test_rows_that_wait_are_written_when_it_is_time(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    options = upserts(broker, topic) | BUFFER
    source = table("numbers", "n BIGINT", {"connector": "datagen", "rows-per-second": "100"})
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", SERVERS) as server:
        session = server.open_session()
        for text in (source, table("t", KEYED, options)):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO t SELECT 7, n FROM numbers")
        wait_until(lambda: len(broker.messages(topic)) >= 2, TIMEOUT_S)
        server.request("PATCH", f"/jobs/{job_id}", rest=True)


@pytest.mark.parametrize("key", sorted(BUFFER))
def test_a_buffer_needs_both_of_its_options(broker: Broker, key: str) -> None:
    with pytest.raises(sqlstream.Error, match=rf"SS4005.*'{key}' needs the option"):
        rows_of([table("t", KEYED, {**upserts(broker, "t"), key: BUFFER[key]}), "SELECT 1"])


def test_a_table_of_keys_needs_a_primary_key(broker: Broker) -> None:
    with pytest.raises(sqlstream.Error, match=r"SS4005.*needs a primary key"):
        select(upserts(broker, broker.topic()), "n BIGINT")


def test_the_descriptor_of_a_consumer_can_be_read_when_a_message_has_come(broker: Broker) -> None:
    topic = broker.topic()
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "woken", **CONSUMER}, 10)
    try:
        consumer.assign([(topic, 0, 0)])
        for value in (b"one", b"two"):
            found: list[bytes] = []
            broker.send(topic, [value])
            while not found:
                (readable, _, _) = wait_readable([consumer.fileno], [], [], TIMEOUT_S)
                assert readable, "nothing has woken the reader"
                # All is taken, so that a message that comes later is an event again.
                while (taken := consumer.take(10)) is not None:
                    found += [v.as_py() for run in taken.runs for v in taken.values(run)]
                    taken.release()
            assert found == [value]
    finally:
        consumer.close()
