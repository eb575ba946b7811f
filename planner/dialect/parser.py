"""Flink's SQL text → statements: the entry points, and the table of the syntax nodes that the binder meets.

    parse_script(text)              every statement of a script; raises the first error, before anything runs
    parse_statements(text)          the same, lazily: statement n+1 is parsed when the iterator reaches it
    parse_statement(text, offset)   exactly one statement; positions are shifted by `offset`
    parse_query(text, offset)       one query as an expression (the body of a stored view)
    parse_expression(text, offset)  one scalar expression
    parse_type(text, offset)        one data type → LogicalType
    split_script(text)              the pieces between semicolons, unparsed

sqlglot parses, by the dialect `sqlstream.planner.dialect.parser.Flink`: a Tokenizer with Flink's words and literals, and
a Parser made of layers, each over the one before:

    reading.py      positions, names, and errors that say what was expected
    expressions.py  sqlglot's ladder of operators with Calcite's precedences; literals, CASE, CAST, names
    functions.py    calls; sqlglot's renaming and rewriting of functions is switched off
    relations.py    tables, joins, UNNEST, LATERAL, window table-valued functions
    queries.py      sqlglot's SELECT and set operations; WITH, VALUES, GROUP BY, ORDER BY, LIMIT
    nodes.py        our own nodes, and the final check: a finished tree has only the nodes that the table below lists

sqlglot accepts many dialects, so every hook by which a text could be misread in silence is closed: a node that is
not in the table is refused with its position. Statements other than queries are read by `ddl` and `commands` into
the dataclasses of `statements`. Queries are trees of sqlglot expressions and of the nodes of
`sqlstream.planner.dialect.nodes`.

Every node carries `node.meta["span"]`; `span_of(node)` reads it. Names keep the case in which they were
written. Helpers: `span_of(node)`, `cast_type(cast)`, `interval_value(node)`, `datetime_value(node)`,
`table_options(table)`.

SCALAR EXPRESSIONS: the node, and its arguments (node.args[...], or .this, .expression, .expressions)
`a`, `t.a`, `c.d.t.a`             exp.Column(this=Identifier, table, db, catalog); `.parts` = identifiers in
                                  order. The binder decides what is alias, column or nested field. 5+ parts:
                                  exp.Dot chain
`expr.f` (expr is no name, or > 4 parts)
                                  exp.Dot(this=expr, expression=Identifier)
`*`, `t.*`                        exp.Star();  exp.Column(this=exp.Star, table=…). Only in a SELECT list and
                                  COUNT(*). EXCEPT or EXCLUDE (a, b): except_=[Identifier]; REPLACE (x AS a):
                                  replace=[exp.Alias]
1, 1.5, 1e3                       exp.Literal(this=text, is_string=False): no dot or e: INT or BIGINT by
                                  size; with a dot: DECIMAL; with an exponent: DOUBLE
'text', U&'\\20AC'                exp.Literal(this=decoded text, is_string=True), CHAR(n)
X'0AFF'                           exp.HexString(this=hex digits)
TRUE FALSE NULL                   exp.Boolean(this=bool), exp.Null
UNKNOWN                           exp.Cast(this=Null, to=TypeName BOOLEAN)
DATE '…' TIME '…' TIMESTAMP '…'   nodes.DateTimeLiteral(this=text, kind="DATE"|"TIME"|"TIMESTAMP"), checked;
                                  datetime_value(node) → (LogicalType, int): days | ms of day | nanoseconds
                                  since epoch
INTERVAL '…' unit [TO unit]       nodes.IntervalLiteral(this=text, unit, to, is_negative), checked;
                                  interval_value(node) → (LogicalType, int): milliseconds | months
+ - * / % ||                      exp.Add Sub Mul Div Mod DPipe (this, expression); unary minus
                                  exp.Neg(this)
= <> != < <= > >=                 exp.EQ NEQ LT LTE GT GTE (this, expression)
AND OR NOT                        exp.And, exp.Or (binary, left deep), exp.Not(this)
x IS [NOT] NULL                   [exp.Not of] exp.Is(this, expression=exp.Null)
x IS [NOT] TRUE | FALSE           [exp.Not of] exp.Is(this, expression=exp.Boolean)
x IS [NOT] UNKNOWN | JSON [VALUE|…]
                                  [exp.Not of] exp.Is(this, expression=exp.Var("UNKNOWN" | "JSON VALUE" |
                                  …))
x IS [NOT] DISTINCT FROM y        exp.NullSafeNEQ | exp.NullSafeEQ (this, expression)
x [NOT] BETWEEN [SYMMETRIC] a AND b
                                  [exp.Not of] exp.Between(this, low, high, symmetric=bool)
x [NOT] LIKE p [ESCAPE e], SIMILAR TO
                                  [exp.Not of] nodes.Like(this, expression=p, escape=e|None,
                                  is_similar=bool)
x [NOT] ILIKE p [ESCAPE e]        the same of FunctionCall "LOWER" of both sides
x [NOT] IN (a, b) | (query)       [exp.Not of] exp.In(this, expressions=[…]) | exp.In(this, query=query)
EXISTS (query)                    exp.Exists(this=query)
(query)                           exp.Subquery(this=query), scalar
(x)                               x itself (parentheses leave no node)
(a, b), ROW(a, b)                 FunctionCall "ROW"
ARRAY[a, b], MAP[k, v, …]         FunctionCall "ARRAY", FunctionCall "MAP"
a[i]                              exp.Bracket(this=a, expressions=[i])
CASE [x] WHEN a THEN b … ELSE c END
                                  exp.Case(this=x|None, ifs=[exp.If(this=a, true=b)], default=c|None)
CAST(x AS t), TRY_CAST(x AS t), x::t
                                  exp.Cast | exp.TryCast(this=x, to=nodes.TypeName); cast_type(node) →
                                  LogicalType
f(a, b), any other function       nodes.FunctionCall(this="F" upper case, expressions=[a, b],
                                  is_distinct=bool, filter=cond|None, over=OverClause|None,
                                  order=exp.Order|None (WITHIN GROUP), nulls="IGNORE"|"RESPECT"|None).
                                  Functions are never renamed or re-ordered
COUNT(*)                          FunctionCall "COUNT" with expressions=[exp.Star]
CURRENT_DATE, LOCALTIME, … without ( )
                                  FunctionCall of that name, no arguments
EXTRACT(u FROM x)                 FunctionCall "EXTRACT" [exp.Var("HOUR"), x]; units are upper case,
                                  singular
FLOOR(x TO u), CEIL(x TO u)       FunctionCall "FLOOR" | "CEIL" [x, exp.Var(u)]   (CEILING stays CEILING)
TIMESTAMPADD(u, n, t), TIMESTAMPDIFF(u, a, b)
                                  FunctionCall [exp.Var(u), n, t]
POSITION(a IN b)                  FunctionCall "POSITION" [a, b]
TRIM([BOTH|LEADING|TRAILING] [c] FROM x)
                                  FunctionCall "TRIM" [exp.Var("BOTH"), c or Literal ' ', x]; TRIM(x) too
SUBSTRING(x FROM a [FOR n])       FunctionCall "SUBSTRING" [x, a, n]
OVERLAY(x PLACING y FROM a [FOR n])
                                  FunctionCall "OVERLAY" [x, y, a, n]
f(…) OVER (…), OVER w             FunctionCall.over = nodes.OverClause(partition_by=[…],
                                  order_by=[exp.Ordered], frame="ROWS"|"RANGE"|None, start=FrameBound|None,
                                  end=FrameBound|None); WINDOW w is resolved
frame bounds                      nodes.FrameBound(kind="PRECEDING"|"FOLLOWING"|"CURRENT ROW",
                                  this=expr|None: UNBOUNDED). `ROWS n PRECEDING` gets end=CURRENT ROW

QUERIES
SELECT                            exp.Select(expressions, distinct=exp.Distinct|None,
                                  from_=exp.From(this)|None, joins=[Join], where=exp.Where, group=exp.Group,
                                  having=exp.Having, order, limit, offset, with_)
x AS y                            exp.Alias(this=x, alias=Identifier)
GROUP BY                          exp.Group(expressions=[…]) whose items may be exp.Rollup /
                                  exp.Cube(expressions=[item]) or exp.GroupingSets(expressions=[item]); an
                                  item of those may be exp.Tuple(expressions) (also the empty one, also
                                  directly: GROUP BY ()). GROUP BY ALL: all=True
ORDER BY                          exp.Order(expressions=[exp.Ordered(this, desc=bool, nulls_first=bool)]):
                                  nulls_first is always set; Flink's default is NULL lowest (ASC: first,
                                  DESC: last)
LIMIT n | FETCH FIRST n ROWS ONLY, OFFSET n
                                  exp.Limit(expression=Literal), exp.Offset(expression=Literal). LIMIT ALL:
                                  none
UNION [ALL], INTERSECT [ALL], EXCEPT | MINUS
                                  exp.Union | Intersect | Except(this, expression, distinct=bool, order,
                                  limit, offset, with_)
(query) as a query                exp.Subquery(this=query) only when it has its own ORDER BY/LIMIT/WITH;
                                  else the query
WITH a (x, y) AS (q)              query.args["with_"] = exp.With(expressions=[exp.CTE(this=q,
                                  alias=exp.TableAlias)], recursive=bool). Of WITH MUTUALLY RECURSIVE a (x INT)
                                  mutual_recursion(node) and column_types(cte) say the rest
VALUES (1, 'a'), (2, 'b')         exp.Values(expressions=[exp.Tuple(expressions=[…])]), order/limit as above

IN FROM AND JOIN (each may have alias=exp.TableAlias(this=Identifier, columns=[Identifier]))
[c.][d.]t                         exp.Table(this=Identifier, db, catalog); table_options(node) →
                                  tuple[Option] of OPTIONS hint
'path'                            nodes.FilePath(this=Literal): files; table_options(node) as for tables
t FOR SYSTEM_TIME AS OF x AS a    the same, with version=nodes.SystemTime(this=x)
(query) [AS] a                    exp.Subquery(this=query, alias)
(VALUES …) AS a (x, y)            exp.Subquery(this=exp.Values, alias)
TABLE(TUMBLE(…)), TUMBLE(…), named arguments
                                  nodes.WindowTvf(kind="TUMBLE"|"HOP"|"CUMULATE"|"SESSION", this=exp.Table |
                                  exp.Subquery, partition_by=[exp.Column], time_column=exp.Column,
                                  size=expr|None, slide=expr|None (HOP), step=expr|None (CUMULATE),
                                  gap=expr|None (SESSION), offset=expr|None)
TABLE(FROM_CHANGELOG(…)), TO_CHANGELOG(…)
                                  nodes.ChangelogFunction(kind, this=exp.Table | exp.Subquery,
                                  partition_by=[exp.Column], op=exp.Identifier, op_mapping=expr,
                                  invalid_op_handling=expr)
LATERAL SNAPSHOT(…)               exp.Lateral(this=nodes.SnapshotFunction(this=exp.Table | exp.Subquery,
                                  on_time=exp.Identifier, load_completed_time=expr,
                                  load_completed_idle_timeout=expr, state_ttl=expr))
TABLE(f(input => TABLE t PARTITION BY k, n => 1)), f(TABLE t, 1)
                                  nodes.TableCall(this="F", expressions=[nodes.CallArgument(kind="TABLE"|
                                  "DESCRIPTOR"|"DEFAULT"|"VALUE", this=exp.Table | exp.Subquery | expr,
                                  expressions=[exp.Column], name=Identifier, partition_by=[exp.Column])])
UNNEST(x) [WITH ORDINALITY]       exp.Unnest(expressions=[x], offset=bool)
LATERAL TABLE(f(x)), LATERAL (query)
                                  exp.Lateral(this=FunctionCall | exp.Subquery)
(a JOIN b …)                      nodes.JoinedTables(this=a, joins=[exp.Join, …])
joins                             exp.Join(this, side="LEFT"|"RIGHT"|"FULL"|None, kind="INNER"|"CROSS"|"SEMI"|
                                  "ANTI"|None, on, using=[Identifier], method="NATURAL"|None). `a, b` is
                                  kind="CROSS".

t MATCH_RECOGNIZE (…)             nodes.MatchRecognize(this=exp.Table | exp.Subquery, …), its pattern by
                                  sqlstream.planner.dialect.match_recognize

t PIVOT (…), t UNPIVOT (…)        nodes.Pivot, nodes.Unpivot(this=exp.Table | exp.Subquery, …)

Refused here with a position: TABLESAMPLE, LATERAL VIEW,
QUALIFY, WITH RECURSIVE, query hints, other dialects' operators, and every statement that
`sqlstream.planner.dialect.statements` has no class for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect import commands, data_types
from sqlstream.planner.dialect.literals import datetime_value, interval_value
from sqlstream.planner.dialect.nodes import cast_type, span_of
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.reading import nested_too_deeply
from sqlstream.planner.dialect.statements import Option, Statement
from sqlstream.planner.dialect.tokens import FlinkTokenizer, check_size, tokenize, word
from sqlstream.planner.guards import without_collection
from sqlstream.types import LogicalType

Result = TypeVar("Result")
__all__ = [
    "Piece",
    "cast_type",
    "datetime_value",
    "interval_value",
    "iterate_script",
    "parse_expression",
    "parse_query",
    "parse_script",
    "parse_statement",
    "parse_statements",
    "parse_type",
    "span_of",
    "split_script",
    "table_options",
]


def parse_script(text: str) -> list[Statement]:
    """Every statement of a script. UserError for the first one that is not supported SQL."""
    return list(parse_statements(text))


def parse_statements(text: str) -> Iterator[Statement]:
    """The statements of a script one by one: an error is raised when its statement is reached."""
    for piece in iterate_script(text):
        yield _read(commands.statement, text, list(piece.tokens))


def parse_statement(text: str, offset: int = 0) -> Statement:
    """Parse one statement, whose `text` begins at `offset` of its script. A final semicolon is allowed."""
    pieces = iterate_script(text, offset)
    piece = next(pieces, None)
    if piece is None:
        span = Span(offset, offset + len(text))
        raise UserError("SS1001", "there is no statement here", span=span, hint="write a statement")
    statement = _read(commands.statement, text, list(piece.tokens), offset)
    following = next(pieces, None)
    if following is not None:
        message = "only one statement is allowed here"
        raise UserError("SS1001", message, span=following.span, hint="send the statements one by one")
    return statement


def parse_query(text: str, offset: int = 0) -> exp.Expression:
    """Parse one query."""
    return _read(QueryParser.query, text, list(tokenize(text, offset)), offset)


def parse_expression(text: str, offset: int = 0) -> exp.Expression:
    """Parse one scalar expression."""
    return _read(QueryParser.value, text, list(tokenize(text, offset)), offset)


def parse_type(text: str, offset: int = 0) -> LogicalType:
    """Parse one data type.

    >>> str(parse_type("ROW<a INT NOT NULL, b DECIMAL(10, 2) ARRAY>"))
    'ROW<`a` INT NOT NULL, `b` ARRAY<DECIMAL(10, 2)>>'
    """
    return _read(data_types.data_type, text, list(tokenize(text, offset)), offset)


def table_options(table: exp.Expr) -> tuple[Option, ...]:
    """The options of an exp.Table's OPTIONS hint."""
    options: tuple[Option, ...] = table.meta_get("options", ())
    return options


