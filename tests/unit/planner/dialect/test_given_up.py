"""A long text is given up while it is read, between any two of its tokens."""

from __future__ import annotations

import threading

import pytest

from sqlstream.cancellation import given_up_by
from sqlstream.errors import JobError
from sqlstream.planner.dialect.tokens import tokenize


class _AfterSome(threading.Event):
    """Is set once it has been asked `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("times", [0, 1, 999])
def test_the_first_pass_over_a_text_ends_within_it(times: int) -> None:
    event = _AfterSome(times)
    with given_up_by(event), pytest.raises(JobError, match="was cancelled while it was planned"):
        next(tokenize("SELECT " + "1, " * 1_000_000))
    # Once where the pass ends, and once by who says why.
    assert event.left >= -3
