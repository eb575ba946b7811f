"""HEAD: what GET answers, without the body."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


def has_head(path: str) -> bool:
    """Whether HEAD is answered where GET is: not for a stream of results, which takes the rows that it sends.

    >>> has_head("/overview"), has_head("/v4/sessions/s/operations/o/result/stream")
    (True, False)
    """
    return not path.endswith("/result/stream")


class HeadRequests:
    """An ASGI application that answers HEAD as another answers GET; the HTTP server sends no body with it. No state."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and has_head(scope["path"]):
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
