"""Where the connector `print` of a server's jobs writes: the server's log, with the job's label."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sqlstream.runtime.logs import PRINT_LOGGER, RECORD_CHARACTERS_MAX, of_job

logger = logging.getLogger(PRINT_LOGGER)


def log_printed_lines(job_id: str, lines: list[str], is_error: bool) -> None:
    """Log lines in records of several; a longer line is cut as all records are."""
    level = logging.WARNING if is_error else logging.INFO
    for text in _records(lines):
        logger.log(level, "%s", text, extra=of_job(job_id))


def _records(lines: list[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in lines:
        if held and size + len(line) >= RECORD_CHARACTERS_MAX:
            yield "\n".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield "\n".join(held)
