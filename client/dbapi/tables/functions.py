"""SQL's functions: `sql_functions.upper(t.name)`. functions.pyi, which is made of the signatures, tells editors of each."""

from __future__ import annotations

from sqlstream.client.dbapi.tables.calls import function_called, functions


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    made = globals()[name] = function_called(name)
    return made


def __dir__() -> list[str]:
    return sorted(functions())
