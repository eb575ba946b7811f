"""What every request passes before it is answered: host, origin, token, role, and the size of its body."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sqlstream.client.server.app import HEALTH_PATHS
from sqlstream.client.server.audit import AuditLog
from sqlstream.client.server.directories.known_users import KnownUsers, NotKnown, TooOften, Unavailable
from sqlstream.client.server.http_listener import CERTIFICATE_NAMES
from sqlstream.client.server.places import Places
from sqlstream.client.server.roles import LOCAL, PAGE_READER, Principal, request_effects, session_of
from sqlstream.client.server.tokens import Tokens
from sqlstream.errors import SqlStreamError

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_TIMEOUT_S = 10.0
BODY_BYTES_PER_S_MIN = 16 * 1024
"""A body has BODY_TIMEOUT_S, and as much longer as what has come of it takes at this rate: one that drips is given up."""

LOGINS_MAX = 16

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_QUIET_SUFFIXES = ("/heartbeat", "/complete-statement", "/statements", "/configure-session")
"""Requests without an entry of their own in the audit log: they change nothing, or their statement has one."""


@dataclasses.dataclass(frozen=True)
class AccessRules:
    """`host_names` are those under which clients may reach the server while it requires no token. `bodies_bytes_max`: what the
    bodies of all requests under way may take, half of it those of one user."""

    is_token_required: bool
    host_names: frozenset[str]
    body_bytes_max: int
    bodies_bytes_max: int = 256 * 1024 * 1024
    requests_per_user_max: int = 200


SessionLevel = Callable[[str], int | None]
"""The level of the role that opened a session, by its handle (GatewayService.session_level)."""


class Refused(Exception):
    """The request is answered with `status`."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.reason = reason or message


