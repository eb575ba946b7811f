"""Lists of a command: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from sqlstream.types import BIGINT, STRING, LogicalType


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> None:
    """Rows under their columns, as wide as the terminal; a column of numbers is aligned as such."""
    import pyarrow as pa

    from sqlstream.client.rendering.render import make_renderer
    from sqlstream.client.rendering.tables import Look
    from sqlstream.client.rendering.terminal import columns_of
    from sqlstream.schema import Schema

    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
    types: list[LogicalType] = [BIGINT if _are_numbers(column) else STRING for column in values]
    schema = Schema.of(*zip(columns, types, strict=True))
    arrays = [
        pa.array(column, pa.int64() if type_ is BIGINT else pa.string())
        for column, type_ in zip(values, types, strict=True)
    ]
    renderer = make_renderer("table", Look(schema, columns=columns_of(sys.stdout)), with_op=False, wraps=True)
    renderer.write(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    renderer.finish()


def _are_numbers(column: Sequence[object]) -> bool:
    known = [value for value in column if value is not None]
    return bool(known) and all(isinstance(value, int) for value in known)


def moment_text(time_ms: int) -> str:
    """A moment in local time; empty for one that is not there."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000)) if time_ms > 0 else ""


def duration_text(duration_ms: int) -> str:
    """
    >>> duration_text(950), duration_text(62_000), duration_text(90_061_000)
    ('0.95 s', '1 min 2 s', '1 d 1 h')
    """
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{hours} h {minutes % 60} min" if days == 0 else f"{days} d {hours % 24} h"
