"""The grammar of what stands in FROM: tables, subqueries, joins, window table-valued functions."""

from __future__ import annotations

from sqlglot import exp

from planner.dialect import expressions, functions, queries
from planner.dialect.nodes import WindowTvf
from planner.dialect.options import option_list
from planner.dialect.statements import Option
from planner.dialect.tokens import Cursor, Token, TokenKind
from sqlstream.errors import UserError

# The positional order of the arguments after the table and the time column.
_WINDOW_SIZES = {
    "TUMBLE": ("size", "offset"),
    "HOP": ("slide", "size", "offset"),
    "CUMULATE": ("step", "size", "offset"),
    "SESSION": ("gap",),
}
_JOIN_WORDS = ("NATURAL", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS")
_FOREIGN_JOINS = ("SEMI", "ANTI", "ASOF", "STRAIGHT", "GLOBAL", "OUTER")
_SEMI_HINT = "write JOIN … ON; for SEMI and ANTI, WHERE [NOT] EXISTS (…) or [NOT] IN (…)"
_FOREIGN_TABLES = {
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE is not supported yet",
    "TABLESAMPLE": "TABLESAMPLE is not supported",
    "PIVOT": "PIVOT is not part of Flink SQL",
    "UNPIVOT": "UNPIVOT is not part of Flink SQL",
}


def from_clause(cursor: Cursor, select: exp.Select) -> None:
    """Read FROM with its joins into `select`."""
    start = cursor.expect("FROM").start
    select.set("from_", cursor.mark(exp.From(this=_relation(cursor)), start))
    joins: list[exp.Join] = []
    has_comma = False
    while True:
        start = cursor.token.start
        if cursor.accept(","):
            has_comma = True
            joins.append(cursor.mark(exp.Join(this=_relation(cursor), kind="CROSS"), start))
        elif cursor.at_any(*_JOIN_WORDS):
            joins.append(_join(cursor, has_comma))
        else:
            break
    select.set("joins", joins)


def _join(cursor: Cursor, has_comma: bool) -> exp.Join:
    first = cursor.token
    is_natural = cursor.accept("NATURAL")
    side = cursor.accept_any("LEFT", "RIGHT", "FULL")
    if side:
        cursor.accept("OUTER")
    kind = None if side else cursor.accept_any("INNER", "CROSS")
    if cursor.at_any("SEMI", "ANTI"):
        token = cursor.advance()
        raise cursor.refusal(f"{token.upper} JOIN is not part of Flink SQL", first, _SEMI_HINT)
    cursor.expect("JOIN")
    if has_comma and side in ("RIGHT", "FULL"):
        # A comma binds more loosely than JOIN, and these two sides make that a difference.
        raise cursor.refusal(
            f"a {side} JOIN after a comma is not supported", first, "write CROSS JOIN in place of the comma"
        )
    node = exp.Join(this=_relation(cursor), side=side, kind=kind, method="NATURAL" if is_natural else None)
    if cursor.accept("ON"):
        node.set("on", expressions.expression(cursor))
    elif cursor.accept("USING"):
        node.set("using", name_list(cursor))
    elif not is_natural and kind != "CROSS":
        raise cursor.unexpected("ON or USING", "write the join condition, or CROSS JOIN for all pairs")
    if (is_natural or kind == "CROSS") and (node.args.get("on") is not None or node.args.get("using")):
        word = "NATURAL" if is_natural else "CROSS"
        raise cursor.refusal(
            f"{word} JOIN takes no condition", first, "leave out either the word or the condition"
        )
    return cursor.mark(node, first.start)


def name_list(cursor: Cursor) -> list[exp.Identifier]:
    """Read `(a, b, …)`."""
    cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return names


def _relation(cursor: Cursor) -> exp.Expression:
    start = cursor.token.start
    node = _unaliased(cursor)
    _refuse_table_operators(cursor)
    alias_start = cursor.token.start
    has_as = cursor.accept("AS")
    if not has_as and cursor.token.upper in _FOREIGN_JOINS and cursor.peek(1).upper in ("JOIN", "APPLY"):
        token = cursor.advance()
        raise cursor.refusal(
            f"{token.upper} {cursor.advance().upper} is not part of Flink SQL", token, _SEMI_HINT
        )
    if has_as or cursor.at_name():
        alias = exp.TableAlias(this=cursor.name("a table alias"))
        if cursor.at("("):
            alias.set("columns", name_list(cursor))
        node.set("alias", cursor.mark(alias, alias_start))
        _refuse_table_operators(cursor)
    return cursor.mark(node, start)


def _refuse_table_operators(cursor: Cursor) -> None:
    token = cursor.token
    if cursor.accept("FOR", "SYSTEM_TIME"):
        cursor.accept("AS")
        cursor.accept("OF")
        hint = "join on the latest version with a regular join, or use an interval join"
        raise cursor.refusal("lookup and temporal joins are not supported yet", token, hint)
    if cursor.accept("LATERAL", "VIEW"):
        raise _lateral_view(cursor, token)
    if token.kind is TokenKind.WORD and token.upper in _FOREIGN_TABLES:
        cursor.advance()
        raise cursor.refusal(_FOREIGN_TABLES[token.upper], token, "write the query without it")


def _unaliased(cursor: Cursor) -> exp.Expression:
    token = cursor.token
    if cursor.at("("):
        return _derived_table(cursor)
    if cursor.accept("LATERAL"):
        return _lateral(cursor, token)
    if cursor.accept("UNNEST"):
        return _unnest(cursor, token)
    if cursor.accept("TABLE"):
        cursor.expect("(")
        node = _table_function(cursor)
        cursor.expect(")")
        return node
    if token.kind is TokenKind.WORD and cursor.peek(1).upper == "(":
        return _table_function(cursor)
    return _table(cursor)


def _derived_table(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("(").start
    depth = 0
    while cursor.peek(depth).upper == "(":
        depth += 1
    if cursor.peek(depth).upper not in ("SELECT", "WITH", "VALUES"):
        raise cursor.unexpected("a query", "write joins without parentheses around them, or as a subquery")
    node = exp.Subquery(this=queries.query(cursor))
    cursor.expect(")")
    return cursor.mark(node, start)


def _lateral_view(cursor: Cursor, start: Token) -> UserError:
    hint = "use CROSS JOIN UNNEST(…) or LATERAL TABLE(…)"
    return cursor.refusal("LATERAL VIEW is not part of Flink's default dialect", start, hint)


def _lateral(cursor: Cursor, start: Token) -> exp.Expression:
    if cursor.accept("VIEW"):
        raise _lateral_view(cursor, start)
    if cursor.at("("):
        return cursor.mark(exp.Lateral(this=_derived_table(cursor)), start.start)
    cursor.expect("TABLE", hint="write LATERAL TABLE(function(…)) or LATERAL (SELECT …)")
    cursor.expect("(")
    if not functions.can_be_called(cursor.token) or cursor.peek(1).upper != "(":
        raise cursor.unexpected("a table function")
    node = exp.Lateral(this=functions.call(cursor))
    cursor.expect(")")
    return cursor.mark(node, start.start)


def _unnest(cursor: Cursor, start: Token) -> exp.Expression:
    cursor.expect("(")
    node = exp.Unnest(expressions=[expressions.expression(cursor)])
    cursor.expect(")")
    node.set("offset", cursor.accept("WITH", "ORDINALITY"))
    return cursor.mark(node, start.start)


def _table(cursor: Cursor) -> exp.Table:
    name = cursor.token
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("a table name"))
    if len(parts) > 3:
        raise cursor.refusal(
            "the name has too many parts", name, "a table is named [catalog.][database.]table"
        )
    node = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
    cursor.mark(node, name.start)
    options = table_hint(cursor)
    if options:
        node.meta["options"] = options
    return node


def table_hint(cursor: Cursor) -> tuple[Option, ...]:
    """Read `/*+ OPTIONS('key'='value', …) */`, if a hint comes next; any other hint is refused."""
    if cursor.token.kind is not TokenKind.HINT_START:
        return ()
    cursor.advance()
    token = cursor.token
    if not cursor.accept("OPTIONS"):
        cursor.advance()
        raise cursor.refusal(f'the table hint "{token.text}" is not supported', token, "only OPTIONS(…) is")
    options = option_list(cursor)
    cursor.expect("*/")
    return options


def _table_function(cursor: Cursor) -> exp.Expression:
    name = cursor.token
    kind = name.upper
    if kind not in _WINDOW_SIZES:
        cursor.advance()
        hint = "the window functions are TUMBLE, HOP, CUMULATE and SESSION"
        raise cursor.refusal(f'the table function "{name.text}" is not supported yet', name, hint)
    cursor.advance()
    cursor.expect("(")
    node = WindowTvf(kind=kind)
    _window_arguments(cursor, node, name)
    cursor.expect(")")
    cursor.mark(node, name.start)
    _check_window(node, name)
    return node


def _window_arguments(cursor: Cursor, node: WindowTvf, name: Token) -> None:
    positional = ("this", "time_column", *_WINDOW_SIZES[str(node.args["kind"])])
    names = {"DATA": "this", "TIMECOL": "time_column", **{p.upper(): p for p in positional[2:]}}
    is_named = cursor.peek(1).upper == "=>"
    count = 0
    while count == 0 or cursor.accept(","):
        token = cursor.token
        if is_named:
            if token.upper not in names:
                raise cursor.unexpected("one of " + ", ".join(names))
            key = names[cursor.advance().upper]
            cursor.expect("=>")
        else:
            if count >= len(positional):
                raise cursor.unexpected('")"', f"{name.upper} takes at most {len(positional)} arguments")
            key = positional[count]
        if node.args.get(key) is not None:
            raise UserError("SS1001", f'argument "{token.text}" is given twice', span=token.span)
        node.set(key, _window_argument(cursor, node, key))
        count += 1


def _window_argument(cursor: Cursor, node: WindowTvf, key: str) -> exp.Expression:
    if key == "this":
        return _window_input(cursor, node)
    if key != "time_column":
        return expressions.expression(cursor)
    hint = "name the time attribute as DESCRIPTOR(column)"
    cursor.expect("DESCRIPTOR", hint=hint)
    cursor.expect("(")
    start = cursor.token.start
    column = exp.Column(this=cursor.name("a column name"))
    cursor.mark(column, start)
    cursor.expect(")", hint="a window has one time attribute")
    return column


def _window_input(cursor: Cursor, node: WindowTvf) -> exp.Expression:
    has_table = cursor.accept("TABLE")
    if not has_table and not cursor.at("("):
        raise cursor.unexpected('"TABLE"', "write TABLE before the name of the table")
    source = _derived_table(cursor) if cursor.at("(") else _table(cursor)
    if cursor.at("PARTITION"):
        token = cursor.advance()
        cursor.expect("BY")
        keys = [expressions.name_path(cursor)] if not cursor.at("(") else _key_list(cursor)
        while cursor.at(",") and not _at_argument(cursor):
            cursor.advance()
            keys.append(expressions.name_path(cursor))
        if node.args["kind"] != "SESSION":
            hint = "put the keys into GROUP BY"
            raise cursor.refusal(f"{node.args['kind']} takes no PARTITION BY; only SESSION does", token, hint)
        node.set("partition_by", keys)
    return source


def _key_list(cursor: Cursor) -> list[exp.Expression]:
    cursor.expect("(")
    keys = [expressions.name_path(cursor)]
    while cursor.accept(","):
        keys.append(expressions.name_path(cursor))
    cursor.expect(")")
    return keys


def _at_argument(cursor: Cursor) -> bool:
    """Whether the comma that comes next ends PARTITION BY: DESCRIPTOR(…) or a named argument follows it."""
    is_descriptor = cursor.peek(1).upper == "DESCRIPTOR" and cursor.peek(2).upper == "("
    return is_descriptor or cursor.peek(2).upper == "=>"


def _check_window(node: WindowTvf, name: Token) -> None:
    kind = str(node.args["kind"])
    required = ("this", "time_column", *(s for s in _WINDOW_SIZES[kind] if s != "offset"))
    labels = {"this": "table", "time_column": "time attribute"}
    for key in required:
        if node.args.get(key) is None:
            order = ", ".join(_WINDOW_SIZES[kind])
            hint = f"write {kind}(TABLE t, DESCRIPTOR(ts), {order.replace(', offset', ' [, offset]')})"
            message = f"{kind} needs its {labels.get(key, key)}"
            raise UserError("SS1001", message, span=name.span, hint=hint)
