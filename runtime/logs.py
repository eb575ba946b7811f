"""Logging of a process: structured records, one line each, that name the task they come from."""

from __future__ import annotations

import contextvars
import datetime
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

from sqlstream.errors import UserError
from sqlstream.messages.log_levels import LOGGERS_MAX
from sqlstream.options.server_options import LOG_LEVELS
from sqlstream.secrets import without_secrets
from sqlstream.terminal_text import shown_lines

RECORD_CHARACTERS_MAX = 8000
"""A longer message or traceback is cut, so that a record stays one line of the pipe that it may pass through."""

QUIET_LEVEL = "CRITICAL"
"""The level of a command that has a cluster of its own: failures of tasks reach the user as errors of their job."""

PRINT_LOGGER = "sqlstream.print"
"""What the records of rows are logged under that print tables of a server write."""

_TEXT_FIELDS = ("job", "vertex", "subtask", "attempt")


class TaskLabels(msgspec.Struct, frozen=True):
    """What a record says of the task that it comes from; `subtask` counts from 1, as in Flink's names of tasks."""

    job: str
    vertex: str = ""
    subtask: int = 0
    attempt: int = 0


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record. `time` is UTC in ISO 8601."""

    time: str
    level: str
    process: str
    thread: str
    logger: str
    message: str
    job: str = ""
    vertex: str = ""
    subtask: int = 0
    attempt: int = -1
    exception: str = ""


_labels: contextvars.ContextVar[TaskLabels | None] = contextvars.ContextVar("task labels", default=None)


def label_thread(labels: TaskLabels) -> None:
    """Every record of this thread carries these labels from here on."""
    _labels.set(labels)


def of_job(job_id: str) -> dict[str, Any]:
    """The `extra` of a record about a job."""
    return {"labels": TaskLabels(job_id)}


def log_line(record: logging.LogRecord, process: str) -> LogLine:
    """A record as data, secrets masked, its length bounded."""
    labels: TaskLabels | None = getattr(record, "labels", None) or _labels.get()
    exception = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return LogLine(
        time=time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        level=record.levelname,
        process=process,
        thread=record.threadName or "",
        logger=record.name,
        message=_bounded(without_secrets(record.getMessage())),
        job=labels.job if labels is not None else "",
        vertex=labels.vertex if labels is not None else "",
        subtask=labels.subtask if labels is not None else 0,
        attempt=labels.attempt if labels is not None and labels.subtask else -1,
        exception=_bounded(without_secrets(exception)),
    )


def _bounded(text: str) -> str:
    # The end of a traceback says more than its beginning.
    return text if len(text) <= RECORD_CHARACTERS_MAX else f"…{text[-RECORD_CHARACTERS_MAX:]}"


class TextFormatter(logging.Formatter):
    """`time level process [thread] logger: message job=… vertex="…" subtask=… attempt=…`; further lines are indented, so that a
    line which begins with a digit begins a record."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = log_line(record, self._process)
        labels = {name: getattr(line, name) for name in _TEXT_FIELDS} if line.job else {}
        if line.attempt < 0:
            labels = {"job": line.job} if line.job else {}
        said = "".join(f' {k}="{v}"' if k == "vertex" else f" {k}={v}" for k, v in labels.items())
        head = (
            f"{line.time} {line.level:<7} {line.process} [{line.thread}] {line.logger}: {line.message}{said}"
        )
        text = head if not line.exception else f"{head}\n{line.exception}"
        return shown_lines(text).replace("\n", "\n  ")


class JsonFormatter(logging.Formatter):
    """One object per record, with the fields of `LogLine` that have a value."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        return msgspec.json.encode(log_line(record, self._process)).decode()


def formatter_of(log_format: str, process: str) -> logging.Formatter:
    """The formatter of a choice of `sqlstream.log.format`."""
    return JsonFormatter(process) if log_format == "JSON" else TextFormatter(process)


ROOT = "root"
"""The name of the logger whose level those without one of their own have."""

_QUIET = (
    "asyncio", "botocore", "httpx", "httpcore", "kazoo", "ldap3", "paramiko", "sqlglot", "urllib3", "uvicorn",
)  # fmt: skip
"""Loggers of libraries report what only their authors can use."""

_RAISING = ("paramiko",)
"""Of these, what they log, with tracebacks, as well as raise."""

_WITH_SECRETS = re.compile(r"(botocore|kazoo)(\..*)?")
"""Below INFO they log requests as they are: logins, and records with the passwords of tables."""

_first_level = [logging.WARNING]
"""The level with which the log of this process began."""


def checked_levels(levels: Mapping[str, str]) -> dict[str, str]:
    """Names of loggers, and levels in capitals or empty. UserError SS6120 for what is neither."""
    checked = {}
    for name, level in levels.items():
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name) is None:
            raise UserError("SS6120", f'"{name[:200]}" cannot be the name of a logger')
        if level.upper() not in (*LOG_LEVELS, ""):
            raise UserError(
                "SS6120", f'there is no level "{level[:200]}"', hint=f"levels are {', '.join(LOG_LEVELS)}"
            )
        if _WITH_SECRETS.fullmatch(name) and level and logging.getLevelName(level.upper()) < logging.INFO:
            raise UserError(
                "SS6120", f'the level of "{name}" is INFO at least, since it logs passwords below', hint="give INFO"
            )  # fmt: skip
        checked[name] = level.upper()
    if len(checked) > LOGGERS_MAX:
        raise UserError("SS6120", f"at most {LOGGERS_MAX} loggers have levels of their own")
    return checked


def set_levels(levels: Mapping[str, str]) -> dict[str, str]:
    """Give loggers of this process these levels, and take those that are empty away; returns all that are set then."""
    for name, level in levels.items():
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        logger.setLevel(level or _level_at_start(name))
    present = {ROOT: logging.getLevelName(logging.getLogger().level)}
    for name, known in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(known, logging.Logger) and known.level != _level_at_start(name):
            present[name] = logging.getLevelName(known.level)
    return present


def _level_at_start(name: str) -> int:
    if name == ROOT:
        return _first_level[0]
    if name in _RAISING:
        return logging.CRITICAL
    return max(logging.WARNING, _first_level[0]) if name in _QUIET else logging.NOTSET


def configure_logging(process: str, level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send this process's log to a stream, by default standard error. Replaces what was configured before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    install_handler(handler, process, level, log_format)


def install_handler(handler: logging.Handler, process: str, level: str, log_format: str) -> None:
    """Send this process's log to a handler, and nowhere else."""
    handler.setFormatter(formatter_of(log_format, process))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    _first_level[0] = root.level
    for name in _QUIET:
        logging.getLogger(name).setLevel(_level_at_start(name))
