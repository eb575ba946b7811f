"""What `t$expired` reads: the rows that jobs have let go because of the age of their state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from sqlstream import types as sql
from sqlstream.schema import Field
from sqlstream.secrets import is_secret
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


_ITERATIONS = 100_000

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
    """What tells a table from others for whoever reads its expired rows: its name, its place, and the passwords for it. Who may
    read the table there may read what was kept of it, and nobody who lacks a password. These are hashed slowly: the identity is
    in checkpoints.

    >>> from sqlstream.spi.connector import Place
    >>> kafka = ConnectorDescriptor("kafka", (), place=Place(options=("topic",)))
    >>> identities = [table_identity("t", {"topic": "a", "password": p}, kafka) for p in ("x", "x", "y")]
    >>> identities[0] == identities[1], identities[0] == identities[2]
    (True, False)
    """
    place = {key: options.get(key, "") for key in descriptor.place.options}
    parts = msgspec.json.encode([name, descriptor.identifier, place], order="sorted")
    secrets = {key: value for key, value in options.items() if is_secret(key)}
    if not secrets:
        return hashlib.sha256(parts).hexdigest()[:32]
    known = msgspec.json.encode(secrets, order="sorted")
    return hashlib.pbkdf2_hmac("sha256", known, parts, _ITERATIONS).hex()[:32]


def kept_name(state: str) -> str:
    """The table of state that keeps the expired rows of another one.

    >>> kept_name("left")
    'left_expired'
    """
    return f"{state}_expired"
