"""f(input => TABLE t PARTITION BY k, n => 1): the rows that a user's process table function makes of tables."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from sqlglot import exp

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.expressions import Expression, InputRef, Literal, SortKey, inputs_of
from sqlstream.function_ref import OUTPUT, DeclaredTable, FunctionKind, FunctionRef
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import (
    can_cast_implicitly,
    cast_to,
    plain,
    require_key,
    require_order,
)
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.expressions.user_functions import user_function
from sqlstream.planner.bind.ordering import sort_key
from sqlstream.planner.bind.relations.table_functions import unknown_call, written_arguments
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import ProcessOutput, ProcessTable
from sqlstream.planner.relational.process_table import made_schema
from sqlstream.planner.rules.constant_folding import fold
from sqlstream.schema import Field
from sqlstream.specs.process_table import ProcessInput

COUNT_WINDOW = "sqlstream.functions.count_window"
WINDOWS_MAX = 1_000
"""How many windows of COUNT_WINDOW a row may be in."""
ON_TIME, UID = "on_time", "uid"
ROWTIME = "rowtime"
"""The last column of the output of a call with on_time."""
UID_CHARACTERS_MAX = 100

BindItem = Callable[[exp.Expr, Namespace], FromItem]


def bind_process_table(node: nodes.TableCall, namespace: Namespace, bind_item: BindItem) -> FromItem:
    """UserError SS2005 for a function that there is none of, SS2030 for one that reads no tables, SS3430 to SS3432 for arguments
    that do not fit."""
    span = namespace.span(node)
    ref = _function(node, namespace)
    if ref.kind is not FunctionKind.PROCESS_TABLE or ref.process is None:
        kind = ref.kind.value.lower()
        hint = f"write {'LATERAL TABLE(' if ref.kind is FunctionKind.TABLE else ''}{ref.usage}"
        raise UserError(
            "SS2030",
            f"{ref.name} is a function of kind {kind}, and reads no table",
            span=span,
            hint=hint,
        )
    given = _arguments(node, ref, namespace)
    inputs, sources = [], []
    for table in ref.process.tables:
        argument = given.get(table.name)
        if argument is None:
            raise _refusal(f'{ref.name} needs its table "{table.name}"', span, f"write {_usage(ref)}")
        source = bind_item(argument.this, namespace)
        inputs.append(_input(argument, table, source, namespace))
        sources.append(source)
    _check_keys(ref, inputs, sources, span)
    arguments = tuple(_scalar(ref, place, given, namespace, span) for place in _scalar_places(ref))
    if ref.module == COUNT_WINDOW:
        _check_count_window(arguments, given, namespace)
    if (time := _on_time(ref, given.get(ON_TIME), sources, span, namespace)) is not None:
        inputs = [
            replace(read, time_column=source.node.schema.index_of(time.name))
            for read, source in zip(inputs, sources, strict=True)
        ]
        time = Field(ROWTIME, time.type)
    _check_order(inputs, span)
    if ref.process.mode is ChangelogMode.UPSERT and not inputs[0].partition_keys:
        said = f"{ref.name} replaces rows by their key, and there is none"
        hint = f"write {inputs[0].name} => TABLE t PARTITION BY k, or declare changelog_mode = ChangelogMode.RETRACT"
        raise UserError("SS3561", said, span=span, hint=hint)
    name = _output(ref, given.get(OUTPUT), namespace)
    made = ProcessTable(
        tables=tuple(s.node for s in sources),
        ref=ref,
        reads=tuple(inputs),
        arguments=arguments,
        uid=_uid(given.get(UID), namespace),
        schema=made_schema(ref, tuple(inputs), [s.node.schema for s in sources], time),
        span=span,
    )
    chosen = ProcessOutput.of(made, name) if ref.output_types else made
    return FromItem(chosen, Scope.of(chosen.schema))


def _output(ref: FunctionRef, argument: nodes.CallArgument | None, namespace: Namespace) -> str:
    """The name of a side output; empty for the output of `result_type`."""
    if argument is None:
        return ""
    assert ref.process is not None
    written, names = argument.this, [output.name for output in ref.process.outputs]
    text = str(written.this) if isinstance(written, exp.Literal) and written.is_string else ""
    if text not in names:
        said = f'has no output "{text}"' if text else "has outputs that are named by a text"
        hint = did_you_mean(text, names) or f"name one of {', '.join(names)}"
        raise UserError("SS3560", f"{ref.name} {said}", span=namespace.span(argument), hint=hint)
    return text


def _function(node: nodes.TableCall, namespace: Namespace) -> FunctionRef:
    """The user's function, or the built-in one, which only a system function of the session hides."""
    found = user_function(node, namespace)
    is_plain = str(node.this) == "COUNT_WINDOW" and not node.meta.get("qualifier")
    if is_plain and (found is None or not found.is_system or found.package):
        from sqlstream.functions.count_window import count_window

        return count_window()
    if found is None:
        raise unknown_call(node, namespace)
    return found.ref


