"""What queries in Python stand for, and how what is wrong in them is told."""

from __future__ import annotations

import ast
import copy
import datetime
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlstream
from sqlstream import Connection, Table, call, col, expr, lit, tumble, when
from sqlstream import sql_functions as f
from sqlstream.client.dbapi.tables.calls import functions
from sqlstream.functions.placed import OVER_FUNCTIONS
from sqlstream.planner.dialect.parser import parse_expression, parse_statement

BIDS = """CREATE TEMPORARY TABLE bid (auction BIGINT, price BIGINT, `select` STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'number-of-rows' = '3')"""


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with sqlstream.connect("embedded://") as opened:
        opened.cursor().execute(BIDS)
        opened.cursor().execute(BIDS.replace("bid", "timeless").replace(", WATERMARK FOR ts AS ts", ""))
        yield opened


@pytest.fixture
def bid(connection: Connection) -> Table:
    return connection.table("bid")


def test_methods_add_clauses_to_one_select_as_long_as_they_can(bid: Table) -> None:
    assert (
        bid.filter(bid.price > 10).filter(bid.price < 20).to_sql()
        == "SELECT *\nFROM bid\nWHERE price > 10 AND price < 20"
    )
    grouped = bid.filter(bid.price > 10).group_by(bid.auction).agg(n=f.count()).order_by("n").limit(3)
    assert grouped.to_sql() == (
        "SELECT auction, COUNT(*) AS n\nFROM bid\nWHERE price > 10\nGROUP BY auction\nORDER BY n\nLIMIT 3"
    )
    assert grouped.filter(col("n") > 1).to_sql().startswith("SELECT *\nFROM (\n  SELECT auction")


def test_columns_are_named_with_their_table_in_a_join_alone(connection: Connection, bid: Table) -> None:
    other = connection.table("shop", "bid")
    joined = bid.filter(bid.price > 1).join(other, bid.auction == other.auction).select(bid, other.price)
    assert joined.to_sql().splitlines()[-1] == "JOIN shop.bid ON t1.auction = bid.auction"
    assert joined.to_sql().splitlines()[0] == "SELECT t1.*, bid.price"
    again = bid.join(other, bid.auction == other.auction)
    assert again.to_sql().splitlines()[1:] == [
        "FROM bid",
        "JOIN shop.bid AS bid2 ON bid.auction = bid2.auction",
    ]


def test_values_are_literals(bid: Table) -> None:
    values = [
        None,
        True,
        -1,
        1.5,
        Decimal("1.50"),
        "it's",
        b"\x00",
        datetime.date(2026, 1, 2),
        datetime.timedelta(hours=1),
    ]
    assert bid.select(*map(lit, values)).to_sql().splitlines()[0] == (
        "SELECT NULL, TRUE, (-1), 1.5E0, 1.50, 'it''s', X'00', DATE '2026-01-02', INTERVAL '1' HOUR"
    )


def test_columns_that_methods_hide_are_there_by_their_names(bid: Table) -> None:
    assert bid.select(bid["select"], bid["filter"]).to_sql().startswith("SELECT `select`, filter\n")
    assert not hasattr(bid, "_repr_html_")
    assert copy.copy(bid).to_sql() == bid.to_sql()


def test_the_columns_of_a_query_are_told(bid: Table) -> None:
    counted = bid.group_by("auction").agg(n=f.count())
    assert counted.columns == ["auction", "n"]
    assert counted.schema() == [("auction", "BIGINT"), ("n", "BIGINT")]


def test_an_error_shows_the_place_in_sql_and_in_python(bid: Table) -> None:
    with pytest.raises(sqlstream.ProgrammingError) as raised:
        bid.filter(
            bid.auction > 1,
            bid.prise > 10,
        ).rows()
    lines = str(raised.value).splitlines()
    assert lines[:3] == [
        'error[SS2003]: column "prise" does not exist in table "bid"',
        "  3 | WHERE auction > 1 AND prise > 10",
        "    |                       ^^^^^",
    ]
    assert lines[3] == 'hint: did you mean "price"?'
    assert lines[4].startswith("in Python: test_tables.py, line ")
    assert lines[5].split("|")[1] == "             bid.prise > 10,"
    assert lines[6].split("|")[1] == "             ^^^^^^^^^"


