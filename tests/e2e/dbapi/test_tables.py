"""Queries in Python and in SQL have the same rows and plans, and one goes on from the savepoint of the other."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server_harness import RunningServer

import sqlstream
from sqlstream import (
    Connection,
    Table,
    call,
    col,
    cumulate,
    exists,
    expr,
    hop,
    lit,
    scalar,
    session,
    tumble,
    when,
)
from sqlstream import sql_functions as f
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.planner.explain import explain_physical
from sqlstream.planner.physical.node import walk_plan

BEGIN = datetime.datetime(2026, 1, 1)
BIDS = pa.table(
    {
        "auction": [1, 2, 1, 3, 2, 1, 4, 2],
        "bidder": [10, 11, 12, 10, 10, 11, 13, 12],
        "price": [5, 20, 30, 7, 12, 30, None, 44],
        "tags": [["a", "b"], [], ["c"], None, ["a"], ["b", "c"], ["d"], ["a"]],
        "ts": pa.array([BEGIN + datetime.timedelta(seconds=20 * i) for i in range(8)], pa.timestamp("ms")),
    },
    pa.schema(
        [
            *((name, pa.int64()) for name in ("auction", "bidder", "price")),
            ("tags", pa.list_(pa.string())),
            ("ts", pa.timestamp("ms")),
        ]
    ),
)
AUCTIONS = pa.table(
    {
        "id": [1, 2, 5],
        "item": ["lamp", "it's", "desk"],
        "opened": pa.array([BEGIN + datetime.timedelta(seconds=5 * i) for i in range(3)], pa.timestamp("ms")),
    }
)
RATES = pa.table(
    {
        "bidder": [10, 11, 10],
        "rate": [1, 2, 3],
        "since": pa.array([BEGIN, BEGIN, BEGIN + datetime.timedelta(seconds=50)], pa.timestamp("ms")),
    }
)
TABLES: dict[str, tuple[str, pa.Table]] = {
    "bid": (
        "auction BIGINT, bidder BIGINT, price BIGINT, tags ARRAY<STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
        BIDS,
    ),
    "auction": ("id BIGINT, item STRING, opened TIMESTAMP(3), WATERMARK FOR opened AS opened", AUCTIONS),
    "rate": (
        "bidder BIGINT, rate BIGINT, since TIMESTAMP(3), WATERMARK FOR since AS since, PRIMARY KEY (bidder) NOT ENFORCED",
        RATES,
    ),
}

TUMBLED = "TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
RANK = "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidder)"


@dataclasses.dataclass(frozen=True)
class Tables:
    connection: Connection
    bid: Table
    auction: Table
    rate: Table


def _joined(c: Tables, how: Any) -> Table:
    bid, auction = c.bid, c.auction
    return bid.join(auction, bid.auction == auction.id, how)


def _interval_joined(c: Tables) -> Table:
    bid, auction = c.bid, c.auction
    near = bid.ts.between(auction.opened, auction.opened + datetime.timedelta(seconds=30))
    return bid.join(auction, (bid.auction == auction.id) & near).select(bid.price, auction.item)


def _versioned(c: Tables) -> Table:
    bid, rate = c.bid, c.rate
    return bid.join(rate.as_of(bid.ts), bid.bidder == rate.bidder, "left").select(
        bid.price, converted=bid.price * rate.rate
    )


def _self_joined(c: Tables) -> Table:
    bid = c.bid
    other = bid.filter(bid.price > 10).alias("other")
    return bid.join(other, (bid.auction == other.auction) & (bid.price < other.price)).select(
        bid.price, more=other.price
    )


def _three_joined(c: Tables) -> Table:
    bid, auction = c.bid, c.auction
    totals = bid.group_by("auction").agg(total=f.sum(bid.price))
    pairs = bid.join(auction, bid.auction == auction.id).join(totals, totals.auction == auction.id)
    return pairs.filter(totals.total > 10).select(auction.item, bid.price, totals.total)


def _iterated(c: Tables, all_: bool) -> Table:
    start = c.bid.filter(c.bid.bidder == 13).select("auction", "bidder")
    return start.iterate(
        lambda found: found.filter(found.bidder > 10).select(found.auction, bidder=found.bidder - 1), all=all_
    )


def _followed(c: Tables) -> Table:
    links = c.bid.select("auction", "bidder", "price")
    start = links.filter(links.auction == 4).select(place=links.auction + 0)
    reached = start.iterate(
        lambda r: r.join(links, links.auction == r.place).select((links.bidder - 9).alias("place")),
        name="reached",
    )
    return reached.filter(reached.place < 4).group_by("place").agg(n=f.count())


def _window_joined(c: Tables) -> Table:
    bid, auction = c.bid, c.auction
    left, right = bid.window(tumble("1 min")), auction.window(tumble("1 min")).alias("a")
    same = (left.window_start == right.window_start) & (left.window_end == right.window_end)
    return left.join(right, same & (left.auction == right.id)).select(left.price, right.item, left.window_end)


def _correlated(c: Tables) -> Table:
    bid, auction = c.bid, c.auction
    return auction.filter(exists(bid.filter(bid.auction == auction.id, bid.price > 25)))


Case = tuple[Callable[[Tables], Table], str]
CASES: dict[str, Case] = {
    "a filter": (
        lambda c: c.bid.filter(c.bid.price > 10),
        "SELECT * FROM bid WHERE price > 10",
    ),
    "conditions": (
        lambda c: c.bid.filter(
            (c.bid.price.between(6, 30) | c.bid.price.is_null()) & ~c.bid.auction.is_in([3, 9]),
            c.bid.bidder % 2 != 1,
        ),
        "SELECT * FROM bid WHERE (price BETWEEN 6 AND 30 OR price IS NULL) AND NOT auction IN (3, 9) AND bidder % 2 <> 1",
    ),
    "computed columns": (
        lambda c: c.bid.select(
            "auction",
            c.bid.price * (c.bid.bidder - 1),
            half=c.bid.price / 2,
            kind=when(c.bid.price > 20, "dear").when(c.bid.price > 6, "fair").otherwise(None),
            text=f.concat("#", c.bid.auction.cast("STRING")),
            first=c.bid.tags[1],
            at=f.floor(c.bid.ts, "minute"),
            negative=-(c.bid.price - 1) - -c.bid.auction,
        ),
        """SELECT auction, price * (bidder - 1), price / 2 AS half,
           CASE WHEN price > 20 THEN 'dear' WHEN price > 6 THEN 'fair' ELSE NULL END AS kind,
           CONCAT('#', CAST(auction AS STRING)) AS text, tags[1] AS `first`, FLOOR(ts TO MINUTE) AS `at`,
           -(price - 1) - -auction AS negative FROM bid""",
    ),
    "all columns but some": (
        lambda c: c.bid.drop("tags", "ts").rename(price="cost").with_columns(dear=col("cost") > 20),
        "SELECT *, cost > 20 AS dear FROM (SELECT auction, bidder, price AS cost FROM bid)",
    ),
    "another value": (
        lambda c: c.bid.replace(price=f.coalesce(col("price"), 0)),
        "SELECT auction, bidder, COALESCE(price, 0) AS price, tags, ts FROM bid",
    ),
    "groups": (
        lambda c: (
            c.bid.group_by("auction", parity=c.bid.bidder % 2)
            .agg(
                n=f.count(),
                dear=f.count().where(c.bid.price > 10),
                different=f.count(c.bid.bidder, distinct=True),
                top=f.max(c.bid.price),
            )
            .filter(col("n") > 1)
        ),
        """SELECT auction, bidder % 2 AS parity, COUNT(*) AS n, COUNT(*) FILTER (WHERE price > 10) AS dear,
           COUNT(DISTINCT bidder) AS different, MAX(price) AS top
           FROM bid GROUP BY auction, bidder % 2 HAVING COUNT(*) > 1""",
    ),
    "one group": (
        lambda c: c.bid.agg(n=f.count(), mean=f.avg(col("price"))),
        "SELECT COUNT(*) AS n, AVG(price) AS mean FROM bid",
    ),
    "tumbling windows": (
        lambda c: c.bid.window(tumble("1 min")).group_by(c.bid.auction).agg(n=f.count()),
        f"SELECT window_start, window_end, auction, COUNT(*) AS n FROM {TUMBLED} GROUP BY window_start, window_end, auction",
    ),
    "windows behind a filter": (
        lambda c: c.bid.filter(c.bid.price > 10).window(tumble("1 min")).agg(n=f.count()),
        """SELECT window_start, window_end, COUNT(*) AS n
           FROM TUMBLE(TABLE (SELECT * FROM bid WHERE price > 10), DESCRIPTOR(ts), INTERVAL '1' MINUTE)
           GROUP BY window_start, window_end""",
    ),
    "hopping windows": (
        lambda c: c.bid.window(hop("30 s", "1 min", on="ts")).agg(n=f.count()),
        """SELECT window_start, window_end, COUNT(*) AS n
           FROM HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)
           GROUP BY window_start, window_end""",
    ),
    "growing windows": (
        lambda c: c.bid.window(cumulate("30 s", "1 min")).agg(n=f.count()),
        """SELECT window_start, window_end, COUNT(*) AS n
           FROM CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)
           GROUP BY window_start, window_end""",
    ),
    "sessions": (
        lambda c: c.bid.window(session("45 s", partition_by="auction")).group_by("auction").agg(n=f.count()),
        """SELECT window_start, window_end, auction, COUNT(*) AS n
           FROM SESSION(TABLE bid PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '45' SECOND)
           GROUP BY window_start, window_end, auction""",
    ),
    "windows of windows": (
        lambda c: (
            c.bid.window(tumble("30 s"))
            .group_by(col("window_time").alias("rt"))
            .agg(n=f.count())
            .select("rt", "n")
            .window(tumble("1 min", on="rt"))
            .agg(most=f.max(col("n")))
        ),
        """SELECT window_start, window_end, MAX(n) AS most FROM TUMBLE(TABLE (
             SELECT window_time AS rt, COUNT(*) AS n FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '30' SECOND)
             GROUP BY window_start, window_end, window_time), DESCRIPTOR(rt), INTERVAL '1' MINUTE)
           GROUP BY window_start, window_end""",
    ),
    "the first of each key": (
        lambda c: c.bid.top(1, by=[c.bid.price.desc(), c.bid.bidder], partition_by=c.bid.auction),
        f"SELECT * FROM bid QUALIFY {RANK} <= 1",
    ),
    "the first with their ranks": (
        lambda c: c.bid.top(
            2, by=[c.bid.price.desc(), c.bid.bidder], partition_by="auction", rank="n"
        ).select("auction", "price", "n"),
        f"SELECT auction, price, n FROM (SELECT *, {RANK} AS n FROM bid) WHERE n <= 2",
    ),
    "over": (
        lambda c: c.bid.select(
            c.bid.price,
            total=f.sum(c.bid.price).over(partition_by=c.bid.auction, order_by=c.bid.ts, rows=(1, 0)),
            near=f.count().over(order_by="ts", range_=(datetime.timedelta(seconds=30), 0)),
            step=c.bid.price - f.lag(c.bid.price).over(partition_by="auction", order_by="ts"),
        ),
        """SELECT price, SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS total,
           COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW) AS near,
           price - LAG(price) OVER (PARTITION BY auction ORDER BY ts) AS step FROM bid""",
    ),
    "the first rows in an order": (
        lambda c: (
            c.bid.select("price", "bidder")
            .order_by(c.bid.price.desc(nulls_first=False), "bidder")
            .limit(3, 1)
        ),
        "SELECT price, bidder FROM bid ORDER BY price DESC NULLS LAST, bidder LIMIT 3 OFFSET 1",
    ),
    "rows once": (lambda c: c.bid.select("auction").distinct(), "SELECT DISTINCT auction FROM bid"),
    "a union": (
        lambda c: c.bid.select("auction").union(c.bid.select("bidder"), c.auction.select("id")),
        "SELECT auction FROM bid UNION SELECT bidder FROM bid UNION SELECT id FROM auction",
    ),
    "a union of all rows": (
        lambda c: c.bid.select("auction").limit(2).union(c.bid.select("bidder"), all=True).agg(n=f.count()),
        "SELECT COUNT(*) AS n FROM ((SELECT auction FROM bid LIMIT 2) UNION ALL SELECT bidder FROM bid)",
    ),
    "a union by name": (
        lambda c: c.bid.select("auction", "price").union(c.bid.select("price", "auction"), by_name=True),
        "SELECT auction, price FROM bid UNION BY NAME SELECT price, auction FROM bid",
    ),
    "an intersection": (
        lambda c: c.bid.select("auction").intersect(c.auction.select("id")),
        "SELECT auction FROM bid INTERSECT SELECT id FROM auction",
    ),
    "a difference": (
        lambda c: c.bid.select("auction").except_(c.auction.select("id"), all=True),
        "SELECT auction FROM bid EXCEPT ALL SELECT id FROM auction",
    ),
    **{
        f"a join of kind {how}": (
            lambda c, how=how: _joined(c, how),
            f"SELECT * FROM bid {words} JOIN auction ON bid.auction = auction.id",
        )
        for how, words in (
            ("inner", ""),
            ("left", "LEFT"),
            ("right", "RIGHT"),
            ("full", "FULL"),
            ("semi", "LEFT SEMI"),
            ("anti", "LEFT ANTI"),
        )
    },
    "all pairs": (
        lambda c: c.bid.select("price").join(c.auction.select("item"), how="cross"),
        "SELECT * FROM (SELECT price FROM bid) CROSS JOIN (SELECT item FROM auction)",
    ),
    "a join by names": (
        lambda c: c.bid.join(c.rate, "bidder").select("bidder", "price", "rate"),
        "SELECT bidder, price, rate FROM bid JOIN rate USING (bidder)",
    ),
    "a join within a time": (
        _interval_joined,
        """SELECT bid.price, auction.item FROM bid JOIN auction ON bid.auction = auction.id
           AND bid.ts BETWEEN auction.opened AND auction.opened + INTERVAL '30' SECOND""",
    ),
    "a join as of a time": (
        _versioned,
        """SELECT bid.price, bid.price * rate.rate AS converted
           FROM bid LEFT JOIN rate FOR SYSTEM_TIME AS OF bid.ts ON bid.bidder = rate.bidder""",
    ),
    "a join with itself": (
        _self_joined,
        """SELECT b.price, o.price AS more FROM bid AS b JOIN (SELECT * FROM bid WHERE price > 10) AS o
           ON b.auction = o.auction AND b.price < o.price""",
    ),
    "a join of three": (
        _three_joined,
        """SELECT a.item, b.price, t.total FROM bid AS b JOIN auction AS a ON b.auction = a.id
           JOIN (SELECT auction, SUM(price) AS total FROM bid GROUP BY auction) AS t ON t.auction = a.id WHERE t.total > 10""",
    ),
    "a join of windows": (
        _window_joined,
        """SELECT l.price, r.item, l.window_end FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS l
           JOIN TUMBLE(TABLE auction, DESCRIPTOR(opened), INTERVAL '1' MINUTE) AS r
           ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.auction = r.id""",
    ),
    "a table function": (
        lambda c: c.bid.group_by("auction").agg(n=f.count()).table_function("to_changelog"),
        "SELECT * FROM TO_CHANGELOG(TABLE (SELECT auction, COUNT(*) AS n FROM bid GROUP BY auction))",
    ),
    "a graph": (
        lambda c: c.bid.filter(c.bid.price > 6).table_function("connected_components", ["auction", "bidder"]),
        "SELECT * FROM CONNECTED_COMPONENTS(TABLE (SELECT * FROM bid WHERE price > 6), DESCRIPTOR(auction, bidder))",
    ),
    "windows of so many rows": (
        lambda c: c.bid.table_function("count_window", (), 2, partition_by="auction").select(
            "auction", "price"
        ),
        "SELECT auction, price FROM COUNT_WINDOW(TABLE bid PARTITION BY auction, 2)",
    ),
    "an iteration": (
        lambda c: _iterated(c, False),
        """WITH RECURSIVE iterated AS (SELECT auction, bidder FROM bid WHERE bidder = 13
           UNION SELECT auction, bidder - 1 FROM iterated WHERE bidder > 10) SELECT * FROM iterated""",
    ),
    "an iteration of all rows": (
        lambda c: _iterated(c, True).filter(col("bidder") < 12),
        """WITH RECURSIVE iterated AS (SELECT auction, bidder FROM bid WHERE bidder = 13
           UNION ALL SELECT auction, bidder - 1 FROM iterated WHERE bidder > 10) SELECT * FROM iterated WHERE bidder < 12""",
    ),
    "an iteration with a join": (
        _followed,
        """WITH RECURSIVE reached AS (SELECT auction + 0 AS place FROM bid WHERE auction = 4
           UNION SELECT b.bidder - 9 FROM reached AS r JOIN bid AS b ON b.auction = r.place)
           SELECT place, COUNT(*) AS n FROM reached WHERE place < 4 GROUP BY place""",
    ),
    "elements": (
        lambda c: c.bid.unnest("tags", ["tag"]).select("auction", "tag"),
        "SELECT auction, tag FROM bid CROSS JOIN UNNEST(tags) AS x(tag)",
    ),
    "elements, and rows without one": (
        lambda c: c.bid.unnest("tags", ["tag", "place"], how="left", with_ordinality=True).select(
            "auction", "tag", "place"
        ),
        "SELECT auction, tag, place FROM bid LEFT JOIN UNNEST(tags) WITH ORDINALITY AS x(tag, place) ON TRUE",
    ),
    "a subquery of values": (
        lambda c: c.bid.filter(c.bid.auction.is_in(c.auction.select("id"))),
        "SELECT * FROM bid WHERE auction IN (SELECT id FROM auction)",
    ),
    "a value of a subquery": (
        lambda c: c.bid.filter(c.bid.price == scalar(c.bid.agg(m=f.max(c.bid.price)))),
        "SELECT * FROM bid WHERE price = (SELECT MAX(price) AS m FROM bid)",
    ),
    "a correlated subquery": (
        _correlated,
        "SELECT * FROM auction AS a WHERE EXISTS (SELECT * FROM bid WHERE auction = a.id AND price > 25)",
    ),
    "a query in SQL": (
        lambda c: (
            c.connection.sql("SELECT auction, price FROM bid -- all of them")
            .filter(expr("price > 10"))
            .select("auction", one=lit(1))
        ),
        "SELECT auction, 1 AS one FROM (SELECT auction, price FROM bid) WHERE price > 10",
    ),
    "a quoted text": (
        lambda c: c.auction.filter(c.auction.item == "it's").select(
            c.auction.item, **{"a `b` c": f.upper(c.auction.item)}
        ),
        "SELECT item, UPPER(item) AS `a ``b`` c` FROM auction WHERE item = 'it''s'",
    ),
    "other forms of calls": (
        lambda c: c.bid.select(
            f.extract("minute", c.bid.ts).alias("a"),
            f.timestampdiff("second", c.bid.ts, c.bid.ts + datetime.timedelta(hours=1)).alias("b"),
            f.trim(" x "),
            f.position("b", "abc"),
            f.overlay("abc", "Z", 2),
            f.array(c.bid.auction, 2),
            f.if_(c.bid.price > 10, "x", "y"),
            f.json_object("k", c.bid.auction),
            call("ABS", c.bid.price),
        ),
        """SELECT EXTRACT(MINUTE FROM ts) AS a, TIMESTAMPDIFF(SECOND, ts, ts + INTERVAL '1' HOUR) AS b, TRIM(' x '),
           POSITION('b' IN 'abc'), OVERLAY('abc' PLACING 'Z' FROM 2), ARRAY[auction, 2], IF(price > 10, 'x', 'y'),
           JSON_OBJECT('k' VALUE auction), ABS(price) FROM bid""",
    ),
}


@pytest.fixture
def tables(connection: Connection, tmp_path: Path) -> Tables:
    cursor = connection.cursor()
    for name, (columns, rows) in TABLES.items():
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "rows.parquet")
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'parquet'"
        cursor.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({options})")
    return Tables(connection, *map(connection.table, TABLES))


@pytest.mark.parametrize("case", CASES)
def test_a_query_in_python_has_the_rows_and_the_plan_of_sql(tables: Tables, url: str, case: str) -> None:
    build, text = CASES[case]
    table = build(tables)
    cursor = tables.connection.cursor().execute(text)
    assert table.execute().description == cursor.description
    assert sorted(table.rows(), key=repr) == sorted(cursor.fetchall(), key=repr)
    if url == "embedded://":
        assert _planned(tables.connection, table.to_sql()) == _planned(tables.connection, text)


def _planned(connection: Connection, text: str) -> tuple[str, list[object]]:
    """The physical plan, and by what the state of each of its operators is found again."""
    found: Any = connection.session
    plan = found.session.compile(parse_statement(text))
    states = [
        (node.state.id, node.state.conditions, node.state.rows)
        for node in walk_plan(plan.physical)
        if node.state
    ]
    return explain_physical(plan.physical), states


FUNCTIONS = """
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlstream import SET_SEMANTIC_TABLE, ProcessTableFunction, ScalarArgument, TableArgument, ValueState, udaf, udf, udtf
from sqlstream import AggregateFunction, SideOutput

