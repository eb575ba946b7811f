"""The sockets of a server."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from sqlstream.client.server.http_listener import listen, port_of
from sqlstream.client.server.server_config import Endpoint
from sqlstream.client.server.standalone import JOIN_PORT_WORDS
from sqlstream.errors import UserError


def test_answers_leave_without_waiting_for_the_clients_acknowledgement() -> None:
    async def is_delayed() -> bool:
        accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            delay = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            accepted.set_result(not delay)
            writer.close()

        with contextlib.closing(listen(Endpoint("localhost", "127.0.0.1", (0,)))) as listener:
            server = await asyncio.start_server(serve, sock=listener)
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            writer.close()
            try:
                return await asyncio.wait_for(accepted, 10)
            finally:
                server.close()

    assert not asyncio.run(is_delayed())


def test_a_port_in_use_is_refused_with_the_word_that_gives_another_one() -> None:
    with contextlib.closing(listen(Endpoint("localhost", "127.0.0.1", (0,)))) as taken:
        port = (port_of(taken),)
        for words in ({}, {"port_words": JOIN_PORT_WORDS}):
            with pytest.raises(UserError) as caught:
                listen(Endpoint("localhost", "127.0.0.1", port, **words))
            given = words.get("port_words", "--port PORT")
            assert caught.value.hint == f"stop what listens there, or give another port: {given}"
