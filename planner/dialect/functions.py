"""The grammar of function calls: the plain form, SQL's special argument forms, and what may follow them."""

from __future__ import annotations

from typing import Any

from sqlglot import Token, TokenType, exp

from sqlstream.planner.dialect import json_functions
from sqlstream.planner.dialect.expressions import ExpressionParser
from sqlstream.planner.dialect.nodes import FrameBound, FunctionCall, OrderedCall, OverClause
from sqlstream.planner.dialect.tokens import RESERVED, is_word, word

_RESERVED_CALLS = frozenset({"LEFT", "RIGHT", "GROUPING", "EXTRACT", "TRIM", "OVERLAY"})
_EXTRACT_UNITS = (
    *(
        "MILLENNIUM",
        "CENTURY",
        "DECADE",
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
    ),
    *("MILLISECOND", "MICROSECOND", "NANOSECOND", "DOW", "ISODOW", "DOY", "ISOYEAR", "EPOCH"),
)
_ADD_UNITS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    *("MILLISECOND", "MICROSECOND", "NANOSECOND"),
)

_ODBC_UNITS = {f"SQL_TSI_{unit}": unit for unit in _ADD_UNITS} | {"SQL_TSI_FRAC_SECOND": "NANOSECOND"}


def can_be_called(token: Token) -> bool:
    """Whether `token` names a function when a parenthesis follows it."""
    is_reserved = word(token) in RESERVED and word(token) not in _RESERVED_CALLS
    return token.token_type is TokenType.IDENTIFIER or (is_word(token) and not is_reserved)


_ORDERED = ("LISTAGG", "ARRAY_AGG", "STRING_AGG", "GROUP_CONCAT")
"""Aggregates that take an order behind their arguments; those of other dialects are unknown to the binder, which says so."""


