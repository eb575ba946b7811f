"""The gateway's paths, verbs and bodies, for each version of the protocol (Flink: SqlGatewayRestEndpoint)."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any, TypeVar

import msgspec
import pydantic
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sqlstream.client.gateway import bodies
from sqlstream.client.gateway.arrow_stream import not_ready_arrow, page_arrow
from sqlstream.client.gateway.asker import asker_of
from sqlstream.client.gateway.bodies import (
    ErrorResponseBody,
    Extra,
    FetchResultsResponseBody,
    json_body,
    json_response,
)
from sqlstream.client.gateway.http_context import (
    INLINE_BYTES_MAX,
    HttpContext,
    called_within,
    operation_failed,
)
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.pages_json import RowFormat, not_ready_json, page_json
from sqlstream.client.gateway.pushed_results import FAILURE, PushedResults
from sqlstream.client.gateway.results import Page
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.http_api.answers import read_body
from sqlstream.client.http_api.errors import (
    BAD_REQUEST,
    INTERNAL,
    RestError,
    answer_bug,
    answer_http_error,
    answer_rest_error,
    is_detailed,
)
from sqlstream.client.http_api.head_requests import HeadRequests
from sqlstream.client.http_api.routes import add_routes, at_other_path
from sqlstream.client.http_api.types_json import ARROW_STREAM
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.host.clock import steady_s

VERSIONS = (1, 2, 3, 4)
DEFAULT_VERSION = 4
PRODUCT_NAME = "sqlstream"

SESSION = "/sessions/{session_handle}"
OPERATION = SESSION + "/operations/{operation_handle}"

Handler = Callable[..., Awaitable[Response]]
Body = TypeVar("Body", bound=bodies.Request)


def gateway_routes(service: GatewayService) -> APIRouter:
    """The routes of all versions, and without a version those of the latest."""
    context = HttpContext(service)
    router = APIRouter()
    routes = {version: _VersionRoutes(context, version).router.routes for version in VERSIONS}
    for version in VERSIONS:
        add_routes(router, routes[version])
    prefix = _prefix(DEFAULT_VERSION)
    latest = (route for route in routes[DEFAULT_VERSION] if isinstance(route, APIRoute))
    add_routes(router, [at_other_path(route, route.path.removeprefix(prefix)) for route in latest])
    return router


def _prefix(version: int) -> str:
    return f"/v{version}"


class _VersionRoutes:
    """The routes of one version, behind its prefix."""

    def __init__(self, context: HttpContext, version: int) -> None:
        self._context = context
        self._service = context.service
        self._version = version
        self.router = APIRouter(prefix=_prefix(version), tags=[f"v{version}"])
        self._add_info()
        self._add_sessions()
        self._add_statements()
        self._add_operations()
        add_result_routes(self.router, context, version)
        if version >= 2:
            self._add_configuration()
        if version == 3:
            self._add_materialized_tables()
        if version >= 4:
            self._add_scripts()

    def _add_info(self) -> None:
        async def get_info() -> Response:
            return _json({"productName": PRODUCT_NAME, "version": metadata.version("sqlstream")})

        async def get_api_version() -> Response:
            return _json({"versions": [f"V{version}" for version in VERSIONS]})

        self._get("/info", get_info, bodies.GetInfoResponseBody)
        self._get("/api_versions", get_api_version, bodies.GetApiVersionResponseBody)

    def _add_sessions(self) -> None:
        context, service = self._context, self._service

        async def open_session(request: Request) -> Response:
            body = await self._read(request, bodies.OpenSessionRequestBody)
            properties, name = body.properties or {}, body.sessionName or ""
            handle = await context.handled(
                "Failed to openSession.", lambda: service.open_session(properties, name, asker_of(request))
            )
            return _json({"sessionHandle": handle})

        async def get_session_config(session_handle: str) -> Response:
            handle = read_handle(session_handle, "session handle")
            properties = await context.handled(
                "Failed to getSessionConfig.", lambda: service.session(handle).properties()
            )
            return _json({"properties": properties})

        async def close_session(session_handle: str) -> Response:
            handle = read_handle(session_handle, "session handle")
            await context.handled("Failed to closeSession.", lambda: service.close_session(handle))
            return _json({"status": "CLOSED"})

        async def trigger_heartbeat(session_handle: str) -> Response:
            handle = read_handle(session_handle, "session handle")
            await context.handled("Failed to getSession.", lambda: service.session(handle))
            return _json({})

        request_body = json_body(bodies.OpenSessionRequestBody, is_required=False)
        self._post("/sessions", open_session, bodies.OpenSessionResponseBody, request_body)
        self._get(SESSION, get_session_config, bodies.GetSessionConfigResponseBody)
        self._delete(SESSION, close_session, bodies.CloseSessionResponseBody)
        self._post(f"{SESSION}/heartbeat", trigger_heartbeat, bodies.EmptyResponseBody)

    def _add_statements(self) -> None:
        async def execute_statement(session_handle: str, request: Request) -> Response:
            handle = read_handle(session_handle, "session handle")
            body = await self._read(request, bodies.ExecuteStatementRequestBody)
            _require_no_timeout(body.executionTimeout)
            operation = await self._context.unhandled(
                "Failed to executeStatement.",
                lambda: self._service.execute(
                    handle, body.statement, body.executionConfig, asker_of(request)
                ),
            )
            return _json({"operationHandle": operation.handle})

        request_body = json_body(bodies.ExecuteStatementRequestBody)
        path = f"{SESSION}/statements"
        self._post(path, execute_statement, bodies.ExecuteStatementResponseBody, request_body)

    def _add_operations(self) -> None:
        context, service = self._context, self._service

        async def get_operation_status(session_handle: str, operation_handle: str) -> Response:
            session, operation = _handles(session_handle, operation_handle)
            found = await context.handled(
                "Failed to getOperationStatus.", lambda: service.operation(session, operation)
            )
            # Most statements take a moment: it is shorter than until the client asks again.
            await called_within(found.when_settled, service.options.page_wait_ms / 1000)
            return _json({"status": found.status.value})

        async def cancel_operation(session_handle: str, operation_handle: str) -> Response:
            session, operation = _handles(session_handle, operation_handle)
            await context.handled(
                "Failed to cancelOperation.", lambda: service.cancel_operation(session, operation)
            )
            return _json({"status": "CANCELED"})

        async def close_operation(session_handle: str, operation_handle: str) -> Response:
            session, operation = _handles(session_handle, operation_handle)
            await context.handled(
                "Failed to closeOperation.", lambda: service.close_operation(session, operation)
            )
            return _json({"status": "CLOSED"})

        status = bodies.OperationStatusResponseBody
        self._get(f"{OPERATION}/status", get_operation_status, status)
        self._post(f"{OPERATION}/cancel", cancel_operation, status)
        self._delete(f"{OPERATION}/close", close_operation, status)

    def _add_configuration(self) -> None:
        context, service = self._context, self._service

        async def configure_session(session_handle: str, request: Request) -> Response:
            handle = read_handle(session_handle, "session handle")
            body = await self._read(request, bodies.ConfigureSessionRequestBody)
            _require_no_timeout(body.executionTimeout)
            failure = "Failed to configureSession."
            operation = await context.unhandled(
                failure, lambda: service.configure_session(handle, body.statement, asker_of(request))
            )
            (await context.result(operation, failure)).close()
            return _json({})

        async def complete_statement(session_handle: str, request: Request) -> Response:
            handle = read_handle(session_handle, "session handle")
            body = await self._read(request, bodies.CompleteStatementRequestBody)
            found = await context.unhandled(
                "Failed to completeStatement.",
                lambda: service.candidates(handle, body.statement, body.position, asker_of(request)),
            )
            answer: dict[str, Any] = {"candidates": [candidate.text for candidate in found]}
            if is_detailed(request):
                answer["details"] = found
            return _json(answer)

        request_body = json_body(bodies.ConfigureSessionRequestBody)
        self._post(f"{SESSION}/configure-session", configure_session, bodies.EmptyResponseBody, request_body)
        request_body = json_body(bodies.CompleteStatementRequestBody)
        path = f"{SESSION}/complete-statement"
        self._get(path, complete_statement, bodies.CompleteStatementResponseBody, request_body)

    def _add_materialized_tables(self) -> None:
        async def refresh_materialized_table(
            session_handle: str, identifier: str, request: Request
        ) -> Response:
            read_handle(session_handle, "session handle")
            await read_request_body(self._context, request)
            said = f"Materialized tables are not supported: {identifier}"
            raise RestError(INTERNAL, said, is_handled=False)

        path = f"{SESSION}/materialized-tables/{{identifier}}/refresh"
        self.router.add_api_route(path, refresh_materialized_table, methods=["POST"], include_in_schema=False)

    def _add_scripts(self) -> None:
        context, service = self._context, self._service

        async def deploy_script(session_handle: str, request: Request) -> Response:
            handle = read_handle(session_handle, "session handle")
            body = await self._read(request, bodies.DeployScriptRequestBody)
            if body.scriptUri:
                raise RestError(
                    BAD_REQUEST, "The script is not fetched from scriptUri: send its text as script."
                )
            failure = "Failed to deployScript."
            operation = await context.unhandled(
                failure,
                lambda: service.run_script(
                    handle, body.script or "", body.executionConfig, asker_of(request)
                ),
            )
            (await context.result(operation, failure)).close()
            return _json({"clusterID": service.cluster_id})

        request_body = json_body(bodies.DeployScriptRequestBody)
        self._post(f"{SESSION}/scripts", deploy_script, bodies.DeployScriptResponseBody, request_body)

    # -- how a route is added ----------------------------------------------------------------------

    async def _read(self, request: Request, kind: type[Body]) -> Body:
        return await read_json(self._context, request, kind)

    def _get(
        self, path: str, handler: Handler, response: type[bodies.Response], extra: Extra | None = None
    ) -> None:
        self._add("GET", path, handler, response, extra)

    def _post(
        self, path: str, handler: Handler, response: type[bodies.Response], extra: Extra | None = None
    ) -> None:
        self._add("POST", path, handler, response, extra)

    def _delete(self, path: str, handler: Handler, response: type[bodies.Response]) -> None:
        self._add("DELETE", path, handler, response, None)

    def _add(
        self, method: str, path: str, handler: Handler, response: type[bodies.Response], extra: Extra | None
    ) -> None:
        self.router.add_api_route(
            path,
            handler,
            methods=[method],
            responses=json_response(response),
            openapi_extra=extra,
            response_class=Response,
        )


def _handles(session_handle: str, operation_handle: str) -> tuple[str, str]:
    return read_handle(session_handle, "session handle"), read_handle(operation_handle, "operation handle")


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


def _require_no_timeout(timeout_ms: int | None) -> None:
    if timeout_ms:
        said = "SqlGatewayService doesn't support timeout mechanism now."
        raise RestError(INTERNAL, said, is_handled=False)


def install_errors(app: FastAPI) -> None:
    """Answer the errors of all routes of an application as Flink does: `{"errors": […]}`; and HEAD as GET."""
    app.add_middleware(HeadRequests)
    app.add_exception_handler(RestError, answer_rest_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(Exception, answer_bug)


def gateway_app(service: GatewayService) -> FastAPI:
    """An application of the gateway alone, without access control."""
    app = FastAPI(title="sqlstream", docs_url=None, redoc_url=None, redirect_slashes=False)
    install_errors(app)
    add_routes(app, gateway_routes(service).routes)
    return app


# Results over HTTP: pages by token, and streams that push rows as they come.


RESULT = OPERATION + "/result"


def add_result_routes(router: APIRouter, context: HttpContext, version: int) -> None:
    """The routes of one version. The first knows no parameter rowFormat, and writes JSON."""

    async def fetch_results(
        session_handle: str, operation_handle: str, token: str, request: Request
    ) -> Response:
        session, operation = _handles(session_handle, operation_handle)
        row_format = RowFormat.JSON if version == 1 else read_row_format(request)
        fetch = _Fetch(context, version, session, operation, read_token(token), row_format)
        return await fetch.response()

    async def stream_results(session_handle: str, operation_handle: str, request: Request) -> Response:
        session, operation = _handles(session_handle, operation_handle)
        row_format = RowFormat.JSON if version == 1 else read_row_format(request)
        found = await _operation(context, session, operation)
        if row_format is RowFormat.ARROW:
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


# Reads what a request of the gateway says: its body, its path and its parameters.


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MAX = 2**63 - 1
_SIZE_OPTIONS = ("rest.server.max-content-length", "sqlstream.gateway.statement.max-length")


async def read_request_body(context: HttpContext, request: Request) -> bytes:
    return await read_body(request, context.service.options.request_bytes_max, _SIZE_OPTIONS)


async def read_json(context: HttpContext, request: Request, kind: type[Body]) -> Body:
    """The body as an object of that kind; an empty one is `{}`. RestError 400 for anything else."""
    text = await read_request_body(context, request)
    if len(text) < INLINE_BYTES_MAX:
        return _parsed(text, kind)
    # Other requests are answered meanwhile.
    return await context.call(lambda: _parsed(text, kind))


def _parsed(text: bytes, kind: type[Body]) -> Body:
    try:
        return kind.model_validate_json(text or b"{}")
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f"{place}: {first['msg']}" if place else first["msg"]
        raise RestError(
            BAD_REQUEST, f"Request did not match expected format {kind.__name__}.\nCaused by: {said}"
        ) from error


def read_handle(text: str, what: str) -> str:
    """A handle of a session or operation. RestError 400 for what is no UUID."""
    if not _UUID.fullmatch(text):
        raise _bad_parameter(f'cannot resolve the {what} "{text}": it is no UUID')
    return text.lower()


def read_token(text: str) -> int:
    if not _LONG.fullmatch(text) or abs(int(text)) > _LONG_MAX:
        raise _bad_parameter(f'the token "{text}" is no whole number')
    return int(text)


def read_row_format(request: Request) -> RowFormat:
    """The parameter rowFormat, in any case; JSON when it is left out."""
    text = request.query_params.get("rowFormat", RowFormat.JSON.value)
    try:
        return RowFormat(text.upper())
    except ValueError:
        choices = ", ".join(f.value for f in RowFormat)
        raise _bad_parameter(f'the rowFormat "{text}" is none of {choices}') from None


def _bad_parameter(said: str) -> RestError:
    return RestError(BAD_REQUEST, f"Bad request, could not parse parameters: {said}")
