"""JSON functions: paths, clauses and the texts that are written."""

from __future__ import annotations

import decimal
import functools
import json
from typing import Any

import pyarrow as pa
import pytest
from planner_harness import Planner

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.planner.relational.nodes import Project
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression

STORE = (
    '{"store": {"book": [{"title": "A", "price": 8.95, "tags": ["x", "y"]}, {"title": "B", "price": 12, "isbn": "1"},'
    ' {"title": "C", "price": 22.5}], "open": true}, "n": null, "a.b": [0.998, 0.996]}'
)


@functools.cache
def planner() -> Planner:
    made = Planner()
    made.run(
        "CREATE TABLE t (j STRING, s STRING, i INT, b BOOLEAN, x DOUBLE, d DECIMAL(20, 10), ts TIMESTAMP(3), lt TIMESTAMP_LTZ(3),"
        " y DATE, bs BYTES, a ARRAY<INT>, m MAP<STRING, INT>, q ROW<u INT, c STRING>) WITH ('connector' = 'datagen')"
    )
    return made


def evaluated(expression: str, next_text: str = "other", /, **row: Any) -> Any:
    """The value of an expression over a row, which stands between two others in a longer column."""
    node = planner().bind(f"SELECT {expression} FROM t")
    assert isinstance(node, Project)
    schema = planner().bind("SELECT * FROM t").schema
    other = {"j": '{"other": [1, "two"]}', "s": "other"}
    following = {**other, "s": next_text}
    rows = [{f.name: r.get(f.name) for f in schema.fields} for r in (other, row, following)]
    batch = pa.Table.from_pylist(rows, to_arrow_schema(schema)).combine_chunks().to_batches()[0].slice(1, 1)
    context = EvaluationContext(time_zone="Europe/Berlin")
    return compile_expression(node.expressions[0], node.input.schema, context)(batch).to_pylist()[0]


VALUES: list[tuple[str, str, Any]] = [
    ('{"a": true}', "'$.a'", "true"),
    ('{"a": true}', "'$.a' RETURNING BOOLEAN", True),
    ('{"a": true}', "'lax $.b' DEFAULT FALSE ON EMPTY", "false"),
    ('{"a": true}', "'strict $.b' DEFAULT FALSE ON ERROR", "false"),
    ('{"a.b": [0.998,0.996]}', "'$.[\"a.b\"][0]' RETURNING DOUBLE", 0.998),
    (
        '{"contains blank": "right"}',
        "'strict $.[''contains blank'']' NULL ON EMPTY DEFAULT 'wrong' ON ERROR",
        "right",
    ),
    ('{"a": {"b": "é\\u00e9\\n"}}', "'$.a.b'", "éé\n"),
    ('{"a": "\\ud83d\\ude00 \\ud83d"}', "'$.a'", "😀 ?"),
    ('{"a": 1.10}', "'$.a'", "1.10"),
    ('{"a": 1e3}', "'$.a'", "1E+3"),
    ('{"a": 1e400}', "'$.a'", "1E+400"),
    ('{"a": 12345678.5}', "'$.a'", "12345678.5"),
    ('{"a": 0.000001}', "'$.a'", "0.000001"),
    ('{"a": 0.00000010}', "'$.a'", "1.0E-7"),
    ('{"a": -0.0}', "'$.a'", "0.0"),
    ('{"a": 123456789.987654321}', "'$.a'", "123456789.987654321"),
    (
        '{"a": 9007199254740993.5}',
        "'$.a' RETURNING DECIMAL(30, 5)",
        decimal.Decimal("9007199254740993.50000"),
    ),
    ('{"a": 1e2}', "'$.a' RETURNING INTEGER", 100),
    ('{"a": 1e400}', "'$.a' RETURNING DECIMAL(38, 0)", None),
    ('{"a": -0}', "'$.a'", "0"),
    ('{"a": 123456789012345678901234567890}', "'$.a'", "123456789012345678901234567890"),
    ('{"a": 42}', "'$.a' RETURNING INTEGER", 42),
    ('{"a": "42"}', "'$.a' RETURNING INTEGER", 42),
    ('{"a": "x"}', "'$.a' RETURNING INTEGER", None),
    ('{"a": "x"}', "'$.a' RETURNING INTEGER DEFAULT 7 ON ERROR", 7),
    ('{"a": "x"}', "'$.a' RETURNING INTEGER DEFAULT '8' ON ERROR", 8),
    ("{}", "'lax $.a' RETURNING INTEGER DEFAULT 'no' ON EMPTY DEFAULT 9 ON ERROR", 9),
    ('{"a": 9999999999}', "'$.a' RETURNING BIGINT", 9999999999),
    ('{"a": null}', "'$.a' DEFAULT 'empty' ON EMPTY", "empty"),
    ('{"a": null}', "'strict $.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR", "empty"),
    ('{"a": [1]}', "'lax $.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR", "empty"),
    ('{"a": [1]}', "'strict $.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR", "error"),
    ("nonsense", "'lax $.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR", "error"),
    ("", "'$' DEFAULT 'error' ON ERROR", "error"),
    ('{"a": 1, "a": 2}', "'$.a'", "2"),
    ('{"a\\"b": 1}', "'$[''a\"b'']'", "1"),
    ('{"\\u00e9": 1}', "'$.é'", "1"),
    ("[1, [2, 3]]", "'$[1][-1]'", "3"),
    ("[1, 2]", "'$[2]'", None),
    ("[1, 2]", "'lax $[-3]' DEFAULT 'x' ON EMPTY", "x"),
    (' "text" ', "'$'", "text"),
    ("17", "'$'", "17"),
    (STORE, "'a'", None),
    (STORE, "'store.open'", "true"),
    (STORE, "'$.store.book.length()'", "3"),
    (STORE, "'$.store.book[0].tags.length()' RETURNING INT", 2),
    (STORE, "'$[''a.b''].sum()'", "1.994"),
    ('{"a": [0.1, 0.2]}', "'$.a.sum()'", "0.3"),
    ('{"a": [1, 2]}', "'$.a.sum()'", "3.0"),
    ('{"a": [9007199254740993, 0.5]}', "'$.a.sum()'", "9007199254740993.5"),
    ('{"a": [1.123456789123456789, 1.123456789123456788]}', "'$.a.max()'", "1.123456789123456789"),
    ('{"a": [1, 2, 2]}', "'$.a.avg()'", "1.6666666666666667"),
    ('{"a": []}', "'$.a.sum()'", None),
    (STORE, "'$[''a.b''].max()' RETURNING DOUBLE", 0.998),
    (STORE, "'$.store.book.last().title'", "C"),
    (STORE, "'lax $..title' DEFAULT 'list' ON EMPTY", "list"),
]


