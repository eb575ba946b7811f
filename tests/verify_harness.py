"""Verifies statements on a cluster of two TaskManager processes, between which rows go over Flight."""

from __future__ import annotations

from pathlib import Path

from oracle import Engine

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.client.verification.outcome import Verification, verification_text
from sqlstream.client.verification.statements import verifications
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Insert, Query, Statement, StatementSet, Verify
from sqlstream.planner.verification import NAME

TOLERANCE = {"sqlstream.verify.float-tolerance": "1e-9"}


class Verifier(Engine):
    """An `Engine` whose jobs run in two child processes of one slot each."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._clusters = LocalClusterClient(task_managers=2)
        self._session = Session(self._clusters)
        self._earlier: set[str] = set()

    def verify(self, script: str, engine: str = "duckdb") -> list[Verification | UserError]:
        """What was found for each query and INSERT of a script, or why it was refused; its other statements are executed."""
        found: list[Verification | UserError] = []
        for statement in parse_statements(script):
            if isinstance(statement, Query | Insert | StatementSet):
                found += self.verified(statement, engine)
            else:
                self.execute(statement)
        return found

    def processes_of_last_stream(self) -> set[str]:
        """The TaskManagers that ran the last verification, but for its vertices of one subtask. Where ties leave a choice it
        is of several jobs: one runs the statement, others ask what could stand in a row's place."""
        new = {job.job_id for job in self._clusters.jobs() if job.name == NAME} - self._earlier
        stream = (v for job in new for v in self._clusters.details(job).vertices if v.parallelism > 1)
        return {subtask.task_manager_id for vertex in stream for subtask in vertex.subtasks}

    def verified(self, statement: Statement, engine: str) -> list[Verification] | list[UserError]:
        assert isinstance(statement, Query | Insert | StatementSet)
        self._earlier = {job.job_id for job in self._clusters.jobs()}
        try:
            return verifications(Verify(statement.text, statement.span, statement, engine), self._session)
        except UserError as error:
            return [error]


def assert_equal(found: list[Verification | UserError]) -> None:
    """Fails with the text of VERIFY where rows differ or a statement was refused."""
    assert found
    for each in found:
        assert isinstance(each, Verification), each
        assert each.is_equal, verification_text(each)
