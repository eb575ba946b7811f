"""Every character in every spelling of JSON, read and written by the kernels, beside Python's json."""

from __future__ import annotations

import functools
import io
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from planner_harness import Planner

from sqlstream import types as sql
from sqlstream.planner.relational.nodes import Project
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

CODES = [
    *range(0xA0),
    0x7FE,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0x2028,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x1F600,
    0x10FFFF,
]
SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\", 47: "/"}


def spellings(code: int) -> list[str]:
    """All ways to write a character within a JSON string."""
    units = chr(code).encode("utf-16-be").hex()
    escaped = ["".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))]
    escaped.append(escaped[0].upper().replace("\\U", "\\u"))
    escaped += [f"\\{SHORT[code]}"] if code in SHORT else []
    return escaped if code < 32 or code in (34, 92) else [chr(code), *escaped]


SPELLED = [(chr(code), f"{before}{text}{after}", before, after) for code in CODES for text in spellings(code)
           for before, after in (("", ""), ("ab", "é"), ("\\n", "0123456789abcdef"))]  # fmt: skip


def jackson(text: str) -> str:
    """A JSON string as Jackson writes it: only what must be is escaped, with large digits."""
    short = {code: letter for code, letter in SHORT.items() if code != 47}
    return '"' + "".join(
        f"\\{short[ord(c)]}" if ord(c) in short else f"\\u{ord(c):04X}" if ord(c) < 32 else c for c in text
    ) + '"'  # fmt: skip


@functools.cache
def planner() -> Planner:
    made = Planner()
    made.run("CREATE TABLE t (j STRING) WITH ('connector' = 'datagen')")
    return made


def evaluated(expression: str, texts: list[str]) -> list[Any]:
    """Its values over the texts, which stand between others in a longer column."""
    node = planner().bind(f"SELECT {expression} FROM t")
    assert isinstance(node, Project)
    column = pa.array(['{"a": ["x\\u0041"]}', *texts, "other"]).slice(1, len(texts))
    batch = pa.RecordBatch.from_arrays([column], names=["j"])
    values: list[Any] = compile_expression(node.expressions[0], node.input.schema, EvaluationContext())(
        batch
    ).to_pylist()
    return values


def wanted() -> list[str]:
    return [{"\\n": "\n"}.get(before, before) + character + after for character, _, before, after in SPELLED]


def test_a_string_is_read_as_its_characters_and_written_as_jackson_does() -> None:
    texts = wanted()
    documents = [f'{{"a": ["{spelled}"]}}' for _, spelled, _, _ in SPELLED]
    assert [json.loads(d)["a"][0] for d in documents] == texts
    assert evaluated("JSON_VALUE(j, '$.a[0]')", documents) == texts
    assert evaluated("JSON_QUERY(j, '$.a')", documents) == [f"[{jackson(t)}]" for t in texts]
    assert evaluated("JSON_STRING(PARSE_JSON(j))", documents) == [f'{{"a":[{jackson(t)}]}}' for t in texts]
    assert evaluated("JSON_STRING(j)", texts) == [jackson(t) for t in texts]
    quoted = evaluated("JSON_QUOTE(j)", texts)
    assert [json.loads(q) for q in quoted] == texts
    assert evaluated("JSON_UNQUOTE(j)", quoted) == texts
    assert evaluated("j IS JSON OBJECT", documents) == [True] * len(documents)


def test_a_name_is_found_in_every_spelling() -> None:
    documents = [f'{{"other": 0, "{spelled}": {n}}}' for n, (_, spelled, _, _) in enumerate(SPELLED)]
    found = evaluated("JSON_QUERY(j, '$')", documents)
    names = [jackson(text) for text in wanted()]
    assert [json.loads(f) for f in found] == [{"other": 0, text: n} for n, text in enumerate(wanted())]
    assert [f"{name}:{n}" in f for n, (name, f) in enumerate(zip(names, found, strict=True))] == [True] * len(
        found
    )
    assert evaluated("JSON_VALUE(j, '$.AB')", ['{"\\u0041B": 1}', '{"AB": 2, "\\u0041\\u0042": 3}', '{"ab": 4}']) == [
        "1", "3", None
    ]  # fmt: skip