@udf
def first(text: str) -> str:
    return text[:1]

@udtf(func_type="arrow", result_types="ROW<auction BIGINT, cents BIGINT>")
def cents(auction, price):
    return pa.record_batch({"cents": pc.multiply(price, 100), "auction": auction})

@udtf(func_type="arrow", result_types="ROW<price BIGINT>")
def dear(price):
    rows = np.flatnonzero(pc.fill_null(pc.greater(price, 10), False))
    return {"price": price.take(pa.array(rows)), "$row": rows}

@udaf(result_type="BIGINT", accumulator_type="BIGINT")
class Most(AggregateFunction):
    def create_accumulator(self):
        return 0

    def accumulate(self, acc, value: int):
        return max(acc, value)

    def get_value(self, acc):
        return acc

class Numbered(ProcessTableFunction):
    result_type = "ROW<n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    first = ScalarArgument("BIGINT NOT NULL", default=1)
    n = ValueState("BIGINT", default=0)
    again = SideOutput("ROW<price BIGINT>")

    def eval(self, ctx, row):
        self.n.value += 1
        yield self.n.value + self.first - 1
        if self.n.value > 1:
            yield self.again(row["price"])

class Pairs(ProcessTableFunction):
    result_type = "ROW<seen STRING>"
    left = TableArgument(SET_SEMANTIC_TABLE)
    right = TableArgument(SET_SEMANTIC_TABLE)
    n = ValueState("BIGINT", default=0)

    def eval(self, ctx, row):
        self.n.value += 1
        if self.n.value == 2:
            yield "both"
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    # Another module for each test: what was shipped stays importable in this process.
    name = f"functions_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


