"""Subqueries in expressions: a placeholder while the expression is bound, then a column that an Apply appends to the rows.

EXISTS and IN that a WHERE or HAVING requires (or requires not) become semi and anti joins. As values they are made of
aggregates of the subquery, of which there is one row for each outer row: how many rows it has, how many of them are equal,
and its extremes."""

from __future__ import annotations

import dataclasses
import enum

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import (
    AggregateCall,
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    references,
    transform,
    walk,
)
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.comparison import NESTED
from sqlstream.planner.bind.expressions.calls import bind_call, resolve_types
from sqlstream.planner.bind.scope import ExpressionBinder
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.correlation import outer_reference, replace_outer, with_expressions
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, LogicalType

PLACEHOLDER = "SUBQUERY"
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ONE, _NONE = Literal(1, sql.INT.not_null()), Literal(0, sql.INT.not_null())
_TRUE, _FALSE = Literal(True, BOOLEAN.not_null()), Literal(False, BOOLEAN.not_null())
_UNKNOWN = Literal(None, BOOLEAN)


class _Kind(enum.Enum):
    SCALAR = enum.auto()
    EXISTS = enum.auto()
    IN = enum.auto()
    ANY = enum.auto()


@dataclasses.dataclass(frozen=True)
class _Subquery:
    """One subquery: `operands` are compared with its columns by `operator`."""

    kind: _Kind
    query: plan.RelationalNode
    type: LogicalType
    span: Span | None = dataclasses.field(compare=False)
    operands: tuple[Expression, ...] = ()
    operator: str = "="

    @property
    def is_nullable(self) -> bool:
        columns = self.query.schema.types
        return any(t.nullable for t in (*columns, *(o.type for o in self.operands)))


