"""The thread that waits on all streams: its end, and turns between calls and sockets."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

from sqlstream.runtime.net.streams.stream_loop import StreamLoop


def test_a_call_that_calls_again_leaves_sockets_their_turn() -> None:
    near, far = socket.socketpair()
    was_served = threading.Event()

    def call_again() -> None:
        if not was_served.is_set():
            loop.call(call_again)

    with near, far, closing(StreamLoop()) as loop:
        loop.call(call_again)
        loop.add(near, lambda is_readable, is_writable: was_served.set())
        far.send(b"x")
        assert was_served.wait(60)


def test_what_is_removed_after_the_end_is_closed_at_once() -> None:
    near, far = socket.socketpair()
    loop = StreamLoop()
    loop.add(near, lambda is_readable, is_writable: None)
    loop.close()
    loop.add(far, lambda is_readable, is_writable: None)
    assert not loop.call(lambda: None)
    with far:
        loop.remove(near, near.close)
        assert near.fileno() == -1
        assert far.recv(1) == b""
    loop.close()


def test_calls_that_stand_before_the_end_are_carried_out() -> None:
    loop, done = StreamLoop(), []
    loop.call(lambda: [loop.call(lambda i=i: done.append(i)) for i in range(5)])
    loop.close()
    assert done == [0, 1, 2, 3, 4]
