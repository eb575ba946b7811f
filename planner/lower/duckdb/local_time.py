"""TIMESTAMP_LTZ as the wall clock of the session's time zone shows it, and back.

Named zones are those of DuckDB's ICU extension, which is part of the wheel.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.types import TIMESTAMP, failure

_UTC = ("UTC", "Z", "ETC/UTC", "GMT", "UTC+0", "+00:00")
_DAY_US = 86_400_000_000


def is_utc(time_zone: str) -> bool:
    return time_zone.upper() in _UTC


def to_local(instant: exp.Expr, time_zone: str) -> exp.Expr:
    """The wall clock's TIMESTAMP at an instant."""
    if is_utc(time_zone):
        return instant
    offset_us = _fixed_offset_us(time_zone)
    if offset_us is not None:
        return _moved(instant, tree.number(offset_us))
    return tree.call("timezone", tree.text(time_zone), tree.call("timezone", tree.text("UTC"), instant))


def from_local(local: exp.Expr, time_zone: str) -> exp.Expr:
    """The instant of a wall clock's TIMESTAMP: the earlier one of a repeated time; a time in a gap moves forward by the
    gap's length, as in Java."""
    if is_utc(time_zone):
        return local
    offset_us = _fixed_offset_us(time_zone)
    if offset_us is not None:
        return _moved(local, tree.number(-offset_us))

    def found(local: exp.Expr) -> exp.Expr:
        # The offsets a day before and a day after: no zone changes its offset twice in between.
        before, after = (_read(local, time_zone, shift_us) for shift_us in (-_DAY_US, _DAY_US))
        return bound(before, lambda b: bound(after, lambda a: chosen(local, b, a)))

    def chosen(local: exp.Expr, before: exp.Expr, after: exp.Expr) -> exp.Expr:
        shows_before, shows_after = (
            tree.operate(exp.EQ, to_local(instant, time_zone), local) for instant in (before, after)
        )
        return tree.case([(shows_before, before), (shows_after, after)], before)

    return bound(local, found)


def within_years(moment: exp.Expr, *, is_required: bool) -> exp.Expr:
    """`moment`, but outside the years 0001 to 9999 an error, or else NULL, as in a stream."""
    low, high = (
        tree.cast(tree.text(point), TIMESTAMP)
        for point in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
    )
    otherwise = failure("timestamp out of range", TIMESTAMP) if is_required else None

    def checked(moment: exp.Expr) -> exp.Expr:
        is_held = tree.any_of([tree.is_null(moment), tree.is_between(moment, low, high)])
        return tree.case([(is_held, moment)], otherwise)

    return bound(moment, checked)


def _fixed_offset_us(time_zone: str) -> int | None:
    """Microseconds of `GMT+08:00` or `+08:00`; None for a named zone."""
    found = re.fullmatch(r"(?:GMT|UTC)?([+-])(\d\d):(\d\d)", time_zone)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3])
    return (minutes if found[1] == "+" else -minutes) * 60_000_000


def _read(local: exp.Expr, time_zone: str, shift_us: int) -> exp.Expr:
    """The instant at which the wall clock would show `local` with the offset that is in force `shift_us` later."""
    probe = _moved(local, tree.number(shift_us))
    offset_us = tree.operate(
        exp.Sub, tree.call("epoch_us", to_local(probe, time_zone)), tree.call("epoch_us", probe)
    )
    return tree.call("make_timestamp", tree.operate(exp.Sub, tree.call("epoch_us", local), offset_us))


def _moved(point: exp.Expr, micros: exp.Expr) -> exp.Expr:
    return tree.call("make_timestamp", tree.operate(exp.Add, tree.call("epoch_us", point), micros))
