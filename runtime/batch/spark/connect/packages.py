"""The packages that PySpark's client of Spark Connect imports."""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder

from runtime.host.process import permit_pandas
from sqlstream.errors import ExternalError

NEEDED = {
    "pandas": "pandas",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
"""Module → package (PySpark: sql/connect/utils.py)."""


def missing_packages() -> list[str]:
    """Those of them that are not installed."""
    return [package for module, package in NEEDED.items() if not _is_there(module)]


def require_packages() -> None:
    """ExternalError SS5115 says what to install."""
    missing = missing_packages()
    permit_pandas()
    if missing:
        raise ExternalError(
            "SS5115",
            f"Spark Connect needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'sqlstream[connect]'",
        )


def _is_there(module: str) -> bool:
    if module == "pandas":
        # This process may make it look absent (see forgo_pandas).
        return PathFinder.find_spec(module) is not None
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False
