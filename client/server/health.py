"""`GET /health` and `GET /ready`: what those ask who watch a server, and who have no token."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import json_answer
from sqlstream.errors import SqlStreamError

HEALTH_PATHS = ("/health", "/ready")


def health_routes(ask_job_manager: Callable[[], object], is_stopping: Callable[[], bool]) -> APIRouter:
    """`/health` is answered while requests are; `/ready` with 200 while the JobManager answers too, else with 503. Neither says
    more than that."""
    router = APIRouter(tags=["health"])

    @router.get("/health")
    async def health() -> Response:
        return json_answer({"status": "OK"})

    @router.get("/ready")
    def ready() -> Response:
        if is_stopping():
            return json_answer({"status": "STOPPING"}, 503)
        try:
            ask_job_manager()
        except SqlStreamError:
            return json_answer({"status": "NOT_READY"}, 503)
        return json_answer({"status": "READY"})

    return router
