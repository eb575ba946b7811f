"""Scalar expressions: syntax nodes + a scope → resolved, typed expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.function_ref import FunctionKind
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.planner.bind.expressions.calls import (
    bind_call,
    called_function,
    is_aggregate,
    unknown_function,
)
from sqlstream.planner.bind.expressions.casts import explicit_cast, to_boolean
from sqlstream.planner.bind.expressions.json_functions import bind_is_json, bind_json, is_json_constructor
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.special_calls import (
    STRUCTURED,
    bind_ordered,
    check_current_watermark,
    is_of_array,
    quantified_array,
)
from sqlstream.planner.bind.expressions.subqueries import Subqueries
from sqlstream.planner.bind.expressions.user_functions import bind_user_call, refuse_kind, user_function
from sqlstream.planner.bind.scope import Namespace, Scope, nested_field
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.correlation import outer_reference
from sqlstream.times import UNIT_MONTHS, UNIT_MS
from sqlstream.types import LogicalType, TypeRoot

INTERVAL_UNITS = {"MONTH": 1, "YEAR": UNIT_MONTHS["YEAR"], **UNIT_MS}
"""What an interval counts in one of these units: months, or milliseconds."""

ROW_VALUES_MAX = 20_000
"""Values in the rows of an IN, each of which is an expression to plan: so many take 8 s."""

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


DEPTH_MAX = 320
"""Levels of an expression; a chain such as a - b - … is as deep as it is long, unless it is one of `_CHAINS`, AND or OR."""

_CHAINS: frozenset[type[exp.Expr]] = frozenset({exp.Add, exp.DPipe})
"""Operators of which a chain of more than NESTED_OPERATORS_MAX becomes one call with all operands."""

NESTED_OPERATORS_MAX = 16


_NOT_FOUND = ("SS2001", "SS2003")
"""Codes of names that an outer query may have."""


class StarColumn(exp.Expression):
    """A column that `*` was expanded to: `index` in the scope, so that equal names are not ambiguous."""

    arg_types = {"index": True, "field": False}


class ScalarBinder:
    """Binds expressions over one scope without aggregates and OVER; `place` names the clause in errors.

    `aliases` are names of SELECT items that take precedence over columns (ORDER BY). `over_columns` maps the OVER
    calls that were computed below (ids of syntax nodes) to their columns. `references` maps a column to the place
    that first names it, for errors about it. `subqueries` collects the subqueries of the expressions, for the clause that joins
    them with its rows; without it there may be none.
    """

    def __init__(
        self, namespace: Namespace, scope: Scope, place: str, subqueries: Subqueries | None = None
    ) -> None:
        self.namespace = namespace
        self.scope = scope
        self.place = place
        self.aliases: dict[str, Expression] = {}
        self.over_columns: dict[int, InputRef] = {}
        self.references: dict[int, Span | None] = {}
        self.subqueries = subqueries
        self._depth = 0

    def bind(self, node: exp.Expr) -> Expression:
        """The resolved expression. UserError with the position of the wrong node."""
        check_not_given_up()
        if self._depth > DEPTH_MAX:
            hint = "compute a part of it in a subquery"
            raise UserError(
                "SS3001", f"expression is more than {DEPTH_MAX} levels deep", span=self.span(node), hint=hint
            )
        self._depth += 1
        try:
            return self._bind(node)
        finally:
            self._depth -= 1

    def _bind(self, node: exp.Expr) -> Expression:
        literal = bind_literal(node, self.span(node))
        if literal is not None:
            return literal
        if type(node) in _CHAINS and len(chain := _chain(node)) > NESTED_OPERATORS_MAX:
            self.count(len(chain), node)
            return self.bind_chain(chain)
        self.count(1, node)
        if type(node) in _BINARY:
            if isinstance(node.args["expression"], nodes.Quantified):
                return self.bind_quantified(_BINARY[type(node)], cast(exp.Binary, node))
            if (
                isinstance(node, exp.EQ | exp.NEQ)
                and _row_items(node.this)
                and _row_items(node.args["expression"])
            ):
                equal = self._any_row(node.this, [node.args["expression"]], self.span(node))
                return equal if isinstance(node, exp.EQ) else bind_call("NOT", (equal,), self.span(node))
            if (
                isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE)
                and _row_items(node.this)
                and _row_items(node.args["expression"])
            ):
                return self._compare_rows(node)
            return self.call(_BINARY[type(node)], node, node.this, node.args["expression"])
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise UserError(
                "SS3001",
                f"{_describe(node)} is not supported yet",
                span=self.span(node),
                hint="SHOW FUNCTIONS lists what computes values",
            )
        return handler(self, node)

    def count(self, expressions: int, node: exp.Expr) -> None:
        context = self.namespace.context
        context.size.add(expressions, context.config, self.span(node))

    def bind_condition(self, node: exp.Expr) -> Expression:
        return to_boolean(self.bind(node), self.place, self.span(node))

    def span(self, node: exp.Expr | None) -> Span | None:
        return self.namespace.span(node)

    def call(self, name: str, node: exp.Expr, *args: exp.Expr) -> Expression:
        return bind_call(name, tuple(self.bind(a) for a in args), self.span(node))

    def column(self, index: int, span: Span | None) -> Expression:
        self.references.setdefault(index, span)
        return InputRef(index, self.scope.columns[index].type)

    def bind_column(self, node: exp.Column) -> Expression:
        parts = tuple(str(part.name) for part in node.parts)
        if len(parts) == 1 and parts[0] in self.aliases:
            return self.aliases[parts[0]]
        span = self.span(node)
        if isinstance(node.this, exp.Star):
            raise UserError(
                "SS2009",
                "* is allowed only in a SELECT list or in COUNT(*)",
                span=span,
                hint="name the columns",
            )
        try:
            index, fields = self.scope.resolve(parts, span)
            expression = self.column(index, span)
        except UserError as error:
            found = self._outer_column(parts, span) if error.code in _NOT_FOUND else None
            if found is None:
                raise
            expression, fields = found
        for name in fields:
            expression = field_of(expression, name, span)
        return expression

    def _outer_column(
        self, parts: tuple[str, ...], span: Span | None
    ) -> tuple[Expression, tuple[str, ...]] | None:
        """The column that a name means in the next outer query that has it, and the fields after it."""
        outer = self.namespace.outer
        while outer is not None:
            try:
                index, fields = outer.scope.resolve(parts, span)
            except UserError as error:
                if error.code not in _NOT_FOUND:
                    raise
                outer = outer.outer
                continue
            return outer_reference(outer.depth, index, outer.scope.columns[index].type, span), fields
        return None

    def bind_dot(self, node: exp.Dot) -> Expression:
        return field_of(self.bind(node.this), str(node.args["expression"].name), self.span(node))

    def bind_function(self, node: nodes.FunctionCall) -> Expression:
        name = str(node.this)
        if node.args.get("over") is not None:
            return self.bind_over(node)
        user = user_function(node, self.namespace)
        if user is not None and user.ref.kind in (FunctionKind.TABLE, FunctionKind.PROCESS_TABLE):
            raise refuse_kind(user, self.span(node))
        if is_aggregate(name) if user is None else user.ref.kind is FunctionKind.AGGREGATE:
            return self.bind_aggregate(node)
        for clause, text in (("filter", "FILTER"), ("order", "WITHIN GROUP"), ("nulls", "IGNORE NULLS")):
            if node.args.get(clause) is not None:
                if user is None:
                    self._refuse_unknown(name, node)
                raise UserError(
                    "SS2006",
                    f"{name} takes no {text}: it is no aggregate",
                    span=self.span(node),
                    hint="leave it out",
                )
        if node.args.get("is_distinct"):
            raise UserError(
                "SS2006",
                f"{name} takes no DISTINCT: it is no aggregate",
                span=self.span(node),
                hint="leave it out, or write SELECT DISTINCT",
            )
        if user is None:
            self._refuse_unknown(name, node)
        args = tuple(self.bind(a) for a in node.expressions)
        if user is not None:
            return bind_user_call(user, args, self.span(node))
        if name in STRUCTURED:
            return STRUCTURED[name](args, self.span(node))
        if name == "JSON_STRING" and len(args) == 1 and is_json_constructor(args[0]):
            return args[0]
        bound = called_function(name, args, self.span(node))
        if name == "CURRENT_WATERMARK":
            check_current_watermark(args, self.place, self.span(node))
        if name == "CURRENT_DATABASE":
            return Literal(self.namespace.context.current_database, bound.type)
        return bound

    def _refuse_unknown(self, name: str, node: nodes.FunctionCall) -> None:
        """The error for a function that there is not comes before those of its arguments, which are those of another dialect."""
        if name in SCALAR_FUNCTIONS or name in STRUCTURED:
            return
        texts = [self.namespace.context.source(self.span(a)) for a in node.expressions]
        raise unknown_function(name, self.span(node), texts if all(texts) else None)

    def bind_over(self, node: nodes.FunctionCall) -> Expression:
        found = self.over_columns.get(id(node))
        if found is not None:
            return found
        raise UserError(
            "SS2009",
            f"{node.this}() OVER has no place in {self.place}",
            span=self.span(node),
            hint="compute it in the SELECT list of a subquery and refer to its column here",
        )

    def bind_aggregate(self, node: nodes.FunctionCall) -> Expression:
        hint = "move the condition to HAVING" if self.place == "WHERE" else "aggregate in a subquery"
        raise UserError(
            "SS2009", f"aggregate {node.this} has no place in {self.place}", span=self.span(node), hint=hint
        )

    def bind_not(self, node: exp.Not) -> Expression:
        if isinstance(node.this, exp.Is):
            return self.bind_is(node.this, "IS NOT")
        return self.call("NOT", node, node.this)

    def bind_is(self, node: exp.Is, operator: str = "IS") -> Expression:
        test = node.args["expression"]
        if isinstance(test, exp.Null):
            return self.call(f"{operator} NULL", node, node.this)
        if isinstance(test, exp.Boolean):
            return self.call(f"{operator} {'TRUE' if test.this else 'FALSE'}", node, node.this)
        if str(test.this) == "UNKNOWN":
            return self.call(f"{operator} UNKNOWN", node, node.this)
        return bind_is_json(self, node, is_negated=operator == "IS NOT")

    def bind_connector(self, node: exp.Connector) -> Expression:
        name = "AND" if isinstance(node, exp.And) else "OR"
        parts = _flatten(node)
        self.count(len(parts) - 2, node)
        return bind_call(name, tuple(self.bind(part) for part in parts), self.span(node))

    def bind_chain(self, chain: list[exp.Expr]) -> Expression:
        """Operators of one kind from the first to the last, each of which has the one before it as its left side."""
        name, last = _BINARY[type(chain[0])], chain[-1]
        first = self.bind(chain[0].this)
        if name == "||":
            rest = (self.bind(node.args["expression"]) for node in chain)
            return bind_call(name, (first, *rest), self.span(last))
        # The sum so far is one call with the operands; its stand-in has its type, and makes no tree as deep as the chain.
        stand_in, operands, total = first, [first], first
        for node in chain:
            total = bind_call(name, (stand_in, self.bind(node.args["expression"])), self.span(node))
            assert isinstance(total, Call)
            left, right = total.args
            if len(operands) == 1:
                operands = [left, right]
            elif left is stand_in and total.type.same_as(stand_in.type):
                operands.append(right)
            else:
                so_far = Call(name, tuple(operands), stand_in.type, total.span)
                operands = [_with_operand(left, stand_in, so_far), right]
            stand_in = InputRef(0, total.type)
        return Call(name, tuple(operands), total.type, self.span(last))

    def bind_between(self, node: exp.Between) -> Expression:
        value, span = self.bind(node.this), self.span(node)
        low, high = self.bind(node.args["low"]), self.bind(node.args["high"])

        def within(a: Expression, b: Expression) -> Expression:
            return bind_call(
                "AND", (bind_call(">=", (value, a), span), bind_call("<=", (value, b), span)), span
            )

        if node.args.get("symmetric"):
            return bind_call("OR", (within(low, high), within(high, low)), span)
        return within(low, high)

    def bind_overlaps(self, node: nodes.Overlaps) -> Expression:
        span = self.span(node)
        bound = [self.bind(part) for part in node.expressions]
        periods = []
        for start, end in (bound[:2], bound[2:]):
            if sql.is_interval(end.type):
                end = bind_call("+", (start, end), span)
            periods.append(
                (bind_call("LEAST", (start, end), span), bind_call("GREATEST", (start, end), span))
            )
        (start, end), (other_start, other_end) = periods
        touches = [bind_call(">=", pair, span) for pair in ((end, other_start), (other_end, start))]
        return bind_call("AND", tuple(touches), span)

    def bind_like(self, node: nodes.Like) -> Expression:
        name = "SIMILAR TO" if node.args.get("is_similar") else "LIKE"
        escape = node.args.get("escape")
        return self.call(name, node, node.this, node.args["expression"], *([escape] if escape else []))

    def bind_in(self, node: exp.In) -> Expression:
        query = node.args.get("query")
        if query is None:
            if all(_row_items(e) for e in (node.this, *node.expressions)):
                return self._any_row(node.this, node.expressions, self.span(node))
            return self.call("IN", node, node.this, *node.expressions)
        return self.subqueries_here(node).in_query(self, node.this, query, self.span(node))

    def _any_row(self, row: exp.Expr, others: list[exp.Expr], span: Span | None) -> Expression:
        """Whether a row of values equals any of the others: `(a, b) = (c, d)` is `a = c AND b = d`."""
        values = [self.bind(v) for v in _row_items(row)]
        if len(values) * len(others) > ROW_VALUES_MAX:
            raise UserError(
                "SS3019",
                f"IN compares {len(others)} rows of {len(values)} values: more than {ROW_VALUES_MAX} values",
                span=self.span(row),
                hint="write the rows into a file or table, and compare with IN (SELECT … FROM it)",
            )
        found = []
        for other in others:
            items = _row_items(other)
            if len(items) != len(values):
                raise _row_lengths(len(values), len(items), self.span(other) or span)
            pairs = zip(values, items, strict=True)
            equal = tuple(bind_call("=", (a, self.bind(b)), span) for a, b in pairs)
            found.append(equal[0] if len(equal) == 1 else bind_call("AND", equal, span))
        return found[0] if len(found) == 1 else bind_call("OR", tuple(found), span)

    def _compare_rows(self, node: exp.Binary) -> Expression:
        """Rows in the order of their first unequal values: `(a, b) < (c, d)` is `a < c OR a = c AND b < d`."""
        span, operator = self.span(node), _BINARY[type(node)]
        left, right = _row_items(node.this), _row_items(node.args["expression"])
        if len(left) != len(right):
            raise _row_lengths(len(left), len(right), self.span(node.args["expression"]) or span)
        pairs = [(self.bind(a), self.bind(b)) for a, b in zip(left, right, strict=True)]
        compared = bind_call(operator, pairs[-1], span)
        for pair in reversed(pairs[:-1]):
            within = bind_call("AND", (bind_call("=", pair, span), compared), span)
            compared = bind_call("OR", (bind_call(operator[0], pair, span), within), span)
        return compared

    def bind_quantified(self, operator: str, node: exp.Binary) -> Expression:
        """`value operator ANY|ALL (…)`."""
        right, span = node.args["expression"], self.span(node)
        if right.this is not None:
            is_all = bool(right.args["is_all"])
            return self.subqueries_here(node).quantified(self, operator, node.this, right.this, is_all, span)
        value, written = self.bind(node.this), right.expressions
        if len(written) == 1 and is_of_array(value, array := self.bind(written[0])):
            (one,) = written
            is_listed = isinstance(one, nodes.FunctionCall) and str(one.this) == "ARRAY" and one.expressions
            if not is_listed:
                return quantified_array(operator, value, array, bool(right.args["is_all"]), span)
            written = one.expressions
        compared = tuple(bind_call(operator, (value, self.bind(e)), span) for e in written)
        return (
            compared[0]
            if len(compared) == 1
            else bind_call("AND" if right.args["is_all"] else "OR", compared, span)
        )

    def subqueries_here(self, node: exp.Expr) -> Subqueries:
        if self.subqueries is None:
            raise UserError(
                "SS3470",
                f"a subquery has no place in {self.place}",
                span=self.span(node),
                hint="compute it in the SELECT list of a subquery in FROM, and refer to its column here",
            )
        return self.subqueries

    def outer_column_of(self, index: int, type_: LogicalType, span: Span | None) -> InputRef:
        """The column of this place's rows that a subquery means by column `index` of the scope."""
        return InputRef(index, type_)

    def bind_case(self, node: exp.Case) -> Expression:
        operand = self.bind(node.this) if node.this is not None else None
        args: list[Expression] = []
        for branch in node.args["ifs"]:
            condition, span = self._when(branch.this, operand), self.span(branch.this)
            args += [to_boolean(condition, "WHEN", span), self.bind(branch.args["true"])]
        default = node.args.get("default")
        args.append(Literal(None, sql.NULL) if default is None else self.bind(default))
        return bind_call("CASE", tuple(args), self.span(node))

    def _when(self, node: exp.Expr, operand: Expression | None) -> Expression:
        """The condition of one WHEN: with an operand, that it is equal to the value, or to one of the values."""
        if operand is None:
            return self.bind(node)
        values = node.expressions if isinstance(node, exp.Tuple) else [node]
        equal = tuple(bind_call("=", (operand, self.bind(v)), self.span(v)) for v in values)
        return equal[0] if len(equal) == 1 else bind_call("OR", equal, self.span(node))

    def bind_cast(self, node: exp.Cast) -> Expression:
        name = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        value, target, span = self.bind(node.this), nodes.cast_type(node), self.span(node)
        unit = nodes.cast_unit(node)
        if unit and sql.is_integer(value.type):
            return _count_of_units(name, value, target, unit, span)
        if (written := nodes.difference_range(node)) and not sql.is_interval(value.type):
            hint = f"{written} stands behind a difference of times; write CAST(… AS INTERVAL DAY) for a number of days"
            raise UserError(
                "SS2008",
                f"a difference of type {value.type.with_nullable(True)} has no {written}",
                span=span,
                hint=hint,
            )
        return explicit_cast(name, value, target, span)

    def bind_symbol(self, node: exp.Var) -> Expression:
        """A word that is part of a function's syntax, such as the unit of EXTRACT."""
        return Literal(str(node.this), sql.STRING.not_null())

    def bind_negation(self, node: exp.Neg) -> Expression:
        return self.call("NEGATE", node, node.this)

    def bind_subquery(self, node: exp.Subquery) -> Expression:
        return self.subqueries_here(node).scalar(self, node.this, self.span(node))

    def bind_exists(self, node: exp.Exists) -> Expression:
        return self.subqueries_here(node).exists(self, node.this, self.span(node))

    def bind_lone_quantified(self, node: nodes.Quantified) -> Expression:
        raise UserError(
            "SS3472",
            "ANY, SOME and ALL stand behind a comparison",
            span=self.span(node),
            hint="write value = ANY (SELECT …)",
        )

    def bind_star_column(self, node: StarColumn) -> Expression:
        column, field = self.column(node.args["index"], self.span(node)), node.args.get("field")
        return column if field is None else field_of(column, field, self.span(node))

    def bind_star(self, node: exp.Star) -> Expression:
        raise UserError(
            "SS2009",
            "* is allowed only in a SELECT list or in COUNT(*)",
            span=self.span(node),
            hint="name the columns",
        )


