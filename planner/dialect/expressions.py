"""The grammar of scalar expressions: sqlglot's operator parsing with Calcite's precedences, and our operands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import Token, TokenType, exp
from sqlglot.parser import Parser

from sqlstream import types
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.data_types import data_type
from sqlstream.planner.dialect.literals import UNITS, datetime_value, interval_value, is_interval_range
from sqlstream.planner.dialect.reading import NAMES, Reader
from sqlstream.planner.dialect.tokens import is_word, word

Operand = Callable[["ExpressionParser"], exp.Expr]

_PLURALS = {f"{unit}S": unit for unit in UNITS}
_UNIT_IN_TEXT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_CASE_HINT = "write CASE WHEN condition THEN value … ELSE value END"
_QUANTIFIERS = ("ANY", "SOME", "ALL")
# Functions that are called by their name alone; parentheses after them are refused.
_NILADIC = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_LITERALS = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE})
_PATTERNS = frozenset({TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN})
_AFTER_ITEM = frozenset({TokenType.COMMA, TokenType.R_PAREN})


class ExpressionParser(Reader):
    """Reads scalar expressions. sqlglot climbs from OR to the unary operators by the tables below.

    From loose to tight, as Calcite has it: OR, AND, NOT, IS, the comparisons (all of one rank),
    BETWEEN LIKE IN, + -, and * / % ||.
    """

    ASSIGNMENT = {}
    EQUALITY = {}
    COMPARISON = {**Parser.COMPARISON, TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    TERM = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR = {
        TokenType.STAR: exp.Mul,
        TokenType.SLASH: exp.Div,
        TokenType.MOD: exp.Mod,
        TokenType.DPIPE: exp.DPipe,
    }
    UNARY_PARSERS = {
        TokenType.NOT: Parser.UNARY_PARSERS[TokenType.NOT],
        TokenType.DASH: Parser.UNARY_PARSERS[TokenType.DASH],
        TokenType.PLUS: lambda self: self.expression(exp.Paren(this=self._parse_unary())),
    }
    RANGE_PARSERS = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.IN: lambda self, this: self._parse_in(this),
        TokenType.LIKE: lambda self, this: self._parse_like(this, False),
        TokenType.SIMILAR_TO: lambda self, this: self._parse_like(this, True),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[[Any, Token], exp.Expr]]] = {
        t: Parser.PRIMARY_PARSERS[t]
        for t in (
            *(TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING),
            *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
        )
    }
    _OPERATORS = {*COMPARISON, *TERM, *FACTOR, TokenType.AND, TokenType.OR}
    # A column has all of the dotted parts, whatever follows them.
    COLUMN_OPERATORS = {}
    COLUMN_POSTFIX_TOKENS = frozenset()
    NO_PAREN_FUNCTION_PARSERS = {}

    def value(self) -> exp.Expression:
        """Read one expression."""
        if self._curr.token_type in _LITERALS and self._next.token_type in _AFTER_ITEM:
            # A literal without an operator after it, of which VALUES has thousands, needs no pass through all precedences.
            return cast(exp.Expression, self._parse_primary())
        return self._finished(self._parse_disjunction())

    def values(self) -> list[exp.Expression]:
        """Read one or more expressions between commas."""
        return self._parse_csv(self.value)

    def operand(self) -> exp.Expression:
        """Read an operand of BETWEEN, LIKE or PRECEDING: arithmetic, but no comparison and no AND."""
        return self._finished(self._parse_bitwise())

    def at_query(self) -> bool:
        """Whether a query comes next, parentheses aside."""
        return self.at_any("SELECT", "WITH", "VALUES")

    def query(self) -> exp.Expression:
        """Read a whole query."""
        return self._finished(self._parse_select())

    def _finished(self, node: exp.Expr | None) -> exp.Expression:
        """Return `node`, after a check of the whole tree if `node` is its root."""
        return cast(exp.Expression, node if self._depth else nodes.checked(cast(exp.Expr, node)))

    # The ladder.

    def _build_predicate(
        self,
        klass: type[exp.Binary],
        this: exp.Expr | None,
        expression: exp.Expr | None,
        comments: list[str] | None = None,
        negate: bool = False,
    ) -> exp.Expr:
        return self.expression(klass(this=this, expression=expression))

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        this = self._parse_comparison()
        while self._match(TokenType.IS):
            this = self._parse_comparison(self._parse_range(self._parse_is(this)))
        return this

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        this = this or self._parse_bitwise()
        while True:
            # A NOT without a test after it belongs to the caller: INT NOT NULL.
            is_negated = self._next_is_test() and self._match(TokenType.NOT)
            if self.at("OVERLAPS", "(") and isinstance(this, nodes.FunctionCall) and this.this == "ROW":
                this = self._parse_overlaps(this)
                continue
            if self._is_ilike(self._curr, self._next):
                self._advance()
                this = self._parse_like(this, False, is_folded=True)
            elif self._match_set(self.RANGE_PARSERS):
                this = self.RANGE_PARSERS[self._prev.token_type](self, this)
            else:
                return this
            if is_negated:
                this = self.expression(exp.Not(this=this))

    def _next_is_test(self) -> bool:
        """Whether the word behind the next one begins a test such as LIKE."""
        return self._next.token_type in self.RANGE_PARSERS or self._is_ilike(self._next, self.peek(2))

    @staticmethod
    def _is_ilike(token: Token, following: Token) -> bool:
        """Whether `token` is the operator ILIKE, and no name: a pattern follows it."""
        return word(token) == "ILIKE" and following.token_type in _PATTERNS

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_term()

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        return this

    def _parse_factor_operand(self) -> exp.Expr | None:
        return self._parse_unary()

    def _parse_unary(self) -> exp.Expr | None:
        self.enter()
        token = self.token
        node = super()._parse_unary()
        self.leave()
        if node is not None and token.token_type in self.UNARY_PARSERS:
            self.mark(node, token.start)
        return node

    # The tests.

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr:
        is_negated = self._match(TokenType.NOT)
        if self.accept("DISTINCT", "FROM"):
            node = exp.NullSafeEQ if is_negated else exp.NullSafeNEQ
            return self.expression(node(this=this, expression=self._parse_range()))
        token = self.token
        name = self.accept_any("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON")
        value: exp.Expr
        if name is None:
            raise self.unexpected("NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM")
        if name == "NULL":
            value = exp.Null()
        elif name in ("TRUE", "FALSE"):
            value = exp.Boolean(this=name == "TRUE")
        elif name == "UNKNOWN":
            value = exp.Var(this=name)
        else:
            kind = self.accept_any("VALUE", "ARRAY", "OBJECT", "SCALAR") or "VALUE"
            value = exp.Var(this=f"JSON {kind}")
        test = self.expression(exp.Is(this=this, expression=self.mark(value, token.start)))
        return self.expression(exp.Not(this=test)) if is_negated else test

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        is_symmetric = self.accept_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = self.operand()
        self.expect("AND", hint="write BETWEEN low AND high")
        return self.expression(exp.Between(this=this, low=low, high=self.operand(), symmetric=is_symmetric))

    def _parse_overlaps(self, this: nodes.FunctionCall) -> exp.Expr:
        token = self.advance()
        other = self._parse_paren()
        periods = [this.expressions, other.expressions if isinstance(other, nodes.FunctionCall) else []]
        if any(len(period) != 2 for period in periods):
            hint = "write (start, end) OVERLAPS (start, end), where an end may be an INTERVAL"
            raise self.refusal("OVERLAPS compares two periods", token, hint)
        return self.expression(nodes.Overlaps(expressions=[part for period in periods for part in period]))

    def _parse_like(self, this: exp.Expr | None, is_similar: bool, is_folded: bool = False) -> exp.Expr:
        """The test behind its word. `is_folded`: it is ILIKE, which is LIKE of both sides in small letters."""
        if is_similar:
            self.expect("TO")
        pattern = self.operand()
        if is_folded:
            this, pattern = _lower(cast(exp.Expression, this)), _lower(pattern)
        escape = self.operand() if self.accept("ESCAPE") else None
        return self.expression(
            nodes.Like(this=this, expression=pattern, escape=escape, is_similar=is_similar)
        )

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        self.expect("(")
        self.enter()
        node = exp.In(this=this)
        if self.at_query():
            node.set("query", self.query())
        else:
            if self.at(")"):
                raise self.unexpected(
                    "a value", "write the values between the parentheses, or FALSE for none"
                )
            node.set("expressions", self.values())
        self.leave()
        self.expect(")")
        return self.expression(node)

    # The operands.

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        start = self.token.start
        node = self._parse_primary()
        while self.at_any("[", ".", "::"):
            if self.accept("::"):
                node = exp.Cast(this=node, to=self._parse_types())
            elif self.accept("["):
                node = exp.Bracket(this=node, expressions=[self.value()])
                self.expect("]")
            else:
                self._advance()
                node = exp.Dot(this=node, expression=self.name("a field name"))
            self.mark(node, start)
        return node

    def _parse_primary(self) -> exp.Expr:
        token = self.token
        if is_word(token) and (reader := _WORDS.get(word(token))):
            return self.mark(reader(self), token.start)
        if self._match_set(self.PRIMARY_PARSERS):
            return self.mark(self.PRIMARY_PARSERS[token.token_type](self, token), token.start)
        if self.at("("):
            return self._qualified_difference(self._parse_paren(), token)
        return self._name_or_call()

    def _qualified_difference(self, node: exp.Expr, first: Token) -> exp.Expr:
        """Read what may follow a difference of two times: `DAY TO SECOND`. A unit that ends an item of SELECT is its name."""
        is_difference = isinstance(node, exp.Paren) and isinstance(node.this, exp.Sub)
        if not is_difference or self._interval_unit_at(word(self.token)) is None:
            return node
        if self._depth == self._item_depth + 1 and not self._goes_on(self._next):
            return node
        token = self.token
        unit = self._interval_unit()
        to = self._interval_unit() if self.accept("TO") else unit
        if "MONTH" in (unit, to) or "YEAR" in (unit, to):
            hint = "write TIMESTAMPDIFF(MONTH, earlier, later)"
            raise self.refusal("the distance of two times is not counted in months here", token, hint)
        if to != unit and not is_interval_range(unit, to):
            hint = "use a range from larger to smaller of DAY, HOUR, MINUTE, SECOND"
            raise self.refusal(f"an interval cannot range from {unit} to {to}", token, hint)
        target = nodes.TypeName(this=str(types.INTERVAL_DAY_TIME))
        written = unit if to == unit else f"{unit} TO {to}"
        target.meta.update(logical_type=types.INTERVAL_DAY_TIME, difference=written)
        return self.mark(exp.Cast(this=node, to=self.mark(target, token.start)), first.start)

    def _goes_on(self, token: Token) -> bool:
        """Whether `token` shows that the word before it is no name of a column."""
        is_more = token.token_type in self._OPERATORS or token.token_type in self.RANGE_PARSERS
        return is_more or token.token_type in NAMES or word(token) in ("(", "TO", "AS", "IS", "NOT")

    def _name_or_call(self) -> exp.Expr:
        token = self.token
        if word(token) in _QUANTIFIERS and self._prev.token_type in self._OPERATORS:
            return self._quantified()
        if self._next.token_type is TokenType.L_PAREN and (call := self._parse_function_call()):
            return call
        if not self.at_name():
            is_name = is_word(token) or token.token_type is TokenType.IDENTIFIER
            raise self.unexpected("an expression or a column name" if is_name else "an expression")
        return self.name_path(takes_call=True)

    def _quantified(self) -> exp.Expr:
        token = self.advance()
        self.expect("(", hint="write a query in parentheses, such as = ANY (SELECT …)")
        node = nodes.Quantified(is_all=word(token) == "ALL")
        self.enter()
        if self.at_query():
            node.set("this", self.query())
        else:
            node.set("expressions", self.values())
        self.leave()
        self.expect(")")
        return self.mark(node, token.start)

    def name_path(self, takes_call: bool = False) -> exp.Expression:
        """Read `a`, `t.a`, … as an exp.Column; what comes after the fourth part as exp.Dot. `takes_call`: also `d.f(…)` as a
        FunctionCall."""
        first = self.token
        column = self._parse_column_parts_fast()
        if column is None:
            self.name("a column name")
            while self.accept("."):
                self.name("a column or field name")
        if self._curr.token_type is TokenType.L_PAREN:
            if takes_call and isinstance(column, exp.Column) and len(column.parts) <= 3:
                return self._qualified_call(column, first)
            self._advance()
            hint = "a function is named [catalog.][database.]function"
            raise self.refusal("no function has this name", first, hint)
        return self.mark(cast(exp.Expression, column), first.start)

    def _qualified_call(self, name: exp.Column, first: Token) -> exp.Expression:
        """Read the arguments of the function that `name` names, and what may follow them."""
        raise NotImplementedError

    def _parse_paren(self) -> exp.Expr:
        start = self.expect("(").start
        if self.at_query():
            node: exp.Expr = exp.Subquery(this=self.query())
        else:
            items = self.values()
            # sqlglot's Paren marks the start of an operand; the finished tree has no Paren.
            row = nodes.FunctionCall(this="ROW", expressions=items)
            node = exp.Paren(this=items[0]) if len(items) == 1 else row
        self.expect(")")
        return self.mark(node, start)

    def _parse_types(self, *_: Any, **__: Any) -> exp.Expr:
        start = self.token.start
        logical_type = data_type(self)
        target = nodes.TypeName(this=str(logical_type))
        target.meta["logical_type"] = logical_type
        if types.is_interval(logical_type):
            words = self.source(start, self.previous_end).upper()
            target.meta["unit"] = re.findall(r"[A-Z]+", words)[-1]
        return self.mark(target, start)

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        self.advance()
        self.expect("(")
        value = self.value()
        self.expect("AS", hint="write CAST(value AS type)")
        target = self._parse_types()
        self.expect(")")
        return (exp.Cast if strict else exp.TryCast)(this=value, to=target)

    def _parse_case(self) -> exp.Expr:
        self.expect("CASE")
        if self.at("END"):
            raise self.unexpected('"WHEN"', _CASE_HINT)
        subject = None if self.at("WHEN") else self.value()
        branches: list[exp.If] = []
        while self.at("WHEN") or not branches:
            start = self.expect("WHEN", hint=_CASE_HINT).start
            condition: exp.Expr = self.value()
            if subject is not None and self.at(","):
                condition = self._listed(condition)
            self.expect("THEN", hint=_CASE_HINT)
            branches.append(self.mark(exp.If(this=condition, true=self.value()), start))
        default = self.value() if self.accept("ELSE") else None
        self.expect("END", hint=_CASE_HINT)
        return exp.Case(this=subject, ifs=branches, default=default)

    def _listed(self, first: exp.Expr) -> exp.Expr:
        """The values of `WHEN a, b, …`."""
        values, start = [first], nodes.span_of(first)
        while self.accept(","):
            values.append(self.value())
        return self.mark(exp.Tuple(expressions=values), 0 if start is None else start.start)

    def time_unit(self, allowed: tuple[str, ...]) -> str:
        """Read a unit of time, singular or plural, and return it singular."""
        token = self.token
        unit = _PLURALS.get(word(token), word(token))
        if unit not in allowed:
            text = token.text.upper() if token.token_type is TokenType.STRING else ""
            quoted = _PLURALS.get(text, text)
            hint = (
                f"write {quoted} without quotes" if quoted in allowed else "units are " + ", ".join(allowed)
            )
            raise self.unexpected("a unit of time", hint)
        self._advance()
        return unit

    def _interval(self) -> exp.Expr:
        """Read an interval: a text or a number and its unit, or a value that counts units, in parentheses or a column."""
        start = self.expect("INTERVAL").start
        sign = self.accept_any("-", "+")
        if self.at("(") or (self.at_name() and self._next.token_type is not TokenType.STRING):
            count = self._parse_paren() if self.at("(") else self.name_path()
            one = nodes.IntervalLiteral(
                this="1", unit=self._interval_unit(), to=None, is_negative=sign == "-"
            )
            return exp.Mul(this=exp.Paren(this=count), expression=self.mark(one, start))
        if self._curr.token_type is TokenType.NUMBER:
            text = self.advance().text
        else:
            hint = "an interval is a quoted number and a unit, such as INTERVAL '10' MINUTE"
            text = self.string("a string in single quotes", hint).text
        if (whole := _UNIT_IN_TEXT.fullmatch(text)) and self._interval_unit_at(word(self.token)) is None:
            unit = str(self._interval_unit_at(whole[2].upper()) or "")
            if unit:
                hint = f"write INTERVAL '{whole[1]}' {unit}: the unit stands behind the quotes"
                raise self.unexpected("a unit of time", hint)
        unit = self._interval_unit()
        to = None
        if self.at("TO"):
            token = self.advance()
            to = self._interval_unit()
            if not is_interval_range(unit, to):
                hint = "use YEAR TO MONTH, or a range from larger to smaller of DAY, HOUR, MINUTE, SECOND"
                raise self.refusal(f"an interval cannot range from {unit} to {to}", token, hint)
        node = nodes.IntervalLiteral(this=text, unit=unit, to=to, is_negative=sign == "-")
        interval_value(self.mark(node, start))
        return node

    @staticmethod
    def _interval_unit_at(text: str) -> str | None:
        unit = _PLURALS.get(text, text)
        return unit if unit in UNITS else None

    def _interval_unit(self) -> str:
        unit = self.time_unit(UNITS)
        # The precision of an interval's field bounds its digits; for a literal it has no effect.
        if self.accept("("):
            self.unsigned_integer()
            if self.accept(","):
                self.unsigned_integer()
            self.expect(")")
        return unit

    def _datetime(self) -> exp.Expr:
        token = self.token
        if self._next.token_type is not TokenType.STRING:
            return self._name_or_call()
        self._advance()
        node = self.mark(nodes.DateTimeLiteral(this=self.string().text, kind=word(token)), token.start)
        datetime_value(node)
        return node

    def _exists(self) -> exp.Expr:
        self.expect("EXISTS", "(")
        if self.at_name():
            raise self.unexpected("a query", "write EXISTS (SELECT …)")
        node = exp.Exists(this=self.query())
        self.expect(")")
        return node

    def _row(self) -> exp.Expr:
        self.expect("ROW", "(")
        items = [] if self.at(")") else self.values()
        self.expect(")")
        return nodes.FunctionCall(this="ROW", expressions=items)

    def _collection(self) -> exp.Expr:
        token = self.token
        if self.at("MAP") and self._next.token_type is not TokenType.L_BRACKET:
            return self._name_or_call()
        self._advance()
        self.expect("[", hint=f"write {word(token)}[…] with square brackets")
        items = [] if self.at("]") else self.values()
        self.expect("]")
        if word(token) == "MAP" and len(items) % 2:
            raise self.refusal("MAP needs a value for every key", token, "write MAP[key, value, …]")
        return nodes.FunctionCall(this=word(token), expressions=items)

    def _try_cast(self) -> exp.Expr:
        is_cast = self._next.token_type is TokenType.L_PAREN
        return self._parse_cast(False) if is_cast else self._name_or_call()

    def _niladic(self) -> exp.Expr:
        return nodes.FunctionCall(this=word(self.advance()), expressions=[])

    def _unknown(self) -> exp.Expr:
        self.advance()
        target = nodes.TypeName(this=str(types.BOOLEAN))
        target.meta["logical_type"] = types.BOOLEAN
        return exp.Cast(this=exp.Null(), to=target)


def _lower(text: exp.Expression) -> exp.Expression:
    place = text.meta.get("span")
    call = nodes.FunctionCall(this="LOWER", expressions=[text])
    call.meta["span"] = place
    return call


_WORDS: dict[str, Operand] = {
    "UNKNOWN": ExpressionParser._unknown,
    "CASE": ExpressionParser._parse_case,
    "CAST": lambda self: self._parse_cast(True),
    "TRY_CAST": ExpressionParser._try_cast,
    "EXISTS": ExpressionParser._exists,
    "INTERVAL": ExpressionParser._interval,
    "DATE": ExpressionParser._datetime,
    "TIME": ExpressionParser._datetime,
    "TIMESTAMP": ExpressionParser._datetime,
    "ROW": ExpressionParser._row,
    "ARRAY": ExpressionParser._collection,
    "MAP": ExpressionParser._collection,
    **dict.fromkeys(_NILADIC, ExpressionParser._niladic),
}
