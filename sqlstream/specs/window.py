"""Windows as data, shared by every windowed operator (Flink: WindowSpec, WindowingStrategy)."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.specs.spec import OperatorSpec, StateBound


class WindowKind(enum.Enum):
    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


class WindowSpec(msgspec.Struct, frozen=True):
    """`size_ms`: TUMBLE, HOP, and the longest of CUMULATE; the gap of SESSION. `slide_ms`: HOP's slide, CUMULATE's step.

    A window is [start, end); starts are multiples of size (HOP: slide) plus `offset_ms`. `time_zone` is
    that by whose clock the windows of a TIMESTAMP_LTZ or of processing time are cut, and UTC for those of a TIMESTAMP.
    """

    kind: WindowKind
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    is_event_time: bool = True
    time_zone: str = "UTC"

    @property
    def slice_ms(self) -> int:
        """Width of the slices that the windows consist of: rows of one slice share all their windows."""
        import math

        match self.kind:
            case WindowKind.HOP:
                return math.gcd(self.size_ms, self.slide_ms)
            case WindowKind.CUMULATE:
                return self.slide_ms
            case _:
                return self.size_ms

    def __str__(self) -> str:
        parts = (
            [f"size={self.size_ms} ms"] if self.kind is not WindowKind.SESSION else [f"gap={self.size_ms} ms"]
        )
        if self.slide_ms:
            parts.append(f"{'slide' if self.kind is WindowKind.HOP else 'step'}={self.slide_ms} ms")
        if self.offset_ms:
            parts.append(f"offset={self.offset_ms} ms")
        return f"{self.kind.value}({', '.join(parts)})"


class WindowTvfSpec(OperatorSpec, frozen=True, tag="window_tvf"):
    """Append window_start, window_end (TIMESTAMP(3)) and window_time (= end - 1 ms) to each row, once per window of the row.

    TUMBLE, HOP and CUMULATE: rows keep their order; a row of HOP appears once for each of its windows, earliest first.
    SESSION: the rows of a session of the columns `keys` are output when it closes (watermark >= end - 1; processing time >= end).
    A row is late when it extends no open session and its own would be closed: dropped and counted. By event time rows may be
    retracted until they are output.
    """

    window: WindowSpec
    time_column: int
    keys: tuple[int, ...] = ()

    def kept_state(self) -> str:
        is_session = self.window.kind is WindowKind.SESSION
        return "the rows of open sessions; dropped: when the session closes" if is_session else ""

    def state_bound(self) -> StateBound:
        clock = "watermark" if self.window.is_event_time else "clock"
        return StateBound(f"the {clock}, which closes sessions", True)
