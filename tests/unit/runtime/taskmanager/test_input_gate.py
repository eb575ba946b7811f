"""The channels of a task, and when an input has ended."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.taskmanager.input_gate import InputGate
from sqlstream.runtime.taskmanager.mailbox import Mailbox


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
