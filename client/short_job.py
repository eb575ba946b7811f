"""Short jobs with which a statement asks something while it is planned."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.cancellation import check_not_given_up
from sqlstream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pyarrow as pa

    from client.cluster_client import ClusterClient
    from runtime.net.results import JobResults

GIVEN_UP_CHECK_S = 0.1
"""How long a statement waits for rows before it looks whether it was given up."""


def answered_texts(graph: JobGraph, cluster: ClusterClient, timeout_s: float = float("inf")) -> list[str]:
    """The first column of all rows of a job. The job's error when it fails, JobError SS6031 soon after nobody awaits the
    statement, TimeoutError when it takes longer; the job is cancelled then."""
    deadline_s = time.monotonic() + timeout_s
    cluster.submit(graph)
    rows = cluster.results(graph.job_id)
    try:
        texts = [text for batch in awaited_batches(rows, deadline_s) for text in batch.column(0).to_pylist()]
    except BaseException:
        rows.close()
        cluster.cancel(graph.job_id)
        raise
    ended = cluster.wait(graph.job_id)
    if ended.error is not None:
        raise ended.error.to_error()
    return texts


def awaited_batches(rows: JobResults, deadline_s: float = float("inf")) -> Iterator[pa.RecordBatch]:
    """All rows as they come. JobError SS6031 soon after nobody awaits the statement, TimeoutError when no row comes and the clock
    (`time.monotonic`) is past the deadline."""
    while not rows.is_ended:
        check_not_given_up()
        batch = rows.poll()
        if batch is not None:
            yield batch
            continue
        is_ready = threading.Event()
        rows.when_ready(is_ready.set)
        while not is_ready.wait(GIVEN_UP_CHECK_S):
            check_not_given_up()
            if time.monotonic() > deadline_s:
                raise TimeoutError
