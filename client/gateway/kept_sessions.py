"""Sessions in files, so that the next server goes on with them under the same handles."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from sqlstream.bounds import Count
from sqlstream.catalog import (
    CatalogFunction,
    CatalogModel,
    CatalogObject,
    CatalogTable,
    CatalogView,
    ChangeModel,
    PutFunction,
    PutObject,
    UseDatabase,
)
from sqlstream.errors import SqlStreamError
from sqlstream.kept_formats import SESSIONS
from sqlstream.runtime.host.whole_files import replace_file

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session

logger = logging.getLogger(__name__)

SESSION_BYTES_MAX = 64 * 2**20

_SUFFIX = ".session"
_HANDLE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class KeptSession(msgspec.Struct, frozen=True):
    """What a session is beside its operations. `properties` are those that it was opened with and that its statements obey,
    `kept` the others; `changed` are the settings that differ from those it has started with, None for one that is not set any
    more. `statement_set`: the INSERTs of the set that has begun. `last_operation` has made the last change of all this."""

    version: Count
    name: str
    level: Count
    owner: str
    properties: dict[str, str]
    kept: dict[str, str]
    changed: dict[str, str | None]
    catalog: str
    database: str
    tables: tuple[CatalogTable, ...]
    views: tuple[CatalogView, ...]
    functions: tuple[CatalogFunction, ...]
    statement_set: tuple[str, ...] | None
    last_operation: str = ""
    models: tuple[CatalogModel, ...] = ()


class _Versioned(msgspec.Struct, frozen=True):
    version: Count


def kept_session(
    session: Session,
    settings: Mapping[str, str],
    opened: tuple[dict[str, str], dict[str, str]],
    name: str,
    level: int,
) -> KeptSession:
    """A session of the engine with what the gateway knows of it: its own `settings`, and the properties that it was opened with,
    those that it obeys and the others."""
    first, now, catalog = session.first_config, settings, session.catalog
    changed = {key: now.get(key) for key in {*first, *now} if now.get(key) != first.get(key)}
    objects, functions = catalog.temporary()
    return KeptSession(
        SESSIONS.version,
        name,
        level,
        session.owner,
        *opened,
        changed,
        catalog.current_catalog,
        catalog.current_database,
        tuple(entry for entry in objects if isinstance(entry, CatalogTable)),
        tuple(entry for entry in objects if isinstance(entry, CatalogView)),
        functions,
        session.statement_set,
        models=catalog.temporary_models(),
    )


def go_on(session: Session, kept: KeptSession) -> None:
    """Give a session that was opened with the same properties what the kept one had."""
    session.owner = kept.owner
    for key, value in kept.changed.items():
        if value is None:
            session.config.pop(key, None)
        else:
            session.config[key] = value
    entries: tuple[CatalogObject, ...] = (*kept.tables, *kept.views)
    for entry in entries:
        session.catalog.apply(PutObject(entry))
    for function in kept.functions:
        session.catalog.apply(PutFunction(function))
    for model in kept.models:
        session.catalog.apply(ChangeModel(None, model))
    session.catalog.apply(UseDatabase(kept.catalog, kept.database))
    session.go_on_with(kept.statement_set)


class SessionFiles:
    """One file for each open session below `directory`, which is the server's alone; what is about to change there is given to
    `keep`, by paths. Thread-safe for different sessions.

    With `is_durable` a file is on the disk when `put` returns; without, only a crash of the machine can lose it. A file that
    cannot be written or read is logged: the session is lost with its server then. State: none."""

    def __init__(
        self,
        directory: str,
        is_durable: bool,
        keep: Callable[[Mapping[str, bytes | None]], None] = lambda changes: None,
    ) -> None:
        """OSError when the directory cannot be made."""
        self._keep = keep
        self._directory = directory
        self._is_durable = is_durable
        os.makedirs(directory, 0o700, exist_ok=True)

    def put(self, handle: str, kept: KeptSession) -> None:
        path = self._path(handle)
        draft = f"{path}.{secrets.token_hex(4)}.draft"
        try:
            data = msgspec.msgpack.encode(kept)
            self._keep({path: data})
            replace_file(path, draft, data, is_durable=self._is_durable)
        except (OSError, UnicodeEncodeError, SqlStreamError) as error:
            logger.error("session %s ends with this server: it could not be kept: %s", handle, error)

    def remove(self, handle: str) -> None:
        with contextlib.suppress(OSError, SqlStreamError):
            self._keep({self._path(handle): None})
            os.unlink(self._path(handle))

    def all(self) -> Iterator[tuple[str, KeptSession]]:
        """The sessions that an earlier server had open, by handle. Files of another release, and damaged ones, are removed."""
        for entry in sorted(os.scandir(self._directory), key=lambda entry: entry.name):
            handle = entry.name.removesuffix(_SUFFIX)
            try:
                if _HANDLE.fullmatch(handle) is None or not entry.name.endswith(_SUFFIX):
                    raise ValueError("it is no session")
                with open(entry.path, "rb") as stream:
                    data = stream.read(SESSION_BYTES_MAX + 1)
                if len(data) > SESSION_BYTES_MAX:
                    raise ValueError("it is too large")
                found = _decoded(data)
            except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
                logger.warning('"%s" is removed: %s', entry.path, error)
                with contextlib.suppress(OSError, SqlStreamError):
                    self._keep({entry.path: None})
                    os.unlink(entry.path)
                continue
            yield handle, found

    def _path(self, handle: str) -> str:
        return os.path.join(self._directory, handle + _SUFFIX)


def _decoded(data: bytes) -> KeptSession:
    version = msgspec.msgpack.decode(data, type=_Versioned).version
    if not SESSIONS.reads(version):
        raise ValueError(SESSIONS.refusal(version)[0])
    return msgspec.msgpack.decode(data, type=KeptSession)
