"""The public API of functions written in Python: `udf`, `udtf`, `udaf` and `AggregateFunction`.

    from sqlstream import udf

    @udf(result_type="BIGINT")
    def add_one(n):
        return n + 1

A decorated function can still be called as it was. Nothing is registered on import: CREATE FUNCTION names the object by its
module.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sqlstream.function_ref import FunctionKind, FunctionMode, InspectedFunction
from sqlstream.types import LogicalType

A = TypeVar("A")
R = TypeVar("R")
TypeText = str | LogicalType
"""A type as SQL text, or as a value of `sqlstream.types`."""


_CACHED = threading.local()


def cached_file(name: str) -> str:
    """The path, on the host that runs the function, of a file that goes with the job: `SET 'pipeline.cached-files' =
    'name:model,path:models/model.onnx'` names it. To be called while a function is called, and not where its module is imported.
    FileNotFoundError for a name that the job has no file of."""
    paths: dict[str, str] = getattr(_CACHED, "paths", {})
    if name not in paths:
        raise FileNotFoundError(
            f"the job has no file called {name!r}: 'pipeline.cached-files' names those that go with it"
        )
    return paths[name]


def use_cached_files(paths: dict[str, str]) -> None:
    """What `cached_file` finds on this thread from now on. Called by the engine."""
    _CACHED.paths = paths


def cached_files() -> dict[str, str]:
    """What it finds on this thread."""
    return getattr(_CACHED, "paths", {})


class DeclarationError(TypeError):
    """A function is declared in a way that has no meaning. The text says what to write."""


class AggregateFunction(Generic[A, R]):
    """An aggregate in Python: subclass it, and hand an instance to `udaf`.

    The accumulator is a value of the declared `accumulator_type`: a number, a str, a list, a dict of a MAP or of a ROW's fields.
    The engine keeps it, writes it into checkpoints and reads it back. `accumulate` and `retract` return the accumulator after
    the row. A list or dict that they have modified needs no `return`.
    Without `retract` the aggregate takes rows that are only added; without `merge` it is computed in one phase.
    """

    accumulator_type: TypeText = ""
    result_type: TypeText = ""
    input_types: Sequence[TypeText] | None = None

    def create_accumulator(self) -> A:
        """The accumulator of no rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: A, *args: Any) -> A:
        """The accumulator with one more row."""
        raise NotImplementedError

    def retract(self, accumulator: A, *args: Any) -> A:
        """The accumulator without a row that was added."""
        raise NotImplementedError

    def merge(self, accumulator: A, other: A) -> A:
        """The accumulator of the rows of both."""
        raise NotImplementedError

    def get_value(self, accumulator: A) -> R:
        """The aggregate's value."""
        raise NotImplementedError


class UserFunction:
    """What the decorators make: the Python function or aggregate, and its declaration. Calling it calls the function."""

    def __init__(self, target: Any, declared: InspectedFunction) -> None:
        self.target = target
        self.declared = declared
        functools.update_wrapper(self, target, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)

    def __repr__(self) -> str:
        return (
            f"<{self.declared.kind.value.lower()} function {getattr(self.target, '__name__', self.target)}>"
        )


def udf(
    function: Callable[..., Any] | None = None,
    *,
    result_type: TypeText | None = None,
    input_types: Sequence[TypeText] | TypeText | None = None,
    deterministic: bool = True,
    func_type: str = "general",
) -> Any:
    """A scalar function. Types that are not given are taken from the annotations; arguments without either take any type.

    `func_type`: "general" is called with the values of a row; "arrow" with a `pyarrow.Array` for each argument, and returns an
    array (or a scalar, for all rows). An `async def` function waits for several rows at a time. `deterministic=False`: it may
    return another value for the same arguments, and is called for each place and row that names it.
    """

    def decorate(target: Callable[..., Any]) -> UserFunction:
        mode = _mode(target, func_type)
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise DeclarationError("a generator makes rows, and a scalar function one value: write @udtf")
        if mode is FunctionMode.ARROW and _is_async(target):
            raise DeclarationError("an arrow function cannot be async: leave out func_type or async")
        hints = {} if mode is FunctionMode.ARROW else _hints(target)
        result = _text(result_type) if result_type is not None else _annotated(hints.get("return"))
        if not result:
            raise DeclarationError('the result has no type: write @udf(result_type="BIGINT"), or annotate it')
        return _declared(target, FunctionKind.SCALAR, mode, input_types, hints, result, deterministic)

    return decorate if function is None else decorate(function)


