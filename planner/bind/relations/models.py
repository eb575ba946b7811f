"""ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a, b)): the rows of a table, with what a model says of each."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.catalog import CatalogFunction, CatalogModel, ObjectPath
from sqlstream.config_option import parse_boolean, parse_duration_ms
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.function_ref import FunctionKind, FunctionMode, FunctionRef
from sqlstream.model_servers import CONCURRENT_MAX
from sqlstream.models import PROVIDERS, ModelRef
from sqlstream.planner.bind.context import BindContext, resolve_path, suggest
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly, cast_to, plain
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.table_functions import written_arguments
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.relational.nodes import ModelPredict, Project
from sqlstream.schema import Field, Schema

ML_PREDICT = "ML_PREDICT"
USAGE = "ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a, b))"
_KINDS = {"input": "TABLE", "model": "MODEL", "args": "DESCRIPTOR", "config": "VALUE"}
_SHOWN = {
    "TABLE": "a table: TABLE t",
    "MODEL": "a model: MODEL m",
    "DESCRIPTOR": "columns: DESCRIPTOR(a, b)",
    "VALUE": "a value",
    "DEFAULT": "DEFAULT",
}
_CONFIG = ("async", "max-concurrent-operations", "output-mode", "timeout")
_CLASS_NAME = re.compile(r"([^\W\d]\w*\.)+[^\W\d]\w*")

BindItem = Callable[[exp.Expr, Namespace], FromItem]


def bind_ml_predict(node: nodes.TableCall, namespace: Namespace, bind_item: BindItem) -> FromItem:
    """All columns of the table, then the outputs of the model, as Flink has them. UserError SS3463 for a model that there is not,
    SS3465 for arguments that it does not take, SS3466 for columns of other types than its inputs."""
    span = namespace.span(node)
    given = _arguments(node, _KINDS, "config", USAGE, namespace)
    made = _predicted(given, bind_item, namespace, span)
    return FromItem(made, Scope.of(made.schema))


def _predicted(
    given: dict[str, nodes.CallArgument], bind_item: BindItem, namespace: Namespace, span: Span | None
) -> ModelPredict:
    model_span = namespace.span(given["model"])
    model = find_model(
        tuple(str(part.name) for part in given["model"].this.parts), namespace.context, model_span
    )
    ref = model_ref(model, namespace.context, model_span)
    waiting = _waiting(given.get("config"), ref, namespace)
    source = bind_item(given["input"].this, namespace)
    width = len(source.node.schema)
    widened, features = append_columns(source.node, _features(given["args"], ref, source, namespace))
    passed = source.node.schema.fields
    names = [field.name for field in passed]
    fields = list(passed)
    for field in ref.outputs.fields:
        name, number = field.name, 0
        while name in names:
            # Flink's way to tell equal names apart.
            name, number = f"{field.name}{number}", number + 1
        names.append(name)
        fields.append(Field(name, field.type))
    return ModelPredict(
        input=widened,
        model=ref,
        columns=tuple(range(width)),
        features=tuple(features),
        concurrent_max=waiting.concurrent_max,
        timeout_ms=waiting.timeout_ms,
        schema=Schema(tuple(fields)),
        span=span,
    )


# ML_EVALUATE: the measures of a task, which are aggregates over what the model says. They are bound from SQL.


ML_EVALUATE = "ML_EVALUATE"
EVALUATE_USAGE = "ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(label), DESCRIPTOR(a, b), 'regression')"
_EVALUATE_KINDS = {
    "input": "TABLE",
    "model": "MODEL",
    "label": "DESCRIPTOR",
    "args": "DESCRIPTOR",
    "task": "VALUE",
}
_TASKS = {
    "regression": """
        SELECT COUNT(*) AS `rows`, AVG(ABS(y - f)) AS mae, AVG((y - f) * (y - f)) AS mse,
          SQRT(AVG((y - f) * (y - f))) AS rmse, 1 - AVG((y - f) * (y - f)) / NULLIF(VAR_POP(y), 0) AS r2
        FROM predicted WHERE y IS NOT NULL AND f IS NOT NULL""",
    "classification": """
        SELECT COALESCE(SUM(l), 0) AS `rows`, 1E0 * SUM(t) / SUM(l) AS accuracy,
          AVG(CASE WHEN g = 0 THEN 0E0 ELSE 1E0 * t / g END) AS `precision`,
          AVG(CASE WHEN l = 0 THEN 0E0 ELSE 1E0 * t / l END) AS recall, AVG(2E0 * t / (l + g)) AS f1
        FROM (
          SELECT k, SUM(CASE WHEN n = 1 THEN 1 ELSE 0 END) AS l, SUM(CASE WHEN n = 2 THEN 1 ELSE 0 END) AS g,
            SUM(CASE WHEN n = 1 AND y = f THEN 1 ELSE 0 END) AS t
          FROM predicted CROSS JOIN UNNEST(ARRAY[y, f]) WITH ORDINALITY AS u (k, n)
          WHERE y IS NOT NULL AND f IS NOT NULL GROUP BY k)""",
}
"""`predicted` has the label as `y`, and what the model says as `f`."""


def bind_ml_evaluate(node: nodes.TableCall, namespace: Namespace, bind_item: BindItem) -> FromItem:
    """One row with the measures of the task. UserError SS3465 for arguments that it does not take, SS3466 for types that cannot
    be compared."""
    span = namespace.span(node)
    given = _arguments(node, _EVALUATE_KINDS, "", EVALUATE_USAGE, namespace)
    written = given["task"].this
    task = str(written.this).lower() if isinstance(written, exp.Literal) and written.is_string else ""
    if task not in _TASKS:
        hint = f"write {' or '.join(repr(name) for name in _TASKS)}"
        raise _refusal("task is the kind of what the model says", namespace.span(given["task"]), hint)
    made = _predicted(given, bind_item, namespace, span)
    label, said = _compared(given["label"], made, task, namespace)
    schema = Schema.of(("y", label.type), ("f", said.type))
    predicted = Project(input=made, expressions=(label, said), schema=schema, span=span)
    inner = dataclasses.replace(namespace.at(span), ctes={"predicted": predicted})
    query = inner.bind_subquery(parse_query(_TASKS[task]), inner)
    return FromItem(query, Scope.of(query.schema))


def _compared(
    argument: nodes.CallArgument, made: ModelPredict, task: str, namespace: Namespace
) -> tuple[Expression, Expression]:
    """The label, and the output that is compared with it: the only one, or the one with its name."""
    span, outputs = namespace.span(argument), made.model.outputs
    if len(argument.expressions) > 1:
        raise _refusal("label is one column", span, f"write {EVALUATE_USAGE}")
    passed = made.schema.select(made.columns)
    label = ScalarBinder(namespace, Scope.of(passed), ML_EVALUATE).bind(argument.expressions[0])
    place = (
        0
        if len(outputs) == 1
        else next((i for i, n in enumerate(outputs.names) if n == str(argument.expressions[0].name)), -1)
    )
    if place < 0:
        hint = f"give the label the name of one of {', '.join(outputs.names)}"
        raise _refusal(f'model "{made.model.name}" has {len(outputs)} outputs', span, hint)
    said: Expression = InputRef(len(passed) + place, outputs.types[place])
    if task == "regression":
        for value in (label, said):
            if not can_cast_implicitly(value.type, sql.DOUBLE):
                message = f"regression compares numbers, not {plain(value.type)}"
                raise UserError("SS3466", message, span=span, hint="evaluate it as 'classification'")
        return cast_to(label, sql.DOUBLE, span), cast_to(said, sql.DOUBLE, span)
    if not (can_cast_implicitly(said.type, label.type) or can_cast_implicitly(label.type, said.type)):
        message = f"the label is of type {plain(label.type)}, and what the model says of {plain(said.type)}"
        raise UserError("SS3466", message, span=span, hint="CAST the label in a subquery")
    return label, said


def _refusal(message: str, span: Span | None, hint: str = f"write {USAGE}") -> UserError:
    return UserError("SS3465", message, span=span, hint=hint)


def _arguments(
    node: nodes.TableCall, kinds: dict[str, str], optional: str, usage: str, namespace: Namespace
) -> dict[str, nodes.CallArgument]:
    """The arguments by name, each of the kind that it has in `kinds`; all but `optional` are there."""
    function, names, given = str(node.this), list(kinds), dict[str, nodes.CallArgument]()
    for name, argument in written_arguments(
        node, function, names, given, namespace, _refusal, usage, folds_case=True
    ):
        span = namespace.span(argument)
        if str(argument.args["kind"]) != kinds[name]:
            raise _refusal(
                f'argument "{name}" of {function} is {_SHOWN[kinds[name]]}', span, f"write {usage}"
            )
        if argument.args.get("partition_by"):
            raise _refusal(f"{function} takes no PARTITION BY", span, "leave it out")
        given[name] = argument
    for name in names:
        if name not in given and name != optional:
            message = f'{function} needs "{name}", {_SHOWN[kinds[name]]}'
            raise _refusal(message, namespace.span(node), f"write {usage}")
    return given


@dataclasses.dataclass(frozen=True)
class _Waiting:
    """How a call waits for a server; 0 leaves it to the settings."""

    concurrent_max: int = 0
    timeout_ms: int = 0


def _waiting(argument: nodes.CallArgument | None, ref: ModelRef, namespace: Namespace) -> _Waiting:
    """What CONFIG says. UserError SS3465 for what the provider does not heed: one that computes in the task waits for no one."""
    if argument is None:
        return _Waiting()
    written = argument.this
    is_map = isinstance(written, nodes.FunctionCall) and str(written.this).upper() == "MAP"
    parts = written.expressions if is_map else []
    if not parts or len(parts) % 2 or not all(isinstance(p, exp.Literal) and p.is_string for p in parts):
        span = namespace.span(argument)
        raise _refusal("config is a MAP of texts in quotes", span, "write MAP['async', 'false']")
    given: dict[str, tuple[str, Span | None]] = {}
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        name, span = str(key.this), namespace.span(key)
        if name not in _CONFIG:
            raise _refusal(f'config has no "{name}"', span, suggest(name, list(_CONFIG), "keys"))
        given[name] = str(value.this), namespace.span(value)
        if not PROVIDERS[ref.provider].asks_server and (name != "async" or _is_true(*given[name])):
            message = f'"{name}" has no use: provider "{ref.provider}" computes in the task, and waits for no server'
            raise _refusal(message, span, "leave it out")
    if not PROVIDERS[ref.provider].asks_server:
        return _Waiting()
    return _waiting_for_server(given)


def _waiting_for_server(given: dict[str, tuple[str, Span | None]]) -> _Waiting:
    mode, span = given.get("output-mode", ("ORDERED", None))
    if mode.upper() != "ORDERED":
        raise _refusal(f'output-mode "{mode}" is not supported', span, "leave it out: rows keep their order")
    timeout_ms = _number("timeout", "a duration of at least 1 ms", "30 s", parse_duration_ms, 2**53, given)
    limit = _number("max-concurrent-operations", f"1 to {CONCURRENT_MAX}", "10", int, CONCURRENT_MAX, given)
    if "async" in given and not _is_true(*given["async"]):
        if limit > 1:
            span = given["max-concurrent-operations"][1]
            message = "\"max-concurrent-operations\" has no use beside 'async', 'false'"
            raise _refusal(message, span, "leave one of them out")
        limit = 1
    return _Waiting(limit, timeout_ms)


def _number(
    name: str,
    wanted: str,
    example: str,
    parse: Callable[[str], int],
    most: int,
    given: dict[str, tuple[str, Span | None]],
) -> int:
    if name not in given:
        return 0
    text, span = given[name]
    try:
        value = parse(text)
    except ValueError:
        value = 0
    if not 1 <= value <= most:
        raise _refusal(f'"{name}" is {wanted}, not "{text}"', span, f"write MAP['{name}', '{example}']")
    return value


def _is_true(text: str, span: Span | None) -> bool:
    try:
        return parse_boolean(text)
    except ValueError:
        raise _refusal(
            f'"async" is true or false, not "{text}"', span, "write MAP['async', 'false']"
        ) from None


def _features(
    argument: nodes.CallArgument, ref: ModelRef, source: FromItem, namespace: Namespace
) -> list[Expression]:
    """The columns of DESCRIPTOR as the inputs of the model."""
    written = argument.expressions
    inputs = ref.inputs.fields
    if len(written) != len(inputs):
        shown = ", ".join(f"{field.name} {field.type}" for field in inputs)
        message = f'model "{ref.name}" has {len(inputs)} inputs, and DESCRIPTOR names {len(written)} columns'
        raise _refusal(message, namespace.span(argument), f"name a column for each of: {shown}")
    binder = ScalarBinder(namespace, source.scope, ML_PREDICT)
    features = []
    for column, field in zip(written, inputs, strict=True):
        span = namespace.span(column)
        bound = binder.bind(column)
        if not can_cast_implicitly(bound.type, field.type):
            raise UserError(
                "SS3466",
                f'input "{field.name}" of model "{ref.name}" is of type {plain(field.type)}, not {plain(bound.type)}',
                span=span,
                hint=f"CAST(… AS {plain(field.type)}) in a subquery: {ML_PREDICT}(TABLE (SELECT …), …)",
            )
        features.append(cast_to(bound, field.type, span))
    return features


# Models by their names, and as calls carry them.


def find_model(parts: tuple[str, ...], context: BindContext, span: Span | None) -> CatalogModel:
    """The model of a name, a temporary one first. UserError SS3463 when there is none."""
    path = resolve_path(parts, context.current_catalog, context.current_database, span)
    found = context.catalog.model(path, True)
    if found is None:
        with ErrorsAt(span):
            found = context.catalog.model(path, False)
    if found is None:
        raise missing_model(path, "model", context, span)
    return found


def missing_model(path: ObjectPath, kind: str, context: BindContext, span: Span | None) -> UserError:
    """SS3463, to be raised."""
    known = [model.path.name for model in context.catalog.models(path.catalog, path.database)]
    hint = suggest(path.name, known, "models") if known else "CREATE MODEL makes one"
    return UserError("SS3463", f'{kind} "{path.name}" does not exist', span=span, hint=hint)


def model_ref(model: CatalogModel, context: BindContext, span: Span | None) -> ModelRef:
    """The model as a call carries it, with its files noted: they go with the job."""
    path = f"{model.path.catalog}.{model.path.database}.{model.path.name}"
    version = ""
    if file := model.options.get("path"):
        with ErrorsAt(span):
            version = context.model_version(file)
        context.model_files[version] = file
    outputs = Schema.of(*((c.name, c.type.with_nullable(True)) for c in model.outputs))
    function = None
    if model.provider == "python":
        module, attribute = class_of(model, span)
        function = FunctionRef(
            path, module, attribute, FunctionKind.PREDICT, FunctionMode.ARROW, (), (),
            sql.row(*((f.name, f.type) for f in outputs.fields)),
        )  # fmt: skip
        called = CatalogFunction(model.path, model.options["class"], function, files_of(model))
        # Names of functions are in small letters, and this is none.
        context.called[ObjectPath(model.path.catalog, model.path.database, f"MODEL {model.path.name}")] = (
            called
        )
    inputs = Schema.of(*((c.name, c.type) for c in model.inputs))
    return ModelRef(path, model.provider, inputs, outputs, model.options, version, function)


def class_of(model: CatalogModel, span: Span | None) -> tuple[str, str]:
    """The module and the name of the class of a model in Python."""
    name = model.options["class"]
    if _CLASS_NAME.fullmatch(name) is None:
        hint = "write 'class' = 'module.Class'"
        raise UserError("SS2031", f"'{name}' names no class of a Python module", span=span, hint=hint)
    module, _, attribute = name.rpartition(".")
    return module, attribute


def files_of(model: CatalogModel) -> tuple[str, ...]:
    """The files with the modules of a model in Python."""
    return tuple(part.strip() for part in model.options.get("files", "").split(",") if part.strip())
