"""Values of every type as each renderer writes them, whole and in slices, with kinds of changes and in little room."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.client.rendering.render import make_renderer
from sqlstream.client.rendering.tables import Look
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

GOLDEN = Path(__file__).parent / "renderings.out"
MOMENT = datetime.datetime(1999, 12, 31, 23, 59, 59, 123456)
ROW = sql.row(("x", sql.INT), ("y", sql.STRING))
VALUES: list[tuple[str, LogicalType, list[Any]]] = [
    ("truth", sql.BOOLEAN, [True, False]),
    ("tiny", sql.TINYINT, [-128, 127]),
    ("big", sql.BIGINT, [-(2**63), 2**63 - 1]),
    ("single", sql.FLOAT, [1.5, float("nan")]),
    ("double", sql.DOUBLE, [1e-7, float("-inf")]),
    ("money", sql.decimal(10, 2), [Decimal("-0.05"), Decimal("12345678.90")]),
    ("fixed", sql.char(3), ["a  ", "日本語"]),
    ("text", sql.STRING, ["", 'say "x", \t\\ \x1b[31m\n<é>']),
    ("bytes", sql.BYTES, [b"", b"\x00\xff"]),
    ("day", sql.DATE, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    ("clock", sql.time(3), [datetime.time(0), datetime.time(23, 59, 59, 123000)]),
    ("moment0", sql.timestamp(0), [MOMENT.replace(microsecond=0), datetime.datetime(1, 1, 1)]),
    ("moment6", sql.timestamp(6), [MOMENT, datetime.datetime(9999, 12, 31)]),
    ("local3", sql.timestamp_ltz(3), [MOMENT.replace(microsecond=123000), datetime.datetime(2024, 7, 1)]),
    ("months", sql.INTERVAL_YEAR_MONTH, [-14, 25]),
    ("days", sql.INTERVAL_DAY_TIME, [datetime.timedelta(-1, 1, 5000), datetime.timedelta(100)]),
    ("list", sql.array(sql.INT), [[1, None, 3], []]),
    ("lists", sql.array(sql.array(sql.STRING)), [[["a"], None, []], [[None]]]),
    ("map", sql.map_of(sql.STRING, sql.DOUBLE), [[("k", 1.0), ("l", None)], []]),
    ("bag", sql.multiset(sql.STRING), [[("k", 2)], [("l", 1), ("m", 3)]]),
    ("row", ROW, [{"x": 1, "y": "a"}, {"x": None, "y": None}]),
    ("rows", sql.array(ROW), [[{"x": 1, "y": "a"}, None], []]),
    ("nothing", sql.NULL, [None, None]),
]
NARROW = (("n", sql.BIGINT), ("text", sql.STRING), ("list", sql.array(sql.INT)))
LONG = "the quick brown fox 日本語日本語 jumps"


def batch(schema: Schema, columns: list[list[Any]]) -> pa.RecordBatch:
    """The rows between others, so that all buffers have an offset."""
    arrow = to_arrow_schema(schema)
    arrays = [pa.array([*c[:1], *c, *c[:1]], t) for c, t in zip(columns, arrow.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow).slice(1, len(columns[0]))


def with_kinds(rows: pa.RecordBatch, *kinds: int) -> pa.RecordBatch:
    return rows.append_column(ROW_KIND_COLUMN, pa.array(kinds, pa.int8()))


def rendered(name: str, schema: Schema, batches: list[pa.RecordBatch], **options: Any) -> str:
    out = io.StringIO()
    with_op, wraps = options.pop("with_op", False), options.pop("wraps", False)
    renderer = make_renderer(
        name,
        Look(schema, **options),
        with_op=with_op,
        wraps=wraps,
        out=out,
    )
    for rows in batches:
        renderer.write(rows)
    renderer.finish()
    return out.getvalue()


def values() -> Iterator[str]:
    for name, type_, pair in VALUES:
        schema = Schema.of((name, type_))
        whole = batch(schema, [[*pair, None]])
        for kind in ("json", "csv", "vertical", "table"):
            yield f"-- {name} {type_} as {kind}\n{rendered(kind, schema, [whole], time_zone='Europe/Berlin')}"


def layouts() -> Iterator[str]:
    schema = Schema.of(*NARROW)
    first = batch(schema, [[1, None, 3], [LONG, "", None], [list(range(9)), None, []]])
    second = batch(schema, [[2**40], ["x\ny"], [[None]]])
    changes = [with_kinds(first, 0, 1, 2), with_kinds(second, 3)]
    for options in (
        {}, {"max_width": 8}, {"columns": 40}, {"columns": 24}, {"columns": 12}, {"columns": 40, "wraps": True},
        {"columns": 24, "max_width": 10}, {"wraps": True, "max_width": 12},
    ):  # fmt: skip
        for kind in ("table", "vertical"):
            shown = " ".join(f"{key}={value}" for key, value in options.items())
            yield f"-- {kind} {shown}\n{rendered(kind, schema, [first, second], **options)}"
            yield f"-- changes in {kind} {shown}\n{rendered(kind, schema, changes, with_op=True, **options)}"
    for kind in ("json", "csv"):
        yield f"-- changes as {kind}\n{rendered(kind, schema, changes, with_op=True)}"
    for kind in ("json", "csv", "vertical", "table"):
        yield f"-- no rows as {kind}\n{rendered(kind, schema, [])}"
        yield f"-- no changes as {kind}\n{rendered(kind, schema, [], with_op=True)}"


def test_every_type_and_layout_looks_as_in_the_golden_file(golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN, "\n".join((*values(), *layouts())))


def test_an_arrow_stream_holds_the_rows_and_their_kinds() -> None:
    schema = Schema.of(*((name, type_) for name, type_, _ in VALUES))
    rows = batch(schema, [[*pair, None] for *_, pair in VALUES])
    for changes, wanted in ((rows, None), (with_kinds(rows, 0, 3, 2), ["+I", "-D", "+U"])):
        out = io.TextIOWrapper(io.BytesIO())
        renderer = make_renderer("arrow", Look(schema), with_op=wanted is not None, out=out)
        renderer.write(changes)
        renderer.finish()
        out.flush()
        table = pa.ipc.open_stream(out.buffer.getvalue()).read_all()  # type: ignore[attr-defined]
        if wanted is not None:
            assert table.column("op").to_pylist() == wanted
        assert str(table.select(rows.schema.names).to_pylist()) == str(rows.to_pylist())