class FunctionParser(ExpressionParser):
    """Reads calls. A function keeps its name and the order of its arguments.

    FUNCTIONS, the table by which sqlglot renames and rewrites them, is empty.
    """

    FUNCTIONS = {}
    NO_PAREN_FUNCTIONS = {}
    FUNCTION_PARSERS = {
        "EXTRACT": lambda self: self._extract(),
        "FLOOR": lambda self: self._round_to(),
        "CEIL": lambda self: self._round_to(),
        "CEILING": lambda self: self._round_to(),
        "TIMESTAMPADD": lambda self: self._timestamp_arithmetic(),
        "TIMESTAMPDIFF": lambda self: self._timestamp_arithmetic(),
        "POSITION": lambda self: self._position_arguments(),
        "TRIM": lambda self: self._trim(),
        "SUBSTRING": lambda self: self._from_for(),
        "OVERLAY": lambda self: self._overlay(),
    }

    def _parse_function_call(self, *_: Any, **__: Any) -> exp.Expr | None:
        """Read `name(arguments)` and what may follow: WITHIN GROUP, FILTER, IGNORE NULLS, OVER."""
        token = self.token
        if not can_be_called(token):
            return None
        name = token.text.upper()
        self._advance()
        self.expect("(")
        if name in json_functions.READERS:
            return self.mark(self._json_call(name), token.start)
        node = FunctionCall(this=name, expressions=[])
        special = self.FUNCTION_PARSERS.get(name)
        node.set("expressions", special(self) if special else self._arguments(node))
        if name == "APPROX_COUNT_DISTINCT":
            self._count_exactly(node, token)
        if name == "SUBSTR" and self.at("FROM"):
            raise self.unexpected(
                hint="write SUBSTRING(x FROM start FOR length), or SUBSTR(x, start, length)"
            )
        self.expect(")")
        return self.mark(ordered_aggregate(self._parse_window(node)), token.start)

    def _count_exactly(self, node: FunctionCall, token: Token) -> None:
        """An approximation cannot take rows back, and no two engines approximate alike: the exact count can, and is one."""
        if len(node.expressions) != 1:
            raise self.refusal(
                f"APPROX_COUNT_DISTINCT takes 1 argument, not {len(node.expressions)}",
                token,
                "write APPROX_COUNT_DISTINCT(value)",
            )
        node.set("this", "COUNT")
        node.set("is_distinct", True)

    def _qualified_call(self, name: exp.Column, first: Token) -> exp.Expression:
        parts = [str(part.name) for part in name.parts]
        call = FunctionCall(this=parts[-1].upper(), expressions=[])
        call.meta["qualifier"] = tuple(parts[:-1])
        self.expect("(")
        call.set("expressions", self._arguments(call))
        self.expect(")")
        return self.mark(self._parse_window(call), first.start)

    def _json_call(self, name: str) -> exp.Expr:
        node = json_functions.READERS[name](self)
        self.expect(")")
        joined = json_functions.aggregate_of(node)
        if joined is not None:
            self._parse_window(joined)
        return node

    def _arguments(self, node: FunctionCall) -> list[exp.Expression]:
        if self.at(")"):
            return []
        if self.accept_any("DISTINCT", "ALL") == "DISTINCT":
            node.set("is_distinct", True)
        if self.at("*") and node.this == "COUNT":
            start = self.advance().start
            return [self.mark(exp.Star(), start)]
        if self.at("*"):
            raise self.unexpected("an expression", "write COUNT(*), or name a column")
        if self.at_query():
            raise self.unexpected("an expression", "put a scalar subquery in its own parentheses")
        arguments = self._parse_csv(self._argument)
        self._null_treatment(node)
        if node.this in _ORDERED and self.at("ORDER", "BY"):
            node.set("order", self._parse_order())
        return arguments

    def _argument(self) -> exp.Expression:
        if word(self.peek(1)) == "=>":
            token = self.advance()
            self.advance()
            hint = "pass the arguments by position"
            raise self.refusal(f'the named argument "{token.text}" is not supported here', token, hint)
        if self.at("DESCRIPTOR", "(") or self.at("TABLE"):
            token = self.advance()
            hint = "call a table function in FROM, as in FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), …))"
            raise self.refusal(f"{word(token)} is an argument of table functions", token, hint)
        return self.value()

    def _unit(self, allowed: tuple[str, ...]) -> exp.Expression:
        start = self.token.start
        return self.mark(exp.Var(this=self.time_unit(allowed)), start)

    def _counted_unit(self) -> exp.Expression:
        """The unit of TIMESTAMPADD or TIMESTAMPDIFF, also under its name in ODBC."""
        if word(self.token) in _ODBC_UNITS:
            token = self.advance()
            return self.mark(exp.Var(this=_ODBC_UNITS[word(token)]), token.start)
        return self._unit(_ADD_UNITS)

    def _extract(self) -> list[exp.Expression]:
        unit = self._unit(_EXTRACT_UNITS)
        self.expect("FROM", hint="write EXTRACT(unit FROM timestamp)")
        return [unit, self.value()]

    def _round_to(self) -> list[exp.Expression]:
        arguments = self.values()
        if len(arguments) == 1 and self.accept("TO"):
            arguments.append(self._unit(_EXTRACT_UNITS))
        return arguments

    def _timestamp_arithmetic(self) -> list[exp.Expression]:
        unit = self._counted_unit()
        self.expect(",")
        return [unit, *self.values()]

    def _position_arguments(self) -> list[exp.Expression]:
        # Read as an operand, so that IN is not read as the test IN (…).
        needle = self.operand()
        self.expect("IN", hint="write POSITION(part IN text)")
        return [needle, self.value()]

    def _trim(self) -> list[exp.Expression]:
        start = self.token.start
        where = self.accept_any("BOTH", "LEADING", "TRAILING")
        side = exp.Var(this=where or "BOTH")
        if where:
            self.mark(side, start)
        if where and self.accept("FROM"):
            return [side, exp.Literal(this=" ", is_string=True), self.value()]
        first = self.value()
        if self.accept("FROM"):
            return [side, first, self.value()]
        if where or self.at(","):
            raise self.unexpected('"FROM"', "write TRIM(BOTH 'x' FROM text)")
        return [side, exp.Literal(this=" ", is_string=True), first]

    def _from_for(self) -> list[exp.Expression]:
        """`x FROM a [FOR n]`, or the plain `x, a, n`."""
        arguments = self.values()
        if len(arguments) == 1 and self.accept("FROM"):
            arguments.append(self.value())
            if self.accept("FOR"):
                arguments.append(self.value())
        return arguments

    def _overlay(self) -> list[exp.Expression]:
        text = self.value()
        hint = "write OVERLAY(text PLACING replacement FROM start FOR length)"
        self.expect("PLACING", hint=hint)
        replacement = self.value()
        self.expect("FROM", hint=hint)
        arguments = [text, replacement, self.value()]
        if self.accept("FOR"):
            arguments.append(self.value())
        return arguments

    def _parse_window(self, this: FunctionCall, alias: bool = False) -> FunctionCall:  # type: ignore[override]
        if this.args.get("order") is None and self.accept("WITHIN", "GROUP"):
            self.expect("(")
            this.set("order", self._parse_order())
            self.expect(")")
        self._null_treatment(this)
        if self.accept("FILTER", "("):
            self.expect("WHERE")
            this.set("filter", self.value())
            self.expect(")")
        if self.at("OVER"):
            this.set("over", self._over())
        return this

    def _null_treatment(self, node: FunctionCall) -> None:
        if self.at("IGNORE", "NULLS") or self.at("RESPECT", "NULLS"):
            node.set("nulls", word(self.advance()))
            self.advance()

    def _over(self) -> OverClause:
        start = self.expect("OVER").start
        if self.at("("):
            clause = self.window_definition()
        else:
            clause = OverClause(name=self.name("a window name or (").name)
        return self.mark(clause, start)

    def partition_and_order(self, clause: exp.Expression) -> None:
        """Read `PARTITION BY … ORDER BY …`, either of which may be missing."""
        if self.accept("PARTITION"):
            self.expect("BY")
            clause.set("partition_by", self.values())
        if self.accept("ORDER"):
            self.expect("BY")
            clause.set("order_by", self._parse_csv(self._parse_ordered))

    def window_definition(self) -> OverClause:
        """Read `(name PARTITION BY … ORDER BY … frame)`, each part of which may be missing."""
        start = self.expect("(").start
        clause = OverClause()
        if self.at_name() and not self.at_any("ROWS", "RANGE"):
            clause.set("base", self.name("a window name").name)
        self.partition_and_order(clause)
        if frame := self.accept_any("ROWS", "RANGE"):
            clause.set("frame", frame)
            self._frame(clause)
            # All rows of the frame, as without it.
            self.accept("EXCLUDE", "NO", "OTHERS")
        self.expect(")")
        return self.mark(clause, start)

    def _frame(self, clause: OverClause) -> None:
        if self.accept("BETWEEN"):
            clause.set("start", self._bound())
            self.expect("AND", hint="write BETWEEN a bound AND a bound, such as 2 PRECEDING AND CURRENT ROW")
            clause.set("end", self._bound())
        else:
            clause.set("start", self._bound())
            clause.set("end", FrameBound(kind="CURRENT ROW"))

    def _bound(self) -> FrameBound:
        start = self.token.start
        if self.accept("CURRENT"):
            self.expect("ROW")
            return self.mark(FrameBound(kind="CURRENT ROW"), start)
        size = None if self.accept("UNBOUNDED") else self.operand()
        kind = self.accept_any("PRECEDING", "FOLLOWING")
        if kind is None:
            raise self.unexpected(
                "PRECEDING or FOLLOWING", "write a bound such as 2 PRECEDING or CURRENT ROW"
            )
        return self.mark(FrameBound(kind=kind, this=size), start)


