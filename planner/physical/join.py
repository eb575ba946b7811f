"""Joins: by window, by interval, or over all rows.

A window join needs equal windows on both sides, an interval join bounds on the distance of two times; both drop
rows as time passes. Every other join is a regular join, which keeps all rows of both sides.

Distribution: HASH on the equality keys of both sides; without keys all rows go to one subtask. An INNER window or
interval join with the result of a window aggregation without keys (such as the highest price of each window) needs
less: that side has one row per window and is broadcast, and no row of the other side crosses the network. A hot key
then cannot overload a subtask.
"""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Call, Expression, InputRef, conjunction, conjuncts
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.join_condition import (
    IntervalBounds,
    JoinSides,
    find_interval,
    with_computed_keys,
)
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton
from sqlstream.planner.physical.refusals import refuse_changing_condition, refuse_ttl
from sqlstream.specs import IntervalJoinSpec, JoinKind, JoinSpec, WindowJoinSpec, WindowKind
from sqlstream.types import are_stored_alike

_LEFT, _RIGHT = 0, 1
BROADCAST = Exchange(ExchangeKind.BROADCAST)
Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class _Joining(JoinSides):
    """A join with its condition split. `pairs` are equal columns (right ones in the right side's numbers)."""

    planning: Planning
    pairs: tuple[Pair, ...]
    rest: tuple[Expression, ...]

    @property
    def is_insert_only(self) -> bool:
        return self.left.traits.is_insert_only and self.right.traits.is_insert_only


@dataclasses.dataclass(frozen=True)
class _SameWindow:
    left: WindowTrait
    right: WindowTrait
    keys: tuple[Pair, ...]


def join_rows(planning: Planning, sides: JoinSides) -> PhysicalNode:
    """The cheapest join that the condition allows, by all of its equalities."""
    joining = _split(planning, sides)
    is_by_time = isinstance(_time_of(joining), IntervalBounds)
    # Rows of equal keys that are close in time are few: the time as a further key would only make more of them.
    if not (is_by_time and joining.pairs):
        wide = with_computed_keys(planning, sides, keeps_times=is_by_time)
        if wide is not None:
            wider, columns = wide
            joined = _planned(_split(planning, wider))
            return plan_calc(planning, joined, columns, None, sides.schema, sides.span)
    return _planned(joining)


def _split(planning: Planning, sides: JoinSides) -> _Joining:
    parts = conjuncts(sides.condition)
    pairs = {p: pair for p in parts if (pair := equal_columns(p, len(sides.left.schema))) is not None}
    rest = tuple(p for p in parts if p not in pairs)
    return _Joining(**vars(sides), planning=planning, pairs=tuple(dict.fromkeys(pairs.values())), rest=rest)


def _time_of(joining: _Joining) -> _SameWindow | IntervalBounds | None:
    """What bounds the times of rows that meet; None where nothing does."""
    if not joining.is_insert_only:
        return None
    same = _same_window(joining)
    if same is not None:
        return same
    # An equality of two times bounds their distance too.
    left, right = joining.left, joining.right
    return find_interval(conjuncts(joining.condition), left.traits, right.traits, left.schema.types)


def _planned(joining: _Joining) -> PhysicalNode:
    match _time_of(joining):
        case _SameWindow() as same:
            _refuse_ttls(joining, "a window join")
            return _window_join(joining, same)
        case IntervalBounds() as interval:
            _refuse_ttls(joining, "an interval join")
            return _interval_join(joining, interval)
    return _regular_join(joining)


def _refuse_ttls(sides: JoinSides, what: str) -> None:
    for ttl_ms in sides.ttls_ms:
        refuse_ttl(ttl_ms, what, sides.span)


def equal_columns(part: Expression, left_count: int) -> Pair | None:
    """(left column, right column) of an equality of columns with values stored alike, the right one in its side's numbers."""
    if not isinstance(part, Call) or part.function != "=":
        return None
    first, second = part.args
    if not isinstance(first, InputRef) or not isinstance(second, InputRef):
        return None
    if not are_stored_alike(first.type, second.type):
        return None
    low, high = sorted((first.index, second.index))
    return (low, high - left_count) if low < left_count <= high else None


