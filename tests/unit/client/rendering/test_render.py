"""How rows are printed."""

from __future__ import annotations

import datetime
import io
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.client.rendering.render import make_renderer
from sqlstream.client.rendering.sql_text import sql_texts
from sqlstream.client.rendering.table_layout import cut
from sqlstream.client.rendering.tables import Look
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

ROWS = [{"b": True, "f": 1.5}, {"b": None, "f": 1e7}, None]
FIELDS = sql.row(("b", sql.BOOLEAN), ("f", sql.DOUBLE))


@pytest.mark.parametrize(
    ("type_", "values", "texts"),
    [
        (
            sql.timestamp(3),
            [datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1)],
            ["9999-12-31 00:00:00.000", "0001-01-01 00:00:00.000"],
        ),
        (sql.time(0), [datetime.time(10, 11, 12)], ["10:11:12"]),
        (sql.INTERVAL_DAY_TIME, [datetime.timedelta(hours=-25), None], ["-1 01:00:00.000", None]),
        (sql.DOUBLE, [1.0, float("nan"), 1e20], ["1.0", "NaN", "1.0E20"]),
        (FIELDS, ROWS, ["(TRUE, 1.5)", "(NULL, 1.0E7)", None]),
        (sql.array(FIELDS), [ROWS, [], None], ["[(TRUE, 1.5), (NULL, 1.0E7), NULL]", "[]", None]),
        (
            sql.map_of(sql.STRING, sql.DATE),
            [[("a", datetime.date(2020, 1, 2))], []],
            ["{a=2020-01-02}", "{}"],
        ),
        (sql.BYTES, [b"\x00\xff", None], ["x'00ff'", None]),
    ],
)
def test_values_are_printed_as_sql_casts_them(type_: LogicalType, values: list, texts: list) -> None:
    column = pa.array([values[0], *values], to_arrow_type(type_)).slice(1)
    assert sql_texts(column, type_, "UTC").to_pylist() == texts


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("table", "| [NULL, <NULL>] | (<NULL>) | {k=<NULL>} |"),
        ("vertical", "a | [NULL, <NULL>]\nr | (<NULL>)\nm | {k=<NULL>}\n"),
        ("json", '{"a":["NULL",null],"r":{"s":null},"m":{"k":null}}'),
        ("csv", '"[NULL, NULL]",(NULL),{k=NULL}\n'),
    ],
)
def test_a_null_within_a_value_differs_from_its_text_where_people_read_and_in_json(
    name: str, shown: str
) -> None:
    schema = Schema.of(
        ("a", sql.array(sql.STRING)),
        ("r", sql.row(("s", sql.STRING))),
        ("m", sql.map_of(sql.STRING, sql.STRING)),
    )
    assert shown in rendered(name, schema, [{"a": ["NULL", None], "r": {"s": None}, "m": {"k": None}}])


def test_local_times_are_printed_in_the_zone_of_the_session() -> None:
    column = pa.array([0], pa.int64()).cast(to_arrow_type(sql.timestamp_ltz(3)))
    assert sql_texts(column, sql.timestamp_ltz(3), "Asia/Tokyo").to_pylist() == ["1970-01-01 09:00:00.000"]


def test_json_lines_hold_nested_values_and_no_invalid_numbers() -> None:
    schema = Schema.of(("x", sql.DOUBLE), ("i", sql.INTERVAL_DAY_TIME), ("m", sql.map_of(sql.INT, sql.DATE)))
    columns = [[float("inf")], [datetime.timedelta(days=1)], [[(1, datetime.date(2020, 1, 2))]]]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, to_arrow_type(t)) for c, t in zip(columns, schema.types, strict=True)],
        names=schema.names,
    )
    out = io.StringIO()
    renderer = make_renderer("json", Look(schema, max_width=30), with_op=True, out=out)
    renderer.write(batch)
    assert out.getvalue() == '{"op":"+I","x":"Infinity","i":"+1 00:00:00.000","m":{"1":"2020-01-02"}}\n'


def rendered(name: str, schema: Schema, rows: list[dict], **options: bool) -> str:  # type: ignore[type-arg]
    out = io.StringIO()
    renderer = make_renderer(name, Look(schema, max_width=30), with_op=options.get("with_op", False), out=out)
    if rows:
        renderer.write(pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema)))
    renderer.finish()
    return out.getvalue()


