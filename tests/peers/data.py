"""Makes the files that every engine reads: Nexmark's bids as newline JSON."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from peers.queries import COLUMNS, Query

EVENT_TIME_SPAN_S = 60
_BLOCK = 200_000


def make_bids(folder: Path, bids: int, files: int) -> Path:
    """The directory with `bids` bids in `files` files, made when it is not there yet.

    Bids are dealt to the files in turn, so that each spans all of event time in order: with a file a subtask, watermarks
    of the subtasks rise together and no row is late.
    """
    made = folder / f"bids-{bids}-{files}"
    if made.is_dir():
        return made
    partial = folder / f"{made.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for index in range(files):
        _write(partial / f"part-{index}.json", bids, files, index)
    partial.rename(made)
    return made


def reference_totals(directory: Path, query: Query) -> list[int]:
    """What DuckDB's batch answer over the files adds up to."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW bid AS SELECT * FROM read_json('{directory}/*.json', format = 'newline_delimited')"
        )
        row = connection.execute(query.with_totals(query.reference)).fetchone()
    assert row is not None
    return [int(value) for value in row]


def size_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.json"))


def _write(path: Path, bids: int, files: int, index: int) -> None:
    """Every `files`-th bid from `index` on."""
    import duckdb
    import pyarrow as pa

    schema, batches = _bids(bids)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    columns = ", ".join(
        'epoch_ms("dateTime") AS "dateTime"' if column == "dateTime" else f'"{column}"' for column in COLUMNS
    )
    with duckdb.connect() as connection:
        connection.register("bids", reader)
        connection.execute("SET threads = 1")
        connection.execute(
            f"COPY (SELECT {columns} FROM bids WHERE position % {files} = {index}) TO '{path}' (FORMAT json, ARRAY false)"
        )


def _bids(count: int) -> tuple[object, Iterator[object]]:
    """Their schema, and the first `count` bids of the stream, each with its position."""
    import numpy as np
    import pyarrow as pa

    from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
    from sqlstream.runtime.connectors.generators.nexmark_generator import BID_SCHEMA, NexmarkGenerator

    defaults = NexmarkConfig()
    events = -(-count * defaults.epoch_size // defaults.bid_proportion) + defaults.epoch_size
    generator = NexmarkGenerator(NexmarkConfig(rate=max(1, events // EVENT_TIME_SPAN_S)))
    schema = pa.schema([pa.field("position", pa.int64()), *BID_SCHEMA])

    def batches() -> Iterator[object]:
        done = 0
        for start in range(0, events, _BLOCK):
            bids = generator.bids(start, min(start + _BLOCK, events))
            bids = bids.slice(0, count - done)
            positions = pa.array(np.arange(done, done + bids.num_rows))
            yield pa.RecordBatch.from_arrays([positions, *bids.columns], schema=schema)
            done += bids.num_rows

    return schema, batches()