@pytest.mark.parametrize(("document", "clause", "value"), VALUES)
def test_json_value_is_the_scalar_at_a_path(document: str, clause: str, value: Any) -> None:
    assert evaluated(f"JSON_VALUE(j, {clause})", j=document) == value
    assert evaluated(f"JSON_VALUE(j, {clause})", j=None) is None
    literal = document.replace("'", "''")
    assert evaluated(f"JSON_VALUE('{literal}', {clause})") == value


def test_the_defaults_of_json_value_are_computed_per_row() -> None:
    assert evaluated("JSON_VALUE(j, 'lax $.x' DEFAULT s || '!' ON EMPTY)", j="{}", s="no") == "no!"
    assert evaluated("JSON_VALUE('{}', 'lax $.x' RETURNING INT DEFAULT i ON EMPTY)", i=3) == 3


QUERIES: list[tuple[str, str, Any]] = [
    ('{ "a": { "b": 1 } }', "'$.a'", '{"b":1}'),
    ("[1, 2]", "'$'", "[1,2]"),
    ('{"a":[{"c":"c1"},{"c":"c2"}]}', "'lax $.a[*].c'", '["c1","c2"]'),
    ('{"a":[{"c":"c1"},{"c":"c2"}]}', "'lax $.a[*].c' RETURNING ARRAY<STRING>", ["c1", "c2"]),
    ('{"a":["x", 1, null, {"b": [1.50]}]}', "'$.a' RETURNING ARRAY<STRING>", ["x", "1", None, '{"b":[1.50]}']),
    ("{}", "'$' WITH CONDITIONAL ARRAY WRAPPER", "[{}]"),
    ("[1, 2]", "'$' WITH CONDITIONAL ARRAY WRAPPER", "[1,2]"),
    ("[1, 2]", "'$' WITH UNCONDITIONAL ARRAY WRAPPER", "[[1,2]]"),
    ("[1, 2]", "'$' WITH WRAPPER", "[[1,2]]"),
    ("1", "'$'", None),
    ("1", "'$' WITH CONDITIONAL ARRAY WRAPPER", "[1]"),
    ("1", "'$' WITHOUT ARRAY WRAPPER EMPTY OBJECT ON ERROR", "{}"),
    ("{}", "'lax $.invalid' EMPTY OBJECT ON EMPTY", "{}"),
    ("{}", "'strict $.invalid' EMPTY ARRAY ON ERROR", "[]"),
    ("{}", "'strict $.invalid' EMPTY OBJECT ON EMPTY EMPTY ARRAY ON ERROR", "[]"),
    ("{}", "'lax $.a' RETURNING ARRAY<STRING> EMPTY ARRAY ON EMPTY", []),
    ('{"a": {}}', "'lax $.a' RETURNING ARRAY<STRING> EMPTY ARRAY ON ERROR", []),
    ("{,}", "'$' EMPTY ARRAY ON ERROR", "[]"),
    ('{"b": 1, "a": {"z": "\\u0041\\/", "y": 1e1}, "b": [ ]}', "'$'", '{"b":[],"a":{"z":"A/","y":1E+1}}'),
    ('{"a": {"x": 1, "x": {"y": 2}, "x": {"z": [3]}, "w": 4}}', "'$.a'", '{"x":{"z":[3]},"w":4}'),
    ('{"a": {"x": 1, "x": {"y": 2}, "x": {"z": [3]}, "w": 4}}', "'$.a.x'", '{"z":[3]}'),
    ('["\\u001f\\b\\f\\n\\r\\t\\"\\\\ \x7f"]', "'$'", '["\\u001F\\b\\f\\n\\r\\t\\"\\\\ \x7f"]'),
    (STORE, "'$.store.book[*].title'", '["A","B","C"]'),
    (STORE, "'$..title'", '["A","B","C"]'),
    (STORE, "'$..book[1].title'", '["B"]'),
    (STORE, "'$.store.book[-2:].title'", '["B","C"]'),
    (STORE, "'$.store.book[0:1].tags[0, 1]'", '["x","y"]'),
    (STORE, "'$.store.book[?(@.price > 10)].title'", '["B","C"]'),
    ("[9007199254740993, 9007199254740992]", "'$[?(@ > 9007199254740992)]'", "[9007199254740993]"),
    ("[9007199254740993, 9007199254740992]", "'$[?(@ == 9007199254740993)]'", "[9007199254740993]"),
    ('["9007199254740993", 9007199254740992]', "'$[?(@ in [9007199254740992])]'", "[9007199254740992]"),
    ("[0.10, 0.1, 1e-400]", "'$[?(@ <= 0.1)]'", "[0.10,0.1,1E-400]"),
    ("[1e-400, 1e-401]", "'$[?(@ < 1e-400)]'", "[1E-401]"),
    (STORE, "'$.store.book[?(@.price <= 12 && @.title != ''A'')].title'", '["B"]'),
    (STORE, "'$.store.book[?(@.isbn)].title'", '["B"]'),
    (STORE, "'$.store.book[?(!@.isbn)].title'", '["A","C"]'),
    (STORE, "'$.store.book[?(@.isbn == 1 || (@.title == \"C\"))].price'", "[12,22.5]"),
    (STORE, "'$.store.book[?(@.title in [''A'', ''C''])].title'", '["A","C"]'),
    (STORE, "'$.store.book[?(@.title nin [''A''])].title'", '["B","C"]'),
    (STORE, "'$.store.book[?(@.title =~ /[ab]/i)].title'", '["A","B"]'),
    (STORE, "'$.store.book[?(@.title =~ /(?s:[ab])/i)].title'", '["A","B"]'),
    (STORE, "'$.store.book[?(@.title =~ /(?s:A)|B/)].title'", '["A","B"]'),
    (STORE, "'$.store.book[?(@.tags size 2)].title'", '["A"]'),
    (STORE, "'$.store.book[?(@.tags[1] == ''y'')].title'", '["A"]'),
    (STORE, "'$.store.book[?(@.price > $.store.book[0].price)].title'", '["B","C"]'),
    (STORE, "'$.store.book[?(@.tags.length() > 1)].title'", '["A"]'),
    (STORE, "'$..[?(@.isbn)].title'", '["B"]'),
    (STORE, "'$.store.book[0][''price'',''title'']'", '{"price":8.95,"title":"A"}'),
    (STORE, "'$.store.*'", '[[{"title":"A","price":8.95,"tags":["x","y"]},{"title":"B","price":12,"isbn":"1"},'
     '{"title":"C","price":22.5}],true]'),
    (STORE, "'lax $.nothing[*]'", "[]"),
    (STORE, "'$.nothing[*]' EMPTY OBJECT ON ERROR", "{}"),
    ('{"b": {"a": 1}, "a": {"a": 2}}', "'$..a'", '[{"a":2},1,2]'),
    ('[[1, 2], [3]]', "'$[*][*]' WITH UNCONDITIONAL WRAPPER", "[[1,2,3]]"),
    ('{"a": [1, "1", "2", true, null]}', "'$.a[?(@ == 1)]'", '[1,"1"]'),
    ('{"a": [1, "1", "2", true, null]}', "'$.a[?(@ == null)]'", "[null]"),
    ('{"a": [1, "1", "2", true, null]}', "'$.a[?(@ >= ''1'')]'", '["1","2"]'),
]  # fmt: skip


