"""Row kinds and changelog modes (Flink: RowKind, ChangelogMode): what a stream's rows say about the table they describe."""

from __future__ import annotations

import enum


class RowKind(enum.IntEnum):
    """The meaning of one row. The numbers are Flink's and are the values of a changelog batch's int8 column."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


ROW_KIND_COLUMN = "$row_kind"
"""The last column of every changelog batch, int8. A stream whose mode is INSERT_ONLY carries none."""


class ChangelogMode(enum.Enum):
    """Which row kinds flow over an edge.

    INSERT_ONLY: +I alone. UPSERT: +I, +U and -D by a unique key, no -U (a +U replaces the row with its key; a -D carries at
    least the key). RETRACT: +I, -U, +U, -D; every -U and -D carries the whole row that it retracts.
    """

    INSERT_ONLY = "INSERT_ONLY"
    UPSERT = "UPSERT"
    RETRACT = "RETRACT"

    @property
    def is_insert_only(self) -> bool:
        return self is ChangelogMode.INSERT_ONLY

    def __str__(self) -> str:
        return {"INSERT_ONLY": "[I]", "UPSERT": "[I,UA,D]", "RETRACT": "[I,UB,UA,D]"}[self.value]
