"""Texts with more digits of a second than a type keeps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.types import LogicalType, TypeRoot

_KEPT = {TypeRoot.TIME: 3, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}


def are_cut(texts: pa.Array, t: LogicalType) -> bool:
    """Whether a text would lose a digit other than 0 as a value of a scalar type."""
    kept = _KEPT.get(t.root)
    if kept is None:
        return False
    return bool(
        pc.any(pc.match_substring_regex(texts, rf"[.]\d{{{max(kept, t.precision)}}}\d*[1-9]")).as_py()
    )
