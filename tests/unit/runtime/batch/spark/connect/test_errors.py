"""What PySpark's client raises, in our words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.batch.spark.connect.address import ConnectAddress
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.packages import REQUIREMENT, missing_packages, require_packages

ROOT = Path(__file__).resolve().parents[6]
ADDRESS = ConnectAddress("node7", 15002, True, "geheim")


class Status:
    def __init__(self, name: str) -> None:
        self.name = name


class Failure(Exception):
    """As pyspark.errors.exceptions.connect has them."""

    def __init__(self, text: str, status: str = "UNKNOWN", stack: str = "") -> None:
        super().__init__(text)
        self._grpc_status_code = Status(status)
        self._stacktrace = stack


REFUSED = """<_MultiThreadedRendezvous of RPC that terminated with:
	status = StatusCode.UNAVAILABLE
	details = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9: Connection refused"
>"""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            Failure("Invalid authentication token", "UNAUTHENTICATED"),
            "SS5116",
            "Invalid authentication token",
        ),
        (Failure(REFUSED, "UNAVAILABLE"), "SS5117", "does not answer: Connection refused"),
        (Failure("[INVALID_HANDLE.SESSION_CLOSED] gone", "INTERNAL"), "SS5117", "has ended the session"),
        (AssertionError("Received incorrect server side session identifier"), "SS5117", "was started anew"),
        (
            Failure(
                "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11,"
            ),
            "SS5118",
            "is 3.12, and that of sqlstream 3.11",
        ),
        (Failure("ModuleNotFoundError: No module named 'msgspec'"), "SS5118", 'lacks the package "msgspec"'),
        (
            Failure(
                "Job aborted",
                stack="tasks (1024.1 KiB) is bigger than spark.driver.maxResultSize (1024.0 KiB)",
            ),
            "SS6068",
            "more than the Spark Connect server takes",
        ),
        (Failure("[DIVIDE_BY_ZERO] Division by zero"), "SS6061", "Division by zero"),
    ],
)
def test_a_failure_has_a_code_and_its_cause(error: Exception, code: str, words: str) -> None:
    described = described_at(ADDRESS, error)
    assert described.code == code
    assert words in described.message
    assert "geheim" not in described.message + described.detail + described.hint


def test_our_own_errors_stay_as_they_are() -> None:
    error = UserError("SS4057", "no")
    assert described_at(ADDRESS, error) is error


def test_what_the_hint_installs_is_what_the_project_depends_on() -> None:
    # Others import PySpark's client when they find PySpark, and fail without its packages: JupySQL's `%load_ext sql`.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert REQUIREMENT in project["dependencies"]


def test_missing_packages_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name.startswith("grpc") else find(name)
    )
    assert missing_packages(is_connect=True) == ["grpcio", "grpcio-status"]
    with pytest.raises(ExternalError) as caught:
        require_packages(is_connect=True)
    assert caught.value.code == "SS5115"
    assert "grpcio, grpcio-status" in caught.value.message
    assert caught.value.hint == "pip install 'pyspark[connect]>=4.3,<4.4'"
