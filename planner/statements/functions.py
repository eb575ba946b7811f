"""CREATE, ALTER and DROP FUNCTION, and what SHOW and DESCRIBE say of users' functions."""

from __future__ import annotations

import functools
import re

from msgspec.structs import replace

from sqlstream import catalog
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.effects import Effects
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.function_ref import (
    DEFAULT_TTL,
    DeclaredOutput,
    DeclaredState,
    FunctionKind,
    FunctionRef,
    InspectedFunction,
    StateShape,
)
from sqlstream.functions.user import skips_null
from sqlstream.planner.bind.context import BindContext, check_database, suggest
from sqlstream.planner.bind.expressions.calls import is_builtin
from sqlstream.planner.bind.expressions.user_functions import FunctionCatalog, function_path
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.planner.statements.result import DdlResult, literal, quoted
from sqlstream.schema import Schema
from sqlstream.spi.packages import Guest, Kind, find_guest, guest_names, load_guest
from sqlstream.types import LogicalType, TypeRoot

_CLASS_NAME = re.compile(r"([^\W\d]\w*\.)+[^\W\d]\w*")


def create_function(statement: statements.CreateFunction, context: BindContext) -> DdlResult:
    """The change that adds the function; none for IF NOT EXISTS when it exists. UserError SS2031 for an object that is no
    function,
    at the place of its name."""
    path = _path(statement, context)
    kind = _kind(statement)
    is_damaged = not statement.is_temporary and context.catalog.is_damaged_function(path)
    if is_damaged or context.catalog.function(path, statement.is_temporary) is not None:
        if statement.if_not_exists:
            return DdlResult.ok(done=f'{kind} "{path.name}" exists already: nothing changed')
        raise UserError(
            "SS2013",
            f'{kind} "{path.name}" exists already',
            span=statement.name.span,
            hint="drop it first, or write CREATE FUNCTION IF NOT EXISTS",
        )
    entry = _resolved(path, statement.body, statement.is_temporary, context)
    is_hidden = not entry.is_system and is_builtin(path.name.upper())
    note = ""
    if is_hidden:
        qualified = f"{path.database}.{path.name}"
        note = f"a built-in function has the name too: {path.name}(…) calls that one, {qualified}(…) this one"
    return DdlResult.ok(catalog.PutFunction(entry), done=f'{kind} "{path.name}" created', note=note)


def alter_function(statement: statements.AlterFunction, context: BindContext) -> DdlResult:
    """The change that replaces the function."""
    path = _path(statement, context)
    kind = _kind(statement)
    found = context.catalog.function(path, statement.is_temporary)
    if found is None:
        if statement.if_exists:
            return DdlResult.ok(done=f'{kind} "{path.name}" does not exist: nothing to alter')
        raise _missing(path, kind, statement.name, context)
    entry = _resolved(path, statement.body, statement.is_temporary, context)
    return DdlResult.ok(catalog.PutFunction(entry, found), done=f'{kind} "{path.name}" altered')


def drop_function(statement: statements.DropFunction, context: BindContext) -> DdlResult:
    """Remove the function; a missing one is an error unless IF EXISTS."""
    path = _path(statement, context)
    kind = _kind(statement)
    if not statement.is_temporary and context.catalog.is_damaged_function(path):
        done = f'function "{path.name}", whose definition could not be read, dropped'
        return DdlResult.ok(catalog.RemoveDamagedFunction(path), done=done)
    found = context.catalog.function(path, statement.is_temporary)
    if found is None:
        other = context.catalog.function(path, True) if not statement.is_temporary else None
        if other is not None:
            hint = f"write DROP TEMPORARY FUNCTION {path.name}"
            message = f'"{path.name}" is a temporary function'
            raise UserError("SS2002", message, span=statement.name.span, hint=hint)
        if statement.if_exists:
            return DdlResult.ok(done=f'{kind} "{path.name}" does not exist: nothing to drop')
        raise _missing(path, kind, statement.name, context)
    return DdlResult.ok(catalog.RemoveFunction(found), done=f'{kind} "{path.name}" dropped')


