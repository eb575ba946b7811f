"""The grammar of queries: WITH, SELECT, VALUES, set operations, ORDER BY and LIMIT."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import Token, TokenType, exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.data_types import data_type
from sqlstream.planner.dialect.habits import share_hint
from sqlstream.planner.dialect.nodes import (
    FunctionCall,
    MutualRecursion,
    OverClause,
    QueryHints,
    checked,
    span_of,
)
from sqlstream.planner.dialect.reading import option_list
from sqlstream.planner.dialect.relations import JOIN_WORDS, RelationParser
from sqlstream.planner.dialect.statements import Identifier, Option
from sqlstream.planner.dialect.tokens import is_word, span, word

_QUERY_WORDS = ("SELECT", "VALUES", "(")
_CLAUSES = ("where", "group", "having", "windows", "qualify")
_TAIL = ("order", "limit", "offset", "with_")

RECURSION_LIMIT_MAX = 1_000_000_000

_HINTS = "LOOKUP(…), STATE_TTL(…), join hints such as BROADCAST(t), and OPTIONS(…) behind a table's name"
_JOIN_HINTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")


class QueryParser(RelationParser):
    """Reads queries: sqlglot's SELECT and set operations, where ORDER BY and LIMIT belong to the whole query."""

    MODIFIABLES = (exp.Select,)  # type: ignore[assignment]
    QUERY_MODIFIER_PARSERS = {
        TokenType.WHERE: lambda self: ("where", self._parse_where()),
        TokenType.GROUP_BY: lambda self: ("group", self._parse_group()),
        TokenType.HAVING: lambda self: ("having", self._parse_having()),
        TokenType.WINDOW: lambda self: ("windows", self._parse_window_clause()),
        TokenType.QUALIFY: lambda self: ("qualify", self._parse_qualify()),
    }

    def _parse_statement(self) -> exp.Expr | None:
        """The entry point of `sqlglot.parse_one(query, read="sqlstream")`, for queries only."""
        node = checked(self.query())
        self.expect_end()
        return node

    def _parse_select(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
        consume_pipe: bool = True,
    ) -> exp.Expr | None:
        """A whole query, or the operand of a set operation."""
        if not parse_set_operation:
            return self._parse_select_query(nested=True, parse_set_operation=False)
        self.enter()
        start = self.token.start
        with_clause = self._with() if self.at("WITH") else None
        first = self._parse_select_query(nested=True, parse_set_operation=False)
        # sqlglot moves ORDER BY and LIMIT of the last SELECT up to the set operation; here they are read once, below.
        body = _ungrouped(cast(exp.Expr, self._parse_set_operations(first)))
        if with_clause is not None:
            body.set("with_", with_clause)
        self._tail(body)
        self.leave()
        return self.mark(body, start)

    def parse_set_operation(self, *args: Any, **kwargs: Any) -> exp.SetOperation | None:
        """One operation and its right side. UNION alone takes BY NAME."""
        first = self.token
        node = super().parse_set_operation(*args, **kwargs)
        if node is not None and node.args.get("by_name"):
            if not isinstance(node, exp.Union):
                hint = "list the columns of both sides in one order"
                raise self.refusal(f"{word(first)} goes by position, not BY NAME", first, hint)
            if node.args.get("kind") or node.args.get("on"):
                hint = "write UNION BY NAME, or list the columns of both sides in one order"
                raise self.refusal("CORRESPONDING is not part of Flink SQL", first, hint)
        return node

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if not self.at_any(*_QUERY_WORDS):
            raise self.unexpected("a query")
        self._refuse_foreign_select()
        start = self.token.start
        node = super()._parse_select_query(*args, **kwargs)
        return self.mark(cast(exp.Expr, node), start)

    def _refuse_foreign_select(self) -> None:
        """Refuse what sqlglot would read between SELECT and its first item."""
        ahead = 2 if word(self.peek(1)) in ("ALL", "DISTINCT") else 1
        if self.at("SELECT") and word(self.peek(ahead)) in ("ALL", "AS", "DISTINCT", "FETCH", "ON"):
            self._advance(ahead)
            raise self.unexpected("an expression or a column name")

    def _parse_wrapped_select(self, table: bool = False) -> exp.Expr | None:
        return self.query()

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        return self.expression(exp.Subquery(this=this))

    def _values_to_select(self, values: exp.Values) -> exp.Values:  # type: ignore[override]
        return values

    def _parse_query_modifiers(self, this: Any) -> Any:
        """The clauses of a SELECT after FROM. sqlglot accepts them in any order, SQL in one."""
        if isinstance(this, exp.Select) and this.args.get("from_") is None and self.at_any(*JOIN_WORDS):
            raise self.unexpected("FROM before any joined table")
        node = super()._parse_query_modifiers(this)
        if isinstance(node, exp.Select):
            _check_order(node)
            windows = node.args.pop("windows", None) or []
            _resolve_windows(node, {window.args["name"]: window for window in windows})
        return node

    def _with(self) -> exp.With:
        start = self.expect("WITH").start
        if self.accept("MUTUALLY", "RECURSIVE"):
            mutual = self._recursion_limit()
            made = exp.With(expressions=self._parse_csv(self._typed_table), recursive=True)
            made.meta["mutual"] = mutual
            return self.mark(made, start)
        is_recursive = self.accept("RECURSIVE")
        tables = self._parse_csv(self._common_table)
        return self.mark(exp.With(expressions=tables, recursive=bool(is_recursive)), start)

    def _recursion_limit(self) -> MutualRecursion:
        """`(RETURN AT RECURSION LIMIT n)` or `(ERROR AT RECURSION LIMIT n)`, which may be left out."""
        if not self.accept("("):
            return MutualRecursion()
        action = self.accept_any("RETURN", "ERROR")
        if action is None:
            raise self.unexpected("RETURN AT RECURSION LIMIT or ERROR AT RECURSION LIMIT")
        self.expect("AT", "RECURSION", "LIMIT")
        number = self.token
        rounds = self.unsigned_integer("a number of rounds")
        if not 1 <= rounds <= RECURSION_LIMIT_MAX:
            hint = f"write a number from 1 to {RECURSION_LIMIT_MAX}"
            raise self.refusal(f"{rounds} is no number of rounds to stop at", number, hint)
        self.expect(")")
        return MutualRecursion(rounds, action == "ERROR")

    def _typed_table(self) -> exp.CTE:
        """`name (column TYPE, …) AS (query)`."""
        start = self.token.start
        alias = exp.TableAlias(this=self.name("a table name"))
        if not self.at("("):
            hint = "name the columns with their types, as in reached (node INT, hops BIGINT) AS (…)"
            raise self.unexpected("the columns of the query", hint)
        columns = self._parse_wrapped_csv(lambda: (self.name("a column name"), data_type(self)))
        alias.set("columns", [name for name, _ in columns])
        alias.meta["types"] = tuple(type_ for _, type_ in columns)
        self.mark(alias, start)
        self.expect("AS")
        body = self._parse_wrapped(self.query)
        return self.mark(exp.CTE(this=body, alias=alias), start)

    def _common_table(self) -> exp.CTE:
        start = self.token.start
        alias = exp.TableAlias(this=self.name("a table name"))
        if self.at("("):
            alias.set("columns", self.name_list())
        self.mark(alias, start)
        self.expect("AS")
        body = self._parse_wrapped(self.query)
        return self.mark(exp.CTE(this=body, alias=alias), start)

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        return self._parse_csv(self._select_item), None

    def _parse_hint(self) -> QueryHints | None:  # type: ignore[override]
        if self._curr.token_type is not TokenType.HINT:
            return None
        token = self.advance()
        lookups: list[tuple[Option, ...]] = []
        lifetimes: list[Option] = []
        joined: list[tuple[str, Identifier]] = []
        if self.at("*/"):
            raise self.unexpected("a hint", "remove it; there are " + _HINTS)
        while True:
            if self.accept("LOOKUP"):
                lookups.append(option_list(self))
            elif self.accept("STATE_TTL"):
                lifetimes += option_list(self)
            elif (join := self.accept_any(*_JOIN_HINTS)) is not None:
                joined += [(join, table) for table in self._tables_of_hint()]
            else:
                raise self._unknown_hint(token)
            # Commas between hints may be left out.
            self.accept(",")
            if self.accept("*/"):
                break
        hints = self.mark(QueryHints(), token.start)
        hints.meta["lookups"] = tuple(lookups)
        hints.meta["state_ttl"] = tuple(lifetimes)
        hints.meta["joins"] = tuple(joined)
        return hints

    def _parse_into(self) -> None:
        """SELECT INTO does not exist."""

    def _parse_connect(self, skip_start_token: bool = False) -> None:
        """START WITH does not exist."""

    def _parse_lateral(self) -> None:
        """LATERAL is allowed only in place of a table, where `RelationParser` reads it."""

    def _parse_from(self, *_: Any, **__: Any) -> exp.From | None:
        start = self.token.start
        return self.mark(exp.From(this=self._parse_table()), start) if self.accept("FROM") else None

    def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
        start = self.token.start
        node = super()._parse_where(skip_where_token)
        return self.mark(node, start) if node else None

    def _parse_having(self, skip_having_token: bool = False) -> exp.Having | None:
        start = self.token.start
        node = super()._parse_having(skip_having_token)
        return self.mark(node, start) if node else None

    def _parse_qualify(self) -> exp.Qualify | None:
        start = self.token.start
        node = super()._parse_qualify()
        return self.mark(node, start) if node else None

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values:
        start = self.expect("VALUES").start
        rows = self._parse_csv(self._value_row)
        for row in rows:
            if len(row.expressions) != len(rows[0].expressions):
                counts = len(row.expressions), len(rows[0].expressions)
                message = f"this row has {counts[0]} values, the first has {counts[1]}"
                hint = "give every row of VALUES the same number of values"
                raise UserError("SS1001", message, span=span_of(row), hint=hint)
        return self.mark(exp.Values(expressions=rows), start)

    def _value_row(self) -> exp.Tuple:
        start = self.token.start
        is_row = self.at("(") or self.at("ROW", "(")
        value = self.value().unnest()
        # `(1, 2)` is a row of two values; `(1) + 2` and a lone `1` are a row of one.
        is_several = is_row and isinstance(value, FunctionCall) and value.this == "ROW"
        return self.mark(exp.Tuple(expressions=value.expressions if is_several else [value]), start)

    def _tables_of_hint(self) -> list[Identifier]:
        """Read the tables of a hint how a batch join is computed. A streaming join is computed in one way, so that it has no
        effect, as in Flink; but it must name tables."""
        self.expect("(")
        tables = [self.qualified_name("a table name")]
        while self.accept(","):
            tables.append(self.qualified_name("a table name"))
        self.expect(")")
        return tables

    def _unknown_hint(self, token: Token) -> UserError:
        name = self.token.text
        while not self.at("*/") and not self.at_end():
            self.advance()
        self.advance()
        return self.refusal(
            f'the query hint "{name}" is not supported yet', token, f"remove the hint; there are {_HINTS}"
        )

    def _select_item(self) -> exp.Expression:
        start = self.token.start
        star = self._star()
        if star is not None:
            return star
        outer, self._item_depth = self._item_depth, self._depth
        value = self.value()
        self._item_depth = outer
        has_as = self.accept("AS")
        if not has_as and not self.at_name():
            return value
        return self.mark(exp.Alias(this=value, alias=self.name("a column name")), start)

    def _star(self) -> exp.Expression | None:
        """Read `*` or `t.*`, if that is what comes next."""
        token = self.token
        if self.accept("*"):
            return self._star_columns(token.start)
        length = 0
        while (is_word(self.peek(length)) or self.peek(length).token_type is TokenType.IDENTIFIER) and word(
            self.peek(length + 1)
        ) == ".":
            length += 2
        if not length or word(self.peek(length)) != "*":
            return None
        parts = []
        while not self.at("*"):
            parts.append(self.name("a table name"))
            self.expect(".")
        if len(parts) > 3:
            raise self.unexpected("a table name of at most three parts")
        star = self._star_columns(self.expect("*").start)
        qualifiers = dict(zip(("table", "db", "catalog"), reversed(parts), strict=False))
        return self.mark(exp.Column(this=star, **qualifiers), token.start)

    def _star_columns(self, start: int) -> exp.Expression:
        """Read what may follow `*`: EXCEPT or EXCLUDE (columns), REPLACE (expression AS column) and RENAME (column AS name)."""
        star = exp.Star()
        if self.at_any("EXCEPT", "EXCLUDE") and word(self.peek(1)) == "(" and word(self.peek(2)) != "SELECT":
            self.advance()
            star.set("except_", self.name_list())
        if self.at("REPLACE", "("):
            self.advance()
            star.set("replace", self._parse_wrapped_csv(self._replacement))
        if self.at("RENAME", "("):
            self.advance()
            star.set("rename", self._parse_wrapped_csv(self._renaming))
        return self.mark(star, start)

    def _replacement(self) -> exp.Expression:
        start = self.token.start
        value = self.value()
        self.expect("AS", hint="write * REPLACE (expression AS column)")
        return self.mark(exp.Alias(this=value, alias=self.name("a column name")), start)

    def _renaming(self) -> exp.Expression:
        start = self.token.start
        column = self.name("a column name")
        self.expect("AS", hint="write * RENAME (column AS name)")
        return self.mark(exp.Alias(this=column, alias=self.name("a column name")), start)

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group:
        start = self.token.start
        self.expect("GROUP", "BY")
        if self.accept("ALL"):
            return self.mark(exp.Group(all=True), start)
        return self.mark(exp.Group(expressions=self._parse_csv(self._group_item)), start)

    def _group_item(self) -> exp.Expression:
        start = self.token.start
        if self.at("(") and word(self.peek(1)) == ")":
            self.expect("(", ")")
            return self.mark(exp.Tuple(expressions=[]), start)
        if self.accept("GROUPING", "SETS"):
            items = self._parse_wrapped_csv(self._group_item)
            return self.mark(exp.GroupingSets(expressions=items), start)
        kind = self.accept_any("ROLLUP", "CUBE")
        if kind:
            node = exp.Rollup if kind == "ROLLUP" else exp.Cube
            return self.mark(node(expressions=self._parse_wrapped_csv(self._group_item)), start)
        is_list = self.at("(")
        value = self.value()
        row = value.unnest()
        if is_list and isinstance(row, FunctionCall) and row.this == "ROW":
            return self.mark(exp.Tuple(expressions=row.expressions), start)
        return value

    def _parse_window_clause(self) -> list[exp.Expr]:
        self.expect("WINDOW")
        windows: list[exp.Expr] = []
        while not windows or self.accept(","):
            token = self.token
            name = self.name("a window name").name
            if any(w.args["name"] == name for w in windows):
                raise UserError(
                    "SS1001",
                    f'window "{name}" is defined twice',
                    span=span(token),
                    hint="give one of them another name",
                )
            self.expect("AS")
            window = self.window_definition()
            window.set("name", name)
            windows.append(window)
        return windows

    def _tail(self, body: exp.Expr) -> None:
        if self.at("ORDER"):
            order = self._order_by_all() if self.at("ORDER", "BY", "ALL") else self._parse_order()
            _resolve_windows(order, {})
            body.set("order", order)
        while True:
            start = self.token.start
            if not body.args.get("limit") and self.accept("LIMIT"):
                self._limit(body, start)
            elif not body.args.get("limit") and self.accept("FETCH"):
                self._fetch(body, start)
            elif not body.args.get("offset") and self.accept("OFFSET"):
                body.set("offset", exp.Offset(expression=self._count()))
                self.accept_any("ROW", "ROWS")
                self.mark(body.args["offset"], start)
            else:
                return

    def _limit(self, body: exp.Expr, start: int) -> None:
        if self.accept("ALL"):
            return
        body.set("limit", self.mark(exp.Limit(expression=self._count()), start))
        if self.at(","):
            start_row, count = body.args["limit"].expression.name, self._next
            rewrite = (
                f"LIMIT {count.text} OFFSET {start_row}"
                if count.text.isdigit()
                else "LIMIT count OFFSET start"
            )
            raise self.unexpected("the end of the query", f"write {rewrite}")

    def _fetch(self, body: exp.Expr, start: int) -> None:
        if self.accept_any("FIRST", "NEXT") is None:
            raise self.unexpected("FIRST or NEXT")
        count: exp.Expression = exp.Literal(this="1", is_string=False)
        if not self.at_any("ROW", "ROWS"):
            count = self._count()
        if self.accept_any("ROW", "ROWS") is None:
            raise self.unexpected("ROWS", share_hint() if self.at("PERCENT") else "")
        self.expect("ONLY")
        body.set("limit", self.mark(exp.Limit(expression=count), start))

    def _count(self) -> exp.Expression:
        start = self.token.start
        value = self.unsigned_integer("a number of rows", "write a whole number, such as 10")
        return self.mark(exp.Literal(this=str(value), is_string=False), start)

    def _parse_order(self, this: exp.Expr | None = None, skip_order_token: bool = False) -> exp.Order:
        start = self.token.start
        self.expect("ORDER", "BY")
        return self.mark(exp.Order(expressions=self._parse_csv(self._parse_ordered)), start)

    def _order_by_all(self) -> exp.Order:
        """Read ORDER BY ALL, which is by every output column in turn: its one item is `*`."""
        start = self.expect("ORDER", "BY").start
        token = self.token

        def columns() -> exp.Expr:
            self.expect("ALL")
            return self.mark(exp.Star(), token.start)

        return self.mark(exp.Order(expressions=[self.mark(self._parse_ordered(columns), token.start)]), start)

    def _parse_ordered(self, parse_method: Any = None) -> exp.Ordered:
        """An item of ORDER BY; without NULLS FIRST or LAST, NULL is the lowest value (`Flink.NULL_ORDERING`)."""
        node = cast(exp.Ordered, super()._parse_ordered(parse_method))
        if self.accept("NULLS"):
            raise self.unexpected("FIRST or LAST")
        node.set("desc", bool(node.args["desc"]))
        return node


