"""PySpark and py4j print what goes wrong to the terminal; here it goes to the log."""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

logger = logging.getLogger(__name__)


def quiet_pyspark() -> None:
    """Before PySpark is used: its warnings and errors reach the log of this process, if it has one, and no terminal."""
    for name in ("spark", "sqlstream.runtime.batch.spark"):
        # A process without a log prints warnings to the terminal unless a handler takes them.
        logging.getLogger(name).addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark would make them with a handler for standard error. The errors themselves are raised, and logged here.
        logging.getLogger(name).disabled = True
    # py4j reports a broken connection to the root logger, which then prints, for good, whatever is logged anywhere.
    py4j = logging.getLogger("py4j")
    py4j.setLevel(logging.WARNING)
    importlib.import_module("py4j.java_gateway").logging = py4j  # type: ignore[attr-defined]
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def quiet_accumulators(context: Any) -> None:
    """The thread that receives accumulators prints a traceback when the JVM dies."""
    context._accumulatorServer.handle_error = _log_broken_connection


def _log_broken_connection(request: Any, client_address: Any) -> None:
    logger.info("the connection for figures of tasks has ended", exc_info=True)
