"""Statements of a session: the rows of the last one, or the error."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.arrow import is_changelog
from sqlstream.client.sessions.outcomes import Job, Rows
from sqlstream.client.sessions.session import Session
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_statements


def run(session: Session, text: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    found: list[tuple[Any, ...]] = []
    for statement in parse_statements(text):
        outcome = session.execute(statement)
        batches = (
            outcome.batches
            if isinstance(outcome, Rows)
            else list(outcome.rows())
            if isinstance(outcome, Job)
            else ()
        )
        found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        if isinstance(outcome, Job):
            status, error = outcome.wait(60)
            if error is not None:
                raise error.to_error()
            assert status is JobStatus.FINISHED
            assert not any(map(is_changelog, batches)) or outcome.is_updating
    return found


def refused(session: Session, text: str) -> tuple[str, str, str]:
    """Code, message and underlined text of the error."""
    with pytest.raises(SqlStreamError) as caught:
        run(session, text)
    error = caught.value
    span = getattr(error, "span", None)
    return error.code, error.message, text[span.start : span.end] if span is not None else ""
