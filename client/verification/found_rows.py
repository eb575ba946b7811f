"""What a job that compares two results has found, as it reaches the client."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.specs import CompareRowsSpec
from sqlstream.specs.compare_rows import ComparisonReport, found_schema


@dataclasses.dataclass(frozen=True)
class DifferingRows:
    """Rows with one key that differ: `stream` and `batch` are row numbers in a batch of rows, each as often as its side has it
    more than the other."""

    stream: tuple[int, ...]
    batch: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FoundRows:
    """The report, and the first differing rows in the types of the result. `keys` groups them."""

    report: ComparisonReport
    rows: pa.RecordBatch
    keys: tuple[DifferingRows, ...]


def found_rows(batches: Sequence[pa.RecordBatch], spec: CompareRowsSpec) -> FoundRows:
    """`batches` are all rows of the job, in the shape of `found_schema`. A row is given as often as keys may be at most."""
    whole = pa.Table.from_batches(batches, to_arrow_schema(found_schema(spec.schema))).combine_chunks()
    (found,) = whole.to_batches()
    report = msgspec.json.decode(found.column(0)[0].as_py(), type=ComparisonReport)
    rows = found.slice(1)
    keys: dict[int, tuple[list[int], list[int]]] = {}
    for place, (key, n) in enumerate(
        zip(rows.column(1).to_pylist(), rows.column(2).to_pylist(), strict=True)
    ):
        stream, batch = keys.setdefault(key, ([], []))
        (stream if n > 0 else batch).extend([place] * min(abs(n), spec.keys_max))
    data = pa.RecordBatch.from_arrays(rows.columns[3:], schema=to_arrow_schema(spec.schema))
    return FoundRows(report, data, tuple(DifferingRows(tuple(s), tuple(b)) for s, b in keys.values()))
