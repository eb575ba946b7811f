"""Windows of time: what `Table.window` takes."""

from __future__ import annotations

import dataclasses

from sqlstream.client.dbapi.tables.expressions import ColumnLike
from sqlstream.client.dbapi.tables.text import Duration, interval


@dataclasses.dataclass(frozen=True)
class Window:
    """A window function: its sizes in SQL's order, and the time column, which is found where None is given."""

    kind: str
    sizes: tuple[str, ...]
    on: ColumnLike | None
    partition_by: tuple[ColumnLike, ...] = ()


def tumble(size: Duration, *, on: ColumnLike | None = None, offset: Duration | None = None) -> Window:
    """Windows of a size, one after the other. `on` is the time attribute: the row time of the table, unless it is given."""
    return Window("TUMBLE", _sizes(size, offset), on)


def hop(
    slide: Duration, size: Duration, *, on: ColumnLike | None = None, offset: Duration | None = None
) -> Window:
    """Windows of a size, a new one every `slide`."""
    return Window("HOP", (interval(slide), *_sizes(size, offset)), on)


def cumulate(
    step: Duration, size: Duration, *, on: ColumnLike | None = None, offset: Duration | None = None
) -> Window:
    """Windows that grow by `step` up to a size."""
    return Window("CUMULATE", (interval(step), *_sizes(size, offset)), on)


def session(
    gap: Duration,
    *,
    on: ColumnLike | None = None,
    partition_by: ColumnLike | list[ColumnLike] | tuple[ColumnLike, ...] = (),
) -> Window:
    """Windows that end when no row of the partition has come for `gap`."""
    keys = tuple(partition_by) if isinstance(partition_by, list | tuple) else (partition_by,)
    return Window("SESSION", (interval(gap),), on, keys)


def _sizes(size: Duration, offset: Duration | None) -> tuple[str, ...]:
    return (interval(size),) if offset is None else (interval(size), interval(offset))