def _ungrouped(node: exp.Expr) -> exp.Expr:
    """A query without grouping parentheses, those around a query that has no ORDER BY, LIMIT or WITH of its own."""
    root = _unwrapped(node)
    operations = [root]
    while operations:
        operation = operations.pop()
        if isinstance(operation, exp.SetOperation):
            for key in ("this", "expression"):
                operand = _unwrapped(operation.args[key])
                operation.set(key, operand)
                operations.append(operand)
    return root


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery) and not any(node.this.args.get(clause) for clause in _TAIL):
        place, node = span_of(node), node.this.pop()
        node.meta["span"] = place
    return node


def _check_order(select: exp.Select) -> None:
    """Check the order of the clauses after FROM, which sqlglot accepts in any order."""
    following = None
    for key in reversed(_CLAUSES):
        clause = select.args.get(key)
        place = span_of(clause[0] if isinstance(clause, list) else clause)
        if place is None:
            continue
        if following is not None and place.start > following:
            hint = "the clauses of SELECT are WHERE, GROUP BY, HAVING, WINDOW and QUALIFY, in this order"
            word_place = Span(place.start, place.start + len(key))
            raise UserError("SS1001", f'unexpected "{key.upper()}"', span=word_place, hint=hint)
        following = place.start


def _resolve_windows(root: exp.Expr, windows: dict[str, OverClause]) -> None:
    """Replace every `OVER name` under `root` by the definition of that window, and complete windows that extend another."""
    for definition in windows.values():
        _extend(definition, windows)
    for clause in list(root.find_all(OverClause)):
        name = clause.args.get("name")
        if name is None:
            _extend(clause, windows)
            continue
        definition = _window_named(name, windows, clause).copy()
        definition.set("name", None)
        for key in clause.arg_types:
            clause.set(key, definition.args.get(key))


