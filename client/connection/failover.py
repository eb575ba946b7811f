"""Which of several servers a request goes to next, and whether it is sent again: decisions, without a network.

A request that reached nobody, or a server that does not lead, has had no effect, and goes to another server. One that was sent
and not answered may have had one: it is repeated when that is safe, and else its outcome is unknown.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

RETRY_S = 60.0
"""How long a request is repeated, from the first attempt that failed."""

FIRST_PAUSE_S, PAUSE_MAX_S = 0.05, 1.0
"""Between two rounds in which all servers were asked; each is twice as long as the one before."""


class Failed(enum.Enum):
    """How an attempt failed: no connection, a server that does not lead, or no answer to a request that was sent."""

    UNREACHED = "UNREACHED"
    NOT_LEADING = "NOT_LEADING"
    LOST = "LOST"


@dataclasses.dataclass(frozen=True)
class Try:
    """Send the request to the server, after a pause."""

    url: str
    pause_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class GiveUp:
    """`is_unknown`: the request may have had its effect."""

    is_unknown: bool


class Servers:
    """The servers of one client. State: which of them was the last to answer, if any has."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)
        self.current = self.urls[0]
        self.has_answered = False

    @property
    def are_several(self) -> bool:
        return len(self.urls) > 1

    def answered(self, url: str) -> None:
        """The server leads, since it has answered."""
        self.current, self.has_answered = url, True

    def leader(self, named: str, by: str) -> str:
        """The server that another one names as the leader; empty for one to which the token is not sent: with another scheme, or
        on this machine where `by` is elsewhere, which names itself by a name that counts there."""
        if named in self.urls:
            return named
        if not named or urlsplit(named).scheme != urlsplit(by).scheme or _is_here(named) > _is_here(by):
            return ""
        return named


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Failover:
    """The attempts of one request; `failed` tells of one that failed, and says what is next. `is_repeatable`: to carry it out
    twice is the same as once.

    A client that no server has ever answered gives up after a round in which none was there: then none is started. With one
    server alone an attempt without an answer is the last, too.

    State: the server to ask now (`url`), and whether a request may have arrived; which servers of this round were asked and
    which are left, the pause before the next round, and since when attempts fail."""

    def __init__(self, servers: Servers, is_repeatable: bool, retry_s: float = RETRY_S) -> None:
        self._servers = servers
        self._is_repeatable = is_repeatable
        self._retry_s = retry_s
        self.url = servers.current
        self._rest = self._round()
        self._asked = {self.url}
        self._pause_s = FIRST_PAUSE_S
        self._since_s: float | None = None
        self._is_waiting_seen = False
        self.may_have_arrived = False

    def _round(self) -> list[str]:
        """The servers to ask after `url`, in the order of the list, each once."""
        urls = self._servers.urls
        start = urls.index(self.url) + 1 if self.url in urls else 0
        return [url for url in (*urls[start:], *urls[:start]) if url != self.url]

    def failed(self, how: Failed, now_s: float, leader: str = "") -> Try | GiveUp:
        """`leader`: whom a server that does not lead has named."""
        if self._since_s is None:
            self._since_s = now_s
        self._is_waiting_seen |= how is Failed.NOT_LEADING
        if how is Failed.LOST:
            self.may_have_arrived = True
            if not self._is_repeatable:
                return GiveUp(is_unknown=True)
        if now_s - self._since_s >= self._retry_s or self._is_last():
            return GiveUp(self.may_have_arrived)
        named = self._servers.leader(leader, self.url) if how is Failed.NOT_LEADING else ""
        if named and named not in self._asked:
            self._rest = [url for url in self._rest if url != named]
            return self._next(named, 0.0)
        if self._rest:
            return self._next(self._rest.pop(0), 0.0)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_MAX_S)
        self._asked = set()
        following, *self._rest = (*self._round(), *({self.url} & {*self._servers.urls}))
        return self._next(following, pause_s)

    def _is_last(self) -> bool:
        """Whether nobody can be expected to answer."""
        if self._is_waiting_seen:
            return False
        if not self._servers.are_several:
            return True
        return not self._rest and not self._servers.has_answered

    def _next(self, url: str, pause_s: float) -> Try:
        self.url = url
        self._asked.add(url)
        return Try(url, pause_s)
