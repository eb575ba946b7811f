"""A regular expression that is found by its literal gives what the engine of regular expressions gives."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.evaluate.text.pattern import name_groups
from sqlstream.runtime.evaluate.text.scanned_pattern import scanned_pattern

SCANNED = [
    ("(&|^)channel_id=([^&]*)", 2),
    ("(&|^)channel_id=([^&]*)", 0),
    (r"(?:^|\?|&)id=(\d+)", 1),
    (r"(?:^|\?|&)id=(\d+)", 0),
    (r"id=(\d+)", 1),
    ("^id=([a-z0-9_]*)$", 1),
    (r"[&?]id=(\w*)&", 0),
    ("id=.*", 0),
    ("ab", 0),
    ("ab$", 0),
    ("^ab$", 0),
    ("(a|^)ba[^c]+c", 0),
    ("(a|a|^)b", 0),
    ("(^)b", 0),
    (r"a\.b(\s*)", 1),
    ("x[^a-c]*a", 0),
    (r"\d\.([^.]*)", 1),
    ("a-b", 0),
    ("é=([^&]*)", 1),
]
OTHERS = [
    (r"(?:^|[?&])id=(\d+)", 0),
    ("(a|b)c(d*)", 1),
    ("(?:é|&)id=(.+)", 1),
    ("b([^é]+)", 1),
    ("[^a]bc", 0),
    ("(c|^)cc", 0),
    ("a.b", 0),
    ("ab*", 0),
    ("ab+", 0),
    ("ab?", 0),
    ("ab{2}", 0),
    ("a[bc]*b", 0),
    ("a[bc]*?b", 0),
    ("a|b", 0),
    ("(?i)ab", 0),
    (r"a\b", 0),
    (r"\D1", 0),
    ("a[]b]*", 0),
    ("a[[:alpha:]]*", 0),
    ("", 0),
]
PIECES = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "ab",
        "id=",
        "&",
        "?",
        "channel_id=",
        "12",
        "é",
        "é=",
        ".",
        "\n",
        " ",
        "_",
        "x",
        "-",
        "x" * 61,
    ]
)
TEXTS = st.lists(st.none() | st.lists(PIECES, max_size=8).map("".join), max_size=12)


@pytest.mark.parametrize(("regex", "group"), SCANNED)
def test_a_scan_finds_what_the_engine_finds(regex: str, group: int) -> None:
    pattern = scanned_pattern(regex, group)
    assert pattern is not None
    named, _ = name_groups(regex, group)

    @settings(deadline=None, max_examples=60)
    @given(TEXTS, st.integers(0, 2))
    def check(texts: list[str | None], first: int) -> None:
        column = pa.array(texts, pa.string()).slice(first)
        expected = pc.extract_regex(column, named if group else f"(?P<g0>{named})")
        found = pattern.extract(column)
        found.validate(full=True)
        assert found.to_pylist() == pc.struct_field(expected, f"g{group}").to_pylist()

    check()


@pytest.mark.parametrize(("regex", "group"), OTHERS)
def test_an_expression_of_another_form_is_left_to_the_engine(regex: str, group: int) -> None:
    assert scanned_pattern(regex, group) is None
