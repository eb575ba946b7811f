"""The JobManager's REST: Flink's monitoring API and the Prometheus endpoint, as routes of one application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter

from client.rest.application_routes import application_routes
from client.rest.checkpoint_routes import checkpoint_routes
from client.rest.cluster_routes import cluster_routes
from client.rest.cluster_view import ClusterView
from client.rest.info import ServerInfo
from client.rest.job_routes import job_routes
from client.rest.log_routes import log_routes
from client.rest.metric_routes import metric_routes
from client.rest.prometheus import prometheus_routes
from client.rest.refused import refused_routes
from client.rest.rescale_routes import rescale_routes
from client.rest.task_manager_routes import task_manager_routes
from client.rest.totals_routes import totals_routes
from client.rest.vertex_routes import vertex_routes

if TYPE_CHECKING:
    from client.clusters.cluster_client import ServedCluster

__all__ = ["ServerInfo", "rest_routes"]


def rest_routes(cluster: ServedCluster, info: ServerInfo, shut_down: Callable[[], None]) -> APIRouter:
    """All paths of the REST, with and without `/v1`, and `/metrics`. `shut_down` is called for `DELETE /cluster`, and must not
    wait.

    Routes wait for the JobManager on the application's pool of worker threads, whose size is the application's to bound,
    and never on its event loop.
    """
    view = ClusterView(cluster, info)
    rest = APIRouter()
    for routes in (
        cluster_routes(view, shut_down),
        log_routes(info),
        metric_routes(view),
        task_manager_routes(view),
        application_routes(view),
        vertex_routes(view),
        totals_routes(view),
        checkpoint_routes(view),
        rescale_routes(view),
        job_routes(view),
        refused_routes(),
    ):
        rest.include_router(routes)
    router = APIRouter()
    router.include_router(rest, tags=["rest"])
    router.include_router(rest, prefix="/v1", include_in_schema=False)
    router.include_router(prometheus_routes(view))
    return router
