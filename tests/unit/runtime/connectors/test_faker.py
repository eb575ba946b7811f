"""The faker connector: values by expressions, the same whoever makes them, and refused where they do not fit."""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators.faker import Faker
from sqlstream.runtime.connectors.generators.faker_expressions import Reference, parse_expression, parse_regex
from sqlstream.runtime.connectors.generators.faker_fields import make_fields
from sqlstream.runtime.connectors.generators.faker_providers import Maker, pools
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.types import LogicalType

CONNECTOR = Faker()
NOW = 1_600_000_000_000
ROWS = 300


def made(expression: str, t: LogicalType = sql.STRING, **options: str) -> list[Any]:
    """The values of one column."""
    schema = Schema.of(("v", t))
    given_options = {"fields.v.expression": expression, **options}
    CONNECTOR.validate("t", schema, given_options)
    (column,) = make_fields(schema, given_options, 0)
    values = column.make(np.arange(ROWS, dtype=np.uint64), NOW)
    values.validate(full=True)
    assert values.type == to_arrow_schema(schema).field("v").type
    return list(values.to_pylist())


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("-", r"-"),
        ("/#{GreekPhilosopher.name}.html", r"/[A-Z][\w ]+\.html"),
        ("#{name.first_name} #{Name.lastName}", r"\w+ \w+"),
        ("#{Internet.UUID}", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
        ("#{Internet.publicIpV4Address}", r"(\d{1,3}\.){3}\d{1,3}"),
        ("#{internet.emailAddress}", r"[a-z.]+\d*@\w+\.com|[a-z.0-9]+@\w+\.com"),
        ("#{numerify 'user_##'}", r"user_\d\d"),
        ("#{letterify '??-ö'}", r"[a-z]{2}-ö"),
        ("#{letterify '??','true'}", r"[A-Z]{2}"),
        ("#{bothify '?#'}", r"[a-z]\d"),
        ("#{Options.option 'chrome', 'firefox', 'safari')}", r"chrome|firefox|safari"),
        ("#{regexify '(SZ|SH|BJ|HK)-[0-9]{6}'}", r"(SZ|SH|BJ|HK)-[0-9]{6}"),
        ("#{regexify '[\ud7ff-\uffff]{3}'}", r"[\ud7ff\ue000-\uffff]{3}"),
        (r"#{regexify '(/a\.html|b){1} [^a-z]x?[A-C\d]{2,4}\w+(?:q|[é€]){2}'}", None),
        ("#{number.numberBetween '5','8'}", r"[567]"),
        ("#{number.numberBetween '-5000','8000'}", r"-?\d{1,4}"),
        ("#{number.randomNumber '3','true'}", r"[1-9]\d\d"),
        ("#{number.digits '4'}", r"\d{4}"),
        ("#{number.randomDigitNotZero}#{Number.digit}", r"[1-9]\d"),
        ("#{commerce.price '1','2'}", r"1\.\d\d|2\.00"),
        ("#{lorem.words '2'}", r"\w+ \w+"),
        ("#{lorem.sentence '3'}", r"[A-Z]\w* \w+ \w+\."),
        ("#{lorem.paragraph '2'}", r"(\w+ ?)+\. (\w+ ?)+\."),
        ("#{lorem.characters '5'}", r"[a-z0-9]{5}"),
        ("#{internet.password '2','4'}", r"[a-z0-9]{2,4}"),
        ("#{bool.bool}", r"true|false|TRUE|FALSE"),
        ("#{date.past '5','DAYS'}", r"2020-09-(0[89]|1[0-3]) \d\d:\d\d:\d\d\.\d{3}"),
        ("#{date.birthday '1','2','yyyy'}", r"2018|2019"),
    ],
)
def test_texts_follow_their_expression(expression: str, pattern: str | None) -> None:
    if pattern is None:
        pattern = expression.removeprefix("#{regexify '").removesuffix("'}")
    wrong = [text for text in made(expression) if not re.fullmatch(pattern, text)]
    assert not wrong
    is_varied = expression != "-" and not pattern.startswith("1\\.")
    assert not is_varied or len(set(made(expression))) > 1


@pytest.mark.parametrize("name", [name for name, _ in pools().values()])
def test_every_pool_can_be_drawn_from(name: str) -> None:
    values = Maker("o", 0).typed(f"#{{{name}}}").generator.make(np.arange(64, dtype=np.uint64), NOW)
    assert len(values) == 64
    assert "#{" not in "".join(map(str, values.to_pylist()))
    assert len(set(values.to_pylist())) > 1


