"""Batch queries on Spark. Importing this package imports neither PySpark nor Arrow's servers."""

from sqlstream.runtime.batch.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
