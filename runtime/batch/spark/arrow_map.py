"""`DataFrame.mapInArrow` without its demand for pandas, which our functions do not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


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
