"""The JobManager's REST: Flink's monitoring API and the Prometheus endpoint, as routes of one application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter

from sqlstream.client.rest.application_routes import application_routes
from sqlstream.client.rest.checkpoint_routes import checkpoint_routes
from sqlstream.client.rest.cluster_routes import cluster_routes
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.info import ServerInfo
from sqlstream.client.rest.job_routes import job_routes
from sqlstream.client.rest.log_routes import log_routes
from sqlstream.client.rest.metric_routes import metric_routes
from sqlstream.client.rest.prometheus import prometheus_routes
from sqlstream.client.rest.refused import refused_routes
from sqlstream.client.rest.rescale_routes import rescale_routes
from sqlstream.client.rest.task_manager_routes import task_manager_routes
from sqlstream.client.rest.totals_routes import totals_routes
from sqlstream.client.rest.vertex_routes import vertex_routes

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ServedCluster

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
