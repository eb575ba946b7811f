"""Logging of a process: one line per event, to standard error, only critical ones by default."""

from __future__ import annotations

import logging
import os

LEVEL_VARIABLE = "SQLSTREAM_LOG_LEVEL"


def configure_logging(process_name: str) -> None:
    """Send the log to standard error at the level that SQLSTREAM_LOG_LEVEL names, by default only what is
    critical: failures of tasks reach the user as errors of their job."""
    level = os.environ.get(LEVEL_VARIABLE, "CRITICAL").upper()
    known = logging.getLevelNamesMapping()
    logging.basicConfig(
        level=known.get(level, logging.CRITICAL),
        format=f"%(asctime)s %(levelname)-5s {process_name} [%(threadName)s] %(name)s: %(message)s",
    )
