"""RE2's regular expressions in Java's syntax; that both find the same is a differential test."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.planner.lower.spark.regex import java_regex


@pytest.mark.parametrize(
    ("regex", "java", "groups", "can_be_empty"),
    [
        ("", "(?d)", 0, True),
        ("ab+", "(?d)ab+", 0, False),
        ("(a|b)*c", "(?d)(a|b)*c", 1, False),
        ("(?:a)(b)(?P<x>c)", "(?d)(?:a)(b)(c)", 2, False),
        ("^a$", r"(?d)^a\z", 0, False),
        ("(?s)a.b", "(?ds)a.b", 0, False),
        (r"\s\S[\s\d]", r"(?d)[\t\n\f\r ][^\t\n\f\r ][\t\n\f\r \d]", 0, False),
        ("[[a&&b]", r"(?d)[\[a\&\&b]", 0, False),
        ("[]a]", r"(?d)[\]a]", 0, False),
        ("[^a-z_-]", r"(?d)[^a-z_\-]", 0, False),
        ("a{2,3}?", "(?d)a{2,3}?", 0, False),
        ("a{0,3}", "(?d)a{0,3}", 0, True),
        ("a{x}", r"(?d)a\{x\}", 0, False),
        ("x|", "(?d)x|", 0, True),
        ("(?:a?b?)?", "(?d)(?:a?b?)?", 0, True),
        (r"a\.b\-c", r"(?d)a\.b\-c", 0, False),
        (r"\x0B[\x09-\x0D \x{A0}]", r"(?d)\x0B[\x09-\x0D \x{A0}]", 0, False),
        (r"\p{L}[^\P{Lu}\p{Han}]", r"(?d)\p{L}[^\P{Lu}\p{IsHan}]", 0, False),
    ],
)
def test_an_expression_becomes_javas(regex: str, java: str, groups: int, can_be_empty: bool) -> None:
    found = java_regex(regex)
    assert (found.text, found.groups, found.can_be_empty) == (java, groups, can_be_empty)


@pytest.mark.parametrize(
    "regex",
    [
        *(
            "(",
            ")",
            "a)",
            "[a",
            "*a",
            "a**",
            "a+*",
            "a\\",
            "[a\\",
            "(a*)*",
            "(a|)+",
            "(?i)a",
            "(?=a)",
            r"\pL",
            r"\1",
        ),
        *(r"\Qa\E", "[[:alpha:]]", r"\xg1", r"\p{", r"[a-\d]", r"[\S]"),
    ],
)
def test_what_java_reads_otherwise_is_refused(regex: str) -> None:
    with pytest.raises(UserError) as caught:
        java_regex(regex)
    assert caught.value.code == "SS3301"
    assert caught.value.hint
