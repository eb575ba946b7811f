"""A server on a free port of loopback that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sqlstream
from sqlstream.client.sessions.target_session import local_session
from sqlstream.graph.job_graph import read_tables, written_tables
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.spi.connector import ConnectorContext
from sqlstream.testing.check import Row, table_text

TIMEOUT_S = 60
"""Until a test fails, not what it needs."""


def table(at: str, columns: str = "n BIGINT", name: str = "t", **options: str) -> str:
    given = {"connector": "http", "url": at, "format": "json"}
    return table_text(name, columns, {**given, **options})


def rows(*statements: str) -> list[Row]:
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return [tuple(row) for row in cursor]


def first_rows(count: int, *statements: str) -> list[Row]:
    """Of a query that does not end."""
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return [tuple(cursor.fetchone()) for _ in range(count)]


@dataclass(frozen=True)
class Asked:
    """A request. Names of headers are in small letters."""

    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """`parts` are sent one by one, behind the body, and the connection ends behind them."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: Iterator[bytes] | None = None

    @staticmethod
    def json(value: Any, status: int = 200, **headers: str) -> Reply:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return Reply(json.dumps(value).encode(), status, named)


@dataclass
class HttpServer:
    """State: the requests in their order."""

    reply: Callable[[Asked], Reply]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def http_server(reply: Callable[[Asked], Reply]) -> Iterator[HttpServer]:
    """`reply` may be called by several threads at once."""
    made = HttpServer(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            asked = Asked(
                self.command,
                parts.path,
                dict(urllib.parse.parse_qsl(parts.query)),
                {k.lower(): v for k, v in self.headers.items()},
                self.rfile.read(int(self.headers.get("content-length") or 0)),
            )
            made.asked.append(asked)
            reply = made.reply(asked)
            with contextlib.suppress(ConnectionError):
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.parts is None:
                    self.send_header("content-length", str(len(reply.body)))
                    self.end_headers()
                    self.wfile.write(reply.body)
                    return
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                for part in itertools.chain([reply.body], reply.parts):
                    self.wfile.write(part)
                    self.wfile.flush()

        do_GET = do_POST = do_PUT = _serve  # noqa: N815

        def log_message(self, *arguments: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


# A reader and a writer by themselves.


def planned(*statements: str) -> Any:
    with local_session() as session:
        *before, last = parse_statements(";\n".join(statements))
        for statement in before:
            session.execute(statement)
        return session.compile(last).job_graph


def source_spec(*statements: str) -> Any:
    return next(spec for _, spec in read_tables(planned(*statements)))


def sink_spec(*statements: str) -> Any:
    return next(spec for _, spec in written_tables(planned(*statements)))


def table_context(files: Any = None, writer_name: str = "") -> ConnectorContext:
    return ConnectorContext(
        job_id="0" * 32,
        vertex_id="v",
        subtask=0,
        parallelism=1,
        attempt=0,
        batch_rows=7,
        config={},
        now_ms=lambda: 1_000,
        count=lambda name, n: None,
        files=files or LocalFiles(),
        writer_name=writer_name,
    )
