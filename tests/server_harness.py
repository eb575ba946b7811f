"""A `sqlstream server` of this checkout as a process of its own, and the few requests that tests make of it."""

from __future__ import annotations

import functools
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import httpx
import psutil
from command_harness import (
    ROOT,
    SQLSTREAM,
    Process,
    WholeEnd,
    children_of,
    environment,
    task_managers_of,
    wait_until_ended,
)

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 240.0
REQUEST_TIMEOUT_S = 240.0
JOB_TIMEOUT_S = 240.0
POLL_S = 0.05


@functools.cache
def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()


class RunningServer:
    """A server on free ports of loopback with the data directory `directory`, from `with` to its end, when it is killed unless
    it has ended. `prefix` is a command that runs the one behind it, `cwd` where the server runs, `role` the command that it is.
    A server that is not forked loads only what it needs."""

    def __init__(
        self,
        directory: Path,
        *words: str,
        port: str | None = "0",
        prefix: Sequence[str] = (),
        is_forked: bool = True,
        cwd: Path = ROOT,
        role: str = "server",
        **variables: str,
    ) -> None:
        self.directory = directory
        self._role = role
        self._cwd = cwd
        self._prefix = prefix
        self._starts = Process if is_forked else subprocess.Popen
        self._words = ["--data-dir", str(directory), *words]
        if port is not None:
            self._words += ["--port", port]
        self._variables = variables
        self.headers: dict[str, str] = {}
        self.verify: Any = True
        self._client: httpx.Client | None = None
        self._client_verify: Any = None

    def start(self) -> None:
        """Return when the server has said that it is ready."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        if hasattr(self, "process"):
            self._hold_end()
        self._errors = open(f"{self.directory}.err", "ab")  # noqa: SIM115 (closed by _hold_end)
        self._end = WholeEnd()
        self.process = self._starts(
            [*self._prefix, *SQLSTREAM, self._role, *self._words],
            cwd=self._cwd,
            env=self._end.environment(environment(**self._variables)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._end.begin()
        assert self.process.stdout is not None
        self.greeting: list[str] = []
        if any(word.endswith("log.format=JSON") for word in self._words):
            self._wait_for_record()
        else:
            self._read_greeting(self.process.stdout)
        found = json.loads((self.directory / "server.json").read_text())
        self.gateway, self.rest = found["gateway"], found["rest"]

    def _read_greeting(self, output: IO[str]) -> None:
        for line in output:
            self.greeting.append(line.rstrip("\n"))
            if line.startswith("Try:"):
                return
        raise AssertionError(f"the server did not start: {self.errors()}")

    def _wait_for_record(self) -> None:
        """What is printed otherwise is a record of the log."""
        while " is ready" not in self.errors():
            assert self.process.poll() is None, self.errors()
            time.sleep(POLL_S)

    def __enter__(self) -> RunningServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._hold_end()
        except AssertionError:
            if error is None:
                raise
        if self._client is not None:
            self._client.close()

    def _hold_end(self) -> None:
        """End the process unless it has ended, and hold it to its end."""
        children = []
        if self.process.poll() is None:
            children = self.children()
            self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        self._end.check(self.process.returncode, self.errors(), children)

    def errors(self) -> str:
        """What the server has written to standard error, in all its lives."""
        return Path(f"{self.directory}.err").read_text()

    def wait_for_errors(self, text: str) -> None:
        """Wait until the server has written this to standard error."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while text not in self.errors():
            assert time.monotonic() < deadline_s, self.errors()
            time.sleep(POLL_S)

    def children(self) -> list[psutil.Process]:
        return children_of(self.process.pid)

    def task_managers(self) -> list[psutil.Process]:
        """Those of its children that are TaskManagers and have not ended."""
        return task_managers_of(self.process.pid)

    def signal(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Kill it, and wait until its TaskManagers have ended, too."""
        children = self.children()
        self.signal(signal.SIGKILL)
        wait_until_ended(children)

    # --- requests

    def request(
        self, method: str, path: str, body: Any = None, rest: bool = False, **options: Any
    ) -> httpx.Response:
        url = (self.rest if rest else self.gateway) + path
        headers = {**self.headers, **options.pop("headers", {})}
        # One client for all requests, and one context of TLS for all servers: to make it takes longer than a request.
        if self._client is None or self._client_verify is not self.verify:
            verify = _trusted() if self.verify is True else self.verify
            self._client, self._client_verify = (
                httpx.Client(verify=verify, timeout=REQUEST_TIMEOUT_S),
                self.verify,
            )
        return self._client.request(method, url, json=body, headers=headers, **options)

    def get(self, path: str) -> Any:
        """The body of a GET of the JobManager's REST."""
        answer = self.request("GET", path, rest=True)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def open_session(self) -> str:
        answer = self.request("POST", "/v3/sessions", {})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["sessionHandle"])

    def submit(self, session: str, sql: str) -> httpx.Response:
        return self.request("POST", f"/v3/sessions/{session}/statements", {"statement": sql})

    def execute(self, session: str, sql: str) -> list[list[Any]]:
        """Run a statement and return all its rows; AssertionError with the body when it fails."""
        answer = self.submit(session, sql)
        assert answer.status_code == 200, answer.text
        path = f"/v3/sessions/{session}/operations/{answer.json()['operationHandle']}/result/0?rowFormat=JSON"
        rows: list[list[Any]] = []
        while path:
            answer = self.request("GET", path)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            if page["resultType"] != "NOT_READY":
                rows += [row["fields"] for row in page["results"]["data"]]
            path = page.get("nextResultUri", "")
        return rows

    def insert(self, session: str, sql: str) -> str:
        """Submit an INSERT and return its job's id."""
        return str(self.execute(session, sql)[0][0])

    def statuses(self) -> dict[str, str]:
        return {job["id"]: job["status"] for job in self.get("/jobs")["jobs"]}

    def wait_for(self, job_id: str, *statuses: str, timeout_s: float = JOB_TIMEOUT_S) -> str:
        """Wait until the job has one of these statuses, and return it."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = self.statuses().get(job_id, "")
            if found in statuses:
                return found
            time.sleep(POLL_S)
        raise AssertionError(f"the job is {self.statuses().get(job_id)}: {self.errors()[-3000:]}")

    def wait_until_checkpointed(self, job_id: str, count: int = 1, timeout_s: float = JOB_TIMEOUT_S) -> None:
        """Wait until so many checkpoints of the job are complete."""
        deadline_s = time.monotonic() + timeout_s
        while (checkpoints := self.get(f"/jobs/{job_id}/checkpoints"))["counts"]["completed"] < count:
            assert time.monotonic() < deadline_s, f"{checkpoints}\n{self.errors()[-3000:]}"
            time.sleep(POLL_S)

    def stop(self, job_id: str) -> bool:
        """Whether the job ends with a savepoint: what it has read is written."""
        directory = str(self.directory.parent / "savepoints")
        body = {"drain": True, "targetDirectory": directory}
        answer = self.request("POST", f"/jobs/{job_id}/stop", body, rest=True)
        if answer.status_code != 202:
            return False
        deadline_s = time.monotonic() + JOB_TIMEOUT_S
        while True:
            status = self.get(f"/jobs/{job_id}/savepoints/{answer.json()['request-id']}")
            if status["status"]["id"] == "COMPLETED":
                return "failure-cause" not in status["operation"]
            assert time.monotonic() < deadline_s, self.errors()[-2000:]
            time.sleep(POLL_S)

    def finish(self, job_id: str) -> int:
        """End the sources of a job where they are; how many rows they have read. A loss of tasks on the way, of which the job may
        not have heard yet, ends the stop alone: it is asked for again."""
        deadline_s = time.monotonic() + JOB_TIMEOUT_S
        while not self.stop(job_id):
            assert time.monotonic() < deadline_s, self.errors()[-2000:]
            time.sleep(POLL_S)
        self.wait_for(job_id, "FINISHED")
        return int(self.get(f"/jobs/{job_id}/totals")["total"]["numRecordsRead"])
