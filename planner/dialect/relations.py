"""The grammar of FROM: tables, subqueries, joins, window table-valued functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sqlglot import Token, TokenType, exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.functions import can_be_called
from sqlstream.planner.dialect.habits import (
    join_hint,
    refused_table_function,
    sample_hint,
    unknown_table_function,
)
from sqlstream.planner.dialect.match_recognize import MatchParser
from sqlstream.planner.dialect.reading import option_list
from sqlstream.planner.dialect.statements import Option
from sqlstream.planner.dialect.tokens import is_word, span, word


class PivotParser(MatchParser):
    """Reads `PIVOT (aggregate [AS name], … FOR column IN (value [AS name], …))` and `UNPIVOT (value FOR name IN
    (column [AS 'name'], …))`."""

    def pivot(self, input: exp.Expression, start: int) -> nodes.Pivot:
        """The clause that comes next, over `input`."""
        self.expect("PIVOT")
        self.expect("(")
        node = nodes.Pivot(this=input, expressions=self._parse_csv(self._pivot_aggregate))
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
        if isinstance(value, exp.Literal | nodes.DateTimeLiteral):
            return value, str(value.name)
        return value, self.source(start, self.previous_end)

    def unpivot(self, input: exp.Expression, start: int) -> nodes.Unpivot:
        """The clause that comes next, over `input`."""
        self.expect("UNPIVOT")
        nulls = self.accept_any("INCLUDE", "EXCLUDE")
        if nulls:
            self.expect("NULLS")
        self.expect("(")
        node = nodes.Unpivot(this=input, with_nulls=nulls == "INCLUDE")
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


# The positional order of the arguments after the table and the time column.
_WINDOW_SIZES = {
    "TUMBLE": ("size", "offset"),
    "HOP": ("slide", "size", "offset"),
    "CUMULATE": ("step", "size", "offset"),
    "SESSION": ("gap",),
}
_CHANGELOG_ARGUMENTS = {
    "FROM_CHANGELOG": ("input", "op", "op_mapping", "invalid_op_handling"),
    "TO_CHANGELOG": ("input", "op", "op_mapping"),
}
_SNAPSHOT_ARGUMENTS = (
    "input",
    "on_time",
    "load_completed_time",
    "load_completed_idle_timeout",
    "state_ttl",
)
_DESCRIBED = {"op": ("the column of the operations", "op"), "on_time": ("the row time", "ts")}
JOIN_WORDS = (",", "NATURAL", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER")
_HALF_JOINS = ("SEMI", "ANTI")
_FOREIGN_JOINS = ("ASOF", "STRAIGHT", "GLOBAL", "OUTER", "POSITIONAL")
_SIDES = ("LEFT", "RIGHT", "FULL", "INNER")
_JOIN_HINT = "write JOIN … ON, LEFT SEMI JOIN or LEFT ANTI JOIN"
_CLAUSES = ("MATCH_RECOGNIZE", "PIVOT", "UNPIVOT")


class RelationParser(PivotParser):
    """Reads the items of FROM and JOIN, without sqlglot's stages, samples and versions of tables."""

    JOIN_METHODS = {TokenType.NATURAL}
    JOIN_KINDS = {TokenType.INNER, TokenType.CROSS, TokenType.OUTER}
    # A table has all of the dotted parts, whatever follows them.
    TABLE_POSTFIX_TOKENS = frozenset()

    def _parse_joins(self, *_: Any, **__: Any) -> Iterator[exp.Join]:
        joins: list[exp.Join] = []
        comma = -1
        while (join := self._parse_join()) is not None:
            if comma >= 0 and join.args.get("side") in ("RIGHT", "FULL"):
                # A comma binds more loosely than JOIN, which makes a difference for these two sides.
                first, *others = joins[comma:]
                first.set("this", nodes.JoinedTables(this=first.this, joins=[*others, join]))
                joins = joins[: comma + 1]
                continue
            if join.args.get("kind") == "CROSS" and join.meta_get("is_comma"):
                comma = len(joins)
            joins.append(join)
        return iter(joins)

    def _parse_join(self, *_: Any, **__: Any) -> exp.Join | None:
        first, index = self.token, self._index
        if self.accept(","):
            comma = self.mark(exp.Join(this=self._parse_table(), kind="CROSS"), first.start)
            comma.meta["is_comma"] = True
            return comma
        method, side, kind = (word(t) if t else None for t in self._parse_join_parts())
        if self._index == index and not self.at("JOIN") and not self._at_half_join():
            return None
        if self._at_half_join():
            half = word(self.advance())
            if method is not None or kind is not None or side not in (None, "LEFT"):
                words = " ".join(w for w in (method, side, kind, half) if w)
                raise self.refusal(f"{words} JOIN does not exist", first, f"write LEFT {half} JOIN … ON")
            self.expect("JOIN")
            node = exp.Join(this=self._parse_table(), kind=half)
            self._join_condition(node, first)
            return self.mark(node, first.start)
        if bool(side) != (kind == "OUTER") and kind:
            self._retreat(self._index - 1)
        if kind in ("INNER", "CROSS") and self.at_any("LEFT", "RIGHT", "FULL"):
            raise self.unexpected('"JOIN"', "write INNER JOIN, or LEFT, RIGHT or FULL JOIN")
        self.expect("JOIN", hint="write LEFT JOIN, RIGHT JOIN, FULL JOIN, CROSS JOIN or JOIN")
        kind = None if side else kind
        node = exp.Join(this=self._parse_table(), side=side, kind=kind, method=method)
        self._join_condition(node, first)
        return self.mark(node, first.start)

    def _at_half_join(self) -> bool:
        return self.at_any(*_HALF_JOINS) and word(self.peek(1)) == "JOIN"

    def _join_condition(self, node: exp.Join, first: Token) -> None:
        freedom = node.args.get("method") or ("CROSS" if node.args.get("kind") == "CROSS" else None)
        if self.accept("ON"):
            node.set("on", self.value())
        elif self.accept("USING"):
            node.set("using", self.name_list())
        elif not freedom:
            raise self.unexpected("ON or USING", "write the join condition, or CROSS JOIN for all pairs")
        if freedom and (node.args.get("on") is not None or node.args.get("using")):
            hint = "leave out either the word or the condition"
            raise self.refusal(f"{freedom} JOIN takes no condition", first, hint)

    def name_list(self) -> list[exp.Identifier]:
        """Read `(a, b, …)`."""
        return cast(list[exp.Identifier], self._parse_wrapped_id_vars())

    def _parse_table(self, *_: Any, **__: Any) -> exp.Expr:
        start = self.token.start
        node = self._unaliased()
        self._system_time(node)
        if self.at_any(*_CLAUSES):
            node = self._under_clauses(self.mark(node, start), start)
        self._refuse_table_operators()
        if alias := self._parse_table_alias():
            node.set("alias", alias)
            if self.at_any(*_CLAUSES):
                return self._aliased(self._under_clauses(self.mark(node, start), start), start)
            self._refuse_table_operators()
        return self.mark(node, start)

    def _under_clauses(self, input: exp.Expression, start: int) -> exp.Expression:
        """`input` under the MATCH_RECOGNIZE, PIVOT and UNPIVOT that follow it."""
        while self.at_any(*_CLAUSES):
            if self.at("PIVOT"):
                input = self.pivot(input, start)
            elif self.at("UNPIVOT"):
                input = self.unpivot(input, start)
            else:
                input = self.match_recognize(input, start)
        return input

    def _aliased(self, node: exp.Expression, start: int) -> exp.Expr:
        """A clause behind the alias of its input, with an alias of its own."""
        if alias := self._parse_table_alias():
            node.set("alias", alias)
        self._refuse_table_operators()
        return self.mark(node, start)

    def _parse_table_alias(self, *_: Any, **__: Any) -> exp.TableAlias | None:
        start = self.token.start
        has_as = self.accept("AS")
        if not has_as and self.at_any(*_FOREIGN_JOINS) and self._before_join():
            token = self.advance()
            message = f"{word(token)} {word(self.advance())} is not part of Flink SQL"
            raise self.refusal(message, token, join_hint(word(token)) or _JOIN_HINT)
        if not has_as and (not self.at_name() or self._at_half_join()):
            return None
        alias = exp.TableAlias(this=self.name("a table alias"))
        if self.at("("):
            alias.set("columns", self.name_list())
        return self.mark(alias, start)

    def _before_join(self) -> bool:
        """Whether the word behind the next one makes a join of it, such as LEFT in ASOF LEFT JOIN."""
        following = word(self.peek(1))
        return following in ("JOIN", "APPLY") or (self.at("ASOF") and following in _SIDES)

    def _system_time(self, node: exp.Expression) -> None:
        """Read FOR SYSTEM_TIME AS OF, if it comes next, into the `version` of a table."""
        token = self.token
        if not self.accept("FOR", "SYSTEM_TIME"):
            return
        self.expect("AS")
        self.expect("OF")
        if not isinstance(node, exp.Table):
            hint = "make the query a view, and join the view"
            raise self.refusal("FOR SYSTEM_TIME follows the name of a table", token, hint)
        node.set("version", self.mark(nodes.SystemTime(this=self.value()), token.start))

    def _refuse_table_operators(self) -> None:
        token = self.token
        if self.accept("FOR", "SYSTEM_TIME"):
            hint = "write it directly behind the table's name: dim FOR SYSTEM_TIME AS OF o.proctime AS d"
            raise self.refusal("FOR SYSTEM_TIME stands before the alias", token, hint)
        if self.accept("LATERAL", "VIEW"):
            raise self._lateral_view(token)
        if word(token) == "TABLESAMPLE":
            self.advance()
            raise self.refusal("TABLESAMPLE is not supported", token, sample_hint())

    def _unaliased(self) -> exp.Expression:
        token = self.token
        if self.at("("):
            return self._derived_table()
        if self.accept("LATERAL"):
            return self._lateral(token)
        if self.accept("UNNEST"):
            return self._unnest(token)
        if self.accept("TABLE"):
            self.expect("(")
            node = self._table_function()
            self.expect(")")
            return node
        if is_word(token) and word(self.peek(1)) == "(":
            return self._table_function()
        if self._at_qualified_call():
            return self._table_call()
        return self._file_path() if self.at_string() else self._table()

    def _at_qualified_call(self) -> bool:
        dots = [word(self.peek(1)), word(self.peek(3))]
        return dots[0] == "." and (dots[1] == "(" or (dots[1] == "." and word(self.peek(5)) == "("))

    def _derived_table(self) -> exp.Expression:
        start = self.expect("(").start
        depth = 0
        while word(self.peek(depth)) == "(":
            depth += 1
        if word(self.peek(depth)) not in ("SELECT", "WITH", "VALUES"):
            return self._joined_tables()
        node = exp.Subquery(this=self.query())
        self.expect(")")
        return self.mark(node, start)

    def _joined_tables(self) -> exp.Expression:
        """Read `a JOIN b …)`."""
        start = self.token.start
        node = nodes.JoinedTables(this=self._parse_table())
        node.set("joins", list(self._parse_joins()))
        if not node.args["joins"]:
            if isinstance(node.this, nodes.JoinedTables) and self.accept(")"):
                return cast(exp.Expression, node.this.pop())
            raise self.unexpected("JOIN", "parentheses in FROM hold a query, or tables that are joined")
        self.expect(")")
        return self.mark(node, start)

    def _lateral_view(self, start: Token) -> UserError:
        hint = "use CROSS JOIN UNNEST(…) or LATERAL TABLE(…)"
        return self.refusal("LATERAL VIEW is not part of Flink's default dialect", start, hint)

    def _lateral(self, start: Token) -> exp.Expression:
        if self.accept("VIEW"):
            raise self._lateral_view(start)
        if self.at("("):
            return self.mark(exp.Lateral(this=self._derived_table()), start.start)
        if self._at_snapshot():
            return self._lateral_snapshot(start)
        if self._at_vector_search():
            return self.mark(exp.Lateral(this=self._table_call()), start.start)
        self.expect("TABLE", hint="write LATERAL TABLE(function(…)) or LATERAL (SELECT …)")
        self.expect("(")
        if self._at_vector_search():
            search = exp.Lateral(this=self._table_call())
            self.expect(")")
            return self.mark(search, start.start)
        if self._at_snapshot():
            node = self._lateral_snapshot(start)
            self.expect(")")
            return node
        name = self.token
        if refused_table_function(name.text) and word(self.peek(2)) == "TABLE":
            raise unknown_table_function(name.text, span(self.advance()))
        node = exp.Lateral(this=self._called_function())
        node.this.meta["written"] = name.text
        self.expect(")")
        return self.mark(node, start.start)

    def _at_vector_search(self) -> bool:
        return word(self.token) == "VECTOR_SEARCH" and word(self.peek(1)) == "("

    def _lateral_snapshot(self, start: Token) -> exp.Expression:
        function = self._table_arguments(nodes.SnapshotFunction(), _SNAPSHOT_ARGUMENTS)
        return self.mark(exp.Lateral(this=function), start.start)

    def _called_function(self) -> nodes.FunctionCall:
        """Read `[catalog.][database.]function(arguments)`."""
        is_plain = can_be_called(self.token) and word(self.peek(1)) == "("
        call = self._parse_function_call() if is_plain else None
        if call is None and self.at_name():
            call = self.name_path(takes_call=True)
        if not isinstance(call, nodes.FunctionCall):
            raise self.unexpected("a table function")
        return call

    def _unnest(self, start: Token) -> exp.Expression:
        self.expect("(")
        node = exp.Unnest(expressions=[self.value()])
        self.expect(")")
        node.set("offset", self.accept("WITH", "ORDINALITY"))
        return self.mark(node, start.start)

    def _table(self) -> exp.Table:
        first = self.token
        node = self._parse_table_parts_fast()
        if node is None:
            self.name("a table name")
            while self.accept("."):
                self.name("a table name")
        if node is None or isinstance(node.this, exp.Dot):
            hint = "a table is named [catalog.][database.]table"
            raise self.refusal("the name has too many parts", first, hint)
        self.mark(node, first.start)
        options = self.table_hint()
        if options:
            node.meta["options"] = options
        return node

    def _file_path(self) -> nodes.FilePath:
        token = self.string()
        path = self.expression(exp.Literal.string(token.text), token)
        node = self.mark(nodes.FilePath(this=path), token.start)
        if options := self.table_hint():
            node.meta["options"] = options
        if self.at("FOR", "SYSTEM_TIME"):
            hint = "look up in a table: CREATE TABLE dim (…) WITH ('connector' = 'duckdb', …)"
            raise self.refusal("a path in quotes is no table for a lookup", self.token, hint)
        return node

    def table_or_files(self) -> exp.Expression:
        """Read the name of a table, or a path in quotes, without an alias."""
        return self._file_path() if self.at_string() else self._table()

    def query_of_file(self) -> exp.Expression:
        """Read a path in quotes as `SELECT * FROM` it."""
        start = self.token.start
        source = self.mark(exp.From(this=self._file_path()), start)
        star = self.mark(exp.Star(), start)
        return self.mark(exp.Select(expressions=[star], from_=source), start)

    def table_hint(self) -> tuple[Option, ...]:
        """Read `/*+ OPTIONS('key'='value', …) */`, if a hint comes next; any other hint is refused."""
        if self._curr.token_type is not TokenType.HINT:
            return ()
        self.advance()
        token = self.token
        if not self.accept("OPTIONS"):
            self.advance()
            raise self.refusal(f'the table hint "{token.text}" is not supported', token, "only OPTIONS(…) is")
        options = option_list(self)
        self.expect("*/")
        return options

    def _table_function(self) -> exp.Expression:
        name = self.token
        kind = word(name)
        if kind in _CHANGELOG_ARGUMENTS:
            return self._table_arguments(nodes.ChangelogFunction(kind=kind), _CHANGELOG_ARGUMENTS[kind])
        if self._at_snapshot():
            hint = "write orders AS o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(ts)) AS r ON o.k = r.k"
            raise self.refusal("SNAPSHOT is the right side of a join, behind LATERAL", self.advance(), hint)
        if kind not in _WINDOW_SIZES:
            if (
                can_be_called(name)
                and word(self.peek(2)) not in ("TABLE", "DESCRIPTOR")
                and word(self.peek(3)) != "=>"
                and not self._passes_table()
            ):
                lateral = self.mark(exp.Lateral(this=self._called_function()), name.start)
                lateral.this.meta["written"] = name.text
                return lateral
            if refused_table_function(name.text):
                self.advance()
                raise unknown_table_function(name.text, span(name))
            return self._table_call()
        self.advance()
        self.expect("(")
        node = nodes.WindowTvf(kind=kind)
        self._window_arguments(node, name)
        self.expect(")")
        self.mark(node, name.start)
        _check_window(node, name)
        return node

    def _passes_table(self) -> bool:
        """Whether an argument of the call that comes next begins with TABLE."""
        depth = 0
        for ahead in range(1, self._tokens_size - self._index):
            text = word(self.peek(ahead))
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if depth == 0:
                break
            if depth == 1 and text in ("(", ",") and word(self.peek(ahead + 1)) == "TABLE":
                return True
        return False

    def _table_call(self) -> exp.Expression:
        """Read `[catalog.][database.]function(input => TABLE t PARTITION BY k, …)`."""
        first, parts = self.token, [self.advance()]
        while self.accept("."):
            parts.append(self.advance())
        node = nodes.TableCall(this=parts[-1].text.upper())
        node.meta["written"] = parts[-1].text
        node.meta["name_span"] = Span(first.start, parts[-1].end + 1)
        if len(parts) > 1:
            node.meta["qualifier"] = tuple(part.text for part in parts[:-1])
        self.expect("(")
        node.set("expressions", self._parse_csv(self._call_argument))
        self.expect(")")
        return self.mark(node, first.start)

    def _call_argument(self) -> nodes.CallArgument:
        start = self.token.start
        name = None
        if word(self.peek(1)) == "=>":
            # It may be a reserved word.
            token = self.advance()
            name = self.mark(exp.Identifier(this=token.text), start)
            self.expect("=>")
        if self.at("TABLE"):
            node = nodes.CallArgument(kind="TABLE", this=self._table_argument())
            if self.accept("PARTITION"):
                node.set("partition_by", self._partition_keys())
            if self.accept("ORDER"):
                node.set("order", self._order_keys())
        elif self.accept("DESCRIPTOR"):
            self.expect("(")
            node = nodes.CallArgument(kind="DESCRIPTOR", expressions=self._parse_csv(self._described_column))
            self.expect(")")
        elif self.at("MODEL") and (is_word(self.peek(1)) or self.peek(1).token_type is TokenType.IDENTIFIER):
            self.advance()
            node = nodes.CallArgument(kind="MODEL", this=self._table())
        elif self.accept("DEFAULT"):
            node = nodes.CallArgument(kind="DEFAULT")
        else:
            node = nodes.CallArgument(kind="VALUE", this=self.value())
        node.set("name", name)
        return self.mark(node, start)

    def _described_column(self) -> exp.Column:
        start = self.token.start
        return self.mark(exp.Column(this=self.name("a column name")), start)

    def _window_arguments(self, node: nodes.WindowTvf, name: Token) -> None:
        positional = ("this", "time_column", *_WINDOW_SIZES[str(node.args["kind"])])
        names = {"DATA": "this", "TIMECOL": "time_column", **{p.upper(): p for p in positional[2:]}}
        is_named = word(self.peek(1)) == "=>"
        count = 0
        while count == 0 or self.accept(","):
            token = self.token
            if is_named:
                # OFFSET is a reserved word, so Flink has it in backticks.
                written = token.text.upper() if token.token_type is TokenType.IDENTIFIER else word(token)
                if written not in names:
                    raise self.unexpected("one of " + ", ".join(names))
                self.advance()
                key = names[written]
                self.expect("=>")
            else:
                if count >= len(positional):
                    raise self.unexpected('")"', f"{word(name)} takes at most {len(positional)} arguments")
                key = positional[count]
            if node.args.get(key) is not None:
                raise UserError(
                    "SS1001", f'argument "{token.text}" is given twice', span=span(token), hint="give it once"
                )
            node.set(key, self._window_argument(node, key))
            count += 1

    def _window_argument(self, node: nodes.WindowTvf, key: str) -> exp.Expression:
        if key == "this":
            return self._window_input(node)
        if key != "time_column":
            return self.value()
        hint = "name the time attribute as DESCRIPTOR(column)"
        self.expect("DESCRIPTOR", hint=hint)
        self.expect("(")
        start = self.token.start
        column = exp.Column(this=self.name("a column name"))
        self.mark(column, start)
        self.expect(")", hint="a window has one time attribute")
        return column

    def _at_snapshot(self) -> bool:
        """A function of a user may have its name, and takes values."""
        takes_table = word(self.peek(2)) in ("TABLE", "(") or word(self.peek(3)) == "=>"
        return self.at("SNAPSHOT") and word(self.peek(1)) == "(" and takes_table

    def _table_arguments(self, node: exp.Expression, positional: tuple[str, ...]) -> exp.Expression:
        """Read a function over a table, and its arguments by these names or in their order."""
        name = self.advance()
        self.expect("(")
        is_named = word(self.peek(1)) == "=>"
        count = 0
        while count == 0 or self.accept(","):
            token = self.token
            if is_named:
                if word(token).lower() not in positional:
                    raise self.unexpected("one of " + ", ".join(positional))
                key = word(self.advance()).lower()
                self.expect("=>")
            else:
                if count >= len(positional):
                    raise self.unexpected('")"', f"{word(name)} takes at most {len(positional)} arguments")
                key = positional[count]
            if node.args.get("this" if key == "input" else key) is not None:
                raise UserError(
                    "SS1001", f'argument "{token.text}" is given twice', span=span(token), hint="give it once"
                )
            self._argument_of_table(node, key)
            count += 1
        self.expect(")")
        if node.args.get("this") is None:
            key = positional[1]
            hint = f"write {word(name)}(input => TABLE t, {key} => DESCRIPTOR({_DESCRIBED[key][1]}))"
            raise UserError("SS1001", f"{word(name)} needs its table", span=span(name), hint=hint)
        return self.mark(node, name.start)

    def _argument_of_table(self, node: exp.Expression, key: str) -> None:
        if key == "input":
            node.set("this", self._table_argument())
            if self.at("PARTITION") and isinstance(node, nodes.ChangelogFunction):
                self.advance()
                node.set("partition_by", self._partition_keys())
        elif key in _DESCRIBED:
            what, example = _DESCRIBED[key]
            self.expect("DESCRIPTOR", hint=f"name {what} as DESCRIPTOR({example})")
            self.expect("(")
            node.set(key, self.name("a column name"))
            self.expect(")", hint=f"{what} is one column")
        else:
            node.set(key, self.value())

    def _table_argument(self) -> exp.Expression:
        has_table = self.accept("TABLE")
        if not has_table and not self.at("("):
            raise self.unexpected('"TABLE"', "write TABLE before the name of the table")
        if self._curr.token_type is TokenType.STRING:
            return self._file_path()
        return self._derived_table() if self.at("(") else self._table()

    def _partition_keys(self) -> list[Any]:
        self.expect("BY")
        is_wrapped = self.at("(")
        keys = self._parse_wrapped_csv(self.name_path) if is_wrapped else [self.name_path()]
        while self.at(",") and not self._at_argument():
            self.advance()
            keys.append(self.name_path())
        return keys

    def _order_keys(self) -> list[Any]:
        self.expect("BY")
        keys = [self._parse_ordered()]
        while self.at(",") and not self._at_argument():
            self.advance()
            keys.append(self._parse_ordered())
        return keys

    def _window_input(self, node: nodes.WindowTvf) -> exp.Expression:
        source = self._table_argument()
        if self.at("PARTITION"):
            token = self.advance()
            keys = self._partition_keys()
            if node.args["kind"] != "SESSION":
                hint = "put the keys into GROUP BY"
                message = f"{node.args['kind']} takes no PARTITION BY; only SESSION does"
                raise self.refusal(message, token, hint)
            node.set("partition_by", keys)
        return source

    def _at_argument(self) -> bool:
        """Whether the comma that comes next ends PARTITION BY: what follows is no name of a column, or a named argument."""
        is_call = word(self.peek(2)) == "("
        is_constant = self.peek(1).token_type in (TokenType.NUMBER, TokenType.STRING)
        is_word = word(self.peek(1)) in ("TABLE", "DEFAULT", "INTERVAL", "TRUE", "FALSE", "NULL", "-")
        is_model = word(self.peek(1)) == "MODEL" and word(self.peek(2)) not in (",", ")", ".")
        return is_call or is_constant or is_word or is_model or word(self.peek(2)) == "=>"


def _check_window(node: nodes.WindowTvf, name: Token) -> None:
    kind = str(node.args["kind"])
    required = ("this", "time_column", *(s for s in _WINDOW_SIZES[kind] if s != "offset"))
    labels = {"this": "table", "time_column": "time attribute"}
    for key in required:
        if node.args.get(key) is None:
            order = ", ".join(_WINDOW_SIZES[kind])
            hint = f"write {kind}(TABLE t, DESCRIPTOR(ts), {order.replace(', offset', ' [, offset]')})"
            message = f"{kind} needs its {labels.get(key, key)}"
            raise UserError("SS1001", message, span=span(name), hint=hint)
