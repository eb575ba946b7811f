"""The console with a gateway and REST on a free port of loopback, as a process: `python serve.py [EDITOR_DIRECTORY] [TOKEN]`.

Prints the port, and ends with its standard input.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from client.catalog.catalogs import memory_catalogs
from client.console.app import EDITOR, console_routes
from client.gateway.app import gateway_app
from client.gateway.service import GatewayService
from client.local_cluster import LocalClusterClient
from client.rest.app import ServerInfo, rest_routes
from client.session import Session


def main() -> None:
    arguments = [*sys.argv[1:], "", ""]
    editor = Path(arguments[0]) if arguments[0] else EDITOR
    settings = {"sqlstream.in-process.max-input-size": "0", "taskmanager.numberOfTaskSlots": "4"}
    cluster = LocalClusterClient(settings, 1)
    catalogs = memory_catalogs()
    gateway = GatewayService(lambda config: Session(cluster, config, catalogs))
    app = gateway_app(gateway)
    info = ServerInfo("0.1.0")
    app.include_router(rest_routes(cluster, info))
    app.include_router(console_routes(gateway.complete, info, editor))
    if arguments[1]:
        app.middleware("http")(token_check(arguments[1]))
    start_task_manager(cluster)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(
        target=lambda: (sys.stdin.read(), setattr(server, "should_exit", True)), daemon=True
    ).start()
    try:
        server.run(sockets=[listener])
    finally:
        gateway.close()
        cluster.close()


def start_task_manager(cluster: LocalClusterClient) -> None:
    """So that no test waits for its start."""
    deadline_s = time.monotonic() + 60
    while not cluster.cluster().task_managers() and time.monotonic() < deadline_s:
        time.sleep(0.05)


def token_check(token: str):
    """The rule of a server that demands a token: the page's own files need none."""

    async def check(request: Request, call_next) -> Response:
        path = request.url.path
        is_page = path == "/" or (path.startswith("/console/") and request.method == "GET")
        if not is_page and request.headers.get("authorization") != f"Bearer {token}":
            return JSONResponse({"errors": ["a token is needed"]}, 401)
        return await call_next(request)

    return check


if __name__ == "__main__":
    main()
