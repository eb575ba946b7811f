"""The figures of one task and of its operators, under Flink's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlstream.elements import WATERMARK_MIN
from sqlstream.messages.rpc import Metrics, TaskDeploymentDescriptor, TaskMetrics
from sqlstream.runtime.taskmanager.inputs.source_input import SourceInput
from sqlstream.runtime.taskmanager.mailbox import Mailbox
from sqlstream.runtime.taskmanager.metrics import Rates, TaskTimes, per_second
from sqlstream.runtime.taskmanager.task_opening import OpenedTask

_TASK = -1
"""The place of the task itself among its operators' ids."""


class TaskFigures:
    """Reads the counters of a task, while its thread writes them. State: earlier readings, for rates; for one reader thread."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, opened: OpenedTask, times: TaskTimes, mailbox: Mailbox
    ) -> None:
        self._descriptor = descriptor
        self._opened = opened
        self._times = times
        self._mailbox = mailbox
        self._rates: dict[int, Rates] = {_TASK: Rates()}

    def read(self) -> TaskMetrics:
        """The figures so far; time ratios since the last call, rates over the last seconds."""
        return self._figures(
            self._times.read_ratios(),
            lambda id, counters: self._rates.setdefault(id, Rates()).read(counters),
        )

    def read_last(self) -> TaskMetrics:
        """The figures of the ended task; ratios and rates over its whole life. Called by the task's thread."""
        lived_s = self._times.lived_s()
        return self._figures(
            self._times.total_ratios(), lambda _, counters: per_second(counters, lived_s, {})
        )

    def _figures(self, ratios: Metrics, rates: Callable[[int, Metrics], Metrics]) -> TaskMetrics:
        operators = {id: counters.read() for id, counters in list(self._opened.chain.counters.items())}
        rated = {
            id: figures | rates(id, {name: figures[name] for name in ("numRecordsIn", "numRecordsOut")})
            for id, figures in operators.items()
        }
        return TaskMetrics(self._descriptor.execution_id, self._task_figures(operators, ratios, rates), rated)

    def _task_figures(
        self, operators: dict[int, Metrics], ratios: Metrics, rates: Callable[[int, Metrics], Metrics]
    ) -> Metrics:
        """Records and bytes of a task are those of its network inputs and outputs, as in Flink: a source has no input."""
        task_input = self._opened.loop.input
        heads = list(operators.values())[:1] if not isinstance(task_input, SourceInput) else []
        counters: Metrics = {
            "numRecordsIn": heads[0]["numRecordsIn"] if heads else 0,
            "numRecordsOut": sum(f["numRecordsOut"] for f in self._sending(operators)),
            "numBytesIn": task_input.bytes_in,
            "numBytesOut": sum(p.bytes_out for p in list(self._opened.partitions)),
        }
        task: Metrics = {
            **counters,
            **rates(_TASK, counters),
            "stateBytes": sum(f.get("stateBytes", 0) for f in operators.values()),
            "mailboxQueueSize": self._mailbox.queue_size,
            **ratios,
            **self._times.accumulated(),
        }
        file_bytes = sum(f.get("stateFileBytes", 0) for f in operators.values())
        if file_bytes:
            task["stateFileBytes"] = file_bytes
        if task_input.watermark_ms != WATERMARK_MIN:
            task["currentInputWatermark"] = task_input.watermark_ms
        return task | self._opened.state_figures.read()

    def _sending(self, operators: dict[int, Metrics]) -> Iterator[Metrics]:
        senders = {output.edge.source_operator for output in self._descriptor.outputs}
        return (figures for id, figures in operators.items() if id in senders)