@pytest.mark.parametrize(("document", "clause", "value"), QUERIES)
def test_json_query_is_the_json_at_a_path(document: str, clause: str, value: Any) -> None:
    assert evaluated(f"JSON_QUERY(j, {clause})", j=document) == value
    assert evaluated(f"JSON_QUERY(j, {clause})", j=None) is None


def test_json_query_reads_numbers_too() -> None:
    assert evaluated("JSON_QUERY(1, '$')") is None
    assert evaluated("JSON_QUERY(1, '$' WITH CONDITIONAL ARRAY WRAPPER)") == "[1]"


EXISTS: list[tuple[str | None, str, bool | None]] = [
    ('{"a": true}', "'$.a'", True),
    ('{"a": true}', "'$.b'", False),
    ('{"a": [{ "b": 1 }]}', "'$.a[0].b'", True),
    ('{"a": true}', "'strict $.b' TRUE ON ERROR", True),
    ('{"a": true}', "'strict $.b' FALSE ON ERROR", False),
    ('{"a": true}', "'strict $.b' UNKNOWN ON ERROR", None),
    ('{"a": true}', "'lax $.b' TRUE ON ERROR", False),
    ('{"a": null}', "'$.a'", False),
    ('{"a": [1]}', "'$.a[*]'", True),
    ('{"a": []}', "'$.a[*]'", False),
    ("x", "'lax $' TRUE ON ERROR", True),
    (None, "'$' TRUE ON ERROR", None),
]


