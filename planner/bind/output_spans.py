"""The position of each output column of a query in the script, for errors about one column."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.planner.dialect.nodes import span_of


def output_spans(query: exp.Expr, width: int) -> tuple[Span | None, ...]:
    """One position per column of the query (`width` of them): its SELECT item, its value in the first row of VALUES, or the
    star that covers it; the whole query where no such place exists."""
    whole = (span_of(query),) * width
    items = _items(query)
    stars = [i for i in items if _is_star(i)]
    if len(stars) > 1 or (len(items) != width and not stars):
        return whole
    spans: list[Span | None] = []
    for item in items:
        shown = item.this if isinstance(item, exp.Alias) else item
        spans += [span_of(shown)] * (width - len(items) + 1 if _is_star(item) else 1)
    return tuple(spans)


def _items(query: exp.Expr) -> list[exp.Expr]:
    match query:
        case exp.Subquery() | exp.SetOperation():
            return _items(query.this)
        case exp.Select():
            return list(query.expressions)
        case exp.Values():
            row = query.expressions[0]
            return list(row.expressions) if isinstance(row, exp.Tuple) else [row]
    return []


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
