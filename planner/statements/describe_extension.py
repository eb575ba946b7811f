"""SHOW CONNECTORS, SHOW FORMATS and DESCRIBE CONNECTOR, FORMAT, FUNCTION."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import UserError, did_you_mean
from sqlstream.expressions import LiteralValue
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS
from sqlstream.functions.descriptions import DESCRIPTIONS
from sqlstream.functions.rewritten import REWRITTEN, REWRITTEN_SCALARS
from sqlstream.planner.bind.calls import callable_names, unknown_function
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.table_options import own_options
from sqlstream.planner.dialect.statements import DescribedKind, DescribeExtension, Identifier
from sqlstream.planner.statements.functions import describe_user_function
from sqlstream.planner.statements.result import DdlResult
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorDescriptor, OptionDescriptor, OptionType

_Rows = list[tuple[LiteralValue, ...]]

_OPTION_COLUMNS = (
    *(("option", sql.STRING), ("type", sql.STRING), ("default", sql.STRING)),
    *(("required", sql.BOOLEAN), ("meaning", sql.STRING)),
)


def connector_rows(context: BindContext) -> DdlResult:
    """One row per connector: whether it can be read and written, and whether its tables need a format."""
    named = sorted((i, d) for i, d in context.connectors.items() if not d.is_internal)
    columns = (("reads", sql.BOOLEAN), ("writes", sql.BOOLEAN), ("needs format", sql.BOOLEAN))
    rows = tuple((i, d.is_source, d.is_sink, d.place.has_format) for i, d in named)
    return DdlResult(Schema.of(("connector name", sql.STRING), *columns), rows)


def describe_extension(statement: DescribeExtension, context: BindContext) -> DdlResult:
    """The options of a connector or format, or the arguments and result of a function."""
    match statement.kind:
        case DescribedKind.CONNECTOR:
            return _describe_connector(statement.name, context)
        case DescribedKind.FORMAT:
            return _describe_format(statement.name, context)
        case DescribedKind.FUNCTION:
            return describe_user_function(
                statement.name, statement.is_extended, context
            ) or _describe_function(statement)


def _describe_connector(name: Identifier, context: BindContext) -> DdlResult:
    named = {i: d for i, d in context.connectors.items() if not d.is_internal}
    found = named.get(name.parts[0])
    if found is None:
        raise _unknown("connector", "SS4004", name, sorted(named))
    return _option_rows(_connector_options(found))


def _connector_options(descriptor: ConnectorDescriptor) -> list[OptionDescriptor]:
    options = own_options(descriptor)
    if descriptor.place.has_format:
        meaning = "How rows are written; SHOW FORMATS lists the formats, DESCRIBE FORMAT their options."
        options.insert(0, OptionDescriptor("format", OptionType.STRING, meaning, is_required=True))
    return options


def _describe_format(name: Identifier, context: BindContext) -> DdlResult:
    found = context.formats.get(name.parts[0])
    if found is None:
        raise _unknown("format", "SS4004", name, sorted(context.formats))
    return _option_rows(list(found.options), f"{found.identifier}.")


def _option_rows(options: list[OptionDescriptor], prefix: str = "") -> DdlResult:
    rows: _Rows = []
    for o in options:
        meaning = f"{o.description} One of {', '.join(o.choices)}." if o.choices else o.description
        rows.append((prefix + o.key, o.type.value, o.default, o.is_required, meaning))
    return DdlResult(Schema.of(*_OPTION_COLUMNS), tuple(rows))


def _describe_function(statement: DescribeExtension) -> DdlResult:
    name = statement.name.parts[-1].upper()
    if name not in callable_names():
        raise unknown_function(name, statement.name.span)
    described = DESCRIPTIONS[name]
    scalar = SCALAR_FUNCTIONS.get(name)
    is_scalar = scalar is not None or name in REWRITTEN_SCALARS
    rows: _Rows = [
        ("signature", REWRITTEN.get(name) or (scalar or AGGREGATE_FUNCTIONS[name]).usage),
        ("description", described.sentence),
    ]
    if described.example:
        rows.append(("example", f"{described.example} gives {described.value}"))
    if statement.is_extended:
        rows += [
            ("kind", "SCALAR" if is_scalar else "AGGREGATE"),
            ("is deterministic", "true" if scalar is None or scalar.is_deterministic else "false"),
        ]
        if not is_scalar:
            rows.append(("takes updating input", "true"))
    return DdlResult(Schema.of(("info name", sql.STRING), ("info value", sql.STRING)), tuple(rows))


def _unknown(what: str, code: str, name: Identifier, known: list[str]) -> UserError:
    hint = did_you_mean(name.parts[0], known) or f"choose one of {', '.join(known)}"
    return UserError(code, f'unknown {what} "{name.parts[0]}"', span=name.span, hint=hint)
