"""CREATE, ALTER, DROP, DESCRIBE and SHOW CREATE of catalogs."""

from __future__ import annotations

from sqlstream.catalog import DEFAULT_CATALOG, CatalogDefinition, PutCatalog, RemoveCatalog
from sqlstream.errors import UserError, did_you_mean
from sqlstream.excerpt import Span
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.names import check_catalog, suggest
from sqlstream.planner.bind.table_options import written_options
from sqlstream.planner.dialect.statements import (
    AlterCatalog,
    CreateCatalog,
    DescribeNamespace,
    DropCatalog,
    Identifier,
    Option,
)
from sqlstream.planner.statements.quoting import literal, quoted
from sqlstream.planner.statements.result import DdlResult
from sqlstream.secrets import masked
from sqlstream.spi.catalog import CatalogDescriptor


def create_catalog(statement: CreateCatalog, context: BindContext) -> DdlResult:
    """The change that adds the catalog; none for IF NOT EXISTS when it exists."""
    name = statement.name.parts[-1]
    if name in context.catalog.catalogs():
        if statement.if_not_exists:
            return DdlResult.ok(done=f'catalog "{name}" exists already: nothing changed')
        raise UserError(
            "SS2013",
            f'catalog "{name}" exists already',
            span=statement.name.span,
            hint="drop it first, or write CREATE CATALOG IF NOT EXISTS",
        )
    _check_options(statement.options, statement.name, context)
    definition = CatalogDefinition(written_options(statement.options), statement.comment)
    return DdlResult.ok(PutCatalog(name, definition), done=f'catalog "{name}" created')


def alter_catalog(statement: AlterCatalog, context: BindContext) -> DdlResult:
    """Set or reset options of the catalog, or replace its comment; tables stay where they are (Flink: AlterCatalog*Operation).

    Another `path` makes the catalog one of what is kept there. A default database that is missing is made.
    """
    name = statement.name.parts[-1]
    before = _find(statement.name, context)
    if name == DEFAULT_CATALOG:
        detail = "sessions begin in it, and no statement created it"
        hint = "make a catalog of your own with CREATE CATALOG"
        message = f'catalog "{name}" cannot be altered'
        raise UserError("SS2015", message, span=statement.name.span, detail=detail, hint=hint)
    if statement.comment is not None:
        options, comment = before.options, statement.comment
    else:
        options, comment = _changed_options(statement, before, context), before.comment
    change = PutCatalog(name, CatalogDefinition(options, comment), before)
    return DdlResult.ok(change, done=f'catalog "{name}" altered')


def _changed_options(
    statement: AlterCatalog, before: CatalogDefinition, context: BindContext
) -> dict[str, str]:
    fixed = [(o.key, o.key_span) for o in statement.options] + [
        (key.parts[0], key.span) for key in statement.reset
    ]
    for key, span in fixed:
        if key == "type":
            hint = "create another catalog of that type"
            raise UserError("SS4002", "the type of a catalog cannot be altered", span=span, hint=hint)
    known = context.catalog_types[before.type]
    for key, span in fixed:
        if key not in (*known.required, *known.optional):
            raise _unknown_option(key, known, span, ())
    for key, span in fixed[len(statement.options) :]:
        if key in known.required:
            message = f'catalog type "{before.type}" needs the option "{key}"'
            raise UserError("SS4005", message, span=span, hint=f"SET ('{key}' = '…') gives it another value")
    _check_values(statement.options)
    reset = {key.parts[0] for key in statement.reset}
    return {k: v for k, v in before.options.items() if k not in reset} | written_options(statement.options)


def _unknown_option(
    key: str, known: CatalogDescriptor, span: Span, always: tuple[str, ...] = ("type",)
) -> UserError:
    keys = (*always, *known.required, *known.optional)
    message = f'unknown option "{key}" of catalog type "{known.identifier}"'
    return UserError("SS4003", message, span=span, hint=suggest(key, list(keys), "options"))


def _check_values(options: tuple[Option, ...]) -> None:
    for option in options:
        if not option.value:
            hint = "give it a value, or leave it out"
            message = f'option "{option.key}" cannot be empty'
            raise UserError("SS4002", message, span=option.value_span, hint=hint)


def _check_options(options: tuple[Option, ...], name: Identifier, context: BindContext) -> None:
    written = {o.key: o for o in options}
    kind = written.get("type")
    if kind is None:
        hint = f"add 'type' = '…' to WITH (…), one of {', '.join(context.catalog_types)}"
        raise UserError("SS4005", "the catalog names no type", span=name.span, hint=hint)
    try:
        known = context.catalog_types.get(kind.value)
    except UserError as error:  # a package that cannot be used
        raise error.at(kind.value_span) from error.__cause__
    if known is None:
        types = list(context.catalog_types)
        hint = did_you_mean(kind.value, types) or f"choose one of {', '.join(types)}"
        raise UserError("SS4004", f'unknown catalog type "{kind.value}"', span=kind.value_span, hint=hint)
    for option in options:
        if option.key not in ("type", *known.required, *known.optional):
            raise _unknown_option(option.key, known, option.key_span)
    _check_values(options)
    missing = next((key for key in known.required if key not in written), None)
    if missing is not None:
        message = f'catalog type "{kind.value}" needs the option "{missing}"'
        raise UserError("SS4005", message, span=kind.value_span, hint=f"add '{missing}' = '…'")


def drop_catalog(statement: DropCatalog, context: BindContext) -> DdlResult:
    """Forget the catalog, which is not the current one; what it keeps in files stays there."""
    name, span = statement.name.parts[-1], statement.name.span
    if name not in context.catalog.catalogs() and statement.if_exists:
        return DdlResult.ok(done=f'catalog "{name}" does not exist: nothing to drop')
    check_catalog(name, context, span)
    if name == context.current_catalog:
        hint = "make another one current with USE CATALOG"
        message = f'catalog "{name}" is the current one and cannot be dropped'
        raise UserError("SS2015", message, span=span, hint=hint)
    if name == DEFAULT_CATALOG:
        hint = "sessions begin in it"
        raise UserError("SS2015", f'catalog "{name}" cannot be dropped', span=span, detail=hint)
    return DdlResult.ok(RemoveCatalog(name), done=f'catalog "{name}" dropped')


def describe_catalog(statement: DescribeNamespace, context: BindContext) -> DdlResult:
    """Name, type and comment, with EXTENDED its options too (Flink: DescribeCatalogOperation)."""
    definition = _find(statement.name, context)
    rows: list[tuple[str, str | None]] = [("name", statement.name.parts[-1]), ("type", definition.type)]
    rows.append(("comment", definition.comment or None))
    if statement.is_extended:
        options = sorted(definition.options.items())
        rows += [(f"option:{k}", masked(k, v)) for k, v in options if k != "type"]
    return DdlResult.info(rows)


def show_create_catalog(name: Identifier, context: BindContext) -> str:
    """CREATE CATALOG in Flink's layout; it creates the same catalog again, except for masked values of secrets."""
    definition = _find(name, context)
    comment = f"COMMENT {literal(definition.comment)}\n" if definition.comment else ""
    options = ",\n".join(
        f"  {literal(k)} = {literal(masked(k, v))}" for k, v in sorted(definition.options.items())
    )
    return f"CREATE CATALOG {quoted(name.parts[-1])}\n{comment}WITH (\n{options}\n)\n"


def _find(name: Identifier, context: BindContext) -> CatalogDefinition:
    check_catalog(name.parts[-1], context, name.span)
    definition = context.catalog.definition(name.parts[-1])
    assert definition is not None
    return definition
