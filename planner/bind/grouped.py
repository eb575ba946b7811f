"""Expressions above GROUP BY: group keys, aggregate calls and expressions over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, Literal
from sqlstream.function_ref import FunctionRef
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.user import aggregate_signature
from sqlstream.planner.bind.expressions.calls import (
    bind_call,
    check_argument_count,
    is_aggregate,
    resolve_types,
)
from sqlstream.planner.bind.expressions.casts import cast_to, require_key
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.expressions.subqueries import Subqueries
from sqlstream.planner.bind.expressions.user_functions import is_user_aggregate, noted_function
from sqlstream.planner.bind.grouping import (
    GroupWindow,
    check_grouping_call,
    grouping_value,
    is_group_window,
    is_grouping_call,
    nullable_key,
)
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.expand import EXPAND_ID, Expand
from sqlstream.planner.relational.nodes import Aggregate, Project, RelationalNode, WindowTvf
from sqlstream.schema import Field, Schema
from sqlstream.types import CONSTRUCTED_ROOTS, INT, LogicalType


@dataclasses.dataclass(frozen=True)
class _BoundAggregate:
    """An aggregate call whose arguments are still expressions over the input of GROUP BY."""

    function: str
    args: tuple[Expression, ...]
    type: LogicalType
    is_distinct: bool
    filter: Expression | None
    ref: FunctionRef | None = None


class GroupedBinder(ScalarBinder):
    """Binds over the output of an aggregation that it collects itself: keys, then one column per call.

    `window`: a group window, whose three columns are keys; `key_columns`: what to compute for `keys`, the same by default;
    `sets`: the grouping sets where there are several, whose number is a column behind the keys.
    First `register` every expression that may contain aggregates, then build the node with `aggregate`, then bind.
    """

    def __init__(
        self,
        namespace: Namespace,
        scope: Scope,
        input: RelationalNode,
        keys: tuple[Expression, ...],
        place: str,
        window: GroupWindow | None = None,
        key_columns: tuple[Expression, ...] = (),
        sets: tuple[frozenset[int], ...] = (),
    ) -> None:
        super().__init__(namespace, scope, place, Subqueries())
        self._of_input = Subqueries()
        self.input = input
        self.keys = keys
        self._window = window
        self._key_columns = key_columns or keys
        self._sets = sets
        self._left_out = tuple(k for k in range(len(keys)) if any(k not in kept for kept in sets))
        self._key_types = tuple(
            nullable_key(self._key_type(key), place in self._left_out) for place, key in enumerate(keys)
        )
        self._calls: dict[_BoundAggregate, int] = {}
        self._composed: dict[int, tuple[exp.Expr, bool]] = {}

    def register(self, node: exp.Expr) -> None:
        """Assign an output column to each aggregate call in `node`."""
        for part in node.dfs(prune=lambda n: is_aggregate_call(n) or nodes.is_query(n)):
            if is_aggregate_call(part):
                assert isinstance(part, nodes.FunctionCall)
                self._index_of(self._bind_call(part))

    def bind(self, node: exp.Expr) -> Expression:
        if self._composed:
            return self._bind_part(node)
        try:
            return self._bind_part(node)
        finally:
            # The next one may have other aliases.
            self._composed.clear()

    def _bind_part(self, node: exp.Expr) -> Expression:
        if is_aggregate_call(node):
            assert isinstance(node, nodes.FunctionCall)
            call = self._bind_call(node)
            return InputRef(len(self.keys) + bool(self._sets) + self._index_of(call), call.type)
        if is_grouping_call(node):
            assert isinstance(node, nodes.FunctionCall)
            return self._bind_grouping(node)
        if self._window is not None and is_group_window(node):
            assert isinstance(node, nodes.FunctionCall)
            column = self._window.column_of(node, self.namespace, self.scope)
            return self._over_keys(column, {})
        if self._is_composed(node):
            return super().bind(node)
        binder = ScalarBinder(self.namespace, self.scope, self.place)
        return self._over_keys(binder.bind(node), binder.references)

    def _is_composed(self, node: exp.Expr) -> bool:
        """Whether `node` contains more than an expression over the input: an aggregate, an OVER column, an alias, a column
        of the window or a number of the grouping set.

        It is found for all nodes below at once: a long chain would be walked from each of its links."""
        if id(node) not in self._composed:
            below: list[tuple[exp.Expr, int]] = [(node, -1)]
            for place, (part, _) in enumerate(below):
                if not nodes.is_query(part):
                    below += ((child, place) for child in part.iter_expressions())
            composed = [self._composes(part) for part, _ in below]
            for place in range(len(below) - 1, -1, -1):
                part, parent = below[place]
                if parent >= 0:
                    composed[parent] |= composed[place]
                self._composed[id(part)] = part, composed[place]
        return self._composed[id(node)][1]

    def _composes(self, node: exp.Expr) -> bool:
        return (
            is_aggregate_call(node)
            or is_grouping_call(node)
            or id(node) in self.over_columns
            or self._is_alias(node)
            or nodes.is_query(node)
            or (self._window is not None and is_group_window(node))
        )

    def outer_column_of(self, index: int, type_: LogicalType, span: Span | None) -> InputRef:
        """The group key that the column is: the rows of this place are groups."""
        key = self._over_keys(InputRef(index, self.scope.columns[index].type), {index: span})
        assert isinstance(key, InputRef)
        return key

    def _is_alias(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in self.aliases

    def _over_keys(self, expression: Expression, references: dict[int, Span | None]) -> Expression:
        if expression in self.keys:
            index = self.keys.index(expression)
            return InputRef(index, self._key_types[index])
        if isinstance(expression, InputRef):
            column = self.scope.columns[expression.index]
            raise UserError(
                "SS2007",
                f'column "{column}" is neither in GROUP BY nor in an aggregate',
                span=references.get(expression.index),
                hint=f'add "{column.name}" to GROUP BY or wrap it in an aggregate such as MAX',
            )
        if isinstance(expression, Call):
            args = tuple(self._over_keys(a, references) for a in expression.args)
            return expression.with_args(args)
        return expression

    def _bind_grouping(self, node: nodes.FunctionCall) -> Expression:
        """GROUPING(key, …) and its like."""
        check_grouping_call(node, self.namespace)
        places = []
        for written in node.expressions:
            key = ScalarBinder(self.namespace, self.scope, f"{node.this}").bind(written)
            if key not in self.keys:
                hint = "name the key as in GROUP BY"
                message = f"{node.this} takes keys of GROUP BY"
                raise UserError("SS3441", message, span=self.span(written), hint=hint)
            places.append(self.keys.index(key))
        number = InputRef(len(self.keys), EXPAND_ID.type) if self._sets else None
        sets = self._sets or (frozenset(range(len(self.keys))),)
        return grouping_value(str(node.this), places, sets, number)

    def _index_of(self, call: _BoundAggregate) -> int:
        return self._calls.setdefault(call, len(self._calls))

    def _bind_call(self, node: nodes.FunctionCall) -> _BoundAggregate:
        name, span = str(node.this), self.span(node)
        if node.args.get("order") is not None:
            raise UserError(
                "SS3461",
                f"{name}{'(DISTINCT …)' if node.args.get('is_distinct') else ''} takes no WITHIN GROUP (ORDER BY …)",
                span=span,
                hint="LISTAGG, ARRAY_AGG and PERCENTILE(share) do; of distinct values, aggregate a SELECT DISTINCT",
            )
        skips_nulls = skips_null_arguments(node, span)
        inner = ScalarBinder(self.namespace, self.scope, f"the argument of {name}", self._of_input)
        arguments = [] if _is_count_star(node) else node.expressions
        args = tuple(inner.bind(a) for a in arguments)
        user = noted_function(node)
        function = AGGREGATE_FUNCTIONS[name] if user is None else aggregate_signature(user.ref)
        check_argument_count(function, len(args), span)
        if _is_count_star(node) and node.args.get("is_distinct"):
            hint = "write SELECT COUNT(*) over a SELECT DISTINCT subquery"
            raise UserError("SS2006", "COUNT(DISTINCT *) does not exist", span=span, hint=hint)
        if name == "COUNT" and not node.expressions:
            raise UserError(
                "SS2006", "COUNT takes * or an argument", span=span, hint=f"write {function.usage}"
            )
        if node.args.get("is_distinct"):
            for arg, written in zip(args, arguments, strict=True):
                if arg.type.root not in CONSTRUCTED_ROOTS:
                    require_key(arg, f"{name}(DISTINCT …)", self.span(written))
        result, wanted = resolve_types(function, args, span)
        check_percentages(node, args, span)
        condition = node.args.get("filter")
        inner.place = "FILTER"
        filter = inner.bind_condition(condition) if condition is not None else None
        if skips_nulls:
            is_present = bind_call("IS NOT NULL", args[:1], span)
            filter = is_present if filter is None else bind_call("AND", (filter, is_present), span)
        return _BoundAggregate(
            function.name,
            tuple(cast_to(a, t, span) for a, t in zip(args, wanted, strict=True)),
            result,
            bool(node.args.get("is_distinct")),
            filter,
            None if user is None else user.ref,
        )

    def aggregate(self, key_names: tuple[str, ...], span: Span | None) -> Aggregate:
        """The Aggregate node over the input, with a Project below it that computes keys, arguments and
        filters."""
        columns = list(self._key_columns)
        # A key that some sets leave out is NULL there, but not as an argument.
        places = {
            key: place for place, key in reversed(list(enumerate(columns))) if place not in self._left_out
        }
        for part in (e for call in self._calls for e in (*call.args, call.filter)):
            if part is not None and part not in places:
                places[part] = len(columns)
                columns.append(part)
        # A batch of no columns has no length: COUNT(*) alone counts a constant.
        columns = columns or [Literal(0, INT.not_null())]
        names = [*key_names, *(f"$f{i}" for i in range(len(key_names), len(columns)))]
        calls = tuple(
            AggregateCall(
                call.function,
                tuple(places[a] for a in call.args),
                call.type,
                call.is_distinct,
                places[call.filter] if call.filter is not None else -1,
                call.ref,
            )
            for call in self._calls
        )
        source, columns = self._of_input.attached(self.input, columns, self.namespace.depth)
        input: RelationalNode = Project(
            input=source,
            expressions=tuple(columns),
            schema=Schema.of(*[(n, c.type) for n, c in zip(names, columns, strict=True)]),
            span=span,
        )
        keys = tuple(range(len(self.keys)))
        key_fields = [Field(n, t) for n, t in zip(key_names, self._key_types, strict=True)]
        if self._sets:
            input = Expand.over(input, self._left_out, self._sets)
            keys, key_fields = (*keys, len(columns)), [*key_fields, EXPAND_ID]
        call_fields = [Field(f"EXPR${i}", c.type) for i, c in enumerate(calls)]
        schema = Schema((*key_fields, *call_fields))
        return Aggregate(input=input, keys=keys, calls=calls, schema=schema, span=span)

    def _key_type(self, key: Expression) -> LogicalType:
        """The type of a key column: it loses its time attribute, unless it is the time of a window."""
        if isinstance(key, InputRef) and is_window_time(self.input, key.index):
            return key.type
        return key.type.without_time_attribute()


def is_aggregate_call(node: exp.Expr) -> bool:
    return (
        isinstance(node, nodes.FunctionCall) and node.args.get("over") is None and is_aggregate_function(node)
    )


def is_aggregate_function(node: nodes.FunctionCall) -> bool:
    """Whether the function of a call in a resolved query is an aggregate, built-in or a user's."""
    return is_user_aggregate(node) if noted_function(node) is not None else is_aggregate(str(node.this))


