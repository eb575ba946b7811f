"""JSON functions against Python's reader on random documents, written in many ways."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.json.documents import read_documents
from sqlstream.runtime.evaluate.json.follow import follow
from sqlstream.text.json_path import parse_path

NAMES = ["a", "b", "a b", "é", '"', "\\", "", "\n", "\u20ac", "\U0001f600"]
TEXTS = [*NAMES, "x/y", "\x1f", "null", "12"]


def value_of(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind < 6:
        numbers = [
            rng.randrange(-5, 5),
            rng.randrange(10**18),
            rng.random(),
            float(rng.randrange(100)),
            1.5e-7,
        ]
        return rng.choice([rng.choice(TEXTS), rng.choice(numbers), True, False, None])
    if kind == 6:
        return [value_of(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {rng.choice(NAMES): value_of(rng, depth - 1) for _ in range(rng.randrange(6))}


def written(rng: random.Random, value: Any) -> str:
    """The value with blanks, escapes and repeated names that change nothing."""
    blank = rng.choice(["", " ", "\n\t"])
    if isinstance(value, dict):
        members = [(k, v) for k, v in value.items()]
        # A name may stand earlier with another value, if its place among the names stays the same.
        early = [(k, [{"z": 0}]) for k, _ in members if rng.random() < 0.2]
        ordered = (
            [*early, *members] if early == [(k, [{"z": 0}]) for k, _ in members[: len(early)]] else members
        )
        texts = (f"{written(rng, k)}{blank}:{blank}{written(rng, v)}" for k, v in ordered)
        return f"{blank}{{{blank}{','.join(texts)}{blank}}}{blank}"
    if isinstance(value, list):
        return f"[{blank}{','.join(written(rng, v) for v in value)}{blank}]"
    if isinstance(value, str):
        return blank + json.dumps(value, ensure_ascii=rng.random() < 0.5) + blank
    return f"{blank}{json.dumps(value)}{blank}"


def members(value: Any, name: str) -> list[Any]:
    return [value[name]] if isinstance(value, dict) and name in value else []


def children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def containers(value: Any) -> list[Any]:
    if not isinstance(value, dict | list):
        return []
    return [value, *(c for child in children(value) for c in containers(child))]


REFERENCES = {
    "lax $": lambda v: [v],
    "lax $.a": lambda v: members(v, "a"),
    "lax $['\"'].b": lambda v: [x for m in members(v, '"') for x in members(m, "b")],
    "lax $['€']": lambda v: members(v, "€"),
    "lax $[-1]": lambda v: v[-1:] if isinstance(v, list) else [],
    "lax $.*": children,
    "lax $[1:3]": lambda v: v[1:3] if isinstance(v, list) else [],
    "lax $[-2:]": lambda v: v[-2:] if isinstance(v, list) else [],
    "lax $..a": lambda v: [x for c in containers(v) for x in members(c, "a")],
    "lax $..*": lambda v: [x for c in containers(v) for x in children(c)],
    "lax $[*][?(@.a)]": lambda v: [
        x
        for c in children(v)
        for x in ([c] if isinstance(c, dict) else c if isinstance(c, list) else [])
        if members(x, "a")
    ],
    "lax $..[?(@.b == 'null' || @.a > 0)]": lambda v: [
        c
        for c in containers(v)
        if members(c, "b") == ["null"] or any(is_number(x) and x > 0 for x in members(c, "a"))
    ],
}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(found: Any, wanted: Any) -> bool:
    """Equal, with members in the same order and -0.0 and 1.0 as numbers of their own."""
    return json.dumps(found) == json.dumps(wanted)


@pytest.mark.parametrize("path", REFERENCES)
def test_a_path_leads_to_what_it_leads_to_in_one_document_alone(path: str) -> None:
    rng = random.Random(path)
    values = [value_of(rng, 4) for _ in range(300)]
    texts: list[str | None] = [written(rng, v) for v in values]
    for place in range(0, len(texts), 7):
        texts[place] = rng.choice([None, "", "{", '{"a": [1, {"b": 2]}', "[1, 2", '{"a": 1}}'])
    batch = pa.array([*(texts[:5]), *texts], pa.string()).slice(5)
    documents = read_documents(batch)
    found = follow(parse_path(path), documents)
    results = found.documents.json(found.values).to_pylist()
    offsets = found.offsets() if not found.is_definite else np.arange(len(values) + 1)
    for row, (value, text) in enumerate(zip(values, texts, strict=True)):
        got = [json.loads(r) for r in results[offsets[row] : offsets[row + 1]] if r is not None]
        wanted = [] if row % 7 == 0 else REFERENCES[path](value)
        assert same(got, wanted), (text, got, wanted)


def refused(word: str) -> Any:
    raise ValueError(word)


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=refused)
    except ValueError:
        return False
    # Python takes more blanks and digits than JSON has, but not in these texts.
    return True


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u00e9",
    "\\ud83d",
    "\\n",
    "-",
    "0",
    "12",
    ".5",
    "e3",
    "E-",
    "true",
    "fals",
    "null",
]
PIECES += ['"a"', " ", "\n", "é", "\x01", '"b":1', "[1,2]", "NaN", "/", "u12"]


def test_what_is_json_for_python_is_json_here() -> None:
    rng = random.Random(7)
    texts = []
    for _ in range(6_000):
        if rng.random() < 0.5:
            texts.append("".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 9))))
            continue
        text = list(written(rng, value_of(rng, 3)))
        for _ in range(rng.randrange(3)):
            place = rng.randrange(len(text) + 1)
            text[place : place + rng.randrange(2)] = [rng.choice(PIECES)]
        texts.append("".join(text))
    roots = read_documents(pa.array(texts)).roots
    wrong = [t for t, r in zip(texts, roots, strict=True) if (r >= 0) != is_json(t)]
    assert wrong == []
    assert 1_000 < sum(r >= 0 for r in roots) < 5_000


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="$.@[]()?*:,'\"ab01-=<>!&|~/ in\\", max_size=24))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path("$" + text)
    except UserError as error:
        if error.code not in ("SS3450", "SS3451"):
            raise
        return
    found = follow(path, read_documents(pa.array(['{"a": [1, {"b": "x"}], "b": {"a": 0}}', None, "[]"])))
    found.documents.json(found.values)
