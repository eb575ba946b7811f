"""Connection URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.client.connection.address import Address, parse_address
from sqlstream.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("embedded://", Address("")),
        ("embedded://?a.b=c d&e=", Address("", config={"a.b": "c d", "e": ""})),
        ("http://localhost", Address("http://localhost:8083")),
        ("http://localhost:99/", Address("http://localhost:99")),
        ("https://[::1]:99/sql/?token=x%3D&k=v", Address("https://[::1]:99/sql", "x=", config={"k": "v"})),
        ("HTTP://Example.org?ca_file=f", Address("http://example.org:8083", ca_file="f")),
    ],
)
def test_urls_are_read(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


def test_an_explicit_token_comes_before_the_urls(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\nmore\n")
    assert parse_address(f"http://h?token_file={file}").token == "from-file"
    assert parse_address(f"http://h?token=x&token_file={file}").token == "x"
    assert parse_address("http://h?token=x", "y").token == "y"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no way to connect"),
        ("localhost:8083", "names no way to connect"),
        ("htp://h", "names no way to connect"),
        ("http://", "names no host"),
        ("http://h:x", "is no URL"),
        ("http://h:70000", "is no URL"),
        ("embedded://host", "names a place"),
        ("http://user:secret@h", "user or password"),
        ("http://a,https://secret@b?token=secret", "different schemes"),
        ("http://a,b,ftp://c", "different schemes"),
        ("http://h?token_file=/no/such/file", "cannot read the token"),
    ],
)
def test_other_texts_are_refused_without_their_secrets(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        parse_address(text)
    assert raised.value.code in ("SS4040", "SS4041")
    assert raised.value.hint
    assert "secret" not in str(raised.value)


def test_a_token_is_not_shown() -> None:
    assert "hidden" not in repr(parse_address("http://h?token=hidden"))
    with pytest.raises(UserError) as raised:
        parse_address("htp://h?token=hidden")
    assert "hidden" not in str(raised.value)
