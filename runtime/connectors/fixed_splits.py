"""Splits that are known from a table's options alone, and the share of them that a reader takes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    ConnectorContext,
    Discovery,
    EnumeratesSplits,
    EnumeratorContext,
    SourceSplit,
)


class FixedSplits:
    """Finds these splits at the first look, which is the last. An enumerator that goes on from a snapshot finds none. No
    state."""

    interval_ms = 0

    def __init__(
        self,
        positions: Sequence[dict[str, Any]],
        state: dict[str, Any] | None,
        is_on_demand: bool = False,
    ) -> None:
        self._splits = tuple(map(SourceSplit, positions)) if state is None else ()
        self._is_on_demand = is_on_demand

    def discover(self) -> Discovery:
        return Discovery(self._splits, is_last=True, is_on_demand=self._is_on_demand)

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        """Nothing to look for: what options name is always there."""

    def snapshot(self) -> dict[str, Any]:
        return {}


def own_share(
    connector: EnumeratesSplits, spec: SourceSpec, context: ConnectorContext
) -> list[dict[str, Any]]:
    """What one of several readers takes when nobody assigns splits, as in a batch engine: the splits in turn. Each reader looks
    for itself, so sizes, which may change meanwhile, must not decide."""
    around = EnumeratorContext(context.parallelism, context.batch_rows, context.now_ms, context.files)
    splits = connector.split_enumerator(spec, around, None).discover().splits
    return [split.position for split in splits[context.subtask :: context.parallelism]]
