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

from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator

_TUMBLE = "(epoch_ms({column}) // 10000) * 10000"
_HOP_COUNTS = """
    SELECT auction, start_ms, count(*) AS num
    FROM (
        SELECT auction, (epoch_ms("dateTime") // 2000 - step) * 2000 AS start_ms
        FROM bid, range(5) AS steps(step))
    GROUP BY auction, start_ms
"""

_RANKED_COUNTS = ", ".join(
    f"count({counted}) FILTER ({condition}) AS {prefix}_{name}"
    for counted, name in (("*", "bids"), ("DISTINCT bidder", "bidders"), ("DISTINCT auction", "auctions"))
    for prefix, condition in (
        ("total", "TRUE"),
        ("rank1", "price < 10000"),
        ("rank2", "price >= 10000 AND price < 1000000"),
        ("rank3", "price >= 1000000"),
    )
)

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
    "q4": """
        WITH highest AS (
            SELECT max(price) AS final, category
            FROM auction JOIN bid ON auction.id = bid.auction
                AND bid."dateTime" BETWEEN auction."dateTime" AND auction.expires
            GROUP BY id, category)
        SELECT category AS id, CAST(sum(final) // count(*) AS BIGINT) AS final FROM highest GROUP BY category
    """,
    "q5": f"""
        WITH counts AS ({_HOP_COUNTS})
        SELECT auction, num
        FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY start_ms)
    """,
    "q6": """
        WITH won AS (
            SELECT a.seller, b.price, b."dateTime"
            FROM auction a JOIN bid b ON a.id = b.auction AND b."dateTime" BETWEEN a."dateTime" AND a.expires
            QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."dateTime") = 1)
        SELECT seller, CAST(sum(price) OVER w // count(*) OVER w AS BIGINT) AS avg_price
        FROM won
        WINDOW w AS (PARTITION BY seller ORDER BY "dateTime" ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
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
    "q9": """
        SELECT a.* EXCLUDE (number), b.auction, b.bidder, b.price, b."dateTime" AS "bid_dateTime", b.extra AS bid_extra
        FROM auction AS a JOIN bid AS b ON a.id = b.auction AND b."dateTime" BETWEEN a."dateTime" AND a.expires
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."dateTime", b.number) = 1
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
    "q10": """
        SELECT auction, bidder, price, "dateTime", extra, strftime("dateTime", '%Y-%m-%d') AS dt,
            strftime("dateTime", '%H:%M') AS hm
        FROM bid
    """,
    "q14": """
        SELECT auction, bidder, CAST(0.908 * CAST(price AS DECIMAL(19, 0)) AS DECIMAL(23, 3)) AS price,
            CASE WHEN hour("dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour("dateTime") <= 6 OR hour("dateTime") >= 20 THEN 'nightTime' ELSE 'otherTime'
            END AS "bidTimeType",
            "dateTime", extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid
        WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"""
        SELECT strftime("dateTime", '%Y-%m-%d') AS "day", {_RANKED_COUNTS} FROM bid GROUP BY "day"
    """,
    "q16": f"""
        SELECT channel, strftime("dateTime", '%Y-%m-%d') AS "day",
            max(strftime("dateTime", '%H:%M')) AS "minute", {_RANKED_COUNTS}
        FROM bid GROUP BY channel, "day"
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
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                WHEN 'baidu' THEN '3' ELSE regexp_extract(url, 'channel_id=([^&]*)', 1)
            END AS channel_id
        FROM bid
        WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR url LIKE '%&channel_id=%'
    """,
    "q20": """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b."dateTime" AS "bid_dateTime", b.extra AS bid_extra,
            a.itemName, a.description, a.initialBid, a.reserve, a."dateTime" AS "auction_dateTime", a.expires, a.seller,
            a.category, a.extra AS auction_extra
        FROM bid AS b JOIN auction AS a ON b.auction = a.id
        WHERE a.category = 10
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
