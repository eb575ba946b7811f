"""JOIN … FOR SYSTEM_TIME AS OF a row time: the rows of a table or view that were valid then."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, conjunction, conjuncts, substitute
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.joins import bind_join
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.scope import Scope, ScopeColumn
from sqlstream.planner.bind.versions import Versions, versions_of
from sqlstream.planner.bind.versions_of_changes import reads_changes, versions_of_changes
from sqlstream.planner.relational.nodes import Join, Project, RelationalNode, TemporalJoin
from sqlstream.planner.rules.join_keys import equality_sides, with_projected_keys
from sqlstream.schema import Field, Schema
from sqlstream.types import BOOLEAN, are_stored_alike, is_integer

_VERSION_TIME, _IS_VALID = "$version_time", "$is_valid"
_HINT = (
    "it needs a primary key and a watermark, or a view of the last row of each key: SELECT … FROM (SELECT *, ROW_NUMBER()"
    " OVER (PARTITION BY k ORDER BY rowtime DESC) AS n FROM t) WHERE n = 1"
)


def bind_temporal_join(
    left: FromItem, right: FromItem, join: exp.Join, as_of: Expression, namespace: Namespace
) -> FromItem:
    """`left` joined with the rows of `right` that were valid at `as_of`, a row time of `left`. UserError SS3410 for a condition
    without the whole key of `right`, SS3411 for a `right` without versions, or one of changes that do not tell them."""
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
    assert isinstance(joined.node, Join)
    wide = with_projected_keys(joined.node, has_bounds=False)
    inner = wide.input if isinstance(wide, Project) else wide
    assert isinstance(inner, Join)
    temporal = _temporal(inner, as_of.index, versions, len(right.node.schema), name, namespace.span(join))
    node: RelationalNode = (
        dataclasses.replace(wide, input=temporal) if isinstance(wide, Project) else temporal
    )
    return FromItem(node, joined.scope)


def _with_versions(right: FromItem, versions: Versions) -> FromItem:
    """The versions with the columns of `right`, and behind them their time and whether they are rows of `right`."""
    source = versions.node
    is_valid = conjunction(versions.conditions) or Literal(True, BOOLEAN.not_null())
    time = InputRef(versions.time, source.schema.types[versions.time])
    fields = tuple(Field(f.name, f.type.without_time_attribute()) for f in right.node.schema.fields)
    extra = (Field(_VERSION_TIME, time.type), Field(_IS_VALID, is_valid.type))
    node = Project(
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
    join: Join, time: int, versions: Versions, width: int, name: str, span: Span | None
) -> TemporalJoin:
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
    return TemporalJoin(
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


def _key(right: RelationalNode, column: int, versions: Versions, width: int) -> int | None:
    """The key column of the versions that a right column has the values of, perhaps as a wider integer."""
    assert isinstance(right, Project)
    expression = right.expressions[column]
    if right.input is not versions.node:
        # A column that the condition computes stands in a projection of its own above the versions'.
        assert isinstance(right.input, Project)
        expression = substitute(expression, right.input.expressions)
    if isinstance(expression, Call) and expression.function == "CAST" and is_integer(expression.type):
        (expression,) = expression.args if is_integer(expression.args[0].type) else (expression,)
    if isinstance(expression, InputRef) and expression.index in versions.keys:
        return expression.index
    return None