def _check_functions(connection: Connection, functions: Any, files: list[str]) -> None:
    rows = "(1, 5, 'ada'), (2, 20, 'bob'), (1, 30, 'cy'), (3, CAST(NULL AS BIGINT), 'di')"
    bid = connection.sql(
        f"SELECT CAST(auction AS BIGINT) AS auction, price, name FROM (VALUES {rows}) AS t(auction, price, name)"
    )
    made = {
        name: connection.create_function(getattr(functions, name), files=files)
        for name in ("first", "cents", "dear", "Most", "Numbered", "Pairs")
    }
    assert sorted(bid.select(made["first"](bid.name)).rows()) == [("a",), ("b",), ("c",), ("d",)]
    assert sorted(bid.map_batches(made["cents"]).rows(), key=repr) == [
        (1, 3000),
        (1, 500),
        (2, 2000),
        (3, None),
    ]
    assert sorted(bid.map_batches(made["dear"], price=bid.price * 2).rows()) == [(40,), (60,)]
    totals = bid.group_by("auction").agg(price=f.sum(bid.price))
    assert sorted(totals.map_batches(made["dear"]).rows()) == [(20,), (35,)]
    best = bid.filter(bid.price.is_not_null()).group_by("auction").agg(most=made["Most"](bid.price))
    assert sorted(best.rows()) == [(1, 30), (2, 20)]
    numbered = bid.process(made["Numbered"], partition_by="auction", first=10, uid="numbers")
    assert sorted(numbered.filter(numbered.n > 10).rows()) == [(1, 11)]
    again = numbered.output("again")
    assert again.filter(again.price > 0).rows() == [(1, 30)]
    assert "first => 10, uid => 'numbers', output => 'again')" in again.to_sql()
    assert (
        "ProcessTableFunction[3] -> (ProcessOutput[4], ProcessOutput[5])"
        in numbered.union(again, all=True).explain()
    )
    with pytest.raises(sqlstream.ProgrammingError, match='no output "agian"'):
        numbered.output("agian")
    both = bid.process(made["Pairs"], partition_by=bid.auction, right=(bid.select("auction"), "auction"))
    assert sorted(row[-1] for row in both.rows()) == ["both"] * 3


