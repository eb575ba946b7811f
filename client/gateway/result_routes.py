"""Results over HTTP: pages by token, and streams that push rows as they come."""

from __future__ import annotations

import functools
from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sqlstream.client.gateway.arrow_stream import not_ready_arrow, page_arrow
from sqlstream.client.gateway.bodies import ErrorResponseBody, Extra, FetchResultsResponseBody, json_response
from sqlstream.client.gateway.http_context import (
    OPERATION,
    HttpContext,
    called_within,
    operation_failed,
    read_handles,
    read_row_format,
    read_token,
)
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.pages_json import RowFormat, not_ready_json, page_json
from sqlstream.client.gateway.pushed_results import FAILURE, PushedResults
from sqlstream.client.gateway.results import Page
from sqlstream.client.http_api.types_json import ARROW_STREAM, RESPOND_ASYNC
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.host.clock import steady_s

RESULT = OPERATION + "/result"


def add_result_routes(router: APIRouter, context: HttpContext, version: int) -> None:
    """The routes of one version. The first knows no parameter rowFormat, and writes JSON."""

    async def fetch_results(
        session_handle: str, operation_handle: str, token: str, request: Request
    ) -> Response:
        session, operation = read_handles(session_handle, operation_handle)
        row_format = RowFormat.JSON if version == 1 else read_row_format(request)
        fetch = _Fetch(context, version, session, operation, read_token(token), row_format)
        return await fetch.response()

    async def stream_results(session_handle: str, operation_handle: str, request: Request) -> Response:
        session, operation = read_handles(session_handle, operation_handle)
        row_format = RowFormat.JSON if version == 1 else read_row_format(request)
        found = await _operation(context, session, operation)
        if row_format is RowFormat.ARROW:
            if request.headers.get("prefer", "").strip().lower() == RESPOND_ASYNC:
                await called_within(found.when_settled, context.service.options.page_wait_ms / 1000)
                if found.status.is_unsettled:
                    return Response(status_code=HTTPStatus.ACCEPTED)
            # An error is an answer of its own, since the result's schema is the first thing in an Arrow stream.
            await context.result(found, FAILURE)
        return PushedResults(context, session, found, row_format)

    router.add_api_route(
        f"{RESULT}/stream",
        stream_results,
        methods=["GET"],
        responses=_stream_responses(),
        openapi_extra=_parameters(version),
        response_class=Response,
    )
    router.add_api_route(
        f"{RESULT}/{{token}}",
        fetch_results,
        methods=["GET"],
        responses=_page_responses(),
        openapi_extra=_parameters(version),
        response_class=Response,
    )


async def _operation(context: HttpContext, session: str, operation: str) -> Operation:
    return await context.unhandled(FAILURE, lambda: context.service.operation(session, operation))


class _Fetch:
    """One request for a page. It is held for `page_wait_ms` while there is nothing to tell, so that a client that asks again at
    once is not a busy one."""

    def __init__(
        self,
        context: HttpContext,
        version: int,
        session: str,
        operation: str,
        token: int,
        row_format: RowFormat,
    ) -> None:
        self._context = context
        self._version = version
        self._session = session
        self._operation = operation
        self._token = token
        self._row_format = row_format
        self._deadline_s = steady_s() + context.service.options.page_wait_ms / 1000

    async def response(self) -> Response:
        operation = await _operation(self._context, self._session, self._operation)
        if operation.status.is_unsettled:
            await called_within(operation.when_settled, self._left_s())
        if operation.status.is_unsettled:
            return self._not_ready()
        try:
            result = operation.result()
            if self._token == result.pages.token:
                await called_within(result.pages.when_ready, self._left_s())
            page = result.pages.page(self._token)
        except SqlStreamError as error:
            raise operation_failed(operation, FAILURE, error) from error
        return await self._page(result, page)

    def _left_s(self) -> float:
        return max(0.0, self._deadline_s - steady_s())

    def _not_ready(self) -> Response:
        uri = self._uri(self._token)
        if self._row_format is RowFormat.ARROW:
            return _arrow(not_ready_arrow(uri), uri)
        return Response(not_ready_json(uri), media_type="application/json")

    async def _page(self, result: OperationResult, page: Page) -> Response:
        uri = self._uri(self._token + 1)
        if self._row_format is RowFormat.ARROW:
            encode = functools.partial(page_arrow, result, page, uri)
            return _arrow(await self._context.encoded(page, encode), "" if page.is_end else uri)
        encode = functools.partial(page_json, result, page, self._row_format, uri)
        return Response(await self._context.encoded(page, encode), media_type="application/json")

    def _uri(self, token: int) -> str:
        path = f"/v{self._version}/sessions/{self._session}/operations/{self._operation}/result/{token}"
        return path if self._version == 1 else f"{path}?rowFormat={self._row_format.value}"


def _arrow(stream: bytes, next_uri: str) -> Response:
    headers = {"link": f'<{next_uri}>; rel="next"'} if next_uri else None
    return Response(stream, headers=headers, media_type=ARROW_STREAM)


def _page_responses() -> dict[int | str, Extra]:
    responses = json_response(FetchResultsResponseBody)
    responses[200]["content"] = {ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}}}
    return responses


def _stream_responses() -> dict[int | str, Extra]:
    responses = json_response(ErrorResponseBody)
    stream = {"schema": {"type": "string", "format": "binary"}}
    content = {"text/event-stream": {"schema": _EVENT}, ARROW_STREAM: stream}
    responses[200] = {"description": "The rows, as they come.", "content": content}
    said = "The operation has not settled; only with rowFormat=ARROW and the header Prefer: respond-async."
    responses[202] = {"description": said}
    return responses


_EVENT: Extra = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["columns", "rows", "end", "error"]},
        "data": {"type": "string", "description": "An object or, for rows, an array, in JSON."},
    },
}


def _parameters(version: int) -> Extra:
    if version == 1:
        return {}
    schema = {"type": "string", "enum": [f.value for f in RowFormat], "default": RowFormat.JSON.value}
    return {"parameters": [{"name": "rowFormat", "in": "query", "required": False, "schema": schema}]}
