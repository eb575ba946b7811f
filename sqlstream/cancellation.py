"""Gives up what a thread does, such as to plan a statement, or to commit to a system that does not answer: whoever waits for it
says so, and what the thread runs looks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar

from sqlstream.errors import JobError


class PlanningWatch:
    """Watches a statement that a thread plans: `look` may wait, or raise when the statement is to end; `is_set` says that it was
    given up, and `on_planned` is told when its job begins."""

    def is_set(self) -> bool:
        raise NotImplementedError

    def look(self) -> None:
        raise NotImplementedError

    def on_planned(self) -> None:
        raise NotImplementedError


_GIVEN_UP: ContextVar[threading.Event | PlanningWatch | None] = ContextVar("given_up", default=None)


@contextlib.contextmanager
def given_up_by(event: threading.Event | PlanningWatch) -> Iterator[None]:
    """Within it, on this thread, `check_not_given_up` raises once the event is set."""
    token = _GIVEN_UP.set(event)
    try:
        yield
    finally:
        _GIVEN_UP.reset(token)


def check_not_given_up() -> None:
    """JobError SS6031 when the statement that this thread plans has been given up.

    Called for every node of a tree, so that a long statement ends soon. Only code without effects calls it: a statement ends
    between two steps of its planning, and never between two changes that belong together.
    """
    event = _GIVEN_UP.get()
    if event is None:
        return
    if isinstance(event, PlanningWatch):
        event.look()
    if event.is_set():
        raise JobError("SS6031", "the statement was cancelled while it was planned")


def planned() -> None:
    """The statement of this thread is planned, and its job begins."""
    event = _GIVEN_UP.get()
    if isinstance(event, PlanningWatch):
        event.on_planned()


def is_given_up() -> bool:
    """Whether nobody waits any more for what this thread does, such as a commit that can be repeated."""
    event = _GIVEN_UP.get()
    return event is not None and event.is_set()
