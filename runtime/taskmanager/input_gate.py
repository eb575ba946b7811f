"""The network inputs of a task: its channels, grouped by the head operator's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from sqlstream import config as options
from sqlstream.elements import CheckpointBarrier
from sqlstream.messages.rpc import DEBLOATED, Metrics
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.net.channels import Channel, QueuedItem, StreamItem
from sqlstream.runtime.net.credits import IN_FLIGHT_BYTES_MIN, InFlightTarget
from sqlstream.runtime.taskmanager.mailbox import Mailbox
from sqlstream.runtime.taskmanager.metrics import TaskTimes

OnTimed = Callable[["InputChannel", CheckpointBarrier], None]


class InputChannel:
    """One channel of a task's input. `input_index` is the input of the head operator; `position` is the channel's
    index among those of that input, and `number` among all of the task. `bytes_in` counts the rows' bytes that were taken.
    `is_blocked`: it is not read until the barriers of other channels have come. `recorded` takes what it yields, while that
    becomes part of a checkpoint."""

    __slots__ = (
        "_mailbox",
        "_on_first",
        "_on_timed",
        "bytes_in",
        "channel",
        "has_ended",
        "input_index",
        "is_blocked",
        "number",
        "position",
        "recorded",
    )

    def __init__(
        self, channel: Channel, input_index: int, position: int, number: int, mailbox: Mailbox
    ) -> None:
        self.channel = channel
        self.input_index = input_index
        self.position = position
        self.number = number
        self.bytes_in = 0
        self.is_blocked = False
        self.has_ended = False
        self.recorded: list[StreamItem] | None = None
        self._mailbox = mailbox
        self._on_first: Callable[[InputChannel], None] = lambda channel: None
        self._on_timed: OnTimed = lambda channel, barrier: None

    def open(self, on_first: Callable[[InputChannel], None], on_timed: OnTimed) -> None:
        """Both are called on the task's thread, even while that takes no input: `on_first` when an item was put first, `on_timed`
        when a barrier has come that does not wait for ever."""
        self._on_first, self._on_timed = on_first, on_timed
        self.channel.on_timed = self._announce_timed
        self.channel.listen(self.announce, self._announce_first)

    def announce(self) -> None:
        self._mailbox.announce(self)

    def _announce_first(self) -> None:
        self._mailbox.post(lambda: self._on_first(self))

    def _announce_timed(self, barrier: CheckpointBarrier) -> None:
        self._mailbox.post(lambda: self._on_timed(self, barrier))

    def take(self) -> QueuedItem | None:
        """The next item; a channel that has more is announced as readable again."""
        return self._taken(*self.channel.take())

    def take_first(self) -> QueuedItem | None:
        """The next item, if it was put first."""
        return self._taken(*self.channel.take_first())

    def _taken(self, queued: QueuedItem | None, has_more: bool) -> QueuedItem | None:
        if has_more:
            self._mailbox.announce(self)
        if queued is None:
            return None
        if isinstance(queued.item, pa.RecordBatch):
            self.bytes_in += queued.size
        return queued


class InputGate:
    """All channels of all inputs of a task. Several edges into one input are a union: their channels belong to that
    one input.

    State: which channels have not ended.
    """

    def __init__(
        self, ordinals: tuple[int, ...], channels: tuple[tuple[Channel, ...], ...], mailbox: Mailbox
    ) -> None:
        """`channels[e]` are the channels of edge `e`, which leads to input `ordinals[e]`."""
        inputs = max(ordinals, default=-1) + 1
        self._open_channels = [0] * inputs
        self.channels: list[InputChannel] = []
        for ordinal, edge_channels in zip(ordinals, channels, strict=True):
            for channel in edge_channels:
                position, number = self._open_channels[ordinal], len(self.channels)
                self.channels.append(InputChannel(channel, ordinal, position, number, mailbox))
                self._open_channels[ordinal] += 1

    @property
    def channels_per_input(self) -> tuple[int, ...]:
        """How many channels have not ended, by input."""
        return tuple(self._open_channels)

    def count_open(self) -> int:
        """How many channels have not ended."""
        return sum(self._open_channels)

    @property
    def bytes_in(self) -> int:
        """The bytes of all rows that the task has taken from its channels."""
        return sum(channel.bytes_in for channel in self.channels)

    @property
    def is_finished(self) -> bool:
        return not any(self._open_channels)

    def open(
        self,
        on_first: Callable[[InputChannel], None] = lambda channel: None,
        on_timed: OnTimed = lambda channel, barrier: None,
    ) -> None:
        for channel in self.channels:
            channel.open(on_first, on_timed)

    def look(self) -> None:
        """Announce what is queued and was not worth a wake-up: the task has nothing else to do."""
        for channel in self.channels:
            channel.channel.flush()

    def on_end(self, channel: InputChannel, on_input_end: Callable[[int], None]) -> None:
        """One channel has ended; calls `on_input_end` with its input when it was the input's last channel."""
        channel.has_ended = True
        self._open_channels[channel.input_index] -= 1
        if self._open_channels[channel.input_index] == 0:
            on_input_end(channel.input_index)

    @property
    def queued_bytes(self) -> int:
        """The bytes of this process that wait for the task."""
        return sum(channel.channel.queued_bytes for channel in self.channels)

    def limit(self, channel_bytes: int) -> None:
        """Ask that no more be under way in each channel that has not ended."""
        for channel in self.channels:
            if not channel.has_ended:
                channel.channel.limit(channel_bytes)

    def close(self) -> None:
        for channel in self.channels:
            channel.channel.close()


