"""The console in the browser: its page, and what the page needs beside Flink's protocols."""

from __future__ import annotations

import mimetypes
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from sqlstream.bounds import Count
from sqlstream.client.gateway.asker import Asker, asker_of
from sqlstream.client.http_api.answers import json_answer, read_value
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ServerInfo
from sqlstream.client.rest.route import RestRoute

Complete = Callable[[str, str, int, Asker], Sequence[str]]
"""Candidates for a session's handle, a statement, a position in it and who asks (GatewayService.complete)."""

STATIC = Path(__file__).parent / "static"
EDITOR = Path(sys.prefix) / "share" / "sqlstream" / "codemirror"
"""Where set-up puts the editor's package. Without it the page has a plain text field."""

SERVERS = "servers.js"
EDITOR_FILES = ("codemirror.js", "codemirror.css", "sql.js")

HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}

_ORIGIN = re.compile(r"https?://[A-Za-z0-9_.:\[\]-]{1,300}")
_BODY_BYTES_MAX = 12 * 1024 * 1024


class CompleteRequest(msgspec.Struct, rename="camel"):
    session_handle: str
    statement: str
    position: Count


def console_routes(
    complete: Complete,
    info: ServerInfo,
    editor: Path = EDITOR,
    others: Callable[[], Sequence[str]] = tuple,
) -> APIRouter:
    """The page at `/`, its files below `/console`, and completion as a POST, since a browser sends no body with a GET. One
    script may ask `others`, the URLs of servers that lead when this one is lost, whether they are ready; the page asks nothing
    elsewhere. That script is a worker, whose policy a browser takes when it starts: it starts again for a server that joined.

    The page and its files hold no data, and a browser loads them before it has a token: they need none.
    """
    router = APIRouter(route_class=RestRoute, include_in_schema=False)
    files = {path.name: path for path in STATIC.iterdir() if path.is_file()}
    files |= {f"editor-{name}": editor / name for name in EDITOR_FILES if (editor / name).is_file()}

    @router.get("/")
    async def page() -> Response:
        return _file(files["index.html"])

    @router.get("/console/about.json")
    async def about() -> Response:
        has_editor = all(f"editor-{name}" in files for name in EDITOR_FILES)
        return json_answer({"version": info.version, "hasEditor": has_editor, "others": _origins(others())})

    @router.post("/console/complete-statement")
    async def complete_statement(request: Request) -> Response:
        wanted = await read_value(request, CompleteRequest, _BODY_BYTES_MAX)
        found = await run_in_threadpool(
            complete, wanted.session_handle, wanted.statement, wanted.position, asker_of(request)
        )
        return json_answer({"candidates": list(found)})

    @router.get("/console/{name}")
    async def static(name: str) -> Response:
        # Only files that were there at the start are served, so that no name leads elsewhere.
        if name not in files:
            raise RestError(404, f"Not found: /console/{name[:100]}")
        found = _file(files[name])
        if name == SERVERS and (known := _origins(others())):
            found.headers["content-security-policy"] += f"; connect-src {' '.join(known)}"
        return found

    return router


def _origins(urls: Sequence[str]) -> list[str]:
    """Those that a policy can name: others would end it."""
    return [url for url in urls if _ORIGIN.fullmatch(url)]


def _file(path: Path) -> Response:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return FileResponse(path, headers=HEADERS, media_type="text/javascript" if path.suffix == ".js" else kind)
