"""A regular expression, which may come from a row, has a bounded size: no text of one makes an engine run out of memory."""

from __future__ import annotations

import pytest

from sqlstream.text.regular_expressions import MalformedRegex, java_regex


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("a{3000000000}", "too many repetitions, at character 2"),
        ("a{" + "1" * 5_000 + "}", "too many repetitions, at character 2"),
        ("(((ab?){1000}){1000})", "too many repetitions, at character 15"),
        ("a" + "{1}" * 3_000, "too many repetitions"),
        ("a" * 100_001, "it has more than 100,000 characters"),
    ],
)
def test_one_that_is_too_large_is_refused_before_an_engine_sees_it(regex: str, reason: str) -> None:
    with pytest.raises(MalformedRegex) as refused:
        java_regex(regex)
    assert reason in refused.value.detail


@pytest.mark.parametrize("regex", ["a{5000}", "(?:ab{2}){1000}", "a{1,2147483647}"])
def test_repetitions_within_the_bound_are_read(regex: str) -> None:
    assert java_regex(regex).java == regex
