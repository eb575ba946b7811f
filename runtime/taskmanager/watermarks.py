"""Watermarks and idleness of a task's input: minimum over the channels of an input, then over the inputs.

After Flink's StatusWatermarkValve and CombinedWatermarkStatus, with one difference: a finished channel takes
no part in the minimum, so that one finished and one idle channel do not complete event time while the idle
one may come back."""

from __future__ import annotations

import dataclasses

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN


@dataclasses.dataclass
class _Part:
    """A channel of an input, or an input of a task. `reached_ms` is its last watermark before the one that ends event time."""

    watermark_ms: int = WATERMARK_MIN
    is_idle: bool = False
    reached_ms: int = WATERMARK_MIN

    def advance(self, watermark_ms: int) -> None:
        self.watermark_ms = max(self.watermark_ms, watermark_ms)
        if self.watermark_ms != WATERMARK_MAX:
            self.reached_ms = self.watermark_ms


class WatermarkMinimum:
    """The combined watermark and status of several parts.

    State: the last watermark and status of each part, and the combined ones last reported. The watermark never
    falls: a part that was idle and resumes with an older watermark does not count until it has caught up."""

    def __init__(self, parts: int) -> None:
        self._parts = [_Part() for _ in range(parts)]
        self.watermark_ms = WATERMARK_MIN
        self.is_idle = False

    def part(self, part: int) -> tuple[int, bool]:
        known = self._parts[part]
        return known.watermark_ms, known.is_idle

    def on_watermark(self, part: int, watermark_ms: int) -> bool:
        """Set a part's watermark; returns whether the combined one rose."""
        self._parts[part].advance(watermark_ms)
        return self._advance()

    def on_status(self, part: int, is_idle: bool) -> tuple[bool, bool]:
        """A part turned idle or active; returns whether the combined watermark rose and whether the combined
        status changed."""
        self._parts[part].is_idle = is_idle
        unfinished = [p for p in self._parts if p.watermark_ms != WATERMARK_MAX]
        was_idle, self.is_idle = self.is_idle, bool(unfinished) and all(p.is_idle for p in unfinished)
        return self._advance(), was_idle != self.is_idle

    def on_end(self, part: int) -> tuple[bool, bool]:
        """A part is finished: its event time is complete."""
        self._parts[part].advance(WATERMARK_MAX)
        return self.on_status(part, False)

    def _advance(self) -> bool:
        unfinished = [p for p in self._parts if p.watermark_ms != WATERMARK_MAX]
        if not unfinished:
            candidate = WATERMARK_MAX
        else:
            active = [p.watermark_ms for p in unfinished if not p.is_idle]
            # When all are idle, the highest watermark counts, also one that a part had before it finished: the others would
            # have waited for it if they had turned idle first, and subtasks hear of both in different orders.
            candidate = min(active) if active else max(p.reached_ms for p in self._parts)
        if candidate <= self.watermark_ms:
            return False
        self.watermark_ms = candidate
        return True


class TaskWatermarks:
    """Event time of a task with several inputs of several channels each.

    Each call returns the new combined watermark and the new combined status of all inputs (None: unchanged)."""

    def __init__(self, channels_per_input: tuple[int, ...]) -> None:
        self._inputs = [WatermarkMinimum(n) for n in channels_per_input]
        self._all = WatermarkMinimum(len(channels_per_input))

    @property
    def watermark_ms(self) -> int:
        return self._all.watermark_ms

    def channel(self, input_index: int, channel: int) -> tuple[int, bool]:
        """The last watermark of a channel, and whether it is idle."""
        return self._inputs[input_index].part(channel)

    def on_watermark(self, input_index: int, channel: int, watermark_ms: int) -> int | None:
        rose = self._inputs[input_index].on_watermark(channel, watermark_ms)
        if not rose or not self._all.on_watermark(input_index, self._inputs[input_index].watermark_ms):
            return None
        return self._all.watermark_ms

    def on_status(self, input_index: int, channel: int, is_idle: bool) -> tuple[int | None, bool | None]:
        return self._combine(input_index, *self._inputs[input_index].on_status(channel, is_idle))

    def on_end(self, input_index: int, channel: int) -> tuple[int | None, bool | None]:
        return self._combine(input_index, *self._inputs[input_index].on_end(channel))

    def _combine(self, input_index: int, rose: bool, changed: bool) -> tuple[int | None, bool | None]:
        part = self._inputs[input_index]
        is_higher, is_other = False, False
        if rose:
            is_higher = self._all.on_watermark(input_index, part.watermark_ms)
        if changed:
            more, is_other = self._all.on_status(input_index, part.is_idle)
            is_higher = is_higher or more
        return (self._all.watermark_ms if is_higher else None, self._all.is_idle if is_other else None)
