"""TaskManagers that exchange rows at full speed are killed at any moment: nothing of the streams between them is left, and the
next job runs."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.types import BIGINT

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60
BIDS = Schema.of(("auction", BIGINT), ("price", BIGINT))
INSERT_ONLY = ChangelogMode.INSERT_ONLY
MAPPINGS_PER_PEER = 3
"""The memory that one process writes, and flags and data of what it reads."""


def exchange_job(job_id: str, events: int, parallelism: int) -> JobGraph:
    source = SourceSpec(
        "bid", "nexmark", {"nexmark.table": "bid", "nexmark.events": str(events)}, BIDS, BIDS.names
    )
    head = ChainedOperator(0, "u0", "source", source, NETWORK_INPUT, (), (), BIDS, INSERT_ONLY)
    spec = SinkSpec("sink", "blackhole", {}, BIDS)
    tail = ChainedOperator(1, "u1", "sink", spec, NETWORK_INPUT, (BIDS,), (INSERT_ONLY,), BIDS, INSERT_ONLY)
    vertices = (
        JobVertex("a" * 32, "source", (head,), parallelism, 128),
        JobVertex("b" * 32, "sink", (tail,), parallelism, 128),
    )
    edge = JobEdge(0, "a" * 32, 0, "b" * 32, 0, Exchange(ExchangeKind.HASH, (0,)), BIDS, INSERT_ONLY)
    return JobGraph(job_id, "exchange", vertices, (edge,), {})


def wait_until(condition) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def segments(process_id: int) -> int:
    return Path(f"/proc/{process_id}/maps").read_text().count("memfd:sqlstream-exchange")


def run_to_the_end(cluster: EmbeddedCluster, job_id: str, parallelism: int) -> None:
    cluster.submit(exchange_job(job_id, 400_000, parallelism))
    status = cluster.wait(job_id, WAIT_S)
    assert status.status is JobStatus.FINISHED, status
    total = cluster.metrics(job_id).total
    assert total["numRecordsRead"] == total["numRecordsWritten"] == 368_000


def test_a_killed_peer_leaves_no_memory_file_or_thread_in_the_others() -> None:
    draw = random.Random(9)
    with EmbeddedCluster(task_managers=3) as cluster:
        run_to_the_end(cluster, f"{1:032x}", 3)
        survivor = cluster.process_ids[0]
        before = psutil.Process(survivor).num_threads(), psutil.Process(survivor).num_fds()
        for turn in range(3):
            job_id = f"{turn + 2:032x}"
            cluster.submit(exchange_job(job_id, 1_000_000_000, 3))
            if turn:
                # Else it is killed before or while the job is deployed, which may then run in a new process.
                wait_until(lambda j=job_id: cluster.metrics(j).total.get("numRecordsRead", 0) > 0)
            time.sleep(draw.uniform(0, 0.5))
            os.kill(draw.choice([p for p in cluster.process_ids if p != survivor]), signal.SIGKILL)
            if turn:
                assert cluster.wait(job_id, WAIT_S).status is JobStatus.FAILED
            else:
                cluster.cancel(job_id)
                assert cluster.wait(job_id, WAIT_S).status in (JobStatus.FAILED, JobStatus.CANCELED)
        run_to_the_end(cluster, f"{99:032x}", 3)
        assert survivor in cluster.process_ids
        # Two peers, whatever became of those that were killed.
        wait_until(lambda: segments(survivor) == 2 * MAPPINGS_PER_PEER)
        after = psutil.Process(survivor).num_threads(), psutil.Process(survivor).num_fds()
        # Connections for control messages come and go by a few.
        assert all(now < then + 12 for now, then in zip(after, before, strict=True)), (before, after)
        for process_id in cluster.process_ids:
            wait_until(lambda p=process_id: segments(p) == 2 * MAPPINGS_PER_PEER)


def test_as_many_subtasks_as_there_are_in_a_server_share_one_thread_and_one_stream() -> None:
    with EmbeddedCluster({"taskmanager.numberOfTaskSlots": "16"}, task_managers=2) as cluster:
        run_to_the_end(cluster, f"{200:032x}", 32)
        idle = [psutil.Process(p).num_threads() for p in cluster.process_ids]
        job_id = f"{201:032x}"
        cluster.submit(exchange_job(job_id, 1_000_000_000, 32))
        wait_until(lambda: cluster.metrics(job_id).total.get("numRecordsRead", 0) > 0)
        busy = [psutil.Process(p).num_threads() for p in cluster.process_ids]
        cluster.cancel(job_id)
        assert cluster.wait(job_id, WAIT_S).status is JobStatus.CANCELED
    # 16 source tasks and 16 sinks, and what else comes and goes; a thread for each channel would be 512 more.
    assert all(now - then < 32 + 10 for now, then in zip(busy, idle, strict=True))
