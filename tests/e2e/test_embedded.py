"""A whole cluster: JobManager in this process, TaskManagers as children or in this process too."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import FailureReason, JobError, Span, UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.runtime.cluster_surroundings import ClusterSurroundings
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec, ValuesSpec
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING

NAMES = Schema.of(("name", STRING), ("amount", BIGINT))
BIDS = Schema.of(("auction", BIGINT), ("price", BIGINT))
INSERT_ONLY = ChangelogMode.INSERT_ONLY
WAIT_S = 60

job_ids = (f"{n:032x}" for n in itertools.count(1))


class Graph:
    """Vertices of one operator each, in a row."""

    def __init__(self) -> None:
        self.vertices: list[JobVertex] = []
        self.edges: list[JobEdge] = []

    def add(self, spec, schema, parallelism=1, exchange=ExchangeKind.HASH, span=None) -> Graph:
        number = len(self.vertices)
        before = self.vertices[-1] if self.vertices else None
        inputs = (before.operators[-1].output_schema,) if before else ()
        operator = ChainedOperator(
            number, f"u{number}", type(spec).__name__, spec, NETWORK_INPUT, inputs,
            (INSERT_ONLY,) * len(inputs), schema, INSERT_ONLY, span=span,
        )  # fmt: skip
        vertex = JobVertex(f"{number:032x}", operator.name, (operator,), parallelism, 128)
        if before:
            keys = (0,) if exchange is ExchangeKind.HASH else ()
            edge = JobEdge(
                number, before.id, number - 1, vertex.id, 0, Exchange(exchange, keys), inputs[0], INSERT_ONLY
            )
            self.edges.append(edge)
        self.vertices.append(vertex)
        return self

    def build(self, config=None) -> JobGraph:
        return JobGraph(next(job_ids), "test", tuple(self.vertices), tuple(self.edges), config or {})


def sink(connector: str, schema: Schema) -> SinkSpec:
    return SinkSpec("sink", connector, {}, schema)


def bids(**options: str) -> SourceSpec:
    options = {"nexmark.table": "bid", **{f"nexmark.{k}": v for k, v in options.items()}}
    return SourceSpec("bid", "nexmark", options, BIDS, BIDS.names, is_bounded="nexmark.events" in options)


def endless_job() -> JobGraph:
    return Graph().add(bids(rate="1000"), BIDS, 2).add(sink("blackhole", BIDS), BIDS, 2).build()


def values_job() -> JobGraph:
    rows = tuple((f"name {i}", i) for i in range(100))
    amount = InputRef(1, BIGINT)
    project = CalcSpec(
        (InputRef(0, STRING), Call("+", (amount, amount), BIGINT)),
        Call(">=", (amount, Literal(50, BIGINT)), BOOLEAN),
    )
    graph = Graph().add(ValuesSpec(rows), NAMES).add(project, NAMES, 2)
    return graph.add(sink("collect", NAMES), NAMES, exchange=ExchangeKind.SINGLETON).build()


def submitted(cluster: EmbeddedCluster, graph: JobGraph) -> str:
    """The id of a job that was submitted."""
    cluster.submit(graph)
    return graph.job_id


def collected(cluster: EmbeddedCluster, job_id: str) -> list[tuple[object, ...]]:
    rows = [row for b in cluster.results(job_id) for row in zip(*b.to_pydict().values(), strict=True)]
    status = cluster.wait(job_id, WAIT_S)
    assert status.status is JobStatus.FINISHED, status
    return sorted(rows)


def wait_until(condition) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        # The JobManager runs in this process: asked without a pause, it would do nothing but answer.
        time.sleep(0.005)


def is_alive(process_id: int) -> bool:
    """A process that ended but that nobody asked about is still listed, as a zombie."""
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_running(cluster: EmbeddedCluster, job_id: str) -> None:
    def runs() -> bool:
        assert not cluster.status(job_id).status.is_terminal, cluster.status(job_id)
        subtasks = [s for v in cluster.details(job_id).vertices for s in v.subtasks]
        return all(s.state is ExecutionState.RUNNING for s in subtasks)

    wait_until(runs)


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(task_managers=2) as running:
        yield running


def test_rows_flow_through_children_and_back_to_the_client(cluster):
    job_id = submitted(cluster, values_job())
    assert collected(cluster, job_id) == sorted((f"name {i}", 2 * i) for i in range(50, 100))


def test_the_same_job_runs_in_process():
    with EmbeddedCluster(in_process=True) as running:
        job_id = submitted(running, values_job())
        assert collected(running, job_id) == sorted((f"name {i}", 2 * i) for i in range(50, 100))
        assert running.process_ids == ()


def test_every_row_crosses_a_hash_exchange_between_processes_once(cluster):
    graph = Graph().add(bids(events="200000"), BIDS, 2).add(sink("blackhole", BIDS), BIDS, 2)
    job_id = submitted(cluster, graph.build())
    assert cluster.wait(job_id, WAIT_S).status is JobStatus.FINISHED
    total = cluster.metrics(job_id).total
    assert total["numRecordsRead"] == total["numRecordsWritten"] == 184_000
    assert cluster.cpu_seconds() > 0
    assert cluster.peak_rss_bytes() > 2**26


def test_a_client_that_reads_slowly_loses_nothing(cluster):
    graph = Graph().add(bids(events="10000000"), BIDS, 2)
    job = graph.add(sink("collect", BIDS), BIDS, 2, ExchangeKind.FORWARD).build()
    results = iter(cluster.results(submitted(cluster, job)))
    first = next(results)
    # 147 MB of rows against a buffer of 16: the job is still at it when the client goes on.
    assert cluster.status(job.job_id).status is JobStatus.RUNNING
    assert first.num_rows + sum(b.num_rows for b in results) == 9_200_000


def failing_job() -> JobGraph:
    cast = CalcSpec((InputRef(0, STRING), Call("CAST", (InputRef(0, STRING),), INT)))
    schema = Schema.of(("name", STRING), ("number", INT))
    graph = Graph().add(ValuesSpec((("not a number", 1),)), NAMES).add(cast, schema, 2, span=Span(7, 25))
    return graph.add(sink("blackhole", schema), schema, 2).build()


def test_a_failing_operator_is_named_with_its_position(cluster):
    status = cluster.wait(submitted(cluster, failing_job()), WAIT_S)
    assert status.status is JobStatus.FAILED, status
    assert status.error.span == Span(7, 25)
    assert status.error.vertex == "CalcSpec"


def test_a_job_is_cancelled_within_a_second(cluster):
    def cancel_one() -> float:
        job_id = submitted(cluster, endless_job())
        wait_running(cluster, job_id)
        started = time.monotonic()
        cluster.cancel(job_id)
        assert cluster.wait(job_id, WAIT_S).status is JobStatus.CANCELED
        return time.monotonic() - started

    # The machine may be busy with other things for a second, but not three times.
    assert min(cancel_one() for _ in range(3)) < 1


def test_a_job_whose_client_does_not_read_can_be_cancelled(cluster):
    graph = Graph().add(bids(events="100000000"), BIDS, 2)
    job_id = submitted(cluster, graph.add(sink("collect", BIDS), BIDS).build())
    next(iter(cluster.results(job_id)))
    cluster.cancel(job_id)
    assert cluster.wait(job_id, WAIT_S).status is JobStatus.CANCELED


def test_jobs_leave_no_thread_and_no_open_file_behind(cluster):
    def run_some() -> None:
        for _ in range(5):
            collected(cluster, submitted(cluster, values_job()))
            cluster.wait(submitted(cluster, failing_job()), WAIT_S)
            job_id = submitted(cluster, endless_job())
            cluster.cancel(job_id)
            cluster.wait(job_id, WAIT_S)

    def used() -> list[int]:
        processes = [psutil.Process(p) for p in (os.getpid(), *cluster.process_ids)]
        return [n for p in processes for n in (p.num_threads(), p.num_fds())]

    def run_without_growth() -> bool:
        before = used()
        run_some()
        end_s = time.monotonic() + 5
        while (grown := any(now > then for now, then in zip(used(), before, strict=True))) and (
            time.monotonic() < end_s
        ):
            time.sleep(0.05)
        return not grown

    # The libraries' pools of threads grow to their size; what a job leaves behind, each round of them adds to.
    assert any(run_without_growth() for _ in range(10))


def test_a_killed_task_manager_fails_its_job_at_once_and_is_replaced():
    with EmbeddedCluster(task_managers=2) as running:
        job_id = submitted(running, endless_job())
        wait_running(running, job_id)
        killed = running.process_ids[0]
        started = time.monotonic()
        os.kill(killed, signal.SIGKILL)
        status = running.wait(job_id, WAIT_S)
        assert time.monotonic() - started < 30
        assert status.status is JobStatus.FAILED
        assert status.error.reason is FailureReason.TASK_MANAGER_LOST
        assert f"process {killed}" in status.error.message
        job_id = submitted(running, values_job())
        assert len(collected(running, job_id)) == 50


def test_no_child_is_left_after_stop():
    running = EmbeddedCluster(task_managers=2)
    running.start()
    wait_until(lambda: len(running.process_ids) == 2)
    children = running.process_ids
    job_id = submitted(running, endless_job())
    wait_running(running, job_id)
    running.close()
    assert not any(is_alive(p) for p in children)


def test_no_child_is_left_when_stopping_is_interrupted():
    running = EmbeddedCluster(task_managers=1)
    running.start()
    job_id = submitted(running, endless_job())
    wait_running(running, job_id)
    children = running.process_ids
    # `close` waits for the end of the job, which does not come.
    os.kill(children[0], signal.SIGSTOP)

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        os.kill(children[0], signal.SIGCONT)

    threading.Timer(0.3, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        running.close()
    assert not any(is_alive(p) for p in children)


def test_children_end_when_their_parent_is_killed():
    script = (
        "import time\n"
        "from sqlstream.runtime.embedded import EmbeddedCluster\n"
        "cluster = EmbeddedCluster(task_managers=2)\n"
        "cluster.start()\n"
        "while len(cluster.process_ids) < 2:\n"
        "    time.sleep(0.01)\n"
        "print(*cluster.process_ids, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    children = [int(p) for p in parent.stdout.readline().split()]
    parent.kill()
    parent.communicate(timeout=WAIT_S)
    assert len(children) == 2
    wait_until(lambda: not any(is_alive(p) for p in children))


def test_a_task_manager_that_hangs_fails_its_job_and_is_killed_and_replaced():
    config = {"heartbeat.interval": "100 ms", "heartbeat.timeout": "3 s"}
    with EmbeddedCluster(config, task_managers=2) as running:
        job_id = submitted(running, endless_job())
        wait_running(running, job_id)
        hung = running.process_ids[0]
        os.kill(hung, signal.SIGSTOP)
        status = running.wait(job_id, WAIT_S)
        assert (status.status, status.error.code) == (JobStatus.FAILED, "SS6001")
        wait_until(lambda: not is_alive(hung))
        job_id = submitted(running, values_job())
        assert len(collected(running, job_id)) == 50


def test_children_are_replaced_for_each_job_that_comes(monkeypatch):
    monkeypatch.setattr("sqlstream.runtime.jobmanager.resources.provisioning.REPLACEMENTS_MAX", 1)
    with EmbeddedCluster(task_managers=1) as running:
        for _ in range(3):
            job_id = submitted(
                running, Graph().add(bids(rate="1000"), BIDS).add(sink("blackhole", BIDS), BIDS).build()
            )
            wait_running(running, job_id)
            os.kill(running.process_ids[0], signal.SIGKILL)
            assert running.wait(job_id, WAIT_S).status is JobStatus.FAILED


def narrow_job() -> JobGraph:
    return Graph().add(bids(rate="1000"), BIDS).add(sink("blackhole", BIDS), BIDS).build()


def test_children_start_when_jobs_need_them_and_end_when_they_are_idle():
    """Two jobs at once get what both need; with the narrow one left, one child is left, and no job failed for it."""
    with EmbeddedCluster({"resourcemanager.taskmanager-timeout": "300 ms"}) as running:
        assert running.process_ids == ()
        wide, narrow = submitted(running, endless_job()), submitted(running, narrow_job())
        wait_running(running, wide)
        wait_running(running, narrow)
        assert len(running.process_ids) == 3
        children = running.process_ids
        running.cancel(wide)
        wait_until(lambda: len(running.process_ids) == 1)
        assert sum(is_alive(p) for p in children) == 1
        assert running.status(narrow).status is JobStatus.RUNNING
        used = running.cpu_seconds()
        assert len(collected(running, submitted(running, values_job()))) == 50
        # The children that have ended still count.
        assert running.cpu_seconds() > used > 0


def test_a_job_that_needs_more_than_the_maximum_is_refused_and_one_that_fits_waits_its_turn():
    with EmbeddedCluster({"slotmanager.number-of-slots.max": "2"}) as running:
        first, second = submitted(running, endless_job()), submitted(running, values_job())
        wait_running(running, first)
        with pytest.raises(JobError, match="needs 3 slots, the cluster has at most 2") as refused:
            running.submit(Graph().add(bids(rate="1000"), BIDS, 3).build())
        assert refused.value.code == "SS6003"
        assert running.status(second).status is JobStatus.RUNNING
        assert len(running.process_ids) == 2
        running.cancel(first)
        assert len(collected(running, second)) == 50
        assert len(running.process_ids) == 2


def test_lines_that_nobody_reads_end_their_job():
    def print_lines(job_id, lines, is_error):
        raise BrokenPipeError

    for in_process in (True, False):
        with EmbeddedCluster(task_managers=1, in_process=in_process, print_lines=print_lines) as running:
            graph = Graph().add(bids(rate="1000"), BIDS).add(sink("print", BIDS), BIDS).build()
            job_id = submitted(running, graph)
            with pytest.raises(BrokenPipeError):
                running.wait(job_id, WAIT_S)
            assert running.status(job_id).status is JobStatus.CANCELED


def test_a_cluster_is_as_patient_as_its_settings_say():
    settings = {"heartbeat.interval": "2 s", "heartbeat.timeout": "9 s", "slot.request.timeout": "7 s"}
    config = EmbeddedCluster(settings, in_process=True)._job_manager_config()
    assert config.resource_manager.heartbeat_interval_ms == 2_000
    assert config.resource_manager.heartbeat_timeout_ms == 9_000
    assert config.job_master.slot_request_timeout_ms == 7_000


def test_a_refused_job_takes_no_file_from_the_one_that_runs_under_its_id(tmp_path) -> None:
    kept = ArtifactStore(lambda: str(tmp_path), kept_s=0)
    files = []
    for data in (b"one", b"two"):
        files.append(Artifact("model", hashlib.sha256(data).hexdigest(), len(data)))
        (tmp_path / files[-1].digest).write_bytes(data)
    spec = bids(rate="1000")
    runs = replace(Graph().add(spec, BIDS).add(sink("collect", BIDS), BIDS).build(), artifacts=(files[0],))
    other = Graph().add(spec, BIDS, 2).add(sink("collect", BIDS), BIDS).build()
    with EmbeddedCluster(in_process=True, surroundings=ClusterSurroundings(artifacts=kept)) as cluster:
        cluster.submit(runs)
        with pytest.raises(UserError, match="belongs to another job"):
            cluster.submit(replace(other, job_id=runs.job_id, artifacts=(files[1],)))
        kept.sweep()
        assert [kept.size(file.digest) for file in files] == [3, None]
        cluster.cancel(runs.job_id)
        cluster.wait(runs.job_id, WAIT_S)
