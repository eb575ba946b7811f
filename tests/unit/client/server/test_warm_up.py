from __future__ import annotations

import threading
from collections.abc import Mapping

from sqlstream.client.server.server import start_warm_up
from sqlstream.client.sessions.session import Session


def test_the_end_of_a_server_does_not_wait_for_its_warm_up() -> None:
    is_over = threading.Event()

    def open_session(settings: Mapping[str, str]) -> Session:
        is_over.wait(60)
        raise OSError("no session")

    thread = start_warm_up(open_session)
    assert thread.is_alive()
    assert thread.daemon  # the interpreter ends without joining it
    is_over.set()
    thread.join(60)
    assert not thread.is_alive()
