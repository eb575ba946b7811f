"""One plan on Spark: its tables as views that our readers fill, and its outputs sent to the client or written to tables."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.spark import shipped
from sqlstream.runtime.batch.spark.arrow_types import spark_ddl
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE
from sqlstream.runtime.batch.spark.errors import described
from sqlstream.runtime.batch.spark.hosted_functions import register_functions
from sqlstream.runtime.batch.spark.native_tables import NativeTables
from sqlstream.runtime.batch.spark.partition_receiver import PartitionReceiver
from sqlstream.runtime.batch.spark.settings import RESULTS_PORT, results_address
from sqlstream.runtime.batch.spark.task_arguments import (
    ReadArguments,
    SendArguments,
    WriteArguments,
    encode_arguments,
    refuse_local_files,
)
from sqlstream.runtime.batch.spark.tasks import SENT_DDL, WRITTEN_DDL
from sqlstream.runtime.batch.spark.threaded_call import SparkAction
from sqlstream.runtime.batch.spark.told_figures import hand_on_figures
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.random import random_id
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.runtime.batch.spark.session import RunningSpark


_PROGRESS_S = 0.2
_CANCEL_WAIT_S = 10.0
_CANCEL_AGAIN_S = 0.2

Result = TypeVar("Result")


class SparkStatement:
    """Runs a plan once. State: the figures that its tasks report, and how much of them was handed on."""

    def __init__(
        self,
        spark: RunningSpark,
        session: SparkSession,
        group: str,
        plan: BatchPlan,
        run: BatchRun,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._spark = spark
        self._session = session
        self._context = session.sparkContext
        self._group = group
        self._plan = plan
        self._run = run
        self._is_cancelled = is_cancelled
        self._progress_s = 0.0
        self._tables = Tables(spark, session, plan, run.files, run.attempt, is_cancelled)

    def run(self) -> None:
        """Compute all outputs, one after the other. SqlStreamError, BatchCancelled."""
        try:
            for number, output in enumerate(self._plan.outputs):
                (self._deliver if output.is_ours else self._write)(number, output)
            self._tables.native.finish(self._run)
        except SqlStreamError:
            raise
        except Exception as error:
            if isinstance(error, BatchCancelled) or self._is_cancelled():
                raise BatchCancelled from error
            failure = described(error, self._spark.jvm.last_words())
            raise self._tables.native.cause(failure, self._run, self._is_cancelled) from error
        finally:
            self._tables.close()
            self._hand_on_figures()

    def _deliver(self, number: int, output: BatchOutput) -> None:
        """Give the rows of a query to the run, partition by partition, in their order."""
        _refuse_plain_results(self._spark)
        receiver = _receiver(self._spark)
        with contextlib.closing(receiver):
            action = self._action(lambda: self._sent(output, receiver.send_arguments), receiver.look_again)
            try:
                rows = receiver.rows(lambda: _count(action.result()))
                for batch in rows:
                    if batch is not None:
                        self._run.emit(number, batch)
                    self._look(action)
                attempts = action.result()
                assert attempts is not None
                receiver.check_attempts(attempts)
            except BaseException:
                self._end(action, receiver)
                raise

    def _write(self, number: int, output: BatchOutput) -> None:
        """Let every partition write its rows; what the writers give for the commit goes to the run."""
        action = self._action(lambda: self._written(output))
        try:
            while not action.wait(_PROGRESS_S):
                self._look(action)
            committables = action.result()
        except BaseException:
            self._end(action, None)
            raise
        assert committables is not None
        self._run.written(number, committables)

    # --- on the thread of the action

    def _sent(self, output: BatchOutput, told: SendArguments) -> dict[int, int]:
        """The attempt that has sent each partition."""
        rows = self._mapped(output, "send", encode_arguments(told), SENT_DDL)
        return {row["partition"]: row["attempt"] for row in rows}

    def _written(self, output: BatchOutput) -> list[Committable]:
        assert output.sink is not None
        told = WriteArguments(
            self._plan.job_id,
            f"{self._run.attempt}-output",
            self._plan.config,
            places_of(self._run.files),
            output.sink,
        )
        rows = self._mapped(output, "write", encode_arguments(told), WRITTEN_DDL)
        return [c for row in rows for c in msgspec.json.decode(row["committables"], type=list[Committable])]

    def _mapped(self, output: BatchOutput, task: str, arguments: str, ddl: str) -> list[Any]:
        self._tables.make_views()
        frame = self._session.sql(output.sql)
        # A query may give two columns one name, or one with a dot in it.
        numbered = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        mapped = map_in_arrow(numbered, self._tables.task(task, arguments), ddl)
        rows: list[Any] = mapped.collect()
        return rows

    # --- while the action runs

    def _action(
        self, function: Callable[[], Result], when_done: Callable[[], None] = lambda: None
    ) -> SparkAction[Result]:
        return SparkAction(self._context, self._group, self._plan.name, function, when_done)

    def _look(self, action: SparkAction[Any]) -> None:
        """Report progress now and then. BatchCancelled."""
        if self._is_cancelled():
            raise BatchCancelled
        now_s = steady_s()
        if now_s - self._progress_s >= _PROGRESS_S:
            self._progress_s = now_s
            self._run.report(*action.progress())
            self._hand_on_figures()

    def _end(self, action: SparkAction[Any], receiver: PartitionReceiver | None) -> None:
        """Stop what still runs. An action that does not end is left to itself: nothing interrupts Spark's planner."""
        if receiver is not None:
            receiver.close()
        deadline_s = steady_s() + _CANCEL_WAIT_S
        with contextlib.suppress(Exception):  # a JVM that has died has nothing to cancel
            # Again and again: a statement has several jobs, and one may begin right now.
            while not action.wait(0) and steady_s() < deadline_s:
                action.cancel()
                action.wait(_CANCEL_AGAIN_S)

    def _hand_on_figures(self) -> None:
        for name, metrics in self._tables.new_figures():
            hand_on_figures(self._run, name, metrics)


