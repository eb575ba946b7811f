"""Parts that a thread has received, and nobody has taken: few, and of bounded size."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.runtime.connectors.http import received
from sqlstream.runtime.connectors.http.received import Received, Receiver


@pytest.mark.parametrize(("size", "kept"), [(1, 8), (60, 2), (200, 1)])
def test_a_receiver_keeps_few_parts_of_few_bytes(
    monkeypatch: pytest.MonkeyPatch, size: int, kept: int
) -> None:
    monkeypatch.setattr(received, "_BYTES_MAX", 100)
    handed_on: list[int] = []

    def receive(receiver: Receiver) -> None:
        for number in range(10):
            receiver.hand_on(Received(pa.array([b"x" * size], pa.binary())))
            handed_on.append(number)

    receiver = Receiver("test", receive)
    # Who is closed does not wait for room, and drops what has none.
    receiver.is_closed.set()
    receive(receiver)
    assert len(handed_on) == 10
    assert len(receiver._parts) == kept
