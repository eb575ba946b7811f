"""The grammar of statements about jobs: DESCRIBE JOB and STOP JOB."""

from __future__ import annotations

from sqlglot import Token

from planner.dialect.extent import extent
from planner.dialect.queries import QueryParser
from planner.dialect.statements import DescribeJob, StopJob
from planner.dialect.tokens import span as token_span


def describe_job(parser: QueryParser, first: Token) -> DescribeJob:
    """Read from behind DESCRIBE JOB."""
    job = job_id(parser)
    return DescribeJob(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def stop_job(parser: QueryParser) -> StopJob:
    """Read STOP JOB 'id'. UserError SS1003 for WITH SAVEPOINT and WITH DRAIN."""
    first = parser.expect("STOP")
    parser.expect("JOB", hint="write STOP JOB 'id'")
    job = job_id(parser)
    if parser.at("WITH"):
        token = parser.advance()
        what = parser.accept_any("SAVEPOINT", "DRAIN")
        if what is None:
            raise parser.unexpected("SAVEPOINT")
        hint = "leave it out: the job is cancelled then"
        raise parser.refusal(f"STOP JOB … WITH {what} is not supported yet", token, hint)
    return StopJob(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def job_id(parser: QueryParser) -> Token:
    """The id in quotes behind JOB."""
    return parser.string("the id of a job in single quotes", "SHOW JOBS lists the jobs")