def test_an_error_of_a_clause_shows_its_method(bid: Table) -> None:
    with pytest.raises(sqlstream.ProgrammingError, match=r"SS\d+") as raised:
        bid.join(bid.alias("b"), bid.auction + 1).rows()
    assert "bid.auction + 1" in str(raised.value).partition("in Python: ")[2]


def test_the_failure_of_a_job_shows_its_place_in_python(bid: Table) -> None:
    with pytest.raises(sqlstream.DatabaseError) as raised:
        bid.select(x=lit("x").cast("INT") + bid.price).rows()
    assert 'lit("x").cast("INT")' in str(raised.value).partition("in Python: ")[2]


Wrong = Callable[[Table], Any]
WRONG: dict[str, tuple[Wrong, str]] = {
    "a truth value": (lambda t: bool(t.price > 1), "no truth value in Python"),
    "a comparison in two steps": (lambda t: 1 < t.price < 2, "no truth value in Python"),
    "equality with None": (lambda t: t.price == None, "= NULL holds for no row"),  # noqa: E711
    "a value without a literal": (lambda t: t.price > object(), 'type "object" has no SQL literal'),
    "an empty list": (lambda t: t.price.is_in([]), "is_in takes a sequence"),
    "an empty name": (lambda t: t[""], "a name is a text that is not empty"),
    "half a character": (lambda t: t["\ud800"], "cannot be encoded"),
    "an alias within": (lambda t: t.price + t.price.alias("x"), "alias, asc and desc come last"),
    "a type that is none": (lambda t: t.price.cast("INT) --"), "SS1001"),
    "an expression that is none": (lambda t: expr("1) FROM t --"), "SS1001"),
    "a query that is none": (lambda t: t._connection.sql("SELECT 1; DROP TABLE t"), "SS1001"),
    "a unit that is none": (lambda t: f.floor(t.ts, "DAY)"), "is no word"),
    "a detail that is none": (lambda t: t.explain("STATE SELECT 1;"), "EXPLAIN has no"),
    "a function that is none": (lambda t: f.uper(t.price), "did you mean"),
    "a method that is none": (lambda t: t.fliter(t.price > 1), '"fliter" is a column, and no method of a table'),
    "no column": (lambda t: t.select(), "select takes a column at least"),
    "a number as a column": (lambda t: t.select(1), "a value of type int is no column"),
    "a join of no kind": (lambda t: t.join(t.alias("x"), t.price > 1, "outer"), "is no join"),
    "a join without condition": (lambda t: t.join(t.alias("x")), "needs a condition"),
    "a cross join with one": (lambda t: t.join(t.alias("x"), t.price > 1, "cross"), "takes no condition"),
    "a join with itself": (lambda t: t.join(t, t.price == t.price).to_sql(), "stands on several sides"),
    "a column of elsewhere": (lambda t: t.filter(t.alias("x").price > 1).to_sql(), 'column "price" is one of table "x"'),
    "an order that is lost": (lambda t: t.order_by("price").select("auction"), "the order of the rows would be lost"),
    "an order that is lost below": (lambda t: t.order_by("price").window(tumble("1 min")).to_sql(), "would be lost"),
    "a place that is none": (lambda t: t.top(0, by="price"), "top takes whole numbers from 1"),
    "no condition": (lambda t: t.filter(None), "None holds for no row"),
    "a batch that is none": (lambda t: t._connection.from_batches([{"a": 1}]), "not of the type dict"),
    "a column of no type": (
        lambda t: t._connection.from_batches(pa.table({"a": pa.nulls(1)})), 'column "a": there is no SQL type'),
    "two columns of one name": (
        lambda t: t._connection.from_batches(pa.record_batch([[1], [2]], names=["a", "a"])), "several columns a"),
    "a limit that is none": (lambda t: t.limit(-1), "whole numbers from 0"),
    "a length that is none": (lambda t: t.window(tumble("a while")), "is no length of time"),
    "a window of no row time": (lambda t: t._connection.table("timeless").window(tumble("1 min")), "there is none"),
    "a window of two row times": (
        lambda t: t.join(t.alias("b"), t.auction == t.auction).window(tumble("1 min")), "and there are several: ts, ts"),
    "a computed time": (lambda t: t.window(tumble("1 min", on=t.ts + datetime.timedelta(1))), "no computed value"),
    "a version of a query": (lambda t: t.filter(t.price > 1).as_of(t.ts), "as_of takes a table or view"),
    "a table function that is none": (lambda t: t.table_function("f(1) --"), "is no word"),
    "a step that makes no table": (lambda t: t.iterate(lambda r: None), "the step of an iteration returns a table"),
    "a step in an order": (lambda t: t.iterate(lambda r: r.order_by("price")), "would be lost"),
    "a name of four parts": (lambda t: t._connection.table("a", "b", "c", "d"), "named by catalog"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_has_no_meaning_is_refused_where_it_is_written(bid: Table, case: str) -> None:
    make, said = WRONG[case]
    with pytest.raises((sqlstream.Error, AttributeError)) as raised:
        make(bid)
    assert said in str(raised.value) or getattr(raised.value, "code", "").startswith(said)


def test_tables_of_two_connections_do_not_meet(bid: Table) -> None:
    with sqlstream.connect("embedded://") as other:
        there = other.table("bid").alias("there")
        for make in (
            lambda: bid.union(there),
            lambda: bid.join(there, "auction"),
            lambda: bid.iterate(lambda _: there),
            lambda: bid.filter(bid.auction.is_in(there.select("auction"))).to_sql(),
            lambda: bid.filter(sqlstream.exists(there)).to_sql(),
            lambda: bid.select(sqlstream.scalar(there.agg(n=f.count()))).to_sql(),
        ):
            with pytest.raises(sqlstream.ProgrammingError, match="of two connections"):
                make()


def test_columns_that_a_table_of_batches_has_not_are_named(connection: Connection, tmp_path: Path) -> None:
    feed = connection.feed("narrow", pa.schema([("n", pa.int64())]), directory=str(tmp_path / "feed"))
    wide = pa.record_batch({"n": [1], "more": [2], "most": [3]})
    for make in (
        lambda: feed.write(wide),
        lambda: connection.from_batches([wide.select(["n"]), wide], directory=str(tmp_path / "batches")),
    ):
        with pytest.raises(
            sqlstream.DataError, match="does not fit the table, which has no columns more, most"
        ) as refused:
            make()
        assert "hint: leave them out: batch.select(['n'])" in str(refused.value)


def test_writers_of_one_feed_lose_no_rows(connection: Connection, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    feeds = [
        connection.feed(name, schema, directory=str(tmp_path)) for name in ("one_writer", "another_writer")
    ]

    def write(number: int) -> None:
        for n in range(20):
            feeds[number % 2].write(pa.record_batch({"n": [number * 20 + n]}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = pq.read_table(tmp_path)["n"].to_pylist()
    assert sorted(found) == list(range(80))
    assert len(list(tmp_path.iterdir())) == 80


OVER_NAMES = {name.lower() for name in OVER_FUNCTIONS}
ARGUMENTS: dict[str, list[Any]] = {
    "extract": ["day", col("x")],
    "timestampadd": ["day", 1, col("x")],
    "timestampdiff": ["day", col("x"), col("x")],
    "trim": [col("x"), "y"],
    "overlay": ["a", "b", 1, 2],
    "position": ["a", "b"],
    "json_object": ["a", 1],
    "json_objectagg": ["a", 1],
}


@pytest.mark.parametrize("name", functions())
def test_every_function_is_called_in_a_form_of_sql(name: str) -> None:
    function = functions()[name]
    least = getattr(function, "args_min", function.usage.count(",") + ("()" not in function.usage))
    call = getattr(f, name)(*ARGUMENTS.get(name, [col("x")] * least))
    text = repr(call).split(" ", 1)[1][:-1]
    assert text.startswith(function.name)
    parse_expression(text if name not in OVER_NAMES else f"{text} OVER (ORDER BY x)")


def test_a_case_goes_on_and_ends(bid: Table) -> None:
    case = when(bid.price > 2, "a")
    assert bid.select(x=case.when(bid.price > 1, "b"), y=case.otherwise(bid.price)).to_sql().splitlines()[
        0
    ] == (
        "SELECT CASE WHEN price > 2 THEN 'a' WHEN price > 1 THEN 'b' END AS x, CASE WHEN price > 2 THEN 'a' ELSE price END AS y"
    )


def test_tables_that_are_joined_row_by_row_are_written_as_sql_has_them(
    connection: Connection, bid: Table
) -> None:
    rates = connection.table("rates", options={"lookup.cache": "FULL"}).alias("r")
    looked_up = bid.join(rates.as_of(bid.ts), bid.auction == rates.id, "left")
    assert looked_up.to_sql().splitlines()[2] == (
        "LEFT JOIN rates /*+ OPTIONS('lookup.cache' = 'FULL') */ FOR SYSTEM_TIME AS OF bid.ts AS r ON bid.auction = r.id"
    )
    held = connection.table("rates").snapshot("ts", load_completed_idle_timeout="10 s", state_ttl="1 h")
    assert bid.join(held, bid.auction == held.id).to_sql().splitlines()[2] == (
        "JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(ts), load_completed_idle_timeout => "
        "INTERVAL '10' SECOND, state_ttl => INTERVAL '1' HOUR) AS rates ON bid.auction = rates.id"
    )
    words = bid.join_rows(call(("d", "words"), bid["select"]), ["word"], alias="w", how="left").filter(
        col("word") == "a"
    )
    assert words.to_sql().splitlines()[1:] == [
        "FROM bid",
        "LEFT JOIN LATERAL TABLE(d.words(bid.`select`)) AS w(word) ON TRUE",
        "WHERE word = 'a'",
    ]
    for table in (looked_up, words):
        parse_statement(table.to_sql())
    parse_statement(bid.join(held, bid.auction == held.id).to_sql())


def test_a_table_function_has_columns_and_values(bid: Table) -> None:
    called = (
        bid.filter(bid.price > 1)
        .alias("dear")
        .table_function("Connected_Components", ["auction", bid["select"]], 3)
    )
    assert called.to_sql().splitlines()[1] == "FROM CONNECTED_COMPONENTS(TABLE ("
    assert called.to_sql().splitlines()[-1] == "), DESCRIPTOR(auction, `select`), 3) AS t1"


def test_an_iteration_within_a_step_has_a_name_of_its_own(bid: Table) -> None:
    query = bid.select("auction").iterate(
        lambda r: r.iterate(lambda s: s.filter(s.auction < 3)).filter(r.auction < 5), all=True
    )
    text = query.to_sql()
    assert text.count("WITH RECURSIVE iterated AS (") == text.count("WITH RECURSIVE iterated2 AS (") == 1
    parse_statement(text)
    assert query.columns == ["auction"]


def test_editors_are_told_of_every_name_of_the_package() -> None:
    stub = ast.parse((Path(sqlstream.__file__).parent / "__init__.pyi").read_text())
    told: set[str] = {"__version__"}
    for node in stub.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        names = [name.asname or name.name for name in node.names]
        told.update(importlib.import_module(str(node.module)).__all__ if names == ["*"] else names)
    assert told >= set(sqlstream.__all__)
    assert (Path(sqlstream.__file__).parent / "py.typed").exists()
