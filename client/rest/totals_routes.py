"""The figures of a whole job, which progress lines and summaries show. Flink's REST has them only per vertex and subtask."""

from __future__ import annotations

from fastapi import APIRouter, Response

from sqlstream.client.following.lost_rows import job_remarks
from sqlstream.client.following.remarks import lines_of
from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.parameters import checked_id
from sqlstream.client.rest.route import RestRoute
from sqlstream.client.sessions.submission import rejected_rows_places
from sqlstream.errors import render_error


def totals_routes(view: ClusterView) -> APIRouter:
    """`/jobs/ID/totals`: `status`, `total` and `operators` as in JobMetrics, `warnings` on lost rows as lines of text, and
    `failure`, the cause of a restart that is under way."""
    router = APIRouter(route_class=RestRoute)

    @router.get("/jobs/{job_id}/totals")
    def totals(job_id: str) -> Response:
        id = checked_id("jobid", job_id)
        metrics = view.cluster.metrics(id)
        places = rejected_rows_places(view.graph(job_id))
        remarks = job_remarks(metrics, places, lambda: view.cluster.details(id).restarts)
        operators = {str(id): figures for id, figures in metrics.operators.items()}
        answer = {"status": metrics.status.value, "total": metrics.total, "operators": operators}
        failure = render_error(metrics.failure) if metrics.failure is not None else ""
        return json_answer({**answer, "warnings": lines_of(remarks), "failure": failure})

    return router
