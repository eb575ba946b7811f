"""A server of one address: it takes requests with the right token, and answers them when its owner says."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
import threading
from typing import Any

from sqlstream.errors import ExternalError

_BACKLOG = 128
_CONNECTIONS_MORE = 64


class Waiting:
    """A request whose body has come. Any thread may answer it, once. State: the body, until it was read;
    whether its sender has an answer."""

    def __init__(self, body: bytes, key: str, loop: asyncio.AbstractEventLoop) -> None:
        self.body, self.key = body, key
        self.is_over = False
        self._loop = loop
        self.answered: asyncio.Future[tuple[int, str]] = loop.create_future()

    def answer(self, status: int, message: str) -> None:
        def settle() -> None:
            if not self.answered.done():
                self.answered.set_result((status, message))

        # The loop is closed when the listener is: then nobody waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle)


class Listener:
    """Listens until it is closed. State: the requests that nobody has taken, nor given up."""

    def __init__(
        self,
        hostname: str,
        port: int,
        path: str,
        token: str,
        bytes_max: int,
        timeout_s: float,
        waiting_max: int,
    ) -> None:
        """ExternalError SS5348 for an address that cannot be listened at."""
        import uvicorn

        self._path, self._bytes_max = path, bytes_max
        self._authorization = f"Bearer {token}".encode()
        self._timeout_s, self._waiting_max = timeout_s, waiting_max
        self._waiting = 0
        self._lock = threading.Lock()
        self._requests: dict[Waiting, None] = {}
        try:
            family = socket.AF_INET6 if ":" in hostname else socket.AF_INET
            self._socket = socket.create_server((hostname, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise ExternalError(
                "SS5348", f"could not listen at {hostname}:{port}: {error.strerror or error}"
            ) from error
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._serve,
                interface="asgi3",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                limit_concurrency=waiting_max + _CONNECTIONS_MORE,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="webhook", daemon=True
        )
        self._thread.start()

    def take(self) -> Waiting | None:
        """The first request that has come."""
        with self._lock:
            request = next(iter(self._requests), None)
            if request is not None:
                del self._requests[request]
            return request

    def close(self) -> None:
        """Requests that wait are answered with 503."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _serve(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
        status, message = await self._answered(scope, headers, receive)
        body = json.dumps({"message": message}).encode()
        more = [(b"retry-after", b"1")] if status == 503 else []
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": body})

    async def _answered(
        self, scope: dict[str, Any], headers: dict[bytes, bytes], receive: Any
    ) -> tuple[int, str]:
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._authorization):
            return 401, "the token is missing or wrong"
        if scope["path"] != self._path:
            return 404, "nothing is here"
        if scope["method"] != "POST":
            return 405, "rows are sent by POST"
        if self._waiting >= self._waiting_max:
            return 503, "too many requests wait"
        self._waiting += 1
        try:
            body = await asyncio.wait_for(self._body(receive), self._timeout_s)
            if body is None:
                return 413, f"the request has more than {self._bytes_max} bytes"
            loop = asyncio.get_running_loop()
            key = headers.get(b"idempotency-key", b"")
            request = Waiting(body, hashlib.sha256(key).hexdigest() if key else "", loop)
            with self._lock:
                self._requests[request] = None
            try:
                return await self._outcome(request)
            finally:
                request.is_over = True
                with self._lock:
                    # Nobody waits for its rows: they are not read, and will be sent again.
                    self._requests.pop(request, None)
        except TimeoutError:
            return 408, "the request did not come in time"
        finally:
            self._waiting -= 1

    async def _outcome(self, request: Waiting) -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._timeout_s
        while not self._server.should_exit and (left_s := end_s - loop.time()) > 0:
            done, _ = await asyncio.wait([request.answered], timeout=min(left_s, 0.1))
            if done:
                return request.answered.result()
        return 503, "no checkpoint has the rows yet: send them again, with the same Idempotency-Key"

    async def _body(self, receive: Any) -> bytes | None:
        """None for one that is too large."""
        body = bytearray()
        while True:
            part = await receive()
            body += part.get("body", b"")
            if len(body) > self._bytes_max:
                return None
            if part["type"] == "http.disconnect":
                raise TimeoutError
            if not part.get("more_body", False):
                return bytes(body)
