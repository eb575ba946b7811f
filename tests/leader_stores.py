"""Stores that servers share, on loopback: ZooKeeper from the jars of pyspark, SeaweedFS and moto for S3, and the part of
Kubernetes' API that servers call."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import secrets
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from command_harness import free_port
from s3_harness import BUCKET, MOTO, running_s3

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.java import find_java

START_TIMEOUT_S = 120

Settings = dict[str, str]
"""What a server needs for a store, beside `high-availability.type`."""


@contextlib.contextmanager
def running_zookeeper(directory: Path) -> Iterator[str]:
    """A server of its own, as host:port. Skips the test where there is no Java, or pyspark has no ZooKeeper."""
    try:
        java = os.path.join(find_java(os.environ).home, "bin", "java")
    except ExternalError:
        pytest.skip("there is no Java for ZooKeeper")
    jars = _jars()
    port = free_port()
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "zoo.cfg"
    settings.write_text(
        f"dataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=500\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
    words = [
        "-cp",
        ":".join(map(str, jars)),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(settings),
    ]
    with (
        open(directory / "out", "wb") as output,
        _process([java, "-Xmx128m", *words], output),
    ):
        _until(lambda: _is_zookeeper(port))
        yield f"127.0.0.1:{port}"


def _is_zookeeper(port: int) -> bool:
    """Whether it serves clients: its port is open before."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as asked:
            asked.sendall(b"srvr")
            return b"Zookeeper version" in asked.recv(4096)
    except OSError:
        return False


def _jars() -> list[Path]:
    import pyspark

    wanted = ("zookeeper", "log4j", "slf4j", "netty", "metrics-core", "snappy", "commons-cli")
    return [jar for jar in Path(pyspark.__file__).parent.glob("jars/*.jar") if jar.name.startswith(wanted)]


@contextlib.contextmanager
def running_weed(directory: Path) -> Iterator[str]:
    """SeaweedFS, as the address of its S3, with one bucket. Skips the test where there is none."""
    weed = MOTO / "bin" / "weed"
    if not weed.exists():
        pytest.skip("there is no SeaweedFS: make object-store installs it")
    directory.mkdir(parents=True, exist_ok=True)
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    words = [f"-{name}.port={port}" for name, port in ports.items()]
    words += [f"-{name}.port.grpc={free_port()}" for name in ports]
    command = [
        str(weed), f"-logdir={directory}", "server", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-volume.max=2", "-master.volumeSizeLimitMB=64", "-filer", "-s3", *words,
    ]  # fmt: skip
    with open(directory / "out", "wb") as output, _process(command, output):
        endpoint = f"http://127.0.0.1:{ports['s3']}"
        _wait_for_port(ports["s3"])
        _until(lambda: _is_made(f"{endpoint}/{BUCKET}"))
        yield endpoint


