"""Hashes, charsets, addresses and tests of texts."""

from __future__ import annotations

import hashlib
import random
import re
from typing import Any

import pytest
from expression_harness import accepts, call, col, evaluate, lit

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.types import BIGINT, BOOLEAN, BYTES, INT, STRING

T, B = col(0, STRING), col(0, BYTES)
REPLACED = "\ufffd"


def s(value: str) -> Any:
    return lit(value, STRING.not_null())


@pytest.mark.parametrize("bits", [224, 256, 384, 512])
def test_hashes_are_those_of_the_standard_for_all_lengths_around_a_block(bits: int) -> None:
    texts = ["a" * length for length in (*range(130), 200, 255, 256, 257)] + ["é日", ""]
    wanted = [hashlib.new(f"sha{bits}", text.encode()).hexdigest() for text in texts]
    rows = [*((text,) for text in texts), (None,)]
    assert evaluate(call(f"SHA{bits}", T), rows) == [*wanted, None]
    assert evaluate(call("SHA2", T, lit(bits, INT.not_null())), rows) == [*wanted, None]


def test_the_size_of_a_hash_may_be_a_column() -> None:
    hashed = call("SHA2", T, col(1, INT))
    wanted = [hashlib.sha256(b"a").hexdigest(), hashlib.sha512(b"b").hexdigest(), None]
    assert evaluate(hashed, [("a", 256), ("b", 512), ("c", None)]) == wanted
    with pytest.raises(UserError, match="no hash of 100 bits"):
        evaluate(hashed, [("a", 100)])
    with pytest.raises(UserError, match="SHA2 is not supported with 1 bits"):
        evaluate(call("SHA2", T, lit(1, INT.not_null())), [("a",)])


CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
}


@pytest.mark.parametrize("charset", CHARSETS)
def test_texts_are_encoded_and_decoded_as_python_does(charset: str) -> None:
    codec, pick = CHARSETS[charset], random.Random(charset)
    texts = ["".join(pick.choices("aZ é日😀\n", k=pick.randrange(6))) for _ in range(100)]
    encoded = evaluate(call("ENCODE", T, s(charset)), [*((t,) for t in texts), (None,)])
    assert encoded == [*(t.encode(codec, "replace") for t in texts), None]
    given = [bytes(pick.choices(range(256), k=2 * pick.randrange(4))) for _ in range(60)]
    if charset.startswith("UTF"):
        given = [t.encode(codec) for t in texts]
    decoded = evaluate(call("DECODE", B, s(charset)), [*((b,) for b in given), (None,)])
    assert decoded == [*(b.decode(codec, "replace") for b in given), None]


def test_utf_16_has_a_mark_of_its_byte_order() -> None:
    encoded = evaluate(call("ENCODE", T, s("utf-16")), [("a",), ("",), (None,)])
    assert encoded == [b"\xfe\xff\x00a", b"", None]
    rows = [(b"\xfe\xff\x00a",), (b"\xff\xfea\x00",), (b"\x00a",), (b"",), (None,)]
    assert evaluate(call("DECODE", B, s("UTF-16")), rows) == ["a", "a", "a", "", None]


def test_halves_of_characters_do_not_join_across_rows() -> None:
    rows = [(b"\xd8\x3d",), (b"\xde\x00",), (b"\x00a\x00",), (b"\x00b",)]
    assert evaluate(call("DECODE", B, s("UTF-16BE")), rows) == [REPLACED, REPLACED, "a" + REPLACED, "b"]


def test_a_charset_that_does_not_exist_is_refused_and_may_be_a_column() -> None:
    with pytest.raises(UserError, match='charset "EBCDIC" does not exist') as caught:
        evaluate(call("ENCODE", T, s("EBCDIC")), [("a",)])
    assert caught.value.code == "SS3460"
    rows = [("é", "UTF-8"), ("é", "ISO-8859-1"), ("é", None)]
    assert evaluate(call("ENCODE", T, col(1, STRING)), rows) == [b"\xc3\xa9", b"\xe9", None]


def test_malformed_utf_8_is_found_and_replaced() -> None:
    rows = [(b"ab",), (b"\x80",), (b"a\xc3(",), (b"",), (None,), (b"\xed\xa0\x80",)]
    assert evaluate(call("IS_VALID_UTF8", B), rows) == [True, False, False, True, None, False]
    made = evaluate(call("MAKE_VALID_UTF8", B), rows[:5])
    assert made == ["ab", REPLACED, f"a{REPLACED}(", "", None]
    assert evaluate(call("IS_VALID_UTF8", B), rows[:1]) == [True]


