"""The JobManager's REST for commands: jobs, their details and logs, and the cluster."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO

from sqlstream.client.connection.address import Address
from sqlstream.client.connection.http import HttpClient
from sqlstream.client.connection.wire import CLUSTER, OVERVIEW, job_path, poll_intervals_s, rendered_error
from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.artifacts import FILE_BYTES_MAX, NAME_CHARACTERS_MAX, PART_BYTES
from sqlstream.messages.job_state import JobStatus

Json = dict[str, Any]

LOG_POLL_S = 0.5
ID_HINT = "list the jobs that are: sqlstream jobs"
_ANY_DIGEST = "0" * 64
_FULL_ID = re.compile(r"[0-9a-f]{32}")


class ClusterRest:
    """Asks one server. State: open sockets, until `close`."""

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self._client = HttpClient(address)

    def overview(self) -> Json:
        """Slots, TaskManagers and counts of jobs."""
        return dict(self._client.call("GET", CLUSTER))

    def jobs(self) -> list[Json]:
        """All jobs, the latest first."""
        jobs: list[Json] = self._client.call("GET", OVERVIEW)["jobs"]
        return sorted(jobs, key=lambda job: job["start-time"], reverse=True)

    def job_id(self, given: str) -> str:
        """The whole id for its first characters. UserError SS6009 when they belong to no job or to several."""
        given = given.lower()
        if _FULL_ID.fullmatch(given):
            return given
        found = [str(job["jid"]) for job in self.jobs() if given and job["jid"].startswith(given)]
        if len(found) == 1:
            return found[0]
        said = "is the beginning of several jobs' ids" if found else "is not known"
        raise UserError("SS6009", f'job "{given}" {said}', hint=ID_HINT)

    def of_job(self, job_id: str, part: str = "") -> Json:
        """What the REST says under /jobs/ID, or under `part` there, such as "/ledger"."""
        return dict(self._client.call("GET", job_path(job_id, part)))

    def status(self, job_id: str) -> JobStatus:
        return JobStatus(self._client.call("GET", job_path(job_id, "/status"))["status"])

    def cancel(self, job_id: str) -> None:
        self._client.call("PATCH", job_path(job_id), mode="cancel")

    def ended(self, job_id: str, timeout_s: float) -> JobStatus:
        """The status once the job has ended, or after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        for interval_s in poll_intervals_s():
            status = self.status(job_id)
            if status.is_terminal or time.monotonic() > deadline_s:
                return status
            time.sleep(interval_s)
        raise AssertionError("unreachable")

    def savepoint(self, job_id: str, directory: str, on_step: Callable[[str], None]) -> str:
        """Take a savepoint below a directory, by default that of the job's settings; returns its path. `on_step` is called again
        and again until it is taken."""
        body = {"target-directory": directory or None}
        return self._taken(job_id, self._client.call("POST", job_path(job_id, "/savepoints"), body), on_step)

    def stop(self, job_id: str, directory: str, is_drain: bool, on_step: Callable[[str], None]) -> str:
        """The same with the savepoint with which the job ends."""
        body = {"targetDirectory": directory or None, "drain": is_drain}
        return self._taken(job_id, self._client.call("POST", job_path(job_id, "/stop"), body), on_step)

    def _taken(self, job_id: str, triggered: Json, on_step: Callable[[str], None]) -> str:
        path = job_path(job_id, f"/savepoints/{triggered['request-id']}")
        return str(self._operation(path, "could not take the savepoint", on_step)["location"])

    def dispose(self, savepoint: str) -> None:
        triggered = self._client.call("POST", "/savepoint-disposal", {"savepoint-path": savepoint})
        self._operation(f"/savepoint-disposal/{triggered['request-id']}", "could not remove the savepoint")

    def upload(self, path: str) -> tuple[str, int]:
        """Bring a file to the server; returns its digest and its bytes. OSError, UserError SS5017, SS5087 for one that cannot be
        sent, ExternalError SS5089 for one that changes meanwhile."""
        from sqlstream.runtime.host.files import require_regular

        # Before it is opened: a pipe without a writer would wait for one.
        require_regular("upload", path, os.stat(path).st_mode)
        with open(path, "rb") as stream:
            return self._upload(path, stream)

    def _upload(self, path: str, stream: BinaryIO) -> tuple[str, int]:
        from sqlstream.runtime.host.artifacts import digest_of

        name = os.path.basename(path)[-NAME_CHARACTERS_MAX:]
        # Before it is read: a server that has no room for so many bytes says so at once, whatever their digest.
        self._part(_ANY_DIGEST, os.fstat(stream.fileno()).st_size, 0, b"", name)
        digest, size = digest_of(stream, FILE_BYTES_MAX, path)
        there = int(self._part(digest, size, 0, b"", name)["bytes"])
        while there < size:
            stream.seek(there)
            data = stream.read(PART_BYTES)
            if not data:
                raise ExternalError("SS5089", "the file has become shorter while it was uploaded")
            there = int(self._part(digest, size, there, data, name)["bytes"])
        return digest, size

    def _part(self, digest: str, size: int, offset: int, data: bytes, name: str) -> Json:
        where = {"size": str(size), "offset": str(offset), "name": name}
        return dict(self._client.call("PUT", f"/artifacts/{digest}", data, **where))

    def rescale(self, job_id: str, parallelism: int, on_step: Callable[[str], None]) -> Json:
        """Takes a running job to another parallelism, and returns once its tasks run again. `on_step` is called with each step
        that the job is seen at."""
        path, trigger_id = job_path(job_id, "/rescaling"), secrets.token_hex(16)
        self._client.call("PATCH", path, parallelism=str(parallelism), triggerId=trigger_id)
        return self._operation(f"{path}/{trigger_id}", "could not rescale the job", on_step)

    def _operation(self, path: str, failed: str, on_step: Callable[[str], None] = lambda step: None) -> Json:
        """What came of an operation, once it is over. The error with which it failed: `failed` for one that is no error of
        ours."""
        for interval_s in poll_intervals_s():
            answer = self._client.call("GET", path)
            if answer["status"]["id"] == "COMPLETED":
                break
            on_step(answer["status"].get("step", ""))
            time.sleep(interval_s)
        found: Json = answer["operation"]
        if cause := found.get("failure-cause"):
            raise rendered_error(cause["stack-trace"]) or UserError(cause["class"], failed)
        return found

    def log_levels(self, levels: Mapping[str, str | None]) -> Json:
        """Set these levels of loggers, and return those of all processes."""
        body = {"levels": dict(levels)} if levels else None
        return dict(self._client.call("PUT" if levels else "GET", "/log-levels", body))

    def log_records(self, job_id: str, follows: bool) -> Iterator[str]:
        """The records of a job's log, oldest first; with `follows` those to come, too, until the job has ended."""
        after: Mapping[str, str] = {}
        while True:
            has_ended = not follows or self.status(job_id).is_terminal
            answer = self._client.call("GET", job_path(job_id, "/logs"), **after)
            yield from answer["records"]
            if answer["next"] == after.get("after") or not answer["records"]:
                if has_ended:
                    return
                time.sleep(LOG_POLL_S)
            after = {"after": answer["next"]}

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> ClusterRest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
