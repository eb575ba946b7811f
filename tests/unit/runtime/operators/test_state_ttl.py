"""Expiry against a dict of times."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import ManualClock

from sqlstream.runtime.state.state_ttl import NO_TIME, StateTtl

SLOTS = st.lists(st.integers(0, 12), max_size=6, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("touch"), SLOTS),
    st.tuples(st.just("forget"), SLOTS),
    st.tuples(st.just("restore"), st.just([])),
    st.tuples(st.just("wait"), st.lists(st.sampled_from([0, 1, 2, 7, 90, 250, 999, 1000]), max_size=2)),
)


def slots_of(*slots: int) -> np.ndarray:
    return np.array(slots, dtype=np.int64)


@given(ttl_ms=st.sampled_from([1, 50, 1000, 6400]), steps=st.lists(STEPS, max_size=40))
@settings(max_examples=200, deadline=None)
def test_exactly_the_slots_untouched_for_the_ttl_expire(
    ttl_ms: int, steps: list[tuple[str, list[int]]]
) -> None:
    clock = ManualClock(10_000)
    ttl = StateTtl(ttl_ms, clock)
    touched: dict[int, int] = {}
    for step, numbers in steps:
        slots = slots_of(*numbers)
        match step:
            case "touch":
                ttl.touch(slots)
                touched.update(dict.fromkeys(numbers, clock()))
            case "forget":
                known = [slot for slot in numbers if slot in touched]
                ttl.forget(slots_of(*known))
                touched = {slot: time for slot, time in touched.items() if slot not in known}
            case "restore":
                live = slots_of(*touched)
                times = ttl.touched_ms(live)
                ttl = StateTtl(ttl_ms, clock)
                # A key's time stands beside each of its rows.
                ttl.load(np.repeat(live, 2), np.repeat(times, 2))
            case "wait":
                clock.now_ms += sum(numbers)
        expired = {slot for slot, time in touched.items() if time <= clock() - ttl_ms}
        is_due = ttl.next_sweep_ms is not None and clock() >= ttl.next_sweep_ms
        assert not expired or is_due
        assert sorted(ttl.take_expired().tolist() if is_due else []) == sorted(expired)
        touched = {slot: time for slot, time in touched.items() if slot not in expired}
        assert ttl.touched_ms(slots_of(*touched)).tolist() == list(touched.values())
        if touched:
            assert ttl.next_sweep_ms is not None
            assert clock() < ttl.next_sweep_ms <= min(touched.values()) + ttl_ms


def test_without_a_ttl_nothing_is_kept() -> None:
    ttl = StateTtl(0, ManualClock(7))
    ttl.touch(slots_of(5))
    assert (ttl.next_sweep_ms, ttl.nbytes(), ttl.touched_ms(slots_of(5)).tolist()) == (None, 0, [NO_TIME])


def test_memory_does_not_grow_with_touches() -> None:
    clock = ManualClock(0)
    ttl = StateTtl(1_000_000, clock)
    for _ in range(1_000):
        ttl.touch(np.arange(100))
        clock.now_ms += 900
    assert ttl.nbytes() < 10_000
