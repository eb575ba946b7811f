"""The texts of the Nexmark suite, Flink SQL as people write it: each is read, or refused for a
stated reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planner.dialect.parser import parse_script, span_of
from sqlstream.planner.dialect.statements import CreateTable, CreateView, Insert

TABLES = """
CREATE TABLE datagen (
  event_type int,
  person ROW<id BIGINT, name VARCHAR, emailAddress VARCHAR, creditCard VARCHAR, city VARCHAR, state VARCHAR,
             `dateTime` TIMESTAMP(3), extra VARCHAR>,
  auction ROW<id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT, reserve BIGINT,
              `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
          `dateTime` TIMESTAMP(3), extra VARCHAR>,
  `dateTime` AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime`
                     ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'first-event.rate' = '10000000');
CREATE VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM datagen WHERE event_type = 2;
"""

QUERIES = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price as price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P on A.seller = P.id
             WHERE A.category = 10 and (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """SELECT Q.category, AVG(Q.final) FROM (
               SELECT MAX(B.price) AS final, A.category FROM auction A, bid B
               WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
               GROUP BY A.id, A.category) Q GROUP BY Q.category""",
    "q5": """SELECT AuctionBids.auction, AuctionBids.num FROM (
               SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
               FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
               GROUP BY auction, window_start, window_end) AS AuctionBids
             JOIN (SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime FROM (
                 SELECT count(*) AS num, window_start AS starttime, window_end AS endtime
                 FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
                 GROUP BY auction, window_start, window_end) AS CountBids
               GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
             ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
               AND AuctionBids.num >= MaxBids.maxn""",
    "q6": """SELECT Q.seller, AVG(Q.final) OVER (PARTITION BY Q.seller ORDER BY Q.`dateTime`
               ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM (
                 SELECT MAX(B.price) AS final, A.seller, B.`dateTime` FROM auction AS A, bid AS B
                 WHERE A.id = B.auction AND B.`dateTime` between A.`dateTime` and A.expires
                 GROUP BY A.id, A.seller) AS Q""",
    "q7": """SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra from bid B JOIN (
               SELECT MAX(price) AS maxprice, window_end as `dateTime`
               FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
               GROUP BY window_start, window_end) B1
             ON B.price = B1.maxprice
             WHERE B.`dateTime` BETWEEN B1.`dateTime` - INTERVAL '10' SECOND AND B1.`dateTime`""",
    "q8": """SELECT P.id, P.name, P.starttime FROM (
               SELECT id, name, window_start AS starttime, window_end AS endtime
               FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
               GROUP BY id, name, window_start, window_end) P
             JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
               FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
               GROUP BY seller, window_start, window_end) A
             ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": """SELECT id, itemName, price, bid_dateTime FROM (
               SELECT A.*, B.auction, B.price, B.`dateTime` AS bid_dateTime,
                 ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
               FROM auction A, bid B
               WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires) WHERE
                rownum <= 1""",
    "q10": """SELECT auction, bidder, price, `dateTime`, extra, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd'),
                DATE_FORMAT(`dateTime`, 'HH:mm') FROM bid""",
    "q11": """SELECT B.bidder, count(*) as bid_count, window_start AS starttime, window_end AS endtime
              FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL
                '10' SECOND)) AS B
              GROUP BY B.bidder, window_start, window_end""",
    "q12": """SELECT bidder, count(*) as bid_count, window_start AS starttime, window_end AS endtime
              FROM TABLE(TUMBLE(DATA => (SELECT *, PROCTIME() as p_time FROM bid), TIMECOL =>
                DESCRIPTOR(p_time),
                SIZE => INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end""",
    "q14": """SELECT auction, bidder, 0.908 * price as price,
                CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
                  WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE
                  'otherTime' END AS bidTimeType,
                `dateTime`, extra, count_char(extra, 'c') AS c_counts
              FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": """SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`, count(*) AS total_bids,
                count(*) filter (where price < 10000) AS rank1_bids,
                count(*) filter (where price >= 10000 and price < 1000000) AS rank2_bids,
                count(distinct bidder) filter (where price < 10000) AS rank1_bidders
              FROM bid GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
    "q16": """SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`,
                max(DATE_FORMAT(`dateTime`, 'HH:mm')) as `minute`, count(distinct auction) AS total_auctions
              FROM bid GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
    "q17": """SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') as `day`, count(*) AS total_bids,
                count(*) filter (where price >= 1000000) AS rank3_bids, min(price) AS min_price,
                avg(price) AS avg_price, sum(price) AS sum_price
              FROM bid GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')""",
    "q18": """SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (SELECT *, ROW_NUMBER() OVER
                (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid)
              WHERE rank_number <= 1""",
    "q19": """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC)
                AS rank_number
              FROM bid) WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, B.`dateTime`, itemName, A.`dateTime`, A.extra
              FROM bid AS B INNER JOIN auction AS A on B.auction = A.id WHERE A.category = 10""",
    "q21": r"""SELECT auction, bidder, price, channel,
                 CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                   ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
               FROM bid where REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) is not null or
                 lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1,
                SPLIT_INDEX(url, '/', 4) as dir2, SPLIT_INDEX(url, '/', 5) as dir3 FROM bid""",
}

Q13 = """INSERT INTO nexmark_q13 SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
FROM (SELECT *, PROCTIME() as p_time FROM bid) B
JOIN side_input FOR SYSTEM_TIME AS OF B.p_time AS S ON mod(B.auction, 10000) = S.key"""


def test_the_suites_tables_are_read() -> None:
    table, view = parse_script(TABLES)
    assert isinstance(table, CreateTable)
    assert isinstance(view, CreateView)
    assert len(table.columns) == 5


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_suite_is_one_insert_with_positions(query: str) -> None:
    script = f"INSERT INTO nexmark_{query}\n{QUERIES[query]};"
    (insert,) = parse_script(script)
    assert isinstance(insert, Insert)
    assert all(span_of(node) is not None for node in insert.query.walk())


def test_the_lookup_join_of_q13_names_its_time() -> None:
    (insert,) = parse_script(Q13)
    assert isinstance(insert, Insert)
    (join,) = insert.query.args["joins"]
    span = span_of(join.this.args["version"])
    assert span is not None
    assert Q13[span.start : span.end] == "FOR SYSTEM_TIME AS OF B.p_time"


def test_every_query_file_of_the_repository_parses() -> None:
    files = sorted((Path(__file__).parents[4] / "queries").rglob("*.sql"))
    assert files
    for file in files:
        parse_script(file.read_text())
