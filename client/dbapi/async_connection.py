"""The awaited twin of PEP 249's connection."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sqlstream.client.dbapi.async_cursor import AsyncCursor
from sqlstream.client.dbapi.errors import InterfaceError, NotSupportedError
from sqlstream.client.dbapi.translate import translating

if TYPE_CHECKING:
    from sqlstream.client.connection.async_interface import AsyncSessionConnection


async def connect_async(
    url: str, *, token: str = "", config: Mapping[str, str] | None = None
) -> AsyncConnection:
    """Open a session; see `connect`. For `http://…` no thread waits; an embedded cluster is waited for on threads."""
    from sqlstream.client.connection import connect_async as connect_session

    with translating():
        return AsyncConnection(await connect_session(url, token=token, config=config))


class AsyncConnection:
    """`Connection`, awaited, for one event loop. As an asynchronous context manager it closes itself."""

    def __init__(self, session: AsyncSessionConnection) -> None:
        self.session = session
        self._is_closed = False

    def cursor(self) -> AsyncCursor:
        self.check_open()
        return AsyncCursor(self)

    async def commit(self) -> None:
        """Does nothing: each statement has taken effect already."""
        self.check_open()

    async def rollback(self) -> None:
        """NotSupportedError: there are no transactions."""
        self.check_open()
        raise NotSupportedError("there are no transactions to roll back")

    def check_open(self) -> None:
        """InterfaceError after `close`."""
        if self._is_closed:
            raise InterfaceError(
                "the connection is closed", hint="open another one: sqlstream.connect_async(url)"
            )

    async def close(self) -> None:
        """End the session. InterfaceError when the connection is closed already."""
        self.check_open()
        self._is_closed = True
        with translating():
            await self.session.close()

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed:
            await self.close()