def _check_count_window(
    arguments: tuple[Expression | None, ...], given: dict[str, nodes.CallArgument], namespace: Namespace
) -> None:
    """UserError SS3435 for windows of no rows, and for more windows of a row than there may be."""
    values = [None if a is None else fold(a) for a in arguments]
    numbers = [v.value if isinstance(v, Literal) and isinstance(v.value, int) else None for v in values]
    for name, number in zip(("size", "slide"), numbers, strict=True):
        if name in given and (number is None or number < 1):
            message = f"the {name} of COUNT_WINDOW is a whole number of rows, 1 or more"
            raise UserError(
                "SS3435", message, span=namespace.span(given[name]), hint="write COUNT_WINDOW(TABLE t, 100)"
            )
    size, slide = numbers
    if size is not None and slide is not None and -(-size // slide) > WINDOWS_MAX:
        message = f"a row would be in {-(-size // slide)} windows"
        hint = f"give a longer slide: a row is in {WINDOWS_MAX} windows at most"
        raise UserError("SS3435", message, span=namespace.span(given["slide"]), hint=hint)


def _usage(ref: FunctionRef) -> str:
    assert ref.process is not None
    tables = {table.name: table for table in ref.process.tables}
    shown = []
    for name in ref.parameters[: ref.args_min]:
        table = tables.get(name)
        keys = " PARTITION BY k" if table is not None and "SET_SEMANTIC_TABLE" in table.traits else ""
        shown.append(f"{name} => {'…' if table is None else f'TABLE t{keys}'}")
    return f"{ref.name}({', '.join(shown)})"


def _refusal(message: str, span: Span | None, hint: str = "") -> UserError:
    return UserError("SS3430", message, span=span, hint=hint)


def _arguments(
    node: nodes.TableCall, ref: FunctionRef, namespace: Namespace
) -> dict[str, nodes.CallArgument]:
    """What is written for each parameter, for `on_time` and `uid`, which each function has, and for `output`."""
    names = (*ref.parameters, ON_TIME, UID, *([OUTPUT] if ref.output_types else []))
    tables = {table.name for table in ref.process.tables} if ref.process is not None else set()
    given: dict[str, nodes.CallArgument] = {}
    for name, argument in written_arguments(node, ref.name, names, given, namespace, _refusal, _usage(ref)):
        kind = str(argument.args["kind"])
        wanted = "TABLE" if name in tables else "DESCRIPTOR" if name == ON_TIME else "VALUE"
        if kind == "DEFAULT":
            continue
        if kind != wanted:
            shown = {"TABLE": "a table", "DESCRIPTOR": "a DESCRIPTOR", "VALUE": "a value", "MODEL": "a model"}
            hint = f"write {name} => {'TABLE t' if wanted == 'TABLE' else 'DESCRIPTOR(ts)' if wanted == 'DESCRIPTOR' else '…'}"
            message = f'argument "{name}" of {ref.name} is {shown[wanted]}, not {shown[kind]}'
            raise _refusal(message, namespace.span(argument), hint)
        given[name] = argument
    return given


def _input(
    argument: nodes.CallArgument, table: DeclaredTable, source: FromItem, namespace: Namespace
) -> ProcessInput:
    span = namespace.span(argument)
    binder = ScalarBinder(namespace, source.scope, f'table "{table.name}"')
    keys: list[int] = []
    for key in argument.args.get("partition_by") or ():
        bound = binder.bind(key)
        require_key(bound, "PARTITION BY", binder.span(key))
        if not isinstance(bound, InputRef):
            raise _refusal("PARTITION BY takes columns of its table", binder.span(key))
        if bound.index not in keys:
            keys.append(bound.index)
    is_set = "SET_SEMANTIC_TABLE" in table.traits
    if keys and not is_set:
        hint = "leave it out, or declare the table as SET_SEMANTIC_TABLE"
        raise UserError(
            "SS3431",
            f'table "{table.name}" has row semantics, and takes no PARTITION BY',
            span=span,
            hint=hint,
        )
    if is_set and not keys and "OPTIONAL_PARTITION_BY" not in table.traits:
        hint = (
            f"write {table.name} => TABLE t PARTITION BY k, or declare the table with OPTIONAL_PARTITION_BY"
        )
        raise UserError(
            "SS3431", f'table "{table.name}" has set semantics, and needs PARTITION BY', span=span, hint=hint
        )
    order = _order(argument, table, source, binder)
    return ProcessInput(
        table.name,
        source.node.schema.names,
        tuple(keys),
        is_set,
        "PASS_COLUMNS_THROUGH" in table.traits,
        order_column=order[0].column if order else -1,
        order=order[1:],
    )


def _order(
    argument: nodes.CallArgument, table: DeclaredTable, source: FromItem, binder: ScalarBinder
) -> tuple[SortKey, ...]:
    """ORDER BY of a table, which begins with a row time."""
    written = argument.args.get("order") or []
    if written and "SET_SEMANTIC_TABLE" not in table.traits:
        hint = "leave it out, or declare the table as SET_SEMANTIC_TABLE"
        message = f'table "{table.name}" has row semantics, and takes no ORDER BY'
        raise UserError("SS3436", message, span=binder.span(argument), hint=hint)
    keys = []
    for item in written:
        bound = require_order(binder.bind(item.this), binder.span(item.this))
        if not isinstance(bound, InputRef):
            hint = "compute it as a column of a query in parentheses"
            raise UserError(
                "SS3436", "ORDER BY takes columns of its table", span=binder.span(item.this), hint=hint
            )
        keys.append(sort_key(item, bound.index))
    if not keys:
        return ()
    first = source.node.schema.fields[keys[0].column]
    if not sql.is_rowtime(first.type):
        hint = f"declare WATERMARK FOR {first.name} AS … in the table, and order by it first"
        message = f'a table is ordered by its row time first, and "{first.name}" is none'
        raise UserError("SS3436", message, span=binder.span(written[0]), hint=hint)
    if keys[0].is_descending:
        hint = "leave DESC out"
        raise UserError(
            "SS3436", "a table is ordered by ascending time", span=binder.span(written[0]), hint=hint
        )
    return tuple(keys)


def _check_keys(
    ref: FunctionRef, inputs: list[ProcessInput], sources: list[FromItem], span: Span | None
) -> None:
    """Rows of several tables meet by keys of the same types."""
    types = [
        tuple(plain(source.node.schema.types[k]) for k in read.partition_keys)
        for read, source in zip(inputs, sources, strict=True)
    ]
    for read, own in zip(inputs, types, strict=True):
        if own != types[0]:
            shown = " and ".join(f"({', '.join(map(str, t))})" for t in (types[0], own))
            raise UserError(
                "SS3431",
                f'the keys of "{inputs[0].name}" and "{read.name}" have the types {shown}',
                span=span,
                hint="partition all tables by as many columns of the same types: CAST them in a subquery",
            )


def _scalar_places(ref: FunctionRef) -> list[int]:
    assert ref.process is not None
    tables = {table.name for table in ref.process.tables}
    return [place for place, name in enumerate(ref.parameters) if name not in tables]


def _scalar(
    ref: FunctionRef,
    place: int,
    given: dict[str, nodes.CallArgument],
    namespace: Namespace,
    span: Span | None,
) -> Expression | None:
    """The constant; None for the default that the class has."""
    name = ref.parameters[place]
    argument, wanted = given.get(name), ref.argument_types[place]
    assert wanted is not None
    if argument is None:
        if place < ref.args_min:
            raise _refusal(
                f'{ref.name} needs its argument "{name}"', span, f"write {name} => …, of type {wanted}"
            )
        return None
    own = namespace.span(argument)
    bound = ScalarBinder(namespace, Scope(), f'argument "{name}"').bind(argument.this)
    if inputs_of(bound) or not is_deterministic(bound):
        raise UserError(
            "SS3432", f'argument "{name}" of {ref.name} is a constant', span=own, hint="write a literal"
        )
    if bound.type.root is not sql.NULL.root and not can_cast_implicitly(bound.type, wanted):
        hint = f"write CAST(… AS {wanted.with_nullable(True)})"
        raise UserError(
            "SS3432",
            f'argument "{name}" of {ref.name} is of type {plain(wanted)}, not {plain(bound.type)}',
            span=own,
            hint=hint,
        )
    if bound.type.nullable and not wanted.nullable:
        hint = "give a value, or declare it without NOT NULL"
        raise UserError("SS3432", f'argument "{name}" of {ref.name} is not NULL', span=own, hint=hint)
    return cast_to(bound, wanted, own)


def _on_time(
    ref: FunctionRef,
    argument: nodes.CallArgument | None,
    sources: list[FromItem],
    span: Span | None,
    namespace: Namespace,
) -> Field | None:
    """The row time that is named, which each table has."""
    assert ref.process is not None
    if argument is None:
        if any("REQUIRE_ON_TIME" in table.traits for table in ref.process.tables):
            raise UserError(
                "SS3434", f"{ref.name} needs a row time", span=span, hint="write on_time => DESCRIPTOR(ts)"
            )
        return None
    name, own = str(argument.expressions[0].name), namespace.span(argument)
    if len(argument.expressions) > 1:
        raise _refusal("on_time is one column", own, f"write on_time => DESCRIPTOR({name})")
    fields = []
    for table, source in zip(ref.process.tables, sources, strict=True):
        schema = source.node.schema
        if name not in schema.names:
            hint = suggest(name, list(schema.names), "columns")
            raise UserError("SS2003", f'table "{table.name}" has no column "{name}"', span=own, hint=hint)
        field = schema.fields[schema.index_of(name)]
        if not sql.is_rowtime(field.type):
            hint = f"declare WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND in the table"
            message = f'on_time takes a row time, and "{name}" is a plain {plain(field.type)}'
            raise UserError("SS3434", message, span=own, hint=hint)
        fields.append(field)
    if any(field.type != fields[0].type for field in fields):
        hint = "CAST one of them in the table's computed column"
        raise UserError("SS3434", f'the columns "{name}" of the tables have other types', span=own, hint=hint)
    if any(field.name == ROWTIME for field in ref.result_type.fields):
        hint = "give that column of result_type another name"
        message = f'{ref.name} has a column "{ROWTIME}", which a call with on_time adds'
        raise UserError("SS3434", message, span=own, hint=hint)
    return fields[0]


def _check_order(inputs: list[ProcessInput], span: Span | None) -> None:
    """Rows and timers go by one time."""
    for read in inputs:
        if read.order_column >= 0 <= read.time_column and read.order_column != read.time_column:
            message = f'table "{read.name}" is ordered by another time than that of on_time'
            raise UserError("SS3436", message, span=span, hint="order by the column that on_time names")


def _uid(argument: nodes.CallArgument | None, namespace: Namespace) -> str:
    if argument is None:
        return ""
    written = argument.this
    text = str(written.this) if isinstance(written, exp.Literal) and written.is_string else ""
    if not text or len(text) > UID_CHARACTERS_MAX:
        message = f"uid is a text of 1 to {UID_CHARACTERS_MAX} characters"
        raise _refusal(message, namespace.span(argument), "write uid => 'name'")
    return text
