"""A cluster of literal jobs, and its REST as an application."""

import msgspec
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.client.rest.app import ServerInfo, rest_routes
from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint_statistics import (
    CheckpointCounts,
    CheckpointKind,
    CheckpointRecord,
    CheckpointStatistics,
    CheckpointStatus,
    RestoredCheckpoint,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.client_rpc import SavepointStatusReply
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.ledger import JobLedger, LedgerEntry, LedgerSide
from sqlstream.messages.rescale import RescaleStatus, RescaleStep
from sqlstream.messages.rpc import (
    CheckpointFigures,
    JobDetails,
    JobMetrics,
    JobOverviewEntry,
    JobStatusReply,
    LateChannel,
    RestartRecord,
    SubtaskDetails,
    TaskManagerOverview,
    TaskMetrics,
    VertexDetails,
)
from sqlstream.messages.stacks import SampledStack, StacksReply, TaskStacks, ThreadStack
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, ValuesSpec

RUNNING_ID = "a" * 32
FAILED_ID = "f" * 32
SOURCE_ID = "1" * 32
SINK_ID = "2" * 32
START_MS = 1_700_000_000_000


def operator(id, name, spec, input=-1):
    schema = Schema(())
    return ChainedOperator(
        id, f"uid-{id}", name, spec, input, (), (), schema, ChangelogMode.INSERT_ONLY, f"{name}(<x>)"
    )


def graph(job_id):
    source = JobVertex(SOURCE_ID, "Source: bids", (operator(0, "Source: bids[1]", ValuesSpec(())),), 2, 128)
    sink_spec = SinkSpec("out", "blackhole", {}, Schema(()))
    sink = JobVertex(SINK_ID, "Sink: out", (operator(1, "Sink: out[2]", sink_spec),), 1, 128)
    edge = JobEdge(
        0, SOURCE_ID, 0, SINK_ID, 0, Exchange(ExchangeKind.SINGLETON), Schema(()), ChangelogMode.INSERT_ONLY
    )
    return JobGraph(job_id, "insert into out", (source, sink), (edge,), {"parallelism.default": "2"})


def subtask(index, vertex, state, task, operators=None, error=None):
    entered = {"CREATED": START_MS, "SCHEDULED": START_MS + 10, "DEPLOYING": START_MS + 20}
    entered |= {"INITIALIZING": START_MS + 50, "RUNNING": START_MS + 100}
    if state.is_terminal:
        entered[state.value] = START_MS + 5000
    id = f"{vertex}-{index}"
    metrics = None if task is None else TaskMetrics(id, task, operators or {})
    return SubtaskDetails(index, 0, id, state, f"tm-{index + 1}#1", entered, metrics, error)


SOURCE_FIGURES = {
    "numRecordsIn": 0, "numRecordsOut": 100, "numBytesIn": 0, "numBytesOut": 800, "numRecordsOutPerSecond": 10.0,
    "busyTimeMsPerSecond": 300, "idleTimeMsPerSecond": 100, "backPressuredTimeMsPerSecond": 600,
    "accumulateBusyTimeMs": 3000, "accumulateIdleTimeMs": 1000, "accumulateBackPressuredTimeMs": 6000,
}  # fmt: skip
SINK_FIGURES = {
    "numRecordsIn": 150, "numRecordsOut": 0, "numBytesIn": 1200, "numBytesOut": 0,
    "busyTimeMsPerSecond": 50, "idleTimeMsPerSecond": 950, "backPressuredTimeMsPerSecond": 0,
    "currentInputWatermark": 1_699_999_999_000,
}  # fmt: skip
LATENCIES = {
    **{f"source_id.0.latency_{stat}": 5 for stat in ("count", "min", "max", "mean", "median", "stddev")},
    **{f"source_id.0.latency_{stat}": 9 for stat in ("p75", "p90", "p95", "p98", "p99", "p999")},
    "endToEndLatency_p99": 9,
    "endToEndLatency.count": 5,
}
DIVISION = ErrorInfo("SS5003", "division by zero", FailureReason.USER_DATA, vertex="Source: bids")


def details(job_id, status, state, error=None):
    read = {"numRecordsIn": 100, "numRecordsOut": 100, "split.my.topic-0.pendingRecords": 7}
    own = subtask(0, "source", state, SOURCE_FIGURES, {0: read}, error)
    second = subtask(1, "source", state, {**SOURCE_FIGURES, "numRecordsOut": 50})
    sink = subtask(0, "sink", state, SINK_FIGURES, {1: {"numRecordsIn": 150, **LATENCIES}})
    timestamps = {"INITIALIZING": START_MS, "CREATED": START_MS, "RUNNING": START_MS + 15}
    if status.is_terminal:
        timestamps[status.value] = START_MS + 5100
    return JobDetails(
        job_id,
        "insert into out",
        status,
        START_MS,
        timestamps[status.value] if status.is_terminal else -1,
        timestamps,
        (
            VertexDetails(SOURCE_ID, "Source: bids", 2, state, (own, second), {}),
            VertexDetails(SINK_ID, "Sink: out", 1, state, (sink,), {}),
        ),
        error,
    )


LATE = (LateChannel(SOURCE_ID, 1, 20),)
"""Of the second source the barrier came 20 ms behind that of the first."""


def in_checkpoint(index, acknowledged_ms, *figures):
    return SubtaskCheckpoint(index, acknowledged_ms, CheckpointFigures(*figures))


COMPLETED = CheckpointRecord(
    7,
    CheckpointKind.CHECKPOINT,
    CheckpointStatus.COMPLETED,
    START_MS + 1000,
    START_MS + 1300,
    (
        VertexCheckpoint(
            SOURCE_ID,
            "Source: bids",
            2,
            (
                in_checkpoint(0, START_MS + 1100, 0, 1, 9, 100, 400),
                in_checkpoint(1, START_MS + 1200, 0, 2, 10, 300, 500, 0, (), True, 3, 40, 128),
            ),
        ),
        VertexCheckpoint(
            SINK_ID, "Sink: out", 1, (in_checkpoint(0, START_MS + 1250, 20, 3, 7, 0, 0, 0, LATE),)
        ),
    ),
    path="/checkpoints/a/chk-7",
)
SAVEPOINT = replace(COMPLETED, id=6, kind=CheckpointKind.SAVEPOINT, path="/savepoints/savepoint-a")
FAILED_CHECKPOINT = CheckpointRecord(
    8,
    CheckpointKind.CHECKPOINT,
    CheckpointStatus.FAILED,
    START_MS + 2000,
    START_MS + 2600,
    (VertexCheckpoint(SINK_ID, "Sink: out", 1, (SubtaskCheckpoint(0),)),),
    error=ErrorInfo("SS6201", "the checkpoint was not acknowledged within 600 ms"),
    failed_task="Sink: out (1/1)",
)
PENDING = replace(
    FAILED_CHECKPOINT, id=9, status=CheckpointStatus.IN_PROGRESS, ended_ms=-1, error=None, failed_task=""
)
STATISTICS = CheckpointStatistics(
    RUNNING_ID,
    10_000,
    CheckpointCounts(restored=1, total=4, in_progress=1, completed=2, failed=1),
    COMPLETED,
    SAVEPOINT,
    FAILED_CHECKPOINT,
    RestoredCheckpoint(3, CheckpointKind.CHECKPOINT, START_MS + 500, "/checkpoints/a/chk-3"),
    (PENDING, FAILED_CHECKPOINT, COMPLETED, SAVEPOINT),
    ledger=JobLedger(
        7,
        START_MS + 1300,
        (
            LedgerEntry(1, "Sink: out", SINK_ID, 8, 0, {"done": 7}, ("done", "filtered"), 1, 10, 1, 1),
            LedgerEntry(
                2,
                "Join",
                SINK_ID,
                9,
                4,
                {"held": 8},
                sides=(
                    LedgerSide("left", 5, {"held": 5}, ("done", "held")),
                    LedgerSide("right", 4, {"held": 3}, ("done", "held"), 1),
                ),
            ),
        ),
    ),
)
RESTART = RestartRecord(START_MS + 400, ErrorInfo("SS6006", "the TaskManager is lost"), "Sink: out (1/1)", 3)


class LiteralCluster:
    """A ServedCluster of two jobs, one running and one failed, on two TaskManagers. State: what was cancelled, triggered and
    rescaled; `planned` is the graph of all jobs, if it is not a literal one."""

    def __init__(self):
        self.found = {
            RUNNING_ID: details(RUNNING_ID, JobStatus.RUNNING, ExecutionState.RUNNING),
            FAILED_ID: details(FAILED_ID, JobStatus.FAILED, ExecutionState.FAILED, DIVISION),
        }
        self.found[RUNNING_ID] = replace(self.found[RUNNING_ID], restarts=(RESTART,))
        self.cancelled = []
        self.triggered = []
        self.ends = {}
        self.shut_downs = 0
        self.calls = 0
        self.planned = None
        self.rescaled = {}
        self.rescale_step = (RescaleStep.CHECKPOINT, None)

    def details(self, job_id):
        self.calls += 1
        if job_id not in self.found:
            raise UserError("SS6009", f'job "{job_id}" is not known')
        return self.found[job_id]

    def status(self, job_id):
        job = self.details(job_id)
        return JobStatusReply(job_id, job.status, job.error)

    def job_graph(self, job_id):
        self.details(job_id)
        return self.planned or graph(job_id)

    def described(self, job_id):
        return self.details(job_id), self.planned or graph(job_id)

    def rescale(self, graph, trigger_id):
        self.rescaled[trigger_id] = [v.parallelism for v in graph.vertices]

    def rescale_status(self, job_id, trigger_id):
        if trigger_id not in self.rescaled:
            raise UserError("SS6236", f'"{trigger_id}" is not known')
        step, error = self.rescale_step
        return RescaleStatus(job_id, trigger_id, 4, 2, step, error)

    def jobs(self):
        self.calls += 1
        return tuple(
            JobOverviewEntry(
                j.job_id, j.name, j.status, j.start_ms, j.end_ms, {v.state.value: 3 for v in j.vertices}
            )
            for j in self.found.values()
        )

    def task_managers(self):
        self.calls += 1
        return tuple(
            TaskManagerOverview(f"tm-{i}#1", f"unix:/run/tm-{i}", 2, 1, START_MS, START_MS + 60, 0, 4, 2**33)
            for i in (1, 2)
        )

    def metrics(self, job_id):
        total = {"numRestarts": 1, "numberOfCompletedCheckpoints": 2, "numberOfFailedCheckpoints": 1}
        total |= {"endToEndLatency_p99": 9, "checkpointDuration.le.100": 1, "checkpointDuration.le.500": 2}
        total |= {"checkpointDuration.count": 2, "checkpointDuration.sum": 350}
        status = self.details(job_id).status
        return JobMetrics(job_id, status, total if job_id == RUNNING_ID else {}, {})

    def checkpoints(self, job_id):
        self.details(job_id)
        return STATISTICS if job_id == RUNNING_ID else CheckpointStatistics(job_id)

    def take_checkpoint(self, job_id, trigger_id):
        self.triggered.append(("checkpoint", job_id, trigger_id))

    def take_savepoint(self, request):
        job_id, trigger_id, directory, *drain, _ = msgspec.structs.astuple(request)
        self.triggered.append(("stop" if drain else "savepoint", job_id, trigger_id, directory, *drain))

    def savepoint_status(self, job_id, trigger_id):
        if trigger_id not in [triggered[2] for triggered in self.triggered]:
            raise UserError("SS6207", f'"{trigger_id}" is not known')
        return self.ends.get(trigger_id, SavepointStatusReply(job_id, trigger_id, False))

    def dispose_savepoint(self, path):
        if path != SAVEPOINT.path:
            raise UserError("SS6212", f'there is no savepoint at "{path}"')
        self.triggered.append(("disposal", path))

    def stacks(self, address, request):
        if not request.execution_ids:
            return StacksReply(threads=(ThreadStack(f"main of {address}", "  File …"),))
        stacks = (SampledStack(("run", "read"), 3, 1), SampledStack(("run",), 0, 6))
        return StacksReply(tasks=tuple(TaskStacks(id, stacks) for id in request.execution_ids))

    def cancel(self, job_id):
        self.cancelled.append(job_id)

    def shut_down(self):
        self.shut_downs += 1


@pytest.fixture
def cluster():
    return LiteralCluster()


INFO = ServerInfo(
    "0.1.0",
    {"rest.port": "8081", "s3.secret-key": "hunter2"},
    task_manager_log=lambda resource_id: f"records of {resource_id}\n",
    printed=lambda: "rows of print tables\n",
)


def application(cluster):
    app = FastAPI()
    app.include_router(rest_routes(cluster, INFO, lambda: cluster.shut_down()))
    return app


class PresentCluster:
    """Is the cluster of the test that runs."""

    def __init__(self):
        self.cluster = LiteralCluster()

    def __getattr__(self, name):
        return getattr(self.cluster, name)


@pytest.fixture(scope="session")
def clients():
    """One for all tests: to make an application takes longer than to ask it."""
    present = PresentCluster()
    with TestClient(application(present)) as client:
        yield client, present


@pytest.fixture
def own_rest(cluster):
    """One that has not been asked for anything."""
    with TestClient(application(cluster)) as client:
        yield client


@pytest.fixture
def rest(clients, cluster):
    client, present = clients
    present.cluster = cluster
    return client
