"""Format `protobuf` against the library of Protocol Buffers: messages of any descriptor, both ways."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.protobuf.descriptors import files_of_text
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest
from sqlstream.types import LogicalType

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS: dict[str, tuple[LogicalType, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (sql.INT, INT32)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (sql.BIGINT, INT64)),
    **dict.fromkeys(("uint32", "fixed32"), (sql.BIGINT, st.integers(0, 2**32 - 1))),
    **dict.fromkeys(("uint64", "fixed64"), (sql.BIGINT, st.integers(0, 2**63 - 1))),
    "bool": (sql.BOOLEAN, st.booleans()),
    "float": (sql.FLOAT, st.floats(width=32, allow_nan=False)),
    "double": (sql.DOUBLE, st.floats(allow_nan=False)),
    "string": (sql.STRING, TEXT),
    "bytes": (sql.BYTES, st.binary(max_size=12)),
    "E": (sql.STRING, st.sampled_from(["NONE", "ONE", "LESS"])),
}
ENUM = "enum E { NONE = 0; ONE = 1; LESS = -1; }"
KEYS = sorted(set(SCALARS) - {"float", "double", "bytes", "E"})


class Typed:
    """A field with its column: `text` as .proto has it, `values` of the column without NULL, `absent` what it is without one."""

    def __init__(self, text: str, t: LogicalType, values: st.SearchStrategy[Any], absent: Any) -> None:
        self.text, self.type, self.values, self.absent = text, t, values, absent


@st.composite
def fields(draw: st.DrawFn, name: str, number: int, syntax: str, depth: int) -> Typed:
    kind = draw(
        st.sampled_from(
            ["plain", "optional", "repeated", "map", *(["message", "messages"] if depth < 3 else [])]
        )
    )
    scalar = draw(st.sampled_from(sorted(SCALARS)))
    t, values = SCALARS[scalar]
    if kind in ("message", "messages"):
        parts = [
            draw(fields(f"f{i}", draw(st.sampled_from([i + 1, 100 * i + 20])), syntax, depth + 1))
            for i in range(draw(st.integers(0, 3)))
        ]
        inner = f"M{name}"
        body = " ".join(part.text for part in parts)
        text = f"message {inner} {{ {body} }} "
        t = sql.row(*((f"f{i}", part.type) for i, part in enumerate(parts))) if parts else sql.row()
        values = st.fixed_dictionaries({f"f{i}": present(part) for i, part in enumerate(parts)})
        label = "repeated " if kind == "messages" else "optional " if syntax == "proto2" else ""
        text += f"{label}{inner} {name} = {number};"
        if kind == "messages":
            return Typed(text, sql.array(t), st.lists(values, min_size=1, max_size=3), None)
        return Typed(text, t, values, None)
    if kind == "map":
        key = draw(st.sampled_from(KEYS))
        text = f"map<{key}, {scalar}> {name} = {number};"
        made = st.dictionaries(SCALARS[key][1], values, min_size=1, max_size=3)
        return Typed(
            text, sql.map_of(SCALARS[key][0].not_null(), t), made.map(lambda d: sorted(d.items())), None
        )
    if kind == "repeated":
        packed = draw(st.sampled_from(["", "true", "false"]))
        is_text = scalar in ("string", "bytes")
        option = f" [packed = {packed}]" if packed and not is_text else ""
        text = f"repeated {scalar} {name} = {number}{option};"
        return Typed(text, sql.array(t), st.lists(values, min_size=1, max_size=4), None)
    if kind == "optional" or syntax == "proto2":
        return Typed(f"optional {scalar} {name} = {number};", t, values, None)
    zero = {"string": "", "bytes": b"", "bool": False, "E": "NONE"}.get(scalar, 0)
    return Typed(f"{scalar} {name} = {number};", t, values, zero)


def present(field: Typed) -> st.SearchStrategy[Any]:
    """A value, or what stands for one that is absent."""
    return st.just(field.absent) | field.values


Case = tuple[str, Schema, list[dict[str, Any]]]


@st.composite
def tables(draw: st.DrawFn) -> Case:
    syntax = draw(st.sampled_from(["proto2", "proto3"]))
    numbers = draw(
        st.lists(
            st.sampled_from([1, 2, 3, 15, 16, 2047, 2048, 2**29 - 1]), min_size=1, max_size=5, unique=True
        )
    )
    columns = {f"c{i}": draw(fields(f"c{i}", n, syntax, 0)) for i, n in enumerate(numbers)}
    text = f'syntax = "{syntax}"; {ENUM} message Top {{ {" ".join(c.text for c in columns.values())} }}'
    rows = draw(st.lists(st.fixed_dictionaries({n: present(c) for n, c in columns.items()}), max_size=5))
    return text, Schema.of(*((name, column.type) for name, column in columns.items())), rows


def message_type(text: str, name: str = "Top") -> type[Message]:
    (file,) = files_of_text(text)
    found: type[Message] = message_factory.GetMessageClass(file.message_types_by_name[name])
    return found


def fill(message: Message, descriptor: Descriptor, row: dict[str, Any]) -> None:
    """Set the fields of a message of the library."""
    for name, value in row.items():
        field = descriptor.fields_by_name[name]
        if value is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            enum = field.message_type.fields_by_name["value"].enum_type
            for key, item in value:
                getattr(message, name)[key] = enum.values_by_name[item].number if enum else item
        elif field.is_repeated and field.message_type is not None:
            for item in value:
                fill(getattr(message, name).add(), field.message_type, item)
        elif field.message_type is not None:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), field.message_type, value)
        elif field.enum_type is not None:
            number = {v.name: v.number for v in field.enum_type.values}
            if field.is_repeated:
                getattr(message, name).extend(number[item] for item in value)
            else:
                setattr(message, name, number[value])
        elif field.is_repeated:
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)


def of_library(text: str, rows: list[dict[str, Any]]) -> list[bytes]:
    made = message_type(text)
    messages = []
    for row in rows:
        message = made()
        fill(message, made.DESCRIPTOR, row)
        messages.append(message.SerializeToString(deterministic=True))
    return messages


def in_order(value: Any) -> Any:
    """With the entries of maps, which are pairs, in one order."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [in_order(item) for item in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    return value


