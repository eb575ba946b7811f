"""Functions of character strings, patterns and hashes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from expression_harness import accepts, call, col, evaluate, lit, symbol
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import builder_of
from sqlstream.types import BIGINT, BYTES, INT, NULL, STRING, LogicalType

T = col(0, STRING)
SPLIT_ALPHABET = st.text(alphabet="ab/é", max_size=12)


def s(value: str | None) -> Any:
    return lit(value, STRING.not_null() if value is not None else STRING)


def n(value: int) -> Any:
    return lit(value, INT.not_null())


CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("UPPER", ("aé",), "AÉ"),
    ("LOWER", ("AÉ",), "aé"),
    ("UPPER", ("Straße ﬁx ŉ",), "STRASSE FIX ʼN"),
    ("LOWER", ("İZMİR",), "i̇zmi̇r"),
    ("LOWER", ("ΣΑΣ ΟΔΟΣ.",), "σας οδος."),
    ("CHAR_LENGTH", ("aé",), 2),
    ("REVERSE", ("aéb",), "béa"),
    ("INITCAP", ("hello 2ND wORLD",), "Hello 2nd World"),
    ("INITCAP", ("ünï Ö_wÖ",), "üNï Ö_WÖ"),
    ("CONCAT", ("a", "b", "c"), "abc"),
    ("||", ("a", "b"), "ab"),
    ("CONCAT_WS", ("~", "a", None, "b", ""), "a~b~"),
    ("CONCAT_WS", (None, "a", "b"), None),
    ("CONCAT_WS", ("~", None, None), ""),
    ("SUBSTRING", ("hello", 2), "ello"),
    ("SUBSTRING", ("hello", 2, 3), "ell"),
    ("SUBSTRING", ("hello", 0, 2), "he"),
    ("SUBSTRING", ("hello", -3), "llo"),
    ("SUBSTRING", ("hello", -3, 2), "ll"),
    ("SUBSTRING", ("hello", -9, 2), ""),
    ("SUBSTRING", ("hello", 9), ""),
    ("SUBSTRING", ("hello", 1, -1), None),
    ("LEFT", ("hello", 2), "he"),
    ("LEFT", ("hello", -2), ""),
    ("RIGHT", ("hello", 2), "lo"),
    ("RIGHT", ("hello", 0), ""),
    ("REPLACE", ("ababab", "abab", "z"), "zab"),
    ("OVERLAY", ("xxxxxtest", "xxxx", 6), "xxxxxxxxx"),
    ("OVERLAY", ("xxxxxtest", "xxxx", 6, 2), "xxxxxxxxxst"),
    ("TRANSLATE", ("www.apache.org", "wapcheorg", " APCHEcom"), "   .APACHE.com"),
    ("LPAD", ("hi", 4, "??"), "??hi"),
    ("LPAD", ("hi", 1, "??"), "h"),
    ("RPAD", ("hi", 4, "?"), "hi??"),
    ("LPAD", ("hi", -1, "?"), None),
    ("REPEAT", ("ab", 2), "abab"),
    ("REPEAT", ("ab", -1), ""),
    ("LTRIM", ("  x ",), "x "),
    ("RTRIM", ("xyy", "y"), "x"),
    ("BTRIM", ("/www/", "/"), "www"),
    ("POSITION", ("lo", "hello"), 4),
    ("INSTR", ("hello", "x"), 0),
    ("INSTR", ("hello world", "o", 5), 5),
    ("INSTR", ("hello world", "o", 1, 2), 8),
    ("INSTR", ("hello world", "o", 1, 3), 0),
    ("INSTR", ("hello", "l", 0, 1), 0),
    ("INSTR", ("hello", "l", 9), 0),
    ("INSTR", ("aaaa", "aa", 1, 2), 2),
    ("INSTR", ("aéXbXc", "X", -1, 1), 5),
    ("INSTR", ("aéXbXc", "X", -1, 2), 3),
    ("INSTR", ("aéXbXc", "Xb", -3, 1), 3),
    ("INSTR", ("abc", "", 2, 5), 1),
    ("INSTR", ("abc", "", -1, 1), 4),
    ("INSTR", ("a", "a", 1, 2147483647), 0),
    ("LOCATE", ("l", "hello", 4), 4),
    ("ASCII", ("abc",), 97),
    ("CHR", (353,), "a"),
    ("HEX", (20,), "14"),
    ("HEX", ("hello",), "68656C6C6F"),
    ("TO_BASE64", ("hello world",), "aGVsbG8gd29ybGQ="),
    ("TO_BASE64", ("é\\x41",), "w6lceDQx"),
    ("FROM_BASE64", ("aGVsbG8gd29ybGQ=",), "hello world"),
    ("MD5", ("a",), "0cc175b9c0f1b6a831c399e269772661"),
    ("SHA1", ("a",), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
    ("SHA256", ("",), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("SPLIT_INDEX", ("a/b//c", "/", 1), "b"),
    ("SPLIT_INDEX", ("a/b//c", "/", 2), ""),
    ("SPLIT_INDEX", ("a/b//c", "/", 4), None),
    ("SPLIT_INDEX", ("a/b", "/", -1), None),
    ("SPLIT_INDEX", ("", "/", 0), None),
    ("SPLIT_INDEX", ("aXYbXYc", "XY", 2), "c"),
    ("SPLIT_INDEX", ("a/b", 47, 1), "b"),
    ("STARTSWITH", ("hello", "he"), True),
    ("ENDSWITH", ("hello", "lo"), True),
    ("REGEXP", ("ab12", "\\d+"), True),
    ("REGEXP", ("ab12", ""), False),
    ("REGEXP_EXTRACT", ("x&channel_id=apple&y", "(&|^)channel_id=([^&]*)", 2), "apple"),
    ("REGEXP_EXTRACT", ("foothebar", "foo(.*?)(bar)", 0), "foothebar"),
    ("REGEXP_EXTRACT", ("nothing", "foo(.*)", 1), None),
    ("REGEXP_REPLACE", ("foobar", "oo|ar", ""), "fb"),
    ("REGEXP_REPLACE", ("ab", "(a)(b)", "$2-$1"), "$2-$1"),
    ("REGEXP_COUNT", ("a1b22", "\\d+"), 2),
    ("REGEXP_COUNT", ("äb", ""), 3),
    ("REGEXP_COUNT", ("日本", "x*"), 3),
    ("REGEXP_REPLACE", ("a1", "(\\d)", "<$1>"), "a<$1>"),
    ("REGEXP_REPLACE", ("a1", "\\d", "\\$2"), "a\\$2"),
    ("REPLACE", ("aé", "", "-"), "-a-é-"),
    ("REPLACE", ("a", "", "\\"), "\\a\\"),
    ("FROM_BASE64", ("YQ",), "a"),
    ("RIGHT", ("hello", -(2**31)), ""),
    ("TRANSLATE", ("abc", None, "x"), "abc"),
    ("TRANSLATE", ("abc", "b", None), "ac"),
    ("TRANSLATE", ("aab", "ab", "x"), "xx"),
    ("SPLIT_INDEX", ("a/b", None, 0), None),
    ("SPLIT_INDEX", ("a/b", "/", 2**31 - 1), None),
    ("SPLIT_INDEX", ("a b\tc", "", 2), "c"),
    ("SPLIT_INDEX", ("a/b", 0, 0), None),
    ("SPLIT_INDEX", ("a/b", 256, 0), None),
    ("LIKE", ("hello", "h%o"), True),
    ("LIKE", ("hello", "hel%"), True),
    ("LIKE", ("hello", "%llo"), True),
    ("LIKE", ("hello", "%ell%"), True),
    ("LIKE", ("a.c", "a_c"), True),
    ("LIKE", ("a\nc", "a%c"), True),
    ("LIKE", ("axc", "a.c"), False),
    ("LIKE", ("a%", "a!%", "!"), True),
    ("LIKE", ("ab", "a!%", "!"), False),
    ("LIKE", ("a\\b", "a\\b"), True),
    ("SIMILAR TO", ("abc", "(b|a)%"), True),
    ("SIMILAR TO", ("xabc", "(b|a)%"), False),
]


def literal(value: Any) -> Any:
    return s(value) if value is None or isinstance(value, str) else n(value)


def column_type(value: Any) -> LogicalType:
    return INT if isinstance(value, int) else STRING


@pytest.mark.parametrize(("name", "args", "expected"), CASES)
def test_value_with_constant_parameters(name: str, args: tuple[Any, ...], expected: Any) -> None:
    first = col(0, column_type(args[0]))
    assert evaluate(call(name, first, *map(literal, args[1:])), [(args[0],)]) == [expected]


@pytest.mark.parametrize(("name", "args", "expected"), CASES)
def test_value_with_columns_as_parameters(name: str, args: tuple[Any, ...], expected: Any) -> None:
    expression = call(name, *(col(i, column_type(a)) for i, a in enumerate(args)))
    others = tuple(None for _ in args)
    assert evaluate(expression, [args, others, args])[::2] == [expected, expected]


@pytest.mark.parametrize("name", ["LEFT", "RIGHT"])
def test_without_a_length_there_is_no_part(name: str) -> None:
    assert evaluate(call(name, T, col(1, INT)), [("hello", None), (None, 1)]) == [None, None]
    assert evaluate(call(name, T, lit(None, INT)), [("hello",)]) == [None]


def test_without_an_index_there_is_no_part() -> None:
    assert evaluate(call("SPLIT_INDEX", T, s("/"), lit(None, INT)), [("a/b",)]) == [None]
    assert evaluate(call("SPLIT_INDEX", T, s("/"), col(1, INT)), [("a/b", None)]) == [None]
    assert evaluate(
        call("SPLIT_INDEX", T, col(1, INT), n(1)), [("a/b", 47), ("a/b", 303), ("a/b", None)]
    ) == [
        "b",
        None,
        None,
    ]


def test_parameters_may_differ_from_row_to_row() -> None:
    count = call("REGEXP_COUNT", T, col(1, STRING))
    rows = [("aab", "a"), ("aab", "b"), (None, "a"), ("aab", None), ("ab", "a")]
    assert evaluate(count, rows) == [2, 1, None, None, 1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("REGEXP", [False, True, None]),
        ("SIMILAR TO", [False, False, None]),
        ("REGEXP_COUNT", [None, 1, None]),
        ("REGEXP_EXTRACT", [None, "a", None]),
        ("REGEXP_REPLACE", [None, "-b", None]),
    ],
)
def test_a_malformed_expression_from_data_finds_nothing(name: str, expected: list[Any]) -> None:
    more = (s("-"),) if name == "REGEXP_REPLACE" else ()
    found = call(name, T, col(1, STRING), *more)
    assert evaluate(found, [("ab", "("), ("ab", "a"), (None, "(")]) == expected
    with pytest.raises(UserError, match="malformed") as error:
        evaluate(call(name, T, s("("), *more), [("ab",)])
    assert error.value.code == "SS3104"


@pytest.mark.parametrize(("pattern", "escape"), [("a!b", "!"), ("a!", "!"), ("a", "!!"), ("a", "")])
def test_a_wrong_escape_of_like_is_an_error(pattern: str, escape: str) -> None:
    for args in ((s(pattern), s(escape)), (col(1, STRING), col(2, STRING))):
        with pytest.raises(UserError) as error:
            evaluate(call("LIKE", T, *args), [("a", pattern, escape)])
        assert error.value.code == "SS3103"


def test_a_long_parameter_keeps_its_size() -> None:
    assert evaluate(call("LEFT", T, col(1, BIGINT)), [("abc", 2**32 + 1), ("abc", -(2**40))]) == ["abc", ""]
    assert evaluate(call("SUBSTRING", T, lit(2**32 + 1, BIGINT.not_null())), [("abc",)]) == [""]
    assert evaluate(call("CHR", col(0, BIGINT)), [(2**32 + 97,)]) == ["a"]


def test_what_is_no_base64_is_an_error() -> None:
    for text in ("a", "!!!!", "/w=="):
        with pytest.raises(UserError) as error:
            evaluate(call("FROM_BASE64", T), [(text,)])
        assert error.value.code == "SS5102"


STRICT = sorted({c[0] for c in CASES} - {"CONCAT_WS"})
"""Functions that are NULL when their first argument is."""


@pytest.mark.parametrize("name", STRICT)
def test_null_in_null_out(name: str) -> None:
    args = next(c[1] for c in CASES if c[0] == name)
    first = col(0, column_type(args[0]))
    assert evaluate(call(name, first, *map(literal, args[1:])), [(None,)]) == [None]


@pytest.mark.parametrize(("mode", "expected"), [("BOTH", "a"), ("LEADING", "ax"), ("TRAILING", "xa")])
def test_trim_removes_from_the_named_side(mode: str, expected: str) -> None:
    assert evaluate(call("TRIM", symbol(mode), s("x"), T), [("xax",), (None,)]) == [expected, None]


def test_text_and_bytes_are_not_compared_by_their_ends() -> None:
    assert not accepts("STARTSWITH", STRING, BYTES)
    assert not accepts("ENDSWITH", BYTES, STRING)
    assert accepts("STARTSWITH", BYTES, NULL)
    assert accepts("ENDSWITH", NULL, STRING)


def test_bytes_start_and_end_with_bytes() -> None:
    data = col(0, BYTES)
    affix = call("ENDSWITH", data, lit("6201", BYTES.not_null()))
    assert evaluate(affix, [(b"ab\x01",), (b"\x16\x20\x01",), (None,)]) == [True, False, None]
    assert evaluate(call("STARTSWITH", data, col(1, BYTES)), [(b"\xffa", b"\xff"), (b"a", b"b")]) == [
        True,
        False,
    ]


@given(
    st.lists(SPLIT_ALPHABET | st.none(), max_size=20), st.sampled_from(["/", "a/", "é"]), st.integers(0, 4)
)
@settings(max_examples=80, deadline=None)
def test_split_index_matches_python(texts: list[str | None], delimiter: str, index: int) -> None:
    def reference(text: str | None) -> str | None:
        parts = text.split(delimiter) if text else []
        return parts[index] if index < len(parts) else None

    split = call("SPLIT_INDEX", T, s(delimiter), n(index))
    assert evaluate(split, [(t,) for t in texts]) == [reference(t) for t in texts]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.text(alphabet="aZßﬁİΣσÉé日𝐀ǆ.", max_size=6), max_size=8))
def test_letters_change_case_by_unicodes_full_mapping_in_every_row(texts: list[str | None]) -> None:
    for name, in_full in (("UPPER", str.upper), ("LOWER", str.lower)):
        expected = [None if text is None else in_full(text) for text in texts]
        assert evaluate(call(name, T), [(text,) for text in texts]) == expected


def test_uuids_have_the_form_of_version_4() -> None:
    texts = builder_of(call("UUID"))(call("UUID"), EvaluationContext())(100).to_pylist()
    assert len(set(texts)) == 100
    assert all(len(t) == 36 and t[14] == "4" and t[19] in "89ab" and t[8] == t[13] == "-" for t in texts)


def test_a_constant_expression_counts_as_a_constant() -> None:
    assert evaluate(call("SUBSTRING", T, call("NEGATE", n(2))), [("hello",)]) == ["lo"]
    assert evaluate(call("LIKE", T, call("||", s("h"), s("%"))), [("hello",)]) == [True]
    assert evaluate(call("REGEXP_COUNT", T, call("CONCAT", s("l"), s("+"))), [("hello",)]) == [1]


def test_every_free_digit_of_a_uuid_is_drawn() -> None:
    texts = builder_of(call("UUID"))(call("UUID"), EvaluationContext())(200).to_pylist()
    assert len(set(texts)) == 200
    dashes = [place for place in range(36) if {text[place] for text in texts} == {"-"}]
    assert dashes == [8, 13, 18, 23]
    free = [place for place in range(36) if place not in (*dashes, 14, 19)]
    assert all(len({text[place] for text in texts}) == 16 for place in free)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | st.text(alphabet="ab1 2é\x1f", max_size=12), min_size=1, max_size=8),
    st.sampled_from(
        [
            ("[0-9]+", 0),
            ("([a-z])([0-9])", 2),
            ("(a+)b", 1),
            ("(?:a([0-9])+)", 1),
            (r"\\w(\\s)", 1),
            ("a*", 0),
        ]
    ),
)
def test_all_matches_are_those_that_are_found_one_by_one(
    texts: list[str | None], wanted: tuple[str, int]
) -> None:
    regex, group = wanted[0].replace("\\\\", "\\"), wanted[1]
    found = evaluate(call("REGEXP_EXTRACT_ALL", T, s(regex), n(group)), [(t,) for t in texts])
    by_python = [
        None if t is None else [m[group] or "" for m in re.finditer(regex, t, re.ASCII)] for t in texts
    ]
    assert found == by_python


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.text(alphabet="aZ9 _-éß", max_size=8), min_size=1, max_size=6))
def test_words_begin_with_a_capital(texts: list[str | None]) -> None:
    wanted = [None if t is None else re.sub("[A-Za-z0-9]+", lambda m: m[0].capitalize(), t) for t in texts]
    assert evaluate(call("INITCAP", T), [(t,) for t in texts]) == wanted
