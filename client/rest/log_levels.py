"""`/log-levels`: the levels of loggers, of the server and of its TaskManagers, while they run. Not one of Flink's."""

from __future__ import annotations

from typing import NotRequired, TypedDict

import msgspec
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.http_api.answers import read_value
from sqlstream.client.rest import route
from sqlstream.client.rest.cluster_view import ClusterView, rest_id
from sqlstream.errors import SqlStreamError
from sqlstream.messages.log_levels import SetLogLevels
from sqlstream.runtime.logs import checked_levels, set_levels

_BODY_BYTES_MAX = 64 * 1024


class ProcessLevels(TypedDict):
    process: str
    levels: dict[str, str]
    error: NotRequired[str]


class LogLevelsBody(TypedDict):
    processes: list[ProcessLevels]


class LogLevelsRequest(msgspec.Struct):
    """The level of each logger by its name; None takes what is set away."""

    levels: dict[str, str | None]


def log_level_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=route.RestRoute)

    @router.get("/log-levels")
    def levels() -> LogLevelsBody:
        return _asked(view, {})

    @router.put("/log-levels", openapi_extra=route.reads(LogLevelsRequest))
    async def change(request: Request) -> LogLevelsBody:
        asked = await read_value(request, LogLevelsRequest, _BODY_BYTES_MAX)
        wanted = checked_levels({name: level or "" for name, level in asked.levels.items()})
        return await run_in_threadpool(_asked, view, wanted)

    return router


def _asked(view: ClusterView, levels: dict[str, str]) -> LogLevelsBody:
    """Set these levels here and in every TaskManager, and in those to come; all that are set then."""
    if levels:
        view.cluster.keep_log_levels(levels)
    processes: list[ProcessLevels] = [{"process": "server", "levels": set_levels(levels)}]
    for found in view.cluster.task_managers():
        name = rest_id(found.task_manager_id)
        try:
            reply = view.cluster.log_levels(found.address, SetLogLevels(levels))
            processes.append({"process": name, "levels": reply.levels})
        except SqlStreamError as error:
            processes.append({"process": name, "levels": {}, "error": error.message})
    return {"processes": processes}
