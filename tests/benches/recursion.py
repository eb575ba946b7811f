"""The measurement behind `main.py recursion`: recursive queries that are kept up to date, on one core."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from job_in_a_thread import INSERT_ONLY, RETRACT, JobInAThread
from operator_harness import Collected

from sqlstream.arrow import with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind

REACHED = (
    "WITH RECURSIVE r (n) AS (SELECT n FROM starts UNION SELECT d FROM r JOIN edges ON n = s) SELECT * FROM r"
)
CHART = """WITH RECURSIVE r (id, depth) AS (
    SELECT id, 0 FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, depth + 1 FROM r JOIN staff s ON s.boss = r.id)
    SELECT * FROM r"""
LEAST = """WITH MUTUALLY RECURSIVE least (n INT, c INT) AS (SELECT n, MIN(c) FROM (
    SELECT s AS n, s AS c FROM edges UNION ALL SELECT d, d FROM edges UNION ALL
    SELECT d, c FROM least JOIN edges ON n = s UNION ALL SELECT s, c FROM least JOIN edges ON n = d) GROUP BY n)
    SELECT * FROM least"""
NEAREST = """WITH RECURSIVE r (n, steps) AS (
    SELECT n, 0 FROM starts UNION SELECT d, steps + 1 FROM r JOIN edges ON n = s)
    SELECT n, MIN(steps) AS steps FROM r GROUP BY n"""
COMPONENTS = "SELECT * FROM CONNECTED_COMPONENTS(TABLE edges, DESCRIPTOR(s, d))"
TABLES = {"starts": ("n",), "edges": ("s", "d"), "staff": ("id", "boss")}
LEVELS = 15


class _Unchecked(Collected):
    """State: what is given, unread."""

    def emit(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.elements.append(batch)


class _Job(JobInAThread):
    collects = _Unchecked


@dataclass(frozen=True)
class RecursionFigure:
    """`rows_per_cpu_s` of what is given; `rows_out` are the changes of the result. Times are of the processor, per batch."""

    name: str
    rows_in: int
    rows_out: int
    rows_per_cpu_s: int
    median_ms: float
    worst_ms: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(edges: int, nodes: int, batch_rows: int, staff: int, moves: int) -> Iterator[RecursionFigure]:
    yield reached("reached, rows that only come", INSERT_ONLY, edges, nodes, batch_rows)
    yield reached("reached, rows that may go", RETRACT, edges, nodes, batch_rows)
    yield from reached_and_left(edges, nodes, batch_rows)
    few = (edges // 5, nodes // 5, batch_rows)
    yield reached("nearest, rows that may go", RETRACT, *few, text=NEAREST)
    yield reached("least label, rows that only come", INSERT_ONLY, *few, text=LEAST)
    yield reached("least label, rows that may go", RETRACT, *few, text=LEAST)
    yield reached("CONNECTED_COMPONENTS", INSERT_ONLY, edges, nodes, batch_rows, text=COMPONENTS)
    yield moved(staff, moves)


def _batch(mode: ChangelogMode, kind: RowKind, *columns: Any) -> pa.RecordBatch:
    arrays = [pa.array(c, pa.int32()) for c in columns]
    rows = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    return rows if mode is INSERT_ONLY else with_row_kinds(rows, kind)


def _random_edges(edges: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.integers(0, nodes, edges), random.integers(0, nodes, edges)


def _figure(name: str, job: JobInAThread, batches: list[tuple[str, pa.RecordBatch]]) -> RecursionFigure:
    """Give batches, and wait for the result after each."""
    before = sum(b.num_rows for b in job.output.batches)
    times = []
    for table, batch in batches:
        began = time.process_time()
        job.give(table, batch)
        job.flush()
        times.append(time.process_time() - began)
    rows = sum(b.num_rows for _, b in batches)
    out = sum(b.num_rows for b in job.output.batches) - before
    median = float(np.median(times)) * 1000
    return RecursionFigure(
        name, rows, out, round(rows / sum(times)), round(median, 2), round(max(times) * 1000, 2)
    )


def _reaching(mode: ChangelogMode, nodes: int, text: str = REACHED) -> JobInAThread:
    job = _Job(text, TABLES, mode)
    job.give("starts", _batch(mode, RowKind.INSERT, np.arange(0, nodes, max(1, nodes // 100))))
    job.flush()
    return job


def _edge_batches(
    mode: ChangelogMode, kind: RowKind, edges: tuple[np.ndarray, np.ndarray], batch_rows: int
) -> list[tuple[str, pa.RecordBatch]]:
    s, d = edges
    return [
        ("edges", _batch(mode, kind, s[i : i + batch_rows], d[i : i + batch_rows]))
        for i in range(0, len(s), batch_rows)
    ]


def reached(
    name: str, mode: ChangelogMode, edges: int, nodes: int, batch_rows: int, text: str = REACHED
) -> RecursionFigure:
    job = _reaching(mode, nodes, text)
    given = _edge_batches(mode, RowKind.INSERT, _random_edges(edges, nodes), batch_rows)
    return _figure(name, job, given)


def reached_and_left(edges: int, nodes: int, batch_rows: int) -> Iterator[RecursionFigure]:
    """All edges at once, then some of them go again in batches."""
    job = _reaching(RETRACT, nodes)
    s, d = _random_edges(edges, nodes)
    yield _figure("reached, all at once", job, _edge_batches(RETRACT, RowKind.INSERT, (s, d), edges))
    gone = batch_rows * 10
    yield _figure(
        "reached, rows that go", job, _edge_batches(RETRACT, RowKind.DELETE, (s[:gone], d[:gone]), batch_rows)
    )


def moved(staff: int, moves: int) -> RecursionFigure:
    """A chart of LEVELS levels. In turn one person of the middle levels gets a boss of another level, so that the depth of all
    below changes."""
    job = _Job(CHART, TABLES, RETRACT)
    random = np.random.default_rng(1)
    starts, bosses = _chart(staff, random)
    ids = pa.array(np.arange(len(bosses)), pa.int32())
    boss = pa.array(bosses, pa.int32(), mask=bosses < 0)
    job.give("staff", with_row_kinds(pa.RecordBatch.from_arrays([ids, boss], ["id", "boss"]), RowKind.INSERT))
    job.flush()
    kinds = np.array([int(RowKind.UPDATE_BEFORE), int(RowKind.UPDATE_AFTER)], dtype=np.int8)
    batches = []
    for _ in range(moves):
        level = int(random.integers(LEVELS // 2, LEVELS - 1))
        id = int(random.integers(starts[level], starts[level + 1]))
        above = level - 2 if bosses[id] >= starts[level - 1] else level - 1
        new = int(random.integers(starts[above], starts[above + 1]))
        batches.append(
            ("staff", with_row_kinds(_batch(RETRACT, RowKind.INSERT, [id, id], [bosses[id], new]), kinds))
        )
        bosses[id] = new
    return _figure("a move in a chart", job, batches)


def _chart(staff: int, random: np.random.Generator) -> tuple[list[int], np.ndarray]:
    """The first number of each level, and the boss of each person, -1 for the first."""
    fan = (staff * 0.63) ** (1 / (LEVELS - 1))
    sizes = [max(1, round(fan**level)) for level in range(LEVELS - 1)]
    sizes.append(staff - sum(sizes))
    starts = [0, *np.cumsum(sizes).tolist()]
    bosses = [np.array([-1])]
    bosses += [random.integers(starts[level - 1], starts[level], sizes[level]) for level in range(1, LEVELS)]
    return starts, np.concatenate(bosses)
