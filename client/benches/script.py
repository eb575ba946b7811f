"""Runs the query file of a benchmark with its tables pointed elsewhere, and judges its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import sqlstream
from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogTable
from sqlstream.errors import ErrorInfo, UserError, error_info
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import Metrics

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session

QUERIES_DIR = Path(sqlstream.__file__).parent / "queries"
EVENT_TIME_SPAN_S = 10
"""Seconds of event time that the events span, however many they are, unless a rate is given."""

COMPARED = {"q6": "rows", "q12": "", "q18": "rows", "q19": "rows"}
"""Nexmark queries that are not compared by row count and checksum: q6, q18 and q19 may take either of two equal rows, q12 has
windows by processing time."""

Options = dict[str, str]


def nexmark_text(query: str) -> str:
    """The file of a Nexmark query."""
    return (QUERIES_DIR / "nexmark" / f"{query}.sql").read_text(encoding="utf-8")


def nexmark_queries() -> list[str]:
    """The Nexmark queries that have a file, in order of their number."""
    names = [path.stem for path in (QUERIES_DIR / "nexmark").glob("q*.sql")]
    return sorted(names, key=lambda name: int(name[1:]))


def run_script(session: Session, text: str, options_of: Callable[[CatalogTable], Options]) -> dict[str, Any]:
    """Run a script whose tables have the options that `options_of` gives; returns the metrics of its last job. JobError when a
    job does not finish."""
    from sqlstream.client.sessions.outcomes import Job
    from sqlstream.planner.dialect.parser import parse_script

    session.catalog = type(session.catalog)()
    total: dict[str, Any] = {}
    for statement in parse_script(text):
        outcome = session.execute(statement)
        redirect_tables(session, options_of)
        if isinstance(outcome, Job):
            status, error = outcome.wait()
            if status is not JobStatus.FINISHED:
                raise (error or _unknown(status)).to_job_error()
            total = _added(outcome.metrics().operators.values())
    return total


def redirect_tables(session: Session, options_of: Callable[[CatalogTable], Options]) -> None:
    """Give all tables of the session other options."""
    for entry in session.catalog.list(DEFAULT_CATALOG, DEFAULT_DATABASE):
        if isinstance(entry, CatalogTable):
            session.catalog.put(msgspec.structs.replace(entry, options=options_of(entry)))


def nexmark_options(table: CatalogTable, events: int, rate: int, sink: str, files: str = "") -> Options:
    """The options of a table of a Nexmark query: number and rate of events, and where rows go. q10's files are written into the
    directory `files`, unless it is empty: then its rows go where those of the others do. UserError SS4005."""
    options = dict(table.options)
    match options["connector"]:
        case "nexmark":
            return options | {"nexmark.events": str(events), "nexmark.rate": str(rate)}
        case "blackhole" | "checksum":
            return options | {"connector": sink}
        case "filesystem":
            return options | {"path": f"{files}/{table.path.name}"} if files else {"connector": sink}
        case "duckdb":
            # A table that lies beside the queries, wherever the command was started.
            return options | {"path": str(QUERIES_DIR / "nexmark" / Path(options["path"]).name)}
        case other:
            raise UserError(
                "SS4005",
                f'table "{table.path.name}" of a Nexmark query reads "{other}"',
                hint="let it read nexmark, filesystem or duckdb",
            )


def answer_of(metrics: dict[str, Any]) -> tuple[int, str]:
    """Number and checksum of the final rows of a job into connector `checksum`."""
    return int(metrics.get("resultRows", 0)), checksum_text(int(metrics.get("resultChecksum", 0)))


def checksum_text(checksum: int) -> str:
    """
    >>> checksum_text(-1)
    'ffffffffffffffff'
    """
    return f"{checksum & (2**64 - 1):016x}"


def is_same_answer(query: str, one: tuple[int, str], other: tuple[int, str]) -> bool | None:
    """Whether two answers, of number and checksum of the rows, agree as far as the query defines them; None where it does not."""
    compared = COMPARED.get(query, "checksum")
    if not compared:
        return None
    return one[0] == other[0] and (compared == "rows" or one[1] == other[1])


def _added(operators: Iterable[Metrics]) -> dict[str, Any]:
    """The metrics of all operators, summed by name."""
    total: dict[str, Any] = {}
    for metrics in operators:
        for name, value in metrics.items():
            total[name] = total.get(name, 0) + value
    return total


def _unknown(status: JobStatus) -> ErrorInfo:
    return error_info("SS6054", f"the job ended {status.value.lower()}")
