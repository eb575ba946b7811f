"""Traits of an operator's output: row kinds, keys, windows and times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.specs.window import WindowSpec

Columns = frozenset[int]


@dataclasses.dataclass(frozen=True)
class WindowTrait:
    """Columns that hold the bounds of a window (Flink: RelWindowProperties). Several columns may hold the
    same bound.

    `is_closed`: rows are emitted when the window closes, before the watermark that closed it.
    """

    spec: WindowSpec
    starts: Columns = frozenset()
    ends: Columns = frozenset()
    times: Columns = frozenset()
    is_closed: bool = False

    @property
    def columns(self) -> Columns:
        return self.starts | self.ends | self.times

    def moved(self, places: Mapping[int, Columns]) -> WindowTrait:
        return dataclasses.replace(
            self,
            starts=_move(self.starts, places),
            ends=_move(self.ends, places),
            times=_move(self.times, places),
        )


@dataclasses.dataclass(frozen=True)
class Traits:
    """`keys`: sets of columns that identify a row (the empty set: there is at most one row).

    `times`: columns that are never behind the watermark except in late rows: row times, and the ends of closed
    windows. `is_single_row_per_window`: each window has at most one row. `row_watermark_column`: see
    specs.watermark.ROW_WATERMARK_COLUMN, -1 when absent.
    """

    is_insert_only: bool = True
    is_bounded: bool = True
    keys: frozenset[Columns] = frozenset()
    windows: tuple[WindowTrait, ...] = ()
    times: Columns = frozenset()
    is_single_row_per_window: bool = False
    row_watermark_column: int = -1

    def projected(self, places: Mapping[int, Columns]) -> Traits:
        """After a projection that copies input column i to the columns `places[i]`."""
        keys = frozenset(
            frozenset(min(places[c]) for c in key) for key in self.keys if all(places.get(c) for c in key)
        )
        windows = tuple(w for w in (w.moved(places) for w in self.windows) if w.columns)
        watermark = min(places.get(self.row_watermark_column, frozenset()), default=-1)
        return dataclasses.replace(
            self, keys=keys, windows=windows, times=_move(self.times, places), row_watermark_column=watermark
        )

    def shifted(self, offset: int) -> Traits:
        """The traits as the right side of a join: columns start at `offset`."""
        highest = max((c for w in self.windows for c in w.columns), default=0)
        highest = max(highest, *self.times, *(c for k in self.keys for c in k), 0)
        return self.projected({i: frozenset({i + offset}) for i in range(highest + 1)})


def _move(columns: Columns, places: Mapping[int, Columns]) -> Columns:
    return frozenset(new for c in columns for new in places.get(c, frozenset()))
