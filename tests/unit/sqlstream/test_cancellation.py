"""Statements that are given up while they are planned."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sqlstream.cancellation import check_not_given_up, given_up_by
from sqlstream.client.sessions.session import Session
from sqlstream.errors import FailureReason, JobError
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.runtime.embedded import EmbeddedCluster

COLUMNS = ", ".join(f"UPPER(a) || '{i}' AS c{i}" for i in range(60))
QUERY = f"SELECT {COLUMNS} FROM t WHERE a IN ('x', 'y') AND (a = 'b' OR a LIKE 'c%') UNION ALL SELECT {COLUMNS} FROM t"


class GivenUpAtLook(threading.Event):
    """Is set from the `number`-th look at it on. State: the number of looks so far."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks >= self.number


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with EmbeddedCluster(in_process=True) as cluster:
        session = Session(cluster)
        session.execute(parse_statement("CREATE TABLE t (a STRING) WITH ('connector' = 'datagen')"))
        yield session


def looks_of(session: Session, text: str, number: int) -> int:
    event = GivenUpAtLook(number)
    with given_up_by(event):
        session.compile(parse_statement(text), job_id="0" * 32)
    return event.looks


def test_a_statement_is_looked_after_in_every_stage_and_ends_wherever_it_is_given_up(
    session: Session,
) -> None:
    whole = looks_of(session, QUERY, 10**9)
    # Each of the 120 columns is read as four tokens at least, parsed, bound, optimised and digested.
    assert whole > 120 * 20
    places = set()
    for number in range(1, whole, whole // 40):
        with pytest.raises(JobError) as raised:
            looks_of(session, QUERY, number)
        assert (raised.value.code, raised.value.reason) == ("SS6031", FailureReason.CANCELLED)
        deepest = next(e.path.parts for e in reversed(raised.traceback) if "planner" in e.path.parts)
        places.add(deepest[deepest.index("planner") + 1])
    assert places >= {"dialect", "bind", "rules", "physical"}


def test_a_statement_is_given_up_on_its_own_thread_and_until_its_end(session: Session) -> None:
    given_up, kept = threading.Event(), threading.Event()
    given_up.set()
    ended = []

    def other() -> None:
        check_not_given_up()
        ended.append(True)

    with given_up_by(given_up):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
        with given_up_by(kept):
            check_not_given_up()
        with pytest.raises(JobError):
            check_not_given_up()
    check_not_given_up()
    assert ended == [True]