def test_functions_in_python_are_called_in_python(functions: Any, tmp_path: Path) -> None:
    with sqlstream.connect("embedded://") as connection:
        _check_functions(connection, functions, [])
        bid = connection.sql("SELECT CAST(20 AS BIGINT) AS price, CAST(1 AS BIGINT) AS auction")
        # They are made functions of the session when they are used first.
        assert bid.map_batches(functions.cents).map_batches(functions.dear, price=col("cents")).rows() == [
            (2000,)
        ]
        two = bid.union(bid, all=True).process(functions.Numbered, partition_by="auction")
        inserts = []
        for name, table in (("n", two), ("price", two.output("again"))):
            options = f"'connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'parquet'"
            connection.cursor().execute(
                f"CREATE TEMPORARY TABLE out_{name} (auction BIGINT, {name} BIGINT) WITH ({options})"
            )
            inserts.append(table.insert_into(f"out_{name}"))
        assert connection.insert_all(*inserts).rowcount == 3
        assert sorted(connection.table("out_n").rows()) == [(1, 1), (1, 2)]
        assert connection.table("out_price").rows() == [(1, 20)]
        assert bid.process(functions.Numbered, partition_by="auction").rows() == [(1, 1)]
        timed = connection.from_batches(AUCTIONS, watermark=("opened", "0 s"))
        numbered = timed.process(
            functions.Numbered,
            partition_by="id",
            order_by=["opened", timed.item.desc()],
            on_time=timed.opened,
        )
        assert (
            "PARTITION BY (id) ORDER BY opened, item DESC, on_time => DESCRIPTOR(opened)" in numbered.to_sql()
        )
        assert numbered.window(tumble("1 h", on="rowtime")).agg(n=f.sum(numbered.n)).select("n").rows() == [
            (3,)
        ]