def udtf(
    function: Callable[..., Any] | None = None,
    *,
    result_types: Sequence[TypeText] | TypeText | None = None,
    input_types: Sequence[TypeText] | TypeText | None = None,
    deterministic: bool = True,
    func_type: str = "general",
) -> Any:
    """A table function: a generator, or a function that returns a list, whose items are the rows of `LATERAL TABLE(f(…))`.

    An item is a value, or a tuple of as many values as there are `result_types`: a list of types, whose columns are f0, f1, …,
    or a ROW whose fields name them. `func_type`: "arrow" is called with a `pyarrow.Array` for each argument, and returns these
    columns for a whole batch: a RecordBatch, a Table, a DataFrame of pandas or a dict. There is a row for each row of the arrays,
    or a column `$row` of the numbers, from 0, of the rows that its rows are made of, in ascending order.
    """

    def decorate(target: Callable[..., Any]) -> UserFunction:
        mode = _mode(target, func_type)
        if _is_async(target) or inspect.isasyncgenfunction(target):
            raise DeclarationError("a table function cannot be async")
        if mode is FunctionMode.ARROW and inspect.isgeneratorfunction(target):
            raise DeclarationError("an arrow table function returns the rows of a batch, and yields none")
        hints = {} if mode is FunctionMode.ARROW else _hints(target)
        if result_types is None:
            item = _item(hints.get("return"))
            types = [_annotated(a) for a in item]
        else:
            types = _texts(result_types)
        if not types or not all(types):
            raise DeclarationError(
                'the rows have no types: write @udtf(result_types=["STRING", "INT"]), or annotate the result as '
                "Iterator[tuple[str, int]]"
            )
        is_row = len(types) == 1 and types[0].upper().replace(" ", "").startswith(("ROW<", "ROW("))
        result = types[0] if is_row else f"ROW<{', '.join(f'`f{i}` {t}' for i, t in enumerate(types))}>"
        return _declared(target, FunctionKind.TABLE, mode, input_types, hints, result, deterministic)

    return decorate if function is None else decorate(function)


def udaf(
    aggregate: AggregateFunction[Any, Any] | type[AggregateFunction[Any, Any]] | None = None,
    *,
    result_type: TypeText | None = None,
    accumulator_type: TypeText | None = None,
    input_types: Sequence[TypeText] | TypeText | None = None,
    deterministic: bool = True,
) -> Any:
    """An aggregate function of an `AggregateFunction` instance or class (as a decorator of the class)."""

    def decorate(given: AggregateFunction[Any, Any] | type[AggregateFunction[Any, Any]]) -> UserFunction:
        target = given() if isinstance(given, type) else given
        if not isinstance(target, AggregateFunction):
            raise DeclarationError("udaf takes an AggregateFunction, a class or an instance of it")
        own = type(target)
        for name in ("create_accumulator", "accumulate", "get_value"):
            if getattr(own, name) is getattr(AggregateFunction, name):
                raise DeclarationError(f"{own.__name__} has no {name}")
        hints = _hints(own.accumulate)
        result = _text(result_type or target.result_type) or _annotated(_hints(own.get_value).get("return"))
        accumulator = _text(accumulator_type or target.accumulator_type)
        accumulator = accumulator or _annotated(_hints(own.create_accumulator).get("return"))
        for text, what in ((result, "result_type"), (accumulator, "accumulator_type")):
            if not text:
                raise DeclarationError(f"{own.__name__} declares no {what}")
        inputs = input_types if input_types is not None else target.input_types
        methods = tuple(
            m for m in ("retract", "merge") if getattr(own, m) is not getattr(AggregateFunction, m)
        )
        parameters = list(inspect.signature(target.accumulate).parameters.values())[1:]
        declared = _signature(
            parameters, FunctionKind.AGGREGATE, FunctionMode.GENERAL, inputs, hints, result, deterministic
        )
        import msgspec

        declared = msgspec.structs.replace(
            declared, accumulator_type=accumulator, methods=methods, comment=_comment(own)
        )
        return UserFunction(target, declared)

    return decorate if aggregate is None else decorate(aggregate)


# -- declarations ------------------------------------------------------------------------------------


def _mode(target: Any, func_type: str) -> FunctionMode:
    if func_type not in ("general", "arrow"):
        hint = (
            "a pandas function takes arrays with to_pandas() in an arrow one"
            if func_type == "pandas"
            else "choose one"
        )
        raise DeclarationError(f'func_type is "general" or "arrow", not "{func_type}": {hint}')
    if func_type == "arrow":
        return FunctionMode.ARROW
    return FunctionMode.ASYNC if _is_async(target) else FunctionMode.GENERAL


