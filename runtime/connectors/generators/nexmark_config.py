"""The configuration of a Nexmark stream, which determines every event, and how a table reads the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlstream.config_option import hint_of_bounds
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators.nexmark_draws import SHUFFLE_FACTOR
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import option, parse_options

TABLES = ("person", "auction", "bid", "events")
DEFAULT_TABLE = "events"

ROW_BYTES_MAX = 10_000
RATIO_MAX = 1_000_000
RATE_MAX = 1_000_000_000_000
ACTIVE_MAX = 1_000_000_000


@dataclass(frozen=True)
class NexmarkConfig:
    """The figures of one stream; the defaults are the public suite's.

    Two generators of equal configuration make equal events. `rate` is in events per second of event time,
    the `*_bytes` are average row sizes, and a hot ratio of r gives the hot choice a probability of 1 - 1/r.
    """

    seed: int = 0
    rate: int = 10_000
    base_time_ms: int = 1_436_918_400_000
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    hot_seller_ratio: int = 4
    hot_auction_ratio: int = 2
    hot_bidder_ratio: int = 4
    active_people: int = 1000
    in_flight_auctions: int = 100
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100
    out_of_order_group_size: int = 1

    def __post_init__(self) -> None:
        for key, (name, low, high) in FIGURES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                bound = f"at least {low}" if value < low else f"at most {high}"
                raise UserError(
                    "SS4002",
                    f'option "{key}" must be {bound}, not {value}',
                    option=key,
                    hint=hint_of_bounds(low, high),
                )
        group = self.out_of_order_group_size
        if group > 1 and group % SHUFFLE_FACTOR == 0:
            raise UserError(
                "SS4002",
                f'option "nexmark.out-of-order-group-size" cannot be {group}, a multiple of {SHUFFLE_FACTOR}',
                option="nexmark.out-of-order-group-size",
                hint=f"choose a size that {SHUFFLE_FACTOR}, the step of the shuffle, does not divide",
            )

    @property
    def epoch_size(self) -> int:
        """How many consecutive event numbers hold one round of persons, auctions and bids."""
        return self.person_proportion + self.auction_proportion + self.bid_proportion

    def rows_per_epoch(self, table: str) -> int:
        """How many rows each round of events gives a table: its kind's, or all."""
        kinds = {
            "person": self.person_proportion,
            "auction": self.auction_proportion,
            "bid": self.bid_proportion,
        }
        return kinds.get(table, self.epoch_size)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The options of a table, but for the figures of its stream."""

    table: str = option(
        "nexmark.table",
        OptionType.ENUM,
        "Which events the table has: one kind, or all of them with one ROW column per kind.",
        DEFAULT_TABLE,
        choices=TABLES,
    )
    event_count: int | None = option(
        "nexmark.events",
        OptionType.LONG,
        "How many events, of all kinds together, the stream has; without it the stream has no end.",
        minimum=0,
    )
    is_paced: bool | None = option(
        "nexmark.paced",
        OptionType.BOOLEAN,
        "Whether events come at their rate by the clock; by default a stream with an end does not wait.",
    )


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """The options of the public suite's connector for Flink, so that its DDL runs as it is. They stand for those of ours."""

    first_event_rate: int | None = option(
        "first-event.rate", OptionType.LONG, "nexmark.rate, as the public suite calls it.", minimum=1
    )
    next_event_rate: int | None = option(
        "next-event.rate", OptionType.LONG, "The same; a stream has one rate.", minimum=1
    )
    rate_shape: str | None = option(
        "rate.shape",
        OptionType.ENUM,
        "How the rate would change: it has no effect on one rate.",
        choices=("SQUARE", "SINE"),
    )
    rate_period_ms: int | None = option(
        "rate.period", OptionType.DURATION, "How often it would: it has no effect on one rate."
    )
    is_rate_limited: bool | None = option(
        "rate.limited", OptionType.BOOLEAN, "nexmark.paced, as the public suite calls it."
    )
    event_count: int | None = option(
        "events.num",
        OptionType.LONG,
        "nexmark.events, as the public suite calls it, where 0 is a stream without end.",
        minimum=0,
    )
    person_bytes: int | None = option("person.avg-size", OptionType.MEMORY_SIZE, "nexmark.person.avg-size.")
    auction_bytes: int | None = option(
        "auction.avg-size", OptionType.MEMORY_SIZE, "nexmark.auction.avg-size."
    )
    bid_bytes: int | None = option("bid.avg-size", OptionType.MEMORY_SIZE, "nexmark.bid.avg-size.")
    person_proportion: int | None = option("person.proportion", OptionType.LONG, "nexmark.person.proportion.")
    auction_proportion: int | None = option(
        "auction.proportion", OptionType.LONG, "nexmark.auction.proportion."
    )
    bid_proportion: int | None = option("bid.proportion", OptionType.LONG, "nexmark.bid.proportion.")
    hot_seller_ratio: int | None = option(
        "auction.hot-ratio.sellers", OptionType.LONG, "nexmark.auction.hot-ratio.sellers."
    )
    hot_auction_ratio: int | None = option(
        "bid.hot-ratio.auctions", OptionType.LONG, "nexmark.bid.hot-ratio.auctions."
    )
    hot_bidder_ratio: int | None = option(
        "bid.hot-ratio.bidders", OptionType.LONG, "nexmark.bid.hot-ratio.bidders."
    )
    keep_alive: str | None = option(
        "keep-alive", OptionType.ENUM, "Whether a table stays when its events have come.", choices=("false",)
    )
    stop_at: str | None = option(
        "stop-at", OptionType.ENUM, "The event at which a table would stop.", choices=("-1",)
    )
    is_at_full_speed: bool | None = option(
        "max-emit-speed", OptionType.BOOLEAN, "It has no effect: nexmark.paced says it."
    )

    def figures(self) -> dict[str, int]:
        """The fields of NexmarkConfig that are given. UserError SS4002 for two rates."""
        rates = {rate for rate in (self.first_event_rate, self.next_event_rate) if rate is not None}
        if len(rates) > 1:
            raise UserError(
                "SS4002",
                f"a stream has one rate, and not {self.first_event_rate} and then {self.next_event_rate} events in a second",
                option="next-event.rate",
                hint="give 'first-event.rate' and 'next-event.rate' one value",
            )
        names = {name for name, *_ in FIGURES.values()}
        given = {name: value for name, value in vars(self).items() if name in names and value is not None}
        return given | ({"rate": rates.pop()} if rates else {})


