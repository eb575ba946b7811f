"""Parts of the text by which EXPLAIN describes a node; columns of an input are written $0, $1, … as in Flink."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.expressions import SortKey


def columns_text(indexes: Iterable[int]) -> str:
    return ", ".join(f"${i}" for i in indexes)


def order_text(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{k} NULLS {'FIRST' if k.is_nulls_first else 'LAST'}" for k in keys)


def join_parts(*parts: str) -> str:
    return ", ".join(p for p in parts if p)
