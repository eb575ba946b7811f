"""The exchanges that bring rows of one key together."""

from __future__ import annotations

from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.schema import Schema
from sqlstream.types import CONSTRUCTED_ROOTS

SINGLETON = Exchange(ExchangeKind.SINGLETON)


def hash_or_singleton(keys: tuple[int, ...]) -> Exchange:
    """Rows with equal keys go to one subtask; without keys all rows do."""
    return Exchange(ExchangeKind.HASH, keys) if keys else SINGLETON


def shortest_key(source: PhysicalNode) -> tuple[int, ...]:
    """The columns of the shortest key whose rows come from one subtask, or all."""
    keys = sorted(sorted(key) for key in source.traits.keys if key)
    shortest: list[int] = min(keys, key=len) if keys else [*range(len(source.schema))]
    return tuple(shortest)


def hashable(schema: Schema, columns: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the columns by which rows can be distributed."""
    return tuple(c for c in columns if schema.types[c].root not in CONSTRUCTED_ROOTS)
