"""JOIN … FOR SYSTEM_TIME AS OF a row time: the rows of a table or view that were valid then."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.changelog import RowKind
from sqlstream.errors import Span, UserError
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    references,
    remap,
    substitute,
)
from sqlstream.planner.bind.expressions.casts import plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.hints import LookupHint
from sqlstream.planner.bind.relations.joins import bind_join
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope, ScopeColumn
from sqlstream.planner.physical.join_condition import equality_sides
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.rules.join_keys import with_projected_keys
from sqlstream.planner.rules.row_number_to_rank import rank_bounds
from sqlstream.schema import Field, Schema
from sqlstream.spi.changelog_options import OP_COLUMN, has_tombstones
from sqlstream.types import BIGINT, BOOLEAN, STRING, are_stored_alike, is_integer, is_proctime, is_rowtime

_VERSION_TIME, _IS_VALID = "$version_time", "$is_valid"
_HINT = (
    "it needs a primary key and a watermark, or a view of the last row of each key: SELECT … FROM (SELECT *, ROW_NUMBER()"
    " OVER (PARTITION BY k ORDER BY rowtime DESC) AS n FROM t) WHERE n = 1"
)


def bind_temporal_join(
    left: FromItem, right: FromItem, join: exp.Join, as_of: Expression, namespace: Namespace
) -> FromItem:
    """`left` joined with the rows of `right` that were valid at `as_of`, a row time of `left`. UserError SS3410 for a
    condition without the whole key of `right`. SS3411 for a `right` without versions, or one of changes that do not tell them."""
    span, name = namespace.span(join.this.args["version"]), str(join.this.name)
    versions = versions_of(right.node)
    if versions is None:
        raise UserError(
            "SS3411", f'"{name}" has no versions to be joined as of a row time', span=span, hint=_HINT
        )
    if reads_changes(versions.node):
        versions = versions_of_changes(versions, name, span)
    if not isinstance(as_of, InputRef):
        hint = "name a column with a watermark; to join as of another time, select it in a table with its own watermark"
        raise UserError("SS3001", "FOR SYSTEM_TIME AS OF takes a column", span=span, hint=hint)
    time = versions.node.schema.fields[versions.time]
    if time.type.root is not as_of.type.root:
        raise UserError(
            "SS2010",
            f"FOR SYSTEM_TIME AS OF compares {as_of.type.without_time_attribute()}"
            f' with "{time.name}" of type {time.type.without_time_attribute()}',
            span=span,
            hint="declare both row times with one type, TIMESTAMP or TIMESTAMP_LTZ",
        )
    joined = bind_join(left, _with_versions(right, versions), join, namespace)
    assert isinstance(joined.node, plan.Join)
    wide = with_projected_keys(joined.node, has_bounds=False)
    inner = wide.input if isinstance(wide, plan.Project) else wide
    assert isinstance(inner, plan.Join)
    temporal = _temporal(inner, as_of.index, versions, len(right.node.schema), name, namespace.span(join))
    node: plan.RelationalNode = (
        dataclasses.replace(wide, input=temporal) if isinstance(wide, plan.Project) else temporal
    )
    return FromItem(node, joined.scope)


def _with_versions(right: FromItem, versions: Versions) -> FromItem:
    """The versions with the columns of `right`, and behind them their time and whether they are rows of `right`."""
    source = versions.node
    is_valid = conjunction(versions.conditions) or Literal(True, BOOLEAN.not_null())
    time = InputRef(versions.time, source.schema.types[versions.time])
    fields = tuple(Field(f.name, f.type.without_time_attribute()) for f in right.node.schema.fields)
    extra = (Field(_VERSION_TIME, time.type), Field(_IS_VALID, is_valid.type))
    node = plan.Project(
        input=source,
        expressions=(*versions.expressions, time, is_valid),
        schema=Schema((*fields, *extra)),
        span=right.node.span,
    )
    columns = tuple(
        dataclasses.replace(c, type=f.type) for c, f in zip(right.scope.columns, fields, strict=True)
    )
    hidden = tuple(ScopeColumn(f.name, f.type, is_plain=False) for f in extra)
    return FromItem(node, Scope((*columns, *hidden), right.scope.star))


def _temporal(
    join: plan.Join, time: int, versions: Versions, width: int, name: str, span: Span | None
) -> plan.TemporalJoin:
    """`width`: the number of columns of the right table, before its hidden ones."""
    left_count = len(join.left.schema)
    pairs: dict[int, tuple[int, int]] = {}
    rest: list[Expression] = []
    for part in conjuncts(join.condition):
        pair = _equal_columns(part, left_count)
        key = None if pair is None else _key(join.right, pair[1], versions, width)
        if pair is None or key is None or key in pairs:
            rest.append(part)
        else:
            pairs[key] = pair
    missing = [versions.node.schema.names[k] for k in versions.keys if k not in pairs]
    if missing:
        raise UserError(
            "SS3410",
            f'a join as of a row time needs the whole key of "{name}" in its condition, and'
            f" {', '.join(missing)} is missing",
            span=span,
            hint=f"add an equality for {missing[0]} to ON: o.x = {name}.{missing[0]}",
        )
    is_valid = InputRef(left_count + width + 1, join.right.schema.types[width + 1])
    if versions.conditions:
        rest.append(is_valid)
    return plan.TemporalJoin(
        left=join.left,
        right=join.right,
        kind=join.kind,
        left_keys=tuple(pairs[k][0] for k in versions.keys),
        right_keys=tuple(pairs[k][1] for k in versions.keys),
        left_time=time,
        right_time=width,
        right_valid=width + 1 if versions.conditions else -1,
        condition=conjunction(tuple(rest)),
        schema=join.schema,
        span=span,
    )


def _equal_columns(part: Expression, left_count: int) -> tuple[int, int] | None:
    """(left column, right column in the right side's numbers) of an equality of columns of one type."""
    sides = equality_sides(part, left_count)
    if sides is None:
        return None
    left, right = sides
    if not isinstance(left, InputRef) or not isinstance(right, InputRef):
        return None
    is_same = are_stored_alike(left.type, right.type)
    return (left.index, right.index - left_count) if is_same else None


def _key(right: plan.RelationalNode, column: int, versions: Versions, width: int) -> int | None:
    """The key column of the versions that a right column has the values of, perhaps as a wider integer."""
    assert isinstance(right, plan.Project)
    expression = right.expressions[column]
    if right.input is not versions.node:
        # A column that the condition computes stands in a projection of its own above the versions'.
        assert isinstance(right.input, plan.Project)
        expression = substitute(expression, right.input.expressions)
    if isinstance(expression, Call) and expression.function == "CAST" and is_integer(expression.type):
        (expression,) = expression.args if is_integer(expression.args[0].type) else (expression,)
    if isinstance(expression, InputRef) and expression.index in versions.keys:
        return expression.index
    return None


# What a table or view was at each moment: the rows whose times say when they became valid.


@dataclasses.dataclass(frozen=True)
class Versions:
    """Each row of `node` is a version of the row with its `keys`, valid from `time` on.

    A table or view has the columns `expressions` of the versions that fulfil `conditions`: a version that does not leaves its
    key without a row until the next one. `is_numbered`: the columns of `node` are followed by a row number, which is not yet
    known to be 1. `is_table`: they are rows of a table, each as it came, and not of a query.
    """

    node: plan.RelationalNode
    keys: tuple[int, ...]
    time: int
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()
    is_numbered: bool = False
    is_table: bool = False


def versions_of(node: plan.RelationalNode) -> Versions | None:
    """The versions of a table with a primary key and a watermark. So are those of a query that keeps the last row of each key
    by row time (ROW_NUMBER() … ORDER BY rowtime DESC = 1), also below projections and filters; None for any other query."""
    found = _versions(node)
    return None if found is None or found.is_numbered else found


def _versions(node: plan.RelationalNode) -> Versions | None:
    match node:
        case plan.Project():
            below = _versions(node.input)
            if below is None:
                return None
            expressions = tuple(substitute(e, below.expressions) for e in node.expressions)
            return dataclasses.replace(below, expressions=expressions)
        case plan.Filter():
            below = _versions(node.input)
            if below is None:
                return None
            own = tuple(substitute(p, below.expressions) for p in conjuncts(node.condition))
            return _filtered(below, own)
        case plan.Window(order=(key,), calls=(call,)) if (
            call.function == "ROW_NUMBER"
            and key.is_descending
            and is_rowtime(node.input.schema.types[key.column])
        ):
            return Versions(node.input, node.partition_keys, key.column, _columns(node), is_numbered=True)
        case plan.Watermark():
            return _of_table(node)
    return None


def _of_table(node: plan.Watermark) -> Versions | None:
    scan = node.input.input if isinstance(node.input, plan.Project) else node.input
    if not isinstance(scan, plan.TableScan) or not scan.table.primary_key:
        return None
    names = node.schema.names
    keys = tuple(names.index(name) for name in scan.table.primary_key)
    return Versions(node, keys, node.column, _columns(node), is_table=True)


def _columns(node: plan.RelationalNode) -> tuple[Expression, ...]:
    return references(node.schema.types)


def _filtered(below: Versions, parts: tuple[Expression, ...]) -> Versions:
    """With conditions. One that asks for row number 1 is true of every version, and each version has that number."""
    number = len(below.node.schema)
    rest = tuple(p for p in parts if not below.is_numbered or not _asks_for_first(p, number))
    if len(rest) == len(parts):
        return dataclasses.replace(below, conditions=below.conditions + parts)
    columns = (*_columns(below.node), Literal(1, BIGINT.not_null()))
    return dataclasses.replace(
        below,
        expressions=tuple(substitute(e, columns) for e in below.expressions),
        conditions=tuple(substitute(e, columns) for e in (*below.conditions, *rest)),
        is_numbered=False,
    )


def _asks_for_first(part: Expression, number: int) -> bool:
    bounds = rank_bounds(part, number)
    return bounds is not None and bounds[0] <= 1 and bounds[1] == 1


# The versions of a table that is read as changes: its changes as rows, of which a deletion ends the version before.


_OP, _IS_THERE = "$op", "$is_there"
# A -U says nothing that the +U behind it does not.
_CODES = tuple(None if kind is RowKind.UPDATE_BEFORE else kind.symbol for kind in RowKind)


def reads_changes(node: plan.RelationalNode) -> bool:
    """Whether rows of a table below are replaced or deleted by later ones."""
    is_changing = isinstance(node, plan.TableScan) and not node.mode.is_insert_only
    return is_changing or any(map(reads_changes, node.inputs))


def versions_of_changes(versions: Versions, name: str, span: Span | None) -> Versions:
    """Each +I and +U is a version, and each -D one that no row matches, from the row time that it carries. UserError SS3411 for a
    query over changes, and for a table whose deletions have nothing but the key."""
    watermark = versions.node
    if not versions.is_table:
        raise UserError(
            "SS3411",
            f'"{name}" keeps the last row of each key of a table of changes, which may take back any of its rows',
            span=span,
            hint="join the table of changes itself: by its primary key and watermark each of its changes is a version",
        )
    assert isinstance(watermark, plan.Watermark)
    project = watermark.input if isinstance(watermark.input, plan.Project) else None
    scan = watermark.input if project is None else project.input
    assert isinstance(scan, plan.TableScan)
    if has_tombstones(dict(scan.options)):
        raise UserError(
            "SS3411",
            f'a row of "{name}" with nothing but its key is a deletion, and has no row time from which on there is no version',
            span=span,
            hint=f"name the column that says what a row does in '{OP_COLUMN}', or declare a table of the same rows that only"
            " inserts: by primary key and watermark each of its rows is a version",
        )
    return _over_events(versions, watermark, project, scan)


def _over_events(
    versions: Versions, watermark: plan.Watermark, project: plan.Project | None, scan: plan.TableScan
) -> Versions:
    """The columns of the table, and behind them whether the row is there."""
    events = dataclasses.replace(scan, keeps_events=True)
    operation = Field(_OP, STRING.not_null())
    told = plan.ToChangelog(
        input=events,
        codes=_CODES,
        keys=(),
        schema=Schema((operation, *scan.schema.fields)),
        span=scan.span,
    )
    deletion = Literal(RowKind.DELETE.symbol, STRING.not_null())
    is_there = Call("<>", (InputRef(0, operation.type), deletion), BOOLEAN.not_null())
    columns: tuple[Expression, ...] = references(scan.schema.types)
    columns = columns if project is None else project.expressions
    behind = {i: i + 1 for i in range(len(scan.schema))}
    extra = Field(_IS_THERE, is_there.type)
    rows = plan.Project(
        input=told,
        expressions=(*(remap(e, behind) for e in columns), is_there),
        schema=Schema((*watermark.input.schema.fields, extra)),
        span=scan.span,
    )
    node = dataclasses.replace(watermark, input=rows, schema=Schema((*watermark.schema.fields, extra)))
    condition = InputRef(len(watermark.schema), extra.type)
    return dataclasses.replace(versions, node=node, conditions=(*versions.conditions, condition))


def check_kind(join: exp.Join, what: str, namespace: Namespace, also: str = "INNER") -> None:
    """UserError SS3001 for a join with `what` that is no INNER, LEFT or `also` one, as it needs the whole table."""
    kind = str(join.args.get("side") or join.args.get("kind") or "INNER")
    if kind not in ("INNER", "LEFT", also):
        raise UserError(
            "SS3001",
            f"a {kind} JOIN with {what} is not possible",
            span=namespace.span(join),
            hint="use an INNER or a LEFT join",
        )


def bind_lookup_join(
    left: FromItem, right: FromItem, join: exp.Join, hints: Iterable[LookupHint], namespace: Namespace
) -> FromItem:
    """`left` joined with the rows that `right` has as of a time of `left`: by key as of a processing time, versions as of a row
    time. UserError SS3001 for kinds of joins that need the whole table."""
    version = join.this.args["version"]
    span = namespace.span(version)
    time = _time(left, right, version, namespace)
    check_kind(join, "FOR SYSTEM_TIME AS OF", namespace, also="CROSS")
    if is_rowtime(time.type):
        return bind_temporal_join(left, right, join, time, namespace)
    joined = bind_join(left, without_times(right), join, namespace)
    node = joined.node
    assert isinstance(node, plan.Join)
    names = {str(join.this.name), *(str(n) for n in right.qualifier[-1:])}
    hint = next((h for h in hints if h.table in names), None)
    lookup = plan.LookupJoin(
        left=node.left,
        right=node.right,
        kind=node.kind,
        condition=node.condition,
        schema=node.schema,
        span=span,
        retry=hint.retry if hint is not None else None,
        is_shuffled=hint is not None and hint.is_shuffled,
    )
    return FromItem(lookup, joined.scope)


def _time(left: FromItem, right: FromItem, version: exp.Expr, namespace: Namespace) -> Expression:
    try:
        time = ScalarBinder(namespace, left.scope, "FOR SYSTEM_TIME AS OF").bind(version.this)
    except UserError as error:
        time = _processing_time_of(right, version, namespace, error)
    if not is_proctime(time.type) and not is_rowtime(time.type):
        raise UserError(
            "SS2010",
            f"FOR SYSTEM_TIME AS OF takes a time attribute of the left table, not {plain(time.type)}",
            span=namespace.span(version),
            hint="declare a column AS PROCTIME() in the left table, or a WATERMARK for the column",
        )
    return time


def _processing_time_of(
    right: FromItem, version: exp.Expr, namespace: Namespace, error: UserError
) -> Expression:
    """A column AS PROCTIME() of the right table: it says no more than PROCTIME() does. `error` for anything else."""
    if error.code == "SS2003":
        with contextlib.suppress(UserError):
            time = ScalarBinder(namespace, right.scope, "FOR SYSTEM_TIME AS OF").bind(version.this)
            if is_proctime(time.type):
                return time
    raise error


def without_times(right: FromItem) -> FromItem:
    """The item with plain columns in place of time attributes: they do not drive the time of the joined rows."""
    node: plan.RelationalNode = right.node
    if not any(is_rowtime(t) or is_proctime(t) for t in node.schema.types):
        return right
    types = tuple(t.without_time_attribute() for t in node.schema.types)
    node = plan.Project(
        input=node,
        expressions=references(types),
        schema=Schema(tuple(Field(f.name, t) for f, t in zip(node.schema.fields, types, strict=True))),
        span=node.span,
    )
    columns = tuple(dataclasses.replace(c, type=t) for c, t in zip(right.scope.columns, types, strict=True))
    return FromItem(node, dataclasses.replace(right.scope, columns=columns))
