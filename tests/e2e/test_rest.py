"""The JobManager's REST over a real cluster: figures of a running job, and its end."""

from __future__ import annotations

import time

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.rest.app import ServerInfo, rest_routes
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.planner.dialect.parser import parse_script

SCRIPT = """
CREATE TABLE bids (bidder INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts) WITH
  ('connector' = 'datagen', 'rows-per-second' = '2000', 'fields.bidder.min' = '1', 'fields.bidder.max' = '50');
CREATE TABLE nowhere (bidder INT, n BIGINT) WITH ('connector' = 'blackhole');
SET 'parallelism.default' = '2';
INSERT INTO nowhere SELECT bidder, COUNT(*) FROM bids GROUP BY bidder;
"""


@pytest.fixture(scope="module")
def running():
    """The REST of a cluster on which one job runs, and the job's id."""
    cluster = LocalClusterClient({"taskmanager.numberOfTaskSlots": "2"}, 1)
    session = Session(cluster)
    outcomes = [session.execute(statement) for statement in parse_script(SCRIPT)]
    job = outcomes[-1]
    assert isinstance(job, Job)
    app = FastAPI()
    app.include_router(rest_routes(cluster, ServerInfo("0.1.0"), lambda: None))
    with TestClient(app) as rest:
        yield rest, job.id
    cluster.close()


def wait_for(read, is_met, timeout_s=240.0):
    """The first answer of `read` that meets a condition."""
    deadline_s = time.monotonic() + timeout_s
    while not is_met(found := read()):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.05)
    return found


def test_the_figures_of_a_running_job_add_up(running):
    rest, job_id = running
    job = wait_for(
        lambda: rest.get(f"/jobs/{job_id}").json(),
        lambda j: j["state"] == "RUNNING" and j["vertices"][-1]["metrics"]["read-records"] > 2000,
    )
    # The figures of two tasks are not read at one instant, so those of the source are taken from a later answer.
    sink = job["vertices"][-1]["metrics"]
    job = wait_for(
        lambda: rest.get(f"/jobs/{job_id}").json(),
        lambda j: j["vertices"][0]["metrics"]["write-records"] >= sink["read-records"],
    )
    source = job["vertices"][0]
    assert source["parallelism"] == 2
    assert source["metrics"]["write-bytes"] >= sink["read-bytes"] > 0
    metrics = source["metrics"]
    kinds = ("busy", "idle", "backpressured")
    # Two subtasks, each of which is as old as its share of the vertex's time.
    spent_ms = sum(metrics[f"accumulated-{kind}-time"] for kind in kinds)
    assert 0 < spent_ms <= 2 * source["duration"] + 1000
    (first, *_) = rest.get(f"/taskmanagers/{_task_manager(rest)}").json()["allocatedSlots"]
    assert first == {**first, "jobId": job_id}


def test_the_rate_of_a_source_is_that_of_its_option(running):
    rest, job_id = running
    source = rest.get(f"/jobs/{job_id}").json()["vertices"][0]["id"]
    url = f"/jobs/{job_id}/vertices/{source}/subtasks/metrics"
    name = "Source__bids[1].numRecordsInPerSecond"
    wait_for(lambda: rest.get(f"{url}?get={name}&agg=sum").json(), lambda m: m and 1000 < m[0]["sum"] < 3000)
    shares = rest.get(
        f"{url}?get=busyTimeMsPerSecond,idleTimeMsPerSecond,backPressuredTimeMsPerSecond&agg=sum"
    ).json()
    assert sum(share["sum"] for share in shares) == 2000


def test_prometheus_sees_the_counters_grow(running):
    rest, job_id = running

    def rows():
        lines = rest.get("/metrics").text.splitlines()
        found = [
            line
            for line in lines
            if line.startswith("flink_taskmanager_job_task_numRecordsOut{") and job_id in line
        ]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    before = rows()
    wait_for(rows, lambda now: now > before)
    memory = [
        line
        for line in rest.get("/metrics").text.splitlines()
        if "Memory_NonHeap_Used{" in line and "tm_id" in line
    ]
    assert float(memory[0].rpartition(" ")[2]) > 20 * 2**20


def test_a_cancelled_job_keeps_its_last_figures(running):
    rest, job_id = running
    assert rest.patch(f"/jobs/{job_id}?mode=cancel").status_code == 202
    wait_for(lambda: rest.get(f"/jobs/{job_id}/status").json(), lambda s: s == {"status": "CANCELED"})
    job = rest.get(f"/jobs/{job_id}").json()
    assert job["end-time"] >= job["start-time"]
    assert {v["status"] for v in job["vertices"]} == {"CANCELED"}
    assert all(v["metrics"]["read-records-complete"] for v in job["vertices"])
    assert job["vertices"][0]["metrics"]["write-records"] > 0
    assert rest.get("/overview").json()["jobs-cancelled"] == 1


def _task_manager(rest):
    return rest.get("/taskmanagers").json()["taskmanagers"][0]["id"]