class Subqueries:
    """The subqueries of the expressions of one query level, whose rows are the left side of their Apply. State: those so far."""

    def __init__(self) -> None:
        self._found: list[_Subquery] = []

    def exists(self, binder: ExpressionBinder, query: exp.Expr, span: Span | None) -> Expression:
        bound = _unordered(self._query(binder, query))
        return self._placeholder(_Subquery(_Kind.EXISTS, bound, BOOLEAN.not_null(), span))

    def scalar(self, binder: ExpressionBinder, query: exp.Expr, span: Span | None) -> Expression:
        bound = self._query(binder, query)
        if len(bound.schema) > 1:
            bound = _as_rows(bound)
        type_ = bound.schema.types[0].without_time_attribute().with_nullable(True)
        return self._placeholder(_Subquery(_Kind.SCALAR, bound, type_, span))

    def in_query(
        self, binder: ExpressionBinder, value: exp.Expr, query: exp.Expr, span: Span | None
    ) -> Expression:
        bound = _unordered(self._query(binder, query))
        is_row = isinstance(value, nodes.FunctionCall) and str(value.this) == "ROW"
        operands = tuple(binder.bind(v) for v in (value.expressions if is_row else [value]))
        if is_row and len(bound.schema) == 1 and len(operands) > 1:
            operands = (binder.bind(value),)
        _check_width(bound, len(operands), span)
        made = _Subquery(_Kind.IN, bound, BOOLEAN, span, operands)
        _equalities(operands, bound, span)
        type_ = BOOLEAN.with_nullable(made.is_nullable)
        return self._placeholder(dataclasses.replace(made, type=type_))

    def quantified(
        self,
        binder: ExpressionBinder,
        operator: str,
        value: exp.Expr,
        query: exp.Expr,
        is_all: bool,
        span: Span | None,
    ) -> Expression:
        """`value operator ALL (query)` is NOT (value opposite ANY (query)), and `= ANY` is IN."""
        if operator not in _NEGATED:
            raise UserError(
                "SS3472", f"{operator} has no ANY and ALL", span=span, hint="compare with = or <>"
            )
        if is_all:
            opposite = self.quantified(binder, _NEGATED[operator], value, query, False, span)
            return bind_call("NOT", (opposite,), span)
        if operator == "=":
            return self.in_query(binder, value, query, span)
        bound = _unordered(self._query(binder, query))
        _check_width(bound, 1, span)
        operand = binder.bind(value)
        bind_call(operator, (operand, InputRef(0, bound.schema.types[0])), span)
        return self._placeholder(_Subquery(_Kind.ANY, bound, BOOLEAN, span, (operand,), operator))

    def _query(self, binder: ExpressionBinder, query: exp.Expr) -> plan.RelationalNode:
        """The bound subquery, whose references to this level are columns of this place's rows."""
        namespace = binder.namespace.within(binder.scope)
        depth = binder.namespace.depth
        bound = namespace.bind_subquery(query, namespace)

        def placed(part: Expression) -> Expression:
            span = part.span if isinstance(part, Call) else None

            def reference(column: int, t: LogicalType) -> Expression:
                own = binder.outer_column_of(column, t, span)
                return outer_reference(depth, own.index, own.type, span)

            return replace_outer(part, depth, reference)

        return plan.rewrite(bound, lambda node: with_expressions(node, placed))

    def _placeholder(self, subquery: _Subquery) -> Expression:
        if subquery not in self._found:
            self._found.append(subquery)
        number = self._found.index(subquery)
        return Call(PLACEHOLDER, (Literal(number, sql.INT.not_null()),), subquery.type, subquery.span)

    def filtered(
        self, node: plan.RelationalNode, condition: Expression, depth: int, span: Span | None
    ) -> plan.RelationalNode:
        """The rows of `node` where `condition` holds, with the columns of `node`."""
        parts = conjuncts(condition)
        plain = [p for p in parts if not _placeholders(p)]
        if plain:
            node = _filter(node, conjunction(plain), span)
        values: list[Expression] = []
        for part in parts:
            if part in plain:
                continue
            joined = self._semi_joined(node, part, depth)
            if joined is None:
                values.append(part)
            else:
                node = joined
        if not values:
            return node
        width = len(node.schema)
        wide, replaced = self.attached(node, values, depth)
        return _first_columns(_filter(wide, conjunction(replaced), span), width)

    def _semi_joined(
        self, node: plan.RelationalNode, part: Expression, depth: int
    ) -> plan.RelationalNode | None:
        """`node` without the rows that a lone EXISTS or IN excludes; None for another condition, and for a NOT IN that NULLs can
        make unknown."""
        kind = JoinKind.SEMI
        if isinstance(part, Call) and part.function == "NOT":
            part, kind = part.args[0], JoinKind.ANTI
        subquery = self._subquery(part)
        if subquery is None or subquery.kind not in (_Kind.EXISTS, _Kind.IN):
            return None
        if subquery.kind is _Kind.IN and kind is JoinKind.ANTI and subquery.is_nullable:
            return None
        # An operand may have a subquery of its own.
        wide, operands = self.attached(node, list(subquery.operands), depth)
        condition = None
        if subquery.kind is _Kind.IN:
            equalities = _equalities(tuple(operands), subquery.query, subquery.span, len(wide.schema))
            condition = conjunction(equalities)
        joined = plan.Apply(
            left=wide,
            right=subquery.query,
            kind=kind,
            depth=depth,
            condition=condition,
            schema=wide.schema,
            span=subquery.span,
        )
        return _first_columns(joined, len(node.schema))

    def attached(
        self, node: plan.RelationalNode, expressions: list[Expression], depth: int
    ) -> tuple[plan.RelationalNode, list[Expression]]:
        """`node` with further columns for the subqueries of `expressions`, and the expressions over these."""
        values: dict[Expression, Expression] = {}
        for placeholder in dict.fromkeys(p for e in expressions for p in _placeholders(e)):
            subquery = self._subquery(placeholder)
            assert subquery is not None
            # An operand may have a subquery of its own.
            node, operands = self.attached(node, list(subquery.operands), depth)
            attaching = _Attaching(dataclasses.replace(subquery, operands=tuple(operands)), node, depth)
            values[placeholder] = attaching.value()
            node = attaching.node
        if not values:
            return node, list(expressions)
        return node, [transform(e, lambda part: values.get(part, part)) for e in expressions]

    def _subquery(self, expression: Expression) -> _Subquery | None:
        if not isinstance(expression, Call) or expression.function != PLACEHOLDER:
            return None
        (number,) = expression.args
        assert isinstance(number, Literal)
        assert isinstance(number.value, int)
        return self._found[number.value]


