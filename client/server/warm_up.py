"""Loads what the first statement would have to wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from client.session import Session

logger = logging.getLogger(__name__)

STATEMENT = "SELECT k, COUNT(*) FROM (VALUES ('a', 1), ('b', 2)) AS t (k, v) WHERE v > 0 GROUP BY k"
"""It passes through parser, binder, rules, both plans and expressions."""


def warm_up(open_session: Callable[[Mapping[str, str]], Session]) -> None:
    """Plan a query that is not run. A failure is one that the first user sees too."""
    from planner.dialect.parser import parse_statement

    try:
        open_session({}).compile(parse_statement(STATEMENT))
    except Exception as error:  # nothing depends on it
        logger.warning("the server could not warm up: %s", error)
