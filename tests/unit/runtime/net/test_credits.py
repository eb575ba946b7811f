"""Credit arithmetic: what a sender may send, what a receiver grants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.net.credits import (
    IN_FLIGHT_BYTES_MIN,
    CreditBalance,
    CreditWindow,
    InFlightTarget,
    NetworkMemory,
)


def test_a_sender_may_overdraw_by_one_batch_and_no_more():
    balance = CreditBalance()
    assert not balance.can_send
    balance.grant(10)
    balance.spend(1000)
    assert not balance.can_send
    balance.grant(990)
    assert not balance.can_send
    balance.grant(1)
    assert balance.can_send


def test_a_backlog_widens_the_window_and_its_end_narrows_it():
    memory = NetworkMemory(1000)
    window = CreditWindow(100, 300, memory)
    assert window.initial_grant() == 100
    assert window.on_received(backlog_bytes=80) == 80
    assert window.on_received(backlog_bytes=10_000) == 120
    assert window.on_received(backlog_bytes=10_000) == 0
    assert memory.lent_bytes == 200
    assert window.on_read(150) == 150
    assert window.on_received(backlog_bytes=0) == 0
    assert window.on_read(150) == 0
    assert memory.lent_bytes == 50
    assert window.on_read(150) == 100
    assert memory.lent_bytes == 0


def test_reading_is_granted_again_in_quarters_of_the_window():
    window = CreditWindow(100, 100, NetworkMemory(0))
    assert [window.on_read(10) for _ in range(4)] == [0, 0, 30, 0]


def test_released_windows_give_all_floating_memory_back():
    memory = NetworkMemory(500)
    windows = [CreditWindow(100, 400, memory) for _ in range(3)]
    assert [w.on_received(10_000) for w in windows] == [300, 200, 0]
    for window in windows:
        window.release()
        window.release()
    assert memory.lent_bytes == 0
    assert windows[0].on_received(10_000) == 0


@given(st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=60))
def test_what_is_in_flight_never_exceeds_the_window_and_one_batch(steps):
    window, balance, held = CreditWindow(100, 250, NetworkMemory(120)), CreditBalance(), []
    balance.grant(window.initial_grant())
    for size, reads in steps:
        if reads and held:
            balance.grant(window.on_read(held.pop(0)))
        elif balance.can_send:
            balance.spend(size)
            held.append(size)
            balance.grant(window.on_received(backlog_bytes=size))
        assert sum(held[:-1]) <= 250


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(1, 200), st.booleans()), st.integers(1, 300).map(lambda n: (n, None))
        ),
        max_size=80,
    )
)
def test_a_limited_window_is_reached_and_never_blocks_the_sender(steps):
    memory = NetworkMemory(120)
    window, balance, held, limit = CreditWindow(100, 250, memory), CreditBalance(), [], 250
    balance.grant(window.initial_grant())
    for size, reads in steps:
        if reads is None:
            limit = size
            balance.grant(window.limit(limit))
        elif reads and held:
            balance.grant(window.on_read(held.pop(0)))
        elif balance.can_send:
            balance.spend(size)
            held.append(size)
            balance.grant(window.on_received(backlog_bytes=size))
    # What is in flight is read, batch by batch: the window comes down to its limit, and the sender can always go on.
    for _ in range(400):
        while held:
            balance.grant(window.on_read(held.pop(0)))
        assert balance.can_send
        balance.spend(1)
        held.append(1)
        balance.grant(window.on_received(backlog_bytes=0))
    assert window.window_bytes <= max(limit, 1)
    window.release()
    assert memory.lent_bytes == 0
    assert window.limit(100) == 0


def test_the_target_follows_the_readers_speed_between_its_bounds():
    target = InFlightTarget(target_s=1.0, samples=1, threshold_percent=25, maximum_bytes=1 << 25)
    assert target.bound_bytes == 1 << 25
    assert target.observe(10_000_000, 0.0) is None
    assert target.observe(1_000_000, 0.2) == 5_000_000
    assert target.observe(900_000, 0.2) is None
    assert target.observe(20_000, 0.2) == 100_000
    assert target.observe(10, 0.2) == IN_FLIGHT_BYTES_MIN
    assert target.observe(5, 0.2) is None
    assert target.observe(1 << 30, 0.2) == 1 << 25
    assert target.observe(1 << 31, 0.2) is None


def test_one_slow_batch_among_fast_ones_does_not_change_the_target_much():
    target = InFlightTarget(target_s=1.0, samples=20, threshold_percent=25, maximum_bytes=1 << 25)
    target.observe(1_000_000, 0.2)
    assert target.observe(10_000, 0.2) is None
    assert target.bytes_per_s == pytest.approx(5_000_000 - 4_950_000 * 2 / 21)
