"""Tokens of an issuer count when it has signed them for this server, and no other token does."""

from __future__ import annotations

import base64
import contextlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest
from joserfc.jwk import RSAKey
from oidc_issuer import OidcIssuer

from sqlstream.client.server.directories import oidc
from sqlstream.client.server.directories.known_users import NotKnown, Unavailable
from sqlstream.client.server.directories.oidc import Issuer, OidcUsers
from sqlstream.errors import UserError


class Clock:
    def __init__(self) -> None:
        self.now_s = time.time()

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def issuer() -> Iterator[OidcIssuer]:
    with OidcIssuer() as running:
        yield running


def users_of(issuer: OidcIssuer, clock: Clock | None = None) -> OidcUsers:
    return OidcUsers(Issuer(issuer.url, "sqlstream", "sub", "realm.roles"), clock or Clock())


def test_user_and_groups_are_those_of_the_claims(issuer: OidcIssuer) -> None:
    users = users_of(issuer)
    login = users.login(issuer.token(realm={"roles": ["a", 1, "b"]}, aud=["other", "sqlstream"]))
    assert (login.name, login.groups) == ("oidc:ann", ("a", "b"))
    assert users.login(issuer.token()).groups == ()
    assert issuer.asked == 2, "the keys are fetched once"


def plain(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def test_tokens_that_the_issuer_has_not_signed_for_this_server_do_not_count(issuer: OidcIssuer) -> None:
    users = users_of(issuer)
    valid = issuer.token()
    head, body, signature = valid.split(".")
    public = issuer.keys[0].as_pem(private=False)
    claims = {"iss": issuer.url, "aud": "sqlstream", "sub": "ann", "exp": int(time.time()) + 300}
    # With the public key as the secret of an HMAC: what a library that believes the head would take.
    signed = f"{plain({'alg': 'HS256', 'kid': 'first'})}.{plain(claims)}"
    digest = hmac.digest(public, signed.encode(), "sha256")
    confused = f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    for token in (
        f"{plain({'alg': 'none', 'kid': 'first'})}.{plain(claims)}.",
        confused,
        f"{head}.{plain({**claims, 'sub': 'root'})}.{signature}",
        f"{head}.{body}.",
        issuer.token(RSAKey.generate_key(2048)),
        issuer.token(iss="https://elsewhere"),
        issuer.token(aud="other"),
        issuer.token(aud=None),
        issuer.token(exp=int(time.time()) - 120),
        issuer.token(exp=None),
        issuer.token(nbf=int(time.time()) + 600),
        issuer.token(sub=None),
        issuer.token(sub="a\nb"),
        issuer.token(header={"kid": "unknown"}),
        "x" * 20_000, "", "a.b.c", "....", plain([1]) + ".a.b",
    ):  # fmt: skip
        with pytest.raises(NotKnown):
            users.login(token)
    assert users.login(valid).name == "oidc:ann"


def test_another_key_counts_as_soon_as_the_issuer_has_it_and_the_one_before_no_longer(
    issuer: OidcIssuer,
) -> None:
    clock = Clock()
    users = users_of(issuer, clock)
    before = issuer.token()
    assert users.login(before)
    issuer.rotate()
    # Within seconds the keys are not asked for again, however many tokens come.
    for _ in range(50):
        with pytest.raises(NotKnown):
            users.login(issuer.token())
    assert issuer.asked == 2
    clock.now_s += 11
    assert users.login(issuer.token()).name == "oidc:ann"
    clock.now_s += 11
    with pytest.raises(NotKnown):
        users.login(before)


def test_an_issuer_that_is_down_costs_only_tokens_with_other_keys(issuer: OidcIssuer) -> None:
    clock = Clock()
    users = users_of(issuer, clock)
    issuer.is_down = True
    with pytest.raises(Unavailable):
        users.login(issuer.token())
    issuer.is_down = False
    clock.now_s += 11
    assert users.login(issuer.token())
    issuer.is_down = True
    clock.now_s += 3700
    assert users.login(issuer.token(exp=int(clock.now_s) + 60))


def test_an_issuer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    class Dripping(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not ended.wait(0.01):
                    self.wfile.write(b" ")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    monkeypatch.setattr(oidc, "TIMEOUT_S", 0.5)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        users = OidcUsers(Issuer(f"http://127.0.0.1:{server.server_address[1]}", "a", "sub", "g"), Clock())
        head = base64.urlsafe_b64encode(b'{"alg": "RS256", "kid": "1"}').decode()
        try:
            with pytest.raises(Unavailable, match="too slowly"):
                users.login(f"{head}.e30.e30")
        finally:
            ended.set()
            server.shutdown()


def test_an_issuer_of_another_name_is_not_believed(issuer: OidcIssuer) -> None:
    issuer.claimed = "https://elsewhere"
    with pytest.raises(Unavailable, match="another issuer"):
        users_of(issuer).login(issuer.token())


@pytest.mark.parametrize("url", ["http://example.org", "ftp://example.org", "issuer"])
def test_an_issuer_without_encryption_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="no address of an issuer"):
        Issuer(url, "a", "sub", "groups")
