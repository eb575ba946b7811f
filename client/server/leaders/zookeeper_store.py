"""Records in ZooKeeper, one node each."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from sqlstream.client.server.leaders.record_store import Conflict, Record
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.process import hush

BYTES_MAX = 1_000_000
"""A node and what goes with it have 1 MiB (jute.maxbuffer)."""


@dataclasses.dataclass(frozen=True)
class ZooKeeperOptions:
    """`acl` is open or creator; `logins` are pairs of a scheme and what it takes."""

    quorum: str
    path: str
    session_timeout_s: float
    connection_timeout_s: float
    acl: str
    logins: tuple[tuple[str, str], ...]


class ZooKeeperStore:
    """A record is a node below the path, and its version that of the node: keys that were removed do not come back. Implements
    `RecordStore`. State: the session, which is opened again by itself."""

    bytes_max = BYTES_MAX

    def __init__(self, options: ZooKeeperOptions) -> None:
        """ExternalError SS6080 when no server of the quorum answers; UserError SS6084 without the library."""
        try:
            from kazoo import client, security
        except ImportError as error:
            raise UserError("SS6084", "kazoo, by which ZooKeeper is reached, is not installed") from error
        hush("kazoo")
        self._options = options
        acl = security.CREATOR_ALL_ACL if options.acl == "creator" else security.OPEN_ACL_UNSAFE
        self._client = client.KazooClient(
            options.quorum,
            timeout=options.session_timeout_s,
            default_acl=acl,
            auth_data=list(options.logins),
        )
        with self._failing():
            self._client.start(options.connection_timeout_s)
            self._client.ensure_path(options.path)

    def read(self, key: str) -> Record | None:
        from kazoo.exceptions import NoNodeError

        with self._failing():
            try:
                data, status = self._answer(self._client.get_async(self._path(key)))
            except NoNodeError:
                return None
            return Record(data, str(status.version))

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

        with self._failing():
            try:
                if expected is None:
                    self._answer(self._client.create_async(self._path(key), data))
                    return "0"
                status = self._answer(self._client.set_async(self._path(key), data, int(expected)))
            except (BadVersionError, NodeExistsError, NoNodeError) as error:
                raise Conflict from error
            return str(status.version)

    def remove(self, key: str) -> None:
        from kazoo.exceptions import NoNodeError

        with self._failing(), contextlib.suppress(NoNodeError):
            self._answer(self._client.delete_async(self._path(key)))

    def keys(self) -> list[str]:
        with self._failing():
            names: list[str] = self._answer(self._client.get_children_async(self._options.path))
            return names

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def _path(self, key: str) -> str:
        return f"{self._options.path}/{key}"

    def _answer(self, asked: Any) -> Any:
        return asked.get(timeout=self._options.connection_timeout_s)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            yield
        except (KazooException, KazooTimeoutError) as error:
            said = str(error) or type(error).__name__
            raise ExternalError(
                "SS6080", f'could not use ZooKeeper at "{self._options.quorum}": {said}'
            ) from error