def _same_window(joining: _Joining) -> _SameWindow | None:
    for left in joining.left.traits.windows:
        for right in joining.right.traits.windows:
            if left.spec != right.spec or not left.spec.is_event_time or not left.ends or not right.ends:
                continue
            starts = [p for p in joining.pairs if p[0] in left.starts and p[1] in right.starts]
            ends = [p for p in joining.pairs if p[0] in left.ends and p[1] in right.ends]
            # Either bound identifies a window of fixed size.
            is_fixed = left.spec.kind in (WindowKind.TUMBLE, WindowKind.HOP)
            if (starts and ends) or (is_fixed and (starts or ends)):
                keys = tuple(p for p in joining.pairs if p not in starts and p not in ends)
                return _SameWindow(left, right, keys)
    return None


def _window_join(joining: _Joining, same: _SameWindow) -> PhysicalNode:
    keys = same.keys
    broadcast = _broadcast_input(joining)
    condition = conjunction(joining.rest)
    left_end, right_end = min(same.left.ends), min(same.right.ends)
    spec = WindowJoinSpec(
        kind=joining.kind,
        left_keys=tuple(k[0] for k in keys),
        right_keys=tuple(k[1] for k in keys),
        # Without a start column, the end identifies a window of fixed size.
        left_window_start_column=min(same.left.starts)
        if same.left.starts and same.right.starts
        else left_end,
        left_window_end_column=left_end,
        right_window_start_column=min(same.right.starts)
        if same.left.starts and same.right.starts
        else right_end,
        right_window_end_column=right_end,
        condition=condition,
        broadcast_input=broadcast,
        time_zone=same.left.spec.time_zone,
    )
    left_count = len(joining.left.schema)
    windows: list[WindowTrait] = []
    times: Columns = frozenset()
    if not joining.kind.pads(_RIGHT):
        windows.append(dataclasses.replace(same.left, is_closed=True))
        times |= joining.left.traits.times & (same.left.ends | same.left.times)
    if not joining.kind.pads(_LEFT) and not joining.kind.is_left_only:
        right = Traits(windows=(same.right,)).shifted(left_count).windows[0]
        windows.append(dataclasses.replace(right, is_closed=True))
        own = joining.right.traits.times & (same.right.ends | same.right.times)
        times |= {left_count + c for c in own}
    known = Traits(is_bounded=_is_bounded(joining), windows=tuple(windows), times=times)
    traits = _with_keys(known, joining, keys)
    return _make(joining, "WindowJoin", spec, keys, broadcast, traits, f"[{same.left.spec}]", condition)


def _interval_join(joining: _Joining, interval: IntervalBounds) -> PhysicalNode:
    # An equality of times is a key like any other.
    keys = joining.pairs
    condition = conjunction(tuple(p for p in interval.condition if p in joining.rest))
    broadcast = _broadcast_input(joining)
    spec = IntervalJoinSpec(
        kind=joining.kind,
        left_keys=tuple(k[0] for k in keys),
        right_keys=tuple(k[1] for k in keys),
        left_time_column=interval.left_time,
        right_time_column=interval.right_time,
        lower_ms=interval.lower_ms,
        upper_ms=interval.upper_ms,
        condition=condition,
        is_event_time=interval.is_event_time,
        broadcast_input=broadcast,
    )
    times: Columns = frozenset()
    if interval.is_event_time and not joining.kind.pads(_RIGHT):
        times |= {interval.left_time}
    if interval.is_event_time and not joining.kind.pads(_LEFT) and not joining.kind.is_left_only:
        times |= {len(joining.left.schema) + interval.right_time}
    traits = _with_keys(Traits(is_bounded=_is_bounded(joining), times=times), joining, keys)
    left_name = joining.left.schema.names[interval.left_time]
    right_name = joining.right.schema.names[interval.right_time]
    text = f"[{interval.lower_ms} ms <= {left_name} - {right_name} <= {interval.upper_ms} ms]"
    return _make(joining, "IntervalJoin", spec, keys, broadcast, traits, text, condition)


def _regular_join(joining: _Joining) -> PhysicalNode:
    planning, keys = joining.planning, joining.pairs
    condition = conjunction(joining.rest)
    refuse_changing_condition(planning, condition, (joining.left, joining.right), joining.span)
    spec = JoinSpec(
        kind=joining.kind,
        left_keys=tuple(k[0] for k in keys),
        right_keys=tuple(k[1] for k in keys),
        condition=condition,
        left_ttl_ms=planning.ttl_ms(joining.ttls_ms[0]),
        right_ttl_ms=planning.ttl_ms(joining.ttls_ms[1]),
    )
    is_insert_only = joining.kind in (JoinKind.INNER, JoinKind.SEMI) and joining.is_insert_only
    known = Traits(is_insert_only=is_insert_only, is_bounded=_is_bounded(joining))
    traits = _with_keys(known, joining, keys)
    return _make(joining, "Join", spec, keys, -1, traits, "", condition)


