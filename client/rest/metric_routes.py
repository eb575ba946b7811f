"""Routes about metrics of jobs, vertices and subtasks."""

from __future__ import annotations

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.metric_view import (
    aggregate_metrics,
    list_metrics,
    metric_text,
    parse_names,
    parse_subtasks,
    subtask_metrics,
    vertex_metrics,
)
from sqlstream.client.rest.parameters import checked_id
from sqlstream.client.rest.route import RestRoute

_WATERMARK = "currentInputWatermark"
_VERTEX = "/jobs/{job_id}/vertices/{vertex_id}"


def metric_routes(view: ClusterView) -> APIRouter:
    """These routes stand before those with an id in the same place (`/jobs/metrics`, `/jobs/{jobid}`)."""
    router = APIRouter(route_class=RestRoute)
    _add_jobs(router, view)
    _add_vertices(router, view)
    return router


def _add_jobs(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/metrics")
    def all_jobs(get: str | None = None, agg: str | None = None, jobs: str | None = None) -> Response:
        chosen = [checked_id("jobs", id) for id in parse_names(jobs)]
        details = [view.job(id) for id in chosen] if chosen else view.live_jobs()
        figures = [view.job_metrics(job) for job in details]
        return json_answer(aggregate_metrics(figures, get, agg))

    @router.get("/jobs/{job_id}/metrics")
    def one_job(job_id: str, get: str | None = None) -> Response:
        return json_answer(list_metrics(view.job_metrics(view.job(job_id)), get))


def _add_vertices(router: APIRouter, view: ClusterView) -> None:
    @router.get(_VERTEX + "/metrics")
    def vertex(job_id: str, vertex_id: str, get: str | None = None) -> Response:
        found = view.vertex(job_id, vertex_id)
        return json_answer(list_metrics(vertex_metrics(found, view.planned(job_id, vertex_id)), get))

    @router.get(_VERTEX + "/jm-operator-metrics")
    def operator_coordinators(job_id: str, vertex_id: str) -> Response:
        # No operator has a part in the JobManager.
        view.vertex(job_id, vertex_id)
        return json_answer([])

    @router.get(_VERTEX + "/watermarks")
    def watermarks(job_id: str, vertex_id: str) -> Response:
        found, planned = view.vertex(job_id, vertex_id), view.planned(job_id, vertex_id)
        figures = [(s.subtask, subtask_metrics(s, planned)) for s in found.subtasks]
        return json_answer(
            [
                {"id": f"{index}.{_WATERMARK}", "value": metric_text(metrics[_WATERMARK])}
                for index, metrics in figures
                if _WATERMARK in metrics
            ]
        )

    @router.get(_VERTEX + "/subtasks/metrics")
    def subtasks(
        job_id: str,
        vertex_id: str,
        get: str | None = None,
        agg: str | None = None,
        subtasks: str | None = None,
    ) -> Response:
        found, planned = view.vertex(job_id, vertex_id), view.planned(job_id, vertex_id)
        chosen = parse_subtasks(subtasks, len(found.subtasks))
        figures = [subtask_metrics(s, planned) for s in found.subtasks if s.subtask in chosen]
        return json_answer(aggregate_metrics(figures, get, agg))

    @router.get(_VERTEX + "/subtasks/{index}/metrics")
    def subtask(job_id: str, vertex_id: str, index: str, get: str | None = None) -> Response:
        found = view.subtask(job_id, vertex_id, index)
        return json_answer(list_metrics(subtask_metrics(found, view.planned(job_id, vertex_id)), get))
