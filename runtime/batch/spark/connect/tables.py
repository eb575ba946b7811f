"""The tables of a plan at a Spark Connect server, filled by our readers in its tasks, and queries over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable
from sqlstream.runtime.batch.spark import shipped
from sqlstream.runtime.batch.spark.arrow_types import spark_ddl
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSession
from sqlstream.runtime.batch.spark.connect.tasks import FIGURES, FIGURES_DDL, decode_figures
from sqlstream.runtime.batch.spark.hosted_functions import register_functions
from sqlstream.runtime.batch.spark.task_arguments import ReadArguments, encode_arguments, refuse_local_files
from sqlstream.runtime.batch.spark.tasks import Figures
from sqlstream.runtime.batch.tables import described_relation
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.batch_relation import ThroughReader

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.observation import Observation


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
        return shipped.make_task_with_figures(name, arguments, ARCHIVE)

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
        self._register_functions()
        self._frames = frames
        return frames

    def _register_functions(self) -> None:
        from pyspark.cloudpickle import register_pickle_by_value
        from pyspark.util import PythonEvalType

        register_pickle_by_value(shipped)

        def register(name: str, arguments: str, ddl: str, is_volatile: bool) -> None:
            # The session's own method reads the type by a session of the process, which there is none of.
            function, kind = shipped.make_function(arguments, ARCHIVE), PythonEvalType.SQL_SCALAR_ARROW_UDF
            self._spark.client.register_udf(function, ddl, name, kind, not is_volatile)

        register_functions(self._plan, register)

    def _frame(self, table: BatchTable, readers: int) -> DataFrame:
        """The rows of a table. Its readers' figures are rows too, which the server puts aside for us."""
        from pyspark.sql.connect.functions import builtin as functions
        from pyspark.sql.connect.observation import Observation

        readers = 1 if table.has_changes else readers
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
    """How each table is read, and Spark's plan of every output. SqlStreamError."""
    tables = ConnectTables(session, plan, None, "explain")
    try:
        reader = ThroughReader("over Spark Connect all tables are read so")
        lines = [described_relation(table, reader) for table in plan.tables]
        return "\n".join([*lines, *(tables.explain(output) for output in plan.outputs)])
    except Exception as error:
        raise described_at(session.address, error) from error
    finally:
        tables.close()
