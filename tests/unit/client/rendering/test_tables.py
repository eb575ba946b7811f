"""Tables as wide as the terminal, and rows as blocks of lines."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.client.rendering.render import make_renderer
from sqlstream.client.rendering.tables import Look
from sqlstream.schema import Schema
from sqlstream.terminal_text import display_width

SCHEMA = Schema.of(
    ("n", sql.BIGINT), ("text", sql.STRING), ("d", sql.decimal(38, 2)), ("list", sql.array(sql.STRING))
)
BIG = {"n": 9223372036854775807, "text": "t" * 60, "d": Decimal("123456789012345678.25"), "list": ["x"] * 20}


def printed(rows: list[dict], name: str = "table", schema: Schema = SCHEMA, **options) -> list[str]:  # type: ignore[no-untyped-def, type-arg]
    out = io.StringIO()
    with_op, wraps = options.pop("with_op", False), options.pop("wraps", False)
    renderer = make_renderer(name, Look(schema, **options), with_op=with_op, wraps=wraps, out=out)
    for row in rows:
        renderer.write(pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(schema)))
    renderer.finish()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("with_op", [False, True])
@pytest.mark.parametrize("columns", [72, 80, 100, 130])
def test_long_values_give_way_until_the_table_fits_and_numbers_never(columns: int, with_op: bool) -> None:
    if with_op and columns < 100:
        columns += 30
    *lines, end = printed([BIG], columns=columns, with_op=with_op)
    assert max(map(len, lines)) <= columns
    assert "| 9223372036854775807 |" in lines[3].replace("  9223", " 9223")
    assert " 123456789012345678.25 |" in lines[3]
    assert lines[3].count("…") == 2
    assert "values cut" in end


def test_a_table_uses_the_room_that_there_is() -> None:
    lines = printed([BIG], columns=100)
    assert {len(line) for line in lines[:-1]} == {100}


def test_nothing_is_cut_where_there_is_no_terminal() -> None:
    for with_op in (False, True):
        lines = printed([BIG], with_op=with_op)
        assert "t" * 60 in lines[3]
        assert "…" not in "".join(lines)


def test_the_setting_cuts_texts_but_no_numbers() -> None:
    lines = printed([BIG], max_width=10)
    assert "| 9223372036854775807 | ttttttttt… |" in lines[3]


def test_a_table_that_cannot_fit_says_so() -> None:
    schema = Schema.of(*((f"c{i}", sql.BIGINT) for i in range(4)))
    row = {f"c{i}": -(2**63) for i in range(4)}
    assert (
        printed([row], schema=schema, columns=40)[-1]
        == "1 row in set, wider than the terminal (try --format vertical)"
    )


def test_a_long_name_gives_way_before_its_numbers() -> None:
    schema = Schema.of(("a_rather_long_name_of_a_column", sql.BIGINT))
    assert (
        printed([{"a_rather_long_name_of_a_column": 12}], schema=schema, columns=20)[1]
        == "| a_rather_long_n… |"
    )


def test_wide_and_combining_characters_keep_the_frame_straight() -> None:
    schema = Schema.of(("s", sql.STRING), ("n", sql.INT))
    rows = [{"s": "日本語", "n": 1}, {"s": "e\u0301te\u0301", "n": 2}, {"s": "plain", "n": 3}]
    lines = printed(rows, schema=schema)
    assert {display_width(line) for line in lines[:-1]} == {display_width(lines[0])}
    narrow = printed([{"s": "日本語の長いテキスト" * 3, "n": 1}], schema=schema, columns=24)
    assert {display_width(line) for line in narrow[:-1]} <= {23, 24}
    assert "日本" in narrow[3]


def test_answers_of_statements_go_on_in_the_next_line() -> None:
    schema = Schema.of(("name", sql.STRING), ("meaning", sql.STRING))
    lines = printed(
        [{"name": "f", "meaning": "many words that say it"}], schema=schema, columns=22, wraps=True
    )
    assert [line.split("|")[2].strip() for line in lines[3:-2]] == ["many words", "that say it"]
    assert lines[-1] == "1 row in set"


def test_an_empty_table_has_its_header() -> None:
    schema = Schema.of(("日", sql.STRING))
    assert printed([], schema=schema, columns=80) == ["+----+", "| 日 |", "+----+", "Empty set"]
    assert printed([], "vertical", schema) == ["Empty set"]


def test_vertical_shows_each_column_on_a_line_and_cuts_nothing() -> None:
    lines = printed([BIG, {**BIG, "text": "a\nb\x1b", "n": None}], "vertical", columns=20)
    assert lines[0] == "-[ row 1 ]-"
    assert lines[2] == f"text | {'t' * 60}"
    assert lines[5:8] == ["-[ row 2 ]-", "n    | <NULL>", "text | a\\nb\\x1b"]
    assert lines[-1] == "2 rows in set"
    assert printed([BIG], "vertical", with_op=True)[1] == "op   | +I"
