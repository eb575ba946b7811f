"""What Debezium writes for a value that the log of Postgres does not have: an unchanged value that is stored apart (TOAST)."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Placeholders:
    """The placeholder, which each type has in a form of its own: the text; for BYTES its base64 or hexadecimal digits; for arrays
    one such element, or its bytes as numbers; for maps one entry of it."""

    def __init__(self, placeholder: str) -> None:
        raw = placeholder.encode()
        self._forms = (placeholder, base64.b64encode(raw).decode(), raw.hex())
        self._texts = pa.array(self._forms)
        self._json = pa.array([f'"{form}"' for form in self._forms])
        self._codes = [str(byte) for byte in raw]
        self._marks = (*(form.encode() for form in self._forms), ",".join(self._codes[:8]).encode())

    def may_be_in(self, data: bytes) -> bool:
        return any(mark in data for mark in self._marks)

    def can_be(self, t: LogicalType) -> bool:
        """Whether values of a type are stored apart."""
        kinds = (*STRING_ROOTS, *BINARY_ROOTS, TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.DECIMAL)
        return t.root in kinds

    def find(self, texts: pa.Array, t: LogicalType) -> Mask:
        """Which of the texts of a column stand for an unknown value."""
        count = len(texts)
        if t.root is TypeRoot.ARRAY:
            return self._lists(texts, count)
        if t.root is TypeRoot.MAP:
            found = self._is_one_of(texts.keys)
            lengths = np.diff(_offsets(texts))
            return _at_first(found, _offsets(texts), lengths == 1)
        if not self.can_be(t):
            return np.zeros(count, dtype=bool)
        return self._is_one_of(texts, self._json if t.root is TypeRoot.DECIMAL else self._texts)

    def _lists(self, texts: pa.ListArray, count: int) -> Mask:
        if not pa.types.is_string(texts.type.value_type):
            return np.zeros(count, dtype=bool)
        offsets, values = _offsets(texts), texts.values
        lengths = np.diff(offsets)
        is_one = _at_first(self._is_one_of(values), offsets, lengths == 1)
        # Bytes as numbers: each element is the byte at its place.
        width = len(self._codes)
        candidates = np.flatnonzero(lengths == width)
        if len(candidates):
            places = (offsets[:-1][candidates][:, None] + np.arange(width)).ravel()
            codes = pa.array(self._codes * len(candidates))
            same = pc.fill_null(pc.equal(values.take(pa.array(places)), codes), False)
            is_one[candidates] |= same.to_numpy(zero_copy_only=False).reshape(-1, width).all(axis=1)
        return is_one & texts.is_valid().to_numpy(zero_copy_only=False)

    def _is_one_of(self, texts: pa.Array, forms: pa.Array | None = None) -> Mask:
        found = pc.is_in(texts, value_set=self._texts if forms is None else forms)
        mask: Mask = found.to_numpy(zero_copy_only=False).astype(bool)
        return mask


def _offsets(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.frombuffer(column.buffers()[1], dtype=np.int32)[
        column.offset : column.offset + len(column) + 1
    ].astype(np.int64)


def _at_first(found: Mask, offsets: np.ndarray[Any, Any], is_chosen: Mask) -> Mask:
    """Of lists: whether one that is chosen has something that is `found` at its first place."""
    mask = np.zeros(len(is_chosen), dtype=bool)
    mask[is_chosen] = found[offsets[:-1][is_chosen]]
    return mask
