"""Messages that cannot be decoded: counted, and kept where the table says, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import TIMEOUT_S
from kafka_harness import Broker, running_broker, table
from server_harness import RunningServer
from spark_harness.processes import wait_until

import sqlstream
from sqlstream.testing.check import rows_of

KEPT = "SELECT topic, `partition`, `offset`, reason, `key` FROM t$errors"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def skipping(broker: Broker, topic: str, place: Path, **others: str) -> dict[str, str]:
    options = broker.options(topic, json__ignore_parse_errors="true", **others)
    options["json.ignore-parse-errors"] = options.pop("json.ignore_parse_errors")
    return options | {"source.rejected-rows.path": str(place / "kept")}


def test_undecodable_messages_are_kept_with_their_places(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2)
    broker.send(topic, ['{"n":1}', "bad", b"\xff{"], keys=["a", "b", None])
    broker.send(topic, ["worse"], partition=1)
    made = table("t", "n BIGINT", skipping(broker, topic, tmp_path))
    found = rows_of([made, "SELECT * FROM t"])
    assert found == [(1,)]
    kept = sorted(rows_of([made, KEPT]), key=str)
    assert [(*row[1:3], row[4]) for row in kept] == [(0, 1, b"b"), (0, 2, None), (1, 0, None)]
    assert all(row[3] for row in kept)
    assert rows_of([made, "SELECT `value` FROM t$errors WHERE `offset` = 2"]) == [(b"\xff{",)]


def test_a_key_and_a_value_may_both_be_undecodable(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, ['{"n":1}', '{"n":2}', "bad"], keys=['{"k":1}', "bad", "bad"])
    options = skipping(broker, topic, tmp_path) | {
        "key.format": "json",
        "key.fields": "k",
        "key.json.ignore-parse-errors": "true",
        "value.fields-include": "EXCEPT_KEY",
    }
    made = table("t", "k BIGINT, n BIGINT", options)
    assert rows_of([made, "SELECT * FROM t"]) == [(1, 1)]
    assert [row[2] for row in rows_of([made, KEPT])] == [1, 2, 2]


def test_a_table_keeps_none_unless_it_says_where(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    options = skipping(broker, topic, tmp_path)
    del options["source.rejected-rows.path"]
    made = table("t", "n BIGINT", options)
    with pytest.raises(sqlstream.Error, match=r"SS3003.*keeps no rejected rows"):
        rows_of([made, "SELECT * FROM t$errors"])


def test_a_job_that_goes_on_keeps_each_message_once(broker: Broker, tmp_path: Path) -> None:
    """The TaskManager is killed behind a checkpoint, when messages since then are rejected already."""
    topic = broker.topic(2)
    options = skipping(broker, topic, tmp_path)
    del options["scan.bounded.mode"]
    sink = {"connector": "filesystem", "path": str(tmp_path / "out"), "format": "json"}
    place = tmp_path / "server"
    setting = "sqlstream.server.database-servers.enabled=true"

    def kept() -> list[tuple[int, int]]:
        lines = [
            line for path in (tmp_path / "kept").glob("*.json") for line in path.read_text().splitlines()
        ]
        return sorted((row["partition"], row["offset"]) for row in map(json.loads, lines))

    with RunningServer(place, "--task-managers", "1", "-D", setting) as server:
        session = server.open_session()
        server.execute(session, "SET 'execution.checkpointing.interval' = '1 h'")
        for text in (table("t", "n BIGINT", options), table("o", "n BIGINT", sink)):
            server.execute(session, text)
        job_id = server.insert(session, "INSERT INTO o SELECT n FROM t")
        for partition in (0, 1):
            broker.send(topic, ["bad", '{"n":1}', "bad"], partition=partition)
        wait_until(lambda: len(kept()) == 4, TIMEOUT_S)
        for child in server.task_managers():
            child.kill()
        for partition in (0, 1):
            broker.send(topic, ["bad"], partition=partition)
        wait_until(lambda: len(kept()) >= 6, TIMEOUT_S)
        assert kept() == [(p, o) for p in (0, 1) for o in (0, 2, 3)]
        server.request("PATCH", f"/jobs/{job_id}", rest=True)
