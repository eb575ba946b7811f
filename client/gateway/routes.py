"""The gateway's paths, verbs and bodies, for each version of the protocol (Flink: SqlGatewayRestEndpoint)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sqlstream.client.gateway import bodies
from sqlstream.client.gateway.asker import asker_of
from sqlstream.client.gateway.bodies import Extra, json_body, json_response
from sqlstream.client.gateway.http_context import (
    OPERATION,
    SESSION,
    Body,
    HttpContext,
    called_within,
    read_handle,
    read_handles,
    read_json,
    read_request_body,
)
from sqlstream.client.gateway.result_routes import add_result_routes
from sqlstream.client.gateway.service import GatewayService, Sent
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

VERSIONS = (1, 2, 3, 4)
DEFAULT_VERSION = 4
PRODUCT_NAME = "sqlstream"

Handler = Callable[..., Awaitable[Response]]


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
            made = read_handle(body.operationHandle, "operation handle") if body.operationHandle else ""
            operation = await self._context.unhandled(
                "Failed to executeStatement.",
                lambda: self._service.execute(
                    handle,
                    body.statement,
                    body.executionConfig,
                    asker_of(request),
                    Sent(made, bool(made and body.isRepeated)),
                ),
            )
            return _json({"operationHandle": operation.handle})

        request_body = json_body(bodies.ExecuteStatementRequestBody)
        path = f"{SESSION}/statements"
        self._post(path, execute_statement, bodies.ExecuteStatementResponseBody, request_body)

    def _add_operations(self) -> None:
        context, service = self._context, self._service

        async def get_operation_status(session_handle: str, operation_handle: str) -> Response:
            session, operation = read_handles(session_handle, operation_handle)
            found = await context.handled(
                "Failed to getOperationStatus.", lambda: service.operation(session, operation)
            )
            # Most statements take a moment: it is shorter than until the client asks again.
            await called_within(found.when_settled, service.options.page_wait_ms / 1000)
            return _json({"status": found.status.value})

        async def cancel_operation(session_handle: str, operation_handle: str) -> Response:
            session, operation = read_handles(session_handle, operation_handle)
            await context.handled(
                "Failed to cancelOperation.", lambda: service.cancel_operation(session, operation)
            )
            return _json({"status": "CANCELED"})

        async def close_operation(session_handle: str, operation_handle: str) -> Response:
            session, operation = read_handles(session_handle, operation_handle)
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
