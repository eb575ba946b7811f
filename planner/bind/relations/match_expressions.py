"""Expressions of MATCH_RECOGNIZE: columns of the rows that are mapped to pattern variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, transform
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.user import aggregate_signature
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.calls import check_argument_count, resolve_types
from sqlstream.planner.bind.expressions.casts import cast_to, require_key, to_boolean
from sqlstream.planner.bind.expressions.scalar import ScalarBinder, field_of
from sqlstream.planner.bind.expressions.user_functions import user_function
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.specs import match_recognize
from sqlstream.types import LogicalType

_LOGICAL, _PHYSICAL = ("FIRST", "LAST"), ("PREV", "NEXT")
OFFSET_MAX = 1_000_000


@dataclasses.dataclass(frozen=True)
class MatchVariables:
    """The number of each variable of the pattern, and the numbers of each SUBSET."""

    numbers: Mapping[str, int]
    subsets: Mapping[str, tuple[int, ...]]

    def find(self, name: str) -> tuple[int, ...] | None:
        return (self.numbers[name],) if name in self.numbers else self.subsets.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.numbers, *self.subsets)


class _ColumnBinder(ScalarBinder):
    """A binder with a meaning of its own for columns and calls."""

    def _bind(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Column):
            self.count(1, node)
            return self.bind_column(node)
        # A call with clauses is bound as it is elsewhere, and its arguments with the meaning that they have here.
        if isinstance(node, nodes.FunctionCall) and not isinstance(node, nodes.JsonCall | nodes.OrderedCall):
            self.count(1, node)
            return self.bind_function(node)
        return super()._bind(node)


class RowBinder(_ColumnBinder):
    """Binds an expression over one row of the match; `used` are the variables whose rows it reads (empty: any row)."""

    def __init__(self, namespace: Namespace, scope: Scope, variables: MatchVariables, place: str) -> None:
        super().__init__(namespace, scope, place)
        self.variables = variables
        self.used: tuple[int, ...] | None = None

    def bind_column(self, node: exp.Column) -> Expression:
        parts = tuple(str(part.name) for part in node.parts)
        found = self.variables.find(parts[0]) if len(parts) > 1 else None
        self._use(() if found is None else found, self.span(node))
        if found is None:
            return super().bind_column(node)
        index, fields = self.scope.resolve(parts[1:], self.span(node))
        expression = self.column(index, self.span(node))
        for name in fields:
            expression = field_of(expression, name, self.span(node))
        return expression

    def _use(self, variables: tuple[int, ...], span: Span | None) -> None:
        if self.used is not None and self.used != variables:
            raise UserError(
                "SS3423",
                f"{self.place} reads the rows of one pattern variable",
                span=span,
                hint="write the same variable before each column",
            )
        self.used = variables

    def bind_function(self, node: nodes.FunctionCall) -> Expression:
        name = str(node.this)
        if name in (*_LOGICAL, *_PHYSICAL, "CLASSIFIER", "MATCH_NUMBER", "MATCH_ROWTIME", "MATCH_PROCTIME"):
            message = f"{name} has no place in {self.place}"
            raise UserError("SS3423", message, span=self.span(node), hint="compute it outside of the call")
        return super().bind_function(node)


@dataclasses.dataclass(frozen=True)
class _Way:
    """How a navigation finds its row."""

    is_first: bool = False
    offset: int = 0
    shift: int = 0
    is_final: bool = False


class MatchBinder(_ColumnBinder):
    """Binds the conditions and measures of one MATCH_RECOGNIZE; each is an expression over operands that it collects.

    `time_column` is the row time, -1 for processing time. `has_all_times`: every output row has a last row of its match.
    """

    def __init__(
        self,
        namespace: Namespace,
        scope: Scope,
        variables: MatchVariables,
        rows: match_recognize.RowsPerMatch,
        time_column: int,
        has_all_times: bool,
    ) -> None:
        super().__init__(namespace, scope, "MATCH_RECOGNIZE")
        self._variables = variables
        self._rows = rows
        self._time_column = time_column
        self._has_all_times = has_all_times
        self._own: int | None = None
        self._operands: dict[match_recognize.Operand, int] = {}

    def bind_definition(self, node: exp.Expr, variable: int) -> match_recognize.MatchExpression:
        """The condition of a variable."""
        self.place, self._own = "DEFINE", variable
        bound = self._bind_operands(node)
        condition = to_boolean(bound.expression, "DEFINE", self.span(node))
        return match_recognize.MatchExpression(condition, bound.operands)

    def bind_measure(self, node: exp.Expr) -> match_recognize.MatchExpression:
        self.place, self._own = "MEASURES", None
        return self._bind_operands(node)

    def _bind_operands(self, node: exp.Expr) -> match_recognize.MatchExpression:
        self._operands = {}
        expression = self.bind(node)
        return match_recognize.MatchExpression(expression, tuple(self._operands))

    def _operand(self, operand: match_recognize.Operand, t: LogicalType) -> Expression:
        return InputRef(self._operands.setdefault(operand, len(self._operands)), t)

    # -- columns and navigation ----------------------------------------------------------------------

    def bind_column(self, node: exp.Column) -> Expression:
        row = self._row(f"a column in {self.place}")
        return self._navigated(row, row.bind(node), _Way())

    def _row(self, place: str) -> RowBinder:
        return RowBinder(self.namespace, self.scope, self._variables, place)

    def _navigated(self, row: RowBinder, expression: Expression, way: _Way) -> Expression:
        """`expression` over the columns of one row, as one over operands."""
        variables = row.used or ()
        is_last = not way.is_first and way.offset == 0
        if self._own in variables and is_last:
            # The current row is mapped to the variable whose condition is bound.
            variables = ()
        has_row = (
            is_last and not variables and not way.shift and (self._own is not None or self._has_all_times)
        )

        def operand(node: Expression) -> Expression:
            if not isinstance(node, InputRef):
                return node
            t = node.type.without_time_attribute()
            found = match_recognize.Navigation(
                node.index, variables, way.is_first, way.offset, way.shift, way.is_final
            )
            return self._operand(found, t if has_row else t.with_nullable(True))

        return transform(expression, operand)

    def bind_function(self, node: nodes.FunctionCall) -> Expression:
        name, is_final = str(node.this), self._is_final(node)
        if name in (*_LOGICAL, *_PHYSICAL):
            return self._bind_navigation(node, is_final)
        if name == "CLASSIFIER":
            return self._bind_classifier(node, _Way(is_final=is_final))
        if name in ("MATCH_NUMBER", "MATCH_ROWTIME", "MATCH_PROCTIME"):
            return self._bind_match_value(node)
        is_user = user_function(node, self.namespace) is not None
        if node.args.get("semantics") and name not in AGGREGATE_FUNCTIONS and not is_user:
            hint = "write it before FIRST, LAST, CLASSIFIER or an aggregate"
            message = f"{node.args['semantics']} has no meaning for {name}"
            raise UserError("SS3423", message, span=self.span(node), hint=hint)
        return super().bind_function(node)

    def _is_final(self, node: nodes.FunctionCall) -> bool:
        is_final = node.args.get("semantics") == "FINAL"
        if is_final and self._own is not None:
            hint = "leave FINAL out"
            message = "DEFINE sees the rows that are mapped so far, so that FINAL has no meaning"
            raise UserError("SS3423", message, span=self.span(node), hint=hint)
        # One row per match is its last, where both are the same.
        return is_final and self._rows is not match_recognize.RowsPerMatch.ONE

    def _bind_navigation(self, node: nodes.FunctionCall, is_final: bool) -> Expression:
        name = str(node.this)
        if name in _PHYSICAL and node.args.get("semantics"):
            hint = f"write {name}({node.args['semantics']} LAST(…))"
            message = f"{node.args['semantics']} has no meaning for {name}"
            raise UserError("SS3423", message, span=self.span(node), hint=hint)
        way, inner = self._way(node, _Way(is_final=is_final)), node.expressions[0]
        if name in _PHYSICAL and isinstance(inner, nodes.FunctionCall) and str(inner.this) in _LOGICAL:
            way = self._way(inner, dataclasses.replace(way, is_final=self._is_final(inner)))
            inner = inner.expressions[0]
        if isinstance(inner, nodes.FunctionCall) and str(inner.this) == "CLASSIFIER" and not way.shift:
            return self._bind_classifier(inner, way)
        row = self._row(name)
        bound = row.bind(inner)
        if row.used is None:
            hint = f"write {name}(x.column)"
            raise UserError(
                "SS3423", f"{name} takes an expression with a column", span=self.span(node), hint=hint
            )
        return self._navigated(row, bound, way)

    def _way(self, node: nodes.FunctionCall, way: _Way) -> _Way:
        """`way` with the offset of the call: none is 0 for FIRST and LAST and 1 for PREV and NEXT."""
        name, arguments = str(node.this), node.expressions
        if not 1 <= len(arguments) <= 2:
            message = f"{name} takes 1 to 2 arguments, not {len(arguments)}"
            raise UserError("SS2006", message, span=self.span(node), hint=f"write {name}(x.column, 1)")
        offset = 0 if name in _LOGICAL else 1
        if len(arguments) == 2:
            written = arguments[1]
            text = str(written.this) if isinstance(written, exp.Literal) and not written.is_string else ""
            if not text.isdigit() or int(text) > OFFSET_MAX:
                message = f"the offset of {name} is a whole number from 0 to {OFFSET_MAX}"
                raise UserError("SS3423", message, span=self.span(written), hint="write it as a literal")
            offset = int(text)
        if name in _LOGICAL:
            return dataclasses.replace(way, is_first=name == "FIRST", offset=offset)
        return dataclasses.replace(way, shift=-offset if name == "PREV" else offset)

    # -- what a match is ------------------------------------------------------------------------------

    def _bind_classifier(self, node: nodes.FunctionCall, way: _Way) -> Expression:
        variables: tuple[int, ...] = ()
        if node.expressions:
            written = node.expressions[0]
            name = str(written.name) if isinstance(written, exp.Column) else ""
            found = self._variables.find(name)
            if found is None or len(node.expressions) > 1:
                hint = suggest(name, list(self._variables.names), "pattern variables")
                message = "CLASSIFIER takes a pattern variable or nothing"
                raise UserError("SS3423", message, span=self.span(node), hint=hint)
            variables = found
        if self._own in variables and not way.is_first and way.offset == 0:
            variables = ()
        operand = match_recognize.Classifier(variables, way.is_first, way.offset, way.is_final)
        return self._operand(operand, sql.STRING)

    def _bind_match_value(self, node: nodes.FunctionCall) -> Expression:
        name, span = str(node.this), self.span(node)
        if self._own is not None:
            message = f"{name} has no place in DEFINE"
            raise UserError("SS3423", message, span=span, hint="use it in MEASURES")
        if node.expressions and name != "MATCH_ROWTIME":
            raise UserError("SS2006", f"{name} takes no arguments", span=span, hint=f"write {name}()")
        nullable = self._rows is match_recognize.RowsPerMatch.ALL_WITH_UNMATCHED
        if name == "MATCH_NUMBER":
            return self._operand(match_recognize.MatchNumber(), sql.BIGINT.with_nullable(nullable))
        if name == "MATCH_PROCTIME":
            return self._operand(match_recognize.MatchTime(), sql.PROCTIME)
        return self._bind_row_time(node, span)

    def _bind_row_time(self, node: nodes.FunctionCall, span: Span | None) -> Expression:
        if self._time_column < 0:
            hint = "use MATCH_PROCTIME(), or order by a column with a watermark"
            message = "MATCH_ROWTIME needs rows that are ordered by row time"
            raise UserError("SS3424", message, span=span, hint=hint)
        for written in node.expressions:
            bound = ScalarBinder(self.namespace, self.scope, "MATCH_ROWTIME").bind(written)
            if len(node.expressions) > 1 or bound != InputRef(self._time_column, bound.type):
                hint = "write MATCH_ROWTIME()"
                message = "MATCH_ROWTIME takes the column that ORDER BY begins with"
                raise UserError("SS3424", message, span=self.span(written), hint=hint)
        t = self.scope.columns[self._time_column].type
        if not self._has_all_times:
            t = t.without_time_attribute().with_nullable(True)
        is_final = self._rows is not match_recognize.RowsPerMatch.ONE
        return self._operand(match_recognize.Navigation(self._time_column, is_final=is_final), t)

    # -- aggregates -------------------------------------------------------------------------------------

    def bind_aggregate(self, node: nodes.FunctionCall) -> Expression:
        name, span = str(node.this), self.span(node)
        for clause, text in (("order", "WITHIN GROUP (ORDER BY …)"), ("nulls", "IGNORE NULLS")):
            if node.args.get(clause) is not None:
                raise UserError(
                    "SS3001",
                    f"{text} is not supported in MATCH_RECOGNIZE",
                    span=span,
                    hint="compute it over the rows that MATCH_RECOGNIZE returns",
                )
        row = self._row(f"the argument of {name}")
        counted = self._counted(node)
        args = () if counted is not None else tuple(row.bind(a) for a in node.expressions)
        variables = row.used or () if counted is None else counted
        user = user_function(node, self.namespace)
        function = AGGREGATE_FUNCTIONS[name] if user is None else aggregate_signature(user.ref)
        check_argument_count(function, len(args), span)
        is_distinct = bool(node.args.get("is_distinct"))
        if (name == "COUNT" and not node.expressions) or (is_distinct and not args):
            raise UserError("SS2006", f"{name} takes an argument", span=span, hint=f"write {function.usage}")
        if is_distinct:
            for arg, written in zip(args, node.expressions, strict=True):
                require_key(arg, f"{name}(DISTINCT …)", self.span(written))
        result, wanted = resolve_types(function, args, span)
        condition = node.args.get("filter")
        operand = match_recognize.MatchAggregate(
            function.name,
            tuple(cast_to(a, t, span) for a, t in zip(args, wanted, strict=True)),
            variables,
            is_distinct,
            self._is_final(node),
            row.bind_condition(condition) if condition is not None else None,
            None if user is None else user.ref,
        )
        return self._operand(operand, result)

    def _counted(self, node: nodes.FunctionCall) -> tuple[int, ...] | None:
        """The variables of COUNT(*) and COUNT(x.*); None for another call."""
        if str(node.this) != "COUNT" or len(node.expressions) != 1:
            return None
        written = node.expressions[0]
        if isinstance(written, exp.Star):
            return ()
        if not isinstance(written, exp.Column) or not isinstance(written.this, exp.Star):
            return None
        name = str(written.parts[0].name)
        found = self._variables.find(name)
        if found is None or len(written.parts) != 2:
            hint = suggest(name, list(self._variables.names), "pattern variables")
            message = f'"{name}" is no variable of the pattern'
            raise UserError("SS3422", message, span=self.span(written), hint=hint)
        return found
