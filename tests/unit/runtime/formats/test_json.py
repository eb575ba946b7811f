"""The json format: what it takes for a value, and what it writes."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import cast_from_text
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected

IGNORE = {"ignore-parse-errors": "true"}
D = decimal.Decimal


def read(
    text: str | bytes, schema: Schema, options: dict[str, str] | None = None
) -> tuple[list[dict[str, Any]], list[Rejected]]:
    """With and without the kernel, which must make no difference."""
    data = text.encode() if isinstance(text, str) else text
    found = _read(data, schema, options or {}, uses_kernel=True)
    assert found == _read(data, schema, options or {}, uses_kernel=False)
    return found


def _read(
    data: bytes, schema: Schema, options: dict[str, str], *, uses_kernel: bool
) -> tuple[list[dict[str, Any]], list[Rejected]]:
    reader = JsonReader(
        ReadRequest(io.BytesIO(data), "f.json", schema, schema.names, options), uses_kernel=uses_kernel
    )
    rows, rejected = [], []
    for batch, bad in reader.batches():
        rows += batch.to_pylist()
        rejected += bad
    return rows, rejected


def written(schema: Schema, rows: list[dict[str, Any]], options: dict[str, str] | None = None) -> list[str]:
    stream = io.BytesIO()
    writer = format_of("json").writer(stream, schema, options or {})
    writer.write(pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema)))
    writer.close()
    return stream.getvalue().decode().splitlines()


@pytest.mark.parametrize(
    ("t", "text", "value"),
    [
        (sql.INT, "12", 12),
        (sql.INT, '"12"', 12),
        (sql.INT, "2.0", 2),
        (sql.BIGINT, "1e3", 1000),
        (sql.BIGINT, "9007199254740993", 9007199254740993),
        (sql.STRING, "12", "12"),
        (sql.STRING, "12345678901234567890.123456789", "12345678901234567890.123456789"),
        (sql.STRING, "1e7", "1e7"),
        (sql.array(sql.STRING), "[1.50, 1E2]", ["1.50", "1E2"]),
        (sql.STRING, "true", "true"),
        (sql.STRING, '{"x":1}', '{"x":1}'),
        (sql.STRING, '"\\u00e9\\n\\""', 'é\n"'),
        (sql.BOOLEAN, "true", True),
        (sql.DOUBLE, "1", 1.0),
        (sql.DOUBLE, '"1.5"', 1.5),
        (sql.decimal(38, 9), "123456789012345678.123456789", D("123456789012345678.123456789")),
        (sql.decimal(5, 2), '"1.235"', D("1.24")),
        (sql.decimal(5, 2), "7e-9999999", D("0.00")),
        (sql.DATE, '"2020-01-31"', datetime.date(2020, 1, 31)),
        (sql.time(3), '"10:11:12.5"', datetime.time(10, 11, 12, 500_000)),
        (sql.timestamp(3), '"2020-01-01 10:11:12.5"', datetime.datetime(2020, 1, 1, 10, 11, 12, 500_000)),
        (sql.timestamp(3), '"2020-01-01T10:11:12"', datetime.datetime(2020, 1, 1, 10, 11, 12)),
        (sql.BYTES, '"AAE="', b"\0\1"),
        (sql.map_of(sql.STRING, sql.INT), '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        (sql.row(("x", sql.INT), ("y", sql.INT)), '{"y":"2"}', {"x": None, "y": 2}),
        (sql.INT, "null", None),
        (sql.array(sql.array(sql.row(("x", sql.INT)))), '[[{"x":1},null],null]', [[{"x": 1}, None], None]),
        (sql.row(("x/~'y", sql.row(("z", sql.INT)))), """{"x/~'y":{"z":3}}""", {"x/~'y": {"z": 3}}),
        (sql.map_of(sql.STRING, sql.array(sql.INT)), '{"a":[1],"b":null}', [("a", [1]), ("b", None)]),
    ],
)
def test_values_are_read_as_their_type(t: sql.LogicalType, text: str, value: Any) -> None:
    assert read(f'{{"other":[1],"v":{text}}}', Schema.of(("v", t))) == ([{"v": value}], [])


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (sql.INT, "1.5"),
        (sql.INT, "true"),
        (sql.INT, '"x"'),
        (sql.TINYINT, "300"),
        (sql.BOOLEAN, "1"),
        (sql.BOOLEAN, '"yes"'),
        (sql.DOUBLE, "true"),
        (sql.DATE, "20200101"),
        (sql.timestamp(3), '"soon"'),
        (sql.decimal(3, 1), "1000"),
        (sql.decimal(38, 28), "204327634439"),
        (sql.array(sql.INT), '[1,"x"]'),
        (sql.row(("x", sql.INT)), '{"x":"?"}'),
        (sql.map_of(sql.STRING, sql.INT), '{"a":"?"}'),
        (sql.row(("x", sql.INT)), "1"),
        (sql.row(("x", sql.INT)), "[1]"),
        (sql.row(("x", sql.INT)), '"{}"'),
        (sql.array(sql.INT), "1"),
        (sql.array(sql.INT), '{"x":1}'),
        (sql.map_of(sql.STRING, sql.INT), "[]"),
        (sql.row(("x/~'y", sql.row(("z", sql.INT)))), """{"x/~'y":5}"""),
        (sql.array(sql.array(sql.row(("x", sql.INT)))), '[[{"x":1}],null,[null,2]]'),
        (sql.map_of(sql.STRING, sql.array(sql.INT)), '{"a":[1],"b":{}}'),
    ],
)
def test_what_is_no_value_of_the_type_is_refused_and_never_bent(t: sql.LogicalType, text: str) -> None:
    schema = Schema.of(("k", sql.INT), ("v", t))
    good, bad = '{"k":1,"v":null}', f'{{"k":2,"v":{text}}}'
    with pytest.raises(UserError, match=r'could not decode line 2 of "f.json".*field "v"'):
        read(f"{good}\n{bad}\n", schema)
    rows, rejected = read(f"{good}\n{bad}\n{good}\n", schema, IGNORE)
    assert rows == [{"k": 1, "v": None}] * 2
    assert [(r.line, r.text) for r in rejected] == [(2, bad)]


@pytest.mark.parametrize("line", ["{", "[1", "[{}] {}", "12", "null", '{"k":1} x', "word"])
def test_a_line_that_is_no_object_is_refused(line: str) -> None:
    rows, rejected = read(f'{{"k":1}}\n\n{line}\n{{"k":2}}', Schema.of(("k", sql.INT)), IGNORE)
    assert rows == [{"k": 1}, {"k": 2}]
    assert [(r.line, r.text) for r in rejected] == [(3, line)]


def test_bytes_that_are_no_text_are_refused() -> None:
    rows, rejected = read(b'{"k":"a"}\n{"k":"\xff"}\n', Schema.of(("k", sql.STRING)), IGNORE)
    assert rows == [{"k": "a"}]
    assert [r.line for r in rejected] == [2]


def test_each_element_of_an_array_is_a_row() -> None:
    lines = ['{"k":1}', " [ ] ", '[{"k":2,"k":3}, {"v":{"x":"]"}}]', "", '[{"k":"4"}]', '{"k":5}']
    rows, rejected = read("\n".join(lines), Schema.of(("k", sql.INT), ("v", sql.STRING)))
    assert [row["k"] for row in rows] == [1, 3, None, 4, 5]
    assert rows[2]["v"] == '{"x":"]"}'
    assert rejected == []


def test_an_element_that_is_no_row_is_refused_with_its_line() -> None:
    text = '{"k":1}\n[{"k":2}, 7, {"k":"x"}, [{"k":3}], "{}", {"k":4}]\n{"k":5}\n'
    rows, rejected = read(text, Schema.of(("k", sql.INT)), IGNORE)
    assert [row["k"] for row in rows] == [1, 2, 4, 5]
    assert [(r.line, r.text) for r in rejected] == [(2, "7"), (2, '{"k":"x"}'), (2, '[{"k":3}]'), (2, '"{}"')]
    with pytest.raises(UserError, match=r'could not decode line 2 of "f.json": it is no JSON object'):
        read(text, Schema.of(("k", sql.INT)))


def test_a_bad_line_with_text_beyond_ascii_is_refused() -> None:
    # Long enough for a message to cut it, at any of its bytes.
    for blanks in range(4):
        line = '{"k":' + " " * blanks + '"' + "é😀" * 100 + '" nul}'
        rows, rejected = read(f'{{"k":"a"}}\n{line}\n', Schema.of(("k", sql.STRING)), IGNORE)
        assert rows == [{"k": "a"}]
        assert [(r.line, r.text) for r in rejected] == [(2, line)]


def test_missing_fields_are_null_unless_they_are_required() -> None:
    schema = Schema.of(("k", sql.INT), ("d", sql.decimal(3, 1)))
    text = '{"k":1}\n{"k":2,"d":1.5}\n'
    assert read(text, schema)[0] == [{"k": 1, "d": None}, {"k": 2, "d": D("1.5")}]
    required = {"fail-on-missing-field": "true"}
    with pytest.raises(UserError, match=r"line 1 .*a field is missing"):
        read(text, schema, required)
    assert read(text, schema, required | IGNORE)[0] == [{"k": 2, "d": D("1.5")}]


def test_nulls_are_written_or_left_out() -> None:
    schema = Schema.of(("a", sql.INT), ("b", sql.row(("x", sql.INT), ("y", sql.STRING))))
    rows = [{"a": None, "b": {"x": None, "y": "z"}}, {"a": 1, "b": None}, {"a": None, "b": None}]
    assert written(schema, rows) == [
        '{"a":null,"b":{"x":null,"y":"z"}}',
        '{"a":1,"b":null}',
        '{"a":null,"b":null}',
    ]
    left_out = written(schema, rows, {"encode.ignore-null-fields": "true"})
    assert left_out == ['{"b":{"y":"z"}}', '{"a":1}', "{}"]


def test_timestamps_are_written_as_the_standard_says() -> None:
    schema = Schema.of(("t", sql.timestamp(3)), ("z", sql.timestamp_ltz(0)))
    moment = datetime.datetime(2020, 12, 30, 12, 13, 14, 120_000)
    rows = [{"t": moment, "z": moment.replace(microsecond=0, tzinfo=datetime.UTC)}]
    assert written(schema, rows) == ['{"t":"2020-12-30 12:13:14.120","z":"2020-12-30 12:13:14Z"}']
    iso = written(schema, rows, {"timestamp-format.standard": "ISO-8601"})
    assert iso == ['{"t":"2020-12-30T12:13:14.120","z":"2020-12-30T12:13:14Z"}']


def test_decimals_are_plain_numbers_when_asked() -> None:
    schema = Schema.of(("d", sql.decimal(38, 9)))
    rows = [{"d": D(text)} for text in ("0.000000027", "-0.000000001", "12.5", "0")]
    plain = written(schema, rows, {"encode.decimal-as-plain-number": "true"})
    assert plain[:2] == ['{"d":0.000000027}', '{"d":-0.000000001}']
    assert [D(str(json.loads(line, parse_float=D)["d"])) for line in plain] == [r["d"] for r in rows]
    assert not any("E" in line for line in plain)
    assert written(schema, rows)[0] == '{"d":2.7E-8}'


def test_what_is_written_is_json_for_everyone() -> None:
    schema = Schema.of(('q"\\', sql.STRING), ("f", sql.DOUBLE))
    rows = [
        {'q"\\': "".join(map(chr, range(40))) + "é\\", "f": f} for f in (1.5, float("nan"), float("-inf"))
    ]
    found = [json.loads(line) for line in written(schema, rows)]
    assert [r['q"\\'] for r in found] == [rows[0]['q"\\']] * 3
    assert [r["f"] for r in found] == [1.5, "NaN", "-Infinity"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_text_in_utf_16_is_refused_by_its_name(encoding: str) -> None:
    data = '\ufeff{"a":1}\n'.encode(encoding) if encoding == "utf-16-be" else '{"a":1}\n'.encode(encoding)
    with pytest.raises(UserError, match="is text in UTF-16") as caught:
        read(data, Schema.of(("a", sql.INT)), IGNORE)
    assert caught.value.hint == "convert it, as iconv -f UTF-16 -t UTF-8 does"


def test_a_field_without_a_name_is_refused() -> None:
    with pytest.raises(UserError, match="without a name"):
        format_of("json").validate(Schema.of(("", sql.INT)), {})


TWINS = Schema.of(
    ("Id", sql.INT),
    ("id", sql.INT),
    ("x", sql.INT),
    ("r", sql.row(("a", sql.decimal(5, 2)), ("A", sql.array(sql.INT)), ("É", sql.STRING), ("é", sql.STRING))),
    ("m", sql.map_of(sql.STRING, sql.array(sql.row(("b", sql.row(("c", sql.INT), ("C", sql.STRING))))))),
)


def test_fields_whose_names_differ_in_case_alone_are_fields_of_their_own() -> None:
    format_of("json").validate(TWINS, {})
    lines = [
        '{"Id":1,"id":2,"ID":3}',
        '{"id":5,"r":{"A":[1,null],"a":1.10,"é":"e"},"m":{"k":[{"b":{"C":"x","c":1}},null,{}],"n":null}}',
        '{"Id":6,"r":{},"m":{}}',
        '{"Id":7,"r":{"a":null,"A":null,"É":null},"id":8,"Id":9}',
    ]
    row = {"a": None, "A": None, "É": None, "é": None}
    within = {"a": D("1.10"), "A": [1, None], "É": None, "é": "e"}
    lists = [("k", [{"b": {"c": 1, "C": "x"}}, None, {"b": None}]), ("n", None)]
    rows = [
        {"Id": 1, "id": 2, "x": None, "r": None, "m": None},
        {"Id": None, "id": 5, "x": None, "r": within, "m": lists},
        {"Id": 6, "id": None, "x": None, "r": row, "m": []},
        {"Id": 9, "id": 8, "x": None, "r": row, "m": None},
    ]
    assert read("\n".join(lines), TWINS) == (rows, [])
    assert read("\n".join(written(TWINS, rows)), TWINS) == (rows, [])


def test_such_fields_are_missing_each_by_its_own_name() -> None:
    schema = Schema.of(("a", sql.INT), ("A", sql.array(sql.row(("b", sql.INT), ("B", sql.INT)))))
    lines = ['{"a":1,"A":[{"b":1,"B":2},null]}', '{"a":1}', '{"a":1,"A":[{"b":1}]}', '{"a":1,"A":{}}']
    rows, rejected = read("\n".join(lines), schema, IGNORE | {"fail-on-missing-field": "true"})
    assert rows == [{"a": 1, "A": [{"b": 1, "B": 2}, None]}]
    reasons = [(2, "a field is missing"), (3, "a field is missing")]
    assert [(r.line, r.reason) for r in rejected[:2]] == reasons
    assert rejected[2].reason.startswith('field "A" is no ARRAY')


def test_maps_without_string_keys_are_refused() -> None:
    with pytest.raises(UserError, match="are no strings"):
        format_of("json").validate(Schema.of(("m", sql.map_of(sql.INT, sql.INT))), {})


def test_what_is_no_number_is_what_is_none_alone_and_is_found_in_few_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(5)
    texts = [
        "1",
        "2.0",
        "2.5",
        "1e3",
        "1e30",
        "-1e30",
        '"x"',
        "1e-30",
        "null",
        "9223372036854775808",
        '"0x10"',
    ]
    inner = sql.row(("n", sql.INT), ("d", sql.decimal(10, 2)))
    fields = (("n", sql.BIGINT), ("d", sql.decimal(10, 2)), ("r", inner))
    schema = Schema.of(*fields)
    with_elements = Schema.of(*fields, ("a", sql.array(sql.decimal(10, 2))))

    def line() -> str:
        n, d, x, y, e = (
            draw.choice(texts) if draw.random() < 0.1 else str(draw.randrange(99)) for _ in range(5)
        )
        return f'{{"n": {n}, "d": {d}, "r": {{"n": {x}, "d": {y}}}, "a": [{e}]}}'

    lines = [line() for _ in range(200)]
    read_decimals, readings = cast_from_text.read_decimals, 0

    def counted(*arguments: Any) -> Any:
        nonlocal readings
        readings += 1
        return read_decimals(*arguments)

    for chosen in (schema, with_elements):
        alone = [read(text, chosen, IGNORE) for text in lines]
        readings = 0
        with monkeypatch.context() as patch:
            patch.setattr(cast_from_text, "read_decimals", counted)
            rows, rejected = read("\n".join(lines), chosen, IGNORE)
        assert rows == [row for found, _ in alone for row in found]
        assert [(r.reason, r.text) for r in rejected] == [(r.reason, r.text) for _, bad in alone for r in bad]
        assert len(rejected) > 20
        if chosen is schema:
            assert readings < 60
