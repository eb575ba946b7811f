"""Which rows of the tables a row of a result was made of, as queries over these tables.

A row of a result is known by the values of some of its columns. Each node hands conditions on its output down to its inputs as
far as it can: those on grouping keys pass an aggregate, those on partition keys a Top-N, those on columns of one side a join
(and its other side too, through an equality), and a window's bounds become bounds of time. What arrives at a scan selects the
rows that contributed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from planner.relational import nodes as plan
from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal, conjuncts, inputs_of, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.specs.window import WindowKind
from sqlstream.types import BOOLEAN

NS_PER_MS = 1_000_000
EQUAL = "IS NOT DISTINCT FROM"
_OUTER_RIGHT = (plan.RelationalJoinKind.LEFT, plan.RelationalJoinKind.FULL)
_OUTER_LEFT = (plan.RelationalJoinKind.RIGHT, plan.RelationalJoinKind.FULL)


@dataclasses.dataclass(frozen=True)
class Condition:
    """A part of a WHERE. `is_of_key`: it follows from the values of the result's row; else the statement itself filters so."""

    expression: Expression
    is_of_key: bool


@dataclasses.dataclass(frozen=True)
class ContributingRows:
    """The rows of one scan that contribute, where `conditions` hold. Without any of the key they could not be told apart."""

    scan: plan.TableScan
    conditions: tuple[Condition, ...]

    @property
    def is_traced(self) -> bool:
        return any(condition.is_of_key for condition in self.conditions)


def key_conditions(schema_types: tuple[sql.LogicalType, ...], values: dict[int, Literal]) -> list[Condition]:
    """Conditions on a result: its columns have these values."""
    return [
        Condition(_is_equal(InputRef(column, schema_types[column]), value), True)
        for column, value in values.items()
    ]


def contributing_rows(
    node: plan.RelationalNode, conditions: Iterable[Condition], seen_max: int
) -> tuple[ContributingRows, ...]:
    """What each scan below `node` contributes to the rows of its output where `conditions` hold. A table that is read several
    times occurs once for each different set of conditions, and at most `seen_max` in all, since a plan may be large as a tree."""
    found: dict[ContributingRows, None] = {}
    for each in _traced(node, tuple(dict.fromkeys(conditions))):
        found.setdefault(each)
        if len(found) >= seen_max:
            break
    return tuple(found)


def _traced(node: plan.RelationalNode, conditions: tuple[Condition, ...]) -> Iterator[ContributingRows]:
    if isinstance(node, plan.TableScan):
        yield ContributingRows(node, conditions)
        return
    for input, passed in zip(node.inputs, _passed(node, conditions), strict=True):
        yield from _traced(input, tuple(dict.fromkeys(passed)))


