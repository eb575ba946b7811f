"""The measurement behind `main.py lookup`: the operator of the lookup join over a file, on one core."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import InputRef
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.join.lookup_join import LookupJoin
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, LookupJoinSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext, LooksUp

PROBES = Schema.of(("id", sql.BIGINT), ("key", sql.BIGINT), ("price", sql.BIGINT))
TABLE = Schema.of(("k", sql.BIGINT), ("name", sql.STRING), ("region", sql.INT))
BATCH_ROWS = 65_536
BARS = {"FULL": 2_000_000, "PARTIAL": 300_000, "NONE": 300_000}
"""By cache: probe rows per second of one core that are the aim."""


@dataclass(frozen=True)
class LookupFigure:
    """One cache and kind of join. `rows_out` proves that the probes were answered."""

    cache: str
    kind: str
    rows_per_cpu_s: int
    bar: int
    rows_in: int
    rows_out: int

    @property
    def is_within_bar(self) -> bool:
        return self.rows_per_cpu_s >= self.bar

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Counted:
    """An output that drops the rows. State: how many there were."""

    def __init__(self) -> None:
        self.rows = 0

    def emit(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    splits_rows = False

    def emit_rows(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        self.rows += len(rows)

    def emit_deferred(self, rows: DeferredRows) -> None:
        self.rows += rows.num_rows

    def emit_watermark(self, timestamp_ms: int) -> None:
        return None

    def emit_idle(self, is_idle: bool) -> None:
        return None


def figures(table_rows: int, probe_rows: int, connector_name: str = "duckdb") -> Iterator[LookupFigure]:
    """Every cache and kind of join over a table of `table_rows` rows; nine in ten of the random keys have a row. The table lies
    in a DuckDB file, or for connector `jdbc` in a SQLite file."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as directory:
        make = _sqlite_table if connector_name == "jdbc" else _duckdb_table
        options = make(directory, table_rows)
        batches = _probes(table_rows, probe_rows)
        for cache in BARS:
            for kind in (JoinKind.INNER, JoinKind.LEFT):
                yield measure(connector_name, {**options, "lookup.cache": cache}, kind, batches)


def _duckdb_table(directory: str, rows: int) -> dict[str, str]:
    import duckdb

    path = os.path.join(directory, "dim.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE dim AS SELECT range::BIGINT AS k, 'name of ' || range AS name, (range % 7)::INTEGER AS region"
            f" FROM range({rows})"
        )
    return {"path": path}


def _sqlite_table(directory: str, rows: int) -> dict[str, str]:
    path = os.path.join(directory, "dim.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dim (k INTEGER PRIMARY KEY, name TEXT, region INTEGER)")
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO dim SELECT i, 'name of ' || i, i % 7 FROM n",
            [rows - 1],
        )
        connection.commit()
    return {"url": f"jdbc:sqlite:{path}", "table-name": "dim"}


def _probes(table_rows: int, probe_rows: int) -> list[pa.RecordBatch]:
    draw = np.random.default_rng(1)
    rows = min(BATCH_ROWS, probe_rows)
    keys = max(1, table_rows * 10 // 9)
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(draw.integers(0, high, rows)) for high in (1 << 40, keys, 10_000)],
            names=list(PROBES.names),
        )
        for _ in range(max(1, probe_rows // rows))
    ]


def measure(
    connector_name: str, options: dict[str, str], kind: JoinKind, batches: list[pa.RecordBatch]
) -> LookupFigure:
    """The first batch warms up: it loads a FULL cache."""
    cache = options["lookup.cache"]
    operator, output = _operator(connector_name, options, kind), _Counted()
    operator.on_batch(batches[0], 0, output)
    output.rows = 0
    begun_s = time.process_time()
    for batch in batches:
        operator.on_batch(batch, 0, output)
    used_s = time.process_time() - begun_s
    operator.close()
    rows = sum(batch.num_rows for batch in batches)
    return LookupFigure(cache, kind.value, round(rows / max(used_s, 1e-9)), BARS[cache], rows, output.rows)


def _operator(connector_name: str, options: dict[str, str], kind: JoinKind) -> LookupJoin:
    insert_only = ChangelogMode.INSERT_ONLY
    made = connector(connector_name)
    assert isinstance(made, LooksUp)
    spec = LookupJoinSpec(
        kind=kind,
        left_keys=(1,),
        source_keys=(0,),
        right_keys=(0,),
        source=SourceSpec("dim", connector_name, options, TABLE, TABLE.names),
        projections=tuple(InputRef(i, t) for i, t in enumerate(TABLE.types)),
        right_schema=TABLE,
    )
    surroundings = ConnectorContext(
        "bench", "bench", 0, 1, 0, BATCH_ROWS, {}, lambda: 0, lambda name, n: None, LocalFiles()
    )
    context = OperatorContext((PROBES,), (insert_only,), PROBES.concat(TABLE), insert_only)
    return LookupJoin(spec, context, made.lookup_source(spec.source, ("k",), surroundings))
