"""Who watches the gateway is told of every statement and of its outcome."""

from __future__ import annotations

import pytest
from gateway_harness import (
    BLACKHOLE,
    UNBOUNDED,
    failure,
    gateway_service,
    rows,
    run,
    settled,
    until,
)

from sqlstream.client.gateway.asker import AskedStatement, Asker
from sqlstream.client.gateway.operations import OperationStatus
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.errors import SqlStreamError, UserError


def test_every_statement_is_announced_and_can_be_refused() -> None:
    listener, ann = Listener(), Asker("ann", "10.0.0.9")
    options = GatewayOptions(operations_max=1)
    with gateway_service(options, listener=listener) as (service, _):
        session = service.open_session({})
        refusals = (service.execute, service.configure_session, service.run_script)
        for execute in refusals:
            with pytest.raises(UserError, match="not allowed"):
                execute(session, "DROP TABLE t", asker=ann)
        # A statement that is refused takes no operation's place.
        executed = settled(service.execute(session, "SHOW VIEWS", asker=ann))
        shown = AskedStatement(ann, session, executed.handle, "SHOW VIEWS")
        assert listener.announced[3] == shown
        assert [s.text for s in listener.announced] == ["DROP TABLE t"] * 3 + ["SHOW VIEWS"]
        assert listener.ended == [(shown, "FINISHED", "")]


class Listener:
    """Keeps what it is told, and refuses DROP."""

    def __init__(self) -> None:
        self.announced: list[AskedStatement] = []
        self.ended: list[tuple[AskedStatement, str, str]] = []

    def announce(self, statement: AskedStatement) -> None:
        self.announced.append(statement)
        if "DROP" in statement.text:
            raise UserError("SS4050", "not allowed")

    def end(self, statement: AskedStatement, outcome: str, error: SqlStreamError | None) -> None:
        self.ended.append((statement, outcome, error.code if error is not None else ""))


def test_the_outcome_of_every_announced_statement_is_told_once() -> None:
    listener = Listener()
    with gateway_service(GatewayOptions(operations_max=3), listener=listener) as (service, _):
        session = service.open_session({"table.dml-sync": "true"})
        rows(run(service, session, UNBOUNDED.format(rate=10)))
        rows(run(service, session, BLACKHOLE))
        failure(service.execute(session, "SELECT x"))
        insert = service.execute(session, "INSERT INTO sink SELECT id FROM u")
        until(lambda: insert.status is OperationStatus.RUNNING)
        waiting = [service.execute(session, "SHOW VIEWS") for _ in range(2)]
        with pytest.raises(UserError, match="3 operations that are not closed"):
            service.execute(session, "SHOW TABLES")
        waiting[0].cancel()
        insert.cancel()
        settled(waiting[1])
        until(lambda: len(listener.ended) == 7)
    assert [(outcome, code) for *_, outcome, code in listener.ended] == [
        *(("FINISHED", ""), ("FINISHED", ""), ("ERROR", "SS2003"), ("REJECTED", "SS6025")),
        *(("CANCELED", ""), ("CANCELED", ""), ("FINISHED", "")),
    ]
    assert {statement.operation for statement, *_ in listener.ended} == {
        statement.operation for statement in listener.announced
    }
