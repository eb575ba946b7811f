"""Addresses and values that a server chose."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.host.http_addresses import header_value, is_same_server, led_to
from sqlstream.runtime.host.http_client import Answer, Request, failure_of

AT = "https://example.org/a/b?token=hunter22"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("c", "https://example.org/a/c"),
        ("/c?d=1#e", "https://example.org/c?d=1#e"),
        ("https://other.example/", "https://other.example/"),
        ("//other.example:8443/x", "https://other.example:8443/x"),
    ],
)
def test_an_address_is_found_from_the_one_that_names_it(target: str, expected: str) -> None:
    assert led_to(AT, target) == expected


@pytest.mark.parametrize(
    "target",
    ["http://example.org/", "ftp://example.org/", "é", "a b", "https://a:99999/", "https://[/", "a\nb\x00"],
)
def test_an_address_that_cannot_be_called_or_is_less_safe_is_refused(target: str) -> None:
    with pytest.raises(UserError) as raised:
        led_to(AT, target)
    assert raised.value.code == "SS5344"
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("https://example.org:443/", True),
        ("https://EXAMPLE.org/", True),
        ("http://example.org/", False),
        ("https://example.org:8443/", False),
        ("https://example.org.example/", False),
    ],
)
def test_a_server_is_one_of_scheme_host_and_port(other: str, expected: bool) -> None:
    assert is_same_server(AT, other) == expected


def test_what_a_header_cannot_have_is_refused() -> None:
    assert header_value(" \xe9\t".encode("latin-1"), AT) == b"\xe9"
    for value in (b"a\rb", b"a\nb", b"\x00", b"a\x7f"):
        with pytest.raises(UserError):
            header_value(value, AT)


def test_what_a_server_says_has_no_secret_of_the_request() -> None:
    request = Request(
        "POST", "http://h/x", {"authorization": "Bearer sk-0123456789", "content-type": "application/json"}
    )
    body = b'bad key "sk-0123456789" of Bearer, as application/json'
    error = failure_of(Answer(401, {}, body, "http://h/x"), request)
    assert error.detail == 'it says: bad key "******" of Bearer, as application/json'
