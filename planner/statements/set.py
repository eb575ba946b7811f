"""SET and RESET."""

from __future__ import annotations

from sqlstream import config
from sqlstream import types as sql
from sqlstream.deprecated_keys import current_key
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.dialect.statements import ResetOption, SetOption
from sqlstream.planner.statements.result import DdlResult, ResetConfig, SetConfig
from sqlstream.schema import Schema
from sqlstream.secrets import masked


def set_option(statement: SetOption, context: BindContext) -> DdlResult:
    """Check and set one option; without one, list those that are set."""
    written = statement.option
    if written is None:
        rows = tuple((key, masked(key, value)) for key, value in sorted(context.config.items()))
        return DdlResult(Schema.of(("key", sql.STRING), ("value", sql.STRING)), rows)
    key, value, note = config.settle(written.key, written.value, written.key_span, written.value_span)
    if value is None:
        return DdlResult.ok(note=note)
    return DdlResult.ok(SetConfig(key, value), done=f"'{key}' is '{masked(key, value)}'", note=note)


def reset_option(statement: ResetOption) -> DdlResult:
    """Reset one option, or all, to the default."""
    if statement.key is None:
        return DdlResult.ok(ResetConfig(None), done="all settings have their defaults")
    config.option(statement.key, statement.span)
    key = current_key(statement.key)
    return DdlResult.ok(ResetConfig(key), done=f"'{key}' has its default")
