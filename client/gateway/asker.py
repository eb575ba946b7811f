"""Who asks the gateway for something, and who listens to what is asked."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from starlette.requests import Request

from sqlstream.effects import ALL, Permit
from sqlstream.errors import SqlStreamError


@dataclasses.dataclass(frozen=True)
class Asker:
    """Who makes a request, as the server's authentication found it. A session is open to the level that opened it and to
    those above. `permit`: their rights."""

    user: str = ""
    address: str = ""
    level: int = 0
    permit: Permit = ALL


NOBODY = Asker()
"""Where nobody authenticates."""


@dataclasses.dataclass(frozen=True)
class AskedStatement:
    """A statement with who asks for it, and the handles of its session and its operation."""

    asker: Asker
    session: str
    operation: str
    text: str


class StatementListener(Protocol):
    """Learns of every statement; called from any thread."""

    def announce(self, statement: AskedStatement) -> None:
        """Before a statement is executed; an error refuses it."""

    def end(self, statement: AskedStatement, outcome: str, error: SqlStreamError | None) -> None:
        """When an announced statement is settled: `outcome` is its status, or REJECTED when the session had no room for it;
        `error`: why it failed. Must neither wait nor fail."""


def asker_of(request: Request) -> Asker:
    state = request.state
    client = request.client
    return Asker(
        str(getattr(state, "user", "")),
        client.host if client is not None else "",
        int(getattr(state, "level", 0)),
        getattr(state, "permit", ALL),
    )
