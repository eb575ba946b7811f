"""Casts that change no value."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot


def is_wider(source: LogicalType, target: LogicalType) -> bool:
    """Whether all values of a type are values of the other, which may only allow longer texts."""
    if sql.is_string(source) and target.root is TypeRoot.VARCHAR:
        return source.length <= target.length
    if source.root is TypeRoot.MAP is target.root:
        assert source.key is not None
        assert target.key is not None
        assert source.element is not None
        assert target.element is not None
        return is_wider(source.key, target.key) and is_wider(source.element, target.element)
    return source.same_as(target)