NUMBERS = [
    "0",
    "-0",
    "7",
    "-12",
    "1.5",
    "-0.25",
    "1e3",
    "1E+3",
    "2.5e-2",
    "123456789012",
    "0.1e1",
    "9007199254740993",
]
WORDS = ["true", "false", "null"]
BROKEN = [
    *("01", "-", "+1", ".5", "1.", "1e", "1e+", "--1", "1.e3", "0x1", "1_0", "NaN", "Infinity", "-a"),
    *("tru", "truE", "nul", "nulll", "fals", "falsey", "True", "undefined"),
    *('"', '"a', '"\\', '"\\"', '"\\x"', '"\\u12"', '"\\u12g4"', '"\\u"', '"a\nb"', '"a\tb"', '"\x01"', "'a'"),
    *("[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "]", "[1]]", "[}", "[1}", "[1,,2]"),
    *("{", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{a:1}", '{"a" 1}', '{"a":1 "b":2}', '{"a":}', "{]", '{"a":1]'),
    *('{1:2}', '{"a":1}}', "1 2", "1,", "", " ", "\x0b1", "1\x0c"),
]  # fmt: skip
BLANKS = ("", " ", "\t\r\n ")


def test_what_is_json_is_told_from_what_is_not_whatever_blanks_stand_around() -> None:
    good = [*NUMBERS, *WORDS, '""', '"a"', "[]", "{}", "[1, [2]]", '{"a": {"b": []}}']
    good = [f"{a}{text}{b}" for text in good for a, b in itertools.product(BLANKS, BLANKS)]
    good += [f'[{a}1{a},{a}{{{a}"x"{a}:{a}null{a}}}{a}]' for a in BLANKS]
    for text in good:
        json.loads(text)
    assert evaluated("j IS JSON", good) == [True] * len(good)
    for text in BROKEN:
        if text not in ("NaN", "Infinity"):
            with pytest.raises(json.JSONDecodeError):
                json.loads(text)
    assert [t for t, is_json in zip(BROKEN, evaluated("j IS JSON", BROKEN), strict=True) if is_json] == []
    nested = [f"[{text}]" for text in BROKEN if text.strip()]
    nested = [t for t in nested if not _is_json(t)]
    assert [t for t, is_json in zip(nested, evaluated("j IS JSON", nested), strict=True) if is_json] == []


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=lambda name: int(name))
    except ValueError:
        return False
    return True


def test_scalars_and_containers_keep_their_kinds() -> None:
    values = [*NUMBERS, *WORDS, '"s"', "[]", "[1]", "{}", '{"a":1}']
    documents = [f'{{"v": {value}}}' for value in values]
    kinds = [type(json.loads(value)) for value in values]
    assert evaluated("JSON_QUERY(j, '$.v') IS JSON ARRAY", documents) == [
        k is list if k in (list, dict) else None for k in kinds
    ]
    assert evaluated("JSON_EXISTS(j, '$.v')", documents) == [value != "null" for value in values]
    scalars = [json.loads(v) if k not in (list, dict) else None for v, k in zip(values, kinds, strict=True)]
    found = evaluated("JSON_VALUE(j, '$.v' RETURNING DOUBLE NULL ON ERROR)", documents)
    assert found == [
        float(s) if isinstance(s, int | float) and not isinstance(s, bool) else None for s in scalars
    ]


@pytest.mark.parametrize("index", [-4, -3, -2, -1, 0, 1, 2, 3])
def test_elements_are_counted_from_either_end_of_arrays_alone(index: int) -> None:
    documents = ["[10, [1], {}]", "[10]", "[]", '{"0": 1}', "5", '[[10, 20], {"a": [1]}, 30, 40]']
    lists = [json.loads(d) for d in documents]
    wanted = [v[index] if isinstance(v, list) and -len(v) <= index < len(v) else None for v in lists]
    found = evaluated(f"JSON_QUERY(j, '$[{index}]' WITH WRAPPER)", documents)
    assert [json.loads(f)[0] if f is not None else None for f in found] == wanted


def test_the_format_reads_each_spelling_as_the_functions_do() -> None:
    schema = Schema.of(("n", sql.INT), ("s", sql.STRING))
    lines = [f'{{"n": {n}, "s": "{spelled}"}}' for n, (_, spelled, _, _) in enumerate(SPELLED)]
    lines += [
        f'{{ "\\u0073" :"{spelled}" , "other":["{spelled}"], "\\u006e":{n}}}'
        for n, (_, spelled, _, _) in enumerate(SPELLED)
    ]
    data = "\n".join(lines).encode()
    for uses_kernel in (True, False):
        reader = JsonReader(
            ReadRequest(io.BytesIO(data), "f", schema, schema.names, {}), uses_kernel=uses_kernel
        )
        rows = [row for batch, rejected in reader.batches() for row in batch.to_pylist() if not rejected]
        assert rows == [{"n": n, "s": text} for _ in range(2) for n, text in enumerate(wanted())]
