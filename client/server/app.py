"""The server's HTTP application: gateway, JobManager REST, console and job logs."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from sqlstream.client.console.app import console_routes
from sqlstream.client.gateway.app import gateway_routes, install_errors
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.rest.app import ServerInfo, rest_routes
from sqlstream.client.server.guarded_cluster import GuardedCluster
from sqlstream.client.server.health import health_routes
from sqlstream.client.server.job_logs import job_log_routes
from sqlstream.client.server.log_files import LogFiles


def server_app(
    service: GatewayService,
    cluster: GuardedCluster,
    info: ServerInfo,
    logs: LogFiles,
    shut_down: Callable[[], None],
    is_stopping: Callable[[], bool],
) -> FastAPI:
    """One application for both ports, as one address is then enough for a client; Security stands before it. `shut_down` is
    called for `DELETE /cluster`, and must not wait."""
    app = FastAPI(
        title="sqlstream", version=info.version, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    install_errors(app)

    app.include_router(health_routes(cluster.jobs, is_stopping))
    app.include_router(gateway_routes(service))
    app.include_router(console_routes(service.complete, info))
    app.include_router(job_log_routes(logs))
    # Last, as it refuses what it does not have.
    app.include_router(rest_routes(cluster, info, shut_down))
    return app
