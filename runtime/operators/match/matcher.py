"""Finds matches in sorted rows: runs the kernel, and answers the conditions that it cannot compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.kernels import match
from sqlstream.runtime.operators.match.conditions import Conditions, Partitions, PreparedConditions
from sqlstream.runtime.operators.match.values import MatchedRows, MatchValues, ranges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.schema import Schema
from sqlstream.specs.match_recognize import SPLIT, AfterMatch, MatchRecognizeSpec, RowsPerMatch

RECORDS_MAX = 1 << 15
LABELS_MAX = 1 << 18
PLACES_MAX = 1 << 25
"""Pairs of row and instruction of one run, each of which takes 4 bytes."""
STEPS_MAX = 1 << 28
"""Steps for the match that begins at one row. They take a second or two."""
CALL_STEPS = 1 << 22
"""Steps between two looks at whether the task is cancelled."""
_AFTER = {
    AfterMatch.PAST_LAST_ROW: 0,
    AfterMatch.NEXT_ROW: 1,
    AfterMatch.FIRST: 2,
    AfterMatch.LAST: 3,
}


@dataclasses.dataclass(frozen=True)
class Segments:
    """The rows of some keys in order: key k has rows `bounds[k]` to `bounds[k + 1]` of the batch. A match can begin at
    `starts[k]`, and the rows before `covered[k]` belong to a match already. `times` are those of the rows."""

    batch: pa.RecordBatch
    bounds: Array
    times: Array
    starts: Array
    covered: Array


@dataclasses.dataclass(frozen=True)
class Found:
    """Records (see sqlstream.runtime.kernels.match), with the instructions that consumed the rows of their matches."""

    records: Array
    labels: Array


@dataclasses.dataclass(frozen=True)
class Undecided:
    """What is undecided per key.

    `starts`: the row at which the next match can begin. `covered`: the end of the covered rows. `holds`: whether a later output
    row can be as old as a row that is there. `waits_at`: the instruction at which a match of all rows from the start on waits
    for more, -1 for none. `read_rows`, of such a match: the rows that conditions can read (see ReadRows).
    """

    starts: Array
    covered: Array
    holds: Array
    waits_at: Array
    read_rows: Array


class Matcher:
    """Finds the matches of a spec. Holds its compiled form, no state."""

    def __init__(
        self,
        spec: MatchRecognizeSpec,
        schema: Schema,
        evaluation: EvaluationContext,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._spec = spec
        self.check_cancelled = check_cancelled
        self.conditions = Conditions(spec, evaluation)
        self._values = [
            MatchValues([c], schema, spec.variables, evaluation) if c is not None else None
            for c in spec.conditions
        ]
        self.variable_of = np.array([i.first for i in spec.program], dtype=np.int64)
        self._splits = sum(i.op == SPLIT for i in spec.program)

    def find(
        self, segments: Segments, watermark_ms: int, is_final: bool, emit: Callable[[Found], None]
    ) -> Undecided:
        """Emit what can be decided, and return what cannot.

        `is_final`: no row will come. All rows up to the watermark are there."""
        parts = []
        for first, end in self._portions(segments.bounds):
            low, high = int(segments.bounds[first]), int(segments.bounds[end])
            part = Segments(
                segments.batch.slice(low, high - low),
                segments.bounds[first : end + 1] - low,
                segments.times[low:high],
                segments.starts[first:end] - low,
                segments.covered[first:end] - low,
            )
            run = _Run(self, part, watermark_ms, is_final)
            moved = np.array([first, low, low, 0, 0])
            run.complete(lambda found, moved=moved: emit(Found(found.records + moved, found.labels)))  # type: ignore[misc]
            starts, covered = run.state[:, match.START].copy(), run.state[:, match.COVERED].copy()
            waits_at, read_rows = run.waits_at(), run.read_rows()
            holds = run.holds(starts)
            if self._spec.holds_watermark:
                # Whether a match without a hold gets one is not known without its alternatives.
                waits_at[~holds] = -1
            read_rows[read_rows >= 0] += low
            parts.append((starts + low, covered + low, holds, waits_at, read_rows))
        return Undecided(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _portions(self, bounds: Array) -> list[tuple[int, int]]:
        """First key and end of portions of keys, whose memory for failures and alternatives is bounded, but for one large key."""
        portion = bounds[1:] * len(self.variable_of) // PLACES_MAX
        ends = [*(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(bounds) - 1]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def registers(self, watermark_ms: int, is_final: bool) -> Array:
        """Those of a run's first call."""
        found = np.zeros(match.REGISTERS, dtype=np.int64)
        found[match.STAMP] = 1
        found[match.IS_FINAL], found[match.WITHIN] = is_final, self._spec.within_ms
        found[match.WATERMARK], found[match.AFTER] = watermark_ms, _AFTER[self._spec.after]
        found[match.WITH_UNMATCHED] = self._spec.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED
        found[match.HAS_MEMO] = not self.conditions.needs_match
        found[match.START_STEPS], found[match.CALL_STEPS] = STEPS_MAX, CALL_STEPS
        return found


