"""Jobs that a statement runs while it is planned end with the statement's patience."""

from __future__ import annotations

import threading
import time

import pytest

from sqlstream.cancellation import given_up_by
from sqlstream.client.statements.short_job import JobEnd
from sqlstream.errors import JobError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply

ENDED = JobStatusReply("j", JobStatus.FINISHED, None)


def test_the_end_of_a_job_is_awaited_no_longer_than_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        JobEnd().awaited(time.monotonic())


def test_the_end_of_a_job_is_not_awaited_by_a_statement_that_was_given_up() -> None:
    given_up = threading.Event()
    given_up.set()
    with given_up_by(given_up), pytest.raises(JobError, match="SS6031"):
        JobEnd().awaited()


def test_an_end_that_was_told_before_is_there_at_once() -> None:
    end = JobEnd()
    end.tell(ENDED)
    assert end.awaited(0.0) is ENDED
