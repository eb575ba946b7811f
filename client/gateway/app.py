"""The gateway as part of an HTTP application."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from sqlstream.client.gateway.routes import gateway_routes
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.http_api.errors import RestError, answer_bug, answer_http_error, answer_rest_error
from sqlstream.client.http_api.head_requests import HeadRequests

__all__ = ["gateway_app", "gateway_routes", "install_errors"]


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
    app.include_router(gateway_routes(service))
    return app
