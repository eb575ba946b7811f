"""How large the state of a job was over its life, in a bounded number of samples."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.messages.rpc import TaskMetrics
from sqlstream.messages.state_growth import OperatorGrowth, Size, StateGrowth
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph

SAMPLE_MS = 1_000
SAMPLES_MAX = 64
"""When there are so many, every second one is left out, and the next ones are twice as far apart."""

BUDGET = "stateBudgetBytes"
_NONE = Size()


@dataclass(frozen=True)
class Sample:
    """The state of each operator that has any, what lies in the memory of each slot, and the budget of one."""

    at_ms: int
    operators: Mapping[int, Size]
    slots: Mapping[str, int]
    budget_bytes: int = 0


class StateHistory:
    """Pure. State: the newest sample, up to SAMPLES_MAX of the life of the job before it, evenly spread, how far the next one
    of these is from the last, and the reports of the newest."""

    def __init__(self) -> None:
        self._newest: Sample | None = None
        self._samples: list[Sample] = []
        self._interval_ms = SAMPLE_MS
        self._reports: list[TaskMetrics | None] = []

    def is_due(self, now_ms: int) -> bool:
        return self._newest is None or now_ms - self._newest.at_ms >= SAMPLE_MS

    def add(self, sample: Sample) -> None:
        self._newest = sample
        if self._samples and sample.at_ms - self._samples[-1].at_ms < self._interval_ms:
            return
        self._samples.append(sample)
        if len(self._samples) >= SAMPLES_MAX:
            self._samples = self._samples[::2]
            self._interval_ms *= 2

    def advance(self, graph: ExecutionGraph, now_ms: int) -> None:
        """To be called while the job runs. Nothing is noted while a task has not reported, or none has since the last sample:
        what did not come yet is not what did not grow."""
        if not self.is_due(now_ms):
            return
        reports = [subtask.execution.metrics for subtask in graph.subtasks()]
        if len(reports) == len(self._reports) and all(map(operator.is_, reports, self._reports)):
            return
        if (sample := sample_of(graph, now_ms)) is not None:
            self._reports = reports
            self.add(sample)

    def growth(self) -> StateGrowth | None:
        """Over the later half of what is known: how a job begins says little of how it goes on."""
        newest = self._newest
        if newest is None:
            return None
        middle_ms = (self._samples[0].at_ms + newest.at_ms) // 2
        before = next(s for s in reversed(self._samples) if s.at_ms <= middle_ms)
        operators = tuple(
            OperatorGrowth(id, size, before.operators.get(id, _NONE))
            for id, size in sorted(newest.operators.items())
        )
        fullest = max(newest.slots, key=lambda slot: newest.slots[slot], default="")
        return StateGrowth(
            newest.at_ms - before.at_ms,
            operators,
            newest.slots.get(fullest, 0),
            before.slots.get(fullest, 0),
            newest.budget_bytes,
            max(1, len(newest.slots)),
        )


def sample_of(graph: ExecutionGraph, now_ms: int) -> Sample | None:
    operators: dict[int, Size] = {}
    slots: dict[str, int] = {}
    budget_bytes = 0
    for subtask in graph.subtasks():
        execution = subtask.execution
        if execution.is_terminal:
            continue
        if execution.metrics is None:
            return None
        slots.setdefault(execution.allocation_id, 0)
        budget_bytes = max(budget_bytes, int(execution.metrics.task.get(BUDGET, 0)))
        for id, figures in execution.metrics.operators.items():
            nbytes = int(figures.get("stateBytes", 0))
            if not nbytes:
                continue
            known = operators.get(id, _NONE)
            entries = int(figures.get("stateEntries", 0))
            operators[id] = Size(known.nbytes + nbytes, known.entries + entries)
            slots[execution.allocation_id] += max(0, nbytes - int(figures.get("stateFileBytes", 0)))
    return Sample(now_ms, operators, slots, budget_bytes) if slots else None