def _broadcast_input(joining: _Joining) -> int:
    if joining.kind is not JoinKind.INNER:
        return -1
    for index, side in enumerate((joining.left, joining.right)):
        if side.traits.is_single_row_per_window:
            return index
    return -1


def _make(
    joining: _Joining,
    name: str,
    spec: WindowJoinSpec | IntervalJoinSpec | JoinSpec,
    keys: tuple[Pair, ...],
    broadcast: int,
    traits: Traits,
    time: str,
    condition: Expression | None,
) -> PhysicalNode:
    left, right = joining.left, joining.right
    exchanges = [hash_or_singleton(tuple(k[side] for k in keys)) for side in (0, 1)]
    if broadcast >= 0:
        exchanges = [BROADCAST if side == broadcast else FORWARD for side in (0, 1)]
    on = ", ".join(f"{left.schema.names[a]} = {right.schema.names[b]}" for a, b in keys)
    schema = left.schema.concat(right.schema)
    description = describe(
        name,
        joinType=f"[{joining.kind.value}]",
        where=f"[{on}]",
        time=time,
        condition="" if condition is None else f"[{describe_expression(condition, schema)}]",
        select=describe_columns(tuple(range(len(joining.schema))), schema),
    )
    inputs = (PhysicalInput(left, exchanges[0]), PhysicalInput(right, exchanges[1]))
    is_single = not keys and broadcast < 0
    return joining.planning.node(
        name,
        spec,
        inputs,
        joining.schema,
        traits,
        description,
        joining.span,
        parallelism=1 if is_single else 0,
    )


def _is_bounded(joining: _Joining) -> bool:
    return joining.left.traits.is_bounded and joining.right.traits.is_bounded


def _with_keys(traits: Traits, joining: _Joining, pairs: tuple[Pair, ...]) -> Traits:
    """The traits with the keys of the result, whose rows are distributed by `pairs`."""
    left, right = joining.left.traits, joining.right.traits
    if joining.kind.is_left_only:
        behind = left.distributed(p[0] for p in pairs)
        return dataclasses.replace(traits, keys=behind.keys, moving_keys=behind.moving_keys)
    unique = _joined_keys(joining, pairs, left.unique_keys, right.unique_keys)
    keys = frozenset(
        _with_distribution(joining, key, pairs) for key in _joined_keys(joining, pairs, left.keys, right.keys)
    )
    return dataclasses.replace(traits, keys=keys, moving_keys=unique - keys)


def _joined_keys(
    joining: _Joining, pairs: tuple[Pair, ...], left_keys: frozenset[Columns], own_right: frozenset[Columns]
) -> frozenset[Columns]:
    """The keys of the result: a left key combined with a right key, or one of them where the other side has at most
    one match."""
    shift = len(joining.left.schema)
    left_columns = {p[0] for p in joining.pairs} | {p[0] for p in pairs}
    right_columns = {p[1] for p in joining.pairs} | {p[1] for p in pairs}
    right_keys = frozenset(frozenset(c + shift for c in k) for k in own_right)
    keys = {a | b for a in left_keys for b in right_keys}
    if joining.kind is JoinKind.FULL:
        # A key that may be NULL on both sides may be that of two rows, one of each side.
        types = (*joining.left.schema.types, *joining.right.schema.types)
        return frozenset(k for k in keys if any(not types[c].nullable for c in k))
    if not joining.kind.pads(_RIGHT) and any(k <= right_columns for k in own_right):
        keys |= left_keys
    if not joining.kind.pads(_LEFT) and any(k <= left_columns for k in left_keys):
        keys |= right_keys
    return frozenset(keys)


def _with_distribution(joining: _Joining, key: Columns, pairs: tuple[Pair, ...]) -> Columns:
    """A key whose rows stay in one subtask (see Traits.distributed). Of an equality one column is enough, unless it is NULL in
    rows of the other side alone."""
    if joining.is_insert_only:
        return key
    columns = set(key)
    for left, right in ((a, b + len(joining.left.schema)) for a, b in pairs):
        if joining.kind.pads(_LEFT) or not (joining.kind.pads(_RIGHT) or {left, right} & key):
            columns.add(left)
        if joining.kind.pads(_RIGHT):
            columns.add(right)
    return frozenset(columns)