def _passed(node: plan.RelationalNode, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
    """The conditions that each input gets."""
    match node:
        case plan.Project():
            return [[Condition(substitute(c.expression, node.expressions), c.is_of_key) for c in conditions]]
        case plan.Filter():
            own = [Condition(part, False) for part in conjuncts(node.condition) if is_deterministic(part)]
            return [[*conditions, *own]]
        case plan.Watermark() | plan.Sort() | plan.Sink():
            return [[*conditions]]
        case plan.Union():
            return [[*conditions] for _ in node.inputs]
        case plan.Aggregate():
            keys = tuple(InputRef(k, node.input.schema.types[k]) for k in node.keys)
            return [
                [
                    Condition(substitute(c.expression, keys), c.is_of_key)
                    for c in _of_columns(conditions, range(len(keys)))
                ]
            ]
        case plan.Rank() | plan.RowNumber():
            return [_of_columns(conditions, node.partition_keys)]
        case plan.WindowTvf():
            return [_of_window(node, conditions)]
        case plan.Join():
            return _of_join(node, conditions)
    return [[] for _ in node.inputs]


def _of_columns(conditions: Iterable[Condition], columns: Iterable[int]) -> list[Condition]:
    """The conditions that read only these columns, and at least one."""
    allowed = frozenset(columns)
    return [c for c in conditions if (read := inputs_of(c.expression)) and read <= allowed]


def _of_window(node: plan.WindowTvf, conditions: tuple[Condition, ...]) -> list[Condition]:
    """The bounds of a window as bounds of the time column."""
    width = len(node.input.schema)
    passed = _of_columns(conditions, range(width))
    time = InputRef(node.time_column, node.input.schema.types[node.time_column])
    is_local = time.type.root is sql.TypeRoot.TIMESTAMP_LTZ
    if is_local and node.window.time_zone != "UTC":
        return passed
    has_size = node.window.kind in (WindowKind.TUMBLE, WindowKind.HOP)
    for condition in conditions:
        found = _column_value(condition.expression)
        if found is None or not width <= found[0] < width + 3:
            continue
        column, value = found
        start = value if column == width else None
        end = None if column == width else value if column == width + 1 else value + NS_PER_MS
        if has_size:
            size = node.window.size_ms * NS_PER_MS
            start, end = (value, value + size) if end is None else (end - size, end)
        plain = time.type.without_time_attribute()
        for function, bound in ((">=", start), ("<", end)):
            if bound is not None:
                compared = Call(function, (time, Literal(bound, plain.not_null())), BOOLEAN)
                passed.append(Condition(compared, condition.is_of_key))
    return passed


def _column_value(expression: Expression) -> tuple[int, int] | None:
    """The column and the whole number of `column IS NOT DISTINCT FROM number`."""
    if not isinstance(expression, Call) or expression.function not in (EQUAL, "="):
        return None
    column, value = expression.args
    if isinstance(column, InputRef) and isinstance(value, Literal) and isinstance(value.value, int):
        return column.index, value.value
    return None


def _of_join(node: plan.Join, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
    """What each side gets: conditions on its own columns, and those on columns that the join equates with its own."""
    width, count = len(node.left.schema), len(node.left.schema) + len(node.right.schema)
    known, inputs = [*conditions], _inputs(node)
    for a, b in _equated(node):
        for condition in conditions:
            read = inputs_of(condition.expression)
            for source, target in ((a, b), (b, a)):
                if read == {source.index} and not _accepts_null(condition):
                    columns = (*inputs[: source.index], target, *inputs[source.index + 1 :])
                    known.append(Condition(substitute(condition.expression, columns), condition.is_of_key))
    left = _of_columns(known, range(width))
    right = _of_columns(known, range(width, count))
    if node.kind in _OUTER_LEFT:
        left = [c for c in left if not _accepts_null(c)]
    if node.kind in _OUTER_RIGHT:
        right = [c for c in right if not _accepts_null(c)]
    shifted = tuple(InputRef(max(i - width, 0), t.type) for i, t in enumerate(inputs))
    return [left, [Condition(substitute(c.expression, shifted), c.is_of_key) for c in right]]


def _inputs(node: plan.Join) -> tuple[InputRef, ...]:
    types = (*node.left.schema.types, *node.right.schema.types)
    return tuple(InputRef(i, t) for i, t in enumerate(types))


def _equated(node: plan.Join) -> Iterator[tuple[InputRef, InputRef]]:
    """The pairs of columns that the join holds equal."""
    for part in conjuncts(node.condition):
        if isinstance(part, Call) and part.function == "=":
            a, b = part.args
            if isinstance(a, InputRef) and isinstance(b, InputRef) and a.type.root is b.type.root:
                yield a, b


def _accepts_null(condition: Condition) -> bool:
    """Whether it may hold for the NULLs of an outer join's missing side, of which no row of a table is the origin."""
    expression = condition.expression
    if isinstance(expression, Call) and expression.function == EQUAL:
        value = expression.args[1]
        return not isinstance(value, Literal) or value.value is None
    return isinstance(expression, Call) and expression.function not in ("=", "<", "<=", ">", ">=")


def _is_equal(column: Expression, value: Literal) -> Expression:
    return Call(EQUAL, (column, value), BOOLEAN.not_null())