@pytest.mark.parametrize(
    ("expression", "t", "low", "high"),
    [
        ("#{number.numberBetween '-3','4'}", sql.TINYINT, -3, 3),
        ("#{number.numberBetween '0','20000000000'}", sql.BIGINT, 0, 19_999_999_999),
        ("#{number.numberBetween '0','2'}#{number.randomDigit}", sql.INT, 0, 19),
        ("#{number.randomDouble '2','1','150'}", sql.DOUBLE, 1.0, 150.0),
        ("#{number.randomDouble '2','1','150'}", sql.decimal(5, 2), Decimal(1), Decimal(150)),
        ("#{number.numberBetween '1','9'}.5", sql.FLOAT, 1.5, 8.5),
        ("#{commerce.price '3','7'}", sql.DOUBLE, 3.0, 7.0),
        ("#{options.option 'true','false'}", sql.BOOLEAN, False, True),
        ("2024-0#{number.numberBetween '1','9'}-05", sql.DATE, datetime.date(2024, 1, 5), datetime.date(2024, 8, 5)),
        ("1#{number.randomDigit}:00:00", sql.time(0), datetime.time(10), datetime.time(19)),
        ("#{numerify 'a#'}", sql.BYTES, b"a0", b"a9"),
    ],
)  # fmt: skip
def test_values_have_the_type_of_their_column(expression: str, t: LogicalType, low: Any, high: Any) -> None:
    values = made(expression, t)
    assert low <= min(values)
    assert max(values) <= high
    assert len(set(values)) > 1