def show_create_function(name: statements.Identifier, context: BindContext) -> str:
    """CREATE FUNCTION, which makes the same function again. UserError SS2005 when there is none."""
    return _create_text(find_function(name, context))


def describe_user_function(
    name: statements.Identifier, is_extended: bool, context: BindContext
) -> DdlResult | None:
    """Signature, types and origin of a user's function; None for a name that means a built-in one, or none."""
    found = FunctionCatalog(context.catalog, context.installed).find(
        name.parts, context.current_catalog, context.current_database
    )
    if found is None:
        return None
    ref = found.ref
    rows: list[tuple[str, str | None]] = [("signature", ref.usage)]
    if found.comment:
        rows.append(("description", found.comment))
    rows += [
        ("kind", ref.kind.value),
        ("arguments", ", ".join(str(t) if t is not None else "any type" for t in ref.argument_types)),
        ("result", str(ref.result_type)),
        ("language", "PYTHON"),
        ("class name", found.class_name),
    ]
    if found.package:
        rows.append(("package", found.package))
    if is_extended:
        rows += _extended(found)
    return DdlResult.info(rows)


def _extended(found: catalog.CatalogFunction) -> list[tuple[str, str | None]]:
    ref = found.ref
    where = "temporary system" if found.is_system else "temporary" if found.is_temporary else "catalog"
    if found.package:
        where = "package"
    rows: list[tuple[str, str | None]] = [
        ("is deterministic", str(ref.is_deterministic).lower()),
        ("type", ref.mode.value),
        ("scope", where),
        ("files", ", ".join(found.files) or None),
    ]
    nullable = tuple(t.with_nullable(True) for t in ref.argument_types if t is not None)
    if len(nullable) == len(ref.argument_types) and skips_null(ref, nullable):
        of_aggregate = ref.kind is FunctionKind.AGGREGATE
        meaning = "its row is skipped" if of_aggregate else "the result is NULL"
        rows.append(("NULL", f"NULL for an argument that is NOT NULL is not passed: {meaning}"))
    if ref.process is not None:
        for table in ref.process.tables:
            rows.append((f"table {table.name}", ", ".join(table.traits)))
        for state, t in zip(ref.process.states, ref.state_types, strict=True):
            ttl = "" if state.ttl_ms == DEFAULT_TTL else f", ttl {state.ttl_ms} ms"
            rows.append((f"state {state.name}", f"{state.shape.value} {t}{ttl}"))
        if not ref.process.mode.is_insert_only:
            rows.append(("changelog mode", f"{ref.process.mode.value} {ref.process.mode}"))
        for output, t in zip(ref.process.outputs, ref.output_types, strict=True):
            rows.append((f"output {output.name}", str(t)))
    if ref.kind is FunctionKind.AGGREGATE:
        rows += [
            ("accumulator", str(ref.accumulator_type)),
            ("takes updating input", str("retract" in ref.methods).lower()),
            ("two phases", str("merge" in ref.methods).lower()),
        ]
    return rows


def find_function(name: statements.Identifier, context: BindContext) -> catalog.CatalogFunction:
    """The user's function of a name, a temporary one first. UserError SS2005 when there is none."""
    path = function_path(name.parts, context.current_catalog, context.current_database, name.span)
    candidates = [catalog.system_path(path.name)] if len(name.parts) == 1 else []
    for place, is_temporary in [*((c, True) for c in candidates), (path, True), (path, False)]:
        found = context.catalog.function(place, is_temporary)
        if found is not None:
            return found
    if is_builtin(path.name.upper()):
        hint = f"DESCRIBE FUNCTION {path.name} has its signature"
        raise UserError("SS2002", f'"{path.name}" is a built-in function', span=name.span, hint=hint)
    raise _missing(path, "function", name, context)


def _path(
    statement: statements.CreateFunction | statements.AlterFunction | statements.DropFunction,
    context: BindContext,
) -> catalog.ObjectPath:
    name = statement.name
    if statement.is_system:
        if len(name.parts) > 1:
            hint = f"write FUNCTION {name.parts[-1]}"
            message = "a system function is in no catalog and database"
            raise UserError("SS2035", message, span=name.span, hint=hint)
        return catalog.system_path(name.parts[0].lower())
    path = function_path(name.parts, context.current_catalog, context.current_database, name.span)
    check_database(path.catalog, path.database, context, name.span)
    return path


