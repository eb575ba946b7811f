"""CREATE, ALTER, DROP, DESCRIBE and SHOW CREATE of catalogs."""

from __future__ import annotations

from sqlstream.catalog import (
    DEFAULT_CATALOG,
    CatalogDatabase,
    CatalogDefinition,
    PutCatalog,
    PutDatabase,
    RemoveCatalog,
    RemoveDatabase,
    UseDatabase,
)
from sqlstream.errors import ErrorsAt, Span, UserError, choose_one_of
from sqlstream.planner.bind.context import BindContext, check_catalog, database_path, suggest
from sqlstream.planner.bind.relations.table_options import written_options
from sqlstream.planner.dialect import statements
from sqlstream.planner.statements.result import DdlResult, literal, options_clause, quoted
from sqlstream.secrets import masked
from sqlstream.spi.catalog import CatalogDescriptor


def create_catalog(statement: statements.CreateCatalog, context: BindContext) -> DdlResult:
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


def alter_catalog(statement: statements.AlterCatalog, context: BindContext) -> DdlResult:
    """Set or reset options of the catalog, or replace its comment; tables stay where they are (Flink: AlterCatalog*Operation).

    Another `path` makes the catalog one of what is kept there. A default database that is missing is made.
    """
    name = statement.name.parts[-1]
    before = _find_catalog(statement.name, context)
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
    statement: statements.AlterCatalog, before: CatalogDefinition, context: BindContext
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


def _check_values(options: tuple[statements.Option, ...]) -> None:
    for option in options:
        if not option.value:
            hint = "give it a value, or leave it out"
            message = f'option "{option.key}" cannot be empty'
            raise UserError("SS4002", message, span=option.value_span, hint=hint)


def _check_options(
    options: tuple[statements.Option, ...], name: statements.Identifier, context: BindContext
) -> None:
    written = {o.key: o for o in options}
    kind = written.get("type")
    if kind is None:
        hint = f"add 'type' = '…' to WITH (…), one of {', '.join(context.catalog_types)}"
        raise UserError("SS4005", "the catalog names no type", span=name.span, hint=hint)
    with ErrorsAt(kind.value_span):  # a package that cannot be used
        known = context.catalog_types.get(kind.value)
    if known is None:
        hint = choose_one_of(kind.value, list(context.catalog_types))
        raise UserError("SS4004", f'unknown catalog type "{kind.value}"', span=kind.value_span, hint=hint)
    for option in options:
        if option.key not in ("type", *known.required, *known.optional):
            raise _unknown_option(option.key, known, option.key_span)
    _check_values(options)
    missing = next((key for key in known.required if key not in written), None)
    if missing is not None:
        message = f'catalog type "{kind.value}" needs the option "{missing}"'
        raise UserError("SS4005", message, span=kind.value_span, hint=f"add '{missing}' = '…'")


def drop_catalog(statement: statements.DropCatalog, context: BindContext) -> DdlResult:
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
        hint = "leave it: sessions begin in it"
        raise UserError("SS2015", f'catalog "{name}" cannot be dropped', span=span, hint=hint)
    return DdlResult.ok(RemoveCatalog(name), done=f'catalog "{name}" dropped')


def describe_catalog(statement: statements.DescribeNamespace, context: BindContext) -> DdlResult:
    """Name, type and comment, with EXTENDED its options too (Flink: DescribeCatalogOperation)."""
    definition = _find_catalog(statement.name, context)
    rows: list[tuple[str, str | None]] = [("name", statement.name.parts[-1]), ("type", definition.type)]
    rows.append(("comment", definition.comment or None))
    if statement.is_extended:
        options = sorted(definition.options.items())
        rows += [(f"option:{k}", masked(k, v)) for k, v in options if k != "type"]
    return DdlResult.info(rows)


def show_create_catalog(name: statements.Identifier, context: BindContext) -> str:
    """CREATE CATALOG in Flink's layout; it creates the same catalog again, except for masked values of secrets."""
    definition = _find_catalog(name, context)
    comment = f"COMMENT {literal(definition.comment)}\n" if definition.comment else ""
    return f"CREATE CATALOG {quoted(name.parts[-1])}\n{comment}{options_clause(definition.options)}"


