"""The Nexmark auction site as a pure function: event numbers in, batches of persons, auctions, bids out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.connectors.generators import nexmark_pools as pools
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_draws import Draw, draw_key
from sqlstream.runtime.kernels import nexmark as kernels
from sqlstream.runtime.kernels.buffers import view_buffer

FIRST_PERSON_ID = 1000
FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID = 10
CATEGORY_COUNT = 5

_TIME = pa.timestamp("ms")
PERSON_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "emailAddress": pa.string(),
        "creditCard": pa.string(),
        "city": pa.string(),
        "state": pa.string(),
        "dateTime": _TIME,
        "extra": pa.string(),
    }
)
AUCTION_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "itemName": pa.string(),
        "description": pa.string(),
        "initialBid": pa.int64(),
        "reserve": pa.int64(),
        "dateTime": _TIME,
        "expires": _TIME,
        "seller": pa.int64(),
        "category": pa.int64(),
        "extra": pa.string(),
    }
)
BID_SCHEMA = pa.schema(
    {
        "auction": pa.int64(),
        "bidder": pa.int64(),
        "price": pa.int64(),
        "channel": pa.string(),
        "url": pa.string(),
        "dateTime": _TIME,
        "extra": pa.string(),
    }
)
EVENT_SCHEMA = pa.schema(
    {
        "event_type": pa.int32(),
        "person": pa.struct(list(PERSON_SCHEMA)),
        "auction": pa.struct(list(AUCTION_SCHEMA)),
        "bid": pa.struct(list(BID_SCHEMA)),
    }
)

_NAME_LENGTHS = (3, 20)
_DESCRIPTION_LENGTHS = (3, 100)
_USER_LENGTHS = (3, 7)
_DOMAIN_LENGTHS = (3, 5)
_CREDIT_CARD_BYTES = 19
_STATE_BYTES = 2
# What the public suite counts for a row's numbers and times: eight bytes each.
_PERSON_FIXED_BYTES = 8
_AUCTION_FIXED_BYTES = 6 * 8
_BID_FIXED_BYTES = 4 * 8
_STRING_BYTES_MAX = 2**31 - 1


@dataclass
class _Events:
    """The events of a range, for which columns are generated one by one.

    `numbers` are event numbers and `epochs` their rounds, int64 each. `validity` marks the rows of the generated
    kind when the range has other kinds too. `picked` keeps values that two columns share (the index of channel and url,
    lengths that `extra` needs).
    """

    numbers: Any
    epochs: Any
    validity: pa.Buffer | None
    picked: dict[Draw, Any]


class _Spread:
    """Puts columns of a few rows at their positions among `count` rows; the others are NULL."""

    def __init__(self, validity: pa.Buffer, positions: Any, count: int) -> None:
        self._validity = validity
        self._positions = positions
        self._count = count
        # Row i starts where the first of the few rows at or after it starts: what lies between has no bytes.
        self._ranks = np.zeros(count + 1, dtype=np.int32)
        self._ranks[positions + 1] = 1
        np.cumsum(self._ranks, out=self._ranks)

    def column(self, column: pa.Array) -> pa.Array:
        """The column among all rows. The bytes of strings are shared, not copied."""
        if pa.types.is_dictionary(column.type):
            return pa.DictionaryArray.from_arrays(self.column(column.indices), column.dictionary)
        _, *buffers = column.buffers()
        if pa.types.is_string(column.type):
            offsets = view_buffer(buffers[0], np.int32, 0, len(column) + 1)[self._ranks]
            spread = [pa.py_buffer(offsets), buffers[1]]
        else:
            dtype = np.dtype(f"i{column.type.bit_width // 8}")
            values = np.zeros(self._count, dtype=dtype)
            values[self._positions] = view_buffer(buffers[0], dtype, 0, len(column))
            spread = [pa.py_buffer(values)]
        return pa.Array.from_buffers(column.type, self._count, [self._validity, *spread])


class NexmarkGenerator:
    """Generates the events of any range of positions, with the requested columns only.

    Positions are event numbers, but that within a group of `out_of_order_group_size` the numbers are
    shuffled. Equal configuration gives equal events, however the range is cut. With `dictionary`, columns
    that pick from a pool (channel, url, name, city, state) are dictionary<int32, string>: the whole pool
    comes with every batch, shared and not copied. Keeps no state between calls.
    """

    def __init__(self, config: NexmarkConfig, *, dictionary: bool = False) -> None:
        self.config = config
        self._dictionary = dictionary
        self._columns: dict[str, dict[str, Callable[[_Events], pa.Array]]] = {
            "person": {
                "id": lambda events: self._ids(events, 0, config.person_proportion, FIRST_PERSON_ID),
                "name": self._person_name,
                "emailAddress": self._person_email_address,
                "creditCard": self._person_credit_card,
                "city": self._person_city,
                "state": self._person_state,
                "dateTime": self._date_time,
                "extra": self._person_extra,
            },
            "auction": {
                "id": self._auction_id,
                "itemName": self._auction_item_name,
                "description": self._auction_description,
                "initialBid": self._auction_initial_bid,
                "reserve": self._auction_reserve,
                "dateTime": self._date_time,
                "expires": self._auction_expires,
                "seller": self._auction_seller,
                "category": self._auction_category,
                "extra": self._auction_extra,
            },
            "bid": {
                "auction": self._bid_auction,
                "bidder": self._bid_bidder,
                "price": self._bid_price,
                "channel": self._bid_channel,
                "url": self._bid_url,
                "dateTime": self._date_time,
                "extra": self._bid_extra,
            },
        }

    def persons(
        self, start: int, stop: int, columns: Sequence[str] = tuple(PERSON_SCHEMA.names)
    ) -> pa.RecordBatch:
        """The persons at positions [start, stop)."""
        return self._table("person", start, stop, columns)

    def auctions(
        self, start: int, stop: int, columns: Sequence[str] = tuple(AUCTION_SCHEMA.names)
    ) -> pa.RecordBatch:
        """The auctions at positions [start, stop)."""
        return self._table("auction", start, stop, columns)

    def bids(self, start: int, stop: int, columns: Sequence[str] = tuple(BID_SCHEMA.names)) -> pa.RecordBatch:
        """The bids at positions [start, stop)."""
        return self._table("bid", start, stop, columns)

    def events(
        self, start: int, stop: int, columns: Sequence[str] = tuple(EVENT_SCHEMA.names)
    ) -> pa.RecordBatch:
        """All events at positions [start, stop), one row per event, as the public suite's combined table.

        A column is `event_type` (0 person, 1 auction, 2 bid), a whole row (`bid`) or parts of it
        (`bid.price`); parts of one row come as one ROW column, at the place of the first.
        """
        total = self.config.epoch_size
        every = self._select(start, stop, 0, total)
        places = every.numbers - every.epochs * total
        wanted: dict[str, list[str]] = {}
        for column in columns:
            kind, _, part = column.partition(".")
            wanted.setdefault(kind, []).extend([part] if part else self._columns.get(kind, ()))
        arrays = [
            pa.array(self._event_types(places))
            if kind == "event_type"
            else self._rows(kind, parts, every, places)
            for kind, parts in wanted.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(wanted)) if arrays else _no_columns(len(places))

    # -- which events ----------------------------------------------------------------------------------------

    def _places(self, kind: str) -> tuple[int, int]:
        """Where in an epoch the events of a kind are."""
        config = self.config
        auctions = config.person_proportion
        bids = auctions + config.auction_proportion
        return {"person": (0, auctions), "auction": (auctions, bids), "bid": (bids, config.epoch_size)}[kind]

    def _select(self, start: int, stop: int, low: int, high: int) -> _Events:
        total, group = self.config.epoch_size, self.config.out_of_order_group_size
        if group == 1:
            count = _rank(stop, total, low, high) - _rank(start, total, low, high)
            numbers, epochs = _int64s(count), _int64s(count)
            kernels.select_events_in_order(start, stop, total, low, high, numbers, epochs)
        else:
            numbers, epochs = _int64s(stop - start), _int64s(stop - start)
            count = kernels.select_events(start, stop, total, low, high, group, numbers, epochs)
        return _Events(numbers[:count], epochs[:count], None, {})

    def _table(self, kind: str, start: int, stop: int, columns: Sequence[str]) -> pa.RecordBatch:
        events = self._select(start, max(start, stop), *self._places(kind))
        if not columns:
            return _no_columns(len(events.numbers))
        makers = self._columns[kind]
        return pa.RecordBatch.from_arrays([makers[c](events) for c in columns], names=list(columns))

    def _event_types(self, places: Any) -> Any:
        auctions, bids = self._places("auction")
        return (places >= auctions).astype(np.int32) + (places >= bids)

    def _rows(self, kind: str, parts: list[str], every: _Events, places: Any) -> pa.Array:
        """One kind as a ROW column over all events, NULL where the event is of another kind."""
        low, high = self._places(kind)
        is_kind = (places >= low) & (places < high)
        validity = pa.py_buffer(np.packbits(is_kind, bitorder="little"))
        makers = self._columns[kind]
        if kind == "bid":
            # Nearly every event is a bid: making all rows and hiding some is cheaper than spreading the right
            # ones.
            events = _Events(every.numbers, every.epochs, validity, {})
            children = [makers[part](events) for part in parts]
        else:
            events = _Events(every.numbers[is_kind], every.epochs[is_kind], None, {})
            spread = _Spread(validity, np.flatnonzero(is_kind), len(places))
            children = [spread.column(makers[part](events)) for part in parts]
        row_type = pa.struct([pa.field(p, c.type) for p, c in zip(parts, children, strict=True)])
        return pa.Array.from_buffers(row_type, len(places), [validity], children=children)

    # -- columns of all kinds --------------------------------------------------------------------------------

    def _key(self, field: Draw) -> Any:
        return np.uint64(draw_key(self.config.seed, field))

    def _ids(self, events: _Events, low: int, per_epoch: int, first: int) -> pa.Array:
        """Ids are dense: an epoch holds `per_epoch` of the kind, from place `low` on."""
        shift = first - low
        return _numbers(events, events.numbers - events.epochs * (self.config.epoch_size - per_epoch) + shift)

    def _date_time(self, events: _Events) -> pa.Array:
        out = _int64s(len(events.numbers))
        kernels.event_times(events.numbers, self.config.base_time_ms, self.config.rate, out)
        return _numbers(events, out, _TIME)

    def _prices(self, events: _Events, field: Draw) -> Any:
        out = _int64s(len(events.numbers))
        kernels.prices(events.numbers, self._key(field), pools.price_powers(kernels.PRICE_DIGIT_BITS), out)
        return out

    def _people(self, events: _Events, field: Draw, hot_ratio: int, hot: int) -> pa.Array:
        """References to persons: `hot` after the start of the hot block, or an active person."""
        out, config = _int64s(len(events.numbers)), self.config
        kernels.references(
            events.numbers,
            events.epochs,
            self._key(field),
            config.person_proportion,
            hot_ratio,
            config.active_people - 1,
            FIRST_PERSON_ID,
            hot,
            out,
        )
        return _numbers(events, out)

    def _uniform(self, events: _Events, field: Draw, first: int, bound: int) -> Any:
        """Numbers in [first, first + bound), int32."""
        if field not in events.picked:
            out = np.empty(len(events.numbers), dtype=np.int32)
            kernels.uniform(events.numbers, self._key(field), first, bound, out)
            events.picked[field] = out
        return events.picked[field]

    def _between(self, events: _Events, field: Draw, bounds: tuple[int, int]) -> Any:
        """Lengths, both bounds included."""
        return self._uniform(events, field, bounds[0], bounds[1] - bounds[0] + 1)

    def _text(self, events: _Events, field: Draw, lengths: Any, longest: int) -> pa.Array:
        """Random letters of the given lengths, none over `longest`."""
        if longest * len(lengths) > _STRING_BYTES_MAX:
            raise InternalError(
                f"a range of {len(lengths)} nexmark events is too long for one batch of strings"
            )
        width = -(-longest // 32) * 32
        offsets_buffer, offsets = _offsets(len(lengths))
        kernels.offsets_of_lengths(lengths, offsets)
        data_buffer, data = _bytes(int(offsets[-1]), width)
        letters = pools.letter_pool(width)
        kernels.copy_text(
            events.numbers, self._key(field), letters, pools.LETTER_STARTS, offsets, width, data
        )
        return _strings(events, offsets_buffer, data_buffer)

    def _pooled(self, events: _Events, picks: Any, pool: pools.StringPool) -> pa.Array:
        """Strings of a pool."""
        if self._dictionary:
            indices = pa.Array.from_buffers(pa.int32(), len(picks), [events.validity, pa.py_buffer(picks)])
            return pa.DictionaryArray.from_arrays(indices, pool.dictionary)
        offsets_buffer, offsets = _offsets(len(picks))
        kernels.offsets_of_picks(picks, pool.lengths, offsets)
        data_buffer, data = _bytes(int(offsets[-1]), pool.width)
        kernels.copy_picks(picks, pool.data, pool.width, offsets, data)
        return _strings(events, offsets_buffer, data_buffer)

    def _filled(
        self, events: _Events, length_field: Draw, field: Draw, average: int, fixed: int, used: Any
    ) -> pa.Array:
        """`extra`: letters that bring a row of `fixed` + `used` bytes to about its average size."""
        lengths = np.empty(len(events.numbers), dtype=np.int32)
        kernels.filler_lengths(
            events.numbers, self._key(length_field), average, used + np.int32(fixed), lengths
        )
        return self._text(events, field, lengths, _longest_filler(average - fixed))

    # -- persons ---------------------------------------------------------------------------------------------

    def _person_name(self, events: _Events) -> pa.Array:
        return self._pooled(events, self._names(events), pools.name_pool())

    def _person_city(self, events: _Events) -> pa.Array:
        return self._pooled(events, self._cities(events), pools.city_pool())

    def _person_state(self, events: _Events) -> pa.Array:
        picks = self._uniform(events, Draw.PERSON_STATE, 0, len(pools.STATES))
        return self._pooled(events, picks, pools.state_pool())

    def _names(self, events: _Events) -> Any:
        return self._uniform(events, Draw.PERSON_NAME, 0, len(pools.NAMES))

    def _cities(self, events: _Events) -> Any:
        return self._uniform(events, Draw.PERSON_CITY, 0, len(pools.CITIES))

    def _email_lengths(self, events: _Events) -> tuple[Any, Any]:
        """Letters before the at sign, and bytes of the whole address."""
        users = self._between(events, Draw.PERSON_EMAIL_USER_LENGTH, _USER_LENGTHS)
        domains = self._between(events, Draw.PERSON_EMAIL_DOMAIN_LENGTH, _DOMAIN_LENGTHS)
        return users, users + domains + np.int32(len("@.com"))

    def _person_email_address(self, events: _Events) -> pa.Array:
        users, lengths = self._email_lengths(events)
        offsets_buffer, offsets = _offsets(len(lengths))
        kernels.offsets_of_lengths(lengths, offsets)
        data_buffer, data = _bytes(int(offsets[-1]), 0)
        key = self._key(Draw.PERSON_EMAIL_LETTERS)
        letters = pools.letter_pool(32)
        kernels.email_addresses(events.numbers, key, letters, pools.LETTER_STARTS, users, offsets, data)
        return _strings(events, offsets_buffer, data_buffer)

    def _person_credit_card(self, events: _Events) -> pa.Array:
        count = len(events.numbers)
        data_buffer, data = _bytes(count * _CREDIT_CARD_BYTES, 0)
        kernels.credit_cards(events.numbers, self._key(Draw.PERSON_CREDIT_CARD), _CREDIT_CARD_BYTES, data)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_CREDIT_CARD_BYTES)
        return _strings(events, pa.py_buffer(offsets), data_buffer)

    def _person_extra(self, events: _Events) -> pa.Array:
        _, emails = self._email_lengths(events)
        names = pools.name_pool().lengths[self._names(events)]
        cities = pools.city_pool().lengths[self._cities(events)]
        fixed = _PERSON_FIXED_BYTES + _CREDIT_CARD_BYTES + _STATE_BYTES
        average = self.config.person_bytes
        used = names + emails + cities
        return self._filled(events, Draw.PERSON_EXTRA_LENGTH, Draw.PERSON_EXTRA, average, fixed, used)

    # -- auctions --------------------------------------------------------------------------------------------

    def _auction_id(self, events: _Events) -> pa.Array:
        return self._ids(events, self._places("auction")[0], self.config.auction_proportion, FIRST_AUCTION_ID)

    def _item_name_lengths(self, events: _Events) -> Any:
        return self._between(events, Draw.AUCTION_ITEM_NAME_LENGTH, _NAME_LENGTHS)

    def _description_lengths(self, events: _Events) -> Any:
        return self._between(events, Draw.AUCTION_DESCRIPTION_LENGTH, _DESCRIPTION_LENGTHS)

    def _auction_item_name(self, events: _Events) -> pa.Array:
        return self._text(events, Draw.AUCTION_ITEM_NAME, self._item_name_lengths(events), _NAME_LENGTHS[1])

    def _auction_description(self, events: _Events) -> pa.Array:
        lengths = self._description_lengths(events)
        return self._text(events, Draw.AUCTION_DESCRIPTION, lengths, _DESCRIPTION_LENGTHS[1])

    def _auction_initial_bid(self, events: _Events) -> pa.Array:
        return _numbers(events, self._prices(events, Draw.AUCTION_INITIAL_BID))

    def _auction_reserve(self, events: _Events) -> pa.Array:
        initial = self._prices(events, Draw.AUCTION_INITIAL_BID)
        return _numbers(events, initial + self._prices(events, Draw.AUCTION_RESERVE))

    def _auction_expires(self, events: _Events) -> pa.Array:
        config = self.config
        times, lengths = _int64s(len(events.numbers)), _int64s(len(events.numbers))
        numbers_ahead = config.in_flight_auctions * config.epoch_size // config.auction_proportion
        kernels.event_times(events.numbers, config.base_time_ms, config.rate, times)
        key = self._key(Draw.AUCTION_EXPIRES)
        kernels.auction_lengths(events.numbers, key, config.rate, numbers_ahead, lengths)
        return _numbers(events, times + lengths, _TIME)

    def _auction_seller(self, events: _Events) -> pa.Array:
        return self._people(events, Draw.AUCTION_SELLER, self.config.hot_seller_ratio, 0)

    def _auction_category(self, events: _Events) -> pa.Array:
        categories = self._uniform(events, Draw.AUCTION_CATEGORY, FIRST_CATEGORY_ID, CATEGORY_COUNT)
        return _numbers(events, categories.astype(np.int64))

    def _auction_extra(self, events: _Events) -> pa.Array:
        used = self._item_name_lengths(events) + self._description_lengths(events)
        average = self.config.auction_bytes
        return self._filled(
            events, Draw.AUCTION_EXTRA_LENGTH, Draw.AUCTION_EXTRA, average, _AUCTION_FIXED_BYTES, used
        )

    # -- bids ------------------------------------------------------------------------------------------------

    def _bid_auction(self, events: _Events) -> pa.Array:
        out, config = _int64s(len(events.numbers)), self.config
        kernels.references(
            events.numbers,
            events.epochs,
            self._key(Draw.BID_AUCTION),
            config.auction_proportion,
            config.hot_auction_ratio,
            config.in_flight_auctions,
            FIRST_AUCTION_ID,
            0,
            out,
        )
        return _numbers(events, out)

    def _bid_bidder(self, events: _Events) -> pa.Array:
        return self._people(events, Draw.BID_BIDDER, self.config.hot_bidder_ratio, 1)

    def _bid_price(self, events: _Events) -> pa.Array:
        return _numbers(events, self._prices(events, Draw.BID_PRICE))

    def _channels(self, events: _Events) -> Any:
        if Draw.BID_CHANNEL not in events.picked:
            picks = np.empty(len(events.numbers), dtype=np.int32)
            hot, cold = len(pools.HOT_CHANNELS), pools.COLD_CHANNEL_COUNT
            kernels.channel_picks(events.numbers, self._key(Draw.BID_CHANNEL), hot, cold, picks)
            events.picked[Draw.BID_CHANNEL] = picks
        return events.picked[Draw.BID_CHANNEL]

    def _bid_channel(self, events: _Events) -> pa.Array:
        return self._pooled(events, self._channels(events), pools.channel_pool())

    def _bid_url(self, events: _Events) -> pa.Array:
        return self._pooled(events, self._channels(events), pools.url_pool())

    def _bid_extra(self, events: _Events) -> pa.Array:
        missing = max(self.config.bid_bytes - _BID_FIXED_BYTES, 0)
        spread = (2 * missing + 5) // 10
        lengths = self._uniform(events, Draw.BID_EXTRA_LENGTH, missing - spread, max(2 * spread, 1))
        return self._text(events, Draw.BID_EXTRA, lengths, _longest_filler(missing))


def _rank(number: int, total: int, low: int, high: int) -> int:
    """How many events before `number` have their place in [low, high) of their epoch."""
    epoch, place = divmod(number, total)
    return epoch * (high - low) + min(max(place - low, 0), high - low)


def _longest_filler(missing: int) -> int:
    """A bound on the length of `extra` when `missing` bytes are missing on average: 20 % more."""
    return max(missing + (2 * missing + 5) // 10, 0)


# Arrow's allocator keeps freed pages for the next batch; numpy's would return them to the system and fault
# them in again.


def _int64s(count: int) -> Any:
    return view_buffer(pa.allocate_buffer(count * 8), np.int64, 0, count)


def _offsets(count: int) -> tuple[pa.Buffer, Any]:
    buffer = pa.allocate_buffer((count + 1) * 4)
    return buffer, view_buffer(buffer, np.int32, 0, count + 1)


def _bytes(size: int, slack: int) -> tuple[pa.Buffer, Any]:
    """A buffer of `size` bytes, and a view with `slack` more that block copies may spill into."""
    buffer = pa.allocate_buffer(size + slack)
    return buffer.slice(0, size), view_buffer(buffer, np.uint8, 0, size + slack)


def _strings(events: _Events, offsets: pa.Buffer, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(events.numbers), [events.validity, offsets, data])


def _numbers(events: _Events, values: Any, array_type: pa.DataType = pa.int64()) -> pa.Array:  # noqa: B008
    return pa.Array.from_buffers(array_type, len(values), [events.validity, pa.py_buffer(values)])


def _no_columns(count: int) -> pa.RecordBatch:
    """Rows without columns: what COUNT(*) reads."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
