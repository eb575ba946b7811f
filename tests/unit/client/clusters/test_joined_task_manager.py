"""Of several servers the one that answers is joined."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest
import trustme

from sqlstream.client.clusters import joined_task_manager


def test_a_server_that_stands_still_is_not_taken_for_one_that_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its system completes connections for it, but nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with monkeypatch.context() as patch:
            patch.setattr(joined_task_manager, "CONNECT_TIMEOUT_S", 0.2)
            assert not joined_task_manager._is_open(address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

        def answer() -> None:
            while True:
                opened, _ = listener.accept()
                # The first has been given up.
                with contextlib.suppress(OSError), context.wrap_socket(opened, server_side=True) as secured:
                    secured.recv(1)
                    return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        monkeypatch.setattr(joined_task_manager, "CONNECT_TIMEOUT_S", 30.0)
        assert joined_task_manager._is_open(address)
        thread.join(30)
    assert not joined_task_manager._is_open(address)
