"""`latency.target`: the settings that a job begins with, and why, in place of those that nobody has given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import FORWARD

BATCH_ROWS = "execution.batch-rows"
BATCH_ROWS_MIN, BATCH_ROWS_MAX = 256, 65_536
"""Smaller batches cost more than their rows; larger ones save nothing."""

_ROWS_A_MS = 64
"""What a task takes in a sixteenth of a millisecond at a million rows a second of processor time."""

_HOLD_MS = 100
"""How long an operator holds few rows while its task has other work; Flink's default for a buffer."""

_UNALIGNED_BELOW_MS, _ALIGNED_FROM_MS = 50, 10_000
_DEBLOAT = "taskmanager.network.memory.buffer-debloat"
DEBLOATING = f"{_DEBLOAT}.enabled"
_CHECKPOINTING = "execution.checkpointing"

Choice = tuple[str, str, str]
"""The key of a setting, its value, and why."""


def with_latency_target(job: JobGraph) -> JobGraph:
    """With the settings that follow from the target of a streaming job; those that were given stay as they are."""
    if not target_ms_of(job.config) or job.is_batch:
        return job
    found = choices(job.config, exchanges(job), has_tasks_apart=bool(job.edges))
    free = [choice for choice in found if choice[0] not in job.config]
    return replace(
        job,
        config=job.config | {key: value for key, value, _ in free},
        chosen={key: why for key, _, why in free},
    )


def target_ms_of(config: Mapping[str, str]) -> int:
    """0 without a target."""
    target_ms: int = options.get(config, "latency.target")
    return 0 if options.get(config, "execution.runtime-mode") == "BATCH" else target_ms


def choices(config: Mapping[str, str], exchanges: int, *, has_tasks_apart: bool = True) -> Iterator[Choice]:
    """What a job of so many exchanges between a source and a sink begins with. Without tasks apart it has none of them before it
    is rescaled. A pure function."""
    target_ms = target_ms_of(config)
    rows = first_batch_rows(target_ms)
    yield (
        BATCH_ROWS,
        str(rows),
        f"a task takes {rows} rows in about {max(1, rows // 1000)} ms at a million rows a second;"
        " each batch is a mini-batch, too",
    )
    yield (
        "metrics.latency.interval",
        f"{max(10, min(1_000, target_ms // 10))} ms",
        "markers measure what is reached, ten within the target",
    )
    if not exchanges:
        return
    waits_ms = max(1, target_ms // 2 // exchanges)
    between = "the only exchange" if exchanges == 1 else f"each of {exchanges} exchanges"
    between += "" if has_tasks_apart else " that the job has with more subtasks"
    yield DEBLOATING, "true", "no more may wait between tasks than they take in time"
    yield f"{_DEBLOAT}.target", f"{waits_ms} ms", f"half of the target may be spent in {between}"
    yield (
        f"{_DEBLOAT}.period",
        f"{max(10, min(200, waits_ms))} ms",
        "as often as what waits is to be gone, at most each 200 ms",
    )
    yield from _alignment(config, target_ms)


def _alignment(config: Mapping[str, str], target_ms: int) -> Iterator[Choice]:
    """How barriers of checkpoints pass rows: they wait as rows do, and hold those of other channels back meanwhile."""
    takes = options.get(config, "execution.checkpointing.interval") > 0
    blocks = options.get(config, "execution.checkpointing.mode") == "EXACTLY_ONCE"
    if not takes or not blocks:
        return
    enabled, timeout = f"{_CHECKPOINTING}.unaligned.enabled", f"{_CHECKPOINTING}.aligned-checkpoint-timeout"
    if target_ms >= _ALIGNED_FROM_MS:
        yield enabled, "false", "barriers wait behind rows for less than the target: checkpoints stay aligned"
        return
    if target_ms < _UNALIGNED_BELOW_MS:
        yield enabled, "true", "no row is to wait for the barrier of another channel"
        yield timeout, "0 ms", "the target leaves barriers no time to wait behind rows"
        return
    yield enabled, "true", "barriers that wait too long pass the rows before them"
    yield timeout, f"{target_ms // 2} ms", "until half of the target has passed, checkpoints are aligned"


def first_batch_rows(target_ms: int) -> int:
    """A power of two.

    >>> first_batch_rows(20), first_batch_rows(100), first_batch_rows(1_000), first_batch_rows(60_000)
    (1024, 4096, 32768, 65536)
    """
    return max(BATCH_ROWS_MIN, min(BATCH_ROWS_MAX, 1 << ((_ROWS_A_MS * max(1, target_ms)).bit_length() - 1)))


def exchanges(job: JobGraph) -> int:
    """The most exchanges between a source and a sink, at any parallelism."""
    if job.scaling is None:
        places = {vertex.id: place for place, vertex in enumerate(job.vertices)}
        steps = [(places[edge.source], places[edge.target], 1) for edge in job.edges]
    else:
        steps = [
            (planned.source, place, int(planned.exchange != FORWARD))
            for place, node in enumerate(job.scaling.nodes)
            for planned in node.inputs
        ]
    most: dict[int, int] = {}
    for source, target, passed in sorted(steps, key=lambda step: step[1]):
        most[target] = max(most.get(target, 0), most.get(source, 0) + passed)
    return max(most.values(), default=0)


def hold_ms(config: Mapping[str, str]) -> int:
    """How long operators may hold few rows to emit them as one batch, while their task has other work."""
    target_ms = target_ms_of(config)
    return min(_HOLD_MS, target_ms // 4) if target_ms else _HOLD_MS


def explain_choice(job: JobGraph) -> str:
    """What was chosen and why, one setting a line, and which settings were given."""
    target_ms = target_ms_of(job.config)
    lines = [f"{target_ms} ms from sources to sinks for 99 of 100 rows; chosen for that:"]
    lines += [f"  {key} = {job.config[key]}: {why}" for key, why in job.chosen.items()]
    given = [key for key, _, _ in choices(job.config, exchanges(job)) if key not in job.chosen]
    if given:
        lines.append(f"given, and left as they are: {', '.join(given)}")
    if BATCH_ROWS in job.chosen:
        lines.append(f"while the job runs, {BATCH_ROWS} follows what is measured")
    return "\n".join(lines)
