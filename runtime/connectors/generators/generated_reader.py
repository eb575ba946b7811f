"""The reader of connectors whose rows are made from their numbers, when they are due by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.runtime.connectors.generators.numbered_rows import NumberedRows, rows_at_tick
from sqlstream.spi.connector import ConnectorContext, SourceStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.connectors.generators.datagen_generators import Generator
    from sqlstream.specs import SourceSpec


class GeneratedReader:
    """Generates each row from its number, once it is due by the clock. `generators`: one for each column of the table. The table
    ends after `row_count` rows (None: never), and when a generator does. State: one position per split."""

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        splits: list[dict[str, Any]],
        generators: list[Generator],
        *,
        rate: int,
        row_count: int | None,
    ) -> None:
        self._generators = [generators[spec.schema.index_of(name)] for name in spec.columns]
        self._names = list(spec.columns)
        ends = [g.rows for g in generators if g.rows is not None]
        if row_count is not None:
            ends.append(row_count)
        self._limit = spec.limit
        self._now_ms = context.now_ms
        self._context = context
        self._rows = NumberedRows(
            context,
            splits,
            end=min(ends, default=None),
            rate=rate,
            # The first rows are due at once: a table of few rows does not wait for its clock.
            at_once=rows_at_tick(rate),
        )

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._limit == 0:
            return SourceStatus.END
        most = self._context.batch_rows
        rows = self._rows.take(min(self._limit, most) if self._limit > 0 else most)
        if isinstance(rows, SourceStatus):
            return rows
        start, stop = rows
        if self._limit > 0:
            self._limit -= stop - start
        return self._make(start, stop)

    def next_poll_ms(self) -> int | None:
        return self._rows.next_due_ms()

    def snapshot(self) -> list[dict[str, Any]]:
        return self._rows.snapshot()

    def close(self) -> None:
        """Nothing to do: the reader holds no resources."""

    def _make(self, start: int, stop: int) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from sqlstream.runtime.formats.file_rows import empty_columns

        if not self._names:
            return empty_columns(stop - start)
        rows = np.arange(start, stop, dtype=np.uint64)
        now_ms = self._now_ms()
        columns = [generator.make(rows, now_ms) for generator in self._generators]
        return pa.RecordBatch.from_arrays(columns, names=self._names)
