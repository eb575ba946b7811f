"""A reader that goes on from another one's snapshot returns exactly the rows that the other would have returned then."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_harness import call, col, lit

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.operators.source_readers import ValuesReader
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec, SourceWatermark, ValuesSpec
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.spi.connector import ConnectorContext, MakesWatermarks, SourceStatus
from sqlstream.testing.trial_jobs import AssignedReader

Row = tuple[Any, ...]
SEEDS = range(4)


class Cluster:
    """A clock that goes on by itself, and readers of one table one after another."""

    def __init__(self, fate: random.Random, spec: SourceSpec, parallelism: int = 1) -> None:
        self.fate = fate
        self.spec = spec
        self.now_ms = 1_000_000
        self.parallelism = parallelism
        self.watermarks: list[int] = []

    def context(self) -> ConnectorContext:
        return ConnectorContext(
            *("j", "v", 0, self.parallelism, 0, self.fate.choice([1, 7, 50])),
            {},
            lambda: self.now_ms,
            lambda name, n: None,
            LocalFiles(),
        )

    def read(self, cuts: int) -> list[Row]:
        """All rows, by `cuts` + 1 readers, each of which is thrown away at a random poll together with what it has returned since
        its snapshot."""
        rows: list[Row] = []
        kept: list[dict[str, Any]] | None = None
        state: dict[str, Any] | None = None
        for cut in range(cuts + 1):
            reader = AssignedReader(connector(self.spec.connector), self.spec, self.context(), kept, state)
            polls = self.fate.randint(0, 12) if cut < cuts else 1_000_000
            if self._poll(reader, polls, rows):
                reader.reader.close()
                break
            kept = json.loads(json.dumps(reader.reader.snapshot()))
            state = json.loads(json.dumps(reader.enumerator.snapshot()))
            # Lost with the attempt: no checkpoint has it.
            self._poll(reader, self.fate.randint(0, 3), [])
            reader.reader.close()
        return rows

    def _poll(self, reader: AssignedReader, polls: int, rows: list[Row]) -> bool:
        """Whether the reader has come to its end."""
        for _ in range(polls):
            polled = reader.poll()
            self.now_ms += self.fate.randint(0, 30)
            if polled is SourceStatus.END:
                return True
            if isinstance(polled, pa.RecordBatch):
                rows += list(zip(*(c.to_pylist() for c in polled.columns), strict=True))
            if self.spec.watermark is not None and isinstance(reader.reader, MakesWatermarks):
                self.watermarks.append(reader.reader.watermark_ms())
        return False


def same_rows_however_cut(
    make: Callable[[random.Random], Cluster], seed: int, is_ordered: bool = True
) -> None:
    whole = make(random.Random(seed)).read(0)
    assert whole
    for attempt in range(3):
        fate = random.Random(seed * 10 + attempt)
        cut = make(fate).read(fate.randint(1, 6))
        assert cut == whole if is_ordered else sorted(map(repr, cut)) == sorted(map(repr, whole))


SCHEMA = Schema.of(("k", sql.STRING), ("v", sql.INT))
ROWS = [(f"kä{n}\n{n}" if n % 7 == 0 else f"k{n}", n) for n in range(300)]


def csv_bytes(rows: list[Row]) -> bytes:
    return "".join(f'"{k}",{v}\n' if v % 5 else f"{v},nonsense,{v}\n" for k, v in rows).encode()


def json_bytes(rows: list[Row]) -> bytes:
    return "".join(json.dumps({"k": k, "v": v}) + "\n" if v % 5 else "{nonsense\n" for k, v in rows).encode()


def put(path: Path, rows: list[Row], form: str) -> None:
    match form:
        case "csv":
            path.write_bytes(csv_bytes(rows))
        case "csv.gz":
            path.write_bytes(gzip.compress(csv_bytes(rows)))
        case "json":
            path.write_bytes(json_bytes(rows))
        case "raw":
            path.write_bytes("".join(f"{k!r}\n" for k, _ in rows).encode())
        case "parquet":
            columns = {"k": [k for k, _ in rows], "v": pa.array([v for _, v in rows], pa.int32())}
            pq.write_table(pa.table(columns), path, row_group_size=40)


FORMS = {
    "csv": {"csv.ignore-parse-errors": "true"},
    "csv.gz": {"csv.ignore-parse-errors": "true"},
    "json": {"json.ignore-parse-errors": "true"},
    "raw": {},
    "parquet": {},
}


def files(directory: Path, form: str, **more: Any) -> SourceSpec:
    options = {"path": str(directory), "format": form.partition(".")[0], **FORMS[form]}
    schema = Schema.of(("k", sql.STRING)) if form == "raw" else SCHEMA
    return SourceSpec("t", "filesystem", options, schema, schema.names, **more)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", FORMS)
def test_files_go_on_inside_of_a_file_whatever_its_format(tmp_path: Path, form: str, seed: int) -> None:
    for n in range(3):
        put(tmp_path / f"{n}.{form}", ROWS[n * 100 : n * 100 + 100], form)
    same_rows_however_cut(lambda fate: Cluster(fate, files(tmp_path, form)), seed)


TIME = col(1, sql.timestamp(3))
WATERMARK = SourceWatermark(TIME, call("-", TIME, lit(5_000, sql.INTERVAL_DAY_TIME)), EmitStrategy.ON_EVENT)


@pytest.mark.parametrize("seed", SEEDS)
def test_files_that_overlap_in_time_go_on_and_their_watermark_does_not_fall(
    tmp_path: Path, seed: int
) -> None:
    fate = random.Random(seed)
    for n in range(4):
        times = sorted(fate.randrange(600) for _ in range(60))
        lines = [f"{n}-{i},1970-01-01 00:{t // 60:02}:{t % 60:02}\n" for i, t in enumerate(times)]
        (tmp_path / f"{n}.csv").write_text("".join(lines))
    schema = Schema.of(("k", sql.STRING), ("t", sql.timestamp(3)))
    options = {"path": str(tmp_path), "format": "csv"}
    spec = SourceSpec("t", "filesystem", options, schema, schema.names, watermark=WATERMARK)
    made: list[Cluster] = []

    def make(fate: random.Random) -> Cluster:
        made.append(Cluster(fate, spec))
        return made[-1]

    same_rows_however_cut(make, seed, is_ordered=False)
    assert any(cluster.watermarks for cluster in made)


def test_the_watermark_of_a_resumed_reader_is_not_behind(tmp_path: Path) -> None:
    schema = Schema.of(("t", sql.timestamp(3)))
    lines = [f"1970-01-01 00:00:{second:02}\n" for second in range(10, 60)]
    (tmp_path / "a.csv").write_text("".join(lines))
    (tmp_path / "b.csv").write_text("".join(lines[20:]))
    at = SourceWatermark(col(0, sql.timestamp(3)), col(0, sql.timestamp(3)))
    spec = SourceSpec(
        *("t", "filesystem", {"path": str(tmp_path), "format": "csv"}, schema, schema.names), watermark=at
    )
    cluster = Cluster(random.Random(1), spec)
    context = dataclasses.replace(cluster.context(), batch_rows=5)
    reader = AssignedReader(connector("filesystem"), spec, context)
    for _ in range(4):
        reader.poll()
    before_ms = reader.reader.watermark_ms()
    assert before_ms > WATERMARK_MIN
    again = AssignedReader(
        *(connector("filesystem"), spec, context, reader.reader.snapshot(), reader.enumerator.snapshot())
    )
    polled = again.poll()
    while not (isinstance(polled, pa.RecordBatch) and polled.num_rows):
        polled = again.poll()
    assert again.reader.watermark_ms() >= before_ms


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", ["5", "90", "20000", "1000000000"])
@pytest.mark.parametrize("kind", ["random", "sequence"])
def test_generated_rows_go_on(kind: str, rate: str, seed: int) -> None:
    end = {"random": {"number-of-rows": "60"}, "sequence": {}}[kind]
    options = {"rows-per-second": rate, "fields.v.kind": kind, **end}
    if kind == "sequence":
        options |= {"fields.v.start": "5", "fields.v.end": "64"}
    spec = SourceSpec("t", "datagen", options, SCHEMA, SCHEMA.names)
    for parallelism in (1, 3):
        # One reader goes on with the splits of three.
        same_rows_however_cut(
            lambda fate, n=parallelism: Cluster(fate, spec, n), seed, is_ordered=parallelism == 1
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("table", ["person", "auction", "bid"])
def test_the_auction_site_goes_on(table: str, seed: int) -> None:
    nexmark: Any = connector("nexmark")
    schema = nexmark.descriptor.reading.schemas[table]
    options = {"nexmark.table": table, "nexmark.events": "70000"}
    columns = schema.names[:1]
    spec = SourceSpec("t", "nexmark", options, schema, columns)
    same_rows_however_cut(lambda fate: Cluster(fate, spec), seed, is_ordered=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_duckdb_table_goes_on(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.duckdb.source.BLOCK_ROWS", 64)
    path = tmp_path / "t.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'k' || i AS k, i::INT AS v FROM range(300) s(i)")
        connection.execute("DELETE FROM t WHERE v % 11 = 3 OR v BETWEEN 100 AND 170")
    spec = SourceSpec("t", "duckdb", {"path": str(path), "table": "t"}, SCHEMA, SCHEMA.names)
    same_rows_however_cut(lambda fate: Cluster(fate, spec), seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_jdbc_table_goes_on(tmp_path: Path, seed: int, is_partitioned: bool) -> None:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (k TEXT, v INT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    connection.close()
    options = {"url": f"jdbc:sqlite:{path}", "table-name": "t"}
    if is_partitioned:
        bounds = {"lower-bound": "0", "upper-bound": "299", "num": "4", "column": "v"}
        options |= {f"scan.partition.{key}": value for key, value in bounds.items()}
    spec = SourceSpec("t", "jdbc", options, SCHEMA, SCHEMA.names)
    same_rows_however_cut(lambda fate: Cluster(fate, spec), seed, is_ordered=not is_partitioned)


@pytest.mark.parametrize("polls", range(5))
def test_literal_rows_go_on(polls: int) -> None:
    schema = Schema.of(("v", sql.INT))
    spec = ValuesSpec(tuple((n,) for n in range(10)))
    reader = ValuesReader(spec, schema, 0, 4)
    rows: list[int] = []
    for _ in range(polls):
        polled = reader.poll()
        rows += polled.column(0).to_pylist() if isinstance(polled, pa.RecordBatch) else []
    kept = json.loads(json.dumps([*reader.snapshot(), *ValuesReader(spec, schema, 1, 4).snapshot()]))
    again = ValuesReader(spec, schema, 0, 3, kept)
    while isinstance(polled := again.poll(), pa.RecordBatch):
        rows += polled.column(0).to_pylist()
    assert rows == list(range(10))
    assert ValuesReader(spec, schema, 1, 3, kept).poll() is SourceStatus.END
