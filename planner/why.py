"""Which rows of the tables made the rows of a result, as queries over these tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, conjunction, conjuncts, references, remap
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.filled_tables import LastWritten
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.physical.description import describe_expression
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.node import EQUAL, Condition, RelationalNode, rewrite
from sqlstream.planner.rules import apply_rules
from sqlstream.planner.rules.decorrelation import decorrelate
from sqlstream.planner.rules.filter_push_down import simplify_conditions
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.specs.window import WindowKind
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

_NEVER_EQUAL = frozenset({TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.NULL})
"""Types without equality: their columns tell no rows apart."""


@dataclasses.dataclass(frozen=True)
class Contribution:
    """The rows of a table, in the columns of `scan`, that `rows` computes."""

    scan: plan.TableScan
    rows: RelationalNode


@refuse_depth()
def contributions(query: RelationalNode) -> tuple[Contribution, ...]:
    """For each table that a query reads the rows without which a row of its result would not be there, or be another one. Rows
    with equal values all count: none of them is another than the rest.

    A filter and a projection hand on the rows that they read, a join the rows of both sides that met, an aggregate all rows of
    the group, ROW_NUMBER and OVER all rows of the partition, unless only the row itself matters. UserError SS3483 for what is
    not traced, at its place in the statement."""
    prepared = apply_rules(rewrite(rewrite(query, simplify_conditions), decorrelate))
    found: dict[plan.TableScan, list[RelationalNode]] = {}
    for scan, rows in _traced(prepared, prepared):
        found.setdefault(scan, []).append(rows)
    return tuple(Contribution(scan, _together(scan, rows)) for scan, rows in found.items())


def _together(scan: plan.TableScan, rows: list[RelationalNode]) -> RelationalNode:
    """The rows of a table that is read several times, each once."""
    distinct = list(dict.fromkeys(rows))
    if len(distinct) == 1:
        return distinct[0]
    if any(each is scan for each in distinct):
        return scan
    return _met(scan, plan.Union(branches=tuple(distinct), schema=scan.schema), _columns(scan))


def _traced(node: RelationalNode, wanted: RelationalNode) -> Iterator[tuple[plan.TableScan, RelationalNode]]:
    """`wanted` has some of the rows of `node`, and is `node` itself for all of them."""
    if isinstance(node, plan.TableScan):
        yield node, wanted
        return
    for expression in node.scalar_expressions():
        if not is_deterministic(expression):
            raise _refused("a function that has another value each time", node.span)
    for input, rows in zip(node.inputs, _inputs(node, wanted), strict=True):
        if rows is not None:
            yield from _traced(input, rows)


@functools.singledispatch
def _inputs(node: RelationalNode, wanted: RelationalNode) -> list[RelationalNode | None]:
    """The rows of each input that made the wanted rows; None: none."""
    raise _refused(_TITLES.get(type(node), f"a {type(node).__name__}"), node.span)


_TITLES: dict[type[RelationalNode], str] = {
    plan.MatchRecognize: "MATCH_RECOGNIZE",
    plan.ProcessTable: "a process table function",
    plan.ProcessOutput: "a process table function",
    plan.GraphFunction: "a graph function",
    plan.ModelPredict: "ML_PREDICT",
    plan.Iterate: "WITH RECURSIVE",
    plan.MutualIterate: "WITH MUTUALLY RECURSIVE",
    plan.LookupJoin: "a lookup join",
    plan.TemporalJoin: "a join with FOR SYSTEM_TIME AS OF",
    plan.Apply: "a correlated subquery",
    plan.Expand: "GROUPING SETS, ROLLUP or CUBE",
    plan.Unnest: "UNNEST",
    plan.Window: "OVER",
    plan.Sort: "ORDER BY or LIMIT",
    plan.FromChangelog: "FROM_CHANGELOG",
    plan.ToChangelog: "TO_CHANGELOG",
}


@_inputs.register
def _of_values(node: plan.Values, wanted: RelationalNode) -> list[RelationalNode | None]:
    return []


@_inputs.register
def _of_sink(node: plan.Sink | plan.Watermark, wanted: RelationalNode) -> list[RelationalNode | None]:
    return [node.input if wanted is node else wanted]


@_inputs.register
def _of_filter(node: plan.Filter, wanted: RelationalNode) -> list[RelationalNode | None]:
    return [wanted]


@_inputs.register
def _of_sort(node: plan.Sort, wanted: RelationalNode) -> list[RelationalNode | None]:
    if node.offset > 0:
        raise _refused("OFFSET", node.span)
    # Of sorted rows that are cut off the first ones do not depend on those behind them.
    return [node.input if wanted is node and node.fetch < 0 else wanted]


@_inputs.register
def _of_project(node: plan.Project, wanted: RelationalNode) -> list[RelationalNode | None]:
    if wanted is node:
        return [node.input]
    return [_met(node.input, wanted, enumerate(node.expressions))]


@_inputs.register
def _of_aggregate(node: plan.Aggregate, wanted: RelationalNode) -> list[RelationalNode | None]:
    if wanted is node or not node.keys:
        return [node.input]
    types = node.input.schema.types
    return [_met(node.input, wanted, [(i, InputRef(k, types[k])) for i, k in enumerate(node.keys)])]


@_inputs.register
def _of_union(node: plan.Union, wanted: RelationalNode) -> list[RelationalNode | None]:
    if wanted is node:
        return list(node.inputs)
    return [_met(branch, wanted, _columns(branch)) for branch in node.inputs]


@_inputs.register
def _of_rank(node: plan.Rank, wanted: RelationalNode) -> list[RelationalNode | None]:
    if node.rank_start == 1 and not node.outputs_rank:
        return [wanted]
    return [_partition(node.input, wanted, node.partition_keys)]


@_inputs.register
def _of_window(node: plan.Window, wanted: RelationalNode) -> list[RelationalNode | None]:
    return [_partition(node.input, wanted, node.partition_keys)]


@_inputs.register
def _of_window_tvf(node: plan.WindowTvf, wanted: RelationalNode) -> list[RelationalNode | None]:
    if wanted is node:
        return [node.input]
    width = len(node.input.schema)
    if node.window.kind is WindowKind.SESSION:
        # The bounds of a session are those of all its rows.
        types = node.schema.types
        bounds = [*node.partition_keys, width, width + 1]
        wanted = _met(node, wanted, [(c, InputRef(c, types[c])) for c in bounds])
    return [_met(node.input, wanted, _columns(node.input))]


@_inputs.register
def _of_join(node: plan.Join, wanted: RelationalNode) -> list[RelationalNode | None]:
    left, right = node.left, node.right
    split, width = len(left.schema), len(node.left.schema) + len(right.schema)
    # The condition over the columns of one side and behind them those of the wanted rows.
    of_left = _remapped(node.condition, {c: c if c < split else split + c for c in range(width)})
    own = len(right.schema)
    of_right = _remapped(node.condition, {c: c - split if c >= split else own + c for c in range(width)})
    if node.kind.is_left_only:
        # The row that an ANTI join looks for is nowhere.
        return [wanted, None if node.kind is JoinKind.ANTI else _met(right, wanted, (), of_right)]
    rights = [(split + i, InputRef(i, t)) for i, t in enumerate(right.schema.types)]
    # A side that is padded with NULLs has no row there, also where one of its rows is NULL throughout.
    return [
        _met(left, wanted, _columns(left), of_left if node.kind is JoinKind.RIGHT else None),
        _met(right, wanted, rights, of_right if node.kind is JoinKind.LEFT else None),
    ]


def _partition(input: RelationalNode, wanted: RelationalNode, keys: tuple[int, ...]) -> RelationalNode:
    types = input.schema.types
    return _met(input, wanted, [(k, InputRef(k, types[k])) for k in keys]) if keys else input


def _columns(node: RelationalNode) -> list[tuple[int, Expression]]:
    return [(i, InputRef(i, t)) for i, t in enumerate(node.schema.types)]


def _met(
    rows: RelationalNode,
    wanted: RelationalNode,
    same: Iterable[tuple[int, Expression]],
    condition: Expression | None = None,
) -> RelationalNode:
    """Those rows for which there is a wanted row whose columns equal these expressions over the row, and the condition over both
    holds."""
    width, types = len(rows.schema), wanted.schema.types
    equal: list[Expression] = [
        Call(EQUAL, (value, InputRef(width + column, types[column])), BOOLEAN.not_null())
        for column, value in same
        if types[column].root not in _NEVER_EQUAL
    ]
    parts = equal if condition is None else [*equal, condition]
    return plan.Join(
        left=rows, right=wanted, kind=JoinKind.SEMI, condition=conjunction(parts), schema=rows.schema
    )


def _remapped(condition: Expression | None, places: dict[int, int]) -> Expression | None:
    return None if condition is None else remap(condition, places)


def _refused(what: str, span: Span | None) -> UserError:
    return UserError(
        "SS3483",
        f"EXPLAIN WHY does not trace {what}",
        span=span,
    )


# Where rows are.


def with_places(
    query: RelationalNode, places_of: Callable[[plan.TableScan], dict[str, LogicalType]]
) -> RelationalNode:
    """The query over tables whose rows say where they are, by metadata columns behind those that the query knows."""

    def placed(node: RelationalNode) -> RelationalNode:
        if not isinstance(node, plan.TableScan) or node.watermark is not None:
            return node
        known = {field.name for field in node.metadata} | {column.name for column in node.table.columns}
        more = tuple(Field(key, t) for key, t in places_of(node).items() if key not in known)
        if not more:
            return node
        wide = Schema((*node.schema.fields, *more))
        scan = dataclasses.replace(node, metadata=(*node.metadata, *more), schema=wide)
        columns = references(node.schema.types)
        return plan.Project(input=scan, expressions=columns, schema=node.schema, span=node.span)

    return rewrite(query, placed)


# Where rows are lost that a result does not have.


def lost_rows(query: RelationalNode, count: Callable[[RelationalNode], int]) -> list[str]:
    """Lines that say up to where there are rows for the rows that a query asks for, which it does not have. `count` counts the
    rows of a query.

    The values that the query asks for are handed down through all that keeps them: grouping keys, partition keys, columns that
    are only passed on, both sides of an equality join. UserError SS3483 as `contributions`."""
    node = rewrite(rewrite(query, simplify_conditions), decorrelate)
    conditions: tuple[Condition, ...] = ()
    while isinstance(node, plan.Filter | plan.Project | plan.Sort) and not (
        isinstance(node, plan.Sort) and (node.fetch >= 0 or node.offset > 0)
    ):
        if isinstance(node, plan.Filter):
            conditions += tuple(Condition(part, True) for part in conjuncts(node.condition))
        elif isinstance(node, plan.Project) and (conditions or not _is_selection(node)):
            break
        node = node.input
    found = count(_where(node, conditions))
    if found:
        return [f"nothing is lost: computed from all rows of its tables, the query has {_rows(found)}"]
    return list(dict.fromkeys(_losses(node, conditions, count)))


def _is_selection(node: plan.Project) -> bool:
    return all(isinstance(each, InputRef) for each in node.expressions)


def _losses(
    node: RelationalNode, conditions: tuple[Condition, ...], count: Callable[[RelationalNode], int]
) -> Iterator[str]:
    """`node` has no row under the conditions."""
    if isinstance(node, plan.TableScan):
        yield f'table "{node.table.path.name}" has no row where {_said(conditions, node.schema)}'
        return
    if not node.inputs:
        yield f"the rows of {type(node).__name__.upper()} have none where {_said(conditions, node.schema)}"
        return
    if isinstance(node, plan.Iterate | plan.MutualIterate):
        yield from _losses_of_rounds(node, conditions, count)
        return
    handed = [tuple(c for c in of_input if c.is_of_key) for of_input in node.passed(conditions)]
    counts = [count(_where(input, c)) for input, c in zip(node.inputs, handed, strict=True)]
    is_either = isinstance(node, plan.Union)
    if any(counts) if is_either else all(counts):
        yield _loss(node, counts, handed, count)
        return
    for input, passed, rows in zip(node.inputs, handed, counts, strict=True):
        if not rows:
            yield from _losses(input, passed, count)


def _losses_of_rounds(
    node: plan.Iterate | plan.MutualIterate,
    conditions: tuple[Condition, ...],
    count: Callable[[RelationalNode], int],
) -> Iterator[str]:
    """Only the start of a recursive query can be counted by itself: a step reads the rounds."""
    said = f"no round makes a row where {_said(conditions, node.schema)}"
    if isinstance(node, plan.MutualIterate):
        yield f"{_TITLES[type(node)]} {', '.join(node.names)}: {said}"
    elif rows := count(node.first):
        yield f"{_TITLES[type(node)]} {node.name}: it starts with {_rows(rows)}, and {said}"
    else:
        yield from _losses(node.first, (), count)


def _loss(
    node: RelationalNode,
    counts: list[int],
    handed: list[tuple[Condition, ...]],
    count: Callable[[RelationalNode], int],
) -> str:
    """The operator that has candidates and hands none of them on."""
    candidates = " and ".join(map(_rows, counts))
    if isinstance(node, LastWritten):
        return f"replaced: {_rows(counts[0])} came, and a later INSERT wrote the primary key of each"
    if isinstance(node, plan.Filter):
        input = _where(node.input, handed[0])
        kept = [
            (part, count(plan.Filter(input=input, condition=part, schema=node.schema)))
            for part in conjuncts(node.condition)
        ]
        names = node.input.schema
        each = "; ".join(f"{_text(part, names)} keeps {_rows(rows)}" for part, rows in kept)
        return f"filtered: {candidates} came to WHERE, and it keeps none: {each}"
    if isinstance(node, plan.Join):
        return _loss_of_join(node, counts, handed, count)
    title = _TITLES.get(type(node), type(node).__name__)
    return f"{candidates} came to {title}, and none of its rows is as asked for"


def _loss_of_join(
    node: plan.Join,
    counts: list[int],
    handed: list[tuple[Condition, ...]],
    count: Callable[[RelationalNode], int],
) -> str:
    left, right = (_where(input, passed) for input, passed in zip(node.inputs, handed, strict=True))
    of_left = left.schema
    meeting = count(
        plan.Join(left=left, right=right, kind=JoinKind.SEMI, condition=node.condition, schema=of_left)
    )
    came = f"{_rows(counts[0])} of the left side and {_rows(counts[1])} of the right side came to the {node.kind.value} join"
    if node.kind is JoinKind.ANTI and meeting == counts[0]:
        return f"partners: {came}, and each of the left side meets one of the right side"
    # A side that is kept without a partner is lost by what is asked of the other one.
    asked = {JoinKind.LEFT: handed[1], JoinKind.RIGHT: handed[0]}.get(node.kind, True)
    if not meeting and asked and node.kind not in (JoinKind.ANTI, JoinKind.FULL):
        return f"no partner: {came}, and none of them meet"
    return f"{came}, and none of its rows is as asked for"


def _where(node: RelationalNode, conditions: tuple[Condition, ...]) -> RelationalNode:
    condition = conjunction([c.expression for c in conditions])
    return node if condition is None else plan.Filter(input=node, condition=condition, schema=node.schema)


def _said(conditions: tuple[Condition, ...], schema: Schema) -> str:
    return " AND ".join(_text(c.expression, schema) for c in conditions) or "TRUE"


def _text(expression: Expression, schema: Schema) -> str:
    return describe_expression(expression, schema)


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
