"""The grammar of MATCH_RECOGNIZE."""

from __future__ import annotations

import dataclasses

from sqlglot import Token, exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.functions import FunctionParser, can_be_called
from sqlstream.planner.dialect.nodes import FunctionCall, MatchRecognize
from sqlstream.planner.dialect.tokens import RESERVED, is_word, span, word


@dataclasses.dataclass(frozen=True)
class PatternVariable:
    name: str
    span: Span = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Concatenation:
    parts: tuple[Pattern, ...]


@dataclasses.dataclass(frozen=True)
class Alternation:
    parts: tuple[Pattern, ...]


@dataclasses.dataclass(frozen=True)
class Permutation:
    parts: tuple[Pattern, ...]
    span: Span = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Exclusion:
    part: Pattern
    span: Span = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Quantified:
    """`part` at least `least` and at most `most` times (None: any number), as often as possible or `is_reluctant`."""

    part: Pattern
    least: int
    most: int | None
    is_reluctant: bool
    span: Span = dataclasses.field(compare=False)


Pattern = PatternVariable | Concatenation | Alternation | Permutation | Exclusion | Quantified


@dataclasses.dataclass(frozen=True)
class SkipTo:
    """AFTER MATCH SKIP: `kind` is PAST, NEXT, FIRST or LAST; the last two have a variable."""

    kind: str
    variable: str = ""
    span: Span = dataclasses.field(default=Span(0, 0), compare=False)


@dataclasses.dataclass(frozen=True)
class Subset:
    name: str
    members: tuple[PatternVariable, ...]
    span: Span = dataclasses.field(compare=False)


_ORDER_HINT = (
    "the clauses are PARTITION BY, ORDER BY, MEASURES, ONE ROW or ALL ROWS PER MATCH, AFTER MATCH, PATTERN, WITHIN,"
    " SUBSET, DEFINE"
)
_ANCHOR_HINT = "compare with PREV(x) or NEXT(x) in DEFINE"


