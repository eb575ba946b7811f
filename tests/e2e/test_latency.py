"""Latency markers of a job that runs, from its source through an exchange to its sink."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command_harness import sqlstream
from server_harness import RunningServer

SUMMARY = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
HISTOGRAM = "flink_jobmanager_job_endToEndLatency"
FOUND_S = 120.0


def test_markers_reach_the_sink_and_are_seen_in_rest_and_prometheus(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        session = server.open_session()
        for statement in (
            "SET 'parallelism.default' = '2'",
            "SET 'metrics.latency.interval' = '20 ms'",
            "SET 'execution.checkpointing.interval' = '200 ms'",
            "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')",
            "CREATE TEMPORARY TABLE nothing (n BIGINT, c BIGINT) WITH ('connector' = 'blackhole')",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, "INSERT INTO nothing SELECT n, COUNT(*) FROM ticks GROUP BY n")
        names = ("endToEndLatency_median", "endToEndLatency_p99")
        deadline_s = time.monotonic() + FOUND_S
        while True:
            figures = server.get(f"/jobs/{job_id}/metrics?get={','.join(names)}")
            scraped = server.request("GET", "/metrics", rest=True).text.splitlines()
            counts = [float(line.split()[-1]) for line in scraped if line.startswith(f"{HISTOGRAM}_count")]
            sinks = [
                line for line in scraped if line.startswith(f"{SUMMARY}{{") and 'quantile="0.99"' in line
            ]
            if len(figures) == 2 and counts and counts[0] >= 20 and len(sinks) >= 2:
                break
            assert time.monotonic() < deadline_s, scraped
            time.sleep(0.2)
        assert [figure["id"] for figure in figures] == list(names)
        bounded = [float(line.split()[-1]) for line in scraped if line.startswith(f"{HISTOGRAM}_bucket")]
        assert bounded == sorted(bounded)
        # Each bound counts what is below it as well, and the last one all.
        assert bounded[-1] == counts[0]
        server.wait_until_checkpointed(job_id)
        durations = server.request("GET", "/metrics", rest=True).text
        assert "# TYPE flink_jobmanager_job_checkpointDuration histogram" in durations
        without = server.get(f"/jobs/{job_id}/metrics")
        assert any(f["id"].startswith("latency.source_id.") for f in without)
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")


SLOWLY = """
import time
from sqlstream import udf

@udf(func_type="arrow", result_type="BIGINT")
def slowly(values):
    time.sleep(len(values) / 5_000)
    return values
