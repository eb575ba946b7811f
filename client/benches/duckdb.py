"""DuckDB's batch answers to the Nexmark queries, over the same rows in memory: what `--against duckdb` compares with."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.client.benches.script import checksum_text, is_same_answer
from sqlstream.planner.lower.duckdb import lower_duckdb, quote, type_name
from sqlstream.planner.lower.expression import HostedFunctions
from sqlstream.planner.relational.nodes import RelationalNode, Sink, TableScan
from sqlstream.planner.rules.column_pruning import prune_columns
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.runtime.connectors.checksum import row_checksum
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator
from sqlstream.schema import Schema

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 65_536
CLOCK_QUERIES = {
    "q12": "INSERT INTO nexmark_q12 (bidder, bid_count) SELECT bidder, COUNT(*) FROM bid GROUP BY bidder"
}
"""Queries with windows by processing time, rewritten for a batch: all rows are in one window."""


@dataclass(frozen=True)
class BatchAnswer:
    """DuckDB's answer to one query: CPU seconds of the median run, number and checksum of the rows."""

    cpu_s: float
    rows: int
    checksum: str

    def is_answered_by(self, query: str, rows: int, checksum: str) -> bool | None:
        """Whether the engine gave the same answer; None where the answers cannot be compared."""
        return is_same_answer(query, (self.rows, self.checksum), (rows, checksum))


def answer_in_duckdb(sink: Sink, events: int, config: NexmarkConfig, runs: int) -> BatchAnswer:
    """Load what the bound query reads into DuckDB's memory, warm up, and measure `runs` answers on one thread.

    The query text comes from `lower_duckdb`. Result rows are fetched as Arrow batches and dropped, as `blackhole` drops
    them; the rows of the warm-up are counted and checked.
    """
    import duckdb

    (pruned,) = prune_columns((sink,))
    scans = list(_scans(pruned))
    functions = HostedFunctions()
    relations = {scan.table.path.name: quote(scan.table.path.name) for scan in scans}
    text = lower_duckdb(pruned, relations, functions=functions)
    hosted = HostedCalls(functions.found, {})
    with contextlib.closing(hosted), duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        hosted.register(connection)
        for scan in {scan.table.path.name: scan for scan in scans}.values():
            columns = list(dict.fromkeys(c for s in scans if s.table == scan.table for c in s.columns))
            _load(connection, scan, columns, events, config)
        rows, checksum = _checked(connection, text, sink.schema)
        measured = []
        for _ in range(runs):
            started = time.process_time()
            for _ in connection.sql(text).to_arrow_reader(BATCH_ROWS):
                pass
            measured.append(time.process_time() - started)
    return BatchAnswer(statistics.median(measured), rows, checksum)


def _scans(node: RelationalNode) -> Iterator[TableScan]:
    if isinstance(node, TableScan):
        yield node
    for each in node.inputs:
        yield from _scans(each)


def _load(
    connection: duckdb.DuckDBPyConnection,
    scan: TableScan,
    columns: list[str],
    events: int,
    config: NexmarkConfig,
) -> None:
    """Load the columns that `scan` reads into a table with the types of the lowered text."""
    if "nexmark.table" not in scan.table.options:
        _load_side_input(connection, scan)
        return
    generator = NexmarkGenerator(config)
    make = {"person": generator.persons, "auction": generator.auctions, "bid": generator.bids}[
        scan.table.options["nexmark.table"]
    ]
    blocks = (make(at, min(at + BATCH_ROWS, events), columns) for at in range(0, events, BATCH_ROWS))
    reader = pa.RecordBatchReader.from_batches(make(0, 0, columns).schema, blocks)
    declared = scan.table.physical_schema()
    types = dict(zip(declared.names, declared.types, strict=True))
    cast = ", ".join(f"CAST({quote(c)} AS {type_name(types[c])}) AS {quote(c)}" for c in columns)
    connection.register("generated", reader)
    connection.execute(f"CREATE TABLE {quote(scan.table.path.name)} AS SELECT {cast} FROM generated")
    connection.unregister("generated")


def _load_side_input(connection: duckdb.DuckDBPyConnection, scan: TableScan) -> None:
    """Load a table that lies beside the queries as a CSV file with names in its first line."""
    types = zip(scan.columns, scan.schema.types, strict=True)
    columns = ", ".join(f"CAST({quote(c)} AS {type_name(t)}) AS {quote(c)}" for c, t in types)
    path = scan.table.options["path"]
    connection.execute(
        f"CREATE TABLE {quote(scan.table.path.name)} AS SELECT {columns} FROM read_csv(?, header = true)",
        [path],
    )


def _checked(connection: duckdb.DuckDBPyConnection, text: str, schema: Schema) -> tuple[int, str]:
    wanted = to_arrow_schema(schema)
    rows, checksum = 0, 0
    for batch in connection.sql(text).to_arrow_reader(BATCH_ROWS):
        columns: list[Any] = [c.cast(f.type) for c, f in zip(batch.columns, wanted, strict=True)]
        rows += batch.num_rows
        checksum += int(row_checksum(columns).sum())
    return rows, checksum_text(checksum)