def batch_of(schema: Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema))


def options(text: str, **more: str) -> dict[str, str]:
    return {"schema": text, "message-class-name": "Top", **{k.replace("_", "-"): v for k, v in more.items()}}


def decoded(
    text: str,
    schema: Schema,
    messages: list[bytes | None],
    columns: tuple[str, ...] | None = None,
    **more: str,
) -> DecodedMessages:
    protobuf = format_of("protobuf")
    assert isinstance(protobuf, HasMessages)
    request = MessageRequest(schema, schema.names if columns is None else columns, options(text, **more))
    found = protobuf.message_reader(request).decode(pa.array(messages, pa.binary()))
    found.batch.validate(full=True)
    return found


def encoded(text: str, schema: Schema, batch: pa.RecordBatch, **more: str) -> list[bytes]:
    protobuf = format_of("protobuf")
    assert isinstance(protobuf, HasMessages)
    made: list[bytes] = protobuf.message_writer(schema, options(text, **more)).encode(batch).to_pylist()
    return made


@given(tables())
def test_messages_of_the_library_are_read(case: Case) -> None:
    text, schema, rows = case
    found = decoded(text, schema, list(of_library(text, rows)))
    assert (in_order(found.batch.to_pylist()), found.owners, found.rejected) == (
        in_order(batch_of(schema, rows).to_pylist()),
        None,
        [],
    )


@given(tables())
def test_the_library_reads_what_is_written(case: Case) -> None:
    text, schema, rows = case
    batch, made = batch_of(schema, rows), message_type(text)
    expected = of_library(text, rows)
    for messages in (
        encoded(text, schema, batch),
        encoded(text, schema, pa.concat_batches([batch, batch]).slice(len(rows), len(rows))),
    ):
        again = [made.FromString(m).SerializeToString(deterministic=True) for m in messages]
        assert again == expected


