"""The channels between the subtasks of a recursive query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.elements import END_OF_ROUNDS, WATERMARK_MIN, EndOfInput, RoundEnd
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.runtime.net.channels import ELEMENT_BYTES, Channel, ChannelClosed
from sqlstream.runtime.taskmanager.inputs.network_input import WatermarkMinimum
from sqlstream.runtime.taskmanager.result_partition import splitter

if TYPE_CHECKING:
    from sqlstream.runtime.taskmanager.result_partition import Splitter

_NONE = -1


class _Incoming:
    """What a peer sends. State: whether there may be something to read, and what the peer said last. The flag is set by any
    thread."""

    def __init__(self, channel: Channel, on_readable: Callable[[], None]) -> None:
        self.channel = channel
        self.is_readable = False
        self.said = RoundEnd(_NONE, WATERMARK_MIN, False, 0, 0, ())
        self._on_readable = on_readable

    def listen(self) -> None:
        self.channel.listen(self._announce, self._announce)

    def _announce(self) -> None:
        self.is_readable = True
        self._on_readable()

    def take(self) -> pa.RecordBatch | RoundEnd | EndOfInput | None:
        self.is_readable = False
        queued, has_more = self.channel.take()
        if has_more:
            self.is_readable = True
        return queued.item if queued is not None else None


class PeerChannels:
    """A channel to each peer and one from each. Implements `Peers`; for the task's thread, but for `close`.

    A message is the rows for the peer, and what this subtask says: messages are told apart by their order alone, as each subtask
    sends as many as the others. A superstep that a peer begins is mail for the task. While the task waits for messages it takes
    no other input, which credits hold back; what peers send it always takes, and sending does not wait. So nobody waits for one
    that waits for him. A channel holds the rows of two exchanges at most: the third begins with what a peer says after it has
    read those of the first.

    State: what each peer said last, the watermark of all, and the checkpoint that this subtask stands at, or the last that it
    does not wait for.
    """

    def __init__(
        self,
        subtask: int,
        channels: Mapping[int, tuple[Channel, Channel]],
        max_parallelism: int,
        call: Callable[[], None],
        wait: Callable[[threading.Event], None],
    ) -> None:
        """`channels` are by subtask those to and from each peer. `call` has the task's thread look at `is_called`; `wait` is how
        it waits for an event."""
        self.watermark_ms = WATERMARK_MIN
        self.is_idle = False
        self.next_round: int | None = None
        self._subtask = subtask
        self._outgoing = {peer: outgoing for peer, (outgoing, _) in channels.items()}
        self._woken = threading.Event()
        self._incoming = {peer: _Incoming(came, self._on_readable) for peer, (_, came) in channels.items()}
        self._max_parallelism = max_parallelism
        self._call = call
        self._wait = wait
        self._splitters: dict[tuple[int, ...], Splitter] = {}
        self._marks = WatermarkMinimum(len(channels) + 1)
        self._stands_at = 0
        self._decided_id = 0
        self._pending_ids: tuple[int, ...] = ()
        # Whether the others know where it stands. They may go on as soon as they do, and then it must not ask again.
        self._is_told = True
        self._is_awaited = self._is_busy = self._has_ended = self._is_closed = False
        for incoming in self._incoming.values():
            incoming.listen()

    # -- what others call --------------------------------------------------------------------------

    def _on_readable(self) -> None:
        self._woken.set()
        if not self._is_busy:
            self._call()

    def stand_at(self, checkpoint_id: int) -> None:
        """The task has the barrier of this checkpoint, from all of its inputs; until it is settled with the others."""
        self._stands_at, self._is_told = checkpoint_id, False

    def go_on(self) -> None:
        """The barrier is sent on."""
        self._stands_at = 0

    def on_decided(self, checkpoint_id: int, still_pending: Collection[int]) -> None:
        """No subtask need wait for this checkpoint and those before it, but for some: one that does is told."""
        before = self._said()
        if checkpoint_id > self._decided_id:
            self._decided_id, self._pending_ids = checkpoint_id, tuple(still_pending)
        else:
            self._pending_ids = tuple(n for n in self._pending_ids if n != checkpoint_id)
        waited = (said for said in self._others() if self._waits_for(said, before))
        self._is_awaited |= any(not self._waits_for(said, self._said()) for said in waited)
        if self.is_called:
            self._call()

    def close(self) -> None:
        """The task failed or was cancelled. Called by any thread."""
        self._is_closed = True
        for channel in self._outgoing.values():
            channel.close()
        for incoming in self._incoming.values():
            incoming.channel.close()
        self._woken.set()

    # -- what the operator calls -------------------------------------------------------------------

    @property
    def is_called(self) -> bool:
        if self._has_ended:
            return False
        return self._is_awaited or any(incoming.is_readable for incoming in self._incoming.values())

    @property
    def combined_watermark_ms(self) -> int:
        return self._marks.watermark_ms

    @property
    def are_idle(self) -> bool:
        return self._marks.is_idle

    def exchange(
        self, keys: tuple[int, ...], batches: Sequence[pa.RecordBatch], next_round: int | None = None
    ) -> pa.RecordBatch | None:
        self._is_busy, self._is_awaited, self._is_told = True, False, True
        parts = self._split(keys, batches)
        said = self._said(next_round)
        for peer, channel in self._outgoing.items():
            if peer in parts:
                channel.put(*parts[peer])
            channel.put(said, ELEMENT_BYTES)
            channel.flush()
        came = {self._subtask: [parts[self._subtask][0]]} if self._subtask in parts else {}
        for peer, incoming in self._incoming.items():
            came[peer] = self._receive(incoming)
        everything = [said, *self._others()]
        self.next_round = min((s.next_round for s in everything if s.next_round != _NONE), default=None)
        for place, each in enumerate(everything):
            self._marks.on_status(place, each.is_idle)
            self._marks.on_watermark(place, each.watermark_ms)
        return _together([batch for peer in sorted(came) for batch in came[peer]])

    def settle(self) -> None:
        self._is_busy = False
        if self.is_called:
            self._call()

    @property
    def stands_alone(self) -> bool:
        said = self._said()
        return not self._is_told or any(self._waits_for(said, other) for other in self._others())

    def wait(self) -> None:
        while self._is_told and not self.is_called:
            self._woken.clear()
            self._check_open()
            if not self.is_called:
                self._wait(self._woken)

    def end(self) -> None:
        # Only then is what this subtask says last read after its task has ended.
        for channel in self._outgoing.values():
            channel.wait_connected()
        self._stands_at, self._is_told = END_OF_ROUNDS, False

    def leave(self) -> None:
        """What was sent last is still read, and then the end."""
        if self._has_ended:
            return
        self._has_ended = True
        for channel in () if self._is_closed else self._outgoing.values():
            try:
                channel.put(EndOfInput(), ELEMENT_BYTES)
            except ChannelClosed:
                continue
        for incoming in self._incoming.values():
            incoming.channel.close()

    # -- messages ----------------------------------------------------------------------------------

    def _said(self, next_round: int | None = None) -> RoundEnd:
        round_ = _NONE if next_round is None else next_round
        return RoundEnd(
            round_, self.watermark_ms, self.is_idle, self._stands_at, self._decided_id, self._pending_ids
        )

    def _others(self) -> list[RoundEnd]:
        return [incoming.said for incoming in self._incoming.values()]

    @staticmethod
    def _waits_for(one: RoundEnd, other: RoundEnd) -> bool:
        """Whether one subtask stands where another one is still to come."""
        is_there = other.stands_at >= one.stands_at
        is_given_up = one.stands_at <= other.decided_id and one.stands_at not in other.pending_ids
        return not (is_there or is_given_up)

    def _split(
        self, keys: tuple[int, ...], batches: Sequence[pa.RecordBatch]
    ) -> dict[int, tuple[pa.RecordBatch, int]]:
        rows = _together(batches)
        if rows is None:
            return {}
        if keys not in self._splitters:
            exchange, count = Exchange(ExchangeKind.HASH, keys), len(self._outgoing) + 1
            self._splitters[keys] = splitter(exchange, count, self._subtask, self._max_parallelism)
        return {peer: (part, size) for peer, part, size, _ in self._splitters[keys].split(rows)}

    def _receive(self, incoming: _Incoming) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        while True:
            self._woken.clear()
            self._check_open()
            match incoming.take():
                case None if incoming.channel.is_closed:
                    raise ChannelClosed
                case None:
                    self._wait(self._woken)
                case RoundEnd() as said:
                    incoming.said = said
                    return batches
                case EndOfInput():
                    raise ChannelClosed
                case batch:
                    batches.append(batch)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ChannelClosed


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """None for no rows. Types are the same; what is said of names and NULL in each may differ."""
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) <= 1:
        return filled[0] if filled else None
    schema = filled[0].schema
    alike = (
        b if b.schema.equals(schema) else pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in filled
    )
    return pa.concat_batches(alike)
