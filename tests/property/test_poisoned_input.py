"""Whatever stands in a manifest, a plan or a message whose checksum is right, it is refused or ends one job: the JobManager goes
on, and so does the job beside it.

Each value that was encoded is changed where its structure allows: numbers become extreme, types are exchanged, lists are emptied,
names doubled. A seed that fails is a regression test.
"""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from kept_checkpoints import KeptCheckpoint

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ErrorInfo, InternalError, SqlStreamError
from sqlstream.graph.job_graph import (
    NETWORK_INPUT,
    ChainedOperator,
    JobEdge,
    JobGraph,
    JobVertex,
    decode_job_graph,
    encode_job_graph,
)
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint import ChannelTime, SavedOperator, StateSegment, SubtaskState, TableState
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.messages.rpc import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    HeartbeatReply,
    MetricsReport,
    OfferSlots,
    RegisterTaskManager,
    ReportWatermark,
    RequestSlot,
    RequestSplits,
    SinkCommittables,
    SlotFreed,
    SlotOffer,
    SlotRefused,
    SlotStatus,
    TaskMetrics,
    TaskStateUpdate,
    TriggerCheckpoint,
    decode_control_message,
    encode_message,
)
from sqlstream.runtime.checkpoint.manifest_file import decode_manifest, encode_manifest
from sqlstream.runtime.jobmanager.events import (
    CheckpointStored,
    JobBroken,
    JobStored,
    MessageReceived,
    Send,
    SinksCommitted,
    StoreCheckpoint,
    SubmitRequested,
    Tick,
)
from sqlstream.runtime.jobmanager.job_manager import JobManager, JobManagerConfig
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable

SEEDS, SEEDS_SLOW = 150, 5_000
ROOT = "/chk"
TM = "tm#0"
TARGET, BESIDE = "a" * 32, "b" * 32
EXTREMES = (
    -(2**63),
    -1,
    0,
    1,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**70,
    -(2**70),
    1e308,
    0.5,
)
OTHERS: tuple[Any, ...] = (None, True, "", "x" * 300, [], {}, [[]], {"type": "Reboot"}, 3)


# --- changes ---------------------------------------------------------------------------------------


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