def _find_catalog(name: statements.Identifier, context: BindContext) -> CatalogDefinition:
    check_catalog(name.parts[-1], context, name.span)
    definition = context.catalog.definition(name.parts[-1])
    assert definition is not None
    return definition


# CREATE, ALTER, DROP and DESCRIBE of databases, and USE of a database or catalog.


def create_database(statement: statements.CreateDatabase, context: BindContext) -> DdlResult:
    """The change that adds the database; none for IF NOT EXISTS when it exists."""
    name = statement.name
    catalog, database = database_path(name.parts, context, name.span, exists=False)
    if database in context.catalog.databases(catalog):
        if statement.if_not_exists:
            return DdlResult.ok(done=f'database "{database}" exists already: nothing changed')
        raise UserError(
            "SS2013",
            f'database "{catalog}.{database}" exists already',
            span=name.span,
            hint="drop it first, or write CREATE DATABASE IF NOT EXISTS",
        )
    made = CatalogDatabase(statement.comment, written_options(statement.options))
    return DdlResult.ok(PutDatabase(catalog, database, made), done=f'database "{database}" created')


def alter_database(statement: statements.AlterDatabase, context: BindContext) -> DdlResult:
    """Set properties of the database; the others stay."""
    catalog, database, before = _find_database(statement.name, context)
    properties = before.properties | written_options(statement.options)
    change = PutDatabase(catalog, database, CatalogDatabase(before.comment, properties), before)
    return DdlResult.ok(change, done=f'database "{database}" altered')


def drop_database(statement: statements.DropDatabase, context: BindContext) -> DdlResult:
    """Remove the database, which is empty unless CASCADE is written, and not the current one."""
    name = statement.name
    catalog, database = database_path(name.parts, context, name.span, exists=False)
    known = context.catalog.databases(catalog)
    if database not in known:
        if statement.if_exists:
            return DdlResult.ok(done=f'database "{database}" does not exist: nothing to drop')
        message = f'database "{catalog}.{database}" does not exist'
        raise UserError("SS2014", message, span=name.span, hint=suggest(database, list(known), "databases"))
    if (catalog, database) == (context.current_catalog, context.current_database):
        raise UserError(
            "SS2015",
            f'database "{database}" is the current one and cannot be dropped',
            span=name.span,
            hint="make another one current with USE",
        )
    is_empty = context.catalog.is_empty(catalog, database)
    if not statement.is_cascade and not is_empty:
        names = context.catalog.names(catalog, database)
        raise UserError(
            "SS2015",
            f'database "{catalog}.{database}" is not empty',
            span=name.span,
            detail=f"it holds {', '.join(names[:10])}{', …' if len(names) > 10 else ''}",
            hint="drop its tables and views first, or write CASCADE to drop them with it",
        )
    change = RemoveDatabase(catalog, database, statement.is_cascade)
    return DdlResult.ok(change, done=f'database "{database}" dropped')


def use(statement: statements.Use, context: BindContext) -> DdlResult:
    """Make a database, or a catalog with its default database, the current one."""
    name = statement.name
    if statement.is_catalog:
        catalog = name.parts[-1]
        check_catalog(catalog, context, name.span)
        definition = context.catalog.definition(catalog)
        assert definition is not None
        database = definition.default_database
    else:
        catalog, database = database_path(name.parts, context, name.span)
    done = f'the current database is "{catalog}.{database}"'
    return DdlResult.ok(UseDatabase(catalog, database), done=done)


def describe_database(statement: statements.DescribeNamespace, context: BindContext) -> DdlResult:
    """Name, catalog and comment, with EXTENDED its properties too."""
    catalog, database, found = _find_database(statement.name, context)
    rows: list[tuple[str, str | None]] = [("name", database), ("catalog", catalog)]
    rows.append(("comment", found.comment or None))
    if statement.is_extended:
        rows += [(f"property:{k}", masked(k, v)) for k, v in sorted(found.properties.items())]
    return DdlResult.info(rows)


def _find_database(name: statements.Identifier, context: BindContext) -> tuple[str, str, CatalogDatabase]:
    catalog, database = database_path(name.parts, context, name.span)
    found = context.catalog.database(catalog, database)
    assert found is not None
    return catalog, database, found
