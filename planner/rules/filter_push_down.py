"""Move filters towards the sources, so that rows are dropped as early as possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.expressions import (
    TRUE,
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    inputs_of,
    remap,
    substitute,
)
from sqlstream.functions.determinism import is_deterministic, without_repetitions
from sqlstream.planner.relational import nodes as plan
from sqlstream.specs.join import JoinKind
from sqlstream.specs.window import WindowKind
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.types import BOOLEAN

Parts = tuple[Expression, ...]


def push_filters_down(node: plan.RelationalNode) -> plan.RelationalNode:
    """Move the conjuncts of a Filter below its input where the result stays the same.

    They stay above a Watermark (dropped rows still advance event time), a LIMIT (it counts rows), and the window
    function whose columns they read.
    """
    if not isinstance(node, plan.Filter) or not is_deterministic(node.condition):
        return node
    parts = conjuncts(node.condition)
    match node.input:
        case plan.Project() as project:
            above = window_columns(project)
            lowered = tuple(p for p in parts if not inputs_of(p) & above)
            return _through_project(node, project, parts, lowered)
        case plan.Union() as union:
            branches = tuple(make_filter(b, parts, node) for b in union.branches)
            return dataclasses.replace(union, branches=branches)
        case plan.WindowTvf() as tvf:
            own_columns = len(tvf.input.schema)
            below = _session_keys_only(
                tvf, tuple(p for p in parts if max(inputs_of(p), default=0) < own_columns)
            )
            return _split(node, tvf, parts, below, {i: i for i in range(own_columns)})
        case plan.Aggregate() as aggregate if aggregate.keys:
            window = window_columns(aggregate.input)
            mapping = {i: k for i, k in enumerate(aggregate.keys) if k not in window}
            return _split(node, aggregate, parts, _over(parts, frozenset(mapping)), mapping)
        case (
            plan.Unnest(columns=columns)
            | plan.ModelPredict(columns=columns)
            | plan.VectorSearch(columns=columns) as widened
        ):
            mapping = dict(enumerate(columns))
            return _split(node, widened, parts, _over(parts, frozenset(mapping)), mapping)
        case plan.Expand(grouped=grouped) as expand:
            mapping = {i: i for i in range(len(expand.input.schema)) if i not in grouped}
            return _split(node, expand, parts, _over(parts, frozenset(mapping)), mapping)
        case plan.Window(partition_keys=keys) | plan.Rank(partition_keys=keys) as ranked:
            return _split(node, ranked, parts, _over(parts, frozenset(keys)), {k: k for k in keys})
        case plan.Sort(offset=0, fetch=-1) as sort:
            return dataclasses.replace(sort, input=make_filter(sort.input, parts, node))
        case plan.Join() as join:
            return _through_join(node, join, parts)
        case plan.TemporalJoin() as temporal:
            # The right rows are versions: without one of them another would be valid.
            left_parts, right_parts, both = split_by_side(parts, len(temporal.left.schema))
            if left_parts:
                filtered = make_filter(temporal.left, left_parts, node)
                return make_filter(dataclasses.replace(temporal, left=filtered), right_parts + both, node)
    return node


def make_filter(node: plan.RelationalNode, parts: Parts, origin: plan.RelationalNode) -> plan.RelationalNode:
    """A Filter of the conjuncts over `node`, with the position of `origin`; `node` itself without conjuncts."""
    condition = conjunction(parts)
    if condition is None:
        return node
    return plan.Filter(schema=node.schema, span=origin.span, input=node, condition=condition)


def _over(parts: Parts, columns: frozenset[int]) -> Parts:
    return tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= columns)


def _session_keys_only(tvf: plan.WindowTvf, parts: Parts) -> Parts:
    # A row dropped below a session window could have merged two sessions: only conditions on its keys move below it.
    return parts if tvf.window.kind is not WindowKind.SESSION else _over(parts, frozenset(tvf.partition_keys))


def _split(
    node: plan.Filter, below: plan.RelationalNode, parts: Parts, moved: Parts, mapping: dict[int, int]
) -> plan.RelationalNode:
    if not moved:
        return node
    source = below.inputs[0]
    filtered = make_filter(source, tuple(remap(p, mapping) for p in moved), node)
    rest = tuple(p for p in parts if p not in moved)
    return make_filter(below.with_inputs((filtered,)), rest, node)


def window_columns(node: plan.RelationalNode) -> frozenset[int]:
    """The columns of `node` that a window function below appended, and that filters and projections pass on."""
    match node:
        case plan.WindowTvf():
            own = len(node.input.schema)
            return frozenset(range(own, own + 3))
        case plan.Filter():
            return window_columns(node.input)
        case plan.Project():
            below = window_columns(node.input)
            return frozenset(
                i for i, e in enumerate(node.expressions) if isinstance(e, InputRef) and e.index in below
            )
    return frozenset()


def _through_project(
    node: plan.Filter, project: plan.Project, parts: Parts, candidates: Parts
) -> plan.RelationalNode:
    def is_movable(part: Expression) -> bool:
        return is_deterministic(*(project.expressions[i] for i in inputs_of(part)))

    moved = tuple(p for p in candidates if is_movable(p))
    if not moved:
        return node
    lowered = tuple(substitute(p, project.expressions) for p in moved)
    filtered = make_filter(project.input, lowered, node)
    return make_filter(project.with_inputs((filtered,)), tuple(p for p in parts if p not in moved), node)


def _through_join(node: plan.Filter, join: plan.Join, parts: Parts) -> plan.RelationalNode:
    left_count = len(join.left.schema)
    left_parts, right_parts, both = split_by_side(parts, left_count)
    if join.kind is JoinKind.INNER:
        # The rule for join conditions moves conjuncts further down to one side.
        condition = conjunction(conjuncts(join.condition) + parts)
        return dataclasses.replace(join, condition=condition)
    if join.kind.is_left_only:
        return dataclasses.replace(join, left=make_filter(join.left, parts, node))
    if join.kind is JoinKind.LEFT and left_parts:
        pushed = dataclasses.replace(join, left=make_filter(join.left, left_parts, node))
        return make_filter(pushed, right_parts + both, node)
    return node


def split_by_side(parts: Parts, left_count: int) -> tuple[Parts, Parts, Parts]:
    """Conjuncts over left columns alone, right columns alone, and the others (those over no column
    included)."""
    left, right, both = [], [], []
    for part in parts:
        columns = inputs_of(part)
        if columns and max(columns) < left_count:
            left.append(part)
        elif columns and min(columns) >= left_count:
            right.append(part)
        else:
            both.append(part)
    return tuple(left), tuple(right), tuple(both)


# Merge filters over filters; drop those that are TRUE and empty those that are never TRUE.


def merge_filters(node: plan.RelationalNode) -> plan.RelationalNode:
    """Filter(Filter(x)) becomes one Filter without repeated conjuncts; FALSE and NULL become Values without
    rows."""
    if not isinstance(node, plan.Filter):
        return node
    inner = node.input
    below = conjuncts(inner.condition) if isinstance(inner, plan.Filter) else ()
    parts = unique(below + conjuncts(node.condition))
    if any(isinstance(p, Literal) and p.value is not True for p in parts):
        return plan.Values(schema=node.schema, span=node.span, rows=())
    source = inner.input if isinstance(inner, plan.Filter) else inner
    condition = conjunction(parts)
    if condition is None:
        return source
    if condition == node.condition and source is inner:
        return node
    return dataclasses.replace(node, input=source, condition=condition)


def unique(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The conjuncts without TRUE and repetitions, in order."""
    return without_repetitions(p for p in parts if not (isinstance(p, Literal) and p.value is True))


