"""The grammar of PIVOT and UNPIVOT."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.dialect.match_recognize import MatchParser
from sqlstream.planner.dialect.nodes import DateTimeLiteral, Pivot, Unpivot


class PivotParser(MatchParser):
    """Reads `PIVOT (aggregate [AS name], … FOR column IN (value [AS name], …))` and `UNPIVOT (value FOR name IN
    (column [AS 'name'], …))`."""

    def pivot(self, input: exp.Expression, start: int) -> Pivot:
        """The clause that comes next, over `input`."""
        self.expect("PIVOT")
        self.expect("(")
        node = Pivot(this=input, expressions=self._parse_csv(self._pivot_aggregate))
        self.expect("FOR", hint="write PIVOT (SUM(x) FOR column IN (value, …))")
        is_wrapped = self.at("(")
        columns = self._parse_wrapped_csv(self.name_path) if is_wrapped else [self.name_path()]
        node.set("columns", columns)
        self.expect("IN")
        self.expect("(")
        if self.at_query():
            token = self.token
            self.query()
            hint = "write out the values, which name the columns: IN (10, 20 AS twenty)"
            raise self.refusal("PIVOT takes values that are known before the query runs", token, hint)
        if self.at("ANY"):
            token = self.advance()
            hint = "write out the values, which name the columns: IN (10, 20 AS twenty)"
            raise self.refusal("PIVOT takes values that are known before the query runs", token, hint)
        node.set("choices", self._parse_csv(lambda: self._pivot_choice(is_wrapped)))
        self.expect(")")
        if self.accept("GROUP"):
            self.expect("BY")
            node.set("group_by", self._parse_csv(self.name_path))
        self.expect(")")
        return self.mark(node, start)

    def _pivot_aggregate(self) -> exp.Expression:
        start = self.token.start
        value = self.value()
        if not self.accept("AS") and not self.at_name():
            return value
        return self.mark(exp.Alias(this=value, alias=self.name("the aggregate's name")), start)

    def _pivot_choice(self, is_wrapped: bool) -> exp.Alias:
        """A value of each column, under the name that was given or that the values make."""
        start = self.token.start
        if is_wrapped:
            self.expect("(", hint="write a list in parentheses for each choice: FOR (a, b) IN ((1, 2), …)")
        pairs = self._parse_csv(self._pivot_value) if is_wrapped else [self._pivot_value()]
        if is_wrapped:
            self.expect(")")
        values = self.mark(exp.Tuple(expressions=[value for value, _ in pairs]), start)
        if self.accept("AS") or self.at_name():
            name = self.name("the column's name")
        else:
            name = exp.Identifier(this="_".join(text for _, text in pairs), quoted=True)
        return self.mark(exp.Alias(this=values, alias=name), start)

    def _pivot_value(self) -> tuple[exp.Expression, str]:
        start = self.token.start
        value = self.value()
        if isinstance(value, exp.Literal | DateTimeLiteral):
            return value, str(value.name)
        return value, self.source(start, self.previous_end)

    def unpivot(self, input: exp.Expression, start: int) -> Unpivot:
        """The clause that comes next, over `input`."""
        self.expect("UNPIVOT")
        nulls = self.accept_any("INCLUDE", "EXCLUDE")
        if nulls:
            self.expect("NULLS")
        self.expect("(")
        node = Unpivot(this=input, with_nulls=nulls == "INCLUDE")
        is_wrapped = self.at("(")
        node.set("values", self._parse_wrapped_csv(self.name) if is_wrapped else [self.name()])
        self.expect("FOR", hint="write UNPIVOT (value FOR name IN (column, …))")
        node.set("name", self.name())
        self.expect("IN")
        self.expect("(")
        node.set("choices", self._parse_csv(lambda: self._unpivot_choice(is_wrapped)))
        self.expect(")")
        self.expect(")")
        return self.mark(node, start)

    def _unpivot_choice(self, is_wrapped: bool) -> exp.Alias:
        """Columns, under the name that was given or that they have."""
        start = self.token.start
        columns = self._parse_wrapped_csv(self.name_path) if is_wrapped else [self.name_path()]
        name = "_".join(str(column.name) for column in columns)
        if self.accept("AS"):
            name = self.string().text if self.at_string() else str(self.name("the name").name)
        values = self.mark(exp.Tuple(expressions=columns), start)
        return self.mark(exp.Alias(this=values, alias=exp.Identifier(this=name, quoted=True)), start)
