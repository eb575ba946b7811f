"""The packages that Spark and its client of Spark Connect import, which may be missing until a statement needs them."""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.process import permit_pandas

_SPARK = {"pyspark": "pyspark"}
_CONNECT = {
    "pandas": "pandas",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
"""Module → package (PySpark: sql/connect/utils.py)."""

REQUIREMENT = "pyspark[connect]>=4.3,<4.4"
"""What installs all of them, as in pyproject.toml."""


def missing_packages(is_connect: bool) -> list[str]:
    """Those that are not installed, of those that Spark needs here or its client of Spark Connect does."""
    needed = _SPARK | _CONNECT if is_connect else _SPARK
    return [package for module, package in needed.items() if not _is_there(module)]


def require_packages(is_connect: bool) -> None:
    """ExternalError SS5115 says what to install."""
    missing = missing_packages(is_connect)
    if is_connect:
        permit_pandas()
    if missing:
        raise ExternalError(
            "SS5115",
            f"{'Spark Connect' if is_connect else 'Spark'} needs packages that are not installed: {', '.join(missing)}",
            hint=f"pip install '{REQUIREMENT}'",
        )


def _is_there(module: str) -> bool:
    if module == "pandas":
        # This process may make it look absent (see forgo_pandas).
        return PathFinder.find_spec(module) is not None
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False