# Move the conjuncts of a join's condition that read one side alone below the join, drop those that are TRUE, and drop
# the join where one is never TRUE.


def simplify_join_condition(node: plan.RelationalNode) -> plan.RelationalNode:
    """INNER and SEMI: conjuncts over one side become filters below it. LEFT and ANTI: only those over the right side,
    since a left row that fails the condition is still emitted. FALSE and NULL leave no match: INNER and SEMI have no rows then,
    LEFT and ANTI those of the left side."""
    if not isinstance(node, plan.Join) or node.condition is None:
        return node
    parts = unique(conjuncts(node.condition))
    if any(isinstance(p, Literal) for p in parts):
        return _without_matches(node)
    if not is_deterministic(*parts):
        return node
    left_count = len(node.left.schema)
    left_parts, right_parts, both = split_by_side(parts, left_count)
    if node.kind in (JoinKind.LEFT, JoinKind.ANTI):
        both = tuple(p for p in parts if p not in right_parts)
        left_parts = ()
    elif node.kind not in (JoinKind.INNER, JoinKind.SEMI):
        return node
    condition = conjunction(both)
    if condition == node.condition:
        return node
    shift = {left_count + i: i for i in range(len(node.right.schema))}
    return dataclasses.replace(
        node,
        left=make_filter(node.left, left_parts, node),
        right=make_filter(node.right, tuple(remap(p, shift) for p in right_parts), node),
        condition=condition,
    )


def _without_matches(node: plan.Join) -> plan.RelationalNode:
    left_count = len(node.left.schema)
    match node.kind:
        case JoinKind.INNER | JoinKind.SEMI:
            return plan.Values(schema=node.schema, span=node.span, rows=())
        case JoinKind.ANTI:
            return node.left
        case JoinKind.LEFT:
            fields = node.schema.fields
            own = tuple(InputRef(i, f.type) for i, f in enumerate(fields[:left_count]))
            missing = tuple(Literal(None, f.type) for f in fields[left_count:])
            return plan.Project(
                schema=node.schema, span=node.span, input=node.left, expressions=own + missing
            )
    return node


# Copy filters and limits into scans whose connector can use them.


