"""The grammar of statements about jobs: DESCRIBE JOB, STOP JOB and SHOW CHECKPOINTS."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.planner.dialect.extent import extent
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import DescribeJob, ShowCheckpoints, StopJob
from sqlstream.planner.dialect.tokens import span as token_span
from sqlstream.planner.dialect.tokens import word


def describe_job(parser: QueryParser, first: Token) -> DescribeJob:
    """Read from behind DESCRIBE JOB."""
    job = job_id(parser)
    return DescribeJob(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def stop_job(parser: QueryParser) -> StopJob:
    """Read STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]]."""
    first = parser.expect("STOP")
    parser.expect("JOB", hint="write STOP JOB 'id'")
    job = job_id(parser)
    has_savepoint = parser.at("WITH")
    if has_savepoint:
        hint = "WITH DRAIN comes behind WITH SAVEPOINT" if word(parser.peek(1)) == "DRAIN" else ""
        parser.expect("WITH")
        parser.expect("SAVEPOINT", hint=hint)
    is_drained = parser.at("WITH")
    if is_drained:
        parser.expect("WITH", "DRAIN")
    return StopJob(
        *extent(parser, first),
        job_id=job.text,
        id_span=token_span(job),
        has_savepoint=has_savepoint,
        is_drained=is_drained,
    )


def show_checkpoints(parser: QueryParser, first: Token) -> ShowCheckpoints:
    """Read from behind SHOW CHECKPOINTS: [FOR JOB 'id']."""
    if not parser.accept("FOR"):
        return ShowCheckpoints(*extent(parser, first))
    parser.expect("JOB", hint="write SHOW CHECKPOINTS FOR JOB 'id'")
    job = job_id(parser)
    return ShowCheckpoints(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def job_id(parser: QueryParser) -> Token:
    """The id in quotes behind JOB."""
    return parser.string("the id of a job in single quotes", "SHOW JOBS lists the jobs")
