"""Modules: there is one, `core`, with all built-in functions."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.planner.dialect.statements import ChangeModules, ModuleAction
from sqlstream.planner.statements.result import DdlResult
from sqlstream.schema import Schema

CORE = "core"


def change_modules(statement: ChangeModules) -> DdlResult:
    """UserError SS3524 for another module than `core`, and where `core` could not stay as it is."""
    seen: set[str] = set()
    for name in statement.names:
        module = name.parts[-1]
        if module != CORE:
            raise UserError(
                "SS3524",
                f'there is no module "{module}"',
                span=name.span,
                hint=f'the functions of Flink are all in "{CORE}", which is loaded; those of Hive are not there',
            )
        if module in seen:
            raise UserError(
                "SS2012", f'module "{module}" is named twice', span=name.span, hint="name it once"
            )
        seen.add(module)
    if statement.action is ModuleAction.USE:
        return DdlResult.ok(done=f'modules in use: "{CORE}"')
    is_loading = statement.action is ModuleAction.LOAD
    raise UserError(
        "SS3524",
        f'module "{CORE}" is loaded already' if is_loading else f'module "{CORE}" cannot be unloaded',
        span=statement.names[0].span,
        hint="use its functions" if is_loading else "it has all functions that there are",
    )


def show_modules(is_full: bool) -> DdlResult:
    """Flink's columns."""
    if is_full:
        return DdlResult(Schema.of(("module name", sql.STRING), ("used", sql.BOOLEAN)), ((CORE, True),))
    return DdlResult.column("module name", [CORE])
