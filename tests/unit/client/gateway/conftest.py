"""A gateway that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_harness import Running, gateway_service, running_jobs, until


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with gateway_service() as running:
        yield running


@pytest.fixture
def gateway(shared: Running) -> Iterator[Running]:
    """A gateway without sessions and jobs of other tests."""
    yield shared
    service, cluster = shared
    for session in service.sessions():
        service.close_session(session.handle)
    for job in cluster.jobs():
        if not job.status.is_terminal:
            cluster.cancel(job.job_id)
    until(lambda: running_jobs(cluster) == 0)
