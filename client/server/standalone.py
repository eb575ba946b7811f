"""What a server has for TaskManagers that join it: the cluster's authority and secrets, and the port where they ask."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sqlstream import config as options
from sqlstream.client.clusters.joined_task_manager import SLOTS, JoinedTaskManager, Joining, slots_of_cores
from sqlstream.client.server.http_listener import HttpListener, listen, port_of
from sqlstream.client.server.kept_file import make_private_directory, remove_drafts, write_file
from sqlstream.client.server.server_config import Endpoint, TlsFiles
from sqlstream.errors import ExternalError, SqlStreamError, reason_of_error
from sqlstream.options.network_options import RPC_PORT
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.net.authority import Authority, locked
from sqlstream.runtime.net.joining import BODY_BYTES_MAX, JOIN_PATH, Door, JoinToken, Refusal, addresses_of
from sqlstream.runtime.providers.child_output import PassOn
from sqlstream.runtime.providers.providers import STANDALONE, TARGET, standalone_host

logger = logging.getLogger(__name__)

SECRET_BYTES = 32


class StandaloneCluster:
    """The authority and the secrets of a cluster, in the folder `cluster` of the server's data directory. Both last as long as
    that: TaskManagers of the last server are those of the next.

    authority.pem  authority-key.pem  certificate.pem  key.pem  secret  join-secret
    """

    def __init__(self, directory: str) -> None:
        """`directory` is made when it is not there. ExternalError SS5001, UserError SS4070 and SS4012."""
        make_private_directory(directory)
        self._directory = directory
        self.authority = Authority(directory)

    def settings(self, config: Mapping[str, str]) -> dict[str, str]:
        """Those of the cluster, which always has TLS: with the certificates that `config` names, or else of its own authority.
        For the one server that has the directory."""
        remove_drafts(self._directory)
        host = standalone_host(config)
        found = {"jobmanager.rpc.address": host}
        if options.get(config, "jobmanager.rpc.port") == 0:
            # TaskManagers look for the next server where the last one was.
            found["jobmanager.rpc.port"] = RPC_PORT
        if not options.get(config, "security.ssl.internal.enabled"):
            own = self.authority.own_files([host])
            found |= {
                "security.ssl.internal.enabled": "true",
                "security.ssl.internal.certificate-file": own.certificate,
                "security.ssl.internal.key-file": own.key,
                "security.ssl.internal.ca-file": own.authority,
            }
        return found

    @property
    def secret(self) -> str:
        """What processes of the cluster show each other."""
        return self._kept("secret")

    def make_secrets(self) -> None:
        """Have both secrets on the disk."""
        self._kept("secret")
        self._kept("join-secret")

    def join_token(self, is_new: bool = False) -> JoinToken:
        """By which a host joins. With `is_new` the one before counts no longer; whoever has joined stays."""
        return JoinToken(self.authority.fingerprint, self._kept("join-secret", is_new))

    def _kept(self, name: str, is_new: bool = False) -> str:
        path = os.path.join(self._directory, name)
        try:
            with locked(self._directory):
                if is_new or not os.path.exists(path):
                    write_file(path, secrets.token_urlsafe(SECRET_BYTES).encode())
            with open(path, encoding="ascii") as stream:
                return stream.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ExternalError("SS5001", f'could not read "{path}": {reason_of_error(error)}') from error

    def door(
        self,
        config: Mapping[str, str],
        job_manager: str,
        places: FilePlaces,
        on_end: Callable[[], None],
    ) -> OpenDoor:
        """Listen for TaskManagers, whose tables may have files at `places`; `job_manager` is the address of the JobManager.
        UserError SS4011 when the port is in use."""
        host = standalone_host(config)
        bind_host = options.get(config, "jobmanager.bind-host") or host
        endpoint = Endpoint(host, bind_host, (options.get(config, "jobmanager.join.port"),), JOIN_PORT_WORDS)
        door = Door(
            self.authority,
            lambda: self._kept("join-secret"),
            self.secret,
            job_manager,
            addresses_of,
            places,
            has_own_certificates=options.get(config, "security.ssl.internal.enabled"),
            takes_gateways=options.get(config, "sqlstream.jobmanager.gateways.enabled"),
        )
        return OpenDoor(
            door, endpoint, TlsFiles(self.authority.certificate_path, self.authority.key_path, ""), on_end
        )


class OwnTaskManagers:
    """TaskManagers of this host that join the cluster as those of others do, from `start` until `stop`, in the place of which
    others start when they end. State: a thread for each."""

    def __init__(self, pass_on: PassOn) -> None:
        """`pass_on` takes the lines of their logs."""
        self._pass_on = pass_on
        self._started: list[tuple[JoinedTaskManager, threading.Thread]] = []

    def start(self, count: int, address: str, token: JoinToken, config: Mapping[str, str]) -> None:
        """So many with the slots that the settings give to each, by default all cores between them."""
        slots = config.get(SLOTS) or slots_of_cores(count)
        joining = Joining((address,), lambda: token, {**config, SLOTS: slots})
        for number in range(count):
            manager = JoinedTaskManager(joining, logger.info, self._pass_on)
            thread = threading.Thread(
                target=_run_until_stopped, args=(manager,), name=f"own-taskmanager-{number}", daemon=True
            )
            thread.start()
            self._started.append((manager, thread))

    def stop(self) -> None:
        """End them. Harmless when repeated."""
        for manager, _ in self._started:
            manager.stop()
        for _, thread in self._started:
            thread.join(OWN_STOP_TIMEOUT_S)


def _run_until_stopped(manager: JoinedTaskManager) -> None:
    try:
        manager.run()
    except (SqlStreamError, OSError) as error:
        logger.error("a TaskManager of the server's own host cannot join: %s", error)
    except Exception:  # the thread's boundary: nobody else would tell
        logger.exception("a TaskManager of the server's own host is lost")


OWN_STOP_TIMEOUT_S = 6.0
JOIN_PORT_WORDS = "-D jobmanager.join.port=PORT"


class OpenDoor:
    """Answers at the port, from the start until `stop`. `address` is HOST:PORT, as hosts that join write it."""

    def __init__(self, door: Door, endpoint: Endpoint, tls: TlsFiles, on_end: Callable[[], None]) -> None:
        sockets = [listen(endpoint)]
        name = f"[{endpoint.name}]" if ":" in endpoint.name else endpoint.name
        self.address = f"{name}:{port_of(sockets[0])}"
        self._http = HttpListener(_application(door), sockets, tls, on_end, is_behind_proxy=False)
        self._http.start()

    def stop(self) -> None:
        self._http.stop()


REFUSALS_LOGGED_S = 10.0
"""How often the log tells of a TaskManager that may not join: anybody can ask."""


def _application(door: Door) -> Any:
    """An ASGI application of one path."""
    told_s = -REFUSALS_LOGGED_S

    async def answer(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if (scope["method"], scope["path"]) != ("POST", JOIN_PATH):
            await _send(
                send, 404, Refusal("SS4081", "TaskManagers ask to join here, and nothing else is answered")
            )
            return
        body = await _body(receive)
        if len(body) > BODY_BYTES_MAX:
            await _send(send, 413, Refusal("SS4081", "the request is too large"))
            return
        peer = str(scope["client"][0])
        # A name is looked up, and a certificate signed: neither is to hold up the others.
        status, reply = await asyncio.to_thread(door.answer, body, peer)
        nonlocal told_s
        if isinstance(reply, Refusal):
            if steady_s() - told_s < REFUSALS_LOGGED_S:
                await _send(send, status, reply)
                return
            told_s = steady_s()
            logger.warning("a TaskManager of %s may not join: %s", peer, reply.message)
        else:
            logger.info("a TaskManager of %s joins", peer)
        await _send(send, status, reply)

    return answer


async def _body(receive: Any) -> bytes:
    """The body of a request, or a little more than BODY_BYTES_MAX of a larger one."""
    parts = bytearray()
    while len(parts) <= BODY_BYTES_MAX:
        message = await receive()
        parts += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(parts)


async def _send(send: Any, status: int, reply: msgspec.Struct) -> None:
    body = msgspec.json.encode(reply)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_standalone(config: Mapping[str, str]) -> bool:
    return bool(options.get(config, TARGET) == STANDALONE)