class BufferDebloating:
    """Bounds what is under way to a task by how fast it has taken rows (Flink: BufferDebloater). For the task's thread.

    State: what the task had taken and how long it had waited at the last observation, what these made of the bound, and whether
    it bounds anything."""

    def __init__(
        self, gate: InputGate, times: TaskTimes, config: Mapping[str, str], channel_bytes: int
    ) -> None:
        """`channel_bytes` is the bound of a channel without it."""
        self._gate = gate
        self._times = times
        self._period_s = options.get(config, "taskmanager.network.memory.buffer-debloat.period") / 1000
        self._target = InFlightTarget(
            options.get(config, "taskmanager.network.memory.buffer-debloat.target") / 1000,
            options.get(config, "taskmanager.network.memory.buffer-debloat.samples"),
            options.get(config, "taskmanager.network.memory.buffer-debloat.threshold-percentages"),
            channel_bytes * max(1, len(gate.channels)),
        )
        self._channel_bytes = channel_bytes
        self._seen = (steady_s(), times.idle_s, 0)
        self._is_on = True

    def turn(self, *, is_on: bool) -> None:
        """Bound what is under way from now on, or leave that to the bytes of a channel."""
        if is_on == self._is_on:
            return
        self._is_on = is_on
        self._seen = (steady_s(), self._times.idle_s, self._gate.bytes_in)
        self._target.forget_bound()
        self._gate.limit(self._channel_bytes)

    def on_taken(self) -> None:
        """The task has taken a batch."""
        if not self._is_on:
            return
        now_s = steady_s()
        then_s, then_idle_s, then_bytes = self._seen
        if now_s - then_s < self._period_s:
            return
        idle_s, taken = self._times.idle_s, self._gate.bytes_in
        self._seen = (now_s, idle_s, taken)
        bound = self._target.observe(taken - then_bytes, now_s - then_s - (idle_s - then_idle_s))
        if bound is not None:
            self._gate.limit(self._share(bound))

    def read(self) -> Metrics:
        """Flink's figures: the bytes that a channel may hold, and how long what is here will take. None while it bounds nothing.
        Called by any thread."""
        if not self._is_on:
            return {}
        figures: Metrics = {DEBLOATED: self._share(self._target.bound_bytes)}
        rate = self._target.bytes_per_s
        if rate:
            figures["estimatedTimeToConsumeBuffersMs"] = round(1000 * self._gate.queued_bytes / rate)
        return figures

    def _share(self, bound: int) -> int:
        """What a channel may hold of the bound for all that have not ended."""
        share = bound // max(1, self._gate.count_open())
        return max(IN_FLIGHT_BYTES_MIN, min(share, self._channel_bytes))
