"""However the rows of a table are split into files, and whoever reads them: a row is late by its own file or not at all."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import LATE, Engine, rows_of
from pyarrow import csv

from sqlstream.elements import WATERMARK_MIN

WINDOW_S, DELAY_S = 10, 5
Seconds = list[int]
"""The times of a file's rows, in its order."""

TABLES = {
    "rowtime": "ts TIMESTAMP(3)",
    "computed": "s BIGINT, ts AS TO_TIMESTAMP_LTZ(s, 0)",
    "metadata": "s BIGINT, part STRING METADATA FROM 'file.name', ts AS TO_TIMESTAMP_LTZ(s + INSTR(part, '?'), 0)",
}


@st.composite
def dealt_out(draw: st.DrawFn) -> list[Seconds]:
    """Rows none of which is more than DELAY_S behind one before it, each in any of the files."""
    steps = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, DELAY_S)), max_size=60))
    files: list[Seconds] = [[] for _ in range(draw(st.integers(1, 6)))]
    front = 0
    for step, behind in steps:
        front += step
        files[draw(st.integers(0, len(files) - 1))].append(front - behind)
    return files


ANY_ORDER = st.lists(st.lists(st.integers(-20, 80), max_size=20), min_size=1, max_size=5)


def write(path: Path, format: str, column: str, times: Seconds) -> None:
    moments = pa.array([t * 1000 for t in times], pa.timestamp("ms"))
    table = pa.table([moments if column == "ts" else pa.array(times, pa.int64())], [column])
    if format == "parquet":
        pq.write_table(table, path, row_group_size=7)
    elif format == "csv":
        csv.write_csv(table, path, csv.WriteOptions(include_header=False))
    else:
        texts = table.column(0).cast(pa.string()).to_pylist()
        path.write_text("".join(f'{{"{column}": "{text}"}}\n' for text in texts))


SLIDE = {"TUMBLE": "", "HOP": f"INTERVAL '{WINDOW_S // 5}' SECOND, "}


class Around:
    """What a result must not depend on."""

    STRATEGY = st.fixed_dictionaries(
        {
            "table": st.sampled_from(sorted(TABLES)),
            "format": st.sampled_from(["csv", "json", "parquet"]),
            "parallelism": st.integers(1, 4),
            "batch_rows": st.sampled_from([1, 3, 20, 1000]),
            "open_files": st.integers(1, 4),
            "phases": st.sampled_from(["AUTO", "ONE_PHASE"]),
        }
    )


class Counts:
    """Counts a table's rows by window: rows by the window's start in seconds, and how many were late."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine, self._directory = engine, directory
        self._numbers = itertools.count()

    def __call__(
        self,
        files: list[Seconds],
        emit: str,
        table: str,
        format: str,
        parallelism: int,
        batch_rows: int,
        open_files: int,
        phases: str,
        kind: str = "TUMBLE",
    ) -> tuple[Counter[int], int]:
        path = self._directory / str(next(self._numbers))
        path.mkdir()
        for number, times in enumerate(files):
            write(path / f"{number}.{format}", format, "ts" if table == "rowtime" else "s", times)
        self._engine.configure(parallelism, batch_rows)
        (found,) = self._engine.run(
            f"SET 'table.optimizer.agg-phase-strategy' = '{phases}';"
            f"CREATE TABLE t ({TABLES[table]}, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_S}' SECOND) WITH"
            f" ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}',"
            f" 'scan.watermark.emit.strategy' = '{emit}', 'source.open-files.max' = '{open_files}');"
            "SELECT window_start, COUNT(*) FROM"
            f" TABLE({kind}(TABLE t, DESCRIPTOR(ts), {SLIDE[kind]}INTERVAL '{WINDOW_S}' SECOND))"
            " GROUP BY window_start, window_end"
        )
        counts = {int(start.replace(tzinfo=datetime.UTC).timestamp()): n for start, n in rows_of(found.table)}
        return Counter(counts), found.metrics.get(LATE, 0)


@pytest.fixture(scope="module")
def counts(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return Counts(engine, tmp_path_factory.mktemp("splits"))


def window_of(time: int) -> int:
    return time // WINDOW_S * WINDOW_S


def by_own_file(files: list[Seconds]) -> tuple[Counter[int], int]:
    """Row by row: a row is late when the rows before it in its file have closed its window."""
    kept: Counter[int] = Counter()
    late = 0
    for times in files:
        watermark_ms = WATERMARK_MIN
        for time in times:
            if (window_of(time) + WINDOW_S) * 1000 - 1 <= watermark_ms:
                late += 1
            else:
                kept[window_of(time)] += 1
            watermark_ms = max(watermark_ms, (time - DELAY_S) * 1000)
    return kept, late


@settings(max_examples=40, deadline=None)
@given(files=dealt_out(), emit=st.sampled_from(["on-event", "on-periodic"]), around=Around.STRATEGY)
def test_no_row_is_late_when_each_file_keeps_its_bound(
    counts: Counts, files: list[Seconds], emit: str, around: dict[str, object]
) -> None:
    all_rows = Counter(window_of(time) for times in files for time in times)
    assert counts(files, emit, **around) == (all_rows, 0)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(files=ANY_ORDER, around=Around.STRATEGY)
def test_with_on_event_watermarks_a_file_alone_decides_which_of_its_rows_are_late(
    counts: Counts, files: list[Seconds], around: dict[str, object]
) -> None:
    assert counts(files, "on-event", **around) == by_own_file(files)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(files=ANY_ORDER, around=Around.STRATEGY)
def test_with_on_event_watermarks_a_row_counts_in_those_of_its_hops_that_are_open(
    counts: Counts, files: list[Seconds], around: dict[str, object]
) -> None:
    slide, kept = WINDOW_S // 5, Counter[int]()
    for times in files:
        watermark_ms = WATERMARK_MIN
        for time in times:
            latest = time // slide * slide
            starts = range(latest - WINDOW_S + slide, latest + 1, slide)
            kept.update(s for s in starts if (s + WINDOW_S) * 1000 - 1 > watermark_ms)
            watermark_ms = max(watermark_ms, (time - DELAY_S) * 1000)
    assert counts(files, "on-event", **around, kind="HOP")[0] == kept  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(files=ANY_ORDER, around=Around.STRATEGY)
def test_with_periodic_watermarks_no_row_is_late_that_is_not_by_its_file(
    counts: Counts, files: list[Seconds], around: dict[str, object]
) -> None:
    counted, _ = counts(files, "on-periodic", **around)  # type: ignore[arg-type]
    kept, late = by_own_file(files)
    all_rows = Counter(window_of(time) for times in files for time in times)
    assert kept <= counted <= all_rows
    assert all_rows.total() - counted.total() <= late
