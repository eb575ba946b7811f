"""What fails in Spark, in our words: the cause and no Java stack trace, which goes to the log."""

from __future__ import annotations

import base64
import logging
import re

import msgspec

from sqlstream.errors import (
    ErrorInfo,
    ExternalError,
    FailureReason,
    InternalError,
    JobError,
    SqlStreamError,
)

logger = logging.getLogger(__name__)

_MARK = "sqlstream-error:"
_MARKED = re.compile(_MARK + r"([A-Za-z0-9+/=]+);")
_TASK_FAILURE = re.compile(r"most recent failure: (?:Lost task [^\n]*?\(TID \d+\) \([^)]*\): )?([^\n]+)")
_CLASS = re.compile(r"^(?:[a-z_0-9]+\.)+(?:[A-Za-z_0-9$]+\$)?(?=[A-Z])")
_LENGTH_MAX = 500


class TaskFailed(Exception):
    """Our error, raised in a worker of Spark. Spark carries exceptions as text, so the text holds the error as data."""

    def __init__(self, error: BaseException) -> None:
        data = base64.b64encode(msgspec.json.encode(ErrorInfo.of(error))).decode()
        super().__init__(f"{error} {_MARK}{data};")


def described(error: BaseException, last_words: str = "") -> SqlStreamError:
    """The cause of a failure that PySpark has raised, which is logged in full."""
    if isinstance(error, SqlStreamError):
        return error
    text = _whole_text(error)
    logger.warning("Spark failed: %s", text)
    ours = _MARKED.search(text)
    if ours is not None:
        return msgspec.json.decode(base64.b64decode(ours[1]), type=ErrorInfo).to_error()
    kind = type(error).__name__
    if kind in ("ParseException", "AnalysisException"):
        return InternalError(f"Spark refused the SQL that was generated for it: {_reason(text)}")
    if "java.lang.OutOfMemoryError" in text:
        return ExternalError(
            "SS5113",
            "Spark has no memory left for the query",
            hint="SET 'spark.driver.memory' or, on a cluster, 'spark.executor.memory' to a larger size",
        )
    if _is_of_dead_jvm(error, text):
        return ExternalError(
            "SS5113",
            "Spark ended while it ran the query",
            detail=f"its last lines are\n{last_words}" if last_words else "",
            hint="run the statement again: Spark is then started anew",
        )
    is_lost = "ExecutorLostFailure" in text
    return JobError(
        "SS6061",
        f"Spark could not run the query: {_reason(text)}",
        reason=FailureReason.TASK_MANAGER_LOST if is_lost else FailureReason.OPERATOR_FAILED,
        hint="look at the executor's log: it has often run out of memory" if is_lost else "",
    )


def first_line(error: SqlStreamError) -> str:
    return error.message.splitlines()[0] if error.message else type(error).__name__


def _text_of(found: object) -> str:
    """Its text: py4j asks the JVM for that of a Java exception, and fails when the JVM has ended since."""
    try:
        return str(found)
    except Exception:  # whatever it is, it must not replace the cause
        return f"{type(found).__name__}, of which Spark can say no more"


def _whole_text(error: BaseException) -> str:
    """All that is known: PySpark keeps the stack trace of the JVM, which names the causes, beside the message."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < 10:
        texts.append(_text_of(getattr(cause, "_desc", None) or cause))
        texts.append(_text_of(getattr(cause, "_stackTrace", None) or ""))
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return "\n".join(text for text in texts if text)


def _is_of_dead_jvm(error: BaseException, text: str) -> bool:
    if type(error).__module__.startswith("py4j") and type(error).__name__ != "Py4JJavaError":
        return True
    return isinstance(error, ConnectionError | EOFError) or "SparkContext was shut down" in text


def _reason(text: str) -> str:
    """The first line of the innermost cause that the text names, without the packages of Java classes.

    >>> _reason("Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in "
    ...         "stage 0.0 (TID 0) (127.0.0.1 executor driver): java.io.IOException: no space\\n\\tat x.y")
    'IOException: no space'
    """
    found = _TASK_FAILURE.search(text)
    line = found[1] if found else text.strip().partition("\n")[0]
    line = _CLASS.sub("", line.removeprefix("An error occurred while calling ").strip())
    return line if len(line) <= _LENGTH_MAX else line[:_LENGTH_MAX] + "…"
