"""What each Nexmark query must answer over a finished stream: the same question as DuckDB SQL.

Tables: `person`, `auction` and `bid`, in event order, each with one more column `number`, the event's
number. It decides between equals where a streaming query keeps what it saw first or last. What it sees
first is well defined when one reader reads the stream; for q18 also at a rate of at most 1000, when no two
events share their time; for q19, where bids of one price may change places, compare `COMPARED_COLUMNS`.
Result columns are those of the sinks in queries/nexmark, in their order; the rows have no order.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from runtime.connectors.nexmark_config import NexmarkConfig
from runtime.connectors.nexmark_generator import NexmarkGenerator

_TUMBLE = "(epoch_ms({column}) // 10000) * 10000"
_HOP_COUNTS = """
    SELECT auction, start_ms, count(*) AS num
    FROM (
        SELECT auction, (epoch_ms("dateTime") // 2000 - step) * 2000 AS start_ms
        FROM bid, range(5) AS steps(step))
    GROUP BY auction, start_ms
"""

BATCH_SQL: dict[str, str] = {
    "q0": 'SELECT auction, bidder, price, "dateTime", extra FROM bid',
    "q1": """
        SELECT auction, bidder, CAST(0.908 * CAST(price AS DECIMAL(19, 0)) AS DECIMAL(23, 3)) AS price,
            "dateTime", extra
        FROM bid
    """,
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT person.name, person.city, person.state, auction.id
        FROM auction JOIN person ON auction.seller = person.id
        WHERE auction.category = 10 AND person.state IN ('OR', 'ID', 'CA')
    """,
    "q5": f"""
        WITH counts AS ({_HOP_COUNTS})
        SELECT auction, num
        FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY start_ms)
    """,
    # A bid at the very end of a window counts as one of it too: BETWEEN has both its ends.
    "q7": f"""
        WITH highest AS (
            SELECT max(price) AS price, {_TUMBLE.format(column='"dateTime"')} AS start_ms
            FROM bid GROUP BY start_ms)
        SELECT bid.auction, bid.price, bid.bidder, bid."dateTime", bid.extra
        FROM bid JOIN highest ON bid.price = highest.price
        WHERE epoch_ms(bid."dateTime") BETWEEN highest.start_ms AND highest.start_ms + 10000
    """,
    "q8": f"""
        SELECT DISTINCT person.id, person.name,
            CAST(make_timestamp_ms({_TUMBLE.format(column='person."dateTime"')}) AS TIMESTAMP_MS) AS stime
        FROM person JOIN auction ON person.id = auction.seller
            AND {_TUMBLE.format(column='person."dateTime"')} = {_TUMBLE.format(column='auction."dateTime"')}
    """,
    # Flink merges sessions that touch: only more than ten quiet seconds part them.
    "q11": """
        WITH marked AS (
            SELECT bidder, epoch_ms("dateTime") AS at_ms,
                coalesce(at_ms - lag(at_ms) OVER (PARTITION BY bidder ORDER BY at_ms) > 10000, TRUE)
                    AS is_first
            FROM bid),
        numbered AS (
            SELECT bidder, at_ms,
                sum(CAST(is_first AS INTEGER)) OVER (PARTITION BY bidder ORDER BY at_ms) AS session
            FROM marked)
        SELECT bidder, count(*) AS bid_count,
            CAST(make_timestamp_ms(min(at_ms)) AS TIMESTAMP_MS) AS starttime,
            CAST(make_timestamp_ms(max(at_ms) + 10000) AS TIMESTAMP_MS) AS endtime
        FROM numbered
        GROUP BY bidder, session
    """,
    # Windows of processing time differ from run to run; what they hold together does not. Compare sums of
    # bid_count.
    "q12": "SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
    # What queries/nexmark/side_input.csv has for each key.
    "q13": """
        SELECT auction, bidder, price, "dateTime", 'value of ' || (auction % 10000) AS "value" FROM bid
    """,
    "q17": """
        SELECT auction, strftime("dateTime", '%Y-%m-%d') AS "day", count(*) AS total_bids,
            count(*) FILTER (price < 10000) AS rank1_bids,
            count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
            count(*) FILTER (price >= 1000000) AS rank3_bids,
            min(price) AS min_price, max(price) AS max_price,
            CAST(sum(price) // count(*) AS BIGINT) AS avg_price, CAST(sum(price) AS BIGINT) AS sum_price
        FROM bid
        GROUP BY auction, "day"
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, "dateTime", extra
        FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC, number DESC) = 1
    """,
    "q19": """
        SELECT auction, bidder, price, channel, url, "dateTime", extra,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC, number) AS rank_number
        FROM bid
        QUALIFY rank_number <= 10
    """,
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
            split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
        FROM bid
    """,
}

# Columns that do not depend on the order in which several readers' rows meet; all columns where a query is
# not named.
COMPARED_COLUMNS: dict[str, tuple[str, ...]] = {
    "q12": ("bidder", "bid_count"),
    "q19": ("auction", "price", "rank_number"),
}


def nexmark_tables(event_count: int, config: NexmarkConfig) -> dict[str, pa.Table]:
    """The first `event_count` events of an unshuffled stream as one table a kind."""
    generator = NexmarkGenerator(config)
    numbers = np.arange(event_count)
    places = numbers % config.epoch_size
    bids = config.person_proportion + config.auction_proportion
    kinds = {
        "person": (generator.persons, places < config.person_proportion),
        "auction": (generator.auctions, (places >= config.person_proportion) & (places < bids)),
        "bid": (generator.bids, places >= bids),
    }
    return {
        kind: pa.Table.from_batches([make(0, event_count)]).append_column(
            "number", pa.array(numbers[is_kind])
        )
        for kind, (make, is_kind) in kinds.items()
    }


def batch_answer(query: str, event_count: int, config: NexmarkConfig) -> pa.Table:
    """The rows of `query` over the first `event_count` events."""
    with duckdb.connect() as connection:
        for name, table in nexmark_tables(event_count, config).items():
            connection.register(name, table)
        return connection.sql(BATCH_SQL[query]).to_arrow_table()
