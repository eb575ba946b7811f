"""Routes whose errors are answered in the body that Flink's clients read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from sqlstream.client.http_api.answers import error_answer, json_answer
from sqlstream.client.http_api.errors import BAD_REQUEST, INTERNAL, NOT_FOUND, RestError
from sqlstream.client.rest.documents import described
from sqlstream.errors import InternalError, SqlStreamError, UserError, render_error

UNKNOWN = ("SS6009", "SS6207", "SS6236")
"""A job, or a trigger of a savepoint or rescale, that the cluster does not know."""

logger = logging.getLogger(__name__)


class RestRoute(APIRoute):
    """A route of the JobManager's REST, described in the OpenAPI document: an error of a job that is not known is 404, another
    one of the user's 400. No state of its own."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        (method,) = options["methods"]
        options |= {"response_class": Response} | described(method, path)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except RestError as error:
                return json_answer(error.body(is_detailed=False), error.status)
            except SqlStreamError as error:
                return error_answer(_status_of(error), render_error(error))

        return handle_errors


def _status_of(error: SqlStreamError) -> int:
    if error.code in UNKNOWN:
        return NOT_FOUND
    if isinstance(error, UserError):
        return BAD_REQUEST
    # What fails outside of the server, or in a job, is no fault of the server.
    logger.log(
        logging.ERROR if isinstance(error, InternalError) else logging.WARNING, "a request failed: %s", error
    )
    return INTERNAL
