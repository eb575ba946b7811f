"""The grammar of queries: WITH, SELECT, VALUES, set operations, ORDER BY and LIMIT."""

from __future__ import annotations

from sqlglot import exp

from planner.dialect import expressions, functions, relations
from planner.dialect.nodes import FunctionCall, OverClause, span_of
from planner.dialect.tokens import Cursor, TokenKind
from sqlstream.errors import UserError

_SET_OPERATIONS = {"UNION": exp.Union, "EXCEPT": exp.Except, "MINUS": exp.Except}


def at_query(cursor: Cursor) -> bool:
    """Whether a query comes next, parentheses aside."""
    return cursor.at_any("SELECT", "WITH", "VALUES")


def query(cursor: Cursor) -> exp.Expression:
    """Read a whole query."""
    cursor.enter()
    start = cursor.token.start
    with_clause = _with(cursor) if cursor.at("WITH") else None
    body = _set_operation(cursor)
    if with_clause is not None:
        body.set("with_", with_clause)
    _tail(cursor, body)
    cursor.leave()
    return cursor.mark(body, start)


def _with(cursor: Cursor) -> exp.With:
    start = cursor.expect("WITH").start
    if cursor.at("RECURSIVE"):
        token = cursor.advance()
        raise cursor.refusal("recursive queries are not supported", token, "leave RECURSIVE out")
    tables = [_common_table(cursor)]
    while cursor.accept(","):
        tables.append(_common_table(cursor))
    return cursor.mark(exp.With(expressions=tables), start)


def _common_table(cursor: Cursor) -> exp.CTE:
    start = cursor.token.start
    alias = exp.TableAlias(this=cursor.name("a table name"))
    if cursor.at("("):
        alias.set("columns", relations.name_list(cursor))
    cursor.mark(alias, start)
    cursor.expect("AS")
    cursor.expect("(")
    body = query(cursor)
    cursor.expect(")")
    return cursor.mark(exp.CTE(this=body, alias=alias), start)