class Tables:
    """The tables of a plan as views of a session. State: the accumulator for the figures of tasks, cached tables."""

    def __init__(
        self,
        spark: RunningSpark,
        session: SparkSession,
        plan: BatchPlan,
        files: Any,
        attempt: str,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._session = session
        self._plan = plan
        self._places = places_of(files)
        self._attempt = attempt
        self.native = NativeTables(session, plan, files, is_cancelled)
        self._archive = None if spark.has_our_code else ARCHIVE
        self._is_of_this_machine = spark.is_of_this_machine
        self._figures = session.sparkContext.accumulator({}, shipped.FiguresParam())
        self._handed_on: set[tuple[str, int]] = set()
        self._cached: list[DataFrame] = []
        self._has_views = False

    def make_views(self) -> None:
        """Make the views, unless they are there. UserError SS4057 for files that executors do not see."""
        if self._has_views:
            return
        specs: list[SourceSpec | SinkSpec] = [table.source for table in self._plan.tables]
        specs += [output.sink for output in self._plan.outputs if output.sink is not None]
        if not self._is_of_this_machine:
            refuse_local_files(specs, self._plan.config)
        for table in self._plan.tables:
            frame = self.native.frame(table)
            if frame is not None:
                frame.createOrReplaceTempView(table.name)
                continue
            frame = self._frame(table)
            if table.is_shared:
                frame = frame.persist()
                self._cached.append(frame)
            frame.createOrReplaceTempView(table.name)
        self._register_functions()
        self._has_views = True

    def task(self, name: str, arguments: str) -> Any:
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(shipped)
        return shipped.make_task(name, arguments, self._figures, self._archive)

    def _register_functions(self) -> None:
        from pyspark.cloudpickle import register_pickle_by_value
        from pyspark.sql.udf import _create_udf
        from pyspark.util import PythonEvalType

        register_pickle_by_value(shipped)

        def register(name: str, arguments: str, ddl: str, is_volatile: bool) -> None:
            function = shipped.make_function(arguments, self._archive)
            made = _create_udf(function, ddl, PythonEvalType.SQL_SCALAR_ARROW_UDF)
            self._session.udf.register(name, made.asNondeterministic() if is_volatile else made)

        register_functions(self._plan, register)

    def new_figures(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The figures of subtasks that have ended since the last call."""
        for key, metrics in list(self._figures.value.items()):
            if key not in self._handed_on:
                self._handed_on.add(key)
                yield key[0], metrics

    def close(self) -> None:
        """Give back what is cached, and forget the accumulator, which PySpark would keep for ever."""
        from pyspark.accumulators import _accumulatorRegistry

        with contextlib.suppress(Exception):  # a JVM that has died keeps nothing
            for frame in self._cached:
                frame.unpersist()
        _accumulatorRegistry.pop(self._figures.aid, None)

    def _frame(self, table: BatchTable) -> DataFrame:
        readers = 1 if table.has_changes else max(1, self._session.sparkContext.defaultParallelism)
        told = ReadArguments(
            self._plan.job_id,
            f"{self._attempt}-{table.name}",
            readers,
            self._plan.config,
            self._places,
            table,
        )
        shares = self._session.range(0, readers, 1, readers)
        return map_in_arrow(shares, self.task("read", encode_arguments(told)), spark_ddl(table.schema))


def explain(
    spark: RunningSpark, session: SparkSession, plan: BatchPlan, files: Any, is_cancelled: Callable[[], bool]
) -> str:
    """How each table is read, and Spark's plan of every output. SqlStreamError, BatchCancelled."""
    tables = Tables(spark, session, plan, files, "explain", is_cancelled)
    try:
        tables.make_views()
        texts = list(tables.native.lines)
        for output in plan.outputs:
            execution: Any = session.sql(output.sql)._jdf.queryExecution()
            texts.append(str(execution.simpleString()).strip())
        return "\n".join(texts)
    except BatchCancelled:
        raise
    except Exception as error:
        raise described(error, spark.jvm.last_words()) from error
    finally:
        tables.close()


def _count(attempts: dict[int, int] | None) -> int | None:
    """How many partitions there are: Spark numbers them from 0."""
    return None if attempts is None else len(attempts)


def places_of(files: Any) -> FilePlaces | None:
    return files.places if isinstance(files, RootedFiles) else None


def _receiver(spark: RunningSpark) -> PartitionReceiver:
    """Where tasks reach this process: a socket in our directory on one machine, else where they reach Spark's driver."""
    if spark.is_of_this_machine:
        path = os.path.join(spark.socket_directory, random_id()[:8])
        return PartitionReceiver(path, spark.directory)
    settings = dict(spark.session.sparkContext.getConf().getAll())
    listening, host = results_address(settings)
    try:
        return PartitionReceiver(listening, spark.directory, host)
    except OSError as error:
        place = f"{listening[0]}:{listening[1]}"
        raise ExternalError(
            "SS5114",
            f'could not listen for rows of Spark at "{place}": {(error.strerror or str(error)).lower()}',
            hint=f"SET 'spark.driver.bindAddress' to an address of this machine and '{RESULTS_PORT}' to a free port",
        ) from error


def _refuse_plain_results(spark: RunningSpark) -> None:
    """UserError SS4056: rows of a query go to this process directly, and not encrypted."""
    settings = spark.session.sparkContext.getConf()
    is_encrypted = settings.get("spark.network.crypto.enabled", "false") == "true"
    if is_encrypted and not spark.is_of_this_machine:
        raise UserError(
            "SS4056",
            "the rows of a query would leave the executors of this cluster without encryption, which"
            " 'spark.network.crypto.enabled' asks for",
        )


# `DataFrame.mapInArrow` without its demand for pandas, which our functions do not use.


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], ddl: str
) -> DataFrame:
    """The batches that `function` makes of each partition's batches, with the columns that `ddl` declares."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    from pyspark.util import PythonEvalType

    # What pyspark.sql.pandas.map_ops does, but for the check that pandas is installed.
    udf: Any = vectorized_udf(function, ddl, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, "pandas")
    arguments = udf(*(frame[name] for name in frame.columns))._jc
    return ClassicDataFrame(frame._jdf.mapInArrow(arguments, False, None), frame.sparkSession)