# WITHIN GROUP (ORDER BY …) behind an aggregate call, as a function of an aggregate that is there.


_PERCENTILES = ("PERCENTILE", "PERCENTILE_CONT")


def ordered_aggregate(node: FunctionCall) -> FunctionCall:
    """The call, or what LISTAGG, ARRAY_AGG, PERCENTILE and PERCENTILE_CONT with an order are: the binder refuses other ones."""
    order = node.args.get("order")
    if order is None or node.args.get("over") is not None or node.args.get("is_distinct"):
        return node
    keys = order.expressions
    if node.this in _PERCENTILES and len(keys) == 1 and len(node.expressions) == 1:
        share = node.expressions[0]
        if keys[0].args.get("desc"):
            share = exp.Sub(this=exp.Literal.number(1), expression=share)
            share.meta.update(node.expressions[0].meta)
        return FunctionCall(
            this="PERCENTILE", expressions=[keys[0].this, share], filter=node.args.get("filter")
        )
    if node.this in ("LISTAGG", "ARRAY_AGG") and node.expressions:
        return _of_rows(node, keys)
    return node


def _of_rows(node: FunctionCall, keys: list[exp.Expr]) -> OrderedCall:
    value = node.expressions[0]
    row = FunctionCall(this="ROW", expressions=[*(key.this for key in keys), *node.expressions])
    row.meta.update(value.meta)
    condition = node.args.get("filter")
    if node.this == "LISTAGG" or node.args.get("nulls") == "IGNORE":
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        present.meta.update(value.meta)
        present.this.meta.update(value.meta)
        condition = present if condition is None else exp.And(this=condition, expression=present)
    collected = FunctionCall(this="ARRAY_AGG", expressions=[row], filter=condition)
    collected.meta.update(value.meta)
    letters = "".join(
        ("D" if key.args.get("desc") else "A") + ("F" if key.args.get("nulls_first") else "L") for key in keys
    )
    name = "ORDERED_LIST" if node.this == "LISTAGG" else "ORDERED_ARRAY"
    return OrderedCall(this=name, expressions=[collected], keys=letters)
