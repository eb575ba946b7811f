"""Connector `nexmark`: the auction site's event stream as a source of persons, auctions, bids, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream import types as sql
from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.generators.nexmark_config import (
    FIGURES,
    NexmarkConfig,
    NexmarkOptions,
    StreamOptions,
    SuiteOptions,
)
from sqlstream.runtime.connectors.generators.numbered_rows import NumberedRows, Split, paced_block_rows
from sqlstream.schema import Schema
from sqlstream.spi import connector
from sqlstream.spi.files import Files
from sqlstream.spi.one_sided import SourceOnlyConnector
from sqlstream.spi.table_options import descriptors_of
from sqlstream.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SourceSpec

_TIME = sql.timestamp(3)
_PERSON = Schema.of(
    ("id", sql.BIGINT),
    ("name", sql.STRING),
    ("emailAddress", sql.STRING),
    ("creditCard", sql.STRING),
    ("city", sql.STRING),
    ("state", sql.STRING),
    ("dateTime", _TIME),
    ("extra", sql.STRING),
)
_AUCTION = Schema.of(
    ("id", sql.BIGINT),
    ("itemName", sql.STRING),
    ("description", sql.STRING),
    ("initialBid", sql.BIGINT),
    ("reserve", sql.BIGINT),
    ("dateTime", _TIME),
    ("expires", _TIME),
    ("seller", sql.BIGINT),
    ("category", sql.BIGINT),
    ("extra", sql.STRING),
)
_BID = Schema.of(
    ("auction", sql.BIGINT),
    ("bidder", sql.BIGINT),
    ("price", sql.BIGINT),
    ("channel", sql.STRING),
    ("url", sql.STRING),
    ("dateTime", _TIME),
    ("extra", sql.STRING),
)


def _row_of(schema: Schema) -> LogicalType:
    return sql.row(*[(f.name, f.type) for f in schema.fields])


_SCHEMAS: dict[str, Schema] = {
    "person": _PERSON,
    "auction": _AUCTION,
    "bid": _BID,
    "events": Schema.of(
        ("event_type", sql.INT),
        ("person", _row_of(_PERSON)),
        ("auction", _row_of(_AUCTION)),
        ("bid", _row_of(_BID)),
    ),
}

_SPAN_BATCHES_MAX = 16
_BLOCKS_MIN = 4

_FIGURE_DESCRIPTIONS = {
    "nexmark.seed": "Seed of the random events.",
    "nexmark.rate": "Events in a second of event time and, for a paced table, of the clock.",
    "nexmark.base-time": "Event time of the first event, in UTC.",
    "nexmark.person.proportion": "Persons in each round of events.",
    "nexmark.auction.proportion": "Auctions in each round of events.",
    "nexmark.bid.proportion": "Bids in each round of events.",
    "nexmark.auction.hot-ratio.sellers": "All but one in this many auctions are a hot seller's.",
    "nexmark.bid.hot-ratio.auctions": "All but one in this many bids are for a hot auction.",
    "nexmark.bid.hot-ratio.bidders": "All but one in this many bids are a hot bidder's.",
    "nexmark.active-people": "How many of the last people bid and sell.",
    "nexmark.in-flight-auctions": "How many of the last auctions take bids.",
    "nexmark.person.avg-size": "Average bytes of a person.",
    "nexmark.auction.avg-size": "Average bytes of an auction.",
    "nexmark.bid.avg-size": "Average bytes of a bid.",
    "nexmark.out-of-order-group-size": "Events are shuffled within groups of this many; 1 keeps their order.",
}


def _figure_option(key: str) -> connector.OptionDescriptor:
    name, low, _ = FIGURES[key]
    if key == "nexmark.base-time":
        return connector.OptionDescriptor(
            key, connector.OptionType.STRING, _FIGURE_DESCRIPTIONS[key], "2015-07-15 00:00:00"
        )
    default = str(getattr(NexmarkConfig(), name))
    return connector.OptionDescriptor(
        key, connector.OptionType.LONG, _FIGURE_DESCRIPTIONS[key], default, minimum=low
    )


class Nexmark(SourceOnlyConnector):
    """A source without format: its columns are fixed, and a table declares any of them, in any order.

    All readers of all tables with an equal configuration share one stream of event numbers; each generates the events of
    its own table.
    """

    descriptor = connector.ConnectorDescriptor(
        identifier="nexmark",
        options=(
            *descriptors_of(StreamOptions),
            *map(_figure_option, FIGURES),
            *descriptors_of(SuiteOptions),
        ),
        reading=connector.Reading(
            boundedness=connector.Boundedness(
                False, unless_set="nexmark.events", unless_positive="events.num"
            ),
            schema_option="nexmark.table",
            schemas=_SCHEMAS,
        ),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Figures within their bounds, columns that exist. UserError SS4002, SS2003, SS2010."""
        kind = NexmarkOptions.parse(options).table
        known = {f.name: f.type for f in _SCHEMAS[kind].fields}
        for column in schema.fields:
            _check_column(table, kind, column.name, column.type, known)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        return NexmarkReader(spec, context, own_share(self, spec, context) if splits is None else splits)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        """A split is every n-th block for n readers, so that all readers advance together in event time."""
        options = NexmarkOptions.parse(spec.options)
        if options.is_paced:
            block_events = paced_block_rows(options.config.rate, context)
        else:
            block_events = _block_events(options, context)
        return FixedSplits(Split.all(context.parallelism, block_events), state)

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        options = NexmarkOptions.parse(spec.options)
        config = options.config
        return (options.event_count or 0) * max(config.person_bytes, config.auction_bytes, config.bid_bytes)