@given(tables(), st.data())
def test_each_column_is_read_alone(case: Case, data: st.DataObject) -> None:
    text, schema, rows = case
    columns = tuple(data.draw(st.permutations(schema.names)))[: data.draw(st.integers(0, len(schema.names)))]
    found = decoded(text, schema, list(of_library(text, rows)), columns)
    assert found.batch.num_rows == len(rows)
    expected = batch_of(schema, rows).select(list(columns)).to_pylist()
    assert in_order(found.batch.to_pylist()) == in_order(expected)


@given(tables(), st.lists(st.binary(max_size=40), max_size=6), st.data())
def test_what_is_no_message_is_rejected_and_spoils_no_other(
    case: Case, wild: list[bytes], data: st.DataObject
) -> None:
    text, schema, rows = case
    whole = of_library(text, rows)
    cut = [m[: data.draw(st.integers(0, len(m)))] for m in whole]
    messages: list[bytes | None] = [*wild, *cut, None, *whole]
    found = decoded(text, schema, messages)
    made = message_type(text)
    rejected = {r.line for r in found.rejected}
    for place, message in enumerate([*wild, *cut]):
        try:
            made.FromString(message)
        except DecodeError:
            assert place in rejected
    assert found.batch.num_rows + len(rejected) == len(messages) - 1
    last = found.batch.slice(found.batch.num_rows - len(rows))
    assert in_order(last.to_pylist()) == in_order(batch_of(schema, rows).to_pylist())


@given(tables())
def test_a_message_may_come_in_parts(case: Case) -> None:
    # The bytes of two messages one after the other are those of both merged.
    text, schema, rows = case
    made, messages = message_type(text), of_library(text, rows)
    merged = [a + b for a, b in zip(messages, reversed(messages), strict=True)]
    again = [made.FromString(m).SerializeToString(deterministic=True) for m in merged]
    found, expected = (decoded(text, schema, list(m)).batch.to_pylist() for m in (merged, again))
    assert in_order(found) == in_order(expected)


ONEOF = """syntax = "proto3";
message Top {
  message In { repeated int32 p = 1; repeated In more = 2; string s = 3; }
  oneof kind { string a = 1; In b = 2; int64 c = 3; bool d = 4; }
  int32 last = 5;
}"""
IN = sql.row(("p", sql.array(sql.INT)), ("s", sql.STRING))
KINDS = Schema.of(
    ("a", sql.STRING),
    ("b", sql.row(("p", sql.array(sql.INT)), ("more", sql.array(IN)), ("s", sql.STRING))),
    ("c", sql.BIGINT),
    ("d", sql.BOOLEAN),
    ("last", sql.INT),
)


@given(st.lists(st.sampled_from("abcd"), max_size=6), st.data())
def test_the_last_member_of_a_oneof_counts(kinds: list[str], data: st.DataObject) -> None:
    made = message_type(ONEOF)
    inner = {"p": [1, 2], "more": [{"p": [3]}, {"p": [], "s": "x"}], "s": "y"}
    values = {"a": "text", "b": inner, "c": 5, "d": False}
    rows = []
    for _ in range(3):
        joined = b"".join(
            of_library(ONEOF, [{kind: values[kind]}])[0] for kind in data.draw(st.permutations(kinds))
        )
        rows.append(joined + of_library(ONEOF, [{"last": 7}])[0])
    again = [made.FromString(m).SerializeToString(deterministic=True) for m in rows]
    found = decoded(ONEOF, KINDS, list(rows)).batch.to_pylist()
    assert found == decoded(ONEOF, KINDS, list(again)).batch.to_pylist()
    assert all(sum(row[kind] is not None for kind in "abcd") == bool(kinds) for row in found)