def field_of(expression: Expression, name: str, span: Span | None) -> Expression:
    """A field of a ROW value; NULL where the row is NULL."""
    t: LogicalType = expression.type
    if t.root is TypeRoot.VARIANT:
        return bind_call("ITEM", (expression, Literal(name, sql.STRING.not_null())), span)
    index = nested_field(t, name, span)
    result = t.fields[index].type
    args = (expression, Literal(index, sql.INT.not_null()))
    return Call("FIELD", args, result.with_nullable(result.nullable or t.nullable), span)


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """A left-deep chain of one binary operator, from the operator that is applied first."""
    chain = []
    part: Any = node
    while type(part) is type(node):
        chain.append(part)
        part = part.this
    return chain[::-1]


def _count_of_units(
    function: str, count: Expression, target: LogicalType, unit: str, span: Span | None
) -> Expression:
    """A number as an interval: CAST(5 AS INTERVAL DAY) is 5 days. TRY_CAST is NULL for more than an interval holds."""
    of_one = INTERVAL_UNITS[unit]
    product = bind_call("*", (count, Literal(of_one, target.not_null())), span)
    if function == "CAST":
        return product
    bits = 31 if target.root is TypeRoot.INTERVAL_YEAR_MONTH else 63
    most = Literal((2**bits - 1) // of_one, sql.BIGINT.not_null())
    least = Literal(-((2**bits) // of_one), sql.BIGINT.not_null())
    fits = (bind_call("<=", (count, most), span), bind_call(">=", (count, least), span))
    return bind_call("CASE", (bind_call("AND", fits, span), product, Literal(None, product.type)), span)


def _with_operand(expression: Expression, stand_in: Expression, operand: Expression) -> Expression:
    """`stand_in`, or a cast of it, with `operand` in its place."""
    if expression is stand_in:
        return operand
    assert isinstance(expression, Call)
    return Call(expression.function, (operand,), expression.type, expression.span)


def _row_lengths(left: int, right: int, span: Span | None) -> UserError:
    return UserError("SS3475", f"a row of {left} values is compared with one of {right}", span=span)


def _row_items(node: exp.Expr) -> list[exp.Expr]:
    """The values of a row that is written out; none for anything else."""
    is_row = isinstance(node, nodes.FunctionCall) and str(node.this) == "ROW"
    return list(node.expressions) if is_row else []


def _flatten(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a left-deep chain of AND or of OR, without recursion."""
    operands: list[exp.Expr] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if type(part) is type(node):
            stack += [part.args["expression"], part.this]
        else:
            operands.append(part)
    return operands


def _describe(node: exp.Expr) -> str:
    names: dict[type[exp.Expr], str] = {exp.Tuple: "a list of values", exp.Lambda: "a lambda"}
    return names.get(type(node), type(node).__name__.upper())


def _bind_bracket(binder: ScalarBinder, node: exp.Bracket) -> Expression:
    container = binder.bind(node.this)
    if container.type.root not in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.VARIANT, TypeRoot.NULL):
        raise UserError(
            "SS2008",
            f"only an ARRAY, a MAP or a VARIANT takes [ ], not {container.type.without_time_attribute()}",
            span=binder.span(node),
            hint="leave [ ] out, or name a column of such a type",
        )
    return bind_call("ITEM", (container, binder.bind(node.expressions[0])), binder.span(node))


_HANDLERS: dict[type[exp.Expr], Callable[[Any, Any], Expression]] = {
    exp.Column: ScalarBinder.bind_column,
    exp.Dot: ScalarBinder.bind_dot,
    exp.Star: ScalarBinder.bind_star,
    StarColumn: ScalarBinder.bind_star_column,
    exp.Neg: ScalarBinder.bind_negation,
    exp.Not: ScalarBinder.bind_not,
    exp.Is: ScalarBinder.bind_is,
    exp.And: ScalarBinder.bind_connector,
    exp.Or: ScalarBinder.bind_connector,
    exp.Between: ScalarBinder.bind_between,
    exp.In: ScalarBinder.bind_in,
    exp.Exists: ScalarBinder.bind_exists,
    exp.Subquery: ScalarBinder.bind_subquery,
    nodes.Quantified: ScalarBinder.bind_lone_quantified,
    exp.Case: ScalarBinder.bind_case,
    exp.Cast: ScalarBinder.bind_cast,
    exp.TryCast: ScalarBinder.bind_cast,
    exp.Var: ScalarBinder.bind_symbol,
    exp.Bracket: _bind_bracket,
    nodes.FunctionCall: ScalarBinder.bind_function,
    nodes.JsonCall: bind_json,
    nodes.OrderedCall: bind_ordered,
    nodes.Like: ScalarBinder.bind_like,
    nodes.Overlaps: ScalarBinder.bind_overlaps,
}
