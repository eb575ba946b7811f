"""Format `avro` against fastavro: messages and files of any schema, both ways."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.avro import files
from sqlstream.runtime.formats.avro.decoder import Program
from sqlstream.runtime.formats.avro.files import CODECS
from sqlstream.runtime.formats.avro.schemas import record_of
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest, ReadRequest
from sqlstream.types import LogicalType

OURS = {"timestamp_mapping.legacy": "false"}
EPOCH = datetime.datetime(1970, 1, 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def milliseconds(n: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=n)


PLAIN: list[tuple[LogicalType, st.SearchStrategy[Any]]] = [
    (sql.BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (sql.INT, st.integers(-(2**31), 2**31 - 1)),
    (sql.TINYINT, st.integers(-(2**7), 2**7 - 1)),
    (sql.BOOLEAN, st.booleans()),
    (sql.DOUBLE, st.floats(allow_nan=False)),
    (sql.FLOAT, st.floats(width=32, allow_nan=False)),
    (sql.STRING, TEXT),
    (sql.BYTES, st.binary(max_size=12)),
    (sql.DATE, st.dates(datetime.date(1, 1, 1), datetime.date(9999, 1, 1))),
    (sql.timestamp(3), st.integers(-(10**13), 10**13).map(milliseconds)),
    (sql.timestamp(6), st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1))),
    (
        sql.timestamp_ltz(3),
        st.integers(-(10**12), 10**12).map(lambda n: milliseconds(n).replace(tzinfo=datetime.UTC)),
    ),
    (
        sql.decimal(38, 9),
        st.integers(-(10**38) + 1, 10**38 - 1).map(
            lambda n: decimal.Decimal(n).scaleb(-9, decimal.Context(prec=50))
        ),
    ),
    (sql.decimal(5, 2), st.integers(-99999, 99999).map(lambda n: decimal.Decimal(n).scaleb(-2))),
]
"""Types with values of theirs, as fastavro and Arrow have both."""

Typed = tuple[LogicalType, st.SearchStrategy[Any]]


@st.composite
def typed(draw: st.DrawFn, depth: int = 0) -> Typed:
    kind = draw(st.sampled_from(["plain"] * 3 + (["array", "map", "row"] if depth < 3 else [])))
    if kind == "plain":
        t, values = draw(st.sampled_from(PLAIN))
    elif kind == "row":
        parts = {f"f{i}": draw(typed(depth + 1)) for i in range(draw(st.integers(1, 3)))}
        t = sql.row(*((name, part[0]) for name, part in parts.items()))
        values = st.fixed_dictionaries({name: part[1] for name, part in parts.items()})
    else:
        element, elements = draw(typed(depth + 1))
        if kind == "array":
            t, values = sql.array(element), st.lists(elements, max_size=3)
        else:
            t = sql.map_of(sql.STRING.not_null(), element)
            values = st.dictionaries(TEXT, elements, max_size=3)
    return (t, st.none() | values) if draw(st.booleans()) else (t.not_null(), values)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    columns = {f"c{i}": draw(typed()) for i in range(draw(st.integers(1, 4)))}
    rows = draw(st.lists(st.fixed_dictionaries({n: c[1] for n, c in columns.items()}), max_size=5))
    return Schema.of(*((name, column[0]) for name, column in columns.items())), rows


def batch_of(schema: Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema))


def parsed(schema: Schema) -> Any:
    return fastavro.parse_schema(json.loads(json.dumps(record_of(schema, is_legacy=False))))


def decoded(
    schema: Schema, messages: pa.Array, columns: tuple[str, ...] | None = None, **options: str
) -> DecodedMessages:
    avro = format_of("avro")
    assert isinstance(avro, HasMessages)
    request = MessageRequest(schema, schema.names if columns is None else columns, {**OURS, **options})
    return avro.message_reader(request).decode(messages)


def encoded(schema: Schema, batch: pa.RecordBatch) -> pa.Array:
    avro = format_of("avro")
    assert isinstance(avro, HasMessages)
    return avro.message_writer(schema, OURS).encode(batch)


def of_fastavro(schema: Schema, rows: list[dict[str, Any]]) -> pa.Array:
    messages = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed(schema), row)
        messages.append(stream.getvalue())
    return pa.array(messages, pa.binary())


@given(tables())
def test_messages_are_those_of_fastavro(table: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = table
    batch, messages = batch_of(schema, rows), of_fastavro(schema, rows)
    found = decoded(schema, messages)
    found.batch.validate(full=True)
    assert (found.batch, found.owners, found.rejected) == (batch, None, [])
    assert encoded(schema, batch) == messages
    shifted = pa.concat_batches([batch, batch]).slice(len(rows), len(rows))
    assert encoded(schema, shifted) == messages


@given(tables(), st.data())
def test_each_column_is_read_alone(table: tuple[Schema, list[dict[str, Any]]], data: st.DataObject) -> None:
    schema, rows = table
    columns = tuple(data.draw(st.permutations(schema.names)))[: data.draw(st.integers(0, len(schema.names)))]
    found = decoded(schema, of_fastavro(schema, rows), columns)
    assert found.batch.num_rows == len(rows)
    assert found.batch.to_pylist() == batch_of(schema, rows).select(list(columns)).to_pylist()


@given(tables(), st.data())
def test_a_malformed_message_is_rejected_and_spoils_no_other(
    table: tuple[Schema, list[dict[str, Any]]], data: st.DataObject
) -> None:
    schema, rows = table
    messages = of_fastavro(schema, rows).to_pylist()
    torn = [data.draw(st.booleans()) and len(m) > 0 for m in messages]
    cut = [
        m[: data.draw(st.integers(0, len(m) - 1))] if t else m for m, t in zip(messages, torn, strict=True)
    ]
    found = decoded(schema, pa.array([*cut, None], pa.binary()))
    found.batch.validate(full=True)
    whole = [i for i, t in enumerate(torn) if not t]
    assert [r.line for r in found.rejected] == [i for i, t in enumerate(torn) if t]
    assert {r.reason for r in found.rejected} <= {"it ends within a value"}
    assert found.owners is not None
    assert found.owners.tolist() == whole
    assert found.batch.to_pylist() == batch_of(schema, [rows[i] for i in whole]).to_pylist()


@given(tables(), st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_any_bytes_are_rows_or_rejected(
    table: tuple[Schema, list[dict[str, Any]]], messages: list[bytes]
) -> None:
    schema, rows = table
    found = decoded(schema, pa.array([*messages, *of_fastavro(schema, rows).to_pylist()], pa.binary()))
    found.batch.validate(full=True)
    assert found.batch.num_rows + len(found.rejected) == len(messages) + len(rows)
    last = found.batch.slice(found.batch.num_rows - len(rows))
    assert last.to_pylist() == batch_of(schema, rows).to_pylist()


@pytest.mark.parametrize("codec", CODECS)
@given(tables())
def test_files_are_those_of_fastavro(codec: str, table: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, rows = table
    batch, stream = batch_of(schema, rows), io.BytesIO()
    writer = format_of("avro").writer(stream, schema, {**OURS, "codec": codec})
    for place in range(len(rows)):
        writer.write(batch.slice(place, 1))
    writer.close()
    if codec not in ("snappy", "zstandard"):
        stream.seek(0)
        assert list(fastavro.reader(stream)) == rows
        stream = io.BytesIO()
        fastavro.writer(stream, parsed(schema), rows, codec=codec, sync_interval=1)
    assert rows_of_file(stream.getvalue(), schema) == batch.to_pylist()


def rows_of_file(
    data: bytes, schema: Schema, skip_rows: int = 0, batch_rows: int = 65536
) -> list[dict[str, Any]]:
    request = ReadRequest(
        io.BytesIO(data),
        "file",
        schema,
        schema.names,
        OURS,
        batch_rows=batch_rows,
        skip_rows=skip_rows,
    )
    return [row for batch, _ in format_of("avro").reader(request).batches() for row in batch.to_pylist()]


def file_of(writer: Any, rows: list[Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(writer), rows, sync_interval=1)
    return stream.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "r",
        "namespace": "n.s",
        "fields": [{"name": name, "type": t} for name, t in fields.items()],
    }


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


POINT = record(x="int")
READ = [
    ("int", 7, "BIGINT", 7),
    ("int", 7, "DOUBLE", 7.0),
    ("long", -7, "FLOAT", -7.0),
    ("float", 0.5, "DOUBLE", 0.5),
    ("string", "ä", "BYTES", "ä".encode()),
    ("bytes", b"a", "STRING", "a"),
    (["string", "null"], None, "STRING", None),
    (["int", "null", "double"], 1.5, "DOUBLE", 1.5),
    (["int", "null", "double"], 3, "DOUBLE", 3.0),
    ({"type": "enum", "name": "e", "symbols": ["A", "LONGER"]}, "LONGER", "STRING", "LONGER"),
    (fixed("f", 3), b"abc", "BYTES", b"abc"),
    (
        fixed("f", 20, logicalType="decimal", precision=10, scale=2),
        decimal.Decimal("-1.25"),
        "DECIMAL(10, 2)",
        decimal.Decimal("-1.25"),
    ),
    (
        {"type": "int", "logicalType": "time-millis"},
        datetime.time(1, 2, 3),
        "TIME(3)",
        datetime.time(1, 2, 3),
    ),
    (
        {"type": "long", "logicalType": "time-micros"},
        datetime.time(1, 2, 3),
        "TIME(3)",
        datetime.time(1, 2, 3),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "TIMESTAMP(3)",
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime.datetime(2024, 1, 2, 3, 4, 5),
        "TIMESTAMP(9)",
        datetime.datetime(2024, 1, 2, 3, 4, 5),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
        "TIMESTAMP_LTZ(6)",
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
    ),
    ({"type": "string", "logicalType": "uuid"}, "a-b", "STRING", "a-b"),
    ({"type": "array", "items": ["null", "int"]}, [1, None], "ARRAY<BIGINT>", [1, None]),
    ({"type": "map", "values": "string"}, {"k": "v"}, "MAP<STRING, STRING>", [("k", "v")]),
    (
        record(b="string", more={"type": "array", "items": "long"}),
        {"b": "v", "more": [1]},
        "ROW<a INT, b STRING>",
        {"a": None, "b": "v"},
    ),
]


@pytest.mark.parametrize(("written", "value", "declared", "wanted"), READ, ids=str)
def test_a_file_is_read_by_the_schema_of_its_writer(
    written: Any, value: Any, declared: str, wanted: Any
) -> None:
    if isinstance(written, dict) and written.get("type") == "record":
        written = {**written, "name": "inner"}
    writer = record(skipped=["null", "double", {"type": "map", "values": "bytes"}], v=written)
    rows = [{"skipped": {"k": b"v"}, "v": value}, {"skipped": 1.0, "v": value}, {"skipped": None, "v": value}]
    schema = Schema.of(("absent", sql.INT), ("v", parse_type(declared)))
    assert rows_of_file(file_of(writer, rows), schema) == [{"absent": None, "v": wanted}] * 3


def test_a_named_type_is_found_by_its_name() -> None:
    writer = record(a={**POINT, "name": "p"}, b="p", c=["null", "n.s.p"])
    schema = Schema.of(("b", sql.row(("x", sql.INT))), ("c", sql.row(("x", sql.INT))))
    data = file_of(writer, [{"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}])
    assert rows_of_file(data, schema) == [{"b": {"x": 2}, "c": {"x": 3}}]


def test_blocks_with_their_size_in_bytes_are_read() -> None:
    # Two numbers in a block that says how many bytes it has, and one in another.
    message = bytes([2, 3, 4, 2, 4, 2, 6, 0])
    found = decoded(Schema.of(("a", sql.array(sql.INT.not_null()))), pa.array([message], pa.binary()))
    assert found.batch.to_pylist() == [{"a": [1, 2, 3]}]


@pytest.mark.parametrize(
    ("t", "message", "reason"),
    [
        (sql.TINYINT.not_null(), bytes([128, 2]), "a value in it does not fit the type of its column"),
        (
            sql.decimal(3, 0).not_null(),
            bytes([4, 3, 232]),
            "a value in it does not fit the type of its column",
        ),
        (
            sql.DATE.not_null(),
            bytes([255, 255, 255, 255, 15]),
            "a value in it does not fit the type of its column",
        ),
        (sql.STRING.not_null(), bytes([2, 255]), "a string in it is no UTF-8"),
        (sql.STRING.not_null(), bytes([6, 0xED, 0xA0, 0x80]), "a string in it is no UTF-8"),
        (sql.STRING.not_null(), bytes([1]), "a length in it is none"),
        (sql.BIGINT.not_null(), bytes([255] * 11), "a length in it is none"),
        (sql.INT, bytes([4, 2]), "it has a branch that its union or enum does not have"),
        (sql.array(sql.INT).not_null(), bytes([255] * 9 + [1]), "it ends within a value"),
    ],
    ids=str,
)
def test_why_a_message_is_rejected(t: LogicalType, message: bytes, reason: str) -> None:
    found = decoded(Schema.of(("v", t)), pa.array([message], pa.binary()))
    assert [(r.line, r.reason, r.text) for r in found.rejected] == [(0, reason, message.hex(" "))]


@pytest.mark.parametrize(
    ("written", "declared", "code", "said"),
    [
        ("double", "FLOAT", "SS5012", 'column "v" of file "file" is double, the table declares FLOAT'),
        (["null", "string"], "INT", "SS5012", "is a union of null, string, the table declares INT"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            "DECIMAL(9, 2)",
            "SS5012",
            "is bytes (decimal), the table declares DECIMAL(9, 2)",
        ),
        ({"type": "array", "items": "null"}, "ARRAY<INT>", "SS5011", "an array whose elements have no bytes"),
    ],
    ids=str,
)
def test_files_of_other_types_are_refused(written: Any, declared: str, code: str, said: str) -> None:
    data = file_of(record(v=written), [])
    with pytest.raises(UserError) as raised:
        rows_of_file(data, Schema.of(("v", parse_type(declared))))
    assert raised.value.code == code
    assert said in raised.value.message


def test_a_schema_that_holds_itself_is_refused() -> None:
    writer = record(v="int", next=["null", "n.s.r"])
    data = file_of(writer, [{"v": 1, "next": None}])
    with pytest.raises(UserError, match="it holds itself"):
        rows_of_file(data, Schema.of(("v", sql.INT)))


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
@pytest.mark.parametrize("skip_rows", [0, 1, 5, 10, 11])
def test_rows_are_passed_over(batch_rows: int, skip_rows: int) -> None:
    schema = Schema.of(("v", sql.INT))
    stream = io.BytesIO()
    fastavro.writer(stream, parsed(schema), [{"v": n} for n in range(10)], sync_interval=5)
    found = rows_of_file(stream.getvalue(), schema, skip_rows, batch_rows)
    assert found == [{"v": n} for n in range(skip_rows, 10)]


@pytest.mark.parametrize(
    ("column", "is_legacy", "said"),
    [
        ("TIMESTAMP(6)", True, "TIMESTAMP(6) has no schema there"),
        ("TIMESTAMP_LTZ(3)", True, "TIMESTAMP_LTZ(3) has no schema there"),
        ("TIMESTAMP(9)", False, "TIMESTAMP(9) has no schema there"),
        ("TIME(6)", False, "TIME(6) has no schema there"),
        ("ARRAY<MAP<INT, INT>>", False, "MAP<INT, INT> has no schema there"),
        ("ROW<`a b` INT>", False, 'a field with the name "a b"'),
    ],
)
def test_types_without_a_schema_are_refused(column: str, is_legacy: bool, said: str) -> None:
    options = {"timestamp_mapping.legacy": str(is_legacy).lower()}
    with pytest.raises(UserError) as raised:
        format_of("avro").validate(Schema.of(("v", parse_type(column))), options)
    assert raised.value.code == "SS4006"
    assert said in raised.value.message


def test_the_schema_of_a_table_is_flinks() -> None:
    schema = Schema.of(
        ("a", sql.timestamp(3)),
        ("b", sql.row(("c", sql.INT.not_null()))),
        ("d", sql.decimal(4, 1).not_null()),
    )
    assert record_of(schema, is_legacy=True) == {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [
            {
                "name": "a",
                "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
                "default": None,
            },
            {
                "name": "b",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "record_b",
                        "namespace": "org.apache.flink.avro.generated",
                        "fields": [{"name": "c", "type": "int"}],
                    },
                ],
                "default": None,
            },
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            },
        ],
    }


# --- what schemas and blocks may take


def test_rows_within_rows_take_as_many_operations_as_they_have_fields() -> None:
    # A union in each of them: whether a branch fits is found out once.
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "f", "type": "long"}]}
    t = sql.row(("f", sql.BIGINT))
    for level in range(1, 25):
        schema = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": ["null", schema]}]}
        t = sql.row(("f", t))
    assert len(Program(schema, {"f": t.fields[0].type})._code) < 1000


@pytest.mark.parametrize("branch", [["long"], {"type": ["long"]}])
def test_a_union_within_a_union_is_no_schema(branch: Any) -> None:
    for name in ("f", "g"):
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": ["null", branch]}]}
        with pytest.raises(ValueError, match="a union within a union"):
            Program(schema, {"f": sql.BIGINT})


def test_a_schema_whose_values_take_too_many_operations_is_refused() -> None:
    fields: list[Any] = [{"name": "f", "type": "long"}]
    for level in range(20):
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{level}"}]
    with pytest.raises(ValueError, match="operations"):
        Program({"type": "record", "name": "R", "fields": fields}, {})


@pytest.mark.parametrize("codec", [c for c in CODECS if c != "null"])
def test_a_block_is_not_decompressed_beyond_its_bound(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    there, back = CODECS[codec]
    assert back(there(bytes(1000))) == bytes(1000)
    monkeypatch.setattr(files, "_BLOCK_BYTES_MAX", 1000)
    assert back(there(bytes(1000))) == bytes(1000)
    with pytest.raises(ValueError, match="too large"):
        back(there(bytes(1001)))
