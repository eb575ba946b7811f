"""The authority and the tokens of servers that share no directory: in their store, sealed with a secret that each host has."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sqlstream.client.configuration import Configuration
from sqlstream.client.server.kept_file import make_private_directory, remove_file, write_file
from sqlstream.client.server.leaders.record_store import Conflict, RecordStore
from sqlstream.client.server.leaders.stores import Leaders, leaders, place_store
from sqlstream.client.server.server_config import shared_directory
from sqlstream.errors import ExternalError, UserError

FILES = (
    "cluster/authority.pem",
    "cluster/authority-key.pem",
    "cluster/secret",
    "cluster/join-secret",
    "tokens.json",
    "token",
)
"""What all servers have alike, below the directory of each."""

FOLLOW_S = 5.0
"""How soon a server that leads has what a command has changed."""

SECRET_CHARACTERS_MIN = 32
_SECRET_BYTES_MAX = 4096
_RECORD_BYTES_MAX = 1 << 20
_KEY = "cluster"
_SALT_BYTES, _NONCE_BYTES = 16, 12


class _Sealed(msgspec.Struct, frozen=True):
    """`data` is FILES by their names, sealed by AES-GCM under a key that scrypt makes of the secret and the salt."""

    version: int
    salt: bytes
    nonce: bytes
    data: bytes


class SharedSecrets:
    """FILES in one record of a store, and as files of a directory. Who has the store alone can neither read the record nor make
    another that is taken for it. Thread-safe. State: the thread that follows it."""

    def __init__(self, store: RecordStore, secret: bytes, cluster_id: str) -> None:
        self._store, self._secret = store, secret
        self._about = f"sqlstream {cluster_id}".encode()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def settle(self, directory: str, make: Callable[[], object]) -> None:
        """Have the files of the record in the directory. `make` makes those that are not there; they become the record's, unless
        another server or command was first. ExternalError SS6080, UserError SS6171."""
        while True:
            found, version = self._read()
            _put(found, directory)
            make()
            whole = {**_files_of(directory), **found}
            if whole == found:
                return
            with contextlib.suppress(Conflict):
                self._write(whole, version)
                return

    @contextlib.contextmanager
    def changing(self) -> Iterator[str]:
        """A private directory with the files: what is changed there is changed for all. ExternalError SS6172 when somebody else
        has changed them meanwhile, and SS6080."""
        with tempfile.TemporaryDirectory(prefix="sqlstream-secrets-") as directory:
            found, version = self._read()
            _put(found, directory)
            yield directory
            changed = _files_of(directory)
            try:
                if changed != found:
                    self._write(changed, version)
            except Conflict as conflict:
                raise ExternalError(
                    "SS6172", "another command or server has changed the tokens of these servers meanwhile"
                ) from conflict

    def follow(self, directory: str) -> None:
        """Have what commands change in the directory within FOLLOW_S, until `close`."""

        def run() -> None:
            known = None
            while not self._ended.wait(FOLLOW_S):
                # What cannot be read now stays as it is.
                with contextlib.suppress(ExternalError, UserError):
                    found, version = self._read()
                    if version != known:
                        _put(found, directory, removes=True)
                        known = version

        self._thread = threading.Thread(target=run, name="shared-secrets", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(FOLLOW_S)
        self._store.close()

    def _read(self) -> tuple[dict[str, bytes], str | None]:
        record = self._store.read(_KEY)
        if record is None:
            return {}, None
        try:
            if len(record.data) > _RECORD_BYTES_MAX:
                raise ValueError("it is too large")
            sealed = msgspec.msgpack.decode(record.data, type=_Sealed)
            if sealed.version != 1:
                raise ValueError(f"its version is {sealed.version}")
            opened = AESGCM(_key(self._secret, sealed.salt)).decrypt(sealed.nonce, sealed.data, self._about)
            found = msgspec.msgpack.decode(opened, type=dict[str, bytes])
        except (InvalidTag, ValueError, msgspec.MsgspecError) as error:
            reason = f": {error}" if str(error) else ""
            raise UserError(
                "SS6171",
                "what the store of these servers has of their cluster cannot be opened with the secret of this host"
                f"{reason}",
            ) from error
        return {name: found[name] for name in FILES if name in found}, record.version

    def _write(self, files: dict[str, bytes], version: str | None) -> None:
        salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)
        data = AESGCM(_key(self._secret, salt)).encrypt(nonce, msgspec.msgpack.encode(files), self._about)
        self._store.write(_KEY, msgspec.msgpack.encode(_Sealed(1, salt, nonce, data)), version)


@functools.lru_cache(4)
def _key(secret: bytes, salt: bytes) -> bytes:
    return hashlib.scrypt(secret, salt=salt, n=1 << 14, r=8, p=1, dklen=32)


def _put(files: dict[str, bytes], directory: str, removes: bool = False) -> None:
    for name in FILES:
        path = os.path.join(directory, name)
        if name not in files:
            if removes:
                remove_file(path)
            continue
        make_private_directory(os.path.dirname(path))
        if _content(path) != files[name]:
            write_file(path, files[name])


def _files_of(directory: str) -> dict[str, bytes]:
    found = {name: _content(os.path.join(directory, name)) for name in FILES}
    return {name: data for name, data in found.items() if data is not None}


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExternalError("SS5001", f'could not read "{path}": {error.strerror}') from error


def secrets_of(found: Leaders | None, configuration: Configuration) -> SharedSecrets | None:
    """None where servers share a directory or nothing at all, or have no secret. UserError SS6173 for a secret that cannot be
    used, and SS6171 when the store has what a secret seals, and there is none."""
    if found is None or found.directory:
        return None
    path: str = configuration.get("high-availability.secret-file")
    secret = _secret_of(path) if path else b""
    store = place_store(found, "secrets", configuration)
    try:
        if secret:
            return SharedSecrets(store, secret, found.cluster_id)
        if store.read(_KEY) is not None:
            raise UserError(
                "SS6171", "the store of these servers has their cluster sealed, and this one has no secret"
            )
    except BaseException:
        store.close()
        raise
    store.close()
    return None


def _secret_of(path: str) -> bytes:
    what = f'the secret of these servers in "{path}"'
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise UserError("SS6173", f"{what} is open to other users", hint=f"chmod 600 {path}")
            secret = stream.read(_SECRET_BYTES_MAX + 1).strip()
    except OSError as error:
        raise UserError("SS6173", f"could not read {what}: {error.strerror}") from error
    if not SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise UserError(
            "SS6173",
            f"{what} has {len(secret)} characters, not {SECRET_CHARACTERS_MIN} to {_SECRET_BYTES_MAX}",
            hint=f"make one: (umask 077; openssl rand -base64 48 > {path})",
        )
    return secret


@contextlib.contextmanager
def shared_files(configuration: Configuration, given: str | None = None) -> Iterator[str]:
    """The directory in which a command finds tokens and the cluster's authority, and may change them: `shared_directory`, or one
    with what the store of the servers has."""
    found = secrets_of(leaders(configuration), configuration)
    if found is None:
        yield shared_directory(configuration, given)
        return
    with contextlib.closing(found), found.changing() as directory:
        yield directory