@dataclass(frozen=True)
class NexmarkOptions:
    """A table's WITH clause: which events it has (`event_count` None: no end), if the clock paces them."""

    table: str
    event_count: int | None
    is_paced: bool
    config: NexmarkConfig

    @staticmethod
    def parse(options: Mapping[str, str]) -> NexmarkOptions:
        """UserError SS4002 for a figure out of its bounds."""
        given, suite = parse_options(StreamOptions, options), parse_options(SuiteOptions, options)
        figures = {name: _figure(key, options[key]) for key, (name, *_) in FIGURES.items() if key in options}
        event_count = suite.event_count or None if given.event_count is None else given.event_count
        is_paced = suite.is_rate_limited if given.is_paced is None else given.is_paced
        return NexmarkOptions(
            table=given.table,
            event_count=event_count,
            # An unpaced stream without end would only fill memory.
            is_paced=event_count is None if is_paced is None else is_paced,
            config=NexmarkConfig(**(suite.figures() | figures)),
        )


def _figure(key: str, text: str) -> int:
    if key != "nexmark.base-time":
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UserError(
            "SS4002",
            f'option "{key}" takes a timestamp, not "{text}"',
            option=key,
            hint="write a date and a time such as '2015-07-15 00:00:00', in UTC",
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


# Option key → field, smallest and largest value.
FIGURES: dict[str, tuple[str, int, int]] = {
    "nexmark.seed": ("seed", 0, 2**63 - 1),
    "nexmark.rate": ("rate", 1, RATE_MAX),
    "nexmark.base-time": ("base_time_ms", -(2**53), 2**53),
    "nexmark.person.proportion": ("person_proportion", 1, RATIO_MAX),
    "nexmark.auction.proportion": ("auction_proportion", 1, RATIO_MAX),
    "nexmark.bid.proportion": ("bid_proportion", 1, RATIO_MAX),
    "nexmark.auction.hot-ratio.sellers": ("hot_seller_ratio", 1, RATIO_MAX),
    "nexmark.bid.hot-ratio.auctions": ("hot_auction_ratio", 1, RATIO_MAX),
    "nexmark.bid.hot-ratio.bidders": ("hot_bidder_ratio", 1, RATIO_MAX),
    "nexmark.active-people": ("active_people", 1, ACTIVE_MAX),
    "nexmark.in-flight-auctions": ("in_flight_auctions", 1, ACTIVE_MAX),
    "nexmark.person.avg-size": ("person_bytes", 1, ROW_BYTES_MAX),
    "nexmark.auction.avg-size": ("auction_bytes", 1, ROW_BYTES_MAX),
    "nexmark.bid.avg-size": ("bid_bytes", 1, ROW_BYTES_MAX),
    "nexmark.out-of-order-group-size": ("out_of_order_group_size", 1, 1_000_000_000),
}