def test_enums_that_are_open_and_closed() -> None:
    number, schema = b"\x08\x07", Schema.of(("e", sql.STRING), ("n", sql.INT))
    for syntax, label, expected in (
        ("proto3", "", {"e": "UNRECOGNIZED", "n": 7}),
        ("proto2", "optional ", {"e": None, "n": None}),
    ):
        text = f'syntax = "{syntax}"; {ENUM} message Top {{ {label}E e = 1; {label}E n = 2; }}'
        assert decoded(text, schema, [number + b"\x10\x07"]).batch.to_pylist() == [expected]
        good = decoded(text, schema, [b"\x08" + b"\xff" * 9 + b"\x01\x10\x01"]).batch.to_pylist()
        assert good == [{"e": "LESS", "n": 1}]
        assert encoded(text, schema, batch_of(schema, [{"e": "ONE", "n": -1}])) == [
            b"\x08\x01\x10" + b"\xff" * 9 + b"\x01"
        ]
        with pytest.raises(UserError, match='holds "TWO", which enum E does not have') as raised:
            encoded(text, schema, batch_of(schema, [{"e": None, "n": 1}, {"e": "TWO", "n": 1}]))
        assert raised.value.code == "SS5014"


DEFAULTS = (
    """message Top {
  optional int32 i = 1 [default = -7]; optional string s = 2 [default = "ä\\n"]; optional double d = 3 [default = 1.5];
  optional bool b = 4 [default = true]; optional E e = 5 [default = ONE]; optional In m = 6; repeated int32 l = 7;
  optional bytes y = 8 [default = "\\001\\377"]; map<string, int32> k = 9;
  optional uint64 u = 10 [default = 18446744073709551615];
  message In { optional string t = 1 [default = "in"]; }
} """
    + ENUM
)
WITH_DEFAULTS = Schema.of(
    ("i", sql.INT),
    ("s", sql.STRING),
    ("d", sql.DOUBLE),
    ("b", sql.BOOLEAN),
    ("e", sql.STRING),
    ("m", sql.row(("t", sql.STRING))),
    ("l", sql.array(sql.INT)),
    ("y", sql.BYTES),
    ("k", sql.map_of(sql.STRING.not_null(), sql.INT)),
    ("u", sql.BIGINT),
)


def test_defaults_are_read_on_request() -> None:
    nothing = dict.fromkeys(WITH_DEFAULTS.names)
    assert decoded(DEFAULTS, WITH_DEFAULTS, [b""]).batch.to_pylist() == [nothing]
    found = decoded(
        DEFAULTS, WITH_DEFAULTS, [b"", b"\x12\x01x"], read_default_values="true"
    ).batch.to_pylist()
    filled = {
        "i": -7,
        "s": "ä\n",
        "d": 1.5,
        "b": True,
        "e": "ONE",
        "m": {"t": "in"},
        "l": [],
        "y": b"\x01\xff",
        "k": [],
        "u": -1,
    }
    assert found == [filled, {**filled, "s": "x"}]
    # A column NOT NULL has one always.
    assert decoded(DEFAULTS, Schema.of(("i", sql.INT.not_null())), [b""]).batch.to_pylist() == [{"i": -7}]


