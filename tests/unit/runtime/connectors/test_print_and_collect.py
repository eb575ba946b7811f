"""The sinks without files: what print writes, what collect hands on, what blackhole takes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.connectors import connector, descriptors
from sqlstream.runtime.formats import descriptors as format_descriptors
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.connector import ConnectorContext

SCHEMA = Schema.of(("k", sql.INT), ("v", sql.STRING))


class Client:
    def __init__(self) -> None:
        self.lines: list[tuple[str, bool]] = []
        self.rows: list[pa.RecordBatch] = []

    def context(self, subtask: int = 0, parallelism: int = 1) -> ConnectorContext:
        return ConnectorContext(
            job_id="job",
            vertex_id="vertex",
            subtask=subtask,
            parallelism=parallelism,
            attempt=0,
            batch_rows=100,
            config={},
            now_ms=lambda: 0,
            count=lambda name, n: None,
            files=None,
            emit_result=self.rows.append,
            print_lines=lambda lines, is_error: self.lines.extend((line, is_error) for line in lines),
        )


def batch(rows: list[dict[str, Any]], schema: Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema))


def printed(
    rows: pa.RecordBatch, schema: Schema = SCHEMA, subtask: int = 0, parallelism: int = 1, **options: str
) -> list[tuple[str, bool]]:
    client = Client()
    spec = SinkSpec("t", "print", {k.replace("_", "-"): v for k, v in options.items()}, schema)
    writer = connector("print").sink(spec, ChangelogMode.RETRACT, client.context(subtask, parallelism))
    writer.write(rows)
    assert writer.prepare_commit(LAST_CHECKPOINT_ID) == []
    return client.lines


@pytest.mark.parametrize(
    ("options", "subtask", "parallelism", "expected"),
    [
        ({}, 0, 1, "+I[1, a]"),
        ({}, 1, 2, "2> +I[1, a]"),
        ({"print_identifier": "late"}, 0, 1, "late> +I[1, a]"),
        ({"print_identifier": "late"}, 1, 2, "late:2> +I[1, a]"),
    ],
)
def test_lines_name_identifier_and_subtask(
    options: dict[str, str], subtask: int, parallelism: int, expected: str
) -> None:
    lines = printed(batch([{"k": 1, "v": "a"}]), subtask=subtask, parallelism=parallelism, **options)
    assert lines == [(expected, False)]


def test_errors_go_to_standard_error() -> None:
    assert printed(batch([{"k": 1, "v": None}]), standard_error="true") == [("+I[1, null]", True)]


def test_row_kinds_are_printed() -> None:
    rows = with_row_kinds(batch([{"k": i, "v": "x"} for i in range(4)]), pa.array([0, 1, 2, 3]).to_numpy())
    assert [line for line, _ in printed(rows)] == ["+I[0, x]", "-U[1, x]", "+U[2, x]", "-D[3, x]"]


@pytest.mark.parametrize(
    ("t", "value", "text"),
    [
        (sql.BOOLEAN, True, "true"),
        (sql.DOUBLE, 1.0, "1.0"),
        (sql.DOUBLE, 0.1, "0.1"),
        (sql.DOUBLE, 1e20, "1.0E20"),
        (sql.DOUBLE, float("nan"), "NaN"),
        (sql.DOUBLE, float("-inf"), "-Infinity"),
        (sql.decimal(5, 2), Decimal("1.50"), "1.50"),
        (sql.DATE, datetime.date(2020, 1, 2), "2020-01-02"),
        (sql.timestamp(3), datetime.datetime(2020, 1, 2, 3, 4, 5, 6000), "2020-01-02T03:04:05.006"),
        (sql.timestamp(0), datetime.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02T03:04:05"),
        (
            sql.timestamp_ltz(3),
            datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
            "2020-01-02T00:00:00.000Z",
        ),
        (sql.BYTES, b"\x01\xff", "[1, -1]"),
        (sql.array(sql.INT), [1, None], "[1, null]"),
        (sql.map_of(sql.STRING, sql.INT), [("a", 1), ("b", None)], "{a=1, b=null}"),
        (sql.multiset(sql.STRING), [("a", 2)], "{a=2}"),
        (sql.row(("x", sql.INT), ("y", sql.array(sql.STRING))), {"x": 1, "y": ["z"]}, "+I[1, [z]]"),
    ],
)
def test_values_are_printed_by_type(t: sql.LogicalType, value: Any, text: str) -> None:
    schema = Schema.of(("v", t))
    lines = printed(batch([{"v": value}, {"v": None}, {"v": value}], schema).slice(1), schema)
    assert [line for line, _ in lines] == ["+I[null]", f"+I[{text}]"]


def test_collect_hands_on_batches_with_their_row_kinds() -> None:
    client = Client()
    rows = with_row_kinds(batch([{"k": 1, "v": "a"}]), pa.array([2]).to_numpy())
    writer = connector("collect").sink(
        SinkSpec("t", "collect", {}, SCHEMA), ChangelogMode.RETRACT, client.context()
    )
    writer.write(rows)
    writer.write(rows.slice(1))
    assert writer.prepare_commit(LAST_CHECKPOINT_ID) == []
    assert client.rows == [rows]


def test_blackhole_takes_upserts_and_keeps_nothing() -> None:
    descriptor = connector("blackhole").descriptor
    assert (descriptor.writing.mode, descriptor.writing.takes_upserts) == (ChangelogMode.RETRACT, True)
    client = Client()
    spec = SinkSpec("t", "blackhole", {}, SCHEMA)
    writer = connector("blackhole").sink(spec, ChangelogMode.UPSERT, client.context())
    writer.write(batch([{"k": 1, "v": "a"}]))
    assert writer.prepare_commit(LAST_CHECKPOINT_ID) == []
    assert (client.lines, client.rows) == ([], [])


@pytest.mark.parametrize("identifier", ["print", "collect", "blackhole"])
def test_sinks_cannot_be_read(identifier: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        connector(identifier).source(
            SourceSpec("t", identifier, {}, SCHEMA, ("k",)), Client().context(), None
        )


def test_every_entry_is_registered_under_its_own_name() -> None:
    assert all(key == d.identifier for key, d in descriptors().items())


def test_defaults_of_options_are_among_their_choices() -> None:
    options = [o for d in (*descriptors().values(), *format_descriptors().values()) for o in d.options]
    assert all(o.default in o.choices for o in options if o.choices and o.default is not None)
    assert all(o.description.endswith(".") for o in options)
