"""OVER row by row: what each call gives for each row of a partition, in plain Python."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from sqlstream.specs.over import Frame, OverCall

Row = tuple[Any, ...]


def over(rows: Sequence[Row], call: OverCall, order: Sequence[Any], has_peers: bool = True) -> list[Any]:
    """The results of a call over the sorted rows of one partition; `order[i]` is what row i is sorted by. Without `has_peers` no
    row is another's peer."""
    equal = (lambda i, j: order[i] == order[j]) if has_peers else (lambda i, j: i == j)
    return [_result(rows, call, order, i, equal) for i in range(len(rows))]


def members(frame: Frame, order: Sequence[Any], i: int, equal: Any) -> list[int]:
    """The rows of row i's frame. NULLs come first, and are within a RANGE of each other alone."""
    found = []
    for j in range(len(order)):
        is_after_start = frame.start is None or _is_from(frame, order, i, j, frame.start, equal)
        is_before_end = frame.end is None or _is_until(frame, order, i, j, frame.end, equal)
        if is_after_start and is_before_end:
            found.append(j)
    return found


def _is_from(frame: Frame, order: Sequence[Any], i: int, j: int, offset: float, equal: Any) -> bool:
    if not frame.is_range:
        return bool(j >= i + offset)
    if offset == 0:
        return j >= i or equal(i, j)
    if order[i] is None or order[j] is None:
        return order[i] is None
    return bool(order[j] >= order[i] + offset)


def _is_until(frame: Frame, order: Sequence[Any], i: int, j: int, offset: float, equal: Any) -> bool:
    if not frame.is_range:
        return bool(j <= i + offset)
    if offset == 0:
        return j <= i or equal(i, j)
    if order[i] is None or order[j] is None:
        return order[j] is None
    return bool(order[j] <= order[i] + offset)


def _result(rows: Sequence[Row], call: OverCall, order: Sequence[Any], i: int, equal: Any) -> Any:
    n = len(rows)
    first = next(j for j in range(n) if equal(i, j))
    last = max(j for j in range(n) if equal(i, j))
    match call.function:
        case "ROW_NUMBER":
            return i + 1
        case "RANK":
            return first + 1
        case "DENSE_RANK":
            return 1 + sum(not equal(j, j - 1) for j in range(1, i + 1))
        case "CUME_DIST":
            return (last + 1) / n
        case "PERCENT_RANK":
            return first / max(n - 1, 1)
        case "NTILE":
            sizes = [n // call.number + (b < n % call.number) for b in range(call.number)]
            return next(b + 1 for b in range(call.number) if i < sum(sizes[: b + 1]))
        case "LAG" | "LEAD":
            return _neighbour(rows, call, i)
    found = [rows[j] for j in members(call.frame, order, i, equal)]
    if call.filter >= 0:
        found = [row for row in found if row[call.filter]]
    return aggregate(call, found)


def _neighbour(rows: Sequence[Row], call: OverCall, i: int) -> Any:
    others = rows[i + 1 :] if call.function == "LEAD" else rows[:i][::-1]
    values = [row[call.args[0]] for row in others]
    if call.number == 0:
        return rows[i][call.args[0]]
    if call.skips_nulls:
        values = [v for v in values if v is not None]
    if call.number <= len(values):
        return values[call.number - 1]
    return rows[i][call.args[1]] if len(call.args) > 1 else None


def aggregate(call: OverCall, rows: Sequence[Row]) -> Any:
    if call.function == "COUNT" and not call.args:
        return len(rows)
    values = [row[call.args[0]] for row in rows]
    if call.function == "NTH_VALUE" and not call.skips_nulls:
        return values[call.number - 1] if call.number <= len(values) else None
    if call.function in ("FIRST_VALUE", "LAST_VALUE") and not call.skips_nulls:
        return (values[0] if call.function == "FIRST_VALUE" else values[-1]) if values else None
    values = [v for v in values if v is not None]
    if call.is_distinct:
        values = list(dict.fromkeys(values))
    if call.function == "COUNT":
        return len(values)
    if call.function == "VAR_SAMP":
        return statistics.variance(values) if len(values) > 1 else None
    if not values:
        return None
    match call.function:
        case "SUM":
            return sum(values)
        case "AVG":
            mean = sum(values) / len(values)
            return int(mean) if isinstance(values[0], int) else mean
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "VAR_POP":
            return statistics.pvariance(values)
        case "FIRST_VALUE":
            return values[0]
        case "LAST_VALUE":
            return values[-1]
        case "NTH_VALUE":
            return values[call.number - 1] if call.number <= len(values) else None
        case "LISTAGG":
            return ",".join(values)
    raise AssertionError(call.function)