class Security:
    """An ASGI application around another, on the thread of one event loop. State: what requests under way have of their users'
    shares, the connections that they have, and how many logins of `users` are under way; the tokens are read when they change.

    The page of the console and its files need no token, as they hold no data, nor does a question for the server's health. The
    principal is put into `state.user` and `state.role` of the request, the level of the role into `state.level`, and its rights
    into `state.permit`."""

    def __init__(
        self,
        app: Application,
        rules: AccessRules,
        tokens: Tokens,
        audit: AuditLog,
        session_level: SessionLevel,
        places: Places,
        users: KnownUsers | None = None,
    ) -> None:
        self._app = app
        self._users = users
        self._logins = 0
        self._places = places
        self._bodies = _Shares(
            rules.bodies_bytes_max,
            max(rules.bodies_bytes_max // 2, min(rules.body_bytes_max, rules.bodies_bytes_max)),
        )
        # Without tokens all are one user, and bound by their connections.
        each_max = rules.requests_per_user_max if rules.is_token_required else sys.maxsize
        self._requests = _Shares(sys.maxsize, each_max)
        self._session_level = session_level
        self._rules = rules
        self._tokens = tokens
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # No route speaks another protocol; a server that sees no answer closes the connection.
            return
        headers = _headers(scope)
        principal: Principal | None = None
        try:
            self._check_host(headers)
            if scope["method"] not in _READING or scope["path"] not in HEALTH_PATHS:
                self._check_origin(headers)
            principal = await self._authenticate(scope, headers)
            effects = request_effects(scope["method"], scope["path"])
            lacking = principal.role.permit.missing(effects)
            if lacking is not None:
                raise Refused(403, f"The role {principal.role.value} may not {lacking[0].value}.")
            self._check_session(scope, principal)
            if not self._requests.take(principal.name):
                raise Refused(429, f"The user has {self._rules.requests_per_user_max} requests under way.")
        except Refused as refused:
            await self._refuse(refused, scope, send, principal)
            return
        client = scope.get("client") or ("", 0)
        self._places.serve(client)
        body = _Body(principal.name, self._bodies)
        try:
            await self._read(body, headers, receive)
            if body.is_whole:
                await self._pass_on(scope, body.content(), receive, send, principal)
        except Refused as refused:
            await self._refuse(refused, scope, send, principal)
        finally:
            body.release()
            self._requests.give_back(principal.name)
            self._places.await_request(client)

    async def _refuse(self, refused: Refused, scope: Scope, send: Send, principal: Principal | None) -> None:
        user = principal.name if principal is not None else ""
        self._audit.refused(
            user, _peer(scope), scope["method"], scope["path"], refused.status, refused.reason
        )
        await _answer(send, refused.status, refused.message)

    # --- checks

    def _check_host(self, headers: dict[str, str]) -> None:
        """A page of the internet can make its own name point to this machine (DNS rebinding); the browser still sends that name.
        With tokens there is nothing to gain by that: a browser attaches none of its own accord."""
        if self._rules.is_token_required:
            return
        name = _host_name(headers.get("host", ""))
        if name not in self._rules.host_names:
            raise Refused(421, f"This server is not reached as '{name[:100]}'.", "another host name")

    def _check_origin(self, headers: dict[str, str]) -> None:
        """A page of another site, or of another server on this machine, may not send requests here."""
        origin = headers.get("origin")
        if origin is None:
            return
        scheme, _, host = origin.partition("://")
        is_same = host.lower() == headers.get("host", "").lower()
        if scheme not in ("http", "https") or not host or not is_same:
            raise Refused(403, "Requests from pages of other sites are refused.", f"origin {origin[:100]}")

    async def _authenticate(self, scope: Scope, headers: dict[str, str]) -> Principal:
        if not self._rules.is_token_required:
            return LOCAL
        if scope["method"] in ("GET", "HEAD") and _is_page(scope["path"]):
            return PAGE_READER
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        scheme, shown, users = scheme.lower(), shown.strip(), self._users
        if not shown and users is not None:
            names = scope.get("state", {}).get(CERTIFICATE_NAMES, ())
            if (found := users.of_certificate(names)) is not None:
                return found
        is_known = scheme == "bearer" or (scheme == "basic" and users is not None and users.takes_passwords)
        if not is_known or not shown:
            raise Refused(
                401, "A token is required: send the header 'Authorization: Bearer TOKEN'.", "no token"
            )
        principal = self._principal_of(shown) if scheme == "bearer" else None
        if principal is None and users is not None:
            principal = users.remembered(scheme, shown) or await self._log_in(
                users, scheme, shown, _peer(scope)
            )
        if principal is None:
            raise Refused(401, "The token is not valid.", "wrong token")
        return principal

    def _principal_of(self, token: str) -> Principal | None:
        try:
            return self._tokens.principal_of(token)
        except SqlStreamError as error:
            logger.error("the tokens cannot be read: %s", error.message)
            raise Refused(500, "The server cannot read its tokens.") from error

    async def _log_in(self, users: KnownUsers, scheme: str, shown: str, address: str) -> Principal:
        """Ask the issuer or the directory, which takes a thread; at most LOGINS_MAX do at once."""
        if self._logins >= LOGINS_MAX:
            raise Refused(503, "Too many logins are under way: try again later.")
        self._logins += 1
        try:
            return await asyncio.to_thread(users.log_in, scheme, shown, address)
        except NotKnown as error:
            what = "token is" if scheme == "bearer" else "name or password is"
            raise Refused(401, f"The {what} not valid.", str(error)) from error
        except TooOften as error:
            raise Refused(429, "Too many logins have failed: wait a minute.", "too many failures") from error
        except Unavailable as error:
            logger.error("who asks cannot be known: %s", error)
            raise Refused(503, "Users cannot be looked up now: try again later.", str(error)) from error
        finally:
            self._logins -= 1

    def _check_session(self, scope: Scope, principal: Principal) -> None:
        """A session has the rights of the role that opened it: its handle is no way to them for a lower one."""
        handle = session_of(scope["path"])
        level = self._session_level(handle) if handle else None
        if level is not None and principal.role.level < level:
            raise Refused(
                403,
                f"The role {principal.role.value} does not allow the use of a session that a higher role has opened.",
                "session of a higher role",
            )

    async def _read(self, body: _Body, headers: dict[str, str], receive: Receive) -> None:
        """The whole body, unless the client goes before."""
        limit = self._rules.body_bytes_max
        too_large = Refused(413, f"The request's body is larger than {limit} bytes.", "body too large")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise too_large
        try:
            started_s = asyncio.get_running_loop().time()
            async with asyncio.timeout(BODY_TIMEOUT_S) as deadline:
                while True:
                    message = await receive()
                    deadline.reschedule(started_s + BODY_TIMEOUT_S + body.size / BODY_BYTES_PER_S_MIN)
                    if message["type"] == "http.disconnect":
                        return
                    part = message.get("body", b"")
                    if body.size + len(part) > limit:
                        raise too_large
                    if not body.add(part):
                        raise Refused(
                            503, "Too many bodies of requests are under way: send this one again later."
                        )
                    if not message.get("more_body", False):
                        body.is_whole = True
                        return
        except TimeoutError as error:
            raise Refused(408, "The request's body did not come in time.") from error

    # --- on to the application

    async def _pass_on(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, principal: Principal
    ) -> None:
        scope.setdefault("state", {})
        scope["state"] |= {
            "user": principal.name,
            "role": principal.role,
            "level": principal.role.level,
            "permit": principal.role.permit,
        }
        is_read = False

        async def receive_body() -> MutableMapping[str, Any]:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def send_checked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"x-content-type-options", b"nosniff")]
                self._note(scope, principal, message["status"])
            await send(message)

        await self._app(scope, receive_body, send_checked)

    def _note(self, scope: Scope, principal: Principal, status: int) -> None:
        method, path = scope["method"], scope["path"]
        if method in _READING or path.endswith(_QUIET_SUFFIXES):
            return
        self._audit.request(principal.name, principal.role.value, _peer(scope), method, path, status)


