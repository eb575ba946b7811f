"""Tables and partitions that are ahead in event time wait for the others of their group."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_harness import TIMEOUT_S
from kafka_harness import Broker, running_broker, table
from server_harness import POLL_S, RunningServer

import sqlstream

BEGIN = datetime.datetime(2025, 1, 1)
SPAN_S, DRIFT_S = 200_000, 3_600
FAST_ROWS, SLOW_ROWS = 20_000, 400
"""Over the same time: the ones are in files, the others come one after the other, 200 a second."""
SLACK_S = 2 * DRIFT_S
"""Rows pass each other on their way to the client."""

Row = tuple[Any, ...]


def aligned(**others: str) -> dict[str, str]:
    names = {"group": "g", "max-drift": f"{DRIFT_S} s", "update-interval": "50 ms"}
    return {**{f"scan.watermark.alignment.{k}": v for k, v in names.items()}, **others}


def fast(directory: Path, options: dict[str, str], files: int = 1) -> str:
    directory.mkdir()
    step_s = SPAN_S // FAST_ROWS
    for number in range(files):
        times = ((n, BEGIN + datetime.timedelta(seconds=n * step_s)) for n in range(number, FAST_ROWS, files))
        text = "".join(f"{n},{at.isoformat(sep=' ')}\n" for n, at in times)
        (directory / f"{number}.csv").write_text(text)
    given = {"connector": "filesystem", "path": str(directory), "format": "csv", **options}
    return table("fast", "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", given)


def slow(options: dict[str, str], per_second: int = 200) -> str:
    given = {
        "connector": "datagen",
        "rows-per-second": str(per_second),
        "number-of-rows": str(SLOW_ROWS),
        "fields.n.kind": "sequence",
        "fields.n.start": "0",
        "fields.n.end": str(SLOW_ROWS - 1),
        **options,
    }
    seconds = f"n * {SPAN_S // SLOW_ROWS}"
    time_ = f"TIMESTAMPADD(SECOND, CAST({seconds} AS INT), TIMESTAMP '{BEGIN} ')".replace(" ')", "')")
    columns = f"n BIGINT, id AS {seconds} / {SPAN_S // FAST_ROWS}, ts AS CAST({time_} AS TIMESTAMP(3)), WATERMARK FOR ts AS ts"
    return table("slow", columns, given)


def rows_as_they_come(statements: list[str], query: str) -> list[Row]:
    config = {"execution.batch-rows": "50"}
    with sqlstream.connect("embedded://", config=config) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.execute(query)
        return [tuple(row) for row in cursor]


def greatest_drift_s(rows: list[Row], ahead: object, behind: object) -> float:
    """How far the ones were ahead of the others, whose rows have the place in the first and the time in the second column. What
    comes when the others have ended does not count."""
    last = max(i for i, row in enumerate(rows) if row[0] == behind)
    reached, drift_s = BEGIN, 0.0
    for place, at in (row[:2] for row in rows[:last]):
        if place == behind:
            reached = max(reached, at)
        elif place == ahead:
            drift_s = max(drift_s, (at - reached).total_seconds())
    return drift_s


def test_a_table_waits_for_another_one_whatever_makes_their_watermarks(tmp_path: Path) -> None:
    statements = [fast(tmp_path / "fast", aligned()), slow(aligned())]
    rows = rows_as_they_come(
        statements, "SELECT 'fast', ts, id FROM fast UNION ALL SELECT 'slow', ts, n FROM slow"
    )
    found = {place: sorted(row[2] for row in rows if row[0] == place) for place in ("fast", "slow")}
    assert found == {"fast": list(range(FAST_ROWS)), "slow": list(range(SLOW_ROWS))}
    assert greatest_drift_s(rows, "fast", "slow") <= DRIFT_S + SLACK_S


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "kafka") as started:
        yield started


def test_a_partition_waits_for_another_one_of_its_topic(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition, rows in ((0, FAST_ROWS // 10), (1, FAST_ROWS)):
        step_s = SPAN_S // rows
        times = ((BEGIN + datetime.timedelta(seconds=n * step_s)).isoformat(sep=" ") for n in range(rows))
        broker.send(topic, [json.dumps({"id": n, "ts": at}) for n, at in enumerate(times)], partition)
    options = broker.options(topic, **aligned())
    columns = "p INT METADATA FROM 'partition', id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    found = rows_as_they_come([table("t", columns, options)], "SELECT p, ts, id FROM t")
    for partition, rows in ((0, FAST_ROWS // 10), (1, FAST_ROWS)):
        assert [row[2] for row in found if row[0] == partition] == list(range(rows))
    assert greatest_drift_s(found, 0, 1) <= DRIFT_S + SLACK_S
    assert greatest_drift_s(found, 1, 0) <= DRIFT_S + SLACK_S


JOINED = """INSERT INTO matched SELECT f.id FROM fast f JOIN slow s
ON f.id = s.id AND f.ts BETWEEN s.ts - INTERVAL '1' HOUR AND s.ts"""
MATCHED = table("matched", "id BIGINT", {"connector": "blackhole"})


def most_state_bytes(directory: Path, options: dict[str, str]) -> int:
    """Of the job that joins both."""
    with RunningServer(directory / "server") as server:
        session = server.open_session()
        for statement in (fast(directory / "fast", options), slow(options), MATCHED):
            server.execute(session, statement)
        job_id = server.insert(session, JOINED)
        most, deadline_s = 0, time.monotonic() + TIMEOUT_S
        while server.statuses()[job_id] != "FINISHED":
            assert time.monotonic() < deadline_s
            most = max(most, server.get(f"/jobs/{job_id}/totals")["total"].get("stateBytes", 0))
            time.sleep(POLL_S)
        return most


@pytest.mark.slow
def test_a_join_keeps_little_of_a_table_that_waits(tmp_path: Path) -> None:
    for name in ("apart", "together"):
        (tmp_path / name).mkdir()
    apart = most_state_bytes(tmp_path / "apart", {})
    together = most_state_bytes(tmp_path / "together", aligned())
    assert 0 < together < apart / 3


def written(out: Path) -> list[int]:
    """The rows that a reader of the table sees."""
    return sorted(
        json.loads(line)["id"]
        for path in out.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(out).parts)
        for line in path.read_text().splitlines()
    )


def test_readers_that_wait_are_killed_rescaled_and_go_on_from_a_savepoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with RunningServer(tmp_path / "server") as server:
        session = server.open_session()
        sink = {"connector": "filesystem", "path": str(out), "format": "json"}
        insert = "INSERT INTO out SELECT id FROM fast UNION ALL SELECT -1 - n FROM slow"
        for statement in (
            fast(tmp_path / "fast", aligned(), files=3),
            slow(aligned(), per_second=10),
            table("out", "id BIGINT", sink),
            "SET 'execution.checkpointing.interval' = '200 ms'",
            f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path / 'savepoints'}'",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, insert)
        server.wait_until_checkpointed(job_id, 2)
        server.execute(session, f"CALL sys.rescale_job('{job_id}', 3)")
        workers = server.task_managers()
        workers[0].kill()
        server.wait_for(job_id, "RUNNING")
        completed = server.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"]
        server.wait_until_checkpointed(job_id, completed + 2)
        ((path,),) = server.execute(session, f"STOP JOB '{job_id}' WITH SAVEPOINT")
        # The slow table has most of its rows still to come, and the files wait for it.
        assert len([row for row in written(out) if row >= 0]) < FAST_ROWS
        server.execute(session, "ALTER TABLE slow SET ('rows-per-second' = '400')")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{path}'")
        server.execute(session, "SET 'parallelism.default' = '2'")
        server.wait_for(server.insert(session, insert), "FINISHED")
    assert written(out) == list(range(-SLOW_ROWS, FAST_ROWS))


def test_a_table_without_a_watermark_cannot_wait() -> None:
    options = {"connector": "datagen", "rows-per-second": "1", **aligned()}
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        cursor.execute(table("t", "n BIGINT", options))
        with pytest.raises(Exception, match="has no watermark by which it could be aligned"):
            cursor.execute("SELECT * FROM t")
