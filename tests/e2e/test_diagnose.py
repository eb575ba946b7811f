"""DIAGNOSE JOB on jobs with something planted in them: uneven keys, a sink that does not keep up, a partition without rows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from command_harness import sqlstream
from http_harness import Asked, Reply, http_server
from kafka_mock import mock_cluster
from server_harness import RunningServer

from sqlstream.testing.check import table_text

FOUND_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    words = ("-D", "sqlstream.server.database-servers.enabled=true")
    words += ("-D", "sqlstream.server.private-addresses.enabled=true")
    with RunningServer(tmp_path_factory.mktemp("diagnose") / "data", *words) as running:
        yield running


def found(server: RunningServer, job_id: str, kind: str, **fields: Any) -> dict[str, Any]:
    """The finding of a kind, once there is one with these fields."""
    deadline_s = time.monotonic() + FOUND_S
    while time.monotonic() < deadline_s:
        diagnosis = server.get(f"/jobs/{job_id}/diagnosis")
        for finding in diagnosis["findings"]:
            if finding["kind"] == kind and fields.items() <= finding.items():
                return dict(finding)
    raise AssertionError(diagnosis["text"])


def run(server: RunningServer, *statements: str) -> str:
    """Returns the id of the job of the last one."""
    session = server.open_session()
    for statement in statements[:-1]:
        server.execute(session, statement)
    return server.insert(session, statements[-1])


def test_uneven_keys_are_found_by_statement_command_and_request(server: RunningServer) -> None:
    job_id = run(
        server,
        "SET 'parallelism.default' = '2'",
        "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'",
        "CREATE TEMPORARY TABLE visits (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5000',"
        " 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000')",
        "CREATE TEMPORARY TABLE counts (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole')",
        "INSERT INTO counts SELECT k, COUNT(*) FROM"
        " (SELECT CASE WHEN MOD(n, 20) = 0 THEN n ELSE 1 END AS k FROM visits) GROUP BY k",
    )
    finding = found(server, job_id, "SKEW")
    assert finding["evidence"]["rows"].startswith(("95% in subtask", "96% in", "97% in", "98% in"))
    assert "key groups" in finding["evidence"]
    session = server.open_session()
    ((text,),) = server.execute(session, f"DIAGNOSE JOB '{job_id}'")
    assert text.startswith(f'job {job_id} "')
    assert "SKEW" in text
    told = sqlstream("diagnose", job_id[:8], "--server", server.gateway)
    assert (told.returncode, "SKEW" in told.stdout) == (0, True), told.stderr
    as_json = json.loads(sqlstream("diagnose", job_id, "--server", server.gateway, "--json").stdout)
    assert "SKEW" in [f["kind"] for f in as_json["findings"]]
    server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
    assert server.request("GET", f"/jobs/{'0' * 32}/diagnosis", rest=True).status_code == 404


def test_a_sink_that_does_not_keep_up_is_found_with_what_it_holds_back(server: RunningServer) -> None:
    ends = threading.Event()

    def reply(asked: Asked) -> Reply:
        ends.wait(0.5)
        return Reply.json({})

    with http_server(reply) as slow:
        job_id = run(
            server,
            "SET 'parallelism.default' = '1'",
            "SET 'execution.batch-rows' = '64'",
            "SET 'pipeline.operator-chaining.enabled' = 'false'",
            "SET 'taskmanager.network.memory.max-buffered-bytes' = '64 kb'",
            "CREATE TEMPORARY TABLE fast (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000')",
            "CREATE TEMPORARY TABLE slow (n BIGINT) WITH"
            f" ('connector' = 'http-sink', 'url' = '{slow.url}/in', 'format' = 'json')",
            "INSERT INTO slow SELECT n FROM fast WHERE n <> 7",
        )
        finding = found(server, job_id, "BOTTLENECK", severity="HIGH")
        plan = server.get(f"/jobs/{job_id}/plan")["plan"]["nodes"]
        sink = next(node["id"] for node in plan if "slow" in node["description"])
        assert finding["vertex"] == sink
        assert any("Source" in name and name.endswith(" waits") for name in finding["evidence"])
        assert any('sink "' in advice for advice in finding["advice"])
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        ends.set()
        server.wait_for(job_id, "CANCELED")


def test_a_partition_without_rows_is_found_to_hold_event_time_back(server: RunningServer) -> None:
    with mock_cluster(1) as cluster:
        topic = cluster.topic(2)
        cluster.send(topic, [f'{{"ts":"2024-05-01 12:{n:02}:00.000"}}' for n in range(50)])
        options = {"json.timestamp-format.standard": "SQL"}
        given = {k: v for k, v in cluster.options(topic, **options).items() if k != "scan.bounded.mode"}
        job_id = run(
            server,
            "SET 'parallelism.default' = '1'",
            table_text("events", "ts TIMESTAMP(3), WATERMARK FOR ts AS ts", given),
            "CREATE TEMPORARY TABLE minutes (s TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole')",
            "INSERT INTO minutes SELECT window_start, COUNT(*) FROM"
            " TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
        )
        finding = found(server, job_id, "WATERMARK", severity="HIGH")
        assert "events" in finding["said"]
        assert len(finding["evidence"]["partitions without a watermark"].split(", ")) == 1
        assert finding["evidence"]["rows read"] == 50
        assert "table.exec.source.idle-timeout" in finding["advice"][0]
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