class _Attaching:
    """Appends what one subquery needs to the rows of `node`, so that its value is an expression over them."""

    def __init__(self, subquery: _Subquery, node: plan.RelationalNode, depth: int) -> None:
        self.node = node
        self._subquery = subquery
        self._query = subquery.query
        self._depth = depth

    def value(self) -> Expression:
        match self._subquery.kind:
            case _Kind.SCALAR:
                return self._scalar()
            case _Kind.EXISTS:
                return self._has_rows(self._query)
            case _Kind.IN:
                return self._in()
            case _Kind.ANY:
                return self._any()

    def _call(self, name: str, *args: Expression) -> Expression:
        return bind_call(name, args, self._subquery.span)

    def _applied(self, right: plan.RelationalNode) -> list[Expression]:
        """The columns of the one row that `right` has for each row, NULL where it has none."""
        width = len(self.node.schema)
        fields = tuple(
            Field(f.name, f.type.without_time_attribute().with_nullable(True)) for f in right.schema.fields
        )
        self.node = plan.Apply(
            left=self.node,
            right=right,
            kind=JoinKind.LEFT,
            depth=self._depth,
            schema=Schema((*self.node.schema.fields, *fields)),
            span=self._subquery.span,
        )
        return [InputRef(width + i, f.type) for i, f in enumerate(fields)]

    def _aggregated(
        self, query: plan.RelationalNode, *calls: tuple[str, tuple[int, ...]]
    ) -> list[Expression]:
        """Aggregates over all rows of `query`."""
        made = []
        for name, args in calls:
            types = references(query.schema.types, args)
            result, _ = resolve_types(AGGREGATE_FUNCTIONS[name], types, self._subquery.span)
            made.append(AggregateCall(name, args, result))
        schema = Schema(tuple(Field(f"$agg{i}", c.type) for i, c in enumerate(made)))
        aggregate = plan.Aggregate(
            input=query, keys=(), calls=tuple(made), schema=schema, span=self._subquery.span
        )
        return self._applied(aggregate)

    def _scalar(self) -> Expression:
        if has_one_row(self._query):
            (value,) = self._applied(self._query)
            return value
        type_ = self._query.schema.types[0]
        # Of several values any is as good: SINGLE_ROW fails.
        is_compared = type_.root not in NESTED
        any_value = "MIN" if is_compared else "ARRAY_AGG"
        value, count = self._aggregated(_unordered(self._query), (any_value, (0,)), ("COUNT", ()))
        if not is_compared:
            value = self._call("ITEM", value, Literal(1, sql.INT.not_null()))
        return Call("SINGLE_ROW", (value, count), value.type, self._subquery.span)

    def _outer_operands(self) -> list[Expression]:
        """References to the operands, which become columns of the rows."""
        width = len(self.node.schema)
        found: list[Expression] = []
        added: list[Expression] = []
        for operand in self._subquery.operands:
            index = width + len(added)
            if isinstance(operand, InputRef):
                index = operand.index
            else:
                added.append(operand)
            found.append(outer_reference(self._depth, index, operand.type, self._subquery.span))
        self.node = _with_columns(self.node, added)
        return found

    def _in(self) -> Expression:
        operands, span = self._outer_operands(), self._subquery.span
        equalities = _equalities(tuple(operands), self._query, span, 0)
        if self._subquery.is_nullable and len(operands) > 1:
            return self._in_rows(equalities)
        is_found = self._has_rows(_filter(self._query, conjunction(equalities), span))
        if not self._subquery.is_nullable:
            return is_found
        (has_null,) = self._aggregated(self._marked(), ("MAX", (0,)))
        return self._three_valued(is_found, has_null)

    def _has_rows(self, query: plan.RelationalNode) -> Expression:
        """Whether the query has a row. A count would change with every row, and all results that it is a part of."""
        one = plan.Project(
            input=query, expressions=(_ONE,), schema=Schema.of(("$one", _ONE.type)), span=query.span
        )
        (found,) = self._aggregated(one, ("MAX", (0,)))
        return self._call("IS NOT NULL", found)

    def _marked(self) -> plan.RelationalNode:
        """The rows of the query, of one column, and behind it 1 where that is NULL, else 0."""
        value = InputRef(0, self._query.schema.types[0])
        mark = self._call("CASE", self._call("IS NULL", value), _ONE, _NONE)
        schema = Schema.of(("$null", mark.type), (self._query.schema.names[0], value.type))
        return plan.Project(
            input=self._query, expressions=(mark, value), schema=schema, span=self._query.span
        )

    def _three_valued(self, is_found: Expression, has_null: Expression) -> Expression:
        """TRUE where found; else FALSE over no rows, and UNKNOWN where a NULL was compared. `has_null` is NULL over no rows."""
        (operand,) = self._subquery.operands
        is_unknown = self._call("=", has_null, _ONE)
        if operand.type.nullable:
            is_unknown = self._call("OR", self._call("IS NULL", operand), is_unknown)
        is_empty = self._call("IS NULL", has_null)
        return self._call("CASE", is_found, _TRUE, is_empty, _FALSE, is_unknown, _UNKNOWN, _FALSE)

    def _in_rows(self, equalities: list[Expression]) -> Expression:
        """The comparison of several columns, some of them NULL, with each row: 2 where TRUE, 1 where UNKNOWN."""
        equal = conjunction(equalities)
        assert equal is not None
        small = [Literal(n, sql.INT.not_null()) for n in range(3)]
        rank = self._call("CASE", equal, small[2], self._call("IS NULL", equal), small[1], small[0])
        ranked = plan.Project(
            input=self._query,
            expressions=(rank,),
            schema=Schema.of(("$rank", rank.type)),
            span=self._query.span,
        )
        (best,) = self._aggregated(ranked, ("MAX", (0,)))
        is_true, is_unknown = (self._call("=", best, n) for n in (small[2], small[1]))
        return self._call("CASE", is_true, _TRUE, is_unknown, _UNKNOWN, _FALSE)

    def _any(self) -> Expression:
        """A comparison holds for any row if it does for the least or the greatest."""
        (operand,), operator = self._subquery.operands, self._subquery.operator
        least, greatest, has_null = self._aggregated(
            self._marked(), ("MIN", (1,)), ("MAX", (1,)), ("MAX", (0,))
        )
        if operator == "<>":
            is_found = self._call("OR", self._call("<>", operand, least), self._call("<>", operand, greatest))
        else:
            is_found = self._call(operator, operand, greatest if operator in ("<", "<=") else least)
        return self._three_valued(is_found, has_null)


