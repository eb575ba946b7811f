"""Trains a model with the rows of a query."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.messages.ledger import DONE, FILTERED
from sqlstream.models import K_MEANS
from sqlstream.runtime.models.training import Array, training_of
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.specs.train_model import PUBLISHED, TrainModelSpec


class TrainModel(Operator[TrainModelSpec]):
    """Emits a version of the model before a checkpoint when something was learned since the last one, and at the end.

    A version has the weights of full mini-batches; at the end of the input the rest is one too.
    State: the weights and what else the training needs, the counts, and the rows of the mini-batch that is not full."""

    def __init__(self, spec: TrainModelSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        assert context.parallelism == 1
        self._learner = context.state.add(_Learner(spec, context.input_schemas[0].names))
        self._schema = to_arrow_schema(PUBLISHED)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = [column.cast(pa.float64()) for column in batch.columns]
        # NULL is NaN here.
        rows = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
        is_usable = np.isfinite(rows).all(axis=1)
        if not is_usable.all():
            rows = rows[is_usable]
            skipped = batch.num_rows - len(rows)
            self._learner.skipped += skipped
            self.context.count(FILTERED, skipped)
        self._count_learned(lambda: self._learner.take(rows))

    def prepare_snapshot(self, output: Output) -> None:
        if self._learner.batches > self._learner.published:
            self._publish(output)

    def on_finish(self, output: Output) -> None:
        self._count_learned(self._learner.take_rest)
        self.prepare_snapshot(output)

    def _count_learned(self, learn: Callable[[], None]) -> None:
        before = self._learner.rows
        learn()
        self.context.count(DONE, self._learner.rows - before)

    def held_rows(self) -> int:
        return self._learner.held_rows

    def _publish(self, output: Output) -> None:
        learner = self._learner
        clusters, features, weights = learner.training.weights()
        if not np.isfinite([*weights, learner.loss]).all():
            raise UserError(
                "SS3530",
                f'the training of model "{self.spec.model}" has left the range of numbers after {learner.rows} rows',
                hint="divide large columns in the query: squares of distances must be numbers of DOUBLE"
                if self.spec.algorithm == K_MEANS
                else "lower 'learning-rate', or leave 'standardize' at 'true'",
            )
        learner.version += 1
        learner.published = learner.batches
        same = (learner.version, self.spec.algorithm, learner.rows, learner.skipped, learner.loss)
        columns = [*([value] * len(weights) for value in same), clusters, features, weights]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


_PROGRESS = ("version", "published", "batches", "rows", "skipped", "loss")


class _Learner(SavedWhole, NeverExpires):
    """The state of the operator. Rows fill a mini-batch, and a full one is learned: how they were split before changes nothing.

    `rows` are those that were learned, in `batches`; `published` of these the last version had."""

    name = "model"

    def __init__(self, spec: TrainModelSpec, columns: tuple[str, ...]) -> None:
        self.training = training_of(spec)
        self.version = self.published = self.batches = self.rows = self.skipped = 0
        self.loss = 0.0
        self._columns = columns
        self._features = len(spec.features)
        self._pending: Array = np.empty((spec.mini_batch_size, len(columns)))
        self._held = 0
        # Of a savepoint whose mini-batches were larger.
        self._restored: Array = np.empty((0, len(columns)))

    @property
    def held_rows(self) -> int:
        return self._held + len(self._restored)

    def take(self, rows: Array) -> None:
        if len(self._restored):
            restored, self._restored = self._restored, self._restored[:0]
            self.take(restored)
        place = 0
        while place < len(rows):
            part = rows[place : place + len(self._pending) - self._held]
            self._pending[self._held : self._held + len(part)] = part
            self._held += len(part)
            place += len(part)
            if self._held == len(self._pending):
                self._learn()

    def take_rest(self) -> None:
        """The input has ended."""
        self.take(self._restored[:0])
        if self._held:
            self._learn()

    def _learn(self) -> None:
        """One mini-batch, in arrays of its own: sums do not depend on where its rows came from."""
        rows = self._pending[: self._held]
        features = np.ascontiguousarray(rows[:, : self._features])
        with np.errstate(all="ignore"):
            # What overflows is told when it would be published.
            self.loss = self.training.learn(features, rows[:, -1].copy(), self.batches)
        self.batches += 1
        self.rows += self._held
        self._held = 0

    def save_later(self) -> Callable[[], SavedTables]:
        waiting = np.vstack([self._restored, self._pending[: self._held]])
        columns = [pa.array(np.ascontiguousarray(column)) for column in waiting.T]
        tables = {
            "progress": pa.table({name: [getattr(self, name)] for name in _PROGRESS}),
            "waiting": pa.table(columns, list(self._columns)),
            **self.training.tables(),
        }
        return lambda: SavedTables(shared={f"{self.name}.{part}": table for part, table in tables.items()})

    def load(self, saved: SavedTables) -> None:
        tables = {name.removeprefix(f"{self.name}."): table for name, table in saved.shared.items()}
        if "progress" not in tables:
            return
        [progress] = tables["progress"].to_pylist()
        for name in _PROGRESS:
            setattr(self, name, progress[name])
        self.training.load(tables)
        if "waiting" in tables:
            rows = np.column_stack([column.to_numpy() for column in tables["waiting"].columns])
            if len(rows) < len(self._pending):
                self._pending[: len(rows)], self._held = rows, len(rows)
            else:
                self._restored = rows

    def nbytes(self) -> int:
        return self._pending.nbytes + self._restored.nbytes + self.training.nbytes()