KNOWN = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Top {
  google.protobuf.Timestamp t = 1; google.protobuf.Timestamp r = 2; google.protobuf.Int64Value w = 3;
  repeated google.protobuf.Timestamp many = 4; map<string, google.protobuf.StringValue> names = 5;
}"""
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000)
KNOWN_SCHEMA = Schema.of(
    ("t", sql.timestamp_ltz(3)),
    ("r", sql.row(("seconds", sql.BIGINT), ("nanos", sql.INT))),
    ("w", sql.BIGINT),
    ("many", sql.array(sql.timestamp(6))),
    ("names", sql.map_of(sql.STRING.not_null(), sql.STRING)),
)


def test_well_known_types() -> None:
    made = message_type(KNOWN)
    message: Any = made()
    message.t.FromDatetime(MOMENT)
    message.r.FromDatetime(MOMENT)
    message.w.value = 0
    message.many.add().FromDatetime(MOMENT)
    message.many.add()
    message.names["a"].value = "b"
    message.names["c"].value = ""
    data = message.SerializeToString(deterministic=True)
    row = {
        "t": MOMENT.replace(tzinfo=datetime.UTC),
        "r": {"seconds": -1, "nanos": 250_000_000},
        "w": 0,
        "many": [MOMENT, datetime.datetime(1970, 1, 1)],
        "names": [("a", "b"), ("c", "")],
    }
    nothing = dict.fromkeys(KNOWN_SCHEMA.names)
    found = decoded(KNOWN, KNOWN_SCHEMA, [data, b""]).batch
    assert found.to_pylist() == [row, nothing]
    assert [made.FromString(m) for m in encoded(KNOWN, KNOWN_SCHEMA, found)] == [message, made()]
    # A moment that its column cannot have.
    late = decoded(KNOWN, Schema.of(("t", sql.timestamp(9))), [b"\x0a\x06\x08\x80\x80\x80\x80\x40"])
    assert [(r.line, r.reason) for r in late.rejected] == [
        (0, "a value in it does not fit the type of its column")
    ]


def test_unknown_fields_are_passed_over() -> None:
    text, schema = 'syntax = "proto3"; message Top { int32 i = 2; }', Schema.of(("i", sql.INT))
    group = b"\x0b\x13\x08\x01\x14\x0d1234\x0c"
    unknown = b"\x08\x01" + b"\x1a\x02ab" + b"\x21" + b"8" * 8 + b"\x2d1234" + group
    assert decoded(text, schema, [unknown + b"\x10\x05" + unknown]).batch.to_pylist() == [{"i": 5}]
    # The number of the field with another type is unknown too.
    assert decoded(text, schema, [b"\x12\x01a"]).batch.to_pylist() == [{"i": 0}]
    bad = [
        b"\x0b",
        b"\x0b\x14",
        b"\x0c",
        b"\x0b" * 70,
        b"\x00\x00",
        b"\x0f",
        b"\x10" + b"\xff" * 10 + b"\x01",
        b"\x1a\x05a",
    ]
    found = decoded(text, schema, list(bad))
    assert {r.line for r in found.rejected} == set(range(len(bad)))


def test_values_that_a_message_cannot_have() -> None:
    text = """syntax = "proto2"; message Top { required int32 i = 1; optional uint32 u = 2; }"""
    schema = Schema.of(("i", sql.INT), ("u", sql.BIGINT))
    for row in ({"i": None, "u": 1}, {"i": 1, "u": -1}, {"i": 1, "u": 2**32}):
        with pytest.raises(UserError) as raised:
            encoded(text, schema, batch_of(schema, [row]))
        assert raised.value.code == "SS5014"
    with pytest.raises(UserError, match='needs a field "i"'):
        encoded(text, Schema.of(("u", sql.BIGINT)), batch_of(Schema.of(("u", sql.BIGINT)), []))


def test_null_in_lists_is_a_default() -> None:
    text = """syntax = "proto3"; message Top {
      repeated string s = 1; repeated int32 i = 2; map<int32, string> m = 3; repeated Top t = 4; }"""
    schema = Schema.of(
        ("s", sql.array(sql.STRING)),
        ("i", sql.array(sql.INT)),
        ("m", sql.map_of(sql.INT.not_null(), sql.STRING)),
        ("t", sql.array(sql.row(("i", sql.array(sql.INT))))),
    )
    row = {"s": ["a", None], "i": [None, 1], "m": [(1, None)], "t": [None, {"i": [2]}]}
    written = encoded(text, schema, batch_of(schema, [row]), write_null_string_literal="none")
    found = decoded(text, schema, list(written)).batch.to_pylist()
    assert found == [{"s": ["a", "none"], "i": [0, 1], "m": [(1, "none")], "t": [{"i": None}, {"i": [2]}]}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message Top { int32 a = 1; }", None),
        ("message Top { required int32 a = 1; }", None),
        ('syntax = "proto3"; message Top { int32 a = 1 }', 'line 1: ";" is missing before }'),
        ('syntax = "proto4";', 'its syntax "proto4" is neither'),
        ('edition = "2023";', "it is one of an edition"),
        ('syntax = "proto3";\nmessage Top { Foo a = 1; }', "couldn't resolve name 'Foo'"),
        ('syntax = "proto3"; message Top { int32 a = 1; int32 b = 1; }', "duplicate field number"),
        ('syntax = "proto3"; import "other.proto"; message Top { int32 a = 1; }', 'it imports "other.proto"'),
        ("message Top { optional group G = 1 {} }", "groups are not supported"),
        ("message Top { optional int32 a = 0; }", "0 is no number of a field"),
        ('message Top { optional string a = 1 [default = "x]; }', "a text does not end"),
        ("message Top {", 'line 1: "}" is missing before the end of the text'),
        ("/* open", "message, enum, import, option or package is missing"),
        ("message " + "A { message " * 70, "stand in each other"),
        ('syntax = "proto3"; message Other { int32 a = 1; }', 'there is no message "Top"; there are Other'),
    ],
)
def test_texts_of_proto_files(text: str, said: str | None) -> None:
    schema, protobuf = Schema.of(("a", sql.INT)), format_of("protobuf")
    if said is None:
        protobuf.validate(schema, options(text))
        return
    with pytest.raises(UserError) as raised:
        protobuf.validate(schema, options(text))
    assert raised.value.code == "SS4002"
    assert said in raised.value.message


JAVA = """syntax = "proto3"; package shop; option java_package = "org.shop"; option java_outer_classname = "Orders";
message Order { int32 a = 1; message Line { int32 a = 1; } } message Line { int32 a = 1; }"""


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("shop.Order", "shop.Order"),
        ("Order", "shop.Order"),
        ("org.shop.Orders$Order", "shop.Order"),
        ("org.shop.Orders$Order$Line", "shop.Order.Line"),
        ("org.shop.Orders.Line", "shop.Line"),
        ("Line", None),
    ],
)
def test_messages_are_named_as_in_java(name: str, full: str | None) -> None:
    from sqlstream.runtime.formats.protobuf.descriptors import message_named

    files = files_of_text(JAVA)
    if full is None:
        with pytest.raises(ValueError, match="several messages"):
            message_named(files, name)
    else:
        assert message_named(files, name).full_name == full


def test_a_descriptor_set_is_read_from_its_file(tmp_path: Any) -> None:
    made = descriptor_pb2.FileDescriptorSet()
    (file,) = files_of_text('syntax = "proto3"; message Top { int32 a = 1; }')
    file.CopyToProto(made.file.add())
    path = tmp_path / "set.pb"
    path.write_bytes(made.SerializeToString())
    given = {"message-class-name": "Top", "descriptor-path": str(path)}
    protobuf, schema = format_of("protobuf"), Schema.of(("a", sql.INT))
    protobuf.validate(schema, given)
    for data, said in ((b"\xff\xff", "it is no descriptor set"), (b"", "it has no files")):
        path.write_bytes(data)
        with pytest.raises(UserError, match=said):
            protobuf.validate(schema, given)
    path.unlink()
    with pytest.raises(Exception, match="could not read"):
        protobuf.validate(schema, given)
    for wrong, code in (({"schema": ""}, "SS4003"), ({}, "SS4005")):
        with pytest.raises(UserError) as raised:
            protobuf.validate(schema, {**({} if not wrong else given), "message-class-name": "Top", **wrong})
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("t", "said"),
    [
        (sql.STRING, 'column "a" is int32, the table declares STRING'),
        (sql.BIGINT, 'column "a" is int32, the table declares BIGINT'),
        (sql.array(sql.INT), 'column "a" is int32, the table declares ARRAY<INT>'),
    ],
)
def test_columns_that_do_not_fit(t: LogicalType, said: str) -> None:
    text = 'syntax = "proto3"; message Top { int32 a = 1; }'
    for schema, message in (
        (Schema.of(("a", t)), said),
        (Schema.of(("z", sql.INT)), 'message "Top" has no field "z"'),
    ):
        with pytest.raises(UserError) as raised:
            format_of("protobuf").validate(schema, options(text))
        assert raised.value.code == "SS4006"
        assert message in raised.value.message