def _kind(statement: statements.CreateFunction | statements.AlterFunction | statements.DropFunction) -> str:
    system = "system " if statement.is_system else ""
    return f"temporary {system}function" if statement.is_temporary else "function"


def _missing(
    path: catalog.ObjectPath, kind: str, name: statements.Identifier, context: BindContext
) -> UserError:
    known = [f.path.name for f in context.catalog.functions(path.catalog, path.database)]
    hint = suggest(path.name, known, "functions") if known else "SHOW USER FUNCTIONS lists those there are"
    return UserError("SS2005", f'{kind} "{path.name}" does not exist', span=name.span, hint=hint)


def _resolved(
    path: catalog.ObjectPath, body: statements.FunctionBody, is_temporary: bool, context: BindContext
) -> catalog.CatalogFunction:
    """The function as the Python object declares it."""
    if _CLASS_NAME.fullmatch(body.class_name) is None:
        message = f"'{body.class_name}' names no object of a Python module"
        hint = "write AS 'module.function', or AS 'package.module.function'"
        raise UserError("SS2031", message, span=body.span, hint=hint)
    module, _, attribute = body.class_name.rpartition(".")
    files = tuple(f.path for f in body.files)
    inspector = context.functions
    if inspector is None:
        raise UserError("SS2034", "Python functions cannot be created here", span=body.span)
    # Its file is read and its code runs before the catalog changes.
    context.permit.require(Effects(modules=frozenset({module}), files=frozenset(files)), body.span)
    try:
        declared = inspector.inspect(module, attribute, files)
    except UserError as error:
        at_file = next((f.span for f in body.files if f'"{f.path}"' in error.message), None)
        raise error.at(at_file or body.span) from error.__cause__
    if declared.kind is FunctionKind.PREDICT:
        message = f'Python class "{body.class_name}" is a model, and no function'
        hint = f"write CREATE MODEL … WITH ('provider' = 'python', 'class' = '{body.class_name}')"
        raise UserError("SS2031", message, span=body.span, hint=hint)
    shown = ".".join(p for p in (path.catalog, path.database, path.name) if p)
    try:
        ref = function_ref(shown, module, attribute, declared)
    except UserError as error:
        hint = error.hint or "correct the declaration in the Python module"
        raise UserError(
            "SS2032", f"{body.class_name} is declared wrongly: {error.message}", span=body.span, hint=hint
        ) from None
    return catalog.CatalogFunction(path, body.class_name, ref, files, declared.comment, is_temporary)


def function_ref(path: str, module: str, attribute: str, declared: InspectedFunction) -> FunctionRef:
    """The reference of a function with this path. UserError SS2032 for types that a function cannot have."""
    ref = FunctionRef(
        path,
        module,
        attribute,
        declared.kind,
        declared.mode,
        declared.parameters,
        tuple(_type(text, "an argument") if text else None for text in declared.argument_types),
        _type(declared.result_type, "the result"),
        declared.optional,
        declared.is_variadic,
        declared.is_deterministic,
        _type(declared.accumulator_type, "the accumulator") if declared.accumulator_type else None,
        declared.methods,
        declared.process,
        () if declared.process is None else tuple(_state_type(state) for state in declared.process.states),
        ()
        if declared.process is None
        else tuple(_output_type(output) for output in declared.process.outputs),
    )
    if ref.kind is FunctionKind.PROCESS_TABLE:
        ref = replace(ref, result_type=_of_columns(ref.result_type))
    if ref.kind is FunctionKind.TABLE and ref.result_type.root is not TypeRoot.ROW:
        raise UserError("SS2032", "the rows of a table function are of a ROW type")
    for made in (
        (ref.result_type, *ref.output_types)
        if ref.kind in (FunctionKind.TABLE, FunctionKind.PROCESS_TABLE)
        else ()
    ):
        names = [f.name for f in made.fields]
        repeated = next((n for n in names if names.count(n) > 1), None)
        if repeated is not None:
            raise UserError("SS2032", f'two columns of the rows are "{repeated}"')
    if ref.kind is FunctionKind.AGGREGATE:
        # An aggregate of no rows may be NULL, whatever it is of rows.
        ref = replace(ref, result_type=ref.result_type.with_nullable(True))
    return ref


