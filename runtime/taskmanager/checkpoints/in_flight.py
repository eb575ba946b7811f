"""Items that were in flight at an unaligned checkpoint, as they are stored and as they are read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from sqlstream.elements import LatencyMarker
from sqlstream.graph.job_graph import JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint import ArrivingRows, InFlightItems, SavedOperator
from sqlstream.runtime.checkpoint.state_reader import SegmentReader
from sqlstream.runtime.net.channels import StreamItem
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.result_partition import splitter

IN_FLIGHT = -1
"""Under this operator id the rows are written beside the tables of operators."""

Place = tuple[bool, int, int]
"""Whether it is an output, the number of its edge (of an input: 0), and that of the channel."""


def in_flight_snapshot(items: Mapping[Place, Sequence[StreamItem]]) -> OperatorSnapshot:
    """The rows of all channels, as one table each."""
    tables = {}
    for place, queued in items.items():
        batches = [item for item in queued if isinstance(item, pa.RecordBatch)]
        if batches:
            schema = batches[0].schema
            alike = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
            tables[_name(place)] = pa.Table.from_batches(alike, schema=schema)
    return OperatorSnapshot(shared=tables)


def in_flight_items(
    items: Mapping[Place, Sequence[StreamItem]], saved: SavedOperator
) -> tuple[InFlightItems, ...]:
    """What is reported of the items, once their rows are written."""
    segments = {table.name: table.segments for table in saved.tables}
    kept = {
        place: tuple(
            i.num_rows if isinstance(i, pa.RecordBatch) else i
            for i in queued
            if not isinstance(i, LatencyMarker)
        )
        for place, queued in items.items()
    }
    return tuple(
        InFlightItems(*place, items=stored, segments=segments.get(_name(place), ()))
        for place, stored in kept.items()
        if stored
    )


def read_in_flight(stored: InFlightItems, reader: SegmentReader) -> Iterator[StreamItem]:
    """The items in their order. ExternalError SS6210 when the rows are not those that were written."""
    batches = [batch for segment in stored.segments for batch in reader.batches(segment)]
    rows = pa.Table.from_batches(batches) if batches else None
    start = 0
    for item in stored.items:
        if not isinstance(item, int):
            yield item
        elif rows is not None and item:
            yield _batch(rows.slice(start, item).to_batches())
            start += item


def arrived_batches(
    arriving: Iterable[ArrivingRows],
    exchange: Exchange,
    vertex: JobVertex,
    subtask: int,
    reader: SegmentReader,
) -> Iterator[pa.RecordBatch]:
    """The rows that an exchange brings to this subtask now, which were in flight to any of those that there were."""
    split = splitter(exchange, vertex.parallelism, subtask, vertex.max_parallelism)
    for each in arriving:
        if exchange.kind in (ExchangeKind.REBALANCE, ExchangeKind.RESCALE):
            if each.consumer % vertex.parallelism != subtask:
                continue
            yield from _whole_batches(each, reader)
            continue
        for batch in _whole_batches(each, reader):
            yield from (part for target, part, *_ in split.split(batch) if target == subtask)


def _whole_batches(arriving: ArrivingRows, reader: SegmentReader) -> Iterator[pa.RecordBatch]:
    items = InFlightItems(False, 0, 0, arriving.rows, arriving.segments)
    return (item for item in read_in_flight(items, reader) if isinstance(item, pa.RecordBatch))


def _batch(pieces: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    first, *rest = pieces
    return pa.concat_batches([first, *rest]) if rest else first


def _name(place: Place) -> str:
    is_output, edge, channel = place
    return f"{'output' if is_output else 'input'}-{edge}-{channel}"
