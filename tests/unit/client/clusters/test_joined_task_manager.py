"""Of several servers the one that answers is joined."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading

import pytest
import trustme

from sqlstream import config
from sqlstream.client.clusters import joined_task_manager
from sqlstream.client.clusters.joined_task_manager import SLOTS, slots_of_cores


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


def test_a_host_of_many_cores_offers_no_more_slots_than_a_task_manager_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cores, task_managers, expected in ((96, 1, "96"), (96, 4, "24"), (2, 4, "1"), (5000, 1, "1024")):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert slots_of_cores(task_managers) == expected
        assert config.get({SLOTS: slots_of_cores(task_managers)}, SLOTS) == int(expected)