CASES: list[tuple[str, Any, Any]] = [
    ("UNHEX", "466C696E6B", b"Flink"),
    ("UNHEX", "146", b"\x00\x46"),
    ("UNHEX", "1", b"\x00"),
    ("UNHEX", "", b""),
    ("UNHEX", "4g", None),
    ("UNHEX", None, None),
    ("URL_ENCODE", "https://a.b/c?d=e f&g=*~é", "https%3A%2F%2Fa.b%2Fc%3Fd%3De+f%26g%3D*%7E%C3%A9"),
    ("URL_ENCODE", None, None),
    ("URL_DECODE", "a+b%26c%C3%A9", "a b&cé"),
    ("URL_DECODE", "100%", None),
    ("URL_DECODE", "%zz", None),
    ("URL_DECODE", "", ""),
    ("URL_DECODE", None, None),
    ("INET_ATON", "127.0.0.1", 2130706433),
    ("INET_ATON", "127.1", 2130706433),
    ("INET_ATON", "1.2.3", 16908291),
    ("INET_ATON", "010.0.0.001", 167772161),
    ("INET_ATON", "255.255.255.255", 4294967295),
    ("INET_ATON", "256.0.0.1", None),
    ("INET_ATON", "1.2.3.4.5", None),
    ("INET_ATON", "a.b", None),
    ("INET_ATON", "", None),
    ("INET_ATON", None, None),
    ("IS_ALPHA", "Héllo", True),
    ("IS_ALPHA", "a1", False),
    ("IS_ALPHA", "", False),
    ("IS_ALPHA", None, False),
    ("IS_DIGIT", "0123", True),
    ("IS_DIGIT", "1.2", False),
    ("IS_DIGIT", "", False),
    ("IS_DIGIT", None, False),
    ("IS_DECIMAL", "-1.5e3", True),
    ("IS_DECIMAL", "12", True),
    ("IS_DECIMAL", ".5", True),
    ("IS_DECIMAL", "5.", True),
    ("IS_DECIMAL", "1,5", False),
    ("IS_DECIMAL", "abc", False),
    ("IS_DECIMAL", "", False),
    ("IS_DECIMAL", None, False),
]


@pytest.mark.parametrize(("function", "given", "wanted"), CASES)
def test_a_function_of_one_text(function: str, given: Any, wanted: Any) -> None:
    assert evaluate(call(function, T), [(given,)]) == [wanted]


def test_numbers_become_addresses() -> None:
    rows = [(2130706433,), (0,), (4294967295,), (4294967296,), (-1,), (None,)]
    wanted = ["127.0.0.1", "0.0.0.0", "255.255.255.255", None, None, None]
    assert evaluate(call("INET_NTOA", col(0, BIGINT)), rows) == wanted


URL = "http://user:pw@facebook.com:8080/path1/p.php?k1=v1&k2=v2#Ref1"
PARTS = {
    "HOST": "facebook.com",
    "PATH": "/path1/p.php",
    "QUERY": "k1=v1&k2=v2",
    "REF": "Ref1",
    "PROTOCOL": "http",
    "AUTHORITY": "user:pw@facebook.com:8080",
    "FILE": "/path1/p.php?k1=v1&k2=v2",
    "USERINFO": "user:pw",
    "host": None,
    "PORT": None,
}


def test_urls_have_parts() -> None:
    rows = [(URL, part) for part in PARTS]
    assert evaluate(call("PARSE_URL", T, col(1, STRING)), rows) == list(PARTS.values())
    for part, value in PARTS.items():
        assert evaluate(call("PARSE_URL", T, s(part)), [(URL,), (None,), ("no url",)]) == [value, None, None]


def test_parts_that_a_url_has_not_are_null_but_host_and_path() -> None:
    rows = [("https://h.de",)]
    found = {part: evaluate(call("PARSE_URL", T, s(part)), rows)[0] for part in PARTS}
    assert {part for part, value in found.items() if value is None} == {
        *("QUERY", "REF", "USERINFO", "host", "PORT")
    }
    assert (found["HOST"], found["PATH"], found["FILE"]) == ("h.de", "", "")


GRAMMAR = re.compile(
    r"[\t\n\f\r ]*(?P<PROTOCOL>https?|ftp|file|jar|mailto|HTTP|FtP):"
    r"(?://(?P<AUTHORITY>(?:(?P<USERINFO>[^/?#@]*)@)?(?P<HOST>\[[^\]/?#]*\]|[^/?#:@\[\]]*)(?::[0-9]*)?))?"
    r"(?P<FILE>(?P<PATH>[^?#]*)(?:\?(?P<QUERY>[^#]*))?)(?:#(?P<REF>.*))?",
    re.DOTALL,
)