def _is_async(target: Any) -> bool:
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(
        getattr(target, "__call__", None)  # noqa: B004
    )


def _declared(
    target: Callable[..., Any],
    kind: FunctionKind,
    mode: FunctionMode,
    input_types: Sequence[TypeText] | TypeText | None,
    hints: dict[str, Any],
    result: str,
    deterministic: bool,
) -> UserFunction:
    import msgspec

    parameters = list(inspect.signature(target).parameters.values())
    declared = _signature(parameters, kind, mode, input_types, hints, result, deterministic)
    return UserFunction(target, msgspec.structs.replace(declared, comment=_comment(target)))


def _signature(
    parameters: list[inspect.Parameter],
    kind: FunctionKind,
    mode: FunctionMode,
    input_types: Sequence[TypeText] | TypeText | None,
    hints: dict[str, Any],
    result: str,
    deterministic: bool,
) -> InspectedFunction:
    positional = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            raise DeclarationError(
                f'parameter "{p.name}" can only be passed by name; SQL passes arguments by position'
            )
    is_variadic = bool(positional) and positional[-1].kind is inspect.Parameter.VAR_POSITIONAL
    if input_types is not None:
        types = _texts(input_types)
        if len(types) != len(positional) and not (is_variadic and len(types) >= len(positional) - 1):
            raise DeclarationError(
                f"input_types has {len(types)} types, and the function {len(positional)} parameters"
            )
        if is_variadic and len(types) >= len(positional):
            # The types of a fixed number of arguments.
            fixed = len(types)
            names = [
                p.name if i < len(positional) - 1 else f"{positional[-1].name}{i - len(positional) + 2}"
                for i, p in enumerate(positional[:-1] + [positional[-1]] * (fixed - len(positional) + 1))
            ]
            return InspectedFunction(
                kind, mode, tuple(names), tuple(types), result, is_deterministic=deterministic
            )
        types += [""] * (len(positional) - len(types))
    else:
        types = [_annotated(hints.get(p.name), is_argument=True) for p in positional]
    return InspectedFunction(
        kind,
        mode,
        tuple(p.name for p in positional),
        tuple(types),
        result,
        optional=sum(p.default is not p.empty for p in positional),
        is_variadic=is_variadic,
        is_deterministic=deterministic,
    )


def _comment(target: Any) -> str:
    """The first paragraph of the docstring."""
    # That of a base class says nothing of this function.
    text = inspect.cleandoc(vars(target).get("__doc__") or "") if hasattr(target, "__dict__") else ""
    return " ".join(text.partition("\n\n")[0].split())[:1000]


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target)
    except (NameError, TypeError):
        # Annotations of names that are there for a type checker alone.
        return {}


def _text(given: TypeText) -> str:
    return str(given).strip()


def _texts(given: Sequence[TypeText] | TypeText) -> list[str]:
    return [_text(given)] if isinstance(given, str | LogicalType) else [_text(g) for g in given]


_ANNOTATED: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    decimal.Decimal: "DECIMAL(38, 18)",
    datetime.date: "DATE",
    datetime.time: "TIME(3)",
    datetime.datetime: "TIMESTAMP(6)",
}


def _annotated(annotation: Any, is_argument: bool = False) -> str:
    """The SQL type of an annotation; empty for one that has none. An argument without `| None` is NOT NULL."""
    nullable = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [a for a in typing.get_args(annotation) if a is not type(None)]
        nullable = len(parts) < len(typing.get_args(annotation))
        annotation = parts[0] if len(parts) == 1 else None
    found = _annotated_root(annotation)
    return f"{found} NOT NULL" if found and is_argument and not nullable else found


def _annotated_root(annotation: Any) -> str:
    if isinstance(annotation, type) and annotation in _ANNOTATED:
        return _ANNOTATED[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and len(args) == 1:
        element = _annotated(args[0])
        return f"ARRAY<{element}>" if element else ""
    if origin is dict and len(args) == 2:
        key, value = (_annotated(a) for a in args)
        return f"MAP<{key}, {value}>" if key and value else ""
    return ""


def _item(annotation: Any) -> tuple[Any, ...]:
    """The annotations of the values of a row, of a generator or list of them."""
    args = typing.get_args(annotation)
    if not args or typing.get_origin(annotation) in (tuple, dict):
        return ()
    origin = typing.get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Iterable)):
        return ()
    item = args[0]
    return typing.get_args(item) if typing.get_origin(item) is tuple else (item,)
