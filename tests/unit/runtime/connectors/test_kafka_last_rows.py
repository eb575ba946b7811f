"""A writer of upserts that holds rows for a while."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.connectors.kafka.last_rows import LastRowsWriter
from sqlstream.spi.committable import Committable

Rows = list[tuple[int, int]]


class Written:
    """Keeps the rows of each write."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.events: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows.append(list(zip(*(c.to_pylist() for c in batch.columns), strict=True)))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self.events.append(f"checkpoint {checkpoint_id} behind {len(self.rows)} writes")
        return []

    def abort(self) -> None:
        self.events.append("aborted")


def batch_of(*rows: tuple[int, int]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], names=["k", "v"])


def writer_of(rows_max: int, interval_ms: int = 1000) -> tuple[LastRowsWriter, Written, list[int]]:
    written, clock = Written(), [0]
    writer = LastRowsWriter(
        written,
        lambda batch: batch.column(0).cast(pa.string()).cast(pa.binary()),
        (rows_max, interval_ms),
        lambda: clock[0],
    )
    return writer, written, clock


def test_the_last_row_of_a_key_is_written_when_there_are_enough() -> None:
    writer, written, _ = writer_of(4)
    writer.write(batch_of((1, 10), (2, 20), (1, 11)))
    assert written.rows == []
    writer.write(batch_of((3, 30), (1, 12), (1, 13), (1, 14), (2, 21), (4, 40)))
    assert written.rows == [[(2, 20), (1, 11), (3, 30)], [(1, 14), (2, 21)]]
    writer.flush()
    assert written.rows[2:] == [[(4, 40)]]


def test_rows_wait_no_longer_than_the_interval() -> None:
    writer, written, clock = writer_of(100)
    assert writer.next_flush_ms() is None
    clock[0] = 500
    writer.write(batch_of((1, 10)))
    clock[0] = 900
    writer.write(batch_of((1, 11)))
    assert writer.next_flush_ms() == 1500
    writer.flush()
    assert written.rows == [[(1, 11)]]
    assert writer.next_flush_ms() is None
    writer.flush()
    assert written.rows == [[(1, 11)]]


def test_a_checkpoint_has_all_rows_before_it() -> None:
    writer, written, _ = writer_of(100)
    writer.write(batch_of((1, 10)))
    writer.prepare_commit(7)
    assert written.events == ["checkpoint 7 behind 1 writes"]
    writer.write(batch_of((1, 11)))
    writer.abort()
    assert written.rows == [[(1, 10)]]