def test_the_parts_of_any_text_are_those_of_the_grammar() -> None:
    pick = random.Random(7)
    tokens = [*":/?#@[] ", "//", "://", "é", "a", "1", "host", ":80", "\n", "k=v&"]
    texts = [
        pick.choice(
            ("http", "https", "ftp", "file", "jar", "mailto", "HTTP", "FtP", " http", "gopher", "h", "")
        )
        + pick.choice(("://", ":", "://", "", ":/"))
        + "".join(pick.choice(tokens) for _ in range(pick.randrange(9)))
        for _ in range(2000)
    ]
    found = [GRAMMAR.fullmatch(text) for text in texts]
    for part in set(PARTS) - {"host", "PORT"}:
        wanted = [m and m[part] for m in found]
        if part == "PROTOCOL":
            wanted = [w and w.lower() for w in wanted]
        elif part == "HOST":
            wanted = [m and (w or "") for m, w in zip(found, wanted, strict=True)]
        assert evaluate(call("PARSE_URL", T, s(part)), [(text,) for text in texts]) == wanted, part


def test_values_of_a_query_are_found_by_their_key() -> None:
    rows = [
        (URL, "QUERY", "k1"),
        (URL, "QUERY", "k2"),
        (URL, "QUERY", "k"),
        (URL, "HOST", "k1"),
        (URL, "QUERY", None),
    ]
    keyed = call("PARSE_URL", T, col(1, STRING), col(2, STRING))
    assert evaluate(keyed, rows) == ["v1", "v2", None, None, None]


def test_a_value_is_chosen_by_its_number() -> None:
    chosen = call("ELT", col(0, INT), col(1, STRING), col(2, STRING))
    rows = [
        (1, "a", "b"),
        (2, "a", None),
        (2, "a", "b"),
        (0, "a", "b"),
        (3, "a", "b"),
        (None, "a", "b"),
        (-1, "a", "b"),
    ]
    assert evaluate(chosen, rows) == ["a", None, "b", None, None, None, None]
    assert accepts("ELT", INT, BYTES, BYTES)
    assert not accepts("ELT", INT, BYTES, STRING)


@pytest.mark.parametrize(
    ("text", "regex", "group", "found"),
    [
        ("100-200, 300-400", r"(\d+)-(\d+)", 1, ["100", "300"]),
        ("100-200, 300-400", r"(\d+)-(\d+)", 2, ["200", "400"]),
        ("100-200, 300-400", r"(\d+)-(\d+)", 0, ["100-200", "300-400"]),
        ("0123456789!0123456789?", "".join(f"({i})" for i in range(10)) + "([!?])", 11, ["!", "?"]),
        ("abc", r"(\d+)", 1, []),
        ("abc", r"\w", 1, None),
        ("abc", r"(\w)", 2, None),
        (None, r"(\w)", 1, None),
    ],
)
def test_all_matches_are_extracted(text: str | None, regex: str, group: int, found: list[str] | None) -> None:
    assert evaluate(call("REGEXP_EXTRACT_ALL", T, s(regex), lit(group, INT.not_null())), [(text,)]) == [found]
    columns = call("REGEXP_EXTRACT_ALL", T, col(1, STRING), col(2, INT))
    assert evaluate(columns, [(text, regex, group)]) == [found]


@pytest.mark.parametrize(
    ("text", "regex", "place", "first"),
    [
        ("abcd", "b", 2, "b"),
        ("äöü1", "[0-9]", 4, "1"),
        ("a\nb", "b", 3, "b"),
        ("aab", "(a|b)b", 2, "ab"),
        ("abc", "x", 0, None),
        ("abc", "", 1, ""),
        ("", "a", 0, None),
        (None, "a", None, None),
    ],
)
def test_the_first_match_has_a_place_and_a_text(
    text: str | None, regex: str, place: int | None, first: str | None
) -> None:
    assert evaluate(call("REGEXP_INSTR", T, s(regex)), [(text,)]) == [place]
    assert evaluate(call("REGEXP_INSTR", T, col(1, STRING)), [(text, regex)]) == [place]
    assert evaluate(call("REGEXP_SUBSTR", T, s(regex)), [(text,)]) == [first]
    assert evaluate(call("REGEXP_SUBSTR", T, col(1, STRING)), [(text, regex)]) == [first]


def test_a_regular_expression_from_data_that_is_none_gives_null() -> None:
    for function in ("REGEXP_INSTR", "REGEXP_SUBSTR", "REGEXP_EXTRACT_ALL"):
        assert evaluate(call(function, T, col(1, STRING)), [("a", "(")]) == [None]


def test_types_have_names() -> None:
    true = lit(True, BOOLEAN.not_null())
    assert evaluate(call("TYPEOF", col(0, INT)), [(1,), (None,)]) == ["INT", "INT"]
    array = col(0, sql.array(STRING).not_null())
    assert evaluate(call("TYPEOF", array), [([],)]) == ["ARRAY<STRING> NOT NULL"]
    assert evaluate(call("TYPEOF", array, true), [([],)]) == ["ARRAY<VARCHAR(2147483647)> NOT NULL"]
