"""The end of the HTTP server: on purpose, and by itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from sqlstream.client.gateway.pushed_results import CUT_OFF
from sqlstream.client.server.http_listener import HttpListener
from sqlstream.client.server.places import PlaceLimits, Places


class SlowApplication:
    """Answers when `go` is set; `is_asked` tells that it was asked."""

    def __init__(self) -> None:
        self.is_asked, self.go = threading.Event(), threading.Event()

    async def __call__(
        self, scope: dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]
    ) -> None:
        self.is_asked.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def listening() -> tuple[socket.socket, str]:
    found = socket.create_server(("127.0.0.1", 0))
    return found, f"http://127.0.0.1:{found.getsockname()[1]}/"


def test_a_stop_waits_for_the_request_under_way_and_takes_no_other() -> None:
    application, ends = SlowApplication(), []
    sock, url = listening()
    listener = HttpListener(application, [sock], None, lambda: ends.append("broken"))
    listener.start()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(httpx.get, url, timeout=60, trust_env=False)
        assert application.is_asked.wait(60)
        stopped = pool.submit(listener.stop)
        threading.Event().wait(0.2)
        assert not stopped.done()
        application.go.set()
        stopped.result(60)
        assert answer.result(60).text == "ok"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, timeout=60, trust_env=False)
    # Who stops it is not told that it has ended.
    assert ends == []


def test_an_end_that_nobody_asked_for_is_told() -> None:
    told = threading.Event()
    sock, _ = listening()
    sock.close()
    HttpListener(SlowApplication(), [sock], None, told.set).start()
    assert told.wait(60)


@pytest.mark.parametrize("is_on_purpose", [True, False])
@pytest.mark.parametrize("level", ["INFO", "WARNING"])
def test_a_response_that_is_cut_off_on_purpose_is_no_error_of_the_server(
    is_on_purpose: bool, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def cut_off(scope: dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        scope["state"][CUT_OFF] = is_on_purpose

    sock, url = listening()
    listener = HttpListener(cut_off, [sock], None, lambda: None)
    listener.start()
    with caplog.at_level(level, "uvicorn"):
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url, timeout=60, trust_env=False)
        # The record may come after the client has seen the end.
        listener.stop()
    assert ("ERROR" in {record.levelname for record in caplog.records}) is not is_on_purpose


def test_half_open_connections_shut_nobody_out() -> None:
    """Those of one address are few, those that send their head byte by byte are sent away, and others are answered."""
    application = SlowApplication()
    application.go.set()
    sock, url = listening()
    places = Places(PlaceLimits(connections_max=20, per_address_max=15, reserved=5, request_timeout_s=0.5))
    listener = HttpListener(application, [sock], None, lambda: None, places)
    address = sock.getsockname()
    listener.start()
    with contextlib.ExitStack() as ends:
        ends.callback(listener.stop)
        slow = []
        for n in range(60):
            source = (f"127.0.0.{2 + n % 6}", 0)
            client = ends.enter_context(socket.create_connection(address, 240, source_address=source))
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET / HT")
            slow.append(client)
        assert httpx.get(url, timeout=60, trust_env=False).text == "ok"
        # All of them end, without another byte from their side.
        for client in slow:
            with contextlib.suppress(ConnectionError):
                while client.recv(1000):
                    pass
