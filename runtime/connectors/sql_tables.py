"""What connectors of databases share: abilities, columns that fit, scans, rows staged beside a file, addresses of servers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.runtime.connectors.staged_rows import remove_staged_by, remove_staging, staging_directory
from sqlstream.schema import Field, Schema
from sqlstream.spi.connector import ConnectorDescriptor, OptionDescriptor, Reading, Writing
from sqlstream.spi.lookup import LookupOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable
    from sqlstream.spi.files import Files


TRIES_MAX = 5
PAUSE_MS = 100
"""A query that cannot begin for a reason that may pass is tried again, after pauses that double: 3 s in all."""


def sql_descriptor(identifier: str, options: tuple[OptionDescriptor, ...]) -> ConnectorDescriptor:
    """A database filters, limits and counts by itself, and writes by key."""
    return ConnectorDescriptor(
        identifier=identifier,
        options=options,
        reading=Reading(filters=True, limits=True, lookups=True, counts_rows=True),
        writing=Writing(mode=ChangelogMode.UPSERT, changes_rows=True),
    )


class SqlTables(ABC):
    """Tables of a database. The rows of a sink are visible when their checkpoint is committed, in one transaction; without
    checkpoints, when the job has finished. Until then they are in a hidden file beside the database's, if it is one."""

    @abstractmethod
    def _written_file(self, spec: SinkSpec) -> str:
        """The file of the database that a sink writes. UserError SS5013 for a place that cannot be written so."""

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        remove_staging(self._written_file(spec), job_id, files)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        remove_staged_by(self._written_file(spec), job_id, writer_names, files)

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str:
        return staging_directory(self._written_file(spec), job_id, writer_id)

    def _check_columns(
        self,
        schema: Schema,
        options: dict[str, str],
        refusal: Callable[[Field], UserError | None],
        caseless: str,
    ) -> None:
        """UserError SS4006 for a column that is refused, and for two whose names are one in the database `caseless`; it is
        empty for one that knows case. SS4002 for options of lookups."""
        LookupOptions.of(options)
        folded: dict[str, str] = {}
        for field in schema.fields:
            if (error := refusal(field)) is not None:
                raise error
            other = folded.setdefault(field.name.lower(), field.name)
            if other != field.name and caseless:
                raise UserError(
                    "SS4006",
                    f'columns "{other}" and "{field.name}" have one name in {caseless}, which knows no case',
                    column=field.name,
                    hint="rename one of them",
                )


# The address of a database server: the keywords that a table may give for one.


_KEYWORDS = {
    "postgres": (
        "host", "hostaddr", "port", "dbname", "user", "connect_timeout", "application_name", "sslmode",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
    ),
    "mysql": ("host", "port", "database", "db", "user", "ssl_mode", "compression"),
}  # fmt: skip
"""By kind of server. None of these holds a secret or makes the client read a file, as `passfile`, `sslkey` and `service` do."""

_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'(?:[^'\\]|\\.)*'|[^\s'\\]+)(?=\s|$)")


class SqlScan:
    """What a reader of a table keeps of the rows of its queries, and when it tries again to begin one.

    State: how many rows of the query under way were returned before the reader resumed, and are skipped; how many more the
    limit of the scan allows; how often in a row a query could not begin."""

    def __init__(self, limit: int, now_ms: Callable[[], int]) -> None:
        self.skip_rows = 0
        self.next_try_ms: int | None = None
        self._limit = limit
        self._now_ms = now_ms
        self._tries = 0

    @property
    def is_full(self) -> bool:
        return self._limit == 0

    @property
    def is_waiting(self) -> bool:
        """Whether the next try is still to come: a reader is polled whenever its task has something to do."""
        return self._tries > 0 and self.next_try_ms is not None and self._now_ms() < self.next_try_ms

    @property
    def limit_clause(self) -> str:
        """In SQL; empty without a limit."""
        return f" LIMIT {self._limit + self.skip_rows}" if self._limit > 0 else ""

    def begun(self) -> None:
        self._tries = 0

    def failed(self, error: ExternalError, *, is_last_try: bool = False) -> None:
        """A query could not begin: it is tried again at `next_try_ms`, or the error is raised."""
        self._tries += 1
        if error.retry is Retry.NEVER or self._tries >= TRIES_MAX or is_last_try:
            raise error
        self.next_try_ms = self._now_ms() + (PAUSE_MS << self._tries)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        skipped = min(self.skip_rows, batch.num_rows)
        self.skip_rows -= skipped
        batch = batch.slice(skipped)
        if self._limit > 0:
            batch = batch.slice(0, self._limit)
            self._limit -= batch.num_rows
        return batch


def connection_value(value: str) -> str:
    """The value of a keyword, quoted."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_address(kind: str, address: str, option: str = "path") -> None:
    """UserError SS4002 for anything but these keywords with values. The message does not show the values."""
    at, end = 0, len(address.rstrip())
    while at < end:
        pair = _PAIR.match(address, at)
        if pair is None:
            raise UserError(
                "SS4002",
                f'option "{option}" is no address of a {kind} server',
                option=option,
                hint="write keywords with values, as in 'host=localhost port=5432', and no URL",
            )
        keyword = pair[1].lower()
        if keyword in ("password", "passwd"):
            raise UserError(
                "SS4002",
                f'option "{option}" contains a password',
                option=option,
                hint="put it into the option 'password', whose value is never shown",
            )
        if pair[1] not in _KEYWORDS[kind]:
            raise UserError(
                "SS4002",
                f'option "{option}" contains "{pair[1]}", which an address of a {kind} server may not have',
                option=option,
                hint=f"use {', '.join(_KEYWORDS[kind])}",
            )
        at = pair.end()
