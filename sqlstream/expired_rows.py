"""What `t$expired` reads: the rows that jobs have let go because of the age of their state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from sqlstream import types as sql
from sqlstream.schema import Field
from sqlstream.spi.connector import ConnectorDescriptor

RETENTION = "sqlstream.state.expired-rows.retention"
NOT_KEPT = "numExpiredRowsNotKept"
"""The counter of expired rows that are beyond the bounds of what is kept."""

CONNECTOR = "expired-rows"
"""The connector that reads them, which no table can name."""

READ = "read"
"""Its option, `KeptRows` as JSON."""

JOB, LAST_USED, ROWS = "$job", "$last_used_ms", "$rows"
"""Columns of the state that keeps them: the job that has let a row go, when it was last used, and how often it was there."""

COLUMNS = (
    (Field("$job", sql.STRING), "the job that has let the row go"),
    (Field("$operator", sql.STRING), "its operator, as in SHOW LEDGER"),
    (Field("$expired_at", sql.timestamp_ltz(3)), "when it did"),
    (Field("$last_used", sql.timestamp_ltz(3)), "when the row came, or was last used"),
)
"""What `t$expired` has beside the columns of the table, each with a comment."""


METADATA_PREFIX = "$metadata."
"""Before the key of a metadata column, which the table may have a column of the same name beside."""


class KeptPlace(msgspec.Struct, frozen=True):
    """A job that keeps expired rows, and the path of its last checkpoint or savepoint."""

    job_id: str
    path: str


class KeptRows(msgspec.Struct, frozen=True):
    """What `t$expired` reads: the rows of the table with the identity `table`, of these jobs. `columns` are those of the table by
    their names, as `ExpiredColumn` names them; all others are of COLUMNS."""

    table: str
    columns: dict[str, str]
    places: tuple[KeptPlace, ...]


def table_identity(name: str, options: Mapping[str, str], descriptor: ConnectorDescriptor) -> str:
    """What tells a table from others for whoever reads its expired rows: its name and its place. Whoever may read that place may
    read what was kept of it."""
    place = {key: options.get(key, "") for key in descriptor.place.options}
    parts = msgspec.json.encode([name, descriptor.identifier, place], order="sorted")
    return hashlib.sha256(parts).hexdigest()[:32]


def kept_name(state: str) -> str:
    """The table of state that keeps the expired rows of another one.

    >>> kept_name("left")
    'left_expired'
    """
    return f"{state}_expired"