@pytest.mark.parametrize(("document", "clause", "value"), EXISTS)
def test_json_exists_tests_for_a_value(document: str | None, clause: str, value: bool | None) -> None:
    assert evaluated(f"JSON_EXISTS(j, {clause})", j=document) is value


@pytest.mark.parametrize(
    "expression",
    [
        "JSON_VALUE(j, 'lax $.x' ERROR ON EMPTY)",
        "JSON_VALUE(j, 'strict $.x' ERROR ON ERROR)",
        "JSON_VALUE(j, '$.a' RETURNING INT ERROR ON ERROR)",
        "JSON_VALUE(j, '$.a' RETURNING INT DEFAULT 'z' ON ERROR)",
        "JSON_QUERY(j, 'lax $.x' ERROR ON EMPTY)",
        "JSON_QUERY(j, '$.a' ERROR ON ERROR)",
        "JSON_EXISTS(j, '$.x' ERROR ON ERROR)",
        "JSON_ARRAY(JSON(s))",
    ],
)
def test_an_error_clause_fails_with_the_place_of_the_call(expression: str) -> None:
    with pytest.raises(UserError) as failed:
        evaluated(expression, j='{"a": "text"}', s="{")
    assert failed.value.code == "SS5102"
    assert failed.value.span is not None
    if "ON EMPTY" in expression or "ON ERROR" in expression:
        assert ("found no value in" in failed.value.message) == ("ERROR ON EMPTY" in expression)
    if "RETURNING INT ERROR" in expression:
        assert failed.value.message == """JSON_VALUE found 'text' in '{"a": "text"}', which is no INT"""
    own = {"JSON_QUERY": "EMPTY ARRAY", "JSON_EXISTS": "UNKNOWN"}.get(expression.partition("(")[0], "")
    assert own in failed.value.hint


