"""One plan at a Spark Connect server: its tables as views that our readers fill, and its rows as the server sends them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from runtime.batch.engine import BatchCancelled, BatchRun
from runtime.batch.spark.arrow_types import spark_ddl
from runtime.batch.spark.code_archive import ARCHIVE
from runtime.batch.spark.connect import shipped
from runtime.batch.spark.connect.errors import described_at
from runtime.batch.spark.connect.figures import FIGURES, FIGURES_DDL, decode_figures
from runtime.batch.spark.connect.result_spool import ResultSpool
from runtime.batch.spark.connect.sessions import ConnectSession
from runtime.batch.spark.shared_files import refuse_local_files
from runtime.batch.spark.task_arguments import ReadArguments, WriteArguments, encode_arguments
from runtime.batch.spark.tasks import LINES, WRITTEN_DDL, Figures
from runtime.batch.spark.threaded_call import ThreadedCall
from runtime.host.clock import steady_s
from runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable
from sqlstream.errors import SqlStreamError
from sqlstream.specs import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.observation import Observation

_PROGRESS_S = 0.2
_CANCEL_WAIT_S = 1.5
"""How long a cancelled query may take to end; then the whole session is given up."""


class ConnectStatement:
    """Runs a plan once. State: the progress that the server reports."""

    def __init__(
        self, session: ConnectSession, plan: BatchPlan, run: BatchRun, is_cancelled: Callable[[], bool]
    ) -> None:
        self._session = session
        self._plan = plan
        self._run = run
        self._is_cancelled = is_cancelled
        self._progress = (0, 0)
        self._progress_s = 0.0
        places = run.files.places if isinstance(run.files, RootedFiles) else None
        self._tables = ConnectTables(session, plan, places, run.attempt)

    def run(self) -> None:
        """Compute all outputs, one after the other. SqlStreamError, BatchCancelled."""
        client = self._session.spark.client
        client.register_progress_handler(self._on_progress)
        try:
            for number, output in enumerate(self._plan.outputs):
                (self._deliver if output.is_ours else self._write)(number, output)
            self._run.report(*self._progress)
            self._hand_on_figures(self._tables.figures())
        except SqlStreamError:
            raise
        except Exception as error:
            if isinstance(error, BatchCancelled) or self._is_cancelled():
                raise BatchCancelled from error
            raise described_at(self._session.address, error) from error
        finally:
            client.clear_progress_handlers()
            self._tables.close()

    def _deliver(self, number: int, output: BatchOutput) -> None:
        """Give the rows of a query to the run, in their order, as fast as it takes them."""
        spool = ResultSpool(tempfile.gettempdir())

        def receive() -> bool:
            for batch in self._tables.rows(self._tables.query(output)):
                spool.add(batch)
            return True

        with contextlib.closing(spool):
            call = ThreadedCall(receive, "spark-result")
            try:
                for batch in spool.batches(lambda: call.result() is not None):
                    if batch is not None:
                        self._run.emit(number, batch)
                    self._look()
            except BaseException:
                spool.close()
                self._end(call)
                raise

    def _write(self, number: int, output: BatchOutput) -> None:
        """Let every partition write its rows; what the writers give for the commit goes to the run."""
        call = ThreadedCall(lambda: self._written(output), "spark-result")
        try:
            while not call.wait(_PROGRESS_S):
                self._look()
            found = call.result()
        except BaseException:
            self._end(call)
            raise
        assert found is not None
        committables, figures = found
        self._hand_on_figures(decode_figures(figures))
        self._run.written(number, committables)

    def _written(self, output: BatchOutput) -> tuple[list[dict[str, Any]], list[str]]:
        """What the writers give for the commit, and the figures of their tasks. On the thread of the call."""
        assert output.sink is not None
        told = WriteArguments(
            self._plan.job_id,
            f"{self._run.attempt}-output",
            self._plan.config,
            self._tables.places,
            output.sink,
        )
        task = self._tables.task("write", encode_arguments(told))
        frame = self._tables.query(output).mapInArrow(task, f"{WRITTEN_DDL}, {FIGURES_DDL}")
        committables: list[dict[str, Any]] = []
        figures: list[str] = []
        for batch in self._tables.rows(frame):
            texts, told_figures = (column.to_pylist() for column in batch.columns)
            committables += (c for text in texts if text is not None for c in msgspec.json.decode(text))
            figures += (text for text in told_figures if text is not None)
        return committables, figures

    # --- while the query runs

    def _on_progress(self, stages: Any, **_: Any) -> None:
        """On the thread of the call."""
        known = list(stages or ())
        if known:
            self._progress = (sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known))

    def _look(self) -> None:
        """Report progress now and then. BatchCancelled."""
        if self._is_cancelled():
            raise BatchCancelled
        now_s = steady_s()
        if now_s - self._progress_s >= _PROGRESS_S:
            self._progress_s = now_s
            self._run.report(*self._progress)

    def _end(self, call: ThreadedCall[Any]) -> None:
        """Stop what still runs. A server that does not obey in time loses the session, which stops it too."""
        deadline_s = steady_s() + _CANCEL_WAIT_S
        client = self._session.spark.client
        while not call.wait(0) and steady_s() < deadline_s:
            # Again and again: a statement has several operations, and one may begin right now.
            interrupt = ThreadedCall(client.interrupt_all, "spark-interrupt")
            interrupt.wait(deadline_s - steady_s())
            call.wait(_PROGRESS_S)
        if not call.wait(0):
            self._session.is_broken = True

    def _hand_on_figures(self, figures: Figures) -> None:
        for (name, _), metrics in figures.items():
            for metric, value in metrics.items():
                if metric != LINES:
                    self._run.count(name, metric, value)
                    continue
                for line, is_error in value:
                    self._run.print_lines([line], is_error)


class ConnectTables:
    """The tables of a plan, for the queries over them. State: what the server observes of each, and cached tables."""

    def __init__(
        self, session: ConnectSession, plan: BatchPlan, places: FilePlaces | None, attempt: str
    ) -> None:
        self.places = places
        self._session = session
        self._spark = session.spark
        self._plan = plan
        self._attempt = attempt
        self._observations: dict[str, Observation] = {}
        self._cached: list[DataFrame] = []
        self._frames: dict[str, DataFrame] | None = None

    def query(self, output: BatchOutput) -> DataFrame:
        """The query of an output, its columns by number: a query may give two columns one name, or one with a dot in it.
        UserError SS4057 for files that executors do not see."""
        return self._sql(output).toDF(*(f"c{i}" for i in range(len(output.schema.fields))))

    def rows(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Compute it. The batches come in order, as the server sends them."""
        client = self._spark.client
        for found in client.to_table_as_iterator(frame._plan.to_proto(client), self._observations):
            if isinstance(found, pa.Table):
                yield from found.to_batches()

    def explain(self, output: BatchOutput) -> str:
        client = self._spark.client
        text: str = client.explain_string(self._sql(output)._plan.to_proto(client), "simple")
        return text.strip()

    def figures(self) -> Figures:
        """Those of the readers, once the query has ended."""
        return decode_figures(
            text
            for observation in self._observations.values()
            for text in observation.get.get("figures") or ()
        )

    def task(self, name: str, arguments: str) -> Any:
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(shipped)
        return shipped.make_task(name, arguments, ARCHIVE)

    def close(self) -> None:
        """Give back what is cached. Harmless when repeated."""
        cached, self._cached = self._cached, []
        if self._session.is_broken:
            return
        try:
            for frame in cached:
                frame.unpersist()
        except Exception:  # whatever PySpark raises for a session that is gone
            self._session.is_broken = True

    def _sql(self, output: BatchOutput) -> DataFrame:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import SQL, SubqueryAlias

        # The tables go along with the query: what is observed of views that were made before is not reported.
        views = [SubqueryAlias(frame._plan, name) for name, frame in self._tables().items()]
        return DataFrame(SQL(output.sql, None, None, views), self._spark)

    def _tables(self) -> dict[str, DataFrame]:
        if self._frames is not None:
            return self._frames
        specs: list[SourceSpec | SinkSpec] = [table.source for table in self._plan.tables]
        specs += [output.sink for output in self._plan.outputs if output.sink is not None]
        if not self._session.is_of_this_machine:
            refuse_local_files(specs, self._plan.config)
        readers = self._session.default_parallelism() if self._plan.tables else 0
        frames = {}
        for table in self._plan.tables:
            frame = self._frame(table, readers)
            if table.is_shared:
                frame = frame.persist()
                self._cached.append(frame)
            frames[table.name] = frame
        self._frames = frames
        return frames

    def _frame(self, table: BatchTable, readers: int) -> DataFrame:
        """The rows of a table. Its readers' figures are rows too, which the server puts aside for us."""
        from pyspark.sql.connect.functions import builtin as functions
        from pyspark.sql.connect.observation import Observation

        told = ReadArguments(
            self._plan.job_id,
            f"{self._attempt}-{table.name}",
            readers,
            self._plan.config,
            self.places,
            table,
        )
        task = self.task("read", encode_arguments(told))
        shares = self._spark.range(0, readers, 1, readers)
        rows = shares.mapInArrow(task, f"{spark_ddl(table.schema)}, {FIGURES_DDL}")
        self._observations[table.name] = observation = Observation(table.name)
        figures = functions.col(FIGURES)
        observed = rows.observe(observation, functions.collect_list(figures).alias("figures"))
        return observed.where(figures.isNull()).drop(FIGURES)


def explain(session: ConnectSession, plan: BatchPlan) -> str:
    """Spark's plan of every output. SqlStreamError."""
    tables = ConnectTables(session, plan, None, "explain")
    try:
        return "\n".join(tables.explain(output) for output in plan.outputs)
    except Exception as error:
        raise described_at(session.address, error) from error
    finally:
        tables.close()
