"""The words of HTTP between this client and a server: paths, the head and end of a result, jobs, errors. Nothing is sent here."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sqlstream.client.following.remarks import Remark, read_remarks
from sqlstream.client.http_api.types_json import METADATA_KEY, schema_of
from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind
from sqlstream.errors import (
    ErrorInfo,
    ExternalError,
    FailureReason,
    InternalError,
    JobError,
    Retry,
    Span,
    SqlStreamError,
    UserError,
)
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa


_Choice = TypeVar("_Choice", bound=enum.Enum)

API = "/v4"
LEADER_HEADER = "x-sqlstream-leader"
"""Answers of a server that does not lead have it, with the URL of the one that does, if that is known."""
START_HINT = "start a server with: sqlstream server"
_BODY_CHARACTERS_SHOWN = 500
_STATUS_HINTS = {
    401: "give the server's token: --token-file FILE, ?token_file=… or SQLSTREAM_TOKEN",
    403: "ask for a token with the role that the request needs",
    404: "check the URL: it names a host and a port, and no path",
}


def session_path(handle: str, rest: str = "") -> str:
    return f"{API}/sessions/{handle}{rest}"


def operation_path(session: str, operation: str, rest: str) -> str:
    return f"{API}/sessions/{session}/operations/{operation}{rest}"


def read_head(schema: pa.Schema) -> ResultFacts:
    """The head in the metadata of a stream's schema. ValueError when it is not there."""
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        raise ValueError("the result says nothing of its kind")
    found = msgspec.json.decode(text)
    try:
        said = found["statement"]
        return ResultFacts(
            ResultKind(said["kind"]),
            schema_of(found["columns"]),
            text=said["text"],
            note=said["note"],
            label=said["label"],
            job_id=found.get("jobID"),
            is_bounded=said["isBounded"],
            is_updating=said["isUpdating"],
            is_failure=said.get("isFailure", False),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the result's head lacks {error}") from error


def read_ending(metadata: Mapping[bytes, bytes]) -> list[Remark]:
    """The remarks on a complete result, from the metadata of its last batch. JobError when it is not complete."""
    found = msgspec.json.decode(metadata[METADATA_KEY])
    if "status" in found:
        return read_remarks(map(str, found.get("warnings", ())))
    raise job_failure(found.get("error") or {"message": "; ".join(map(str, found.get("errors", ())))})


def job_failure(error: Mapping[str, Any]) -> JobError:
    """The failure of a job, from its parts."""
    code = str(error.get("code", "SS9001"))
    otherwise = FailureReason.CANCELLED if code == "SS6023" else FailureReason.OPERATOR_FAILED
    reason = _member(FailureReason, error.get("reason"), otherwise)
    return JobError(
        code,
        str(error.get("message", "")),
        reason=reason,
        span=_span(error),
        detail=str(error.get("detail", "")),
        hint=str(error.get("hint", "")),
    )


def answered_error(status: int, body: bytes, url: str) -> SqlStreamError:
    """The error that a server answered with, with its parts if the body has them."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        return _unexpected(status, body.decode("utf-8", "replace"), url)
    error = found.get("error")
    if isinstance(error, dict) and "code" in error:
        return _error_of(error)
    texts = found.get("errors")
    text = str(texts[-1]) if isinstance(texts, list) and texts else body.decode("utf-8", "replace")
    return rendered_error(text) or _unexpected(status, text, url)


def _error_of(error: Mapping[str, Any]) -> SqlStreamError:
    """The error of the family that the server names. One that it does not name is fixed by who asks."""
    code, message = str(error["code"]), str(error.get("message", ""))
    detail, hint = str(error.get("detail", "")), str(error.get("hint", ""))
    match error.get("family"):
        case "INTERNAL":
            return InternalError(message, detail=detail)
        case "JOB":
            return job_failure(error)
        case "EXTERNAL":
            retry = _member(Retry, error.get("retry"), Retry.NEVER)
            return ExternalError(code, message, retry=retry, detail=detail, hint=hint)
    return UserError(code, message, span=_span(error), detail=detail, hint=hint)


def _member(kind: type[_Choice], name: object, otherwise: _Choice) -> _Choice:
    """The member of that name; a server of another version may have others."""
    return next((member for member in kind if member.value == name), otherwise)


def rendered_error(text: str) -> UserError | None:
    """An error from the text that users read, without its place: `error[SS2003]: …`, `hint: …`."""
    _, separator, rest = text.partition("error[")
    code, bracket, after = rest.partition("]: ")
    if not separator or not bracket or not code.startswith("SS"):
        return None
    lines = after.splitlines()
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    detail = next((line.removeprefix("detail: ") for line in lines if line.startswith("detail: ")), "")
    return UserError(code, lines[0] if lines else "", hint=hint, detail=detail)


def _unexpected(status: int, text: str, url: str) -> SqlStreamError:
    said = " ".join(text.split())[:_BODY_CHARACTERS_SHOWN]
    message = f"{url} answered {status}{': ' + said if said else ''}"
    if status in _STATUS_HINTS:
        return UserError("SS4043", message, hint=_STATUS_HINTS[status])
    # A refusal says itself what is wrong.
    hint = "look at the server's log" if status >= 500 else ""
    return ExternalError("SS5041", message, hint=hint)


def _span(error: Mapping[str, Any]) -> Span | None:
    span = error.get("span")
    return Span(*span) if isinstance(span, list | tuple) and len(span) == 2 else None


OVERVIEW = "/jobs/overview"
CLUSTER = "/overview"

_FIRST_POLL_S = 0.005
_POLL_S_MAX = 0.25


def job_path(job_id: str, rest: str = "") -> str:
    return f"/jobs/{job_id}{rest}"


def poll_intervals_s() -> Iterator[float]:
    """How long to wait between two looks at a job: short at first, since many jobs are."""
    interval_s = _FIRST_POLL_S
    while True:
        yield interval_s
        interval_s = min(interval_s * 1.5, _POLL_S_MAX)


def overview_of(answer: Mapping[str, Any]) -> tuple[JobOverviewEntry, ...]:
    """The jobs of /jobs/overview, the latest first."""
    jobs = [
        JobOverviewEntry(
            job["jid"],
            job["name"],
            JobStatus(job["state"]),
            job["start-time"],
            job["end-time"],
            {state.upper(): count for state, count in job["tasks"].items() if state != "total"},
            job.get("jobType") == "BATCH",
        )
        for job in answer["jobs"]
    ]
    return tuple(sorted(jobs, key=lambda job: job.start_ms, reverse=True))


def status_of(job_id: str, answer: Mapping[str, Any], exceptions: Mapping[str, Any] | None) -> JobStatusReply:
    """The status of /jobs/ID/status, with the cause of a failure from /jobs/ID/exceptions."""
    status = JobStatus(answer["status"])
    error = failure_of(exceptions) if exceptions is not None else None
    return JobStatusReply(job_id, status, error)


def failure_of(exceptions: Mapping[str, Any]) -> ErrorInfo | None:
    """The cause of a job's failure, None when there is none."""
    entries = exceptions.get("exceptionHistory", {}).get("entries", [])
    if not entries:
        return None
    text = str(entries[0].get("stacktrace", ""))
    error = rendered_error(text)
    if error is None:
        return ErrorInfo(str(entries[0].get("exceptionName", "SS9001")), text)
    return ErrorInfo(error.code, error.message, detail=error.detail, hint=error.hint)


def no_metrics() -> JobMetrics:
    """The figures where no job runs."""
    return JobMetrics("", JobStatus.FINISHED, {}, {})


def metrics_of(job_id: str, answer: Mapping[str, Any]) -> JobMetrics:
    """The figures of /jobs/ID/totals."""
    operators = {int(id): figures for id, figures in answer["operators"].items()}
    errors = [rendered_error(answer.get(name, "")) for name in ("failure", "lastFailure")]
    causes = [ErrorInfo.of(error) if error is not None else None for error in errors]
    return JobMetrics(job_id, JobStatus(answer["status"]), answer["total"], operators, *causes)
