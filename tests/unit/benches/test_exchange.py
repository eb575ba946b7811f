"""`main.py exchange` measures every path with every number of channels."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing

import pytest
from benches.exchange import PATHS, _close, _Ends, _run_within_process, figures
from benches.exchange_end import CAPACITY_BYTES, Consumer, Load, Outcome

from sqlstream.errors import JobError
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId

TOO_MANY_ROWS = 1 << 50


def test_every_path_carries_batches_over_one_channel_and_several() -> None:
    found = list(figures(list(PATHS), [1, 3], [10], 0.02, spaced=5, warm_up_s=0))
    assert [(f.path, f.channels, f.rows) for f in found] == [(p, c, 10) for p in PATHS for c in (1, 3)]
    for figure in found:
        assert figure.rows_per_s > 0
        assert figure.latency_us > 0
        assert figure.sender_cpu_us > 0
        assert (figure.receiver_cpu_us > 0) == (figure.path != "process")


@pytest.mark.parametrize("path", PATHS[:2])
def test_a_producer_that_fails_ends_the_bench_with_its_error(path: str) -> None:
    with pytest.raises(JobError, match="lost the end that sends: MemoryError: Unable to allocate") as caught:
        list(figures([path], [3], [TOO_MANY_ROWS], 0.02))
    assert caught.value.code == "SS6063"


def test_a_process_that_sends_and_is_killed_ends_the_bench() -> None:
    with closing(_Ends("machine")) as ends:
        assert ends._sender is not None
        ends._sender._process.kill()
        with pytest.raises(JobError, match="the process that sends has ended with code -9"):
            ends.run(Load("job", 2, 10, 60))


@pytest.mark.parametrize("path", PATHS[:2])
def test_a_consumer_that_fails_ends_the_bench_and_its_producer(path: str) -> None:
    before = threading.active_count()
    # Latencies are those of batches that hold the time of the producer: these have no rows.
    with closing(_Ends(path)) as ends, pytest.raises(IndexError):
        ends.run(Load("job", 2, 0, 0, spaced=1000))
    assert threading.active_count() == before


def test_all_channels_are_closed() -> None:
    table = PartitionTable()
    channels = [table.meet(SubpartitionId("job", "p", n), CAPACITY_BYTES) for n in range(3)]
    _close(channels)
    assert [channel.is_closed for channel in channels] == [True] * 3


class FailingConsumer(Consumer):
    """Fails when its producer waits for room, which it would do for an hour."""

    def consume(self, channels: Sequence[Channel]) -> Outcome:
        while all(channel.has_room for channel in channels):
            time.sleep(0.001)
        raise ValueError("cannot be read")


def test_a_producer_that_waits_for_room_ends_with_its_consumer() -> None:
    load = Load("job", 2, 1000, 3600)
    with pytest.raises(ValueError, match="cannot be read"):
        _run_within_process(load, FailingConsumer(are_spaced=False))