"""


def test_a_job_with_a_target_makes_batches_smaller_until_it_keeps_it(tmp_path: Path) -> None:
    """A batch of the size that the plan chooses takes 0.8 s by itself, however fast the machine is."""
    (tmp_path / "held_back.py").write_text(SLOWLY)
    with RunningServer(tmp_path / "data", "-D", "sqlstream.server.python-functions.enabled=true") as server:
        session = server.open_session()
        for statement in (
            "SET 'latency.target' = '100 ms'",
            f"SET 'python.files' = '{tmp_path / 'held_back.py'}'",
            "CREATE FUNCTION slowly AS 'held_back.slowly' LANGUAGE PYTHON",
            "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000')",
            "CREATE TEMPORARY TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole')",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, "INSERT INTO nothing SELECT slowly(n) FROM ticks")
        deadline_s = time.monotonic() + FOUND_S
        while not (found := server.get(f"/jobs/{job_id}/latency"))["decisions"]:
            assert time.monotonic() < deadline_s, found
            server.get(f"/jobs/{job_id}/metrics?get=endToEndLatency_p99")
            time.sleep(0.2)
        assert (found["enabled"], found["tuned"], found["target"]) == (True, True, 100)
        first = found["decisions"][-1]
        assert first["before"] == 4096
        assert first["rows"] <= 2048
        assert first["p99"] > 100
        chosen = {choice["key"]: choice["value"] for choice in found["chosen"]}
        assert chosen == {"execution.batch-rows": "4096", "metrics.latency.interval": "10 ms"}
        config = server.get(f"/jobs/{job_id}/config")["execution-config"]["user-config"]
        assert config["execution.batch-rows"] == "4096"
        # The source obeys: its reports say the limit.
        deadline_s = time.monotonic() + FOUND_S
        while True:
            figures = server.get(f"/jobs/{job_id}/totals")["operators"]
            limits = {f["limitBatchRows"] for f in figures.values() if "limitBatchRows" in f}
            if limits == {server.get(f"/jobs/{job_id}/latency")["batch-rows"]}:
                break
            assert time.monotonic() < deadline_s, figures
            time.sleep(0.2)
        said = server.get(f"/jobs/{job_id}/diagnosis")["text"]
        assert "target 100 ms" in said
        shown = sqlstream("job", job_id, "--server", server.gateway).stdout
        assert "latency: target 100 ms, 99 % within" in shown
        assert "  metrics.latency.interval = 10 ms: markers measure what is reached" in shown
        assert " batches of 4096 -> " in shown
        told = json.loads(sqlstream("job", job_id, "--json", "--server", server.gateway).stdout)["latency"]
        assert (told["target"], told["mode"]) == (100, "target")
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
        without = server.insert(
            session, "INSERT INTO nothing SELECT n FROM ticks /*+ OPTIONS('number-of-rows' = '1') */"
        )
        assert server.get(f"/jobs/{without}/latency")["enabled"]
        server.execute(session, "RESET 'latency.target'")
        without = server.insert(
            session, "INSERT INTO nothing SELECT n FROM ticks /*+ OPTIONS('number-of-rows' = '1') */"
        )
        assert server.get(f"/jobs/{without}/latency") == {"enabled": False, "chosen": [], "decisions": []}


def test_a_job_that_cannot_keep_its_target_gets_the_settings_of_the_highest_throughput(
    tmp_path: Path,
) -> None:
    """A batch of the size that is set takes 0.5 s by itself, however fast the machine is, and more rows come than that."""
    (tmp_path / "held_back.py").write_text(SLOWLY)
    with RunningServer(tmp_path / "data", "-D", "sqlstream.server.python-functions.enabled=true") as server:
        session = server.open_session()
        for statement in (
            "SET 'latency.target' = '100 ms'",
            "SET 'execution.batch-rows' = '2500'",
            "SET 'parallelism.default' = '2'",
            f"SET 'python.files' = '{tmp_path / 'held_back.py'}'",
            "CREATE FUNCTION slowly AS 'held_back.slowly' LANGUAGE PYTHON",
            "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000')",
            "CREATE TEMPORARY TABLE nothing (n BIGINT, c BIGINT) WITH ('connector' = 'blackhole')",
        ):
            server.execute(session, statement)
        job_id = server.insert(
            session,
            "INSERT INTO nothing SELECT n, COUNT(*) FROM (SELECT slowly(n) AS n FROM ticks) GROUP BY n",
        )
        deadline_s = time.monotonic() + FOUND_S
        while (found := server.get(f"/jobs/{job_id}/latency"))["mode"] != "throughput":
            assert time.monotonic() < deadline_s, found
            server.get(f"/jobs/{job_id}/metrics?get=endToEndLatency_p99")
            time.sleep(0.2)
        assert found["decisions"][0]["reason"].startswith(
            "the target of 100 ms cannot be kept at this rate: "
        )
        assert (
            "latency.target: batches of 2500 rows, since the target of 100 ms cannot be kept"
            in server.errors()
        )
        # Nothing bounds what waits for its tasks any longer.
        vertices = server.get(f"/jobs/{job_id}")["vertices"]
        (reader,) = [v["id"] for v in vertices if "Source" not in v["name"]]
        deadline_s = time.monotonic() + FOUND_S
        while any("debloated" in m["id"] for m in server.get(f"/jobs/{job_id}/vertices/{reader}/metrics")):
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        said = server.get(f"/jobs/{job_id}/diagnosis")["text"]
        assert "the latency.target of 100 ms cannot be kept at this rate" in said
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