def has_aggregate(node: exp.Expr | None) -> bool:
    """Whether `node` contains an aggregate call."""
    check_not_given_up()
    return node is not None and any(is_aggregate_call(n) for n in nodes.walk_level(node))


def _is_count_star(node: nodes.FunctionCall) -> bool:
    return (
        str(node.this) == "COUNT" and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star)
    )


# What single aggregate functions take besides what their signatures say.


def skips_null_arguments(node: nodes.FunctionCall, span: Span | None) -> bool:
    """Whether IGNORE NULLS makes a difference. UserError SS3461 where the function does not take what is written."""
    written, name = node.args.get("nulls"), str(node.this)
    if written is None:
        return False
    if name == "ARRAY_AGG":
        return bool(written == "IGNORE")
    if name in ("FIRST_VALUE", "LAST_VALUE") and written == "IGNORE":
        # They skip NULLs in any case.
        return False
    hint = "leave it out: of aggregates only ARRAY_AGG has a choice"
    raise UserError("SS3461", f"{name} does not take {written} NULLS", span=span, hint=hint)


def check_percentages(node: nodes.FunctionCall, args: tuple[Expression, ...], span: Span | None) -> None:
    """UserError SS3461 for percentages that are constants outside of 0 to 1, and for DISTINCT with a frequency."""
    if node.this != "PERCENTILE":
        return
    if node.args.get("is_distinct") and len(args) > 2:
        hint = "leave out DISTINCT or the frequency"
        raise UserError("SS3461", "PERCENTILE(DISTINCT …) takes no frequency", span=span, hint=hint)
    for value in _constants(args[1]):
        if not 0 <= value <= 1:
            message = f"PERCENTILE takes percentages from 0 to 1, not {value:g}"
            raise UserError("SS3461", message, span=span, hint="write 0.5 for the median")


def _constants(expression: Expression) -> Iterator[float]:
    if isinstance(expression, Literal) and expression.value is not None:
        yield float(expression.value)
    elif isinstance(expression, Call) and expression.function in ("ARRAY", "CAST", "NEGATE"):
        sign = -1 if expression.function == "NEGATE" else 1
        yield from (sign * value for arg in expression.args for value in _constants(arg))


# Whether a column is the window_time that a window table-valued function appended.


def is_window_time(node: RelationalNode, column: int) -> bool:
    """Whether `column` of `node` is a window_time that all nodes in between pass on unchanged."""
    while not (isinstance(node, WindowTvf) and column >= len(node.input.schema)):
        found = node.origin(column)
        if found is None:
            return False
        node, column = found
    return column == len(node.schema) - 1