def _read(read: Callable[[QueryParser], Result], text: str, tokens: list[Token], offset: int = 0) -> Result:
    """The result of `read`, which must consume all tokens. UserError SS3019 when there are too many."""
    check_size(tokens)
    parser = QueryParser(dialect=Flink)
    parser.open(text, tokens, offset)
    try:
        with without_collection():
            result = read(parser)
    except RecursionError:
        raise nested_too_deeply(parser.token) from None
    parser.expect_end()
    return result


# Flink SQL as a dialect of sqlglot.


class Flink(Dialect):
    """Flink's SQL: names keep their case, NULL is the lowest value, and other dialects' syntax is refused."""

    NULL_ORDERING = "nulls_are_small"
    INTERSECT_BINDS_TIGHTER_THAN_UNION_AND_EXCEPT = True
    DPIPE_IS_STRING_CONCAT = False

    Tokenizer = FlinkTokenizer
    Parser = QueryParser


class SqlStream(Flink):
    """Flink's dialect under the name that sqlglot registers: `parse_one(query, read="sqlstream")`."""


# A script's text → the pieces between its semicolons.


@dataclasses.dataclass(frozen=True)
class Piece:
    """One statement's text, first to last token; `is_terminated`: a semicolon follows."""

    text: str
    span: Span
    is_terminated: bool
    tokens: tuple[Token, ...] = dataclasses.field(repr=False)


