"""Compiled plans as text: a JobGraph in JSON that can be read, compared, stored and run again."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from sqlstream import __version__
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph

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
    UserError SS3520 for values that JSON does not hold."""
    graph = _without_positions(replace(graph, job_id=""))
    job = msgspec.json.encode(graph)
    if msgspec.json.decode(job, type=JobGraph) != graph:
        raise UserError(
            "SS3520",
            "the plan has a number that a plan file cannot hold (an infinite one, or none)",
            hint="run the statement itself",
        )
    file = PlanFile(FORMAT, __version__, statement, _digest(msgspec.json.decode(job)), msgspec.Raw(job))
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def decode_plan(data: bytes, path: str) -> tuple[JobGraph, str]:
    """The plan and its statement. UserError SS3521 for text that is no plan, that was changed, or that another version wrote."""
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
        return graph, str(head.get("statement", ""))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UserError("SS3521", f'plan "{path}" is damaged', detail=str(error)[:200], hint=again) from error


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