def _window_named(name: str, windows: dict[str, OverClause], clause: OverClause) -> OverClause:
    if name not in windows:
        hint = "define it with WINDOW name AS (…) after HAVING, or write OVER (…)"
        raise UserError("SS1001", f'window "{name}" is not defined', span=span_of(clause), hint=hint)
    return windows[name]


def _extend(clause: OverClause, windows: dict[str, OverClause]) -> None:
    """Give a window that begins with the name of another the PARTITION BY and ORDER BY of that one."""
    name = clause.args.get("base")
    if name is None:
        return
    clause.set("base", None)
    base = _window_named(name, windows, clause)
    if base is clause or base.args.get("base") is not None:
        message = f'window "{name}" is not defined before the window that extends it'
        raise UserError("SS1001", message, span=span_of(clause), hint="define it first")
    wrong = ""
    if clause.args.get("partition_by"):
        wrong = "a window that extends another has its PARTITION BY"
    elif clause.args.get("order_by") and base.args.get("order_by"):
        wrong = f'window "{name}" has an ORDER BY already'
    elif base.args.get("frame"):
        wrong = f'window "{name}" has a frame, so it cannot be extended'
    if wrong:
        raise UserError("SS1001", wrong, span=span_of(clause), hint="write the whole window")
    for key in ("partition_by", "order_by"):
        if found := base.args.get(key):
            clause.set(key, [part.copy() for part in found])


# What the readers of all DDL statements share: a statement's text with its place, and COMMENT.


def extent(parser: QueryParser, first: Token) -> tuple[str, Span]:
    """The text and span of a statement from `first` to the last token read."""
    end = parser.previous_end
    return parser.source(first.start, end), Span(first.start, end)


def read_comment(parser: QueryParser) -> str:
    """Read `COMMENT 'text'` if it comes next."""
    return parser.string("the comment in single quotes").text if parser.accept("COMMENT") else ""
