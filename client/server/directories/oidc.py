"""Users whom an issuer of OpenID Connect vouches for: the signed tokens that it gives them (JWT, RFC 7519 and 9068)."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from sqlstream.client.server.directories.known_users import Login, NotKnown, Unavailable
from sqlstream.errors import UserError
from sqlstream.runtime.host.clock import steady_s

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a public key alone: neither `none` nor an HMAC, whose key the issuer's public one could be taken for."""

KEY_TYPES = ("RSA", "EC", "OKP")
ANSWER_BYTES_MAX = 1 << 20
_PART_BYTES = 1 << 16
TOKEN_CHARACTERS_MAX = 16_384
TIMEOUT_S = 5.0
KEYS_KEPT_S = 3600.0
ASK_AGAIN_S = 10.0
"""Tokens with a key that is not known have the keys fetched again at most this often: the issuer may have changed them."""

LEEWAY_S = 60
"""By how much the clocks of issuer and server may differ."""


@dataclasses.dataclass(frozen=True)
class Issuer:
    """`url` is what tokens name as `iss`, `audience` what they are for. Claims may be nested, with a dot between."""

    url: str
    audience: str
    user_claim: str
    groups_claim: str

    def __post_init__(self) -> None:
        _check_url(self.url)


class OidcUsers:
    """Implements `KnownUsers` for bearer tokens. Thread-safe. State: the keys of the issuer, and when they were fetched."""

    def __init__(
        self,
        issuer: Issuer,
        now_s: Callable[[], float],
        fetch: Callable[[str], Any] | None = None,
    ) -> None:
        """UserError SS6150 when the package joserfc is not installed."""
        try:
            import joserfc  # noqa: F401
        except ImportError as error:
            raise UserError(
                "SS6150",
                "tokens of an issuer need the package joserfc",
                hint="install it: pip install 'sqlstream[users]'",
            ) from error
        self._issuer = issuer
        self._now_s = now_s
        self._fetch = fetch or _fetch
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._fetched_s = self._asked_s = -KEYS_KEPT_S

    def login(self, token: str) -> Login:
        """NotKnown for what is no valid token of the issuer for this server, Unavailable when the issuer cannot be asked."""
        from joserfc import errors, jwt

        if len(token) > TOKEN_CHARACTERS_MAX:
            raise NotKnown("the token is too long")
        try:
            key = self._key_of(token)
            found = jwt.decode(token, key, algorithms=list(ALGORITHMS))
            claims = found.claims
            registry = jwt.JWTClaimsRegistry(
                now=lambda: int(self._now_s()),
                leeway=LEEWAY_S,
                iss={"essential": True, "value": self._issuer.url},
                aud={"essential": True, "value": self._issuer.audience},
                exp={"essential": True},
            )
            registry.validate(claims)
        except (errors.JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotKnown(f"no valid token of the issuer: {type(error).__name__}") from error
        name = _claim(claims, self._issuer.user_claim)
        if not isinstance(name, str) or not name or len(name) > 256 or not name.isprintable():
            raise NotKnown(f'the token has no claim "{self._issuer.user_claim}"')
        groups = _claim(claims, self._issuer.groups_claim)
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Login(
            f"oidc:{name}", tuple(g for g in listed if isinstance(g, str)), float(claims["exp"]) + LEEWAY_S
        )

    def _key_of(self, token: str) -> Any:
        """The public key that the token's head names; of an issuer with one key it need not name it."""
        head = token.split(".")[0]
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
        if not isinstance(header, dict) or header.get("alg") not in ALGORITHMS:
            raise NotKnown("the token is not signed with a public key")
        kid = header.get("kid")
        with self._lock:
            now_s = self._now_s()
            is_old = now_s - self._fetched_s > KEYS_KEPT_S
            if (is_old or self._named(kid) is None) and now_s - self._asked_s > ASK_AGAIN_S:
                self._asked_s = now_s
                try:
                    self._keys, self._fetched_s = self._fetched(), now_s
                except Unavailable:
                    # Keys that are old are better than none.
                    if self._named(kid) is None:
                        raise
            if not self._keys:
                raise Unavailable("the keys of the issuer are not known")
            key = self._named(kid)
        if key is None:
            raise NotKnown("the issuer has no such key")
        return key

    def _named(self, kid: object) -> Any:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid) if isinstance(kid, str) else None

    def _fetched(self) -> dict[str, Any]:
        from joserfc import errors, jwk

        found = self._fetch(f"{self._issuer.url.rstrip('/')}/.well-known/openid-configuration")
        try:
            if found["issuer"] != self._issuer.url:
                raise Unavailable("what answers there is another issuer")
            _check_url(found["jwks_uri"])
            listed = self._fetch(found["jwks_uri"])["keys"]
            usable = [k for k in listed if k.get("kty") in KEY_TYPES and k.get("use", "sig") == "sig"]
            return {str(k.get("kid", number)): jwk.import_key(_public(k)) for number, k in enumerate(usable)}
        except (KeyError, TypeError, AttributeError, ValueError, UserError, errors.JoseError) as error:
            raise Unavailable(f"the issuer's answer cannot be used: {error}") from error


def _public(key: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in key.items()
        if name not in ("d", "p", "q", "dp", "dq", "qi", "oth", "k")
    }


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim whose name may have dots, or one within others, as Keycloak's `realm_access.roles`."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _check_url(url: str) -> None:
    """UserError SS4002 for what is no https: what comes by http anybody on the way may have written."""
    place = urlsplit(url)
    if place.scheme != "https" and not (
        place.scheme == "http" and place.hostname in ("localhost", "127.0.0.1", "::1")
    ):
        raise UserError(
            "SS4002",
            f'"{url}" is no address of an issuer',
            hint="give one with https; http only for this machine",
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def _fetch(url: str) -> Any:
    """What an issuer says there. All logins wait for it: one that drips is given up as one that is silent."""
    opener = urllib.request.build_opener(_NoRedirects)
    data, deadline_s = bytearray(), steady_s() + 2 * TIMEOUT_S
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            while part := answer.read1(_PART_BYTES):
                data += part
                if len(data) > ANSWER_BYTES_MAX or steady_s() > deadline_s:
                    raise Unavailable(f"{url} answers with too much, or too slowly")
        return json.loads(data)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Unavailable(f"{url} cannot be read: {error}") from error