def iterate_script(text: str, offset: int = 0) -> Iterator[Piece]:
    """The pieces in order; text that is not SQL raises SS1001 when the iterator reaches it, and no earlier.

    Semicolons in strings, quoted identifiers, comments and statement sets do not end a piece.
    """
    tokens: list[Token] = []
    for token in tokenize(text, offset=offset):
        if token.token_type is not TokenType.SEMICOLON or is_open_statement_set(tokens):
            tokens.append(token)
        elif tokens:
            yield _piece(text, offset, tokens, True)
            tokens = []
    if tokens:
        yield _piece(text, offset, tokens, False)


def split_script(text: str) -> list[Piece]:
    """All pieces of a script."""
    return list(iterate_script(text))


def _piece(text: str, offset: int, tokens: list[Token], is_terminated: bool) -> Piece:
    start, end = tokens[0].start, tokens[-1].end + 1
    return Piece(text[start - offset : end - offset], Span(start, end), is_terminated, tuple(tokens))


def is_open_statement_set(tokens: list[Token]) -> bool:
    """Whether `tokens` begin a statement set without its END."""
    first = word(tokens[0]) if tokens else ""
    if first not in ("BEGIN", "CANARY", "COMPILE", "EXECUTE", "EXPLAIN", "STATEMENT", "VERIFY"):
        return False
    words = [word(t) for t in tokens[:16]]
    is_set = words[:3] == ["BEGIN", "STATEMENT", "SET"] or any(
        words[i : i + 3] == ["STATEMENT", "SET", "BEGIN"] for i in range(len(words) - 2)
    )
    # END closes the set only where a statement could begin: the END of a CASE never follows a semicolon.
    is_closed = word(tokens[-1]) == "END" and word(tokens[-2]) in (";", "BEGIN")
    return is_set and not is_closed
