"""A row's shape: named, typed columns in order."""

from __future__ import annotations

import msgspec

from sqlstream.types import LogicalType


class Field(msgspec.Struct, frozen=True):
    name: str
    type: LogicalType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


class Schema(msgspec.Struct, frozen=True):
    """Columns in order. Names may repeat inside a plan (a join of two tables); only a sink's and a table's are unique."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(*columns: tuple[str, LogicalType]) -> Schema:
        return Schema(tuple(Field(n, t) for n, t in columns))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[LogicalType, ...]:
        return tuple(f.type for f in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def index_of(self, name: str) -> int:
        """Position of the first column of that name; ValueError when absent."""
        return self.names.index(name)

    def select(self, indexes: tuple[int, ...]) -> Schema:
        return Schema(tuple(self.fields[i] for i in indexes))

    def concat(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    def __str__(self) -> str:
        return ", ".join(str(f) for f in self.fields)
