"""The exchanges that bring rows of one key together."""

from __future__ import annotations

from sqlstream.graph.stream_graph import Exchange, ExchangeKind

SINGLETON = Exchange(ExchangeKind.SINGLETON)


def hash_or_singleton(keys: tuple[int, ...]) -> Exchange:
    """Rows with equal keys go to one subtask; without keys all rows do."""
    return Exchange(ExchangeKind.HASH, keys) if keys else SINGLETON