@pytest.mark.parametrize("t", [sql.timestamp(3), sql.timestamp(9), sql.timestamp_ltz(3)])
@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        ("#{date.past '15','SECONDS'}", -15_000, 0),
        ("#{date.past '15','5','SECONDS'}", -15_000, -5_000),
        ("#{date.past '5','15','seconds'}", -15_000, -5_000),
        ("#{date.future '2','HOURS'}", 0, 7_200_000),
        ("#{date.between '2020-09-13 12:26:39','2020-09-13 12:26:41'}", -1_000, 1_000),
    ],
)
def test_moments_are_relative_to_now(t: LogicalType, expression: str, low: int, high: int) -> None:
    schema = Schema.of(("v", t))
    (column,) = make_fields(schema, {"fields.v.expression": expression}, 0)
    values = column.make(np.arange(ROWS, dtype=np.uint64), NOW)
    distances = [v // 1 - NOW for v in values.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()]
    assert low <= min(distances) < (low + high) / 2 < max(distances) <= high


def test_collections_have_their_length_and_elements() -> None:
    schema = Schema.of(
        ("a", sql.array(sql.INT)),
        ("m", sql.map_of(sql.STRING, sql.INT)),
        ("bag", sql.multiset(sql.STRING)),
        ("r", sql.row(("x", sql.STRING), ("y", sql.row(("z", sql.BIGINT))))),
        ("rows", sql.array(sql.row(("k", sql.STRING)))),
    )
    options = {
        "fields.a.expression": "#{number.randomDigit}",
        "fields.a.length": "3",
        "fields.m.key.expression": "#{options.option 'k','l'}",
        "fields.m.value.expression": "7",
        "fields.m.length": "4",
        "fields.bag.expression": "#{options.option 'x','y'}",
        "fields.bag.length": "5",
        "fields.r.x.expression": "#{harry_potter.house}",
        "fields.r.y.z.expression": "#{number.numberBetween '1','3'}",
        "fields.rows.element.k.expression": "#{color.name}",
    }
    CONNECTOR.validate("t", schema, options)
    columns = [c.make(np.arange(ROWS, dtype=np.uint64), NOW) for c in make_fields(schema, options, 0)]
    assert [c.type for c in columns] == to_arrow_schema(schema).types
    for column in columns:
        column.validate(full=True)
    a, m, bag, r, rows = (c.to_pylist() for c in columns)
    assert {len(v) for v in a} == {3}
    assert {frozenset(dict(v)) for v in m} == {frozenset("k"), frozenset("l"), frozenset("kl")}
    assert {sum(dict(v).values()) for v in bag} == {5}
    assert {len(v) for v in bag} == {1, 2}
    assert {v["y"]["z"] for v in r} == {1, 2}
    assert {len(v) for v in rows} == {1}


def test_a_part_is_null() -> None:
    values = made("x", **{"fields.v.null-rate": "0.5"})
    assert 100 < values.count(None) < 200


# Who makes the rows.


SCHEMA = Schema.of(("n", sql.BIGINT), ("s", sql.STRING), ("tags", sql.array(sql.STRING)))
OPTIONS = {
    "number-of-rows": "150",
    "fields.n.expression": "#{number.numberBetween '0','1000000000'}",
    "fields.s.expression": "#{company.name} #{regexify '[a-f]{1,3}'}",
    "fields.tags.expression": "#{color.name}",
    "fields.tags.length": "2",
}


def _context(subtask: int, parallelism: int, batch_rows: int, clock: list[int]) -> ConnectorContext:
    return ConnectorContext(
        job_id="job",
        vertex_id="vertex",
        subtask=subtask,
        parallelism=parallelism,
        attempt=0,
        batch_rows=batch_rows,
        config={},
        now_ms=lambda: clock[0],
        count=lambda name, n: None,
        files=None,  # type: ignore[arg-type]
    )


def _rows(parallelism: int, batch_rows: int, stop_after: int = 10**9, **changed: str) -> list[dict[str, Any]]:
    """All rows, by readers that begin anew from their snapshot after some batches."""
    rows: list[dict[str, Any]] = []
    spec = SourceSpec("t", "faker", {**OPTIONS, **changed}, SCHEMA, SCHEMA.names)
    for subtask in range(parallelism):
        clock, polls = [NOW], 0
        reader = CONNECTOR.source(spec, _context(subtask, parallelism, batch_rows, clock), None)
        while (polled := reader.poll()) is not SourceStatus.END:
            if isinstance(polled, pa.RecordBatch):
                rows += polled.to_pylist()
            clock[0] += 1_000
            polls += 1
            if polls % stop_after == 0:
                context = _context(subtask, parallelism, batch_rows, clock)
                reader = CONNECTOR.source(spec, context, reader.snapshot())
    return sorted(rows, key=lambda row: (row["n"], row["s"]))


@given(st.integers(1, 3), st.integers(1, 60), st.integers(20, 60))
@settings(max_examples=5, deadline=None, database=None)
def test_rows_do_not_depend_on_readers_batches_or_restarts(
    parallelism: int, batch_rows: int, stop_after: int
) -> None:
    assert _rows(parallelism, batch_rows, stop_after) == _rows(1, 1000)


def test_another_seed_gives_other_rows() -> None:
    one, other = _rows(1, 1000), _rows(1, 1000, seed="2")
    assert len(one) == len(other) == 150
    assert not {r["n"] for r in one} & {r["n"] for r in other}


def test_a_table_without_a_number_of_rows_has_no_end() -> None:
    bounded = CONNECTOR.descriptor.reading.boundedness
    assert bounded.is_bounded({"number-of-rows": "0"})
    assert not bounded.is_bounded({})
    assert not bounded.is_bounded({"number-of-rows": "-1"})
    assert _rows(1, 10, **{"number-of-rows": "0"}) == []


def test_a_lookup_makes_one_row_for_each_key() -> None:
    spec = SourceSpec("t", "faker", OPTIONS, SCHEMA, ("s", "n"))
    source = CONNECTOR.lookup_source(spec, ("n",), _context(0, 1, 100, [NOW]))
    keys = pa.RecordBatch.from_pydict({"n": pa.array([3, 1, 7], pa.int64())})
    found = source.lookup(keys).to_pylist()
    assert [row["n"] for row in found] == [3, 1, 7]
    assert len({row["s"] for row in found}) == 3
    assert source.lookup(keys.slice(1, 1)).to_pylist() == found[1:2]


# What is refused.


@pytest.mark.parametrize(
    ("options", "t", "code", "said"),
    [
        ({}, "INT", "SS4005", "has no expression"),
        ({"expression": "#{adress.city}"}, "STRING", "SS4002", "address.city"),
        ({"expression": "#{name.fulName}"}, "STRING", "SS4002", "name.fullName"),
        ({"expression": "#{color.name 'red'}"}, "STRING", "SS4002", "takes no arguments"),
        ({"expression": "#{name.fullName"}, "STRING", "SS4002", "no closing brace"),
        ({"expression": "#{numerify ##}"}, "STRING", "SS4002", "in quotes"),
        ({"expression": "#{}"}, "STRING", "SS4002", "comes the name"),
        ({"expression": "#{regexify '(a'}"}, "STRING", "SS4002", "ends too early"),
        ({"expression": "#{regexify '[a-\\d]'}"}, "STRING", "SS4002", "has no character"),
        ({"expression": "#{regexify '[b-a]'}"}, "STRING", "SS4002", "has no character"),
        ({"expression": "#{regexify 'a{3,2}'}"}, "STRING", "SS4002", "count upwards"),
        ({"expression": "#{regexify '((a{99}){99}){99}'}"}, "STRING", "SS4002", "more than 10000"),
        ({"expression": "#{regexify '(a|bb){999}'}"}, "STRING", "SS4002", "parts are too many"),
        ({"expression": "#{regexify '" + "(" * 99 + "'}"}, "STRING", "SS4002", "in each other"),
        ({"expression": "#{regexify '*'}"}, "STRING", "SS4002", "repeats nothing"),
        ({"expression": "#{regexify 'a)'}"}, "STRING", "SS4002", "closes nothing"),
        ({"expression": "#{number.numberBetween '1'}"}, "INT", "SS4002", "2 arguments"),
        ({"expression": "#{number.numberBetween '1','x'}"}, "INT", "SS4002", "whole numbers"),
        ({"expression": "#{number.numberBetween '2','1'}"}, "INT", "SS4002", "no number from"),
        ({"expression": "#{number.numberBetween '0','20000000000'}"}, "INT", "SS4002", "beyond INT"),
        ({"expression": "#{number.randomDouble '20','0','1'}"}, "DOUBLE", "SS4002", "go together"),
        ({"expression": "#{date.past '1','FORTNIGHTS'}"}, "STRING", "SS4002", "SECONDS"),
        ({"expression": "#{date.past '1000000','DAYS'}"}, "STRING", "SS4002", "years away"),
        ({"expression": "#{date.past '1','DAYS','bbb'}"}, "STRING", "SS4002", "no pattern"),
        ({"expression": "#{date.between 'a','b'}"}, "STRING", "SS4002", "no moment"),
        ({"expression": "#{date.past '1','DAYS'}"}, "INT", "SS4002", "are no INT"),
        ({"expression": "#{color.name}"}, "INT", "SS4002", "are no INT"),
        ({"expression": "#{json 'a'}"}, "STRING", "SS4002", "names and values"),
        ({"expression": "#{jsona '1','a'}"}, "STRING", "SS4002", "a value for each field"),
        ({"expression": "#{jsona '99','a','b'}"}, "STRING", "SS4002", "too long"),
        ({"expression": "#{jsona 'x','a','b'}"}, "STRING", "SS4002", "whole numbers"),
        ({"expression": "a", "null-rate": "2"}, "STRING", "SS4002", "cannot be 2"),
        ({"expression": "a", "length": "2"}, "STRING", "SS4003", "no use"),
        ({"expression": "1", "length": "-1"}, "ARRAY<INT>", "SS4002", "cannot be -1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], t: str, code: str, said: str) -> None:
    types = {"INT": sql.INT, "STRING": sql.STRING, "DOUBLE": sql.DOUBLE, "ARRAY<INT>": sql.array(sql.INT)}
    written = {f"fields.v.{name}": value for name, value in options.items()}
    with pytest.raises(UserError) as caught:
        CONNECTOR.validate("t", Schema.of(("v", types[t])), written)
    assert caught.value.code == code
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_documents_hold_texts_lists_and_each_other() -> None:
    inner = "#{json 'address','a \\ \"b\"'}".replace("'", "''")
    expression = (
        f"#{{jsona '-1','id','7','-1', 'name','#{{regexify ''(x|y)''}}','2','all','{inner}','0','none',''}}"
    )
    spec = SourceSpec(
        "t",
        "faker",
        {"fields.v.expression": expression, "number-of-rows": "9"},
        Schema.of(("v", sql.STRING)),
        ("v",),
    )
    reader = CONNECTOR.source(spec, _context(0, 1, 100, [NOW]), None)
    found = [json.loads(text) for text in reader.poll().column(0).to_pylist()]
    assert {document["name"] for document in found} == {"x", "y"}
    address = {"address": 'a \\ "b"'}
    assert all(d == {"id": "7", "name": d["name"], "all": [address, address], "none": []} for d in found)


def test_expressions_of_computed_columns_have_no_effect() -> None:
    options = {
        "fields.v.expression": "a",
        "fields.computed.expression": "#{no.such}",
        "fields.computed.length": "3",
    }
    CONNECTOR.validate("t", Schema.of(("v", sql.STRING)), options)


def test_a_whole_table_cannot_be_loaded() -> None:
    with pytest.raises(UserError) as caught:
        CONNECTOR.validate(
            "t", Schema.of(("v", sql.STRING)), {"fields.v.expression": "a", "lookup.cache": "FULL"}
        )
    assert caught.value.code == "SS4003"


@given(st.text(alphabet="#{}' .,ab|1", max_size=12))
@settings(max_examples=100, deadline=None, database=None)
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    try:
        parts = parse_expression(text)
    except ValueError:
        return
    assert "#{" in text or parts == [text] * bool(text)
    assert all(isinstance(part, str | Reference) for part in parts)


@given(st.text(alphabet="()[]{}|?*+-^\\ab12,.", max_size=10))
@settings(max_examples=200, deadline=None, database=None)
def test_what_a_regular_expression_makes_matches_it(text: str) -> None:
    try:
        node = parse_regex(text)
        matching = re.compile(text.translate({ord("^"): None}))
    except (ValueError, re.error):
        return
    if "^" in text or re.search(r"\\[12ab]|[*+?}]\+", text):
        return
    try:
        values = Maker("o", 0).pattern(node).make(np.arange(5, dtype=np.uint64), NOW).to_pylist()
    except UserError:
        return
    assert [v for v in values if not matching.fullmatch(v)] == []
