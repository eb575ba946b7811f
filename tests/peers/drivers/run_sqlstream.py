"""Runs statements on sqlstream for the comparison; `sys.argv[1]` has its settings as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[3]))

from serve import serve

from sqlstream.arrow import row_kinds, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.client.clusters.local_cluster import IN_PROCESS_INPUT
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_script


def main() -> None:
    # The processes that run jobs start before the first is measured, as those of the other engines do.
    started = {IN_PROCESS_INPUT: "0", "slotmanager.number-of-slots.min": str(os.cpu_count() or 1)}
    with local_session({**json.loads(sys.argv[1]), **started}) as session:
        session.cluster()
        serve(lambda request: answer(session, request))


def answer(session: Session, request: dict[str, Any]) -> dict[str, Any]:
    """Run the request's `setup`, then its `job`; the last row when the job is a query, else how long it took."""
    session.catalog = type(session.catalog)()
    for statement in parse_script(request["setup"]):
        session.execute(statement)
    (statement,) = parse_script(request["job"])
    cluster = session.cluster()
    cpu, started = cluster.cpu_seconds(), time.perf_counter()
    job = session.execute(statement)
    assert isinstance(job, Job)
    row = None if job.schema is None else last_row(job)
    try:
        status, error = job.wait(request["timeout_s"])
    except TimeoutError:
        job.cancel()
        raise
    wall = time.perf_counter() - started
    if status is not JobStatus.FINISHED:
        raise RuntimeError(
            f"the job ended {status.value.lower()}: {error.message if error else 'without a reason'}"
        )
    return {"wall_s": wall, "cpu_s": cluster.cpu_seconds() - cpu, "row": row}


def last_row(job: Job) -> list[Any]:
    """The last row that the changelog leaves."""
    row: list[Any] = []
    for batch in job.rows():
        kinds = row_kinds(batch)
        kept = [i for i in range(batch.num_rows) if kinds[i] in (RowKind.INSERT, RowKind.UPDATE_AFTER)]
        if kept:
            row = [column[kept[-1]].as_py() for column in without_row_kinds(batch).columns]
    return row


if __name__ == "__main__":
    main()