def _of_columns(t: LogicalType) -> LogicalType:
    """The ROW of the columns; Flink's name for the only one of a row."""
    return t if t.root is TypeRoot.ROW else sql.row(("EXPR$0", t))


def _output_type(output: DeclaredOutput) -> LogicalType:
    return _of_columns(_type(output.type, f'output "{output.name}"'))


def _state_type(state: DeclaredState) -> LogicalType:
    found = _type(state.type, f'state "{state.name}"')
    if state.shape is StateShape.MAP and found.parts[0].root in sql.CONSTRUCTED_ROOTS:
        hint = "write a simple type, or a text that stands for the value"
        raise UserError("SS2032", f'a key of the map "{state.name}" is no {found.parts[0]}', hint=hint)
    return found


def _type(text: str, what: str) -> LogicalType:
    try:
        found = parse_type(text)
        to_arrow_type(found)
    except SqlStreamError as error:
        raise UserError(
            "SS2032", f'"{text}" is no type for {what}: {error.message}', hint=error.hint
        ) from None
    if found.root in (TypeRoot.NULL, TypeRoot.VARIANT):
        raise UserError("SS2032", f'"{text}" is no type for {what}', hint="choose a type of values of Python")
    return found


def _create_text(found: catalog.CatalogFunction) -> str:
    kind = "TEMPORARY SYSTEM " if found.is_system else "TEMPORARY " if found.is_temporary else ""
    name = quoted(found.path.name) if found.is_system else str(found.path)
    text = f"CREATE {kind}FUNCTION {name} AS {literal(found.class_name)} LANGUAGE PYTHON"
    if found.files:
        text += f"\nUSING {', '.join(f'FILE {literal(f)}' for f in found.files)}"
    return text + "\n"


# Modules: there is one, `core`, with all built-in functions.


CORE = "core"


def change_modules(statement: statements.ChangeModules) -> DdlResult:
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
    if statement.action is statements.ModuleAction.USE:
        return DdlResult.ok(done=f'modules in use: "{CORE}"')
    is_loading = statement.action is statements.ModuleAction.LOAD
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


# The functions that other packages bring, as calls find them: their plain names mean them where nothing else has the
# name.


class PackageFunctions:
    """Implements `InstalledFunctions` by entry points. A package's module is imported when its function is first asked for."""

    def find(self, name: str) -> catalog.CatalogFunction | None:
        """The function of a name in small letters. UserError SS4014, SS4015 for a package that cannot be used."""
        guest = find_guest(Kind.FUNCTION, name)
        return None if guest is None else _declared(guest)

    def names(self) -> list[str]:
        return guest_names(Kind.FUNCTION)


@functools.cache
def _declared(guest: Guest) -> catalog.CatalogFunction:
    from sqlstream.python_functions import UserFunction

    found = load_guest(guest)
    if not isinstance(found, UserFunction):
        raise UserError(
            "SS4015",
            f'{guest.label} is "{guest.place}", which is no function of sqlstream',
            hint="decorate it: from sqlstream import udf, then @udf(result_type='BIGINT') above the function",
        )
    module, _, attribute = guest.place.partition(":")
    try:
        ref = function_ref(guest.name, module, attribute, found.declared)
    except UserError as error:
        raise UserError(
            "SS4015",
            f"{guest.label} is declared wrongly: {error.message}",
            hint=error.hint or f"report it to the authors of {guest.distribution}",
        ) from None
    return catalog.CatalogFunction(
        catalog.system_path(guest.name),
        f"{module}.{attribute}",
        ref,
        comment=found.declared.comment,
        package=guest.package,
    )
