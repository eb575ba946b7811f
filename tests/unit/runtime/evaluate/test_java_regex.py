"""The functions of regular expressions find what Java's Pattern finds, whichever engine matches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.text.backtracking import TIMEOUT_OPTION
from sqlstream.runtime.evaluate.text.pattern import (
    _all_extracted,
    _counted,
    _extracted,
    _found,
    _found_at,
    _replaced,
)
from sqlstream.text.regular_expressions import MalformedRegex, java_regex, linear_regex

CONTEXT = EvaluationContext()

CASES: list[tuple[str, str, int, int, list[str | None] | None, str]] = [
    (r"^(\p{L}+)", "Zürich 8001", 1, 1, ["Zürich", "Zürich"], "<$1\\> 8001"),
    (r"^(\p{L}+)", "8001", 0, 0, None, "8001"),
    ("[*+]", "a+b*c", 2, 2, ["+"], "a<$1\\>b<$1\\>c"),
    ("a&&b", "a&&b", 1, 1, ["a&&b"], "<$1\\>"),
    ("[(?=]", "x(?=y", 3, 2, ["("], "x<$1\\><$1\\><$1\\>y"),
    (r"([\p{Alnum}._-]+)@", "user@example.com", 1, 1, ["user@", "user"], "<$1\\>example.com"),
    ("[a-z&&[^b]]+", "abc", 2, 1, ["a"], "<$1\\>b<$1\\>"),
    ("(?i)[a-c&&[^b]]+", "aBC", 2, 1, ["a"], "<$1\\>B<$1\\>"),
    (r"[\p{L}&&[^a\p{Lu}]]+", "aBcd", 1, 3, ["cd"], "aB<$1\\>"),
    ("[&&a]", "ba", 1, 2, ["a"], "b<$1\\>"),
    ("[^a-z&&b]", "ab-", 2, 1, ["a"], "<$1\\>b<$1\\>"),
    ("[a[bc]d]+", "xbad", 1, 2, ["bad"], "x<$1\\>"),
    ("[]a]+", "x]a", 1, 2, ["]a"], "x<$1\\>"),
    (r"[\w&&[^\d]]+", "1ab2", 1, 2, ["ab"], "1<$1\\>2"),
    (r"\p{IsAlphabetic}+", "1éa", 1, 2, ["éa"], "1<$1\\>"),
    (r"\p{javaLowerCase}+", "Aǅªb", 1, 3, ["ªb"], "Aǅ<$1\\>"),
    (r"\p{IsHan}+", "kana 日本", 1, 6, ["日本"], "kana <$1\\>"),
    (r"\p{InGreek}+", "xαβ", 1, 2, ["αβ"], "x<$1\\>"),
    (r"\p{script=Cyrillic}+", "a привет", 1, 3, ["привет"], "a <$1\\>"),
    (r"\PL+", "ab12c", 1, 3, ["12"], "ab<$1\\>c"),
    (r"\Qa.b\E+", "a.bb", 1, 1, ["a.bb"], "<$1\\>"),
    ("(?x) a b # c", "ab", 1, 1, ["ab"], "<$1\\>"),
    (r"\R", "a\n", 1, 2, ["\n"], "a<$1\\>"),
    (r"\h+", "x\xa0\u3000", 1, 2, ["\xa0\u3000"], "x<$1\\>"),
    (r"(?<year>\d{4})-(?<m>\d\d)", "on 2024-05-06", 1, 4, ["2024-05", "2024", "05"], "on <$1\\>-06"),
    ("(a|(b))+", "b", 1, 1, ["b", "b", "b"], "<$1\\>"),
    ("(a|(b))+", "ab", 1, 1, ["ab", "b", "b"], "<$1\\>"),
    ("(b)?a", "a", 1, 1, ["a", None], "<$1\\>"),
    ("(b)?a", "ba", 1, 1, ["ba", "b"], "<$1\\>"),
    ("x*", "axxb", 4, 1, [""], "<$1\\>a<$1\\><$1\\>b<$1\\>"),
    ("(?:)", "ab", 3, 1, [""], "<$1\\>a<$1\\>b<$1\\>"),
    ("^a", "aab", 1, 1, ["a"], "<$1\\>ab"),
    (r"\bab", "ab abc", 2, 1, ["ab"], "<$1\\> <$1\\>c"),
    (r"\x41\0101\u0041\x{41}", "AAAA", 1, 1, ["AAAA"], "<$1\\>"),
    ("a(?i)b|C", "aB", 1, 1, ["aB"], "<$1\\>"),
    ("a(?i)b|C", "c", 1, 1, ["c"], "<$1\\>"),
    ("a++b", "aab", 1, 1, ["aab"], "<$1\\>"),
    ("a*+a", "aaa", 0, 0, None, "aaa"),
    ("(?>a|ab)c", "abc", 0, 0, None, "abc"),
    ("(?>a|ab)c", "ac", 1, 1, ["ac"], "<$1\\>"),
    (r"(a)\1", "aa", 1, 1, ["aa", "a"], "<$1\\>"),
    (r"(a)\1", "ab", 0, 0, None, "ab"),
    (r"(?<n>.)\k<n>", "xaab", 1, 2, ["aa", "a"], "x<$1\\>b"),
    ("(?<=a)b", "ab b", 1, 2, ["b"], "a<$1\\> b"),
    ("(?<!a)b", "ab b", 1, 4, ["b"], "ab <$1\\>"),
    ("a(?=b)", "ab a", 1, 1, ["a"], "<$1\\>b a"),
    ("a(?!b)", "ab a", 1, 4, ["a"], "ab <$1\\>"),
    ("(?=(a))a", "a", 1, 1, ["a", "a"], "<$1\\>"),
    (r"a\Z", "a\n", 1, 1, ["a"], "<$1\\>\n"),
    (r"\G.", "ab", 2, 1, ["a"], "<$1\\><$1\\>"),
    ("|a(?<=a)", "aa", 3, 1, [""], "<$1\\>a<$1\\>a<$1\\>"),
]
"""Expression, text; what Java 17 has: matches, place of the first, its text and groups, all matches replaced by `<$1\\>`."""


def values(kernel: Any, *texts: str | None) -> list[Any]:
    found: list[Any] = kernel(pa.array(texts, pa.string())).to_pylist()
    return found


@pytest.mark.parametrize(("regex", "text", "count", "place", "groups", "replaced"), CASES)
def test_an_expression_finds_what_it_finds_in_java(
    regex: str, text: str, count: int, place: int, groups: list[str | None] | None, replaced: str
) -> None:
    texts = (text, None)
    assert values(_found(CONTEXT, regex), *texts) == [count > 0, None]
    assert values(_counted(CONTEXT, regex), *texts) == [count, None]
    assert values(_found_at(CONTEXT, regex), *texts) == [place, None]
    assert values(_replaced(CONTEXT, regex, "<$1\\>"), *texts) == [replaced, None]
    number = java_regex(regex).groups
    found = [values(_extracted(CONTEXT, regex, g), *texts) for g in range(number + 1)]
    assert found == [[None if groups is None else groups[g], None] for g in range(number + 1)]
    assert values(_extracted(CONTEXT, regex, number + 1), text) == [None]
    if groups is not None:
        assert [values(_all_extracted(CONTEXT, regex, g), text)[0][0] for g in range(number + 1)] == groups
    assert len(values(_all_extracted(CONTEXT, regex, 0), text)[0]) == count


@pytest.mark.parametrize(
    "regex",
    [
        *(
            "(",
            ")",
            "a**",
            "*a",
            "[",
            "[a",
            "[z-a]",
            r"[a-\d]",
            "{",
            "a{x}",
            "a{2,1}",
            "a\\",
            r"\y",
            r"\08",
            r"\x1",
        ),
        *(r"\p{Nope}", r"\p{", r"\k<n>", "(?<1>a)", "(?<n>a)(?<n>b)", "(?q)a", "(?P<n>a)", r"[\b]", "(?<n"),
    ],
)
def test_what_java_refuses_is_malformed(regex: str) -> None:
    with pytest.raises(MalformedRegex, match="is malformed") as error:
        java_regex(regex)
    assert error.value.code == "SS3104"


@pytest.mark.parametrize(
    ("regex", "backtracks"),
    [
        ("a(?=b)", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "a back-reference"),
        ("a++", "a possessive quantifier"),
        ("(?>a)", "an atomic group"),
        ("a{1001}", "more than 1,000 repetitions"),
        (r"a\Z", r"\Z"),
    ],
)
def test_only_what_must_backtracks(regex: str, backtracks: str) -> None:
    assert java_regex(regex).backtracks == backtracks
    with pytest.raises(UserError, match=f"uses {backtracks}".replace("\\", "\\\\")):
        linear_regex(regex)
    assert all(java_regex(r).linear for r, *_ in CASES if r in ("[*+]", "a&&b", "[(?=]", r"\p{InGreek}+"))


def test_an_expression_that_takes_too_long_names_itself_and_the_option() -> None:
    context = EvaluationContext(config={TIMEOUT_OPTION: "1 ms"})
    with pytest.raises(UserError) as error:
        values(_counted(context, r"(a+)+(?=c)\1\1\1|(?:a|a)*(?=c)"), "a" * 400)
    assert error.value.code == "SS5134"
    assert r"(a+)+(?=c)" in error.value.message
    assert TIMEOUT_OPTION in (error.value.hint or "")
