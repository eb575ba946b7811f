"""COMPILE PLAN and EXECUTE PLAN: plans in files, run without the catalog that they were made with."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from sqlstream import __version__
from sqlstream import config as options
from sqlstream.client.sessions.effects import job_effects
from sqlstream.effects import Effects
from sqlstream.errors import ErrorsAt, ExternalError, Retry, SqlStreamError, UserError
from sqlstream.expired_rows import CONNECTOR as EXPIRED_ROWS
from sqlstream.graph.job_graph import JobGraph, read_tables
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.planner.dialect.statements import CompilePlan, ExecutePlan
from sqlstream.planner.explain import explain_job_graph
from sqlstream.secrets import without_secrets
from sqlstream.spi.files import refuse_home

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Job, Outcome
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.errors import Span


Result = TypeVar("Result")

FORCE = "table.plan.force-recompile"
_OF_THE_PLAN = "table."
"""Settings that begin so say what rows mean: they stay those under which the plan was compiled."""


def compile_plan(statement: CompilePlan, session: PlanningSession) -> Outcome:
    """Plan a statement and write its plan, unless there is one and that may be. UserError SS3522 for a file that is there."""
    from sqlstream import types as sql
    from sqlstream.client.sessions.outcomes import Rows, literal_batches
    from sqlstream.schema import Schema

    _require_file(statement.path, statement.path_span, session)
    files = session.files()
    done = f'plan "{statement.path}" compiled'
    if _located(lambda: files.status(statement.path), statement.path_span) is None or options.get(
        session.config, FORCE
    ):
        plan = session.compile(statement.target)
        if statement.is_executed:
            # Before the file is written.
            session.permit.require(job_effects(plan.job_graph), statement.span)
        _write(statement, encode_plan(plan.job_graph, without_secrets(statement.target.text)), session)
    elif statement.if_not_exists:
        done = f'plan "{statement.path}" exists already: nothing compiled'
    else:
        raise UserError(
            "SS3522",
            f'plan "{statement.path}" exists already',
            span=statement.path_span,
            hint=f"write IF NOT EXISTS to keep it, or SET '{FORCE}' = 'true' to replace it",
        )
    if statement.is_executed:
        return _started(statement.path, statement.path_span, session)
    schema = Schema.of(("result", sql.STRING))
    return Rows(schema, literal_batches(schema, (("OK",),)), done)


def execute_plan(statement: ExecutePlan, session: PlanningSession) -> Outcome:
    """Start the job of a plan, or tell what it does. UserError SS3521 for a file that is no plan."""
    from sqlstream.client.sessions.outcomes import Text

    _require_file(statement.path, statement.path_span, session)
    if not statement.is_explained:
        return _started(statement.path, statement.path_span, session)
    graph, text = _read(statement.path, statement.path_span, session)
    return Text(
        f"== Compiled Statement ==\n{without_secrets(text)}\n\n== Job Graph ==\n{explain_job_graph(graph)}\n"
    )


def _require_file(path: str, span: Span, session: PlanningSession) -> None:
    _located(lambda: refuse_home(path, "the path of the plan"), span)
    session.permit.require(Effects(files=frozenset({path})), span)


def _started(path: str, span: Span, session: PlanningSession) -> Job:
    graph, _ = _read(path, span, session)
    return session.submit_graph(_for_session(graph, session.config, session.new_job_id()))


def _for_session(graph: JobGraph, settings: Mapping[str, str], job_id: str) -> JobGraph:
    """The job with the settings of the session that say how it runs, among them its parallelism."""
    kept = {k: v for k, v in graph.config.items() if k.startswith(_OF_THE_PLAN)}
    own = {k: v for k, v in settings.items() if not k.startswith(_OF_THE_PLAN)}
    if graph.replaces_rows:
        own.pop("execution.checkpointing.interval", None)
    graph = replace(graph, job_id=job_id, config=kept | own)
    wanted = int(options.get(settings, "parallelism.default"))
    if graph.scaling is None or wanted == graph.scaling.parallelism:
        return graph
    try:
        return rescaled_job_graph(graph, wanted)
    except UserError as error:
        if error.code == "SS6230":
            # Every operator has a parallelism of its own.
            return graph
        raise


def _read(path: str, span: Span, session: PlanningSession) -> tuple[JobGraph, str]:
    def read() -> bytes:
        with session.files().open_read(path) as stream:
            return stream.read(PLAN_BYTES_MAX + 1)

    data = _located(read, span)
    if len(data) > PLAN_BYTES_MAX:
        raise UserError("SS3521", f'"{path}" is too large for a compiled plan', span=span, hint="name a plan")
    with ErrorsAt(span):
        return decode_plan(data, path)


def _write(statement: CompilePlan, data: bytes, session: PlanningSession) -> None:
    """Options of tables may be secrets: only the user can read the file. It is there whole or not at all."""
    from sqlstream.runtime.host.private_files import PrivateFiles

    files, path = PrivateFiles(), session.files().absolute(statement.path)
    draft = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{secrets.token_hex(4)}.draft")

    def write() -> None:
        try:
            with files.open_write(draft) as stream:
                stream.write(data)
                stream.flush()
                files.sync(stream)
            files.publish(draft, path)
        except BaseException:
            files.remove(draft)
            raise

    _located(write, statement.path_span)


def _located(act: Callable[[], Result], span: Span) -> Result:
    """Errors of files point at the path."""
    try:
        return act()
    except SqlStreamError as error:
        if isinstance(error, UserError):
            raise error.at(span) from None
        if isinstance(error, ExternalError) and error.retry is Retry.NEVER:
            raise UserError(
                error.code, error.message, span=span, detail=error.detail, hint=error.hint
            ) from error
        raise


# Compiled plans as text: a JobGraph in JSON that can be read, compared, stored and run again.


FORMAT = 1
"""Raised when older plans cannot be run any more."""

PLAN_BYTES_MAX = 64 << 20


class PlanFile(msgspec.Struct, frozen=True):
    """The content of a file. `statement` is what was compiled; `digest` that of `job`, so that an edited plan is found."""

    format: int
    version: str
    statement: str
    digest: str
    job: msgspec.Raw


def encode_plan(graph: JobGraph, statement: str) -> bytes:
    """The text of a plan. It has no positions, which would be those of another script, and no job id, as each run has its own.
    UserError SS3520 for values that JSON does not hold, SS3572 for a plan that reads expired rows."""
    _refuse_expired_rows(graph)
    graph = _without_positions(replace(graph, job_id=""))
    job = msgspec.json.encode(graph)
    if msgspec.json.decode(job, type=JobGraph) != graph:
        raise UserError(
            "SS3520", "the plan has a number that a plan file cannot hold (an infinite one, or none)"
        )
    file = PlanFile(FORMAT, __version__, statement, _digest(msgspec.json.decode(job)), msgspec.Raw(job))
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def decode_plan(data: bytes, path: str) -> tuple[JobGraph, str]:
    """The plan and its statement. UserError SS3521 for text that is no plan, that was changed, or that another version wrote,
    SS3572 for one that reads expired rows."""
    again = "compile the statement again: COMPILE PLAN 'file' FOR …"
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UserError(
            "SS3521", f'"{path}" is no compiled plan', detail=str(error)[:200], hint=again
        ) from error
    if "format" not in head or "job" not in head:
        raise UserError("SS3521", f'"{path}" is JSON, but no compiled plan', hint=again)
    found = f"format {head['format']} of sqlstream {head.get('version', '?')}"
    if head["format"] != FORMAT or head.get("version") != __version__:
        raise UserError(
            "SS3521",
            f'plan "{path}" was compiled by another version',
            detail=f"it is of {found[:100]}, and this is format {FORMAT} of sqlstream {__version__}",
            hint=again,
        )
    if head.get("digest") != _digest(head["job"]):
        raise UserError("SS3521", f'plan "{path}" was changed since it was compiled', hint=again)
    try:
        graph = msgspec.json.decode(msgspec.json.encode(head["job"]), type=JobGraph)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UserError("SS3521", f'plan "{path}" is damaged', detail=str(error)[:200], hint=again) from error
    _refuse_expired_rows(graph)
    return graph, str(head.get("statement", ""))


def _refuse_expired_rows(graph: JobGraph) -> None:
    """Its places are those of jobs that run now, and a file could name others."""
    for _, spec in read_tables(graph):
        if spec.connector == EXPIRED_ROWS:
            raise UserError(
                "SS3572",
                f'a plan in a file cannot read "{spec.table}": its rows are those of the jobs that run when the statement does',
            )


def _digest(job: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(job, order="sorted")).hexdigest()


def _without_positions(graph: JobGraph) -> JobGraph:
    plain = _stripped(msgspec.to_builtins(graph))
    return msgspec.convert(plain, JobGraph)


def _stripped(data: Any) -> Any:
    if isinstance(data, dict):
        is_placed = data.get("node") == "call" or "output_schema" in data
        return {k: _stripped(v) for k, v in data.items() if not (is_placed and k == "span")}
    return [_stripped(v) for v in data] if isinstance(data, list | tuple) else data