@pytest.mark.parametrize("name", ["json", "csv", "arrow", "table"])
def test_whoever_reads_along_has_each_batch_and_the_end_at_once(name: str) -> None:
    schema = Schema.of(("x", sql.INT))
    read = io.BytesIO()
    out = io.TextIOWrapper(io.BufferedWriter(_Kept(read)))
    renderer = make_renderer(name, Look(schema, max_width=30), with_op=False, out=out)
    renderer.write(pa.RecordBatch.from_pylist([{"x": 7}], schema=to_arrow_schema(schema)))
    first = read.getvalue()
    assert (b"7" in first or b"\7" in first) is (name != "table")
    renderer.finish()
    ended = read.getvalue()
    out.flush()
    assert read.getvalue() == ended


class _Kept(io.RawIOBase):
    """What is written reaches a buffer that outlives it."""

    def __init__(self, kept: io.BytesIO) -> None:
        self._kept = kept

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._kept.write(bytes(data))


NOON = datetime.datetime(2020, 1, 2, 12)


@pytest.mark.parametrize(
    ("precision", "time", "moment"),
    [(0, "12:00:00", "2020-01-02 12:00:00"), (2, "12:00:00.00", "2020-01-02 12:00:00.00")],
)
def test_every_text_shows_as_many_digits_of_a_second_as_the_type_has(
    precision: int, time: str, moment: str
) -> None:
    schema = Schema.of(("t", sql.time(precision)), ("ts", sql.timestamp(precision)))
    rows = [{"t": NOON.time(), "ts": NOON}]
    assert rendered("json", schema, rows) == f'{{"t":"{time}","ts":"{moment}"}}\n'
    assert rendered("csv", schema, rows) == f"t,ts\n{time},{moment}\n"
    assert f"| {time} | {moment} |" in " ".join(rendered("table", schema, rows).split())


def test_csv_tells_null_from_the_empty_text() -> None:
    schema = Schema.of(("s", sql.STRING))
    assert rendered("csv", schema, [{"s": None}, {"s": ""}, {"s": "x,y"}]) == 's\n\n""\n"x,y"\n'


@pytest.mark.parametrize("name", ["json", "csv", "arrow"])
def test_a_column_op_is_refused_where_a_program_would_take_it_for_the_kind(name: str) -> None:
    schema = Schema.of(("v", sql.INT), ("op", sql.STRING))
    with pytest.raises(UserError, match='cannot carry column "op"') as refused:
        make_renderer(name, Look(schema, max_width=30), with_op=True)
    assert "with AS" in refused.value.hint
    make_renderer(name, Look(schema, max_width=30), with_op=False, out=io.TextIOWrapper(io.BytesIO()))


def test_a_table_shows_the_kind_and_a_column_op_side_by_side() -> None:
    schema = Schema.of(("op", sql.STRING))
    lines = rendered("table", schema, [{"op": "x"}], with_op=True).splitlines()
    assert [cell.strip() for cell in lines[1].split("|")] == ["", "op", "op", ""]
    assert [cell.strip() for cell in lines[3].split("|")] == ["", "+I", "x", ""]


@pytest.mark.parametrize("with_op", [False, True])
def test_control_characters_are_shown_and_not_obeyed(with_op: bool) -> None:
    schema = Schema.of(("s", sql.STRING))
    text = rendered("table", schema, [{"s": "a\tb\nc\x1b[2J"}], with_op=with_op)
    assert " a\\tb\\nc\\x1b[2J " in text
    assert "\x1b" not in text
    assert "cut" not in text


@pytest.mark.parametrize(
    ("text", "width", "cell"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("日本語", 6, "日本語"),
        ("日本語!", 6, "日本…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
    ],
)
def test_a_cell_is_cut_to_the_columns_that_it_takes(text: str, width: int, cell: str) -> None:
    assert cut(text, width) == cell


@pytest.mark.parametrize("with_op", [False, True])
def test_a_table_with_a_cut_value_says_so_at_its_end(with_op: bool) -> None:
    schema = Schema.of(("s", sql.STRING))
    hint = ", some values cut (--format vertical shows them whole)\n"
    assert rendered("table", schema, [{"s": "x" * 31}], with_op=with_op).endswith(hint)
    assert not rendered("table", schema, [{"s": "x" * 29 + "…"}], with_op=with_op).endswith(hint)
