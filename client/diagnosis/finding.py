"""What is known of a job at one moment, and what was found in it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.messages.rpc import JobDetails, JobMetrics, Metrics, SubtaskDetails, VertexDetails

NAME_CHARACTERS_MAX = 60


class FindingKind(enum.Enum):
    """What may hold a job back, in the order in which findings of one severity are listed (`ordered`)."""

    FAILURE = "FAILURE"
    WAITS_FOR_SLOTS = "WAITS_FOR_SLOTS"
    BOTTLENECK = "BOTTLENECK"
    CLIENT = "CLIENT"
    LATENCY = "LATENCY"
    SKEW = "SKEW"
    WATERMARK = "WATERMARK"
    SOURCE_LAG = "SOURCE_LAG"
    CHECKPOINT_FAILED = "CHECKPOINT_FAILED"
    CHECKPOINT_SLOW = "CHECKPOINT_SLOW"
    RESTARTS = "RESTARTS"
    STATE_GROWTH = "STATE_GROWTH"
    ROWS_LOST = "ROWS_LOST"


class Severity(enum.Enum):
    """HIGH holds the job back now. LOW is worth knowing, and may be what the job is to be like."""

    HIGH = "HIGH"
    LOW = "LOW"


class Finding(msgspec.Struct, frozen=True):
    """`vertex` is the id of the vertex to blame, if there is one. `evidence` are names and their figures, and `advice` what to
    do: a statement, a command or a setting in each line."""

    kind: FindingKind
    severity: Severity
    said: str
    evidence: dict[str, int | float | str] = {}
    advice: tuple[str, ...] = ()
    vertex: str = ""


@dataclasses.dataclass(frozen=True)
class JobSnapshot:
    """A job at the moment `now_ms`. `free_slots` are those of the cluster."""

    details: JobDetails
    graph: JobGraph
    checkpoints: CheckpointStatistics
    metrics: JobMetrics
    now_ms: int
    free_slots: int = 0

    def sources(self) -> Iterator[tuple[VertexDetails, ChainedOperator]]:
        """Vertices that read tables, each with the operator that does."""
        for vertex in self.details.vertices:
            if not self.graph.inputs_of(vertex.id):
                yield vertex, self.graph.vertex(vertex.id).operators[0]


def figure(subtask: SubtaskDetails, name: str) -> float:
    """A figure of the task; 0 where it has none."""
    return subtask.metrics.task.get(name, 0) if subtask.metrics is not None else 0


def figures_of(subtasks: Iterable[SubtaskDetails], name: str) -> list[float]:
    return [figure(subtask, name) for subtask in subtasks if subtask.metrics is not None]


def operator_figures(subtask: SubtaskDetails, operator: int) -> Metrics:
    return subtask.metrics.operators.get(operator, {}) if subtask.metrics is not None else {}


def operator_figure(subtask: SubtaskDetails, operator: int, name: str) -> int | float | None:
    return operator_figures(subtask, operator).get(name)


def short(name: str) -> str:
    """
    >>> short("a" * 61)[-2:], short("Sink: out")
    ('a…', 'Sink: out')
    """
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"


def subtask_name(vertex: VertexDetails, index: int) -> str:
    return f"subtask {index + 1} of {vertex.parallelism}"


def seconds_text(duration_ms: float) -> str:
    """
    >>> seconds_text(340), seconds_text(12_300), seconds_text(7_500_000)
    ('340 ms', '12.3 s', '2 h 5 min')
    """
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    minutes = int(duration_ms // 60_000)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


_EFFECTS = ("SS6003", "SS6201")
"""What tasks that wait for slots, or rows that wait, bring about."""


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The severe ones first, and among these by kind; but what an error has broken off stands before what waits for it."""
    kinds = list(FindingKind)

    def place(finding: Finding) -> tuple[bool, int, int]:
        code = finding.evidence.get("code")
        is_cause = code is not None and code not in _EFFECTS
        is_end = finding.kind is FindingKind.FAILURE
        return finding.severity is Severity.LOW, 2 - is_cause - is_end, kinds.index(finding.kind)

    return tuple(sorted(findings, key=place))
