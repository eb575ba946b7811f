"""How far from a row its frames reach: what an OVER in order of time must keep and wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlstream.specs.over import NEIGHBOURS, RANKING, WHOLE_PARTITION_RANKING, OverCall


class Reach(NamedTuple):
    """As in OverSpec. `kind` keeps those apart that an operator cannot serve together; `is_known`: it has an end."""

    kind: str = ""
    rows_before: int = 0
    rows_after: int = 0
    ms_before: int = 0
    ms_after: int = 0
    is_known: bool = True


_UNKNOWN = Reach("unknown", is_known=False)


_ALL_BEFORE = -1


_FOLLOWING = "following"
"""Waits for rows, however late they come: such rows have no place in order of time, and no other operator of time above."""


_CARRIED = frozenset({"FIRST_VALUE", "LAST_VALUE"})


def time_reach(call: OverCall) -> Reach:
    """In order of row time: rows of one time come together."""
    frame = call.frame
    if call.function in WHOLE_PARTITION_RANKING:
        return _UNKNOWN
    if call.function in RANKING:
        return Reach("running")
    if call.function in NEIGHBOURS:
        return _neighbour(call)
    if frame.end is None:
        return _UNKNOWN
    if frame.start is None:
        if frame.end == 0 and _is_carried(call):
            return Reach("running")
        after = max(int(frame.end), 0)
        if frame.is_range:
            return Reach(f"all, {after} ms", rows_before=_ALL_BEFORE, ms_after=after)
        return Reach(_FOLLOWING if after else "all", rows_before=_ALL_BEFORE, rows_after=after)
    before, after = max(-int(frame.start), 0), max(int(frame.end), 0)
    if frame.is_range:
        return Reach("range", ms_before=before, ms_after=after)
    return Reach(_FOLLOWING if after else "rows", rows_before=before, rows_after=after)


def arrival_reach(call: OverCall) -> Reach:
    """In order of arrival: no row waits for another."""
    frame = call.frame
    if call.function in NEIGHBOURS or not call.has_frame:
        reach = time_reach(call)
        return _UNKNOWN if reach.rows_after else reach
    if frame.end is None or frame.end > 0 or (frame.is_range and frame.end):
        return _UNKNOWN
    if frame.start is None or not frame.is_range:
        return time_reach(call)._replace(ms_before=0)
    if not frame.start:
        return Reach("rows")
    # Each length of time has an operator of its own, which keeps the rows of that time only.
    length = -int(frame.start)
    return Reach(f"range {length}", ms_before=length)


def grouped_by_reach(
    calls: tuple[OverCall, ...], reach_of: Callable[[OverCall], Reach]
) -> dict[Reach, list[tuple[int, OverCall]]]:
    """The calls, with their numbers, of each operator, the first one first; its reach is the farthest of its calls."""
    kinds: dict[str, list[tuple[int, OverCall]]] = {}
    for number, call in enumerate(calls):
        kinds.setdefault(reach_of(call).kind, []).append((number, call))
    ordered = sorted(kinds, key=lambda kind: kind == _FOLLOWING)
    return {_farthest([reach_of(call) for _, call in kinds[kind]]): kinds[kind] for kind in ordered}


def _farthest(reaches: list[Reach]) -> Reach:
    before = [r.rows_before for r in reaches]
    return Reach(
        reaches[0].kind,
        _ALL_BEFORE if _ALL_BEFORE in before else max(before),
        max(r.rows_after for r in reaches),
        max(r.ms_before for r in reaches),
        max(r.ms_after for r in reaches),
        all(r.is_known for r in reaches),
    )


def _neighbour(call: OverCall) -> Reach:
    if call.function == "LAG":
        return Reach("all", rows_before=_ALL_BEFORE) if call.skips_nulls else Reach("rows", call.number)
    if call.skips_nulls:
        return _UNKNOWN
    return Reach(_FOLLOWING if call.number else "rows", rows_after=call.number)


def _is_carried(call: OverCall) -> bool:
    """Whether an accumulator stands for all rows before."""
    if call.is_distinct and call.function not in ("MIN", "MAX"):
        return False
    if call.ref is not None:
        return True
    if call.function in _CARRIED:
        return call.skips_nulls
    return call.function in _FRAMED


_FRAMED = frozenset(
    (
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
    )
)
