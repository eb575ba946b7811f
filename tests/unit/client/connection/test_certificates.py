"""A client that speaks TLS where the server does not, or the other way, is told which address to write."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from sqlstream.client.connection.http import naming_url
from sqlstream.errors import ExternalError


@pytest.mark.parametrize(
    ("scheme", "reply", "hint"),
    [
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "a server with a certificate is addressed as https://"),
        (
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "the server has no certificate: address it as http://",
        ),
    ],
)
def test_the_other_scheme_is_named(scheme: str, reply: bytes, hint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(65536)
                accepted.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(ExternalError) as caught, naming_url(url):
            httpx.get(url)
        thread.join()
    assert hint in caught.value.hint
