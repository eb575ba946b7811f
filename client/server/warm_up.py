"""Loads what the first statement would have to wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from sqlstream.client.sessions.session import Session

logger = logging.getLogger(__name__)

PLANNED = "SELECT k, COUNT(*) FROM (VALUES ('a', 1), ('b', 2)) AS t (k, v) WHERE v > 0 GROUP BY k"
"""It passes through parser, binder, rules, both plans and expressions."""


EXECUTED = "SELECT 1"
"""Its answer needs no job."""


def warm_up(open_session: Callable[[Mapping[str, str]], Session]) -> None:
    """Plan one query and answer another in a session that nobody else sees. A failure is one that the first user sees too."""
    from sqlstream.client.sessions.outcomes import LiteralJob
    from sqlstream.planner.dialect.parser import parse_statement

    try:
        session = open_session({})
        session.compile(parse_statement(PLANNED))
        outcome = session.execute(parse_statement(EXECUTED))
        if isinstance(outcome, LiteralJob):
            outcome.results().close()
    except Exception as error:  # nothing depends on it
        logger.warning("the server could not warm up: %s", error)


def start_warm_up(open_session: Callable[[Mapping[str, str]], Session]) -> threading.Thread:
    """`warm_up` beside the server, which may end meanwhile: its end does not wait."""
    thread = threading.Thread(target=warm_up, args=(open_session,), name="warm-up", daemon=True)
    thread.start()
    return thread
