"""The grammar of EXECUTE PLAN."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.planner.dialect.extent import extent
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import ExecutePlan
from sqlstream.planner.dialect.tokens import span


def execute_plan(parser: QueryParser, first: Token) -> ExecutePlan:
    """Read the path behind PLAN."""
    path = parser.string("the path of a compiled plan in single quotes")
    return ExecutePlan(*extent(parser, first), path=path.text, path_span=span(path))