def _check_column(
    table: str, kind: str, name: str, declared: LogicalType, known: dict[str, LogicalType]
) -> None:
    actual = known.get(name)
    if actual is None:
        raise UserError(
            "SS2003",
            f'column "{name}" of table "{table}" does not exist in the nexmark table "{kind}"',
            hint=did_you_mean(name, list(known)) or f"its columns are {', '.join(known)}",
        )
    if declared.root is TypeRoot.ROW and actual.root is TypeRoot.ROW:
        parts = {f.name: f.type for f in actual.fields}
        for part in declared.fields:
            _check_column(table, f"{kind}.{name}", part.name, part.type, parts)
        return
    # As in Flink, a source's strings are not cut to a declared length.
    same = declared.root is actual.root and (actual.root is TypeRoot.VARCHAR or declared.same_as(actual))
    if not same:
        raise UserError(
            "SS2010",
            f'column "{name}" of table "{table}" is {declared}, but the nexmark table "{kind}" has {actual}',
            hint=f"declare it as {actual}",
        )


class NexmarkReader:
    """Generates one block per poll; a paced reader generates the events that are due. State: one position per split."""

    def __init__(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]]
    ) -> None:
        from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator

        options = NexmarkOptions.parse(spec.options)
        config = options.config
        self._table = options.table
        self._generator = NexmarkGenerator(config)
        self._columns = _generated_columns(spec)
        self._events = NumberedRows(
            context,
            splits,
            end=options.event_count,
            rate=config.rate if options.is_paced else None,
        )

    def poll(self) -> pa.RecordBatch | connector.SourceStatus:
        while True:
            events = self._events.take()
            if isinstance(events, connector.SourceStatus):
                return events
            batch = self._make(*events)
            # A block of a rare kind can be empty: generate on until there are rows.
            if batch.num_rows:
                return batch

    def next_poll_ms(self) -> int | None:
        return self._events.next_due_ms()

    def snapshot(self) -> list[dict[str, Any]]:
        return self._events.snapshot()

    def close(self) -> None:
        """Nothing to do: the reader holds no resources."""

    def _make(self, start: int, stop: int) -> pa.RecordBatch:
        match self._table:
            case "person":
                return self._generator.persons(start, stop, self._columns)
            case "auction":
                return self._generator.auctions(start, stop, self._columns)
            case "bid":
                return self._generator.bids(start, stop, self._columns)
        return self._generator.events(start, stop, self._columns)


def _block_events(options: NexmarkOptions, context: connector.EnumeratorContext) -> int:
    """How many events make about `batch_rows` rows of the table's kind, within bounds.

    Readers, and tables of one job, are up to a block apart in event time: hence a block spans at most `_SPAN_BATCHES_MAX`
    times `batch_rows` events. A stream that ends has at least `_BLOCKS_MIN` blocks for each reader.
    """
    config = options.config
    events = -(-context.batch_rows * config.epoch_size // config.rows_per_epoch(options.table))
    events = min(events, _SPAN_BATCHES_MAX * context.batch_rows)
    if options.event_count is not None:
        events = min(events, options.event_count // (_BLOCKS_MIN * context.parallelism))
    return max(events, context.batch_rows, min(config.epoch_size, 1 << 16))


def _generated_columns(spec: SourceSpec) -> list[str]:
    """The columns to generate: of a ROW column, only the fields that the table declares."""
    declared = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    wanted = []
    for column in spec.columns:
        fields = declared[column].fields
        wanted += [f"{column}.{field.name}" for field in fields] or [column]
    return wanted
