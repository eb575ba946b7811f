"""SET and RESET."""

from __future__ import annotations

from planner.bind.context import BindContext
from planner.dialect.statements import ResetOption, SetOption
from planner.statements.result import DdlResult, ResetConfig, SetConfig
from sqlstream import config
from sqlstream import types as sql
from sqlstream.flink_tuning import tuning_note
from sqlstream.schema import Schema
from sqlstream.secrets import masked


def set_option(statement: SetOption, context: BindContext) -> DdlResult:
    """Check and set one option; without one, list those that are set."""
    written = statement.option
    if written is None:
        rows = tuple((key, masked(key, value)) for key, value in sorted(context.config.items()))
        return DdlResult(Schema.of(("key", sql.STRING), ("value", sql.STRING)), rows)
    config.settable_option(written.key, written.key_span).parse(written.value, written.value_span)
    said = masked(written.key, written.value)
    change = SetConfig(written.key, written.value)
    return DdlResult.ok(change, done=f"'{written.key}' is '{said}'", note=tuning_note(written.key))


def reset_option(statement: ResetOption) -> DdlResult:
    """Reset one option, or all, to the default."""
    if statement.key is not None:
        config.settable_option(statement.key, statement.span)
    done = (
        "all settings have their defaults" if statement.key is None else f"'{statement.key}' has its default"
    )
    return DdlResult.ok(ResetConfig(statement.key), done=done)
