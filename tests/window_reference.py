"""Windows of times, by arithmetic of one time after the other."""

from __future__ import annotations

from sqlstream.specs import WindowKind, WindowSpec


def windows_of(window: WindowSpec, time: int) -> list[tuple[int, int]]:
    """Every window [start, end) that holds a time, in order."""
    size, offset = window.size_ms, window.offset_ms
    if window.kind is WindowKind.CUMULATE:
        start = (time - offset) // size * size + offset
        ends = range(start + window.slide_ms, start + size + 1, window.slide_ms)
        return [(start, end) for end in ends if time < end]
    step = window.slide_ms or size
    last = (time - offset) // step * step + offset
    return [(start, start + size) for start in range(last, time - size, -step)][::-1]