def push_into_scan(
    node: plan.RelationalNode, connectors: Mapping[str, ConnectorDescriptor]
) -> plan.RelationalNode:
    """The scan below a Filter or a Limit receives its conjuncts or count. A Filter stays above the scan unless the
    connector filters exactly.

    A limit is a hint for each subtask of the source, so the Limit itself always stays.
    """
    scan = node.inputs[0] if node.inputs else None
    if not isinstance(scan, plan.TableScan):
        return node
    descriptor = connectors.get(dict(scan.options).get("connector", ""))
    if descriptor is None:
        return node
    if not scan.mode.is_insert_only:
        return _by_key(node, scan) if isinstance(node, plan.Filter) else node
    if isinstance(node, plan.Filter) and descriptor.reading.filters and is_deterministic(node.condition):
        filters = unique(scan.filters + conjuncts(node.condition))
        filtered = dataclasses.replace(scan, filters=filters)
        if descriptor.reading.filters_exactly:
            return filtered
        return node if filters == scan.filters else dataclasses.replace(node, input=filtered)
    if (
        isinstance(node, plan.Sort)
        and not node.order
        and node.fetch >= 0
        and descriptor.reading.limits
        and not scan.filters
    ):
        limit = node.offset + node.fetch
        return (
            node
            if scan.limit == limit
            else dataclasses.replace(node, input=dataclasses.replace(scan, limit=limit))
        )
    return node


def _by_key(node: plan.Filter, scan: plan.TableScan) -> plan.RelationalNode:
    """Over changes of rows: the conjuncts by the primary key, which the scan applies itself."""
    names = scan.columns
    keys = {i for i, name in enumerate(names) if name in scan.table.primary_key}
    parts = conjuncts(node.condition)
    moved = tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= keys and is_deterministic(p))
    if not moved:
        return node
    filtered = dataclasses.replace(scan, filters=unique(scan.filters + moved))
    return make_filter(filtered, tuple(p for p in parts if p not in moved), node)


# Conditions as plain conjuncts where they say the same in other words: other rules find equalities and filters in
# these.


def simplify_conditions(node: plan.RelationalNode) -> plan.RelationalNode:
    """The condition of a Filter or a Join, TRUE for the same rows:

    * `(a AND b) OR (a AND c)` is `a AND (b OR c)`
    * `x = y OR (x IS NULL AND y IS NULL)` is `x IS NOT DISTINCT FROM y`
    * `(x = y) IS TRUE` and `(x = y) = TRUE` are `x = y`, and so is `x IN (y)`
    """
    if not isinstance(node, plan.Filter | plan.Join) or node.condition is None:
        return node
    before = conjuncts(node.condition)
    parts = tuple(part for old in before for part in _plain(old))
    if parts == before:
        return node
    condition = conjunction(unique(parts))
    if isinstance(node, plan.Filter):
        return dataclasses.replace(node, condition=condition or TRUE)
    return dataclasses.replace(node, condition=condition)


def _plain(part: Expression) -> tuple[Expression, ...]:
    """The conjuncts that are all TRUE where `part` is."""
    if not isinstance(part, Call):
        return (part,)
    args = part.args
    match part.function:
        case "IS TRUE":
            return _of(args[0])
        case "=" if TRUE in args and args[0].type.root is BOOLEAN.root:
            return _of(args[1] if args[0] == TRUE else args[0])
        case "IN" if len(args) == 2:
            return (Call("=", args, part.type, part.span),)
        case "OR":
            return _of_any(part)
    return (part,)


def _of(condition: Expression) -> tuple[Expression, ...]:
    return tuple(plain for part in conjuncts(condition) for plain in _plain(part))


def _of_any(disjunction: Call) -> tuple[Expression, ...]:
    alternatives = [_of(a) for a in _alternatives(disjunction)]
    if len(alternatives) == 2 and (same := _null_safe(alternatives, disjunction)) is not None:
        return (same,)
    common = tuple(p for p in alternatives[0] if all(p in other for other in alternatives[1:]))
    if not common or not is_deterministic(*common):
        return (disjunction,)
    others = [conjunction([p for p in parts if p not in common]) for parts in alternatives]
    rest = tuple(other for other in others if other is not None)
    if len(rest) < len(others):
        # One alternative is what all have in common.
        return common
    is_nullable = any(other.type.nullable for other in rest)
    return (*common, Call("OR", rest, BOOLEAN.with_nullable(is_nullable), disjunction.span))


def _alternatives(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, Call) and condition.function == "OR":
        return tuple(one for arg in condition.args for one in _alternatives(arg))
    return (condition,)


def _null_safe(alternatives: list[tuple[Expression, ...]], origin: Call) -> Expression | None:
    """`x IS NOT DISTINCT FROM y`, of which one alternative is `x = y` and the other that both are NULL."""
    equal, nulls = sorted(alternatives, key=len)
    if len(equal) != 1 or len(nulls) != 2:
        return None
    (part,) = equal
    if not isinstance(part, Call) or part.function != "=" or not is_deterministic(*part.args):
        return None
    are_null = {p.args[0] for p in nulls if isinstance(p, Call) and p.function == "IS NULL"}
    if are_null != set(part.args):
        return None
    return Call("IS NOT DISTINCT FROM", part.args, BOOLEAN.not_null(), origin.span or part.span)
