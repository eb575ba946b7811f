"""Connector `checksum`: a sink that keeps no rows and reports the number of rows of the final table and their checksum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, without_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter, Writing
from sqlstream.spi.one_sided import SinkOnlyConnector

ROWS = "resultRows"
CHECKSUM = "resultChecksum"
_HASH_BITS = np.uint64(0xFFFF_FFFF)


def row_checksum(columns: list[pa.Array]) -> np.ndarray[Any, Any]:
    """The hash that each row adds to the checksum, int64[n]."""
    from sqlstream.runtime.kernels.keys.hashing import hash_columns

    return (hash_columns(columns) & _HASH_BITS).astype(np.int64)


class ChecksumWriter:
    """Adds each row's hash (32 bits of it), and subtracts it when the row is retracted: independent of order and batches."""

    def __init__(self, context: ConnectorContext) -> None:
        self._count = context.count

    def write(self, batch: pa.RecordBatch) -> None:
        hashes = row_checksum(without_row_kinds(batch).columns)
        signs = signs_of(row_kinds(batch))
        self._count(ROWS, int(signs.sum()))
        self._count(CHECKSUM, int((hashes * signs).sum()))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return []

    def abort(self) -> None:
        return None


class Checksum(SinkOnlyConnector):
    """For tests and benchmarks. Needs -U rows: without them a changelog's sum would not be that of its final table."""

    descriptor = ConnectorDescriptor("checksum", options=(), writing=Writing(mode=ChangelogMode.RETRACT))

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return ChecksumWriter(context)
