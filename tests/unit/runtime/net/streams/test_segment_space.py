"""Space in a shared segment: no two batches overlap, and all that is freed can be used again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.net.streams.shared_segment import SegmentSpace, aligned

SIZE = 64 * 20


@given(st.lists(st.one_of(st.integers(1, 400), st.integers(-20, -1)), max_size=60))
def test_every_range_is_the_lowest_that_is_free_as_a_map_of_the_bytes_says(steps: list[int]) -> None:
    """A positive step allocates, a negative one frees a range that is in use."""
    space, used = SegmentSpace(SIZE), [False] * (SIZE // 64)
    held: list[tuple[int, int]] = []
    for step in steps:
        if step > 0:
            blocks = aligned(step) // 64
            lowest = next((i for i in range(len(used) - blocks + 1) if not any(used[i : i + blocks])), None)
            start = space.allocate(step)
            assert start == (None if lowest is None else lowest * 64)
            if start is not None:
                held.append((start, step))
                used[start // 64 : start // 64 + blocks] = [True] * blocks
        elif held:
            start, size = held.pop(step % len(held))
            space.free(start, size)
            used[start // 64 : (start + aligned(size)) // 64] = [False] * (aligned(size) // 64)
        assert space.used_bytes == 64 * sum(used)
        assert space.end == 64 * max((i + 1 for i, is_used in enumerate(used) if is_used), default=0)


def test_nothing_is_allocated_beyond_the_limit() -> None:
    space = SegmentSpace(SIZE)
    assert space.allocate(128, limit=127) is None
    assert space.allocate(128, limit=128) == 0
    assert space.allocate(64, limit=128) is None
