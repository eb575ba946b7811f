"""Calls a model that a server computes: rows wait for it in the state, and the task goes on."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from sqlstream import config
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.kernel import null_mask
from sqlstream.runtime.models.providers import Answered, Asking, RemoteModel, remote_model
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.row_log import RowLog, Spread
from sqlstream.specs.model_predict import RemotePredictSpec
from sqlstream.spi.files import Files

CONCURRENT = "table.exec.async-ml-predict.max-concurrent-operations"
TIMEOUT = "table.exec.async-ml-predict.timeout"
_DRAIN_MS = 10
_TRIM_ROWS = 4096


@dataclasses.dataclass
class _Request:
    """Rows that follow each other. `present` are the positions of those that the model is given, None: all. It is over with an
    answer, which has a row for each row, or an error."""

    batch: pa.RecordBatch
    present: np.ndarray | None
    answer: Answered | None = None
    error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.answer is not None or self.error is not None


class RemotePredict(Operator[RemotePredictSpec]):
    """Emits the rows that it gets, in their order, with the outputs of the model. Watermarks pass behind the rows before them.

    Rows without a NULL among their features go into requests of at most `rows_max` rows; a thread waits for each. While fewer
    rows are there than a request may have, a request has those that there are: the server's own pace makes it larger. The task
    takes input until twice as many rows wait as all requests may hold, and checkpoints need not wait for the server.

    State: the rows that have not been emitted; what is asked when a checkpoint is taken is asked again behind a recovery. The
    tokens used, of which a recovery loses those since the last checkpoint."""

    def __init__(self, spec: RemotePredictSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._inputs = to_arrow_schema(spec.model.inputs)
        self._outputs = to_arrow_schema(spec.model.outputs)
        waiting = to_arrow_schema(context.input_schemas[0])
        self._waiting = context.state.add(
            RowLog("waiting", waiting, context.state.scope, spread=Spread.ANYWHERE)
        )
        subtasks = context.parallelism
        # Of all old subtasks each new one takes its share.
        self._tokens = context.state.add(Broadcast("tokens", 0, lambda used: -(-sum(used) // subtasks)))
        self._concurrent_max: int = spec.concurrent_max or config.get(context.config, CONCURRENT)
        self._model: RemoteModel | None = None
        self._fresh: deque[pa.RecordBatch] = deque()
        self._asked: deque[_Request] = deque()
        # Threads append to it.
        self._over: deque[_Request] = deque()
        self._under_way = 0
        self._taken = self._emitted = self._trimmed = 0
        self._watermarks: deque[tuple[int, int]] = deque()
        self._becomes_idle = False

    def connect(self, files: Files, wake: Callable[[], None]) -> None:
        """Ask the server from now on. `wake`, which any thread calls, has the task look at `next_processing_time_ms`."""
        timeout_ms: int = self.spec.timeout_ms or config.get(self.context.config, TIMEOUT)
        asking = Asking(files, self._concurrent_max, timeout_ms, self.context.parallelism)
        self._model = remote_model(self.spec.model, asking)
        self._wake = wake
        self._threads = ThreadPoolExecutor(self._concurrent_max, thread_name_prefix="model-server")
        self.context.on_cancel(self._model.abort)

    # -- rows and time -------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._take_in(batch)
        self._advance(output)

    def _take_in(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if rows:
            self._waiting.append(batch, np.arange(self._taken, self._taken + rows))
            self._taken += rows
            self._fresh.append(batch)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._advance(output)
        if watermark_ms == WATERMARK_MAX:
            # The event time of the job is ended for a savepoint: no row waits beyond that.
            while not self.is_settled():
                self.context.pause_ms(_DRAIN_MS)
                self._advance(output)
        if self.is_settled():
            return watermark_ms
        if self._watermarks and self._watermarks[-1][0] == self._taken:
            self._watermarks.pop()
        self._watermarks.append((self._taken, watermark_ms))
        return None

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        # Rows that wait are not to become late by the time of others.
        self._becomes_idle = is_idle and not self.is_settled()
        return None if self._becomes_idle else is_idle

    def next_processing_time_ms(self) -> int | None:
        can_ask = self._model is not None and bool(self._fresh) and self._under_way < self._concurrent_max
        return 0 if self._over or can_ask else None

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        self._advance(output)

    def flush(self, output: Output) -> None:
        self._trim()

    def has_room(self) -> bool:
        rows_max = self._model.rows_max if self._model is not None else 1
        return self._taken - self._emitted < 2 * self._concurrent_max * rows_max

    def is_settled(self) -> bool:
        return self._taken == self._emitted

    def held_rows(self) -> int | None:
        return self._taken - self._emitted

    def on_restored(self) -> None:
        for chunk in self._waiting.take_until(WATERMARK_MAX):
            self._take_in(chunk.batch)

    def close(self) -> None:
        if self._model is not None:
            self._model.close()
            self._threads.shutdown(wait=False, cancel_futures=True)

    # -- requests ------------------------------------------------------------------------------------

    def _advance(self, output: Output) -> None:
        """Take answers, ask for further rows, and emit those that are next and have one."""
        while self._over:
            request = self._over.popleft()
            self._under_way -= 1
            if request.error is not None:
                raise request.error
            assert request.answer is not None
            self._tokens.value += request.answer.tokens
            self.context.count("numModelTokens", request.answer.tokens)
            self.context.count("numModelFailures", request.answer.failed)
        if self._model is not None:
            while self._fresh and self._under_way < self._concurrent_max:
                self._ask(self._model, self._next_request(self._model.rows_max))
        self._emit(output)

    def _next_request(self, rows_max: int) -> _Request:
        parts: list[pa.RecordBatch] = []
        rows = 0
        while self._fresh and rows < rows_max:
            batch = self._fresh.popleft()
            part = batch.slice(0, rows_max - rows)
            if part.num_rows < batch.num_rows:
                self._fresh.appendleft(batch.slice(part.num_rows))
            parts.append(pa.RecordBatch.from_arrays(part.columns, schema=self._waiting.schema))
            rows += part.num_rows
        batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        missing = null_mask(*(batch.column(f) for f in self.spec.features))
        if missing is None or not missing.any():
            return _Request(batch, None)
        return _Request(batch, np.flatnonzero(~missing))

    def _ask(self, model: RemoteModel, request: _Request) -> None:
        self._asked.append(request)
        rows = request.batch.num_rows
        none = Answered([pa.nulls(rows, field.type) for field in self._outputs])
        if request.present is not None and not len(request.present):
            request.answer = none
        elif self._is_beyond_budget(model):
            if model.fails_beyond_budget:
                message = f'model "{self.spec.model.name}" has used its {model.token_budget} tokens'
                hint = "raise 'budget.tokens', or let further rows have NULL: 'budget.action' = 'IGNORE'"
                raise UserError("SS5444", message, hint=hint)
            self.context.count("numModelFailures", rows)
            request.answer = none
        else:
            self._under_way += 1
            self.context.count("numModelRequests", 1)
            self._threads.submit(self._answered, model, request)

    def _is_beyond_budget(self, model: RemoteModel) -> bool:
        budget = model.token_budget
        return budget is not None and self._tokens.value * self.context.parallelism >= budget

    def _answered(self, model: RemoteModel, request: _Request) -> None:
        """On a thread of its own: the answer, with a row for each row."""
        try:
            features = [request.batch.column(f) for f in self.spec.features]
            taken = None if request.present is None else pa.array(request.present)
            if taken is not None:
                features = [column.take(taken) for column in features]
            answer = model.ask(pa.RecordBatch.from_arrays(features, schema=self._inputs))
            if taken is not None:
                places = np.full(request.batch.num_rows, -1)
                places[request.present] = np.arange(len(taken))
                padded = pa.array(places, mask=places < 0)
                answer = dataclasses.replace(answer, columns=[c.take(padded) for c in answer.columns])
            request.answer = answer
        except BaseException as error:  # whatever it is, the task has to hear of it
            request.error = error
        self._over.append(request)
        self._wake()

    def _emit(self, output: Output) -> None:
        ready: list[tuple[pa.RecordBatch, list[pa.Array]]] = []
        while self._asked and (answer := self._asked[0].answer) is not None:
            ready.append((self._asked.popleft().batch, answer.columns))
        if not ready:
            return
        columns = [[batch.column(c) for batch, _ in ready] for c in self.spec.columns]
        columns += [[outputs[i] for _, outputs in ready] for i in range(len(self._outputs))]
        arrays = [c[0] if len(c) == 1 else pa.concat_arrays(c) for c in columns]
        output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._emitted += sum(batch.num_rows for batch, _ in ready)
        if self._emitted - self._trimmed >= _TRIM_ROWS:
            self._trim()
        passed = None
        while self._watermarks and self._watermarks[0][0] <= self._emitted:
            passed = self._watermarks.popleft()[1]
        if passed is not None:
            output.emit_watermark(passed)
        if self._becomes_idle and self.is_settled():
            self._becomes_idle = False
            output.emit_idle(True)

    def _trim(self) -> None:
        """Forget the rows that were emitted: all at once, since each time copies what stays of a batch."""
        if self._trimmed < self._emitted:
            self._waiting.take_until(self._emitted - 1)
            self._trimmed = self._emitted
