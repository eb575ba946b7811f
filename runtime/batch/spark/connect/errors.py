"""What fails at a Spark Connect server, in our words."""

from __future__ import annotations

import re

from sqlstream.errors import ExternalError, JobError, Retry, SqlStreamError
from sqlstream.runtime.batch.spark.connect.address import ConnectAddress
from sqlstream.runtime.batch.spark.errors import described

LOST = "SS5117"
"""The code of failures after which a session is of no use."""

_LOST_SESSION = re.compile(
    r"INVALID_HANDLE\.(SESSION_\w+|OPERATION_(?:ABANDONED|NOT_FOUND))|server side session identifier|NO_ACTIVE_SESSION"
    r"|RESPONSE_ALREADY_RECEIVED|SparkContext was shut down|stopped SparkContext"
)
_WORKER_VERSION = re.compile(
    r"PYTHON_VERSION_MISMATCH\].*?version: ([\d.]+) than that in driver: ([\d.]+)", re.DOTALL
)
_WORKER_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


def described_at(address: ConnectAddress, error: BaseException) -> SqlStreamError:
    """The cause of a failure that PySpark's client of that server has raised. The whole text is logged."""
    cause = described(error)
    if isinstance(error, SqlStreamError) or cause.code not in ("SS6061", "SS9001"):
        return cause
    text = f"{error}\n{getattr(error, '_stacktrace', None) or ''}"
    status = getattr(getattr(error, "_grpc_status_code", None), "name", "")
    return _of_connection(address, status, text) or _of_worker(text) or _of_result(text) or cause


def _of_connection(address: ConnectAddress, status: str, text: str) -> SqlStreamError | None:
    if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return ExternalError(
            "SS5116", f'the Spark Connect server "{address}" refuses this client: {_first_line(text)}'
        )
    if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
        return ExternalError(
            LOST,
            f'the Spark Connect server "{address}" does not answer: {_reason(text)}',
            retry=Retry.BACKOFF,
            hint="look whether it runs, and whether ;use_ssl=true in its address is right; then run the statement again",
        )
    if _LOST_SESSION.search(text):
        return ExternalError(
            LOST,
            f'the Spark Connect server "{address}" has ended the session, or was started anew',
            retry=Retry.NOW,
            hint="run the statement again",
        )
    return None


def _of_worker(text: str) -> SqlStreamError | None:
    found = _WORKER_VERSION.search(text)
    if found is not None:
        what = f"is {found[1]}, and that of sqlstream {found[2]}"
    else:
        package = _WORKER_PACKAGE.search(text)
        if package is None:
            return None
        what = f'lacks the package "{package[1]}"'
    return ExternalError("SS5118", f"the Python of Spark's workers {what}")


def _of_result(text: str) -> SqlStreamError | None:
    if "spark.driver.maxResultSize" not in text:
        return None
    return JobError(
        "SS6068", "the rows of the result are more than the Spark Connect server takes into its memory"
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


def _reason(text: str) -> str:
    """What gRPC says, of which the rest is its own state.

    >>> _reason('failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:9: Connection refused')
    'Connection refused'
    """
    found = re.search(r'details = "(.*?)"', text, re.DOTALL)
    line = _first_line(found[1] if found else text)
    return line.rpartition(": ")[2] if "last error:" in line else line
