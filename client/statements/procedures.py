"""CALL and SHOW PROCEDURES: what can be done with jobs and savepoints that no statement of Flink's does."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.client.statements.jobs import (
    SAVEPOINT_DIRECTORY,
    STATUS_INTERVAL_S,
    awaited_savepoint,
    known_job,
)
from sqlstream.effects import Effects
from sqlstream.errors import UserError, did_you_mean
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.messages.client_rpc import TriggerSavepoint
from sqlstream.planner.bind.context import database_path
from sqlstream.planner.dialect.statements import Argument, CallProcedure, Identifier
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.client.sessions.outcomes import Rows
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.bind.context import BindContext

SCHEMA = "sys"
"""What a procedure's name may begin with, as in Flink's catalogs."""


@dataclasses.dataclass(frozen=True)
class Procedure:
    """`parameters` are types by name; the last `optional` of them may be left out. `run` returns the answer."""

    parameters: Mapping[str, type]
    optional: int
    answer: str
    run: Callable[[tuple[Argument, ...], ClusterClient, Mapping[str, str]], str]

    def usage(self, name: str) -> str:
        shown = [f"{p} {'INT' if t is int else 'STRING'}" for p, t in self.parameters.items()]
        required = len(shown) - self.optional
        shown = [*shown[:required], *(f"[{p}]" for p in shown[required:])]
        return f"{SCHEMA}.{name}({', '.join(shown)})"


def call_procedure(statement: CallProcedure, session: PlanningSession) -> Rows:
    """The answer in one row. UserError SS3525 for a name or arguments that do not fit, SS2037 for what the session's permit does
    not allow; what the cluster refuses."""
    from sqlstream.client.sessions.outcomes import Rows, literal_batches

    *qualifiers, name = statement.name.parts
    procedure = PROCEDURES.get(name)
    if procedure is None or qualifiers not in ([], [SCHEMA]):
        hint = did_you_mean(name, list(PROCEDURES)) or "list them: SHOW PROCEDURES"
        message = f'procedure "{".".join(statement.name.parts)}" does not exist'
        raise UserError("SS3525", message, span=statement.name.span, hint=hint)
    _check(statement, name, procedure)
    schema = Schema.of((procedure.answer, sql.STRING))
    session.permit.require(_effects(statement, procedure), statement.name.span)
    answer = procedure.run(statement.arguments, session.cluster, session.config)
    return Rows(schema, literal_batches(schema, ((answer,),)))


def _effects(statement: CallProcedure, procedure: Procedure) -> Effects:
    """Every procedure changes jobs or what they have saved; its other texts are paths."""
    given = {p: str(a.value) for p, a in zip(procedure.parameters, statement.arguments, strict=False)}
    return Effects(
        jobs=frozenset({given.get("job", statement.name.parts[-1])}),
        files=frozenset(given[parameter] for parameter in ("path", "directory") if parameter in given),
    )


def _check(statement: CallProcedure, name: str, procedure: Procedure) -> None:
    given, wanted = statement.arguments, list(procedure.parameters.items())
    hint = f"write CALL {procedure.usage(name)}"
    if not len(wanted) - procedure.optional <= len(given) <= len(wanted):
        message = f"{name} does not take {len(given)} argument{'' if len(given) == 1 else 's'}"
        raise UserError("SS3525", message, span=statement.span, hint=hint)
    for argument, (parameter, kind) in zip(given, wanted, strict=False):
        if not isinstance(argument.value, kind):
            message = f'"{parameter}" of {name} is {"a whole number" if kind is int else "a text"}'
            raise UserError("SS3525", message, span=argument.span, hint=hint)


def _job(argument: Argument, cluster: ClusterClient) -> str:
    return known_job(str(argument.value), argument.span, cluster).job_id


def _savepoint(arguments: tuple[Argument, ...], cluster: ClusterClient, config: Mapping[str, str]) -> str:
    from sqlstream.runtime.checkpoint.places import with_absolute_places

    job_id, trigger_id = _job(arguments[0], cluster), secrets.token_hex(16)
    places = dict(config)
    if len(arguments) > 1:
        places[SAVEPOINT_DIRECTORY] = str(arguments[1].value)
    directory = with_absolute_places(places).get(SAVEPOINT_DIRECTORY, "")
    cluster.take_savepoint(TriggerSavepoint(job_id, trigger_id, directory))
    return awaited_savepoint(cluster, job_id, trigger_id)


def _checkpoint(arguments: tuple[Argument, ...], cluster: ClusterClient, config: Mapping[str, str]) -> str:
    job_id, trigger_id = _job(arguments[0], cluster), secrets.token_hex(16)
    cluster.take_checkpoint(job_id, trigger_id)
    return awaited_savepoint(cluster, job_id, trigger_id)


def _dispose(arguments: tuple[Argument, ...], cluster: ClusterClient, config: Mapping[str, str]) -> str:
    path = str(arguments[0].value)
    cluster.dispose_savepoint(path, config)
    return f"removed {path}"


def _rescale(arguments: tuple[Argument, ...], cluster: ClusterClient, config: Mapping[str, str]) -> str:
    rescale = getattr(cluster, "rescale", None)
    if rescale is None:
        raise UserError(
            "SS3525",
            "the cluster of this session takes no job to another parallelism",
            span=arguments[0].span,
            hint="connect to a server, or run: sqlstream rescale ID --parallelism N",
        )
    job_id, trigger_id = _job(arguments[0], cluster), secrets.token_hex(16)
    rescale(rescaled_job_graph(cluster.job_graph(job_id), int(arguments[1].value)), trigger_id)
    while not (status := cluster.rescale_status(job_id, trigger_id)).is_done:  # type: ignore[attr-defined]
        check_not_given_up()
        time.sleep(STATUS_INTERVAL_S)
    if status.error is not None:
        raise status.error.to_error()
    return f"parallelism {status.parallelism}, before {status.earlier}"


PROCEDURES: dict[str, Procedure] = {
    "dispose_savepoint": Procedure({"path": str}, 0, "result", _dispose),
    "rescale_job": Procedure({"job": str, "parallelism": int}, 0, "result", _rescale),
    "trigger_checkpoint": Procedure({"job": str}, 0, "checkpoint path", _checkpoint),
    "trigger_savepoint": Procedure({"job": str, "directory": str}, 1, "savepoint path", _savepoint),
}


def procedure_names(database: Identifier | None, context: BindContext) -> list[str]:
    """As they are called; none are in another `database` than theirs. UserError SS2014 for one that is not there."""
    if database is not None and database.parts[-1] != SCHEMA:
        database_path(database.parts, context, database.span)
        return []
    return [f"{SCHEMA}.{name}" for name in PROCEDURES]
