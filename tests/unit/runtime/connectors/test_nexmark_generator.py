"""The vectorised Nexmark generator against a row-at-a-time one, and against the public suite's figures."""

from __future__ import annotations

import collections
import datetime
import itertools
import math
import statistics
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators import nexmark_pools as pools
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_draws import STEP, Draw, below, draw, draw_key
from sqlstream.runtime.connectors.generators.nexmark_generator import (
    AUCTION_SCHEMA,
    BID_SCHEMA,
    EVENT_SCHEMA,
    PERSON_SCHEMA,
    NexmarkGenerator,
)

LOW_HALF = 0xFFFFFFFF
EPOCH = datetime.datetime(1970, 1, 1)


class Reference:
    """One event at a time, in plain Python."""

    def __init__(self, config: NexmarkConfig) -> None:
        self.config = config

    def bits(self, number: int, field: Draw) -> int:
        return draw(draw_key(self.config.seed, field), number)

    def uniform(self, number: int, field: Draw, low: int, high: int) -> int:
        """Both ends included."""
        return low + below(self.bits(number, field) >> 32, high - low + 1)

    def text(self, number: int, field: Draw, length: int) -> str:
        return letters(below(self.bits(number, field) & LOW_HALF, 65536), length)

    def filler(self, number: int, length_field: Draw, field: Draw, average: int, used: int) -> str:
        missing = max(average - used, 0)
        spread = math.floor(missing * 0.2 + 0.5)
        length = missing - spread + below(self.bits(number, length_field) >> 32, 2 * spread)
        return self.text(number, field, length)

    def number_at(self, position: int) -> int:
        group = self.config.out_of_order_group_size
        return position // group * group + position * 953 % group

    def time(self, number: int) -> int:
        return self.config.base_time_ms + number * 1000 // self.config.rate

    def reference(
        self, number: int, field: Draw, per_epoch: int, ratio: int, oldest_back: int, hot: int
    ) -> int:
        last = (number // self.config.epoch_size + 1) * per_epoch - 1
        bits = self.bits(number, field)
        if below(bits & LOW_HALF, ratio) > 0:
            return 1000 + last // 100 * 100 + hot
        oldest = max(last - oldest_back, 0)
        return 1000 + oldest + below(bits >> 32, last - oldest + 1 + 10)

    def person_reference(self, number: int, field: Draw, ratio: int, hot: int) -> int:
        config = self.config
        return self.reference(number, field, config.person_proportion, ratio, config.active_people - 1, hot)

    def price(self, number: int, field: Draw) -> int:
        bits = self.bits(number, field)
        digits = [bits & 1023, bits >> 10 & 1023, bits >> 20 & 1023]
        powers = [10.0 ** (6.0 * digit / 1024.0**place) for place, digit in enumerate(digits, 1)]
        return math.floor(powers[0] * 100.0 * powers[1] * powers[2] + 0.5)

    def person(self, n: int) -> dict[str, Any]:
        epoch, place = divmod(n, self.config.epoch_size)
        name = pools.NAMES[self.uniform(n, Draw.PERSON_NAME, 0, 98)]
        bits = self.bits(n, Draw.PERSON_EMAIL_LETTERS)
        user = letters(below(bits & LOW_HALF, 65536), self.uniform(n, Draw.PERSON_EMAIL_USER_LENGTH, 3, 7))
        domain = letters(below(bits >> 32, 65536), self.uniform(n, Draw.PERSON_EMAIL_DOMAIN_LENGTH, 3, 5))
        email = f"{user}@{domain}.com"
        card_bits = self.bits(n, Draw.PERSON_CREDIT_CARD)
        card = " ".join(f"{(card_bits >> 16 * i & 0xFFFF) * 10_000 >> 16:04d}" for i in range(4))
        city = pools.CITIES[self.uniform(n, Draw.PERSON_CITY, 0, 9)]
        state = pools.STATES[self.uniform(n, Draw.PERSON_STATE, 0, 5)]
        used = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        average = self.config.person_bytes
        return {
            "id": 1000 + epoch * self.config.person_proportion + place,
            "name": name,
            "emailAddress": email,
            "creditCard": card,
            "city": city,
            "state": state,
            "dateTime": self.time(n),
            "extra": self.filler(n, Draw.PERSON_EXTRA_LENGTH, Draw.PERSON_EXTRA, average, used),
        }

    def auction(self, n: int) -> dict[str, Any]:
        config = self.config
        epoch, place = divmod(n, config.epoch_size)
        name = self.text(n, Draw.AUCTION_ITEM_NAME, self.uniform(n, Draw.AUCTION_ITEM_NAME_LENGTH, 3, 20))
        length = self.uniform(n, Draw.AUCTION_DESCRIPTION_LENGTH, 3, 100)
        description = self.text(n, Draw.AUCTION_DESCRIPTION, length)
        initial = self.price(n, Draw.AUCTION_INITIAL_BID)
        ahead = config.in_flight_auctions * config.epoch_size // config.auction_proportion
        horizon = self.time(n + ahead) - self.time(n)
        used = 8 + len(name) + len(description) + 5 * 8
        return {
            "id": 1000 + epoch * config.auction_proportion + place - config.person_proportion,
            "itemName": name,
            "description": description,
            "initialBid": initial,
            "reserve": initial + self.price(n, Draw.AUCTION_RESERVE),
            "dateTime": self.time(n),
            "expires": self.time(n) + 1 + (self.bits(n, Draw.AUCTION_EXPIRES) >> 1) % max(2 * horizon, 1),
            "seller": self.person_reference(n, Draw.AUCTION_SELLER, config.hot_seller_ratio, 0),
            "category": self.uniform(n, Draw.AUCTION_CATEGORY, 10, 14),
            "extra": self.filler(
                n, Draw.AUCTION_EXTRA_LENGTH, Draw.AUCTION_EXTRA, config.auction_bytes, used
            ),
        }

    def bid(self, n: int) -> dict[str, Any]:
        config = self.config
        bits = self.bits(n, Draw.BID_CHANNEL)
        pick = below(bits >> 32, 4) if bits % 2 == 0 else 4 + below(bits >> 32, 10_000)
        return {
            "auction": self.reference(
                n,
                Draw.BID_AUCTION,
                config.auction_proportion,
                config.hot_auction_ratio,
                config.in_flight_auctions,
                0,
            ),
            "bidder": self.person_reference(n, Draw.BID_BIDDER, config.hot_bidder_ratio, 1),
            "price": self.price(n, Draw.BID_PRICE),
            "channel": (*pools.HOT_CHANNELS, *(f"channel-{i}" for i in range(10_000)))[pick],
            "url": pools.url_pool().dictionary[pick].as_py(),
            "dateTime": self.time(n),
            "extra": self.filler(n, Draw.BID_EXTRA_LENGTH, Draw.BID_EXTRA, config.bid_bytes, 32),
        }

    def events(self, start: int, stop: int) -> list[dict[str, Any]]:
        kinds = ["person", "auction", "bid"]
        rows = []
        for position in range(start, stop):
            number = self.number_at(position)
            place = number % self.config.epoch_size
            auctions = self.config.person_proportion
            kind = (place >= auctions) + (place >= auctions + self.config.auction_proportion)
            row: dict[str, Any] = {"event_type": kind, "person": None, "auction": None, "bid": None}
            row[kinds[kind]] = getattr(self, kinds[kind])(number)
            rows.append(row)
        return rows


def letters(start: int, length: int) -> str:
    key = draw_key(0, Draw.POOL_LETTER)
    return "".join(chr(97 + below(draw(key, i) >> 32, 26)) for i in range(start, start + length))


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with times as milliseconds."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, datetime.datetime):
            return (value - EPOCH) // datetime.timedelta(milliseconds=1)
        return value

    batch.validate(full=True)
    return [plain(row) for row in batch.to_pylist()]


small = st.integers(1, 12)
configs = st.builds(
    NexmarkConfig,
    seed=st.integers(0, 2**63 - 1),
    rate=st.one_of(st.integers(1, 100), st.sampled_from([10_000, 1_000_000, 10**12])),
    base_time_ms=st.sampled_from([-5_000, 0, 1_436_918_400_000]),
    person_proportion=small,
    auction_proportion=small,
    bid_proportion=small,
    hot_seller_ratio=small,
    hot_auction_ratio=small,
    hot_bidder_ratio=small,
    active_people=st.sampled_from([1, 2, 50, 1000]),
    in_flight_auctions=st.sampled_from([1, 7, 100]),
    person_bytes=st.sampled_from([1, 60, 200]),
    auction_bytes=st.sampled_from([1, 100, 500]),
    bid_bytes=st.sampled_from([1, 32, 33, 100, 300]),
    out_of_order_group_size=st.sampled_from([1, 2, 10, 64]),
)
starts = st.one_of(st.integers(0, 300), st.integers(0, 2_000_000_000))
lengths = st.integers(0, 60)


@settings(max_examples=60, deadline=None)
@given(config=configs, start=starts, length=lengths)
def test_every_column_equals_the_row_at_a_time_reference(
    config: NexmarkConfig, start: int, length: int
) -> None:
    generator = NexmarkGenerator(config)
    expected = Reference(config).events(start, start + length)
    assert rows_of(generator.events(start, start + length)) == expected
    assert rows_of(generator.persons(start, start + length)) == [r["person"] for r in expected if r["person"]]
    assert rows_of(generator.auctions(start, start + length)) == [
        r["auction"] for r in expected if r["auction"]
    ]
    assert rows_of(generator.bids(start, start + length)) == [r["bid"] for r in expected if r["bid"]]


@settings(max_examples=40, deadline=None)
@given(config=configs, cuts=st.lists(st.integers(0, 2_000), min_size=2, max_size=8))
def test_any_split_of_the_range_gives_the_same_rows(config: NexmarkConfig, cuts: list[int]) -> None:
    generator = NexmarkGenerator(config)
    cuts.sort()
    for make in (generator.persons, generator.auctions, generator.bids, generator.events):
        whole = pa.Table.from_batches([make(cuts[0], cuts[-1])])
        parts = pa.Table.from_batches([make(a, b) for a, b in itertools.pairwise(cuts)])
        assert parts.combine_chunks().equals(whole)


def test_schemas_are_those_declared() -> None:
    generator = NexmarkGenerator(NexmarkConfig())
    assert generator.persons(0, 100).schema == PERSON_SCHEMA
    assert generator.auctions(0, 100).schema == AUCTION_SCHEMA
    assert generator.bids(0, 100).schema == BID_SCHEMA
    assert generator.events(0, 100).schema == EVENT_SCHEMA


@pytest.mark.parametrize(
    "columns", [["price"], ["url"], ["extra", "auction"], ["dateTime", "channel", "bidder"]]
)
def test_a_column_does_not_depend_on_which_others_are_made(columns: list[str]) -> None:
    generator = NexmarkGenerator(NexmarkConfig(seed=3))
    assert generator.bids(17, 900, columns) == generator.bids(17, 900).select(columns)


def test_no_columns_still_count_rows() -> None:
    generator = NexmarkGenerator(NexmarkConfig())
    assert generator.bids(0, 100, []).num_rows == 92
    assert generator.events(0, 100, []).num_rows == 100


def test_parts_of_rows_come_without_the_rest() -> None:
    generator = NexmarkGenerator(NexmarkConfig())
    batch = generator.events(0, 60, ["bid.price", "event_type", "bid.auction", "person.id"])
    whole = generator.events(0, 60).to_pylist()
    expected = [
        {
            "bid": r["bid"] and {"price": r["bid"]["price"], "auction": r["bid"]["auction"]},
            "event_type": r["event_type"],
            "person": r["person"] and {"id": r["person"]["id"]},
        }
        for r in whole
    ]
    assert batch.to_pylist() == expected


def test_dictionaries_hold_the_same_strings() -> None:
    plain, encoded = (NexmarkGenerator(NexmarkConfig(), dictionary=d) for d in (False, True))
    assert encoded.bids(0, 500).schema.field("channel").type == pa.dictionary(pa.int32(), pa.string())
    assert encoded.bids(0, 500).to_pylist() == plain.bids(0, 500).to_pylist()
    assert encoded.persons(0, 500).to_pylist() == plain.persons(0, 500).to_pylist()
    assert encoded.events(0, 500).to_pylist() == plain.events(0, 500).to_pylist()


def test_fifty_events_hold_one_person_three_auctions_and_forty_six_bids() -> None:
    kinds = NexmarkGenerator(NexmarkConfig()).events(0, 100, ["event_type"]).column(0).to_pylist()
    assert kinds == ([0] + [1] * 3 + [2] * 46) * 2


def test_ids_are_dense_from_1000() -> None:
    generator = NexmarkGenerator(NexmarkConfig())
    assert generator.persons(0, 5000, ["id"]).column(0).to_pylist() == list(range(1000, 1100))
    assert generator.auctions(0, 5000, ["id"]).column(0).to_pylist() == list(range(1000, 1300))


def test_event_time_is_base_time_plus_number_over_rate() -> None:
    generator = NexmarkGenerator(NexmarkConfig(rate=500, base_time_ms=1_000_000))
    times = generator.bids(0, 10, ["dateTime"]).column(0).cast(pa.int64()).to_pylist()
    assert times == [1_000_008, 1_000_010, 1_000_012, 1_000_014, 1_000_016, 1_000_018]


def test_a_group_holds_each_of_its_numbers_once() -> None:
    shuffled = NexmarkGenerator(NexmarkConfig(out_of_order_group_size=100))
    ordered = NexmarkGenerator(NexmarkConfig())
    a, b = (g.bids(0, 1000).to_pylist() for g in (shuffled, ordered))
    assert a != b
    assert sorted(a, key=repr) == sorted(b, key=repr)


def test_a_shuffle_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(UserError, match="a multiple of 953"):
        NexmarkConfig(out_of_order_group_size=953 * 2)


def test_a_figure_out_of_bounds_is_refused() -> None:
    with pytest.raises(UserError, match=r'option "nexmark\.rate" must be at least 1, not 0'):
        NexmarkConfig(rate=0)


# The figures, over 500,000 events far enough from the start that a thousand people are active.
FAR = (5_000_000, 5_500_000)


@pytest.fixture(scope="module")
def bids() -> pa.RecordBatch:
    return NexmarkGenerator(NexmarkConfig(seed=42)).bids(*FAR)


@pytest.fixture(scope="module")
def bid_epochs() -> np.ndarray:
    numbers = np.arange(*FAR)
    return numbers[numbers % 50 >= 4] // 50


def test_half_the_bids_are_for_the_hot_auction(bids: pa.RecordBatch, bid_epochs: np.ndarray) -> None:
    last = 3 * bid_epochs + 2
    auctions = bids.column("auction").to_numpy() - 1000
    is_hot = auctions == last // 100 * 100
    assert is_hot.mean() == pytest.approx(0.5 + 0.5 / 111, abs=0.004)
    distance = (last - auctions)[~is_hot]
    assert (distance.min(), distance.max()) == (-10, 100)


def test_three_bids_in_four_are_the_hot_bidders(bids: pa.RecordBatch, bid_epochs: np.ndarray) -> None:
    bidders = bids.column("bidder").to_numpy() - 1000
    is_hot = bidders == bid_epochs // 100 * 100 + 1
    assert is_hot.mean() == pytest.approx(0.75, abs=0.003)
    distance = (bid_epochs - bidders)[~is_hot]
    assert (distance.min(), distance.max()) == (-10, 999)


def test_prices_are_uniform_in_their_logarithm(bids: pa.RecordBatch) -> None:
    prices = bids.column("price").to_numpy()
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    shares, _ = np.histogram(np.log10(prices / 100.0), bins=12, range=(0, 6.0001))
    assert shares / len(prices) == pytest.approx([1 / 12] * 12, abs=0.002)


def test_neighbouring_high_prices_all_occur() -> None:
    """Thirty bits of u leave no gaps: the last digit of prices over 10^7 is uniform."""
    prices = NexmarkGenerator(NexmarkConfig()).bids(0, 1_000_000, ["price"]).column(0).to_numpy()
    digits = np.bincount(prices[prices > 10_000_000] % 10, minlength=10)
    assert digits / digits.sum() == pytest.approx([0.1] * 10, abs=0.005)


def test_half_the_channels_are_the_four_hot_ones(bids: pa.RecordBatch) -> None:
    counts = collections.Counter(bids.column("channel").to_pylist())
    hot = [counts[name] / bids.num_rows for name in pools.HOT_CHANNELS]
    assert hot == pytest.approx([0.125] * 4, abs=0.003)
    assert len(counts) == 10_004


def test_a_channel_has_one_url_and_nine_in_ten_carry_an_id(bids: pa.RecordBatch) -> None:
    pairs = set(zip(bids.column("channel").to_pylist(), bids.column("url").to_pylist(), strict=True))
    assert len(pairs) == 10_004
    assert all(url.startswith("https://www.nexmark.com/") and url.count("/") == 6 for _, url in pairs)
    with_id = [channel for channel, url in pairs if "item.htm?query=1&channel_id=" in url]
    assert len(with_id) == pytest.approx(9000, abs=100)
    assert not set(with_id) & set(pools.HOT_CHANNELS)


def test_rows_have_their_average_sizes(bids: pa.RecordBatch) -> None:
    extras = [len(text) for text in bids.column("extra").to_pylist()]
    assert (min(extras), max(extras)) == (54, 81)
    assert statistics.fmean(extras) == pytest.approx(67.5, abs=0.1)
    generator = NexmarkGenerator(NexmarkConfig())
    for batch, fixed, average in (
        (generator.persons(*FAR), 8, 200),
        (generator.auctions(*FAR), 48, 500),
    ):
        strings = [c for c in batch.schema.names if pa.types.is_string(batch.schema.field(c).type)]
        sizes = sum(np.diff(np.frombuffer(batch.column(c).buffers()[1], dtype=np.int32)) for c in strings)
        assert (sizes + fixed).mean() == pytest.approx(average, abs=1)


def test_auctions_have_hot_sellers_five_categories_and_expire_in_time() -> None:
    config = NexmarkConfig(rate=10_000)
    auctions = NexmarkGenerator(config).auctions(*FAR)
    numbers = np.arange(*FAR)
    epochs = numbers[(numbers % 50 >= 1) & (numbers % 50 < 4)] // 50
    is_hot = auctions.column("seller").to_numpy() - 1000 == epochs // 100 * 100
    assert is_hot.mean() == pytest.approx(0.75, abs=0.01)
    assert collections.Counter(auctions.column("category").to_pylist()).keys() == {10, 11, 12, 13, 14}
    lengths = (
        auctions.column("expires").cast(pa.int64()).to_numpy()
        - auctions.column("dateTime").cast(pa.int64()).to_numpy()
    )
    # A hundred auctions appear in 1,666 events: 166 whole ms at this rate.
    assert (lengths.min(), lengths.max()) == (1, 332)
    assert lengths.mean() == pytest.approx(166.5, abs=2)


def test_letters_are_uniform() -> None:
    counts = np.bincount(pools.letter_pool(32))[97:]
    assert counts / counts.sum() == pytest.approx([1 / 26] * 26, abs=0.003)


def test_draws_are_those_of_splitmix64() -> None:
    # The first outputs of the published generator for seed 1234567.
    assert [draw(1_234_567, n) for n in (1, 2, 3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    assert STEP == 0x9E3779B97F4A7C15
