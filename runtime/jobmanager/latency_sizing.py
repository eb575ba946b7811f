"""How large the batches of a job with a `latency.target` are, by what was measured: as few rows more than the target needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream.graph.latency_choice import BATCH_ROWS_MAX, BATCH_ROWS_MIN
from sqlstream.messages.latency import LatencyMode

PATIENCE, PATIENCE_MAX = 30, 480
"""After how many measurements a size that was too large, or a target that was missed by all, is tried again: twice as many each
time that it turns out so again."""

CALM = 3
"""So many measurements in a row without rows that wait show at first that a job has caught up."""

MISSES, SUSTAINED = 2, 4
"""So many measurements in a row decide on a size, as one may be for a pause of the process; and on giving the target up."""

_FULL = 0.75
"""From this part of the limit on a batch is one that the limit has made small."""

_AIM = 0.8
"""The part of the target that a smaller size aims at."""

_HELPED = 0.8
"""To this part of what it was a latency is to go when batches are made smaller, if it is for their size."""

_BEHIND, _AT_EASE = 0.05, 0.1
"""Sources that wait for rows for less of their time have always some to read; from the second on they have caught up."""


@dataclass(frozen=True)
class Measured:
    """`largest` are the rows of the largest batch of a source meanwhile, `idle` is for which part of its time the busiest source
    has waited for rows, and `backlog_ms` how long the job takes for those that wait to be read, where that is known."""

    p99_ms: float
    largest: int
    idle: float
    backlog_ms: float = 0.0

    @property
    def is_behind(self) -> bool:
        return self.idle < _BEHIND


@dataclass(frozen=True)
class Sizing:
    """`rows` is the size of a batch, `first` the one of the plan, `bound` one that was too large (0: none). `is_fixed`: the size
    is set, so that only waits between tasks can change. `quiet` counts the measurements since the bound was found, or the mode
    was chosen, and `patience` how many it takes to try again.

    `misses` counts measurements above the target in a row, `unhelped` those of them at which a smaller size had not helped, and
    `p99_before_ms` is what a size had before it was made smaller; `waits` counts those in a row at which rows had waited in the
    sources for longer than the target. With THROUGHPUT `calm` counts those in a row at which none had, and `calm_wanted` is how
    many are to; `kept` counts those since the target was taken up again. `reason` says what was seen last."""

    rows: int
    first: int
    is_fixed: bool = False
    bound: int = 0
    mode: LatencyMode = LatencyMode.TARGET
    quiet: int = 0
    patience: int = PATIENCE
    misses: int = 0
    unhelped: int = 0
    p99_before_ms: float = 0.0
    waits: int = 0
    calm: int = 0
    calm_wanted: int = CALM
    kept: int = PATIENCE_MAX
    reason: str = ""

    @property
    def smallest(self) -> int:
        return self.first if self.is_fixed else BATCH_ROWS_MIN

    @property
    def largest(self) -> int:
        return self.first if self.is_fixed else BATCH_ROWS_MAX


def resize(sizing: Sizing, measured: Measured, target_ms: int) -> Sizing:
    """The sizing after a measurement. A pure function.

    Where latency grows with the size of batches, the size stays between a quarter of the largest one that keeps the target and
    that one. Where latency does not follow the size, it is the one of the plan; and where batches are smaller than they might
    be, it is left as it is. Where the smallest size does not keep the target, or rows wait in the sources for longer than that,
    the job has the settings of the highest throughput until it has caught up."""
    text = f"99 % of markers take {measured.p99_ms:.0f} ms of {target_ms} ms"
    if sizing.mode is LatencyMode.THROUGHPUT:
        return _catching_up(sizing, measured, target_ms, text)
    has_backlog = measured.is_behind and measured.backlog_ms > target_ms
    sizing = replace(
        sizing, quiet=sizing.quiet + 1, kept=sizing.kept + 1, waits=sizing.waits + 1 if has_backlog else 0
    )
    if sizing.waits >= SUSTAINED:
        waits = f"what the sources have not read takes {measured.backlog_ms / 1000:,.1f} s"
        return _given_up(sizing, measured, target_ms, f"{text}, and {waits}")
    is_full = measured.largest >= _FULL * sizing.rows
    if measured.p99_ms > target_ms:
        return _missed(sizing, measured, target_ms, is_full, text)
    sizing = replace(sizing, misses=0, unhelped=0, p99_before_ms=0.0)
    if sizing.mode is LatencyMode.PLAN:
        sizing = replace(sizing, mode=LatencyMode.TARGET, quiet=0)
    if sizing.bound and sizing.quiet > sizing.patience:
        sizing = replace(sizing, bound=0, quiet=0)
    doubled = 2 * sizing.rows
    if not is_full:
        return replace(sizing, reason=f"{text}; batches have {measured.largest} rows, as they come")
    if measured.p99_ms > target_ms / 2 or doubled > sizing.largest:
        return replace(sizing, reason=text)
    if sizing.bound and doubled >= sizing.bound:
        return replace(sizing, reason=f"{text}; batches of {sizing.bound} rows took longer")
    return replace(sizing, rows=doubled, reason=f"{text}, which leaves room for larger batches")


def _missed(sizing: Sizing, measured: Measured, target_ms: int, is_full: bool, text: str) -> Sizing:
    if sizing.mode is LatencyMode.PLAN:
        if sizing.quiet <= sizing.patience:
            return replace(sizing, reason=f"{text}, as with smaller batches: it is not for their size")
        reason = f"{text}; smaller batches are tried again"
        return replace(sizing, rows=sizing.first, mode=LatencyMode.TARGET, misses=0, reason=reason)
    if not is_full and not measured.is_behind:
        reason = f"{text}; not for its batches, which have {measured.largest} rows"
        return replace(sizing, misses=0, reason=reason)
    sizing = replace(sizing, misses=sizing.misses + 1)
    if sizing.misses < MISSES:
        return replace(sizing, reason=f"{text}, for the first time")
    # What was found again is waited for longer.
    patience = min(2 * sizing.patience, PATIENCE_MAX) if sizing.quiet > MISSES else sizing.patience
    has_helped = not sizing.p99_before_ms or measured.p99_ms < _HELPED * sizing.p99_before_ms
    unhelped = 0 if has_helped else sizing.unhelped + 1
    if unhelped >= MISSES and not measured.is_behind:
        return replace(
            sizing,
            rows=sizing.first,
            bound=0,
            mode=LatencyMode.PLAN,
            quiet=0,
            patience=patience,
            unhelped=0,
            p99_before_ms=0.0,
            reason=f"{text}, as with larger batches: it is not for their size",
        )
    if sizing.rows <= sizing.smallest or not is_full:
        reason = f"{text} with batches of {min(sizing.rows, measured.largest)} rows"
        if sizing.misses < SUSTAINED:
            return replace(sizing, reason=reason)
        return _given_up(sizing, measured, target_ms, reason)
    wanted = sizing.rows * max(1 / 8, min(1 / 2, _AIM * target_ms / measured.p99_ms))
    return replace(
        sizing,
        rows=max(sizing.smallest, 1 << (int(wanted).bit_length() - 1)),
        bound=sizing.rows,
        quiet=0,
        patience=patience,
        misses=0,
        unhelped=unhelped,
        p99_before_ms=measured.p99_ms,
        reason=f"{text}: smaller batches pass sooner",
    )


def _given_up(sizing: Sizing, measured: Measured, target_ms: int, seen: str) -> Sizing:
    """A job that was here not long ago waits twice as long as then before it tries again."""
    again = sizing.kept <= PATIENCE + sizing.calm_wanted
    # Sources that wait for rows show nothing here: it is missed while they do.
    wanted = CALM if measured.is_behind else PATIENCE
    return Sizing(
        sizing.largest,
        sizing.first,
        sizing.is_fixed,
        mode=LatencyMode.THROUGHPUT,
        calm_wanted=min(max(wanted, 2 * sizing.calm_wanted), PATIENCE_MAX) if again else wanted,
        reason=f"{cannot_be_kept(target_ms)}: {seen}",
    )


def _catching_up(sizing: Sizing, measured: Measured, target_ms: int, text: str) -> Sizing:
    """The target is taken up again with large batches: what they miss is seen by then."""
    is_calm = measured.idle >= _AT_EASE and measured.backlog_ms <= target_ms
    calm = sizing.calm + 1 if is_calm else 0
    if calm >= sizing.calm_wanted:
        return replace(
            sizing,
            mode=LatencyMode.TARGET,
            calm=0,
            kept=0,
            reason=f"{text}, and the sources have no rows left that wait: the target is tried again",
        )
    seen = (
        f"the sources have no rows left that wait, for {calm} of {sizing.calm_wanted} measurements"
        if is_calm
        else "the sources have more to read than the job takes"
    )
    return replace(sizing, calm=calm, reason=f"{cannot_be_kept(target_ms)}: {text}, and {seen}")


def cannot_be_kept(target_ms: int) -> str:
    return f"the target of {target_ms} ms cannot be kept at this rate"