def _is_made(url: str) -> bool:
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
        probe = f"{url}/probe"
        urllib.request.urlopen(urllib.request.Request(probe, b"1", method="PUT"), timeout=10).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _process(command: list[str], output: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_port(port: int) -> None:
    def is_open() -> bool:
        with socket.socket() as asked:
            asked.settimeout(1)
            return asked.connect_ex(("127.0.0.1", port)) == 0

    _until(is_open)


def _until(is_done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline_s, "a store of the test does not answer"
        time.sleep(0.1)


# Kubernetes.


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}


class Api:
    """Objects by their paths, each with a `resourceVersion`, as the API server keeps and compares them. State: the objects."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.objects: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()
        self.versions = 0
        self.asked: set[tuple[str, str]] = set()
        """Resources and verbs, as a Role has them."""

    def answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        with self.lock:
            is_list = method == "GET" and path.endswith(("/configmaps", "/leases"))
            verb = "list" if is_list else _VERBS[method]
            self.asked.add(("leases" if "/leases" in path else "configmaps", verb))
            if method == "POST":
                return self._put(f"{path}/{body['metadata']['name']}", body, is_new=True)
            if method == "PUT":
                return self._put(path, body, is_new=False)
            found = self.objects.get(path)
            if is_list:
                return self._page(path, query)
            if found is None:
                return _refusal(404, "NotFound", f'"{path}" not found')
            if method == "DELETE":
                del self.objects[path]
            return 200, found

    def _put(self, path: str, body: dict[str, Any], is_new: bool) -> tuple[int, dict[str, Any]]:
        found = self.objects.get(path)
        if is_new and found is not None:
            return _refusal(409, "AlreadyExists", f'"{path}" already exists')
        if not is_new and found is None:
            return _refusal(404, "NotFound", f'"{path}" not found')
        expected = body["metadata"].get("resourceVersion")
        if found is not None and expected not in (None, found["metadata"]["resourceVersion"]):
            return _refusal(409, "Conflict", "the object has been modified")
        kind = "Lease" if "/leases/" in path else "ConfigMap"
        if body.get("kind") != kind:
            return _refusal(400, "BadRequest", f"it is no {kind}")
        self.versions += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.versions)}
        self.objects[path] = {**body, "metadata": metadata}
        return 201 if is_new else 200, self.objects[path]

    def _page(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Three at a time, however many are asked for, as the API may."""
        label, _, value = query["labelSelector"].partition("=")
        names = sorted(
            name
            for name, found in self.objects.items()
            if name.startswith(f"{path}/") and found["metadata"].get("labels", {}).get(label) == value
        )
        begin = int(query.get("continue", "0"))
        metadata = {"continue": str(begin + 3)} if begin + 3 < len(names) else {}
        # Items of a list have no kind.
        items = [
            {k: v for k, v in self.objects[name].items() if k != "kind"} for name in names[begin : begin + 3]
        ]
        return 200, {"kind": "List", "metadata": metadata, "items": items}


def _refusal(status: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    return status, {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }


@contextlib.contextmanager
def running_kubernetes(directory: Path) -> Iterator[tuple[Api, Path, dict[str, str]]]:
    """The API over TLS, the directory of a service account, and the variables of a pod."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    account = directory / "serviceaccount"
    account.mkdir()
    api = Api(secrets.token_hex(16))
    (account / "token").write_text(api.token + "\n")
    (account / "namespace").write_text("streams")
    authority.cert_pem.write_to_path(str(account / "ca.crt"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        port = str(server.server_address[1])
        yield api, account, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    finally:
        server.shutdown()
        server.server_close()


def _handler(api: Api) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query))
            if self.headers.get("authorization") != f"Bearer {api.token}":
                status, said = _refusal(401, "Unauthorized", "Unauthorized")
            else:
                status, said = api.answer(self.command, parts.path, query, json.loads(body or b"{}"))
            if "as=PartialObjectMetadataList" in self.headers.get("accept", "") and "items" in said:
                said = {**said, "items": [{"metadata": item["metadata"]} for item in said["items"]]}
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return Handler


# What a server is told of each.


@contextlib.contextmanager
def shared_store(kind: str, directory: Path) -> Iterator[tuple[Settings, dict[str, str]]]:
    """The settings of servers that share a store of this type, and the variables of their processes."""
    settings = {
        "high-availability.type": kind.partition("-")[0],
        "high-availability.storageDir": str(directory / "shared"),
    }
    with contextlib.ExitStack() as ends:
        match kind:
            case "zookeeper":
                quorum = ends.enter_context(running_zookeeper(directory / "zookeeper"))
                yield settings | {"high-availability.zookeeper.quorum": quorum}, {}
            case "s3" | "s3-moto":
                if kind == "s3":
                    endpoint = ends.enter_context(running_weed(directory / "weed"))
                else:
                    endpoint = ends.enter_context(running_s3()).endpoint
                place = {"high-availability.storageDir": f"s3://{BUCKET}/ha", "s3.endpoint": endpoint}
                yield settings | place | {"s3.access-key": "someone", "s3.secret-key": "very secret"}, {}
            case "kubernetes":
                _, account, variables = ends.enter_context(running_kubernetes(directory / "kubernetes"))
                yield settings | {"sqlstream.kubernetes.service-account": str(account)}, variables
            case _:
                yield settings, {}
