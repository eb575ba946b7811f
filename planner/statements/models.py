"""CREATE, ALTER and DROP MODEL, and what SHOW and DESCRIBE say of models."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from sqlstream import catalog
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.catalog import CatalogModel, ChangeModel, Column, ObjectPath
from sqlstream.effects import Effects
from sqlstream.errors import UserError, choose_one_of, did_you_mean
from sqlstream.function_ref import FunctionKind
from sqlstream.models import PROVIDERS, TRAINED, UNBUILT_PROVIDERS, WEIGHTS_PATH
from sqlstream.planner.bind.context import (
    BindContext,
    check_database,
    created_path,
    object_path,
    renamed_path,
)
from sqlstream.planner.bind.relations.models import class_of, files_of, find_model, missing_model
from sqlstream.planner.bind.relations.table_options import check_value
from sqlstream.planner.dialect import statements
from sqlstream.planner.statements.result import DdlResult, literal, options_clause, quoted
from sqlstream.planner.statements.training import check_trained
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot


def create_model(statement: statements.CreateModel, context: BindContext) -> DdlResult:
    """The change that adds the model; none for IF NOT EXISTS when it exists. UserError SS3464 for its columns, SS400x for its
    options."""
    path, existing = existing_model(statement, context)
    if existing is not None:
        return existing
    inputs, outputs = model_columns(statement.inputs), model_columns(statement.outputs)
    places = statements.OptionPlaces.of(statement.options, None if statement.options else statement.span)
    options = {option.key: option.value for option in statement.options}
    entry = CatalogModel(path, inputs, outputs, options, statement.comment, statement.is_temporary)
    check_model(entry, context, places)
    kind = "temporary model" if entry.is_temporary else "model"
    return DdlResult.ok(ChangeModel(None, entry), done=f'{kind} "{path.name}" created')


def existing_model(
    statement: statements.CreateModel, context: BindContext
) -> tuple[ObjectPath, DdlResult | None]:
    """The path of a model to be created, and the answer where there is nothing to do. UserError SS2013 when it exists already."""
    path = created_path(statement.name.parts, context, statement.name.span)
    kind = "temporary model" if statement.is_temporary else "model"
    is_damaged = not statement.is_temporary and context.catalog.is_damaged_model(path)
    if not is_damaged and context.catalog.model(path, statement.is_temporary) is None:
        return path, None
    if statement.if_not_exists:
        return path, DdlResult.ok(done=f'{kind} "{path.name}" exists already: nothing changed')
    hint = "drop it first, or write CREATE MODEL IF NOT EXISTS"
    raise UserError("SS2013", f'{kind} "{path.name}" exists already', span=statement.name.span, hint=hint)


def alter_model(statement: statements.AlterModel, context: BindContext) -> DdlResult:
    """The change that renames the model, or gives it other options."""
    path = object_path(statement.name.parts, context, statement.name.span)
    if statement.if_exists and not (context.catalog.model(path, True) or context.catalog.model(path, False)):
        return DdlResult.ok(done=f'model "{path.name}" does not exist: nothing changed')
    found = find_model(statement.name.parts, context, statement.name.span)
    if statement.target is not None:
        return _renamed(found, statement.target, context)
    if not statement.options and not statement.reset:
        raise UserError(
            "SS2011", "ALTER MODEL … SET takes at least one option", span=statement.span, hint="name one"
        )
    options = dict(found.options)
    for key in statement.reset:
        if options.pop(key.parts[0], None) is None:
            hint = did_you_mean(key.parts[0], list(options)) or f"its options are {', '.join(found.options)}"
            message = f'model "{path.name}" has no option "{key.parts[0]}"'
            raise UserError("SS4003", message, span=key.span, hint=hint)
    options |= {option.key: option.value for option in statement.options}
    altered = replace(found, options=options)
    otherwise = statement.reset[0].span if statement.reset else None
    check_model(altered, context, statements.OptionPlaces.of(statement.options, otherwise))
    return DdlResult.ok(ChangeModel(found, altered), done=f'model "{path.name}" altered')


def drop_model(statement: statements.DropModel, context: BindContext) -> DdlResult:
    """Remove the model; a missing one is an error unless IF EXISTS."""
    path = object_path(statement.name.parts, context, statement.name.span)
    kind = "temporary model" if statement.is_temporary else "model"
    if not statement.is_temporary and context.catalog.is_damaged_model(path):
        done = f'model "{path.name}", whose definition could not be read, dropped'
        return DdlResult.ok(catalog.RemoveDamagedModel(path), done=done)
    if not statement.is_temporary and context.catalog.model(path, True) is not None:
        hint = f"write DROP TEMPORARY MODEL {path.name}"
        message = f'"{path.name}" is a temporary model'
        raise UserError("SS2002", message, span=statement.name.span, hint=hint)
    found = context.catalog.model(path, statement.is_temporary)
    if found is None:
        if statement.if_exists:
            return DdlResult.ok(done=f'{kind} "{path.name}" does not exist: nothing to drop')
        check_database(path.catalog, path.database, context, statement.name.span)
        raise missing_model(path, kind, context, statement.name.span)
    return DdlResult.ok(ChangeModel(found, None), done=f'{kind} "{path.name}" dropped')


def _renamed(found: CatalogModel, target: statements.Identifier, context: BindContext) -> DdlResult:
    path = renamed_path(found.path, target.parts, "model", context, target.span)
    if context.catalog.model(path, found.is_temporary) is not None:
        message = f'model "{path.name}" exists already'
        raise UserError("SS2013", message, span=target.span, hint="choose another name")
    change = ChangeModel(found, replace(found, path=path))
    return DdlResult.ok(change, done=f'model "{found.path.name}" is now "{path.name}"')


def model_columns(written: tuple[statements.ColumnDef, ...]) -> tuple[Column, ...]:
    columns: list[Column] = []
    for column in written:
        assert column.type is not None
        if any(c.name == column.name for c in columns):
            message = f'column "{column.name}" is declared twice'
            raise UserError("SS2012", message, span=column.span, hint="keep one of the two")
        if column.type.root in (TypeRoot.NULL, TypeRoot.VARIANT):
            message = f'column "{column.name}" of a model cannot be {column.type}'
            raise UserError("SS3464", message, span=column.span, hint="choose a type of numbers or text")
        to_arrow_type(column.type)
        columns.append(Column(column.name, column.type, comment=column.comment))
    return tuple(columns)


def check_model(model: CatalogModel, context: BindContext, places: statements.OptionPlaces) -> None:
    """UserError SS4002 to SS4005 for options that the provider does not take, at their place; and what is wrong with its files
    and class."""
    with places.errors():
        check_model_options(model.options)
        inputs, outputs = (
            Schema.of(*((c.name, c.type) for c in part)) for part in (model.inputs, model.outputs)
        )
        PROVIDERS[model.provider].check(inputs, outputs, model.options)
        if model.options["provider"] == TRAINED:
            check_trained(model)
            context.permit.require(
                Effects(files=frozenset({model.options[WEIGHTS_PATH]})), places.values.get(WEIGHTS_PATH)
            )
    paths = (model.options["path"],) if "path" in model.options else ()
    at_path = places.values.get("path") or places.otherwise
    if paths:
        # The file is read before the catalog changes.
        context.permit.require(Effects(files=frozenset(paths)), at_path)
        try:
            context.model_version(paths[0])
        except UserError as error:
            raise error.at(at_path) from error.__cause__
    if model.provider == "python":
        _check_class(model, context, places)


def check_model_options(options: Mapping[str, str]) -> None:
    if "provider" not in options:
        hint = f"add 'provider' = '…' to WITH (…), one of {', '.join(PROVIDERS)}"
        raise UserError("SS4005", "the model names no provider", hint=hint, option="provider")
    provider = PROVIDERS.get(options["provider"].lower())
    if provider is None or options["provider"] != provider.identifier:
        named = options["provider"]
        known = "is not supported" if named.lower() in UNBUILT_PROVIDERS else "is unknown"
        hint = choose_one_of(named, list(PROVIDERS))
        raise UserError("SS4004", f'the provider "{named}" of models {known}', hint=hint, option="provider")
    for key, value in options.items():
        if key == "provider":
            continue
        option = next((o for o in provider.options if _is_meant(o.key, key)), None)
        if key in provider.refused:
            message = f'option "{key}" of provider "{provider.identifier}" is not supported'
            raise UserError("SS4003", message, hint=provider.refused[key], option=key)
        if option is None:
            keys = ["provider", *(o.key for o in provider.options)]
            hint = did_you_mean(key, keys) or f"the options are {', '.join(keys)}"
            message = f'unknown option "{key}" of provider "{provider.identifier}"'
            raise UserError("SS4003", message, hint=hint, option=key)
        try:
            check_value(key, value, option, None)
        except UserError as error:
            raise UserError(error.code, error.message, hint=error.hint, option=key) from error
    for option in provider.options:
        if option.is_required and not options.get(option.key):
            message = f'provider "{provider.identifier}" needs option "{option.key}"'
            hint = f"add '{option.key}' = '…' to WITH (…)"
            raise UserError("SS4005", message, hint=hint, option=option.key)


def _is_meant(declared: str, key: str) -> bool:
    return (
        key.startswith(declared[:-1]) and len(key) >= len(declared)
        if declared[-1:] == "*"
        else key == declared
    )


def _check_class(model: CatalogModel, context: BindContext, places: statements.OptionPlaces) -> None:
    """Import the class, as CREATE FUNCTION does. UserError SS2031 for what is no model."""
    at_class = places.values.get("class") or places.otherwise
    module, attribute = class_of(model, at_class)
    files = files_of(model)
    if context.functions is None:
        raise UserError("SS2034", "models in Python cannot be created here", span=at_class)
    context.permit.require(Effects(modules=frozenset({module}), files=frozenset(files)), at_class)
    try:
        declared = context.functions.inspect(module, attribute, files)
    except UserError as error:
        at_files = places.values.get("files") if any(f'"{f}"' in error.message for f in files) else None
        raise error.at(at_files or at_class) from error.__cause__
    if declared.kind is not FunctionKind.PREDICT:
        message = f'Python object "{module}.{attribute}" is a function, and no model'
        hint = "name a class that derives from sqlstream.PredictFunction, or write CREATE FUNCTION"
        raise UserError("SS2031", message, span=at_class, hint=hint)


# SHOW CREATE MODEL and DESCRIBE MODEL.


def show_create_model(name: statements.Identifier, context: BindContext) -> str:
    """CREATE MODEL in Flink's layout; it makes the same model again, except for masked values of secrets."""
    found = find_model(name.parts, context, name.span)
    temporary = "TEMPORARY " if found.is_temporary else ""
    text = f"CREATE {temporary}MODEL {found.path}\n"
    for word, columns in (("INPUT", found.inputs), ("OUTPUT", found.outputs)):
        shown = ", ".join(
            f"{quoted(c.name)} {c.type}{f' COMMENT {literal(c.comment)}' if c.comment else ''}"
            for c in columns
        )
        text += f"{word} ({shown})\n"
    if found.comment:
        text += f"COMMENT {literal(found.comment)}\n"
    return text + options_clause(found.options)


_COLUMNS = (("name", sql.STRING), ("type", sql.STRING), ("null", sql.BOOLEAN), ("is input", sql.BOOLEAN))


def describe_model(name: statements.Identifier, context: BindContext) -> DdlResult:
    """A row for each input and output, with Flink's columns."""
    found = find_model(name.parts, context, name.span)
    columns = [*((c, True) for c in found.inputs), *((c, False) for c in found.outputs)]
    rows = [(c.name, str(c.type.with_nullable(True)), c.type.nullable, is_input) for c, is_input in columns]
    if not any(c.comment for c, _ in columns):
        return DdlResult(Schema.of(*_COLUMNS), tuple(rows))
    commented = tuple((*row, c.comment or None) for row, (c, _) in zip(rows, columns, strict=True))
    return DdlResult(Schema.of(*_COLUMNS, ("comment", sql.STRING)), commented)


def models_of(catalog_name: str, database: str, context: BindContext) -> list[str]:
    """The names of the models of a database."""
    return [model.path.name for model in context.catalog.models(catalog_name, database)]
