"""Simulated jobs with event time: readers that make watermarks or pause, windows by key, and what they must have emitted.

No row is late unless a part resumes with old rows, so each window is emitted once, with all its rows.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from simulated_jobs import CONFIG, HASH, random_exchange
from simulated_tasks import Reader, Row, copies_behind, parts_of, window_name

from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MIN
from sqlstream.expressions import AggregateCall, InputRef
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec, Spec, WatermarkAssignerSpec, WindowAggregateSpec
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.types import BIGINT, STRING, timestamp

TIME = timestamp(3)
TIMED = Schema.of(("k", STRING), ("t", TIME))
COUNTED = Schema.of(
    ("k", STRING), ("v", BIGINT), ("window_start", TIME), ("window_end", TIME), ("window_time", TIME)
)
KEYS = 6
TIMED_BATCH_ROWS = 2
PAUSE_MS = 6_000
"""How long a part that pauses has no rows, from the first attempt of its job on."""
IDLE_MS = 1_000
FAR_MS = 100_000
"""How much later than all other rows those behind a pause are, so that they are not late."""
PASS_ON = CalcSpec((InputRef(0, STRING), InputRef(1, TIME)), None)
WINDOWS = (
    WindowSpec(WindowKind.TUMBLE, 300),
    WindowSpec(WindowKind.HOP, 600, 200),
    WindowSpec(WindowKind.HOP, 1200, 300),
    WindowSpec(WindowKind.CUMULATE, 1200, 300),
    WindowSpec(WindowKind.SESSION, 350),
)
"""The last one has other bounds when some of its rows are late."""
LATER, EARLY = "later", "early"
"""How a part that has paused goes on: with rows later than all others, or with its next ones, which may be late by then."""

TimedRow = tuple[str, int]


def is_timed(job: JobGraph) -> bool:
    return any(isinstance(o.spec, WindowAggregateSpec) for v in job.vertices for o in v.operators)


def may_be_late(job: JobGraph) -> bool:
    """Whether it depends on the run which rows are late: also where subtasks between a source that pauses and a window turn
    active one after the other, as the watermarks of the first are not held back by the others."""
    is_behind_others = any(_is_window(vertex) for vertex in job.vertices[2:])
    return _pauses(job) == EARLY or (_pauses(job) == LATER and is_behind_others)


def may_pause(job: JobGraph) -> bool:
    """Whether readers turn idle."""
    return bool(_pauses(job))


def _pauses(job: JobGraph) -> str:
    spec = job.vertices[0].operators[0].spec
    assert isinstance(spec, SourceSpec)
    return spec.options["pauses"]


def windows_of(job: JobGraph) -> list[WindowAggregateSpec]:
    return [o.spec for v in job.vertices for o in v.operators if isinstance(o.spec, WindowAggregateSpec)]


# --- rows


def timed_rows(part: int, pauses: str) -> tuple[list[TimedRow], int]:
    """What is in one part, in the order of its times, and how many rows come before it pauses (all, if it does not)."""
    count = 14 + 7 * part
    rows = [(f"k{(i * 5 + part) % KEYS}", 90 * i + 7 * part) for i in range(count)]
    # Of several parts with later rows, those of one might be over before those of another come.
    if not pauses or part % 2 or (part and pauses == LATER):
        return rows, count
    place = count // 2
    far_ms = FAR_MS if pauses == LATER else 0
    return [(k, t if i < place else t + far_ms) for i, (k, t) in enumerate(rows)], place


def emitted(job: JobGraph) -> dict[Row, int]:
    """What the sink holds at the end, row by row."""
    pauses = _pauses(job)
    rows = [row for part in range(parts_of(job.vertices[0])) for row in timed_rows(part, pauses)[0]]
    before, behind = copies_behind(job, _is_window)
    rows *= before
    ends: Counter[tuple[str, int]] = Counter()
    for window in windows_of(job):
        ends = _count(window.window, rows)
        rows = [(k, end - 1) for k, end in ends]
    return {(window_name(k, end), n): behind for (k, end), n in ends.items()}


def _is_window(vertex: JobVertex) -> bool:
    return isinstance(vertex.operators[0].spec, WindowAggregateSpec)


def _count(window: WindowSpec, rows: list[TimedRow]) -> Counter[tuple[str, int]]:
    if window.kind is WindowKind.SESSION:
        return Counter(dict(_sessions(window.size_ms, rows)))
    return Counter((k, end) for k, t in rows for end in _ends(window, t))


def _sessions(gap_ms: int, rows: list[TimedRow]) -> Iterator[tuple[tuple[str, int], int]]:
    for key, of_key in itertools.groupby(sorted(rows), key=lambda row: row[0]):
        times = [t for _, t in of_key]
        first = 0
        for n, time in enumerate(times, 1):
            if n == len(times) or times[n] - time >= gap_ms:
                yield (key, time + gap_ms), n - first
                first = n


def _ends(window: WindowSpec, time: int) -> list[int]:
    size, step = window.size_ms, window.slide_ms or window.size_ms
    if window.kind is WindowKind.CUMULATE:
        start = time // size * size
        return [end for end in range(start + step, start + size + 1, step) if end > time]
    last = time // step * step
    return [start + size for start in range(last, last - size, -step) if start <= time < start + size]


# --- readers


class TimedReader(Reader):
    """Makes a watermark for each of its parts, and returns the rows of those that do not pause. State: also how far the
    watermark has come."""

    lasting = 0.05
    failing = 0.6
    fails_now = 0.04

    def __init__(self, spec: SourceSpec, context: ConnectorContext, positions: list[dict[str, Any]]) -> None:
        self._pauses = spec.options["pauses"]
        self._watermark_ms = WATERMARK_MIN
        # A reader that has rows is never taken for idle.
        self.waiting = 0.0 if self._pauses else 0.5
        super().__init__(context, positions)
        self._resumes_ms = context.files.first_read_ms(context.job_id) + PAUSE_MS

    def rows_of(self, part: int) -> list[TimedRow]:
        return timed_rows(part, self._pauses)[0]

    def poll(self) -> pa.RecordBatch | SourceStatus:
        for _ in range(len(self._parts)):
            if not self._is_paused(*self._parts[0]):
                break
            self._parts.rotate(-1)
        else:
            return SourceStatus.NOTHING_YET if self._parts else super().poll()
        return super().poll()

    def _is_paused(self, part: int, left: list[TimedRow]) -> bool:
        rows, place = timed_rows(part, self._pauses)
        return len(rows) - len(left) == place and self._now_ms() < self._resumes_ms

    def rows_taken(self, part: int, left: list[TimedRow]) -> int:
        rows, place = timed_rows(part, self._pauses)
        done = len(rows) - len(left)
        return min(TIMED_BATCH_ROWS, place - done) if done < place else TIMED_BATCH_ROWS

    def made(self, rows: list[TimedRow]) -> pa.RecordBatch:
        times = pa.array([t for _, t in rows], pa.timestamp("ms"))
        return pa.record_batch({"k": pa.array([k for k, _ in rows]), "t": times})

    def watermark_ms(self) -> int:
        firsts = [left[0][1] - 1 for _, left in self._parts if left]
        self._watermark_ms = max(self._watermark_ms, min(firsts, default=WATERMARK_MIN))
        return self._watermark_ms


# --- jobs


def timed_job(rng: random.Random, number: int) -> JobGraph:
    """A source with watermarks, perhaps an operator without state, one window or a window of windows, and a sink."""
    widths = [rng.choice([1, 2, 2, 3]) for _ in range(4)]
    pauses = rng.choice(["", "", LATER, EARLY])
    options = {"parts": str(rng.randint(2, 5)), "pauses": pauses}
    source = SourceSpec(f"t{number}", "simulated", options, TIMED, TIMED.names)
    assigner = WatermarkAssignerSpec(
        1, InputRef(1, TIME), idle_timeout_ms=IDLE_MS if pauses else 0, is_by_source=True
    )
    chains: list[list[Spec]] = [[source, assigner]]
    exchanges: list[Exchange] = []
    if rng.random() < 0.3:
        chains.append([PASS_ON])
        exchanges.append(random_exchange(rng))
    windows = WINDOWS[: -1 if pauses == EARLY else None]
    chains.append([_window(rng, windows, time_column=1)])
    exchanges.append(HASH)
    if rng.random() < 0.4:
        chains.append([_window(rng, windows, time_column=4)])
        exchanges.append(HASH)
    if len(chains) < 4 and rng.random() < 0.5:
        chains.append([])
        exchanges.append(random_exchange(rng))
    chains[-1].append(SinkSpec("s", "simulated", {}, COUNTED))
    vertices, schema = [], TIMED
    for i, chain in enumerate(chains):
        vertex, schema = _vertex(i, chain, widths[i], schema)
        vertices.append(vertex)
    edges = tuple(_edge(i, vertices, exchange) for i, exchange in enumerate(exchanges))
    return JobGraph(f"job{number}", f"job {number}", tuple(vertices), edges, CONFIG)


def _window(rng: random.Random, windows: tuple[WindowSpec, ...], time_column: int) -> WindowAggregateSpec:
    return WindowAggregateSpec((0,), (AggregateCall("COUNT", (), BIGINT),), rng.choice(windows), time_column)


def _vertex(i: int, chain: list[Spec], parallelism: int, schema: Schema) -> tuple[JobVertex, Schema]:
    operators: list[ChainedOperator] = []
    mode = ChangelogMode.INSERT_ONLY
    for n, spec in enumerate(chain):
        is_source = isinstance(spec, SourceSpec)
        inputs, modes = ((), ()) if is_source else ((schema,), (mode,))
        schema = COUNTED if isinstance(spec, WindowAggregateSpec) else schema
        id = 10 * i + n + 1
        input = NETWORK_INPUT if n == 0 else id - 1
        operators.append(
            ChainedOperator(id, f"{id:032x}", f"op{id}", spec, input, inputs, modes, schema, mode)
        )
    return JobVertex(operators[0].uid, f"v{i}", tuple(operators), parallelism, 128), schema


def _edge(i: int, vertices: list[JobVertex], exchange: Exchange) -> JobEdge:
    source = vertices[i].operators[-1]
    schema, mode = source.output_schema, ChangelogMode.INSERT_ONLY
    return JobEdge(i, vertices[i].id, source.id, vertices[i + 1].id, 0, exchange, schema, mode)