class MatchParser(FunctionParser):
    """Reads `MATCH_RECOGNIZE (…)`, and within it FINAL and RUNNING before a call."""

    _in_match = False

    def match_recognize(self, input: exp.Expression, start: int) -> MatchRecognize:
        """The clause that comes next, over `input`."""
        self.expect("MATCH_RECOGNIZE")
        self.expect("(")
        outer, self._in_match = self._in_match, True
        node = MatchRecognize(this=input)
        self.partition_and_order(node)
        node.set("measures", self._named_values(("ONE", "ALL", "AFTER", "PATTERN"), "MEASURES"))
        node.set("rows", self._rows_per_match())
        node.set("after", self._after_match())
        self.expect("PATTERN", hint=_ORDER_HINT)
        self.expect("(")
        node.set("pattern", self._pattern())
        self.expect(")")
        if self.accept("WITHIN"):
            node.set("within", self.value())
        node.set("subsets", self._subsets())
        self.expect("DEFINE", hint=_ORDER_HINT)
        node.set("define", self._definitions())
        self.expect(")")
        self._in_match = outer
        return self.mark(node, start)

    def _named_values(self, ends: tuple[str, ...], clause: str) -> list[exp.Alias]:
        """`MEASURES value AS name, …`, if it comes next."""
        items: list[exp.Alias] = []
        if not self.accept(clause):
            return items
        while not items or self.accept(","):
            start = self.token.start
            value = self.value()
            self.expect("AS", hint="name each measure: FIRST(a.price) AS first_price")
            items.append(self.mark(exp.Alias(this=value, alias=self.name("the measure's name")), start))
        return items

    def _definitions(self) -> list[exp.Alias]:
        items: list[exp.Alias] = []
        while not items or self.accept(","):
            start = self.token.start
            name = self.name("a pattern variable")
            self.expect("AS")
            items.append(self.mark(exp.Alias(this=self.value(), alias=name), start))
        return items

    def _rows_per_match(self) -> str:
        rows = self.accept_any("ONE", "ALL")
        if rows is None:
            return "ONE"
        self.expect("ROW" if rows == "ONE" else "ROWS")
        self.expect("PER")
        self.expect("MATCH")
        if rows == "ONE":
            return rows
        if self.accept("SHOW", "EMPTY"):
            self.expect("MATCHES")
        elif self.accept("OMIT"):
            self.expect("EMPTY", "MATCHES")
            return "ALL OMIT"
        elif self.accept("WITH"):
            self.expect("UNMATCHED", "ROWS")
            return "ALL UNMATCHED"
        return rows

    def _after_match(self) -> SkipTo:
        start = self.token.start
        if not self.accept("AFTER"):
            return SkipTo("PAST")
        self.expect("MATCH", "SKIP")
        if self.accept("PAST"):
            self.expect("LAST", "ROW")
            return SkipTo("PAST")
        self.expect("TO", hint="write SKIP PAST LAST ROW, or SKIP TO NEXT ROW, FIRST x, LAST x or x")
        if self.accept("NEXT", "ROW"):
            return SkipTo("NEXT")
        kind = word(self.advance()) if self.at_any("FIRST", "LAST") and self._is_name(1) else "LAST"
        name = self.name("a pattern variable").name
        return SkipTo(kind, name, Span(start, self.previous_end))

    def _is_name(self, ahead: int) -> bool:
        token = self.peek(ahead)
        return (is_word(token) and word(token) not in RESERVED) or (bool(token) and word(token) == "")

    def _subsets(self) -> tuple[Subset, ...]:
        subsets: list[Subset] = []
        if not self.accept("SUBSET"):
            return ()
        while not subsets or self.accept(","):
            start = self.token.start
            name = self.name("the subset's name").name
            self.expect("=")
            self.expect("(")
            members = [self._pattern_variable()]
            while self.accept(","):
                members.append(self._pattern_variable())
            self.expect(")")
            subsets.append(Subset(name, tuple(members), Span(start, self.previous_end)))
        return tuple(subsets)

    def _pattern_variable(self) -> PatternVariable:
        token = self.token
        return PatternVariable(self.name("a pattern variable").name, span(token))

    # -- patterns ----------------------------------------------------------------------------------

    def _pattern(self) -> Pattern:
        self.enter()
        parts = [self._pattern_sequence()]
        while self.accept("|"):
            parts.append(self._pattern_sequence())
        self.leave()
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _pattern_sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while not self.at_end() and not self.at_any(")", "|", ",") and not self.at("-", "}"):
            parts.append(self._pattern_factor())
        if not parts:
            raise self.unexpected("a pattern variable", "a pattern has at least one variable")
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _pattern_factor(self) -> Pattern:
        start = self.token.start
        part = self._pattern_element()
        bounds = self._quantifier()
        if bounds is None:
            return part
        is_reluctant = self.accept("?")
        place = Span(start, self.previous_end)
        if self.at_any("*", "+", "?") or (self.at("{") and not self.at("{", "-")):
            hint = "put the quantified part into parentheses"
            raise self.unexpected("another part of the pattern", hint)
        least, most = bounds
        if most is not None and (most < least or most == 0):
            message = "the bounds of a quantifier are {n,m} with n <= m and m >= 1"
            raise UserError("SS3427", message, span=place)
        return Quantified(part, least, most, is_reluctant, place)

    def _quantifier(self) -> tuple[int, int | None] | None:
        sign = self.accept_any("*", "+", "?")
        if sign is not None:
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if not self.at("{") or self.at("{", "-"):
            return None
        self.expect("{")
        if self.accept(","):
            most = self.unsigned_integer("the upper bound")
            self.expect("}")
            return 0, most
        least = self.unsigned_integer("a number of rows")
        if self.accept("}"):
            return least, least
        self.expect(",")
        upper = None if self.at("}") else self.unsigned_integer("the upper bound")
        self.expect("}")
        return least, upper

    def _pattern_element(self) -> Pattern:
        token = self.token
        if self.accept("("):
            part = self._pattern()
            self.expect(")")
            return part
        if self.at("{", "-"):
            self._advance(2)
            part = self._pattern()
            self.expect("-")
            self.expect("}")
            return Exclusion(part, Span(token.start, self.previous_end))
        if self.at("PERMUTE", "("):
            return self._permutation(token)
        if self.at_any("^", "$"):
            self.advance()
            message = f'the anchor "{token.text}" is not supported: a stream has no first and no last row'
            raise self.refusal(message, token, _ANCHOR_HINT)
        return self._pattern_variable()

    def _permutation(self, token: Token) -> Pattern:
        self._advance(2)
        parts = [self._pattern()]
        while self.accept(","):
            parts.append(self._pattern())
        self.expect(")")
        return Permutation(tuple(parts), Span(token.start, self.previous_end))

    # -- expressions -------------------------------------------------------------------------------

    def _argument(self) -> exp.Expression:
        """An argument of a call; within MATCH_RECOGNIZE also `x.*`, which COUNT takes."""
        if not (
            self._in_match and self.at_name() and word(self.peek(1)) == "." and word(self.peek(2)) == "*"
        ):
            return super()._argument()
        start = self.token.start
        table = self.name("a pattern variable")
        self.expect(".")
        star = self.mark(exp.Star(), self.advance().start)
        return self.mark(exp.Column(this=star, table=table), start)

    def _name_or_call(self) -> exp.Expr:
        """A name or a call; within MATCH_RECOGNIZE, FINAL or RUNNING may stand before a call."""
        has_semantics = self._in_match and self.at_any("FINAL", "RUNNING") and can_be_called(self.peek(1))
        if not has_semantics or word(self.peek(2)) != "(":
            return super()._name_or_call()
        start = self.token.start
        semantics = word(self.advance())
        call = self._parse_function_call()
        assert isinstance(call, FunctionCall)
        call.set("semantics", semantics)
        call.meta.pop("span", None)
        return self.mark(call, start)
