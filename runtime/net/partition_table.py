"""The channels of a process by subpartition: it holds each channel that one end has opened and the other has
not."""

from __future__ import annotations

import threading

import msgspec

from sqlstream.runtime.net.channels import Channel

WAKE_BYTES = 1 << 20
"""How much is queued before a consumer that waits is woken, unless its producer waits or some time has passed."""


class SubpartitionId(msgspec.Struct, frozen=True, tag="subpartition"):
    """One subpartition of one result partition of one job: one channel."""

    job_id: str
    partition_id: str
    subpartition: int


class PartitionTable:
    """Channels by their subpartition. Tasks are deployed in any order, so the first end to ask creates the channel.

    State: channels that only one end has fetched, dropped when the other comes or when their job is released.
    """

    def __init__(self) -> None:
        self._waiting: dict[SubpartitionId, Channel] = {}
        self._lock = threading.Lock()

    def meet(self, subpartition: SubpartitionId, capacity_bytes: int) -> Channel:
        """The channel of a subpartition. Each end calls once; the producer passes the bound as `capacity_bytes`, 0 leaves
        it unchanged."""
        with self._lock:
            channel = self._waiting.pop(subpartition, None)
            if channel is None:
                channel = self._waiting[subpartition] = Channel(capacity_bytes, WAKE_BYTES)
                return channel
        if capacity_bytes:
            channel.resize(capacity_bytes)
        channel.connect()
        return channel

    def forget(self, subpartition: SubpartitionId, channel: Channel) -> None:
        """Forget `channel`: one end has closed it, whether or not the other has opened it."""
        with self._lock:
            if self._waiting.get(subpartition) is channel:
                del self._waiting[subpartition]

    def release_job(self, job_id: str) -> None:
        """No task of the job is left here: close the channels that only one end has opened."""
        with self._lock:
            left = [s for s in self._waiting if s.job_id == job_id]
            channels = [self._waiting.pop(s) for s in left]
        for channel in channels:
            channel.close()

    def __len__(self) -> int:
        return len(self._waiting)
