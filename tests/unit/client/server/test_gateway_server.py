"""A gateway waits for its JobManager."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from sqlstream.client.clusters.joined_task_manager import Joining
from sqlstream.client.configuration import load_configuration
from sqlstream.client.server import gateway_server
from sqlstream.client.server.gateway_server import GatewayServer
from sqlstream.runtime.net.joining import JoinToken

TRIES = 20


def test_a_gateway_that_waits_for_its_job_manager_opens_no_more_with_each_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_server, "WAIT_S", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # A port of the default may be another test's.
    settings = [f"sqlstream.data-dir={tmp_path / 'data'}", "sql-gateway.endpoint.rest.port=0", "rest.port=0"]
    configuration = load_configuration(None, settings)
    tried, opened = threading.Semaphore(0), list[int]()

    def token() -> JoinToken:
        tried.release()
        opened.append(len(os.listdir("/proc/self/fd")))
        return JoinToken("0" * 64, "secret")

    # Nobody has port 1.
    gateway = GatewayServer(configuration, Joining(("127.0.0.1:1",), token, configuration.values))
    waiting = threading.Thread(target=gateway.lead, args=(lambda: None,))
    waiting.start()
    for _ in range(TRIES):
        assert tried.acquire(timeout=60)
    gateway.stopped.set()
    waiting.join()
    assert opened[TRIES - 1] - opened[1] < TRIES // 2
    assert len(list(tmp_path.glob("sqlstream-gateway-*"))) == 1
