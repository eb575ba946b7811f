"""Plans a script against connectors that are declared but not built, and prints the plans of its jobs as EXPLAIN does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlstream.catalog import PutFunction, PutObject, SessionCatalog
from sqlstream.changelog import ChangelogMode
from sqlstream.planner.batch import BatchSources, plan_batch_sources
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.sink import bind_insert, bind_select_sink
from sqlstream.planner.compile import CompiledPlan, compile_statements
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Insert, Query, Statement, StatementSet
from sqlstream.planner.relational.nodes import Sink
from sqlstream.planner.statements.execute import execute_ddl
from sqlstream.planner.statements.result import Change, SetConfig
from sqlstream.runtime.python.inspector import LocalFunctionInspector
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorDescriptor,
    OptionDescriptor,
    OptionType,
    Reading,
    Writing,
)
from sqlstream.spi.format import FormatDescriptor
from sqlstream.spi.lookup import LOOKUP_OPTIONS

Plan = TypeVar("Plan")

PARALLELISM = tuple(
    OptionDescriptor(key, OptionType.INTEGER, "Subtasks.") for key in ("scan.parallelism", "sink.parallelism")
)


def _source(name: str, **reading: object) -> ConnectorDescriptor:
    return ConnectorDescriptor(name, PARALLELISM, reading=Reading(**reading))  # type: ignore[arg-type]


def _sink(name: str, mode: ChangelogMode = ChangelogMode.INSERT_ONLY, **writing: bool) -> ConnectorDescriptor:
    return ConnectorDescriptor(name, PARALLELISM, writing=Writing(mode, **writing))


CONNECTORS = {
    c.identifier: c
    for c in (
        _source("stream", boundedness=Boundedness(False)),
        _source("table"),
        _source("filtering", filters=True, limits=True),
        ConnectorDescriptor(
            "keyed", (*PARALLELISM, *LOOKUP_OPTIONS), reading=Reading(filters=True, lookups=True)
        ),
        _source("exact", filters=True, filters_exactly=True),
        _sink("blackhole", ChangelogMode.RETRACT, takes_upserts=True),
        _sink("print", ChangelogMode.RETRACT),
        _sink("collect", ChangelogMode.RETRACT),
        _sink("upsert", ChangelogMode.UPSERT),
        _sink("append"),
    )
}

GIVEN_MAX = 16
_given: dict[tuple[object, ...], list[Change]] = {}
"""The changes that given statements make, of the last ones."""


def compile_script(
    text: str,
    config: dict[str, str] | None = None,
    connectors: dict[str, ConnectorDescriptor] | None = None,
    formats: dict[str, FormatDescriptor] | None = None,
    given: str = "",
) -> list[CompiledPlan]:
    """One plan for each SELECT, INSERT and statement set of the script. `given` are statements before it without any of these,
    which run once for all scripts behind them: a connector's name means the same one each time."""
    settings = dict(config or {})
    context = BindContext(
        SessionCatalog(),
        CONNECTORS | (connectors or {}),
        formats or {},
        settings,
        functions=LocalFunctionInspector("", None),
    )
    key = (given, tuple(sorted(settings.items())), tuple(sorted(context.connectors)))
    if key in _given:
        for change in _given[key]:
            _apply(change, context, settings)
    else:
        if len(_given) == GIVEN_MAX:
            del _given[next(iter(_given))]
        _given[key] = _executed(given, context, settings)
    return _planned(text, context, settings, compile_statements)


def _executed(given: str, context: BindContext, settings: dict[str, str]) -> list[Change]:
    done = []
    for statement in parse_statements(given):
        for change in execute_ddl(statement, context).changes:
            _apply(change, context, settings)
            done.append(change)
    return done


def _apply(change: Change, context: BindContext, settings: dict[str, str]) -> None:
    if isinstance(change, PutObject | PutFunction):
        context.catalog.apply(change)  # type: ignore[attr-defined]
    elif isinstance(change, SetConfig):
        settings[change.key] = change.value


def plan_batch_script(text: str) -> list[BatchSources]:
    """The same, for a batch engine that is not chosen yet."""
    settings: dict[str, str] = {}
    context = BindContext(SessionCatalog(), CONNECTORS, {}, settings)
    return _planned(text, context, settings, plan_batch_sources)


def _planned(
    text: str,
    context: BindContext,
    settings: dict[str, str],
    plan: Callable[[tuple[Sink, ...], BindContext], Plan],
) -> list[Plan]:
    plans = []
    for statement in parse_statements(text):
        sinks = _bind(statement, context)
        if sinks:
            plans.append(plan(sinks, context))
            continue
        for change in execute_ddl(statement, context).changes:
            _apply(change, context, settings)
    return plans


def _bind(statement: Statement, context: BindContext):  # type: ignore[no-untyped-def]
    match statement:
        case Query():
            return (bind_select_sink(statement.query, context),)
        case Insert():
            return (bind_insert(statement, context),)
        case StatementSet():
            return tuple(bind_insert(i, context) for i in statement.inserts)
    return ()
