"""Who asks the gateway for something, and who listens to what is asked."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from starlette.requests import Request


@dataclasses.dataclass(frozen=True)
class Asker:
    """Who makes a request, as the server's authentication found it. A session is open to the level that opened it and to
    those above. `names_files`: who may name files of the server by their path."""

    user: str = ""
    address: str = ""
    level: int = 0
    names_files: bool = True


NOBODY = Asker()
"""Where nobody authenticates."""


class StatementListener(Protocol):
    """Learns of every statement; called from any thread."""

    def announce(self, asker: Asker, session: str, operation: str, text: str) -> None:
        """Before a statement is executed; an error refuses it."""

    def end(self, asker: Asker, session: str, operation: str, outcome: str, code: str) -> None:
        """When an announced statement is settled: `outcome` is its status, or REJECTED when the session had no room for it;
        `code` is that of its error. Must neither wait nor fail."""


def asker_of(request: Request) -> Asker:
    state = request.state
    client = request.client
    return Asker(
        str(getattr(state, "user", "")),
        client.host if client is not None else "",
        int(getattr(state, "level", 0)),
        bool(getattr(state, "names_files", True)),
    )
