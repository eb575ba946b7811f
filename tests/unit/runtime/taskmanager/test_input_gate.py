"""The channels of a task, and when an input has ended."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.credits import IN_FLIGHT_BYTES_MIN
from sqlstream.runtime.taskmanager import input_gate
from sqlstream.runtime.taskmanager.input_gate import BufferDebloating, InputGate
from sqlstream.runtime.taskmanager.mailbox import Mailbox
from sqlstream.runtime.taskmanager.metrics import TaskTimes


def gate(ordinals: tuple[int, ...], counts: tuple[int, ...], mailbox: Mailbox | None = None) -> InputGate:
    channels = tuple(tuple(Channel(1 << 20) for _ in range(count)) for count in counts)
    return InputGate(ordinals, channels, mailbox or Mailbox())


def test_edges_into_one_input_are_one_input_with_all_their_channels() -> None:
    made = gate((0, 1, 0), (2, 1, 3))
    assert made.channels_per_input == (5, 1)
    assert [(c.input_index, c.position) for c in made.channels] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (0, 2),
        (0, 3),
        (0, 4),
    ]
    assert gate((), ()).channels_per_input == ()
    assert gate((), ()).is_finished


def test_an_input_ends_with_its_last_channel_and_the_gate_with_its_last_input() -> None:
    made, ended = gate((0, 1), (2, 1)), []
    for channel in (made.channels[0], made.channels[2], made.channels[1]):
        assert not made.is_finished
        made.on_end(channel, ended.append)
    assert (ended, made.channels_per_input, made.is_finished) == ([1, 0], (0, 0), True)


def test_a_channel_with_more_is_announced_again_and_the_bytes_of_rows_are_counted() -> None:
    mailbox = Mailbox()
    made = gate((0,), (1,), mailbox)
    (channel,) = made.channels
    made.open()
    rows = pa.record_batch({"a": [1, 2, 3]})
    for _ in range(2):
        channel.channel.put(rows, rows.nbytes)
    taken: list[Any] = []
    while (readable := mailbox.take_readable()) is not None:
        assert readable is channel
        taken.append(channel.take())
    assert [t.item for t in taken if t is not None] == [rows, rows]
    assert made.bytes_in == channel.bytes_in == 2 * rows.nbytes


def test_a_task_without_other_work_finds_what_it_was_not_woken_for() -> None:
    mailbox = Mailbox()
    channel = Channel(1 << 20, wake_bytes=1 << 10)
    made = InputGate((0,), ((channel,),), mailbox)
    made.open()
    rows = pa.record_batch({"a": [1, 2, 3]})
    channel.put(rows, rows.nbytes)
    assert mailbox.take_readable() is None
    made.look()
    assert mailbox.take_readable() is made.channels[0]
    assert mailbox.take_readable() is None


def test_debloating_bounds_channels_by_what_the_task_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, times, mailbox = [100.0], TaskTimes(), Mailbox()
    monkeypatch.setattr(input_gate, "steady_s", lambda: clock[0])
    made = gate((0,), (4,), mailbox)
    debloating = BufferDebloating(
        made, times, {"taskmanager.network.memory.buffer-debloat.samples": "1"}, channel_bytes=1 << 20
    )

    def take(size: int, seconds: float, idle_s: float = 0.0) -> list[int]:
        made.channels[0].bytes_in += size
        clock[0] += seconds
        times._waited_s["idle"] += idle_s
        debloating.on_taken()
        return [c.channel._capacity_bytes for c in made.channels]

    # Less than a period: no observation. Waiting for input is not slowness.
    assert take(1_000, 0.1) == [1 << 20] * 4
    assert take(399_000, 2.0, idle_s=1.1) == [100_000] * 4
    assert debloating.read() == {"debloatedBufferSize": 100_000, "estimatedTimeToConsumeBuffersMs": 0}
    made.channels[1].channel.put(pa.record_batch({"a": [1]}), 200_000)
    assert debloating.read()["estimatedTimeToConsumeBuffersMs"] == 500
    # Those that have ended leave their share to the others.
    made.on_end(made.channels[3], lambda ended: None)
    made.on_end(made.channels[2], lambda ended: None)
    assert take(800_000, 1.0) == [400_000] * 2 + [100_000] * 2
    assert take(1, 60.0)[:2] == [IN_FLIGHT_BYTES_MIN] * 2
    assert take(1 << 30, 1.0)[:2] == [1 << 20] * 2
    # Turned off it bounds nothing, and says so; turned on again it begins with what the task then takes.
    assert take(1, 60.0)[:2] == [IN_FLIGHT_BYTES_MIN] * 2
    debloating.turn(is_on=False)
    assert debloating.read() == {}
    assert take(1, 60.0)[:2] == [1 << 20] * 2
    debloating.turn(is_on=True)
    assert take(1, 60.0)[:2] == [IN_FLIGHT_BYTES_MIN] * 2
