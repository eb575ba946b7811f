"""The batch engines of this process: each is made when the first job needs it, and ends with the process."""

from __future__ import annotations

import atexit
import importlib
import threading

from runtime.batch.engine import BatchEngine
from sqlstream.errors import InternalError

ENGINES: dict[str, str] = {
    "duckdb": "runtime.batch.duckdb:DuckDbEngine",
    "spark": "runtime.batch.spark:SparkEngine",
}
"""Name → "module:class"."""

_made: dict[str, BatchEngine] = {}
_making = threading.Lock()


def batch_engine(name: str) -> BatchEngine:
    """The engine of that name, warm once a job has used it."""
    with _making:
        if name not in _made:
            place = ENGINES.get(name)
            if place is None:
                raise InternalError(f'there is no batch engine "{name}"')
            module, kind = place.split(":")
            engine: BatchEngine = getattr(importlib.import_module(module), kind)()
            _made[name] = engine
            atexit.register(engine.close)
        return _made[name]