def changed(value: Any, chance: random.Random) -> Any:
    """The value with one to three changes; of the same shape where it has no place to change."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        found = list(places(value))
        if not found:
            break
        container, key = chance.choice(found)
        old = container[key]
        names = [c[k] for c, k in found if isinstance(c[k], str)]
        if isinstance(old, int | float) and not isinstance(old, bool) and chance.random() < 0.8:
            container[key] = chance.choice(EXTREMES)
        elif isinstance(old, list) and chance.random() < 0.7:
            container[key] = chance.choice(([], old * 2, old[:-1], [*old, *old[:1]]))
        elif isinstance(old, str) and chance.random() < 0.6:
            container[key] = chance.choice(names)
        elif isinstance(container, dict) and chance.random() < 0.2:
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(OTHERS))
    return value


# --- a JobManager ----------------------------------------------------------------------------------

EMPTY, MODE = Schema(()), ChangelogMode.INSERT_ONLY


def _vertex(index: int, spec: SourceSpec | SinkSpec) -> JobVertex:
    operator = ChainedOperator(
        index, f"uid{index}", spec.table, spec, NETWORK_INPUT, (EMPTY,), (MODE,), EMPTY, MODE
    )
    return JobVertex(f"{index:032x}", spec.table, (operator,), 2, 128)


def job(job_id: str) -> JobGraph:
    source = _vertex(0, SourceSpec("bids", "nexmark", {}, EMPTY, ()))
    sink = _vertex(1, SinkSpec("out", "filesystem", {}, EMPTY))
    edge = JobEdge(7, source.id, 0, sink.id, 0, Exchange(ExchangeKind.HASH), EMPTY, MODE)
    config = {"execution.checkpointing.interval": "1 s", "restart-strategy.type": "none"}
    return JobGraph(job_id, "insert", (source, sink), (edge,), config)


class Manager:
    """A JobManager with one TaskManager, whose tasks do all that they are asked. `messages` are those that it got.

    State: the JobManager, the time, what was sent, and the jobs that broke."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.now_ms = 1_000
        self.messages: list[Any] = []
        self.manifests: list[CheckpointManifest] = []
        self._sequence = 0

        def note(job_id: str, told: InternalError, error: Exception) -> None:
            self.broken.append(job_id)

        self.manager = JobManager(
            JobManagerConfig(job_master=JobMasterConfig(checkpoint_directory=ROOT)), note
        )
        self.receive(RegisterTaskManager(TM, "tm", 0, "tm:1", 8))

    def submit(self, graph: JobGraph, *restored: KeptCheckpoint) -> None:
        """SqlStreamError when it is refused."""
        self.manager.dispatcher.check_submission(graph, restored)
        self.handle(SubmitRequested(graph, restored))
        self.handle(JobStored(graph.job_id))

    def receive(self, message: Any) -> None:
        self.messages.append(message)
        self.handle(MessageReceived(message))

    def tick(self, ms: int = 1_000) -> None:
        self.now_ms += ms
        self.handle(Tick())
        assert self.manager.tick_after_ms() > 0

    def handle(self, event: Any) -> None:
        for instruction in self.manager.handle(event, self.now_ms):
            match instruction:
                case Send(_, message):
                    self._answer(message)
                case StoreCheckpoint(manifest=manifest):
                    # As JSON and as it is sent: neither may fail.
                    encode_manifest(manifest)
                    self.manifests.append(manifest)
                    stored = CheckpointStored(manifest.job_id, manifest.checkpoint_id, f"{ROOT}/chk")
                    self.handle(stored)
                    self.handle(SinksCommitted(manifest.job_id, manifest.checkpoint_id))

    def _answer(self, message: Any) -> None:
        sent = decode_control_message(encode_message(message))
        if isinstance(sent, DeployTask):
            task = sent.descriptor
            self._sequence += 1
            metrics = TaskMetrics(task.execution_id, {"numRecordsIn": 3}, {0: {"numRecordsOut": 4}})
            state = ExecutionState.RUNNING
            self.receive(
                TaskStateUpdate(TM, task.job_id, task.execution_id, self._sequence, state, None, (), metrics)
            )
        elif isinstance(sent, RequestSlot):
            self.receive(OfferSlots(TM, sent.job_id, (SlotOffer(sent.slot, sent.allocation_id),)))
        elif isinstance(sent, TriggerCheckpoint):
            job_id = next(
                j for j in self.manager.dispatcher.masters if sent.execution_id in self.executions(j)
            )
            segment = StateSegment(f"shared/e-{sent.checkpoint_id}.arrow", 0, 8, 1, 1, 0, 127)
            state = SubtaskState(
                (SavedOperator(0, (TableState("t", True, (segment,)),)),),
                counted={0: {"numRecordsOut": 4}},
                channels=(ChannelTime(5, False),),
            )
            rows = Committable(job_id, sent.checkpoint_id, "w", 0, {"file": "f"})
            for execution in self.acknowledging(job_id, sent.execution_id):
                self.receive(
                    AcknowledgeCheckpoint(
                        TM, job_id, execution, sent.checkpoint_id, state, (SinkCommittables(1, (rows,)),)
                    )
                )

    def executions(self, job_id: str) -> list[str]:
        master = self.manager.dispatcher.masters.get(job_id)
        return [e.execution_id for e in master.graph.executions()] if master is not None else []

    def acknowledging(self, job_id: str, triggered: str) -> list[str]:
        """The tasks that save their state: a source when it is told, and all others with the first of them."""
        sources = [e for e in self.executions(job_id) if e.split("-")[-3] == "0"]
        others = [e for e in self.executions(job_id) if e not in sources]
        return [triggered, *(others if triggered == sources[0] else [])]

    def told(self) -> None:
        """What clients ask is answered, and the answers can be sent."""
        dispatcher = self.manager.dispatcher
        answers: list[Any] = [dispatcher.overview(), self.manager.resource_manager.overview()]
        for job_id in [*dispatcher.masters, *dispatcher.archive]:
            answers += [
                dispatcher.details(job_id),
                dispatcher.metrics(job_id),
                dispatcher.checkpoints(job_id),
            ]
        msgspec.msgpack.encode(answers)

    def beside(self) -> JobStatus:
        return self.manager.dispatcher.status(BESIDE).status


def running() -> Manager:
    """The target and the job beside it run, and each has taken a checkpoint."""
    manager = Manager()
    for job_id in (BESIDE, TARGET):
        manager.submit(job(job_id))
    for _ in range(3):
        manager.tick()
    assert len(manager.manifests) >= 2, "no checkpoint was taken"
    return manager


