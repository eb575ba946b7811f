"""Readers of a group that wait for each other, over a network that loses, doubles, delays and reorders messages."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MIN
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import ReportWatermark
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.jobmanager.sources.watermark_alignment import WatermarkAlignment
from sqlstream.runtime.story import Story
from sqlstream.runtime.taskmanager.events import WatermarkReported
from sqlstream.runtime.taskmanager.inputs.source_alignment import SourceAlignment
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.specs.watermark import Alignment

DRIFT_MS, STEP_MAX_MS, END_MS = 10_000, 2_000, 60_000
"""In event time: the drift of a table, how far one poll brings a reader at most, and where its rows end."""
INTERVAL_MS = 200
LATEST_MS = 300_000
"""By the clock: all rows are read by then, however messages fare."""

EMPTY, MODE = Schema(()), ChangelogMode.INSERT_ONLY


def job(parallelisms: list[int]) -> JobGraph:
    options = {
        "scan.watermark.alignment.group": "g",
        "scan.watermark.alignment.max-drift": f"{DRIFT_MS} ms",
        "scan.watermark.alignment.update-interval": f"{INTERVAL_MS} ms",
    }
    vertices = []
    for number, parallelism in enumerate(parallelisms):
        spec = SourceSpec(f"t{number}", "nexmark", options, EMPTY, ())
        head = ChainedOperator(
            number, f"uid{number}", spec.table, spec, NETWORK_INPUT, (EMPTY,), (MODE,), EMPTY, MODE
        )
        vertices.append(JobVertex(f"{number:032x}", spec.table, (head,), parallelism, 128))
    return JobGraph("j1", "insert j1", tuple(vertices), (), {})


class Reader:
    """One reader with its task's side of the alignment. `position_ms` is its watermark, and where it begins anew `saved_ms`."""

    def __init__(self, cluster: Cluster, vertex_id: str, subtask: int) -> None:
        self._cluster, self._vertex_id, self._subtask = cluster, vertex_id, subtask
        self.step_ms = cluster.rng.choice([100, 500, STEP_MAX_MS])
        self.position_ms = self.saved_ms = WATERMARK_MIN
        self.is_idle = cluster.rng.random() < cluster.idle_share
        self.begin()

    @property
    def execution(self) -> Any:
        return self._cluster.graph.vertices[self._vertex_id][self._subtask].execution

    @property
    def has_ended(self) -> bool:
        return self.execution.state is ExecutionState.FINISHED

    def begin(self) -> None:
        """An attempt, which goes on from what was saved."""
        cluster = self._cluster
        self.position_ms = self.saved_ms
        for state in (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING):
            self.execution.transition(state, cluster.now_ms)
        self.execution.follow(ExecutionState.RUNNING, cluster.now_ms)
        alignment = Alignment("g", DRIFT_MS, INTERVAL_MS)
        self.alignment = SourceAlignment(
            self.execution.execution_id,
            alignment,
            None,  # type: ignore[arg-type]
            lambda: (self.position_ms, self.is_idle),
            cluster.report,
            lambda: cluster.now_ms,
        )
        cluster.after(1, lambda attempt=self.execution.attempt: self._poll(attempt))

    def fail(self) -> None:
        if self.has_ended:
            return
        self.execution.transition(ExecutionState.FAILED, self._cluster.now_ms)
        graph = self._cluster.graph
        graph.start_anew(graph.vertices[self._vertex_id][self._subtask], self._cluster.now_ms)
        self.begin()

    def _poll(self, attempt: int) -> None:
        cluster = self._cluster
        if self.has_ended or attempt != self.execution.attempt:
            return
        pause_ms = cluster.rng.randint(1, 30)
        if self.alignment.may_read():
            cluster.check(self)
            if not self.is_idle:
                self.position_ms = max(0, self.position_ms) + cluster.rng.randint(0, self.step_ms)
            if self.position_ms >= END_MS or (self.is_idle and cluster.now_ms > LATEST_MS // 2):
                self.alignment.on_end()
                self.execution.follow(ExecutionState.FINISHED, cluster.now_ms)
                return
            if cluster.rng.random() < 0.05:
                self.saved_ms = self.position_ms
        else:
            pause_ms = max(1, int(self.alignment.due_s() * 1000))
        cluster.after(pause_ms, lambda: self._poll(attempt))


class Cluster:
    """The JobMaster's side, the readers, a clock, and a network of chance."""

    def __init__(self, seed: int, loss: float, idle_share: float = 0.0) -> None:
        self.rng, self.loss, self.idle_share = random.Random(seed), loss, idle_share
        self.now_ms, self.lowest_ms = 0, WATERMARK_MIN
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._places = itertools.count()
        graph = job([self.rng.randint(1, 3) for _ in range(self.rng.randint(1, 3))])
        self.graph = ExecutionGraph(graph, 0, Story())
        self._alignment = WatermarkAlignment(self.graph)
        self.readers = [
            Reader(self, vertex_id, n) for vertex_id, s in self.graph.vertices.items() for n in range(len(s))
        ]

    def after(self, pause_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + pause_ms, next(self._places), call))

    def send(self, deliver: Callable[[], None]) -> None:
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            if self.rng.random() >= self.loss:
                self.after(self.rng.randint(0, 300), deliver)

    def report(self, report: WatermarkReported) -> None:
        message = ReportWatermark("tm", "j1", report.execution_id, report.watermark_ms, report.is_idle)
        self.send(lambda: self._on_report(message))

    def _on_report(self, message: ReportWatermark) -> None:
        subtask = self.graph.find(message.execution_id)
        if subtask is None:
            return
        for reader, allowed_ms in self._alignment.on_report(subtask, message):
            self.send(lambda id=reader.execution.execution_id, ms=allowed_ms: self._tell(id, ms))

    def _tell(self, execution_id: str, allowed_ms: int) -> None:
        for reader in self.readers:
            if reader.execution.execution_id == execution_id and not reader.has_ended:
                reader.alignment.on_allowed(allowed_ms)

    def check(self, reader: Reader) -> None:
        """A reader that reads is within the drift of the slowest, wherever that has been once."""
        slowest = [r.position_ms for r in self.readers if not r.has_ended and not r.is_idle]
        if slowest:
            self.lowest_ms = max(self.lowest_ms, min(slowest))
        assert reader.position_ms <= max(self.lowest_ms, 0 if slowest else END_MS) + DRIFT_MS

    def run(self) -> None:
        while self._due and not all(reader.has_ended for reader in self.readers):
            self.now_ms, _, call = heapq.heappop(self._due)
            assert self.now_ms < LATEST_MS, "nobody goes on"
            call()
        assert all(reader.has_ended for reader in self.readers)


def test_no_reader_is_further_ahead_than_the_drift_and_all_come_to_their_ends(seed: int) -> None:
    """Some of each third of the seeds: attempts fail, and readers are idle, for whom nobody waits."""
    cluster = Cluster(seed, loss=0.1, idle_share=0.4 if seed % 3 == 1 else 0.0)
    for _ in range(5 if seed % 3 == 2 else 0):
        cluster.after(cluster.rng.randint(0, 20_000), cluster.rng.choice(cluster.readers).fail)
    cluster.run()
    assert all(reader.position_ms >= END_MS for reader in cluster.readers if not reader.is_idle)
