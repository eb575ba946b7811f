"""A registry of schemas on a free port of loopback, as far as clients of Confluent's protocol ask it."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_JSON = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """State: schemas by id, subjects with the ids of their versions, and how often each path was asked for. `status` answers
    every request when it is set; `authorization` is the header that requests need; `incompatible` subjects take no schema."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: dict[str, int] = {}
        self.status: int | None = None
        self.authorization: str | None = None
        self.incompatible: set[str] = set()
        self.url = ""
        self._lock = threading.Lock()

    def add(
        self,
        schema: Any,
        subject: str = "",
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """The id of a schema, which is new if it is."""
        answer: dict[str, Any] = {"schema": schema if isinstance(schema, str) else json.dumps(schema)}
        answer |= {} if kind == "AVRO" else {"schemaType": kind}
        answer |= {"references": references} if references else {}
        with self._lock:
            known = [number for number, found in self.schemas.items() if found == answer]
            number = known[0] if known else 100_001 + len(self.schemas)
            self.schemas[number] = answer
            versions = self.subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
        return number

    def answer(self, method: str, path: str, body: Any, authorization: str | None) -> tuple[int, Any]:
        self.asked[path] = self.asked.get(path, 0) + 1
        if self.status is not None:
            return self.status, {"error_code": self.status, "message": "as it was told"}
        if self.authorization is not None and authorization != self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            found = self.schemas.get(int(match[1]))
            return (
                (200, found)
                if found is not None
                else (404, {"error_code": 40403, "message": "Schema not found"})
            )
        if match := re.fullmatch(r"/subjects/([^/]+)/versions(/latest|/\d+)?", path):
            subject = urllib.parse.unquote(match[1])
            if method == "POST":
                if subject in self.incompatible:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(body["schema"], subject, body.get("schemaType", "AVRO"))}
            if subject in self.subjects:
                versions = self.subjects[subject]
                latest = {"subject": subject, "version": len(versions), "id": versions[-1]}
                return 200, {**latest, **self.schemas[versions[-1]]}
        return 404, {"error_code": 40401, "message": "Subject not found"}


@contextlib.contextmanager
def running_registry(tls: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond("GET", None)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._respond("POST", json.loads(self.rfile.read(length)))

        def _respond(self, method: str, body: Any) -> None:
            status, answer = registry.answer(method, self.path, body, self.headers["Authorization"])
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", _JSON)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
