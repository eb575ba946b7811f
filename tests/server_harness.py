"""The gateway and the JobManager's REST on one port, in this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping

import uvicorn

from client.catalog.catalogs import memory_catalogs
from client.gateway.app import gateway_app
from client.gateway.options import GatewayOptions
from client.gateway.service import GatewayService
from client.local_cluster import LocalClusterClient
from client.rest.app import ServerInfo, rest_routes
from client.session import Session

START_TIMEOUT_S = 20


@contextlib.contextmanager
def server(config: Mapping[str, str] | None = None, options: GatewayOptions | None = None) -> Iterator[str]:
    """Serve on a free port of loopback; the URL. Sessions share one catalog and one cluster."""
    cluster = LocalClusterClient(config)
    catalogs = memory_catalogs()
    service = GatewayService(lambda settings: Session(cluster, settings, catalogs), options)
    app = gateway_app(service)
    app.include_router(rest_routes(cluster, ServerInfo("test")))
    http = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning", ws="none", lifespan="off"))
    thread = threading.Thread(target=http.run, daemon=True)
    thread.start()
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not http.started:
            assert time.monotonic() < deadline_s, "the server did not start"
            time.sleep(0.01)
        port = http.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        service.close()
        http.should_exit = True
        http.force_exit = True
        thread.join(START_TIMEOUT_S)
        cluster.close()
