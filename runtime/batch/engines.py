"""The batch engines of this process: each is made when the first job needs it, and ends with the process."""

from __future__ import annotations

import importlib
import threading

from sqlstream.errors import InternalError
from sqlstream.runtime.batch.engine import BatchCancelled, BatchEngine
from sqlstream.runtime.host.process_end import before_end

ENGINES: dict[str, str] = {
    "duckdb": "sqlstream.runtime.batch.duckdb:DuckDbEngine",
    "spark": "sqlstream.runtime.batch.spark:SparkEngine",
}
"""Name → "module:class"."""

_made: dict[str, BatchEngine] = {}
_making = threading.Lock()
_is_over = False


def batch_engine(name: str) -> BatchEngine:
    """The engine of that name, warm once a job has used it. BatchCancelled while the process ends."""
    with _making:
        if _is_over:
            raise BatchCancelled
        if name not in _made:
            place = ENGINES.get(name)
            if place is None:
                raise InternalError(f'there is no batch engine "{name}"')
            module, kind = place.split(":")
            engine: BatchEngine = getattr(importlib.import_module(module), kind)()
            _made[name] = engine
        return _made[name]


def close_engines() -> None:
    """End all engines, whose files are gone then, and take no more jobs. Harmless when repeated."""
    global _is_over
    with _making:
        _is_over = True
        engines = list(_made.values())
        _made.clear()
    for engine in engines:
        engine.close()


before_end(close_engines)