IS_JSON = [
    ("1", (True, True, False, False)),
    ('"abc"', (True, True, False, False)),
    ("null", (True, True, False, False)),
    ("[]", (True, False, True, False)),
    (" {} ", (True, False, False, True)),
    *(
        (text, (False, False, False, False))
        for text in ("abc", "", " ", "1 2", "[1,]", "{,}", '{"a"}', '{"a":1,}', "[1", "01", "1.", ".5", "+1", "NaN", "'a'",
                     '"\\x"', '"\\u12g4"', '"a', '"\n"', "tru", "[1]]", "{1:2}", "-", "1e", "[" * 1001 + "]" * 1001, "1" * 1001)
    ),
    ("[" * 1000 + "]" * 1000, (True, False, True, False)),
    (None, (None, None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), IS_JSON)
def test_is_json_tests_the_grammar_and_the_kind(text: str | None, values: tuple[bool | None, ...]) -> None:
    for kind, value in zip(("VALUE", "SCALAR", "ARRAY", "OBJECT"), values, strict=True):
        assert evaluated(f"s IS JSON {kind}", s=text) is value
        assert evaluated(f"s IS NOT JSON {kind}", s=text) is (None if value is None else not value)
    assert evaluated("s IS JSON", s=text) is values[0]


def test_a_text_ends_where_its_row_ends() -> None:
    """What stands in the next row would complete each of these."""
    for text, next_text in (
        ('"a', '"'),
        ("[1", "]"),
        ('{"a": 1', "}"),
        ("tru", "e"),
        ("-", "1"),
        ("1.", "5"),
        ('"\\', '""'),
    ):
        assert evaluated("s IS JSON", next_text, s=text) is False, text


OTHERS: list[tuple[str, dict[str, Any], Any]] = [
    ("JSON_LENGTH(j)", {"j": '{"1": "hello", "2": "bye bye"}'}, 2),
    ("JSON_LENGTH(j)", {"j": "[1,2,3,4,5]"}, 5),
    ("JSON_LENGTH(j)", {"j": '"hello"'}, 1),
    ("JSON_LENGTH(j, '$.2')", {"j": '{"1": "hello", "2": "bye bye"}'}, 1),
    ("JSON_LENGTH(j, '$.2')", {"j": '{"1": "hello", "2": "BAD SYNTAX ->"'}, None),
    ("JSON_LENGTH(j, '$[*]')", {"j": "[[1, 2]]"}, 2),
    ("JSON_LENGTH(j, '$[*]')", {"j": "[[1, 2], 3]"}, None),
    ("JSON_LENGTH(j)", {"j": '{"a": 1, "a": 2}'}, 1),
    ("JSON_LENGTH(j)", {}, None),
    ("JSON_TYPE(j)", {"j": '{"a": true}'}, "object"),
    ("JSON_TYPE(j)", {"j": "[1, 2]"}, "array"),
    ("JSON_TYPE(j)", {"j": "null"}, "null"),
    ("JSON_TYPE(j)", {"j": "false"}, "boolean"),
    ("JSON_TYPE(j)", {"j": '"2015-01-01"'}, "string"),
    ("JSON_TYPE(j)", {"j": "11.1"}, "number"),
    ("JSON_TYPE(j)", {"j": "68s"}, None),
    ("JSON_TYPE(j, '$.a')", {"j": '{"a": [1, 2]}'}, "array"),
    ("JSON_TYPE(j, '$.b')", {"j": '{"a": [1, 2]}'}, None),
    ("JSON_QUOTE(s)", {"s": 'a"/\\\b\f\n\r\té'}, '"a\\"\\/\\\\\\b\\f\\n\\r\\t\\u00e9"'),
    ("JSON_QUOTE(s)", {}, None),
    ("JSON_UNQUOTE(s)", {"s": '"a\\"\\/\\\\\\u00e9\\n"'}, 'a"/\\é\n'),
    ("JSON_UNQUOTE(s)", {"s": '"a'}, '"a'),
    ("JSON_UNQUOTE(s)", {"s": '"a"b"'}, 'a"b'),
    ("JSON_UNQUOTE(s)", {"s": '""\\u0041\\n""'}, '"A\n"'),
    ("JSON_UNQUOTE(s)", {"s": '"a"\\x"'}, '"a"\\x"'),
    ("JSON_UNQUOTE(s)", {"s": '"a" '}, '"a" '),
    ("JSON_QUOTE(s)", {"s": 'é€😀/\x1f\x7f"'}, '"\\u00e9\\u20ac\\ud83d\\ude00\\/\\u001F\x7f\\""'),
    ("JSON_STRING(JSON_OBJECT('a' VALUE s))", {"s": "x"}, '{"a":"x"}'),
    ("JSON_STRING(JSON_ARRAY(s))", {"s": "x"}, '["x"]'),
    ("JSON_UNQUOTE(s)", {"s": "[1]"}, "[1]"),
    ("JSON_UNQUOTE(s)", {}, None),
]


@pytest.mark.parametrize(("expression", "row", "value"), OTHERS)
def test_other_functions_read_json(expression: str, row: dict[str, Any], value: Any) -> None:
    assert evaluated(expression, **row) == value


MADE: list[tuple[str, Any]] = [
    ("JSON_STRING(CAST(NULL AS INT))", None),
    ("JSON_STRING(1)", "1"),
    ("JSON_STRING(TRUE)", "true"),
    ("JSON_STRING('Hello, World!')", '"Hello, World!"'),
    ("JSON_STRING(ARRAY[1, 2])", "[1,2]"),
    ("JSON_STRING(ARRAY['a/b', CAST(NULL AS STRING)])", '["a/b",null]'),
    ("JSON_STRING(MAP['b', 1, 'a', 2])", '{"a":2,"b":1}'),
    ("JSON_STRING(q)", '{"c":"x","u":1}'),
    ("JSON_STRING(1.23)", "1.23"),
    ("JSON_STRING(CAST('0.0000001' AS DECIMAL(10, 7)))", "1E-7"),
    ("JSON_STRING(CAST('-0.00000012' AS DECIMAL(10, 8)))", "-1.2E-7"),
    ("JSON_STRING(1.5E10)", "1.5E10"),
    ("JSON_STRING(x / 0)", '"Infinity"'),
    ("JSON_STRING(TIMESTAMP '1990-06-02 13:37:42.001')", '"1990-06-02T13:37:42.001"'),
    ("JSON_STRING(TIMESTAMP '1990-06-02 13:37:00')", '"1990-06-02T13:37"'),
    ("JSON_STRING(CAST('1990-06-02 13:37:42.10' AS TIMESTAMP(6)))", '"1990-06-02T13:37:42.100"'),
    ("JSON_STRING(CAST(TIMESTAMP '1990-06-02 13:37:00' AS TIMESTAMP_LTZ(3)))", '"1990-06-02T11:37:00Z"'),
    ("JSON_STRING(DATE '2024-01-02')", '"2024-01-02"'),
    ("JSON_STRING(X'54657374')", '"VGVzdA=="'),
    ("JSON_OBJECT()", "{}"),
    ("JSON_OBJECT('K1' VALUE 'V1', 'K2' VALUE 'V2')", '{"K1":"V1","K2":"V2"}'),
    ("JSON_OBJECT('b' VALUE i, 'a': s)", '{"a":"t\\"","b":5}'),
    ("JSON_OBJECT(KEY 'K1' VALUE CAST(NULL AS STRING) NULL ON NULL)", '{"K1":null}'),
    ("JSON_OBJECT(KEY 'K1' VALUE CAST(NULL AS STRING) ABSENT ON NULL)", "{}"),
    ("JSON_OBJECT('n' VALUE CAST(NULL AS INT), 'i' VALUE i ABSENT ON NULL)", '{"i":5}'),
    (
        """JSON_OBJECT('K1' VALUE JSON('{"nested_json": {"value": 42}}'))""",
        '{"K1":{"nested_json":{"value":42}}}',
    ),
    ("JSON_OBJECT(KEY 'K1' VALUE JSON_OBJECT(KEY 'K2' VALUE 'V'))", '{"K1":{"K2":"V"}}'),
    ("JSON_OBJECT('K' VALUE JSON(''))", '{"K":null}'),
    ("JSON_OBJECT('k' VALUE 1, 'k' VALUE 2)", '{"k":2}'),
    ("JSON_OBJECT('a\"b' VALUE JSON_VALUE('{\"x\": 1}', '$.x'))", '{"a\\"b":"1"}'),
    ("JSON_ARRAY()", "[]"),
    ("JSON_ARRAY(1, '2')", '[1,"2"]'),
    ("JSON_ARRAY(i, x)", "[5,2.5]"),
    ("JSON_ARRAY(CAST(NULL AS STRING) NULL ON NULL)", "[null]"),
    ("JSON_ARRAY(CAST(NULL AS STRING) ABSENT ON NULL)", "[]"),
    ("JSON_ARRAY(CAST(NULL AS STRING))", "[]"),
    ("JSON_ARRAY(JSON_ARRAY(1))", "[[1]]"),
    ("""JSON_ARRAY(JSON('{"b": 1, "a": {"d": 1.0, "c": []}}'))""", '[{"a":{"c":[],"d":1.0},"b":1}]'),
    ("JSON_ARRAY(JSON('') NULL ON NULL)", "[null]"),
]


@pytest.mark.parametrize(("expression", "value"), MADE)
def test_json_is_written_as_jackson_writes_it(expression: str, value: Any) -> None:
    assert evaluated(expression, s='t"', i=5, x=2.5, q={"u": 1, "c": "x"}) == value


REFUSED = [
    ("JSON_VALUE(j, s)", "SS3101"),
    ("JSON_VALUE(j, '$.')", "SS3450"),
    ("JSON_VALUE(j, '$.a b')", "SS3450"),
    ("JSON_VALUE(j, '$[1')", "SS3450"),
    ("JSON_QUERY(j, '$[?(@.a ~ 1)]')", "SS3450"),
    ("JSON_EXISTS(j, '')", "SS3450"),
    ("JSON_VALUE(j, '$.a.concat(1)')", "SS3451"),
    ("JSON_QUERY(j, '$[?(@.a =~ /(?=b)/)]')", "SS3104"),
    ("JSON_QUERY(j, '$[0:5:2]')", "SS3451"),
    ("JSON_VALUE(j, '$.a' RETURNING ARRAY<INT>)", "SS3452"),
    ("JSON_VALUE(j, '$.a' RETURNING INT DEFAULT DATE '2024-01-01' ON EMPTY)", "SS3452"),
    ("JSON_QUERY(j, '$.a' RETURNING INT)", "SS3452"),
    ("JSON_QUERY(j, '$.a' RETURNING ARRAY<STRING> EMPTY OBJECT ON EMPTY)", "SS3452"),
    ("JSON_QUERY(a, '$')", "SS2006"),
    ("JSON_LENGTH(j, 'strict $.1')", "SS3452"),
    ("JSON_LENGTH(j, '$.[')", "SS3450"),
    ("JSON_TYPE(j, '')", "SS3450"),
    ("JSON_TYPE(j, s)", "SS3101"),
    ("JSON(j)", "SS3452"),
    ("JSON_OBJECT(s VALUE 1)", "SS3452"),
    ("JSON_STRING(INTERVAL '1' DAY)", "SS2006"),
    ("i IS JSON", "SS2008"),
]


@pytest.mark.parametrize(("expression", "code"), REFUSED)
def test_what_has_no_meaning_is_refused_with_its_place(expression: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        evaluated(expression)
    assert refused.value.code == code
    assert refused.value.span is not None
    assert refused.value.hint


VARIANTS: list[tuple[str, dict[str, Any], Any]] = [
    ("""JSON_STRING(PARSE_JSON('{"k1":"v1"}'))""", {}, '{"k1":"v1"}'),
    ("PARSE_JSON(j)", {"j": ' {"b": [1, 2.50, 1e2], "a": {"d": null, "c": "\\u0041"}} '},
     '{"a":{"c":"A","d":null},"b":[1,2.50,100.0]}'),
    ("PARSE_JSON(j).b.c", {"j": '{"b": {"c": [0]}}'}, "[0]"),
    ("PARSE_JSON(j)['b'][1]", {"j": '{"b": [1, 2]}'}, "1"),
    ("PARSE_JSON(j)['b'][0]", {"j": '{"b": [1, 2]}'}, None),
    ("PARSE_JSON(j)['b'][3]", {"j": '{"b": [1, 2]}'}, None),
    ("PARSE_JSON(j)[s]", {"j": '{"b": "text"}', "s": "b"}, '"text"'),
    ("PARSE_JSON(j)[i]", {"j": "[7, 8]", "i": 2}, "8"),
    ("PARSE_JSON(j)['x']", {"j": "[7, 8]"}, None),
    ("CAST(PARSE_JSON(j)['b'] AS STRING)", {"j": '{"b": "te\\"xt"}'}, 'te"xt'),
    ("CAST(PARSE_JSON(j)['b'] AS STRING)", {"j": '{"b": [1, {"a": "x"}]}'}, '[1,{"a":"x"}]'),
    ("CAST(PARSE_JSON(j)['b'] AS INT) + 1", {"j": '{"b": 41}'}, 42),
    ("CAST(PARSE_JSON(j)['b'] AS INT)", {"j": '{"b": null}'}, None),
    ("CAST(PARSE_JSON(j)['b'] AS DOUBLE)", {"j": '{"b": 1.5}'}, 1.5),
    ("CAST(PARSE_JSON(j)['b'] AS BOOLEAN)", {"j": '{"b": true}'}, True),
    ("TRY_CAST(PARSE_JSON(j)['b'] AS INT)", {"j": '{"b": [1]}'}, None),
    ("PARSE_JSON(j)['b'] IS NULL", {"j": '{"b": null}'}, False),
    ("PARSE_JSON(j)", {}, None),
    ("TRY_PARSE_JSON(j)", {"j": "{"}, None),
    ("TRY_PARSE_JSON(j)", {"j": '{"a": {"b": 1, "b": 2}}'}, None),
    ("TRY_PARSE_JSON(j, TRUE)", {"j": '{"a": {"b": 1, "b": {"c": 3}}}'}, '{"a":{"b":{"c":3}}}'),
    ("PARSE_JSON(j, b)", {"j": '{"b": 1, "b": 2}', "b": True}, '{"b":2}'),
    ("JSON_LENGTH(PARSE_JSON(j))", {"j": "[1, 2]"}, 2),
    ("JSON_OBJECT('v' VALUE PARSE_JSON(j))", {"j": "[1, 2]"}, '{"v":[1,2]}'),
    ("JSON_STRING(CAST(s AS VARIANT))", {"s": "t"}, '"t"'),
    ("CAST(CAST(i AS VARIANT) AS BIGINT)", {"i": 5}, 5),
    ("CAST(ARRAY[1, 2] AS VARIANT)[2]", {}, "2"),
    ("COALESCE(TRY_PARSE_JSON(j), PARSE_JSON('1'))", {"j": "{"}, "1"),
    ("CASE WHEN j IS JSON THEN PARSE_JSON(j) END", {"j": "{"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "row", "value"), VARIANTS)
def test_a_variant_is_a_value_of_json(expression: str, row: dict[str, Any], value: Any) -> None:
    assert evaluated(expression, **row) == value


@pytest.mark.parametrize(
    ("text", "flag"), [("{", ""), ('{"a": 1, "a": 2}', ""), ('{"a": 1, "a": 2}', ", FALSE")]
)
def test_parse_json_fails_for_malformed_json_and_repeated_names(text: str, flag: str) -> None:
    with pytest.raises(UserError) as failed:
        evaluated(f"PARSE_JSON(j{flag})", j=text)
    assert failed.value.code == "SS5102"


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("PARSE_JSON(j) = PARSE_JSON(j)", "SS2008"),
        ("CAST(PARSE_JSON(j) AS ARRAY<INT>)", "SS2008"),
        ("CAST(INTERVAL '1' DAY AS VARIANT)", "SS2008"),
        ("PARSE_JSON(i)", "SS2006"),
        ("PARSE_JSON(j)[TRUE]", "SS2008"),
        ("MAX(PARSE_JSON(j))", "SS2006"),
        ("MAP[PARSE_JSON(j), 1]", "SS3102"),
    ],
)
def test_what_a_variant_does_not_do_is_refused(expression: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        evaluated(expression)
    assert refused.value.code == code


def test_a_name_that_is_repeated_is_found_whatever_read_the_column_before() -> None:
    text = '{"a": {"b": 1, "b": 2}}'
    assert evaluated(
        "JSON_STRING(TRY_PARSE_JSON(j, TRUE)) || COALESCE(JSON_STRING(TRY_PARSE_JSON(j)), '-')", j=text
    ) == ('{"a":{"b":2}}-')


@pytest.mark.parametrize("count", [2, 15, 16, 17, 63, 64, 65, 300])
def test_the_names_of_objects_of_any_size_are_put_in_order(count: int) -> None:
    names = [f"n{i * 7919 % count:03}" for i in range(count)]
    text = (
        "{"
        + ", ".join(f'"{n}": {{"z": 1, "é": 2, "a": 3}}' for n in names)
        + ', "n000": 7, "n001": 1, "n000": 0}'
    )
    wanted = {n: {"a": 3, "z": 1, "é": 2} for n in sorted(set(names))} | {"n000": 0, "n001": 1}
    made = evaluated("JSON_ARRAY(JSON(j))", j=text)
    assert made == json.dumps([wanted], ensure_ascii=False, separators=(",", ":"))
    assert evaluated("JSON_LENGTH(j)", j=text) == len(wanted)
    assert evaluated("JSON_QUERY(j, '$')", j=text) == json.dumps(
        {n: wanted[n] if isinstance(wanted[n], int) else {"z": 1, "é": 2, "a": 3} for n in names},
        ensure_ascii=False,
        separators=(",", ":"),
    )


@pytest.mark.parametrize("count", [3, 40])
def test_objects_in_objects_have_names_of_their_own(count: int) -> None:
    members = [f'"n{i}":{i}' for i in range(count)]
    inner = "{" + ",".join([*members, '"n1":"last"']) + "}"
    text = "{" + ",".join([f'"o":{inner}', *members, f'"n2":[{inner},{inner}]']) + "}"
    wanted = json.dumps(json.loads(text), separators=(",", ":"))
    assert evaluated("JSON_QUERY(j, '$')", j=text) == wanted


@pytest.mark.parametrize("count", [1, 2, 40])
def test_numbers_may_become_longer(count: int) -> None:
    text = f"[{','.join(['1e6'] * count)}]"
    assert evaluated("JSON_QUERY(j, '$')", j=text) == f"[{','.join(['1E+6'] * count)}]"
    assert evaluated("JSON_STRING(PARSE_JSON(j)[1])", j=text) == "1000000.0"
