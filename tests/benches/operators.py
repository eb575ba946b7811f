"""The measurement behind `main.py operators`: the operators of one statement alone, on one core."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from benches.operator_families import FAMILIES, TABLES, Family
from benches.operator_rows import Rows

from sqlstream.errors import InternalError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.specs.watermark import WatermarkAssignerSpec

if TYPE_CHECKING:
    import numpy as np

    from sqlstream.client.sessions.session import Session

KEYS = (100, 10_000, 1_000_000)
BATCH_ROWS = (1_000, 32_000)
FILL_ROWS = 65_536


@dataclass(frozen=True)
class OperatorFigure:
    """One family with `keys` keys in batches of `batch_rows` rows. `rows_out` proves that it did its work; `state_bytes` is what
    its operators hold afterwards."""

    family: str
    keys: int
    is_skewed: bool
    batch_rows: int
    rows_per_cpu_s: int
    rows_in: int
    rows_out: int
    state_bytes: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class OperatorBench:
    """Plans the statement of a family once for each figure, makes its operators and feeds them from memory.

    A figure is warm: before it every key has its rows, and as many batches as it is measured with have been fed for a quarter of
    the time."""

    def __init__(self, seconds: float, *, is_skewed: bool = False) -> None:
        self._seconds = seconds
        self._is_skewed = is_skewed

    def figures(
        self, names: list[str], keys: tuple[int, ...] = KEYS, batch_rows: tuple[int, ...] = BATCH_ROWS
    ) -> Iterator[OperatorFigure]:
        with _session() as session:
            for name in names:
                for count in keys if FAMILIES[name].has_keys else keys[:1]:
                    # The small batches first: the state grows little by them.
                    chain = OperatorChain(session, FAMILIES[name], count)
                    with contextlib.closing(chain):
                        rows = Rows(chain.schemas, chain.modes, FAMILIES[name], count, self._is_skewed)
                        for batch in rows.fill(FILL_ROWS):
                            chain.feed(*batch)
                        for size in batch_rows:
                            yield self._figure(name, count, size, chain, rows)

    def _figure(self, name: str, keys: int, size: int, chain: OperatorChain, rows: Rows) -> OperatorFigure:
        self._run(chain, rows, size, self._seconds / 4)
        chain.rows_out = 0
        used_s, rows_in = self._run(chain, rows, size, self._seconds)
        return OperatorFigure(
            name,
            keys,
            self._is_skewed,
            size,
            round(rows_in / used_s),
            rows_in,
            chain.rows_out,
            chain.state_bytes(),
        )

    def _run(self, chain: OperatorChain, rows: Rows, size: int, seconds: float) -> tuple[float, int]:
        """(CPU seconds, rows) of as many batches as take that long."""
        used_s, rows_in = 0.0, 0
        while used_s < seconds:
            for batch, input_index, watermark_ms in rows.round(size):
                used_s += chain.feed(batch, input_index, watermark_ms)
                rows_in += batch.num_rows
        return used_s + chain.flush(), rows_in


class OperatorChain:
    """The operators of a statement without its sources, watermarks and sink, called one after the other as in a task.

    State: that of the operators, and how many rows have left them."""

    def __init__(self, session: Session, family: Family, keys: int) -> None:
        chained = _between_source_and_sink(session, family.text)
        self.schemas: tuple[Schema, ...] = chained[0].input_schemas
        self.modes = chained[0].input_modes
        self.rows_out = 0
        self._operators: list[Operator[Any]] = [_made(o) for o in chained]
        self._outputs = [_Next(self, place + 1) for place in range(len(chained))]

    def feed(self, batch: pa.RecordBatch, input_index: int, watermark_ms: int | None) -> float:
        """The CPU time that the operators take for a batch, and for the watermark behind it."""
        begun_s = time.process_time()
        self.on_batch(batch, input_index, 0)
        if watermark_ms is not None:
            self.on_watermark(watermark_ms, 0)
        return time.process_time() - begun_s

    def flush(self) -> float:
        """The CPU time of what operators emit that they hold while a task is busy."""
        begun_s = time.process_time()
        for operator, output in zip(self._operators, self._outputs, strict=True):
            operator.flush(output)
        return time.process_time() - begun_s

    def on_batch(self, batch: pa.RecordBatch, input_index: int, place: int) -> None:
        if place == len(self._operators):
            self.rows_out += batch.num_rows
        elif batch.num_rows:
            self._operators[place].context.state.expire()
            self._operators[place].on_batch(batch, input_index, self._outputs[place])

    def on_deferred(self, rows: DeferredRows, place: int) -> None:
        if place == len(self._operators):
            self.rows_out += rows.batch().num_rows
        elif rows.num_rows:
            self._operators[place].context.state.expire()
            self._operators[place].on_deferred(rows, self._outputs[place])

    def on_watermark(self, watermark_ms: int, place: int) -> None:
        if place < len(self._operators):
            output = self._outputs[place]
            handed_on = self._operators[place].on_watermark(watermark_ms, output)
            if handed_on is not None:
                output.emit_watermark(handed_on)

    def state_bytes(self) -> int:
        return sum(operator.context.state.nbytes() for operator in self._operators)

    def close(self) -> None:
        for operator in self._operators:
            operator.close()


class _Next:
    """The output of an operator: the next one."""

    splits_rows = False

    def __init__(self, chain: OperatorChain, place: int) -> None:
        self._chain, self._place = chain, place

    def emit(self, batch: pa.RecordBatch) -> None:
        self._chain.on_batch(batch, 0, self._place)

    def emit_rows(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        from sqlstream.runtime.kernels.take import take_batch

        self.emit(take_batch(batch, rows))

    def emit_deferred(self, rows: DeferredRows) -> None:
        self._chain.on_deferred(rows, self._place)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self._chain.on_watermark(timestamp_ms, self._place)

    def emit_idle(self, is_idle: bool) -> None:
        return None


@contextlib.contextmanager
def _session() -> Iterator[Session]:
    """A session of its own, without the settings of this machine."""
    from sqlstream.client.clusters.local_cluster import LocalClusterClient
    from sqlstream.client.sessions.session import Session
    from sqlstream.planner.dialect.parser import parse_script

    settings = {"parallelism.default": "1"}
    with contextlib.closing(LocalClusterClient(settings)) as clusters:
        session = Session(clusters, settings)
        for statement in parse_script(TABLES):
            session.execute(statement)
        yield session


def _between_source_and_sink(session: Session, text: str) -> list[ChainedOperator]:
    """The operators of a query in the order of its rows. Those that only the planner adds for its tables are left out."""
    from sqlstream.planner.dialect.parser import parse_statements

    (statement,) = parse_statements(text + ";")
    graph = session.compile(statement).job_graph
    assert isinstance(graph, JobGraph)
    left_out = (SourceSpec, SinkSpec, WatermarkAssignerSpec)
    found = [o for v in graph.vertices for o in v.operators if not isinstance(o.spec, left_out)]
    if not found or any(len(o.input_schemas) != 1 for o in found[1:]):
        raise InternalError(f"the plan of a measured statement is no chain of operators: {text}")
    return found


def _made(chained: ChainedOperator) -> Operator[Any]:
    context = OperatorContext(
        chained.input_schemas, chained.input_modes, chained.output_schema, chained.output_mode
    )
    return make_operator(chained.spec, context)