def _set_operation(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    left = _intersection(cursor)
    while word := cursor.accept_any(*_SET_OPERATIONS):
        is_distinct = cursor.accept_any("ALL", "DISTINCT") != "ALL"
        right = _intersection(cursor)
        left = _SET_OPERATIONS[word](this=left, expression=right, distinct=is_distinct)
        cursor.mark(left, start)
    return left


def _intersection(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    left = _term(cursor)
    while cursor.accept("INTERSECT"):
        is_distinct = cursor.accept_any("ALL", "DISTINCT") != "ALL"
        left = exp.Intersect(this=left, expression=_term(cursor), distinct=is_distinct)
        cursor.mark(left, start)
    return left


def _term(cursor: Cursor) -> exp.Expression:
    if cursor.at("SELECT"):
        return _select(cursor)
    if cursor.at("VALUES"):
        return _values(cursor)
    if not cursor.at("("):
        raise cursor.unexpected("a query")
    start = cursor.advance().start
    inner = query(cursor)
    cursor.expect(")")
    if any(inner.args.get(clause) for clause in ("order", "limit", "offset", "with_")):
        return cursor.mark(exp.Subquery(this=inner), start)
    return cursor.mark(inner, start)


def _values(cursor: Cursor) -> exp.Values:
    start = cursor.expect("VALUES").start
    rows = [_value_row(cursor)]
    while cursor.accept(","):
        rows.append(_value_row(cursor))
    for row in rows:
        if len(row.expressions) != len(rows[0].expressions):
            message = f"this row has {len(row.expressions)} values, the first has {len(rows[0].expressions)}"
            hint = "give every row of VALUES the same number of values"
            raise UserError("SS1001", message, span=span_of(row), hint=hint)
    return cursor.mark(exp.Values(expressions=rows), start)


def _value_row(cursor: Cursor) -> exp.Tuple:
    start = cursor.token.start
    is_row = cursor.at("(") or cursor.at("ROW", "(")
    value = expressions.expression(cursor)
    # `(1, 2)` is a row of two values; `(1) + 2` and a lone `1` are a row of one.
    is_several = is_row and isinstance(value, FunctionCall) and value.this == "ROW"
    return cursor.mark(exp.Tuple(expressions=value.expressions if is_several else [value]), start)


def _select(cursor: Cursor) -> exp.Select:
    start = cursor.expect("SELECT").start
    if cursor.token.kind is TokenKind.HINT_START:
        raise _query_hint(cursor)
    select = exp.Select()
    distinct_start = cursor.token.start
    if cursor.accept_any("DISTINCT", "ALL") == "DISTINCT":
        select.set("distinct", cursor.mark(exp.Distinct(), distinct_start))
    items = [_select_item(cursor)]
    while cursor.accept(","):
        items.append(_select_item(cursor))
    select.set("expressions", items)
    if cursor.at("FROM"):
        relations.from_clause(cursor, select)
    _where_to_window(cursor, select)
    return cursor.mark(select, start)


def _query_hint(cursor: Cursor) -> UserError:
    token = cursor.advance()
    name = cursor.token.text
    while not cursor.at("*/") and cursor.token.kind is not TokenKind.END:
        cursor.advance()
    cursor.advance()
    hint = "remove the hint; only OPTIONS hints behind a table's name are supported"
    return cursor.refusal(f'the query hint "{name}" is not supported yet', token, hint)


def _select_item(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    star = _star(cursor)
    if star is not None:
        return star
    value = expressions.expression(cursor)
    has_as = cursor.accept("AS")
    if not has_as and not cursor.at_name():
        return value
    return cursor.mark(exp.Alias(this=value, alias=cursor.name("a column name")), start)


def _star(cursor: Cursor) -> exp.Expression | None:
    """Read `*` or `t.*`, if that is what comes next."""
    token = cursor.token
    if cursor.accept("*"):
        return cursor.mark(exp.Star(), token.start)
    length = 0
    while (
        cursor.peek(length).kind in (TokenKind.WORD, TokenKind.QUOTED)
        and cursor.peek(length + 1).upper == "."
    ):
        length += 2
    if not length or cursor.peek(length).upper != "*":
        return None
    parts = []
    while not cursor.at("*"):
        parts.append(cursor.name("a table name"))
        cursor.expect(".")
    if len(parts) > 3:
        raise cursor.unexpected("a table name of at most three parts")
    star = cursor.mark(exp.Star(), cursor.expect("*").start)
    qualifiers = dict(zip(("table", "db", "catalog"), reversed(parts), strict=False))
    return cursor.mark(exp.Column(this=star, **qualifiers), token.start)


def _where_to_window(cursor: Cursor, select: exp.Select) -> None:
    start = cursor.token.start
    if cursor.accept("WHERE"):
        select.set("where", cursor.mark(exp.Where(this=expressions.expression(cursor)), start))
    if cursor.at("GROUP"):
        select.set("group", _group(cursor))
    start = cursor.token.start
    if cursor.accept("HAVING"):
        select.set("having", cursor.mark(exp.Having(this=expressions.expression(cursor)), start))
    windows = _windows(cursor) if cursor.accept("WINDOW") else {}
    if cursor.at("QUALIFY"):
        token = cursor.advance()
        hint = "filter ROW_NUMBER() in the WHERE of an outer query"
        raise cursor.refusal("QUALIFY is not part of Flink SQL", token, hint)
    _resolve_windows(select, windows)


def _group(cursor: Cursor) -> exp.Group:
    start = cursor.expect("GROUP").start
    cursor.expect("BY")
    items = [_group_item(cursor)]
    while cursor.accept(","):
        items.append(_group_item(cursor))
    return cursor.mark(exp.Group(expressions=items), start)


def _group_item(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    if cursor.at("(") and cursor.peek(1).upper == ")":
        cursor.expect("(", ")")
        return cursor.mark(exp.Tuple(expressions=[]), start)
    if cursor.accept("GROUPING", "SETS"):
        return cursor.mark(exp.GroupingSets(expressions=_group_items(cursor)), start)
    word = cursor.accept_any("ROLLUP", "CUBE")
    if word:
        node = exp.Rollup if word == "ROLLUP" else exp.Cube
        return cursor.mark(node(expressions=_group_items(cursor)), start)
    is_list = cursor.at("(")
    value = expressions.expression(cursor)
    if is_list and isinstance(value, FunctionCall) and value.this == "ROW":
        return cursor.mark(exp.Tuple(expressions=value.expressions), start)
    return value


def _group_items(cursor: Cursor) -> list[exp.Expression]:
    cursor.expect("(")
    items = [_group_item(cursor)]
    while cursor.accept(","):
        items.append(_group_item(cursor))
    cursor.expect(")")
    return items


def _windows(cursor: Cursor) -> dict[str, OverClause]:
    windows: dict[str, OverClause] = {}
    while True:
        token = cursor.token
        name = cursor.name("a window name").name
        if name in windows:
            raise UserError("SS1001", f'window "{name}" is defined twice', span=token.span)
        cursor.expect("AS")
        windows[name] = functions.window_definition(cursor)
        if not cursor.accept(","):
            return windows


def _resolve_windows(root: exp.Expression, windows: dict[str, OverClause]) -> None:
    """Give every `OVER name` under `root` the definition of that window."""
    for clause in list(root.find_all(OverClause)):
        name = clause.args.get("name")
        if name is None:
            continue
        if name not in windows:
            hint = "define it with WINDOW name AS (…) after HAVING, or write OVER (…)"
            raise UserError("SS1001", f'window "{name}" is not defined', span=span_of(clause), hint=hint)
        clause.set("name", None)
        for key, value in windows[name].copy().args.items():
            clause.set(key, value)


def _tail(cursor: Cursor, body: exp.Expression) -> None:
    start = cursor.token.start
    if cursor.accept("ORDER"):
        cursor.expect("BY")
        order = exp.Order(expressions=ordering(cursor))
        _resolve_windows(order, {})
        body.set("order", cursor.mark(order, start))
    while True:
        start = cursor.token.start
        if not body.args.get("limit") and cursor.accept("LIMIT"):
            _limit(cursor, body, start)
        elif not body.args.get("limit") and cursor.accept("FETCH"):
            _fetch(cursor, body, start)
        elif not body.args.get("offset") and cursor.accept("OFFSET"):
            body.set("offset", exp.Offset(expression=_count(cursor)))
            cursor.accept_any("ROW", "ROWS")
            cursor.mark(body.args["offset"], start)
        else:
            return


def _limit(cursor: Cursor, body: exp.Expression, start: int) -> None:
    if cursor.accept("ALL"):
        return
    body.set("limit", cursor.mark(exp.Limit(expression=_count(cursor)), start))
    if cursor.at(","):
        raise cursor.unexpected("the end of the query", "write LIMIT count OFFSET start")


def _fetch(cursor: Cursor, body: exp.Expression, start: int) -> None:
    if cursor.accept_any("FIRST", "NEXT") is None:
        raise cursor.unexpected("FIRST or NEXT")
    count: exp.Expression = exp.Literal(this="1", is_string=False)
    if not cursor.at_any("ROW", "ROWS"):
        count = _count(cursor)
    if cursor.accept_any("ROW", "ROWS") is None:
        raise cursor.unexpected("ROWS")
    cursor.expect("ONLY")
    body.set("limit", cursor.mark(exp.Limit(expression=count), start))


def _count(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    value = cursor.unsigned_integer("a number of rows")
    return cursor.mark(exp.Literal(this=str(value), is_string=False), start)


def ordering(cursor: Cursor) -> list[exp.Expression]:
    """Read the items of ORDER BY. Without NULLS FIRST or LAST, NULL is the lowest value, as in Flink."""
    items: list[exp.Expression] = []
    while not items or cursor.accept(","):
        start = cursor.token.start
        value = expressions.expression(cursor)
        is_descending = cursor.accept_any("ASC", "DESC") == "DESC"
        nulls_first = not is_descending
        if cursor.accept("NULLS"):
            word = cursor.accept_any("FIRST", "LAST")
            if word is None:
                raise cursor.unexpected("FIRST or LAST")
            nulls_first = word == "FIRST"
        ordered = exp.Ordered(this=value, desc=is_descending, nulls_first=nulls_first)
        items.append(cursor.mark(ordered, start))
    return items