def has_subquery(expression: Expression) -> bool:
    return bool(_placeholders(expression))


def has_one_row(query: plan.RelationalNode) -> bool:
    """Whether a query has one row at most."""
    match query:
        case plan.Aggregate():
            return not query.keys
        case plan.Sort():
            return 0 <= query.fetch <= 1 or has_one_row(query.input)
        case plan.Project() | plan.Filter():
            return has_one_row(query.input)
        case plan.Values():
            return len(query.rows) <= 1
    return False


def _placeholders(expression: Expression) -> list[Expression]:
    return [p for p in walk(expression) if isinstance(p, Call) and p.function == PLACEHOLDER]


def _equalities(
    operands: tuple[Expression, ...], query: plan.RelationalNode, span: Span | None, offset: int = 0
) -> list[Expression]:
    """`operand = column` for each column of `query`, whose columns stand behind `offset` others."""
    columns = [InputRef(offset + i, t) for i, t in enumerate(query.schema.types)]
    return [bind_call("=", (o, c), span) for o, c in zip(operands, columns, strict=True)]


def _check_width(query: plan.RelationalNode, width: int, span: Span | None) -> None:
    count = len(query.schema)
    if count != width:
        raise UserError(
            "SS3471",
            f"the subquery has {count} columns where {width} {'is' if width == 1 else 'are'} compared",
            span=span,
            hint=f"select {'one column' if width == 1 else f'{width} columns'}",
        )


def _as_rows(query: plan.RelationalNode) -> plan.RelationalNode:
    """A query of one column, which has the query's columns as the fields of a ROW."""
    fields = tuple(Field(f.name, f.type.without_time_attribute()) for f in query.schema.fields)
    row = sql.row(*((f.name, f.type) for f in fields)).not_null()
    columns = tuple(InputRef(i, f.type) for i, f in enumerate(fields))
    made = Call("ROW", columns, row, query.span)
    return plan.Project(input=query, expressions=(made,), schema=Schema.of(("$row", row)), span=query.span)


def _unordered(query: plan.RelationalNode) -> plan.RelationalNode:
    """The rows of a query whose order does not matter."""
    if isinstance(query, plan.Project) and isinstance(query.input, plan.Sort):
        return query.with_inputs((_unordered(query.input),))
    is_sort = isinstance(query, plan.Sort) and query.fetch < 0 and query.offset == 0
    return query.inputs[0] if is_sort else query


def _filter(
    node: plan.RelationalNode, condition: Expression | None, span: Span | None
) -> plan.RelationalNode:
    assert condition is not None
    return plan.Filter(input=node, condition=condition, schema=node.schema, span=span)


def _first_columns(node: plan.RelationalNode, width: int) -> plan.RelationalNode:
    if len(node.schema) == width:
        return node
    fields = node.schema.fields[:width]
    columns = tuple(InputRef(i, f.type) for i, f in enumerate(fields))
    return plan.Project(input=node, expressions=columns, schema=Schema(fields), span=node.span)


def _with_columns(node: plan.RelationalNode, added: list[Expression]) -> plan.RelationalNode:
    if not added:
        return node
    own = references(node.schema.types)
    fields = tuple(Field(f"$f{len(own) + i}", e.type) for i, e in enumerate(added))
    schema = Schema((*node.schema.fields, *fields))
    return plan.Project(input=node, expressions=(*own, *added), schema=schema, span=node.span)