class _Run:
    """One run over segments. State: where each key is."""

    def __init__(self, matcher: Matcher, segments: Segments, watermark_ms: int, is_final: bool) -> None:
        self._matcher = matcher
        self._segments = segments
        begins, ends = segments.bounds[:-1], segments.bounds[1:]
        lengths = ends - begins
        self._begin_of, self._end_of = np.repeat(begins, lengths), np.repeat(ends, lengths)
        self._partitions = Partitions(segments.batch, self._begin_of, self._end_of)
        self._prepared: PreparedConditions = matcher.conditions.prepare(self._partitions)
        limits = ends if is_final else np.maximum(ends - matcher._spec.looks_ahead, begins)
        room = (lengths + 1) * matcher._splits
        keys, rows = len(begins), int(segments.bounds[-1])
        self.state = np.zeros((keys, match.KEY), dtype=np.int64)
        self.state[:, match.START], self.state[:, match.COVERED] = segments.starts, segments.covered
        self.state[:, match.END], self.state[:, match.LIMIT] = ends, limits
        self.state[:, match.STACK] = match.WORK + np.cumsum(room) - room
        self.labels = np.zeros(rows, dtype=np.int32)
        self._by_way = np.full((matcher.conditions.read_rows.ways, rows), -1, dtype=np.int32)
        places = (rows + keys) * len(matcher.variable_of) if not matcher.conditions.needs_match else 0
        self._visited = np.zeros(places, dtype=np.int32)
        self._stack = np.empty((match.WORK + int(room.sum()), 2), dtype=np.int64)
        labels_max = max(LABELS_MAX, int(lengths.max(initial=0)))
        self._registers = matcher.registers(watermark_ms, is_final)
        self._records = np.empty((RECORDS_MAX, match.RECORD), dtype=np.int64)
        self._out_labels = np.empty(labels_max, dtype=np.int32)

    def complete(self, emit: Callable[[Found], None], active: Array | None = None) -> None:
        """Run the `active` keys (None: all) as far as their rows go."""
        asked = active = np.arange(len(self.state)) if active is None else active
        while True:
            self._step(active)
            self._drain(emit)
            status = int(self._registers[match.STATUS])
            if status == match.IS_PAUSED:
                self._matcher.check_cancelled()
            if status in (match.IS_FULL, match.IS_PAUSED):
                active = active[int(self._registers[match.NEXT_ACTIVE]) :]
                continue
            if status in (match.IS_NOT_MAPPED, match.IS_SAME_ROW, match.IS_COSTLY):
                raise self._error(status)
            asked = asked[self.state[asked, match.PHASE] == match.ASKED]
            if len(asked) == 0:
                return
            self._answer(asked)
            active = asked

    def waits_at(self) -> Array:
        """int64[keys]: the instruction at which the match of a key waits that has consumed all of its rows; -1 for others."""
        waits = self.state[:, match.PHASE] == match.RUNNING
        waits &= self.state[:, match.POSITION] == self._segments.bounds[1:]
        return np.where(waits, self.state[:, match.PC], -1)

    def read_rows(self) -> Array:
        """int64[keys, places]: the rows that conditions can read of matches that have consumed all rows from their start on."""
        lasts = np.maximum(self._segments.bounds[1:] - 1, 0)
        return self._matcher.conditions.read_rows.found(self._by_way, self.state[:, match.START], lasts)

    def holds(self, starts: Array) -> Array:
        """Whether an output row of a key can have the time of a row that is there, after this run."""
        spec = self._matcher._spec
        is_pending = starts < self._segments.bounds[1:]
        if not spec.holds_watermark:
            return np.zeros(len(starts), dtype=bool)
        if spec.rows_per_match is not RowsPerMatch.ONE or self._prepared.asks:
            return is_pending
        # A match that the rows so far have, but others may replace. Without one, every match ends with a row to come.
        keys: list[Array] = []
        self._registers[match.IS_FINAL] = 1
        self.state[:, match.LIMIT] = self.state[:, match.END]
        self.state[:, match.PHASE] = match.FRESH
        self._registers[match.STAMP] += 1
        try:
            self.complete(lambda found: keys.append(found.records[:, 0]), np.flatnonzero(is_pending))
        except UserError:
            return is_pending
        found = np.zeros(len(starts), dtype=bool)
        found[np.concatenate(keys) if keys else []] = True
        return found

    def _step(self, active: Array) -> None:
        prepared = self._prepared
        match.find_matches(
            np.ascontiguousarray(active),
            self.state,
            prepared.program,
            prepared.code,
            prepared.values,
            prepared.flags,
            self._segments.times,
            self.labels,
            self._by_way,
            self._visited,
            self._stack,
            self._records,
            self._out_labels,
            self._registers,
        )

    def _drain(self, emit: Callable[[Found], None]) -> None:
        records, labels = int(self._registers[match.RECORDS]), int(self._registers[match.LABELS])
        if records:
            emit(Found(self._records[:records].copy(), self._out_labels[:labels].copy()))
        self._registers[match.RECORDS] = self._registers[match.LABELS] = 0

    def _error(self, status: int) -> UserError:
        if status == match.IS_COSTLY:
            return UserError(
                "SS3428",
                f"MATCH_RECOGNIZE has tried {STEPS_MAX:,} ways to match the rows from one on, and may have many more",
                detail="quantifiers within quantifiers match the same rows in very many ways, and conditions on rows of the"
                " match tell them apart",
            )
        names = self._matcher._spec.variables
        skipped = " | ".join(names[v] for v in self._matcher._spec.after_variables)
        if status == match.IS_NOT_MAPPED:
            hint = "skip to a variable that every match has, or use SKIP TO NEXT ROW"
            return UserError("SS3426", f"AFTER MATCH SKIP TO {skipped}: a match has no row of it", hint=hint)
        message = f"AFTER MATCH SKIP TO {skipped}: a match begins with it, and would be found again for ever"
        return UserError("SS3426", message, hint="use SKIP TO NEXT ROW or SKIP PAST LAST ROW")

    def _answer(self, asked: Array) -> None:
        """Compute the conditions that the keys wait for, those of one variable at once."""
        variables = self._matcher.variable_of[self.state[asked, match.PC]]
        for variable in np.unique(variables).tolist():
            keys = asked[variables == variable]
            values = self._matcher._values[variable]
            assert values is not None
            mask = pc.fill_null(values.compute(self._mapped(keys))[0], False)
            is_true = mask.to_numpy(zero_copy_only=False)
            self.state[keys, match.PHASE] = np.where(is_true, match.ANSWERED_TRUE, match.ANSWERED_FALSE)

    def _mapped(self, keys: Array) -> MatchedRows:
        """What is mapped of the match of each key, with the current row."""
        starts = self.state[keys, match.START]
        counts = self.state[keys, match.POSITION] + 1 - starts
        rows, bounds = ranges(starts, counts), np.concatenate(([0], np.cumsum(counts)))
        return MatchedRows(
            batch=self._segments.batch,
            partition_begin=self._begin_of,
            partition_end=self._end_of,
            rows=rows,
            variables=self._matcher.variable_of[self.labels[rows]],
            starts=bounds,
            numbers=np.zeros(len(keys), dtype=np.int64),
            matches=np.arange(len(keys)),
            ends=bounds[1:],
        )