MODEL = """
import pyarrow.compute as pc
from sqlstream import PredictFunction

class Double(PredictFunction):
    def predict(self, batch):
        return {"doubled": pc.multiply(batch.column("x"), 2.0)}
"""


def test_a_model_predicts_columns(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(MODEL)
    with sqlstream.connect("embedded://") as connection:
        connection.cursor().execute(
            "CREATE TEMPORARY MODEL double_it INPUT (x DOUBLE) OUTPUT (doubled DOUBLE)"
            f" WITH ('provider' = 'python', 'class' = 'doubling.Double', 'files' = '{tmp_path}/doubling.py')"
        )
        bid = connection.from_batches(pa.table({"price": [1.5, None, 4.0]}))
        doubled = bid.predict("double_it", bid.price)
        assert doubled.rows() == [(1.5, 3.0), (None, None), (4.0, 8.0)]
        text = "SELECT * FROM ML_PREDICT(TABLE batches_1, MODEL double_it, DESCRIPTOR(price))"
        assert _planned(connection, doubled.to_sql()) == _planned(connection, text)
        # A row of waiting is none of a model that computes in the task.
        with pytest.raises(sqlstream.Error):
            bid.predict("double_it", "price", config={"async": "true"}).rows()
        plain = bid.predict("double_it", "price", config={"async": "false"}).select("doubled")
        assert plain.rows() == [(3.0,), (None,), (8.0,)]


def test_functions_in_python_are_called_at_a_server_that_runs_them(functions: Any, tmp_path: Path) -> None:
    enabled = ("-D", "sqlstream.server.python-functions.enabled=true")
    with (
        RunningServer(tmp_path / "data", *enabled) as server,
        sqlstream.connect(server.gateway) as connection,
    ):
        _check_functions(connection, functions, [functions.__file__])


def test_a_function_that_no_other_process_can_import_is_refused(
    connection: Connection, functions: Any
) -> None:
    @sqlstream.udf
    def local(n: int) -> int:
        return n

    bid = connection.sql("SELECT 1 AS price")
    for make, said in (
        (lambda: connection.create_function(local), "where no other process can import it"),
        (lambda: connection.create_function(len), "is no function of SQL"),
        (lambda: bid.map_batches(local), "where no other process can import it"),
        (lambda: bid.process(sqlstream.ProcessTableFunction), "no"),
    ):
        with pytest.raises(sqlstream.ProgrammingError, match=said):
            make()


def test_a_table_is_read_and_written_in_all_ways(tables: Tables, tmp_path: Path) -> None:
    connection, bid = tables.connection, tables.bid
    dear = bid.filter(bid.price > 20).select("auction", "price")
    rows = [(1, 30), (1, 30), (2, 44)]
    assert sorted(dear.rows()) == rows
    assert sorted(dear.execute()) == rows
    assert sorted(dear.arrow().to_pylist(), key=repr) == [{"auction": a, "price": p} for a, p in rows]
    assert sorted(dear.df().itertuples(index=False, name=None)) == rows
    totals = dear.group_by("auction").agg(total=f.sum(dear.price))
    kinds = [kind.name for kind, _ in totals.changelog()]
    assert kinds.count("INSERT") == 2
    assert "GroupAggregate" in totals.explain()
    assert "GROUP BY auction" in totals.explain("STATE")
    assert sorted(totals.create_view("totals").rows()) == [(1, 60), (2, 44)]
    assert sorted(totals.create_view("totals", replace=True).select("total").rows()) == [(44,), (60,)]
    cursor = connection.cursor()
    for name in ("one", "other"):
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'parquet'"
        cursor.execute(f"CREATE TEMPORARY TABLE {name} (price BIGINT, auction BIGINT) WITH ({options})")
    assert dear.insert_into("one", by_name=True).execute().rowcount == 3
    assert sorted(connection.table("one").select("auction", "price").rows()) == rows
    dear.filter(dear.price > 40).insert_into("one", ["auction", "price"], overwrite=True).execute()
    assert connection.table("one").rows() == [(44, 2)]
    inserts = [dear.insert_into(name, ["auction", "price"]) for name in ("one", "other")]
    assert connection.insert_all(*inserts).rowcount == 6
    assert sorted(connection.table("other").select("auction", "price").rows()) == rows


def test_batches_of_this_process_are_a_table(connection: Connection, url: str, tmp_path: Path) -> None:
    place = {"directory": str(tmp_path / "bids")}
    if url != "embedded://":
        with pytest.raises(sqlstream.ProgrammingError, match="does not read the memory of this process"):
            connection.from_batches(BIDS)
    bid = connection.from_batches(
        BIDS.to_batches(max_chunksize=3), name="a`b", watermark=("ts", "5 s"), **place
    )
    assert bid.arrow().to_pylist() == BIDS.to_pylist()
    assert [type_ for _, type_ in bid.schema()] == ["BIGINT"] * 3 + ["ARRAY<STRING>", "TIMESTAMP(3)"]
    assert sum(row[2] for row in bid.window(tumble("1 min")).agg(n=f.count()).rows()) == 8
    with pytest.raises(sqlstream.ProgrammingError, match="has batches of another table"):
        connection.from_batches(BIDS, **place)
    frame = pd.DataFrame({"x": [1.5, None], "d": pd.Categorical(["a", "b"]), "n": np.array([1, 2], np.uint8)})
    read = connection.from_batches(frame, directory=str(tmp_path / "frame"), primary_key=["n"])
    assert read.rows() == [(1.5, "a", 1), (None, "b", 2)]
    reader = pa.RecordBatchReader.from_batches(AUCTIONS.schema, iter(AUCTIONS.to_batches()))
    assert connection.from_batches(reader, directory=str(tmp_path / "reader")).arrow().num_rows == 3
    nothing = connection.from_batches([], schema=AUCTIONS.schema, directory=str(tmp_path / "nothing"))
    assert nothing.rows() == []


def test_batches_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with sqlstream.connect("embedded://") as connection:
        other = pa.record_batch({"n": ["x"]})
        with pytest.raises(sqlstream.DataError, match="a batch does not fit the table"):
            connection.from_batches([pa.record_batch({"n": [1]}), other], directory=str(tmp_path))
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(sqlstream.ProgrammingError, match="no batch that tells the columns"):
            connection.from_batches(iter([]))
        with pytest.raises(sqlstream.ProgrammingError, match="no SQL type for"):
            connection.from_batches(pa.table({"n": pa.nulls(1)}))
        feed = connection.feed("ticks", pa.schema([pa.field("n", pa.int64(), nullable=False)]))
        for wrong in (
            other,
            pa.record_batch({"m": [1]}),
            pa.record_batch({"n": pa.array([None], pa.int64())}),
        ):
            with pytest.raises(sqlstream.DataError, match="a batch does not fit the table"):
                feed.write(wrong)


def _waited_for(made: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while not (found := made()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return found


def test_a_feed_is_read_once_by_a_job_that_goes_on_from_a_savepoint(tmp_path: Path) -> None:
    """The second program writes before and behind the restart of the job."""
    config = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.savepoint-dir": f"{tmp_path}/savepoints",
    }
    ticks = iter(range(10_000))
    schema = pa.schema([("n", pa.int64())])

    def opened(connection: Connection) -> tuple[sqlstream.Cursor, Callable[[], None]]:
        cursor = connection.cursor()
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet'"
        cursor.execute(f"CREATE TABLE out_ticks (n BIGINT) WITH ({options})")
        feed = connection.feed("ticks", schema, directory=str(tmp_path / "ticks"), look_every="50 ms")
        return cursor, lambda: feed.write(pa.record_batch({"n": [next(ticks) for _ in range(10)]}, schema))

    with sqlstream.connect("embedded://", config=config) as connection:
        cursor, write = opened(connection)
        job = connection.table("ticks").insert_into("out_ticks").execute()
        for _ in range(3):
            write()
        out = connection.table("out_ticks")
        assert _waited_for(lambda: (tmp_path / "out").exists() and len(out.rows()) >= 20)
        write()
        stopped = cursor.execute(f"STOP JOB '{job.job_id}' WITH SAVEPOINT").fetchone()
        assert stopped is not None
    with sqlstream.connect("embedded://", config=config) as connection:
        cursor, write = opened(connection)
        write()
        cursor.execute(f"SET 'execution.state-recovery.path' = '{stopped[0]}'")
        job = connection.table("ticks").insert_into("out_ticks").execute()
        cursor.execute("RESET 'execution.state-recovery.path'")
        write()
        out = connection.table("out_ticks")
        assert _waited_for(lambda: len(out.rows()) >= 60)
        cursor.execute(f"STOP JOB '{job.job_id}' WITH SAVEPOINT")
        assert sorted(out.rows()) == [(n,) for n in range(60)]


SLOW = """CREATE TABLE bids (n BIGINT, k AS n % 3, ts AS TO_TIMESTAMP_LTZ(n, 0), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'number-of-rows' = '4000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '3999')"""
IN_SQL = """SELECT window_start, k, COUNT(*) AS c, SUM(n) AS total
FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE) GROUP BY window_start, window_end, k"""
WAIT_S = 240


def _in_python(connection: Connection) -> str:
    bids = connection.table("bids")
    groups = bids.window(tumble("10 min")).group_by(bids.k)
    counted = groups.agg(c=f.count(), total=f.sum(bids.n))
    return counted.select("window_start", "k", "c", "total").insert_into("counts").to_sql()


def _in_sql(connection: Connection) -> str:
    return f"INSERT INTO counts {IN_SQL}"


@pytest.mark.parametrize(("first", "then"), [(_in_python, _in_sql), (_in_sql, _in_python)])
def test_a_job_goes_on_from_the_savepoint_of_the_other(
    tmp_path: Path, first: Callable[[Connection], str], then: Callable[[Connection], str]
) -> None:
    config = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.savepoint-dir": f"{tmp_path}/savepoints",
    }
    with sqlstream.connect("embedded://", config=config) as connection:
        cursor = connection.cursor()
        columns = "window_start TIMESTAMP(3), k BIGINT, c BIGINT, total BIGINT"
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/counts', 'format' = 'parquet'"
        cursor.execute(f"CREATE TABLE counts ({columns}) WITH ({options})")
        cursor.execute(SLOW)
        # The session does not wait for the job, as a cursor does for one that ends.
        result = connection.session.execute(first(connection))
        deadline_s = time.monotonic() + WAIT_S
        while result.metrics().total.get("numRecordsRead", 0) < 1000 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        stopped = cursor.execute(f"STOP JOB '{result.job_id}' WITH SAVEPOINT").fetchone()
        assert stopped is not None
        cursor.execute(f"SET 'execution.state-recovery.path' = '{stopped[0]}'")
        cursor.execute(then(connection))
        assert not [said for _, said in cursor.messages if "state" in str(said)]
        cursor.execute("RESET 'execution.state-recovery.path'")
        counts = connection.table("counts").rows()
        assert sorted(counts) == sorted(cursor.execute(IN_SQL).fetchall())
        assert sum(row[2] for row in counts) == 4000
