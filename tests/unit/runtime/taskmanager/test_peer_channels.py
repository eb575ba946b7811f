"""Subtasks of a recursive query meet in their exchanges, and learn there what the others wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN, RoundEnd
from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.streams import frames
from sqlstream.runtime.taskmanager.peer_channels import PeerChannels

TIMEOUT_S = 60


def wait(event: threading.Event) -> None:
    assert event.wait(TIMEOUT_S)


class Met:
    """As many subtasks, and how often each was called. State: their peers."""

    def __init__(self, count: int, is_connected: bool = True) -> None:
        channels = {(a, b): Channel(1 << 20, 1 << 20) for a in range(count) for b in range(count) if a != b}
        for channel in channels.values() if is_connected else ():
            channel.connect()
        self.calls = [0] * count
        self.peers = [
            PeerChannels(
                n,
                {m: (channels[n, m], channels[m, n]) for m in range(count) if m != n},
                128,
                self._call(n),
                wait,
            )
            for n in range(count)
        ]

    def _call(self, subtask: int) -> Callable[[], None]:
        def call() -> None:
            self.calls[subtask] += 1

        return call

    def each(self, act: Callable[[int, PeerChannels], Any]) -> list[Any]:
        """What each returns, all at once."""
        with ThreadPoolExecutor(len(self.peers)) as pool:
            return [f.result(TIMEOUT_S) for f in [pool.submit(act, n, p) for n, p in enumerate(self.peers)]]

    def exchange(self) -> list[Any]:
        return self.each(lambda n, peers: (peers.exchange((), ()), peers.settle())[0])


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rows_go_to_the_subtask_of_their_key_group_and_all_know_the_next_round(count: int) -> None:
    met = Met(count)
    came = met.each(
        lambda n, peers: peers.exchange((0,), [rows(*range(n, 100, count)), rows(100 + n)], 7 + n)
    )
    for n, batch in enumerate(came):
        groups = key_groups(hash_columns([batch.column(0)]), 128)
        assert set((groups * count // 128).tolist()) == {n}
    assert sorted(v for batch in came for v in batch.column(0).to_pylist()) == list(range(100 + count))
    assert {peers.next_round for peers in met.peers} == {7}
    met.exchange()
    assert {peers.next_round for peers in met.peers} == {None}


def test_event_time_of_all_is_the_least_of_those_that_are_not_idle() -> None:
    met = Met(3)
    assert {p.combined_watermark_ms for p in met.peers} == {WATERMARK_MIN}
    for peers, watermark_ms in zip(met.peers, (50, 20, WATERMARK_MAX), strict=True):
        peers.watermark_ms = watermark_ms
    met.exchange()
    assert {(p.combined_watermark_ms, p.are_idle) for p in met.peers} == {(20, False)}
    met.peers[1].is_idle = True
    met.exchange()
    assert {(p.combined_watermark_ms, p.are_idle) for p in met.peers} == {(50, False)}
    met.peers[0].is_idle = True
    met.exchange()
    assert {p.are_idle for p in met.peers} == {True}


def test_who_is_not_in_a_superstep_is_called_by_one_that_begins_it() -> None:
    met = Met(2)
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(met.peers[0].exchange, (), ())
        met.peers[1].wait()
        # It may wake a moment before the other one has called.
        while not met.calls[1]:
            assert not begun.done()
        assert met.calls[1] == 1
        met.peers[1].exchange((), ())
        begun.result(TIMEOUT_S)
    for peers in met.peers:
        peers.settle()
        assert not peers.is_called


def standing(met: Met) -> list[bool]:
    met.exchange()
    return [peers.stands_alone for peers in met.peers]


def test_a_subtask_at_a_barrier_waits_until_all_have_come_there() -> None:
    met = Met(3)
    met.peers[0].stand_at(4)
    assert standing(met) == [True, False, False]
    met.peers[2].stand_at(4)
    assert standing(met) == [True, False, True]
    met.peers[1].stand_at(4)
    assert standing(met) == [False, False, False]
    for peers in met.peers:
        peers.go_on()
    assert standing(met) == [False, False, False]


def test_a_subtask_that_has_said_where_it_stands_does_not_ask_again() -> None:
    """The others may have gone on."""
    met = Met(2)
    for peers in met.peers:
        peers.stand_at(4)
        assert peers.stands_alone
        peers.wait()
    assert standing(met) == [False, False]
    met.peers[0].go_on()
    assert not met.peers[1].stands_alone


def test_nobody_waits_at_a_barrier_that_another_subtask_no_longer_waits_for() -> None:
    met = Met(2)
    met.peers[0].stand_at(4)
    assert standing(met) == [True, False]
    met.peers[1].on_decided(5, (4,))
    assert not met.peers[1].is_called
    assert standing(met) == [True, False]
    met.peers[1].on_decided(4, ())
    assert met.peers[1].is_called
    assert met.calls[1] > 0
    assert standing(met) == [False, False]
    assert not met.peers[1].is_called


def test_at_the_end_of_all_inputs_a_subtask_waits_for_no_barrier_and_is_called_no_more() -> None:
    met = Met(2)
    met.peers[0].end()
    met.peers[1].stand_at(4)
    assert standing(met) == [True, False]
    met.peers[1].go_on()
    met.peers[1].end()
    assert standing(met) == [False, False]
    met.peers[0].leave()
    met.peers[1].leave()
    assert [peers.is_called for peers in met.peers] == [False, False]


@pytest.mark.parametrize("going", [PeerChannels.close, PeerChannels.leave])
def test_a_subtask_that_is_gone_ends_the_wait_of_the_others(going: Callable[[PeerChannels], None]) -> None:
    met = Met(2)
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(met.peers[0].exchange, (), ())
        met.peers[1].wait()
        going(met.peers[1])
        with pytest.raises(ChannelClosed):
            begun.result(TIMEOUT_S)


def test_what_is_said_travels_between_processes() -> None:
    said = RoundEnd(3, WATERMARK_MIN, True, 7, 6, (4, 5))
    assert frames.decode_element(msgspec.msgpack.encode(said)) == said


def test_no_task_ends_before_the_others_can_read_what_it_says_last() -> None:
    met = Met(2, is_connected=False)
    met.peers[0].close()
    with pytest.raises(ChannelClosed):
        met.peers[0].end()
