"""Requests that come too late: their job has ended."""

from __future__ import annotations

from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ClusterView


def check_runs(view: ClusterView, job_id: str, what: str, ends_it: bool = False) -> None:
    """RestError 409 for a job that has ended, and 403 for a request that ends a job where that is turned off."""
    status = view.cluster.status(job_id).status
    if ends_it and not view.info.is_cancel_enabled:
        raise RestError(403, "Cancelling jobs is turned off on this server.")
    if status.is_globally_terminal:
        said = f"{what} failed because the job has already reached another terminal state ({status.value})."
        raise RestError(409, said)
