"""Changes the parallelism of a job by how busy its tasks are, and by what is left to read (Flink: the autoscaler of its
Kubernetes operator)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import has_open_parallelism, rescaled_job_graph
from sqlstream.messages.rescale import DECISIONS_REMEMBERED_MAX, AutoscalerStatus, ScalingDecision, VertexLoad
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import awaited_executions
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.runtime.jobmanager.rescaling import JobRescaling
from sqlstream.runtime.jobmanager.resources.slot_pool import highest_parallelism
from sqlstream.specs import SourceSpec

SAMPLE_MS = 10_000
"""How often TaskManagers report figures of a job that nobody watches."""

SAMPLES_MAX = 60
"""Of a window; a longer one has samples that are further apart."""

PRESSED = 1.5
"""By how much more a source is taken to have that waits for room all the time and does not say what is left to read."""


@dataclass(frozen=True)
class AutoscalerSettings:
    """Tasks are to be busy for `target` of the time, and the job is left as it is while that differs by no more than
    `boundary`."""

    applies: bool
    target: float
    boundary: float
    window_ms: int
    stabilization_ms: int
    scale_down_ms: int
    up_factor_max: float
    down_factor_max: float
    parallelism_min: int
    parallelism_max: int
    lag_threshold_ms: int
    catch_up_ms: int
    restart_ms: int


MIN_PARALLELISM = "job.autoscaler.vertex.min-parallelism"
MAX_PARALLELISM = "job.autoscaler.vertex.max-parallelism"


def autoscaler_settings(job: JobGraph) -> AutoscalerSettings | None:
    """None for a job that has none, or that has no other parallelism. UserError SS4002 for bounds that exclude each other."""
    config = job.config
    if not options.get(config, "job.autoscaler.enabled"):
        return None
    if job.is_query or job.is_batch or job.scaling is None or not has_open_parallelism(job.scaling):
        return None
    least, most = options.get(config, MIN_PARALLELISM), options.get(config, MAX_PARALLELISM)
    if least > most:
        raise UserError(
            "SS4002",
            f'option "{MIN_PARALLELISM}" is {least}, more than the {most} of "{MAX_PARALLELISM}"',
            hint=f"SET '{MAX_PARALLELISM}' = '{least}', or lower {MIN_PARALLELISM}",
        )
    return AutoscalerSettings(
        options.get(config, "job.autoscaler.scaling.enabled"),
        options.get(config, "job.autoscaler.utilization.target"),
        options.get(config, "job.autoscaler.target.utilization.boundary"),
        options.get(config, "job.autoscaler.metrics.window"),
        options.get(config, "job.autoscaler.stabilization.interval"),
        options.get(config, "job.autoscaler.scale-down.interval"),
        options.get(config, "job.autoscaler.scale-up.max-factor"),
        options.get(config, "job.autoscaler.scale-down.max-factor"),
        least,
        most,
        options.get(config, "job.autoscaler.backlog-processing.lag-threshold"),
        options.get(config, "job.autoscaler.catch-up.duration"),
        options.get(config, "job.autoscaler.restart.time"),
    )


# What a job does within a window, and what follows from it.


@dataclass(frozen=True)
class Load:
    """The mean of a window. `rate` is what the sources emit in records per second, `pending` what is left to read at its end, and
    `growth` by how much that grows per second; both are None when a source does not say. `waiting` is the part of the time
    that the source waits which waits the longest."""

    vertices: tuple[VertexLoad, ...]
    rate: float
    waiting: float
    pending: float | None = None
    growth: float | None = None

    @property
    def lag_ms(self) -> float:
        """How long the sources would read what is left, if nothing came."""
        return 1000 * self.pending / self.rate if self.pending and self.rate > 0 else 0.0


def demand(load: Load, settings: AutoscalerSettings) -> float:
    """How many times as much as now the job would have to read, to keep up and to be through with what is left in time."""
    if load.pending is None or load.growth is None:
        return 1.0 + (PRESSED - 1.0) * load.waiting
    if load.rate <= 0:
        return 1.0
    wanted = load.rate + max(0.0, load.growth)
    if settings.catch_up_ms:
        # A rescale stops the job for a while, in which more is left.
        left = load.pending + (wanted * settings.restart_ms / 1000 if load.growth > 0 else 0.0)
        wanted += left * 1000 / settings.catch_up_ms
    return wanted / load.rate


def decide(load: Load, parallelism: int, highest: int, settings: AutoscalerSettings) -> tuple[int, str]:
    """The parallelism that the job is to have, up to `highest`, and why. A job has one parallelism, which the busiest of its
    vertices decides that follow it."""
    busiest = max((v for v in load.vertices if v.is_open), key=lambda v: v.busy, default=None)
    if busiest is None:
        return parallelism, "no vertex follows the parallelism of the job"
    factor = demand(load, settings)
    wanted = busiest.busy * factor
    why = f'"{busiest.name}" is busy for {busiest.busy:.0%} of the time'
    if factor >= 1.01:
        left = (
            f", {load.pending:.0f} records are left to read"
            if load.pending is not None
            else ", its source waits"
        )
        why += f"{left}: {wanted:.0%} are asked for"
    low, high = settings.target - settings.boundary, settings.target + settings.boundary
    # Nobody is busy for more than all of the time.
    is_low, is_high = wanted < low, wanted > high or (factor >= 1.01 and wanted > min(high, 0.99))
    if not (is_low or is_high):
        return parallelism, f"{why}, within {max(low, 0):.0%} to {high:.0%}"
    if is_low and load.lag_ms > settings.lag_threshold_ms:
        return (
            parallelism,
            f"{why}, but there is more to read than in job.autoscaler.backlog-processing.lag-threshold",
        )
    # Rounding errors are no reason for another subtask.
    ideal = math.ceil(parallelism * wanted / settings.target - 1e-6)
    return _bounded(ideal, parallelism, highest, settings, why)


def _bounded(
    ideal: int, parallelism: int, highest: int, settings: AutoscalerSettings, why: str
) -> tuple[int, str]:
    upper = math.floor(min(parallelism * (1 + settings.up_factor_max), settings.parallelism_max, highest))
    lower = math.ceil(max(parallelism * (1 - settings.down_factor_max) - 1e-6, settings.parallelism_min, 1))
    bounded = max(min(ideal, max(upper, 1)), min(lower, highest))
    limit = f", limited to {bounded}" if bounded != ideal else ""
    return bounded, f"{why}; {ideal} would be busy for {settings.target:.0%}{limit}"


# The figures of the tasks over time.


@dataclass(frozen=True)
class _Sample:
    """Of all tasks by execution: how long it was busy, idle and waiting for room, in milliseconds, and what a source has
    emitted."""

    at_ms: int
    times: dict[str, tuple[float, float, float]]
    emitted: dict[str, float]
    pending: float | None


class LoadWindow:
    """State: the samples of the last window, which all have the same tasks."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._samples: deque[_Sample] = deque()

    def clear(self) -> None:
        self._samples.clear()

    def is_due(self, now_ms: int) -> bool:
        interval_ms = max(min(SAMPLE_MS, self._window_ms), self._window_ms // SAMPLES_MAX)
        return not self._samples or now_ms - self._samples[-1].at_ms >= interval_ms

    def add(self, graph: ExecutionGraph, now_ms: int) -> None:
        """Nothing while a task has not reported."""
        sample = _sample(graph, now_ms)
        if sample is None:
            return
        if self._samples and self._samples[-1].times.keys() != sample.times.keys():
            self.clear()
        self._samples.append(sample)
        # The oldest is the youngest of those that are as old as the window.
        while len(self._samples) > 2 and now_ms - self._samples[1].at_ms >= self._window_ms:
            self._samples.popleft()

    def load(self, graph: ExecutionGraph) -> Load | None:
        """None until the window is full."""
        if not self._samples or self._samples[-1].at_ms - self._samples[0].at_ms < self._window_ms:
            return None
        first, last = self._samples[0], self._samples[-1]
        vertices, rate, waiting = [], 0.0, 0.0
        scaling = graph.job_graph.scaling
        fixed = {n.operator for n in scaling.nodes if n.parallelism} if scaling is not None else set()
        for subtasks in graph.vertices.values():
            vertex = subtasks[0].vertex
            shares = [_shares(first, last, s.execution.execution_id) for s in subtasks]
            busy = max((share[0] for share in shares), default=0.0)
            pressed = max((share[1] for share in shares), default=0.0)
            is_open = vertex.operators[0].id not in fixed
            vertices.append(VertexLoad(vertex.name, vertex.parallelism, is_open, busy, pressed))
            if isinstance(vertex.operators[0].spec, SourceSpec):
                rate += sum(_rate(first, last, s.execution.execution_id) for s in subtasks)
                waiting = max(waiting, pressed)
        growth = None
        if first.pending is not None and last.pending is not None:
            growth = (last.pending - first.pending) * 1000 / (last.at_ms - first.at_ms)
        return Load(tuple(vertices), rate, waiting, last.pending, growth)


def _sample(graph: ExecutionGraph, now_ms: int) -> _Sample | None:
    times, emitted = dict[str, tuple[float, float, float]](), dict[str, float]()
    pending, is_known = 0.0, True
    for subtask in graph.subtasks():
        execution, head = subtask.execution, subtask.vertex.operators[0]
        if execution.is_terminal:
            continue
        figures = execution.metrics
        if figures is None or "accumulateBusyTimeMs" not in figures.task:
            return None
        busy, idle, pressed = (
            figures.task.get(name, 0)
            for name in ("accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")
        )
        times[execution.execution_id] = busy, idle, pressed
        if isinstance(head.spec, SourceSpec):
            of_source = figures.operators.get(head.id, {})
            emitted[execution.execution_id] = of_source.get("numRecordsOut", 0)
            is_known = is_known and "pendingRecords" in of_source
            pending += of_source.get("pendingRecords", 0)
    return _Sample(now_ms, times, emitted, pending if is_known and emitted else None) if times else None


def _shares(first: _Sample, last: _Sample, execution_id: str) -> tuple[float, float]:
    """Which parts of the time it was busy, and waited for room."""
    if execution_id not in first.times or execution_id not in last.times:
        return 0.0, 0.0
    spent = [b - a for a, b in zip(first.times[execution_id], last.times[execution_id], strict=True)]
    whole = sum(spent)
    return (spent[0] / whole, spent[2] / whole) if whole > 0 else (0.0, 0.0)


def _rate(first: _Sample, last: _Sample, execution_id: str) -> float:
    """What it has emitted per second of its own time: reports are of any age."""
    if execution_id not in first.emitted or execution_id not in last.emitted:
        return 0.0
    lived_ms = sum(last.times[execution_id]) - sum(first.times[execution_id])
    return (
        1000 * (last.emitted[execution_id] - first.emitted[execution_id]) / lived_ms if lived_ms > 0 else 0.0
    )


# The job.


class Autoscaling:
    """Measures a job that runs, once it has run for the stabilization interval, and rescales it as a client could: with slots, a
    checkpoint, and the store. Then it measures anew. A lower parallelism has to be right for the interval of scale-downs.

    State: the samples, since when the job runs and since when a lower parallelism is right, and the last
    DECISIONS_REMEMBERED_MAX decisions."""

    def __init__(self, parts: JobParts, rescaling: JobRescaling, settings: AutoscalerSettings) -> None:
        self._parts = parts
        self._rescaling = rescaling
        self._settings = settings
        self._window = LoadWindow(settings.window_ms)
        self._load: Load | None = None
        self._running_since_ms: int | None = None
        self._lower_since_ms: int | None = None
        self._decisions: tuple[ScalingDecision, ...] = ()
        self._triggers = 0

    def status(self) -> AutoscalerStatus:
        """Newest decision first."""
        load = self._load
        return AutoscalerStatus(
            self._present(),
            load.vertices if load is not None else (),
            load.rate if load is not None else 0.0,
            load.pending if load is not None else None,
            self._decisions,
        )

    def advance(self, now_ms: int) -> None:
        """To be called while the job is active."""
        parts = self._parts
        if parts.progress.phase is not JobPhase.RUNNING or self._rescaling.is_under_way:
            self._running_since_ms = self._lower_since_ms = None
            self._window.clear()
            return
        if self._running_since_ms is None:
            self._running_since_ms = now_ms
        is_stable = now_ms - self._running_since_ms >= self._settings.stabilization_ms
        if not is_stable or not self._window.is_due(now_ms):
            return
        self._window.add(parts.graph, now_ms)
        load = self._window.load(parts.graph)
        if load is not None:
            self._load = load
            self._decide(load, now_ms)

    def _decide(self, load: Load, now_ms: int) -> None:
        present = self._present()
        wanted, why = decide(load, present, self._highest(), self._settings)
        if wanted >= present:
            self._lower_since_ms = None
        elif self._lower_since_ms is None:
            self._lower_since_ms = now_ms
        waits = (
            self._lower_since_ms is not None and now_ms - self._lower_since_ms < self._settings.scale_down_ms
        )
        obstacle = self._obstacle() if wanted != present and not waits else ""
        if waits:
            why += "; it is lowered after job.autoscaler.scale-down.interval"
        elif obstacle:
            why += f"; it is left as it is: {obstacle}"
        is_applied = wanted != present and not waits and not obstacle
        self._remember(ScalingDecision(now_ms, present, wanted, why, is_applied))
        if is_applied:
            self._rescale(wanted, now_ms)

    def _obstacle(self) -> str:
        parts = self._parts
        if not self._settings.applies:
            return "job.autoscaler.scaling.enabled is false"
        if options.get(parts.job_graph.config, "scheduler-mode") == "REACTIVE":
            return "scheduler-mode is REACTIVE, and the job takes all slots that there are"
        if not parts.checkpoints.settings.directory:
            return "the job has no directory for checkpoints"
        return "" if awaited_executions(parts.graph) is not None else "the job has finished in part"

    def _rescale(self, parallelism: int, now_ms: int) -> None:
        self._triggers += 1
        graph = rescaled_job_graph(self._parts.job_graph, parallelism)
        self._window.clear()
        self._rescaling.begin(
            events.RescaleRequested(graph.job_id, f"autoscaler-{now_ms}-{self._triggers}", graph), now_ms
        )

    def _highest(self) -> int:
        """Beyond it there are too few key groups, or too few slots in the cluster."""
        job, slots_max = self._parts.job_graph, self._parts.config.slots_max
        highest = min(self._settings.parallelism_max, job.vertices[0].max_parallelism)
        if slots_max is None:
            return highest
        return max(1, highest_parallelism(lambda p: rescaled_job_graph(job, p), highest, slots_max))

    def _present(self) -> int:
        scaling = self._parts.job_graph.scaling
        assert scaling is not None, "autoscaler_settings has looked"
        return int(scaling.parallelism)

    def _remember(self, decision: ScalingDecision) -> None:
        """One that says the same as the last but for figures takes its place."""
        last = self._decisions[0] if self._decisions else None
        is_same = last is not None and not last.is_applied and last.outcome == decision.outcome
        if not is_same:
            how = "" if decision.wanted == decision.parallelism else f" -> {decision.wanted}"
            text = f"the autoscaler: parallelism {decision.parallelism}{how}, since {decision.reason}"
            self._parts.emit(events.Noted(text, self._parts.progress.job_id, is_warning=False))
        kept = self._decisions[1:] if is_same else self._decisions
        self._decisions = (decision, *kept)[:DECISIONS_REMEMBERED_MAX]