def messages() -> list[Any]:
    """One of each kind, about the target."""
    manager = running()
    found = {type(m).__name__: m for m in manager.messages if getattr(m, "job_id", TARGET) == TARGET}
    execution = manager.executions(TARGET)[0]
    others = [
        HeartbeatReply(TM, 1, (SlotStatus(0, "a", TARGET),), {"heap": 1}),
        MetricsReport(
            TM, 1, {TARGET: (TaskMetrics(execution, {"numRecordsIn": 1}, {0: {"numRecordsOut": 2}}),)}
        ),
        RequestSplits(TM, TARGET, execution, 1, ({"split": 1},), 0),
        ReportWatermark(TM, TARGET, execution, 1_000),
        DeclineCheckpoint(TM, TARGET, execution, 1, ErrorInfo("SS5001", "disk full")),
        SlotRefused(TM, 0, "a"),
        SlotFreed(TM, "a"),
    ]
    return [*found.values(), *others]


# --- the properties --------------------------------------------------------------------------------


def message_is_harmless(seed: int) -> bool:
    """Whether the changed message was taken in."""
    chance = random.Random(seed)
    manager = running()
    plain = msgspec.msgpack.decode(encode_message(chance.choice(messages())))
    try:
        message = decode_control_message(msgspec.msgpack.encode(changed(plain, chance)))
    except (msgspec.ValidationError, OverflowError):
        return False
    if getattr(message, "job_id", TARGET) != TARGET:
        return False
    manager.receive(message)
    # A TaskManager that says that it is another has lost its tasks, of all jobs.
    _goes_on(manager, is_registered_anew=isinstance(message, RegisterTaskManager))
    return True


def manifest_is_harmless(seed: int) -> bool:
    chance = random.Random(seed)
    manifest = next(m for m in running().manifests if m.job_id == TARGET)
    file = msgspec.json.decode(encode_manifest(manifest))
    body = msgspec.json.encode(changed(file["checkpoint"], chance))
    file |= {"sha256": hashlib.sha256(body).hexdigest(), "checkpoint": msgspec.Raw(body)}
    manager = Manager()
    manager.submit(job(BESIDE))
    try:
        found = decode_manifest("p", msgspec.json.encode(file))
        manager.submit(job(TARGET), KeptCheckpoint(found, ROOT, f"{ROOT}/chk-1"))
    except SqlStreamError as error:
        return _is_refused(error)
    _goes_on(manager)
    return True


def plan_is_harmless(seed: int) -> bool:
    chance = random.Random(seed)
    plain = msgspec.msgpack.decode(encode_job_graph(job(TARGET)))
    manager = Manager()
    manager.submit(job(BESIDE))
    try:
        graph = decode_job_graph(msgspec.msgpack.encode(changed(plain, chance)))
        if graph.job_id == BESIDE:
            return False
        manager.submit(graph)
    except (msgspec.ValidationError, OverflowError):
        return False
    except SqlStreamError as error:
        return _is_refused(error)
    _goes_on(manager)
    return True


def _is_refused(error: SqlStreamError) -> bool:
    """False, as nothing was taken in; what is refused is no mistake of ours."""
    if isinstance(error, InternalError):
        raise error
    return False


def _goes_on(manager: Manager, *, is_registered_anew: bool = False) -> None:
    for _ in range(4):
        manager.tick()
        manager.told()
    assert BESIDE not in manager.broken
    assert is_registered_anew or manager.beside() is JobStatus.RUNNING


HARMLESS: dict[str, Callable[[int], bool]] = {
    "message": message_is_harmless,
    "manifest": manifest_is_harmless,
    "plan": plan_is_harmless,
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_was_forged_ends_its_own_job_at_most(what: str) -> None:
    taken_in = sum(HARMLESS[what](seed) for seed in range(SEEDS))
    # Refusing everything is no test of what lies behind.
    assert 0 < taken_in < SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("what", HARMLESS)
def test_what_was_forged_ends_its_own_job_at_most_over_many_seeds(what: str) -> None:
    for seed in range(SEEDS, SEEDS_SLOW):
        HARMLESS[what](seed)


def test_a_job_that_breaks_fails_alone() -> None:
    manager = running()
    manager.handle(JobBroken(TARGET, ZeroDivisionError("by zero")))
    assert manager.broken == [TARGET]
    status = manager.manager.dispatcher.status(TARGET)
    assert status.status is JobStatus.FAILED
    assert status.error is not None
    assert (status.error.code, "by zero" in status.error.message) == ("SS9001", True)
    assert status.error.detail, "its story is missing"
    _goes_on(manager)