class _Shares:
    """Gives out what there is, at most `each_max` to one holder. Used by the thread of one event loop.

    State: what each holder has."""

    def __init__(self, all_max: int, each_max: int) -> None:
        self._all_max = all_max
        self._each_max = each_max
        self._taken = 0
        self._of_each: Counter[str] = Counter()

    def take(self, holder: str, amount: int = 1) -> bool:
        """False, and nothing is taken, when there is not enough left."""
        if self._taken + amount > self._all_max or self._of_each[holder] + amount > self._each_max:
            return False
        self._taken += amount
        self._of_each[holder] += amount
        return True

    def give_back(self, holder: str, amount: int = 1) -> None:
        self._taken -= amount
        self._of_each[holder] -= amount
        if not self._of_each[holder]:
            del self._of_each[holder]


class _Body:
    """What has come of a request's body. State: its parts, which count as bytes of their user until `release`."""

    def __init__(self, user: str, shares: _Shares) -> None:
        self._user = user
        self._shares = shares
        self._parts: list[bytes] = []
        self.size = 0
        self.is_whole = False

    def add(self, part: bytes) -> bool:
        """False when there is no room for it."""
        if not self._shares.take(self._user, len(part)):
            return False
        self._parts.append(part)
        self.size += len(part)
        return True

    def content(self) -> bytes:
        """All of it; called once."""
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole

    def release(self) -> None:
        self._parts.clear()
        self._shares.give_back(self._user, self.size)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _host_name(host: str) -> str:
    """The name of a Host header, without its port.

    >>> _host_name("Localhost:8083"), _host_name("[::1]:80"), _host_name("h")
    ('localhost', '::1', 'h')
    """
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_page(path: str) -> bool:
    return path in ("/", "/favicon.ico", *HEALTH_PATHS) or path.startswith("/console/")


async def _answer(send: Send, status: int, message: str) -> None:
    """An error in Flink's body. The connection is closed, as the rest of the request is not read."""
    body = msgspec.json.encode({"errors": [message]})
    headers = [
        (b"content-type", b"application/json; charset=UTF-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="sqlstream"'))
    if status == 429:
        headers.append((b"retry-after", b"60"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
