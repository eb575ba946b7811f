"""A TaskManager of this host that joins a cluster elsewhere, and is replaced when it ends, until it is told to stop."""

from __future__ import annotations

import os
import random
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from sqlstream import config as options
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.process_directory import ProcessDirectory
from sqlstream.runtime.host.random import random_id
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.net.authority import CERTIFICATE_DAYS, new_request, write_files
from sqlstream.runtime.net.endpoint import ENCRYPTED, TlsFiles, internal_tls, read_identity
from sqlstream.runtime.net.joining import OTHER_RELEASE, Admission, JoinToken, ask_to_join
from sqlstream.runtime.providers.child_output import LINE_BYTES_MAX, PassOn
from sqlstream.runtime.providers.early_children import start_child
from sqlstream.runtime.providers.local import end_within, hang_up, tell
from sqlstream.runtime.taskmanager.task_manager_options import encode_options, options_of

RENEW_AFTER_S = (CERTIFICATE_DAYS * 86_400 / 2, CERTIFICATE_DAYS * 86_400 * 2 / 3)
"""A TaskManager gets a new process, with a new certificate, after some time between these: those that start together do not end
together."""

WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before the next try, and after the last of these always as long as that."""

STEADY_AFTER_S = 60.0
"""One that has run for so long ended for a reason of its own: the next one starts at once."""

STOP_TIMEOUT_S = 5.0

WATCH_S = 1.0
"""How often a TaskManager that knows several servers looks whether another one leads."""

CONNECT_TIMEOUT_S = 3.0

INCARNATIONS = 1 << 20
"""More than one process registers: the next one takes its place at once."""


SLOTS = "taskmanager.numberOfTaskSlots"


def slots_of_cores(task_managers: int = 1) -> str:
    """The slots of each of so many TaskManagers of this host unless it is said: one a core, and no more than one may have."""
    most = options.option(SLOTS).maximum
    assert most is not None
    return str(min(most, max(1, (os.cpu_count() or 1) // task_managers)))


@dataclass(frozen=True)
class Joining:
    """Whom to ask: `addresses` are HOST:PORT of the doors of servers, of which the one that leads opens its own. `config` are the
    settings of the TaskManager. `read_token` is called for each question. No table may lie in `secret_files`."""

    addresses: tuple[str, ...]
    read_token: Callable[[], JoinToken]
    config: Mapping[str, str]
    secret_files: tuple[str, ...] = ()


def admission_of(joining: Joining, directory: str) -> tuple[Admission, TlsFiles, str]:
    """What the first cluster says that answers, the certificates to show, whose files are in `directory`, and its address.
    ExternalError SS6076 while nobody is there; UserError when it refuses this host, or
    has other certificates."""
    for address in joining.addresses[:-1]:
        try:
            return *_admission_at(address, joining, directory), address
        except ExternalError:
            continue
    address = joining.addresses[-1]
    return *_admission_at(address, joining, directory), address


def _admission_at(address: str, joining: Joining, directory: str) -> tuple[Admission, TlsFiles]:
    own = internal_tls(joining.config)
    if own is not None:
        read_identity(own)
    request = new_request(f"sqlstream {socket.gethostname()}")
    host = options.get(joining.config, "taskmanager.host")
    admission = ask_to_join(address, joining.read_token(), request.signing_request, host)
    if admission.certificate:
        certificates = admission.certificate.encode(), admission.authority.encode()
        return admission, write_files(directory, request.key, *certificates)
    if own is None:
        raise UserError(
            "SS4070",
            f"the cluster at {address} has certificates of its own, and this host names none",
            hint="give the files that the server has too: -D security.ssl.internal.enabled=true and its files",
        )
    if admission.job_manager.startswith(ENCRYPTED):
        _shake_hands(admission.job_manager, own)
    return admission, own


def _shake_hands(address: str, own: TlsFiles) -> None:
    """UserError SS6167 when the JobManager and this host do not believe each other's certificates. gRPC would report that as a
    connection that cannot be made, and try for ever. Nothing is raised while nobody answers: that passes."""
    place = urlsplit(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as gRPC
    context.load_verify_locations(own.authority)
    context.load_cert_chain(own.certificate, own.key)
    context.set_alpn_protocols(["h2"])
    name = own.server_name or place.hostname
    try:
        with (
            socket.create_connection((place.hostname, place.port), CONNECT_TIMEOUT_S) as opened,
            context.wrap_socket(opened, server_hostname=name) as secured,
        ):
            # It looks at the certificate of this host after our handshake has ended: a server of gRPC then says its settings, or
            # closes.
            if secured.recv(1):
                return
    except ssl.SSLCertVerificationError as error:
        raise UserError(
            "SS6167",
            f'the certificate of the JobManager at {place.netloc} is not one of "{own.authority}" for {name}:'
            f" {error.verify_message.rstrip('.')}",
            hint=_SAME_AUTHORITY,
        ) from error
    except (ssl.SSLError, ConnectionResetError):
        pass
    except OSError:
        return
    raise UserError(
        "SS6167",
        f'the JobManager at {place.netloc} refuses the certificate "{own.certificate}" of this host',
        hint=_SAME_AUTHORITY,
    )


_SAME_AUTHORITY = "give files of security.ssl.internal.* of the server's authority, and its security.ssl.internal.server-name"


class JoinedTaskManager:
    """Runs one TaskManager at a time as a child of this process. `say` takes what happens, `pass_on` the lines of the child.
    `stop` is for any thread. State: the child."""

    def __init__(self, joining: Joining, say: PassOn, pass_on: PassOn) -> None:
        self._joining = joining
        self._say = say
        self._pass_on = pass_on
        self._stopped = threading.Event()
        self._resource_id = f"taskmanager-{socket.gethostname()}-{random_id()[:8]}"
        self._started = 0
        self._address = joining.addresses[0]
        self._directory = ProcessDirectory(tempfile.gettempdir(), "sqlstream-taskmanager-")
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Return after `stop`. UserError when the cluster refuses this host at first, but for its release: servers are upgraded
        one after the other. One that has been let in asks again, whatever it is told: a token may have been renewed, and the
        file that it is in with it."""
        failures = ends = 0
        has_joined = False
        while not self._stopped.is_set():
            try:
                admitted = self._admission()
                failures, has_joined = 0, True
                started_s = steady_s()
                self._run_one(admitted)
                # The first is replaced at once, and one that ends again and again ever later.
                ends = 1 if steady_s() - started_s > STEADY_AFTER_S else ends + 1
                self._wait(ends - 1)
            except (UserError, ExternalError, OSError) as error:
                if isinstance(error, UserError) and not has_joined and error.code != OTHER_RELEASE:
                    raise
                reason = error.strerror or str(error) if isinstance(error, OSError) else error.message
                self._say(f"{reason}; it is tried again")
                failures += 1
                self._wait(failures)

    def _wait(self, times: int) -> None:
        if times:
            self._stopped.wait(WAITS_S[min(times, len(WAITS_S)) - 1])

    def stop(self) -> None:
        """End the TaskManager. Harmless when repeated."""
        self._stopped.set()
        with self._lock:
            if self._child is not None:
                _end(self._child)

    def _admission(self) -> tuple[Admission, TlsFiles]:
        admission, tls, self._address = admission_of(self._joining, self._directory.path)
        return admission, tls

    def _watch_leaders(self, child: subprocess.Popen[bytes], is_over: threading.Event) -> None:
        """Hang up when another server leads: it alone opens its door, and this TaskManager knows the one before."""
        while not is_over.wait(WATCH_S):
            for address in self._joining.addresses:
                if address != self._address and _is_open(address):
                    self._say(f"another server leads, at {address}")
                    _end(child)
                    return

    def _run_one(self, admitted: tuple[Admission, TlsFiles]) -> None:
        admission, tls = admitted
        told = msgspec.structs.replace(
            options_of(self._joining.config, admission.token, tls, self._places(admission)),
            resource_id=self._resource_id,
            first_incarnation=self._started * INCARNATIONS,
            job_manager_address=admission.job_manager,
            host=admission.host,
            is_joined=True,
        )
        with self._lock:
            if self._stopped.is_set():
                return
            child = self._child = start_child()
            self._started += 1
            tell(child, encode_options(told))
        self._say(f"{told.resource_id} joins {self._address} with {told.slots} slots (process {child.pid})")
        renewal = threading.Timer(random.uniform(*RENEW_AFTER_S), _end, (child,))
        renewal.daemon = True
        renewal.start()
        is_over = threading.Event()
        if len(self._joining.addresses) > 1:
            arguments = (child, is_over)
            threading.Thread(target=self._watch_leaders, args=arguments, name="leaders", daemon=True).start()
        try:
            assert child.stdout is not None
            while line := child.stdout.readline(LINE_BYTES_MAX):
                self._pass_on(line.decode("utf-8", "replace"))
            end_within(child, STOP_TIMEOUT_S)
            code = child.returncode
        finally:
            renewal.cancel()
            is_over.set()
            with self._lock:
                self._child = None
        if not self._stopped.is_set():
            self._say(f"{told.resource_id} ended with {_how(code)}")

    def _places(self, admission: Admission) -> FilePlaces | None:
        """Where the server says, but not where keys and tokens of this host are."""
        if admission.places is None:
            return None
        own = internal_tls(self._joining.config)
        secrets = (
            self._directory.path,
            *self._joining.secret_files,
            *((own.key,) if own is not None else ()),
        )
        denied = (*admission.places.denied, *(os.path.realpath(path) for path in secrets))
        return msgspec.structs.replace(admission.places, denied=denied)


def _is_open(address: str) -> bool:
    """Whether a door answers there. The system of a server that stands still takes connections too, but shakes no hands."""
    place = urlsplit(f"//{address}")
    context = ssl.create_default_context()
    # Nothing is said: whoever joins looks who is there.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((place.hostname, place.port), CONNECT_TIMEOUT_S) as opened,
            context.wrap_socket(opened),
        ):
            return True
    except OSError:
        return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """Tell it to end, and kill it when it does not: returns at once."""
    hang_up(child)
    threading.Thread(
        target=end_within, args=(child, STOP_TIMEOUT_S), name="end-taskmanager", daemon=True
    ).start()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
