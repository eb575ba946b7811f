"""The public API of process table functions: functions over tables with state, in Python (Flink: ProcessTableFunction).

    from sqlstream import SET_SEMANTIC_TABLE, ProcessTableFunction, TableArgument, ValueState

    class Numbered(ProcessTableFunction):
        result_type = "ROW<n BIGINT>"
        input = TableArgument(SET_SEMANTIC_TABLE)
        count = ValueState("BIGINT", default=0)

        def on_batch(self, ctx, batch):
            before = self.count.get(ctx.keys).to_numpy()
            self.count.put(ctx.keys, before + ctx.row_counts)
            return {"n": before[ctx.groups] + ctx.row_numbers + 1}

CREATE FUNCTION names the class by its module; `SELECT * FROM numbered(TABLE clicks PARTITION BY user)` calls it. The class is
the declaration; the engine makes an instance of it in each subtask, in which the names of states and arguments have their values.
"""

from __future__ import annotations

import datetime
import enum
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.config_option import parse_duration_ms
from sqlstream.function_ref import (
    DEFAULT_TTL,
    OUTPUT,
    DeclaredOutput,
    DeclaredProcess,
    DeclaredState,
    DeclaredTable,
    FunctionKind,
    FunctionMode,
    InspectedFunction,
    StateShape,
)
from sqlstream.python_functions import DeclarationError, TypeText, UserFunction

Array = np.ndarray[Any, Any]
Values: TypeAlias = "pa.Array | Array | Sequence[Any]"


class ArgumentTrait(enum.Enum):
    """What a table argument is (Flink: ArgumentTrait)."""

    ROW_SEMANTIC_TABLE = "ROW_SEMANTIC_TABLE"
    """Each row is for itself: no PARTITION BY, no state."""
    SET_SEMANTIC_TABLE = "SET_SEMANTIC_TABLE"
    """The rows of a key belong together: PARTITION BY, and state by key."""
    OPTIONAL_PARTITION_BY = "OPTIONAL_PARTITION_BY"
    """Without PARTITION BY all rows have one key, in one subtask."""
    PASS_COLUMNS_THROUGH = "PASS_COLUMNS_THROUGH"
    """The output begins with all columns of the table, and not only with those of PARTITION BY."""
    REQUIRE_ON_TIME = "REQUIRE_ON_TIME"
    """The call names a row time: on_time => DESCRIPTOR(ts)."""
    SUPPORT_UPDATES = "SUPPORT_UPDATES"
    """The table may update and delete rows; `ctx.kinds`, or `ctx.kind`, says what each row does."""


ROW_SEMANTIC_TABLE = ArgumentTrait.ROW_SEMANTIC_TABLE
SET_SEMANTIC_TABLE = ArgumentTrait.SET_SEMANTIC_TABLE
OPTIONAL_PARTITION_BY = ArgumentTrait.OPTIONAL_PARTITION_BY
PASS_COLUMNS_THROUGH = ArgumentTrait.PASS_COLUMNS_THROUGH
REQUIRE_ON_TIME = ArgumentTrait.REQUIRE_ON_TIME
SUPPORT_UPDATES = ArgumentTrait.SUPPORT_UPDATES

_RESERVED = ("on_time", "uid", "timers", "processing_timers", "closed_ms")
_NOTHING: Any = object()


class _Declared:
    """What a class body assigns to a name: an argument, a state or a side output."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class TableArgument(_Declared):
    """A table that the function reads: `f(name => TABLE t PARTITION BY k)`."""

    def __init__(self, *traits: ArgumentTrait) -> None:
        self.traits = traits or (SET_SEMANTIC_TABLE,)


class ScalarArgument(_Declared):
    """A constant that the call gives: `f(…, name => 100)`. In the function `self.name` is its value; without one, `default`."""

    def __init__(self, type: TypeText, *, default: Any = _NOTHING) -> None:
        self.type = str(type).strip()
        self.default = default

    @property
    def is_optional(self) -> bool:
        return self.default is not _NOTHING

    def __get__(self, instance: object | None, owner: type) -> Any:
        # The engine puts the value of the call into the instance.
        return self if instance is None else self.default


class SideOutput(_Declared):
    """Rows besides those of `result_type`, which are read by the name: `f(…, output => 'late')`, in Python `.output("late")`.

    By row `yield self.late(5, "text")`, or `yield self.late(n=5)`, which leaves the other columns NULL; by batch
    `ctx.emit(columns, output=self.late)`. `type` is a ROW of the columns, or the type of the only one. Before them
    stand the columns that the function's other output begins with."""

    def __init__(self, type: TypeText) -> None:
        self.type = str(type).strip()

    def __call__(self, *values: Any, **named: Any) -> OutputRow:
        """A row of this output, to be yielded."""
        if bool(values) is bool(named):
            raise DeclarationError(f'a row of output "{self.name}" is of values, or of named ones')
        return OutputRow(self.name, named or values)


class OutputRow:
    """A row of the side output of this name."""

    __slots__ = ("output", "row")

    def __init__(self, output: str, row: Any) -> None:
        self.output, self.row = output, row

    def __repr__(self) -> str:
        return f'a row of output "{self.output}"'


class Keys(Protocol):
    """Distinct keys, by which states are read and written: those of a batch (`ctx.keys`), or a part of them."""

    def __len__(self) -> int: ...

    @property
    def columns(self) -> Mapping[str, pa.Array]:
        """The values of the PARTITION BY columns, by the names that these have in the first table."""

    def take(self, rows: Array) -> Keys:
        """Those at these positions (whole numbers, none twice) or where these truth values are true."""


class _State(_Declared):
    shape: StateShape

    def __init__(self, type: str, ttl: str | int | datetime.timedelta | None) -> None:
        self.type = type
        self.ttl = ttl

    @property
    def ttl_ms(self) -> int:
        """DEFAULT_TTL where the class says nothing."""
        if self.ttl is None:
            return DEFAULT_TTL
        if isinstance(self.ttl, datetime.timedelta):
            return int(self.ttl.total_seconds() * 1000)
        try:
            return parse_duration_ms(str(self.ttl))
        except ValueError as error:
            raise DeclarationError(f'ttl of state "{self.name}" is no duration: {error}') from None

    def clear(self, keys: Keys | None = None) -> None:
        """Forget what these keys have; in the per-row form, without keys, what the row's key has."""
        raise self._unbound()

    def _unbound(self) -> Exception:
        return RuntimeError(f'state "{self.name}" is there while the engine calls the function')


class ValueState(_State):
    """A value per key, `default` until one was put. `ttl` (such as "1 h"): a value that was not written for so long is
    forgotten; without it `table.exec.state.ttl` holds, and 0 is never."""

    shape = StateShape.VALUE

    def __init__(
        self, type: TypeText, *, default: Any = None, ttl: str | int | datetime.timedelta | None = None
    ) -> None:
        super().__init__(str(type).strip(), ttl)
        self.default = default

    def get(self, keys: Keys) -> pa.Array:
        """The value of each key."""
        raise self._unbound()

    def put(self, keys: Keys, values: Values) -> None:
        """Set the value of each key; NULL is the default again."""
        raise self._unbound()

    @property
    def value(self) -> Any:
        """In the per-row form: the value of the row's key."""
        raise self._unbound()

    @value.setter
    def value(self, value: Any) -> None:
        raise self._unbound()


class ListState(_State):
    """A list of values of `type` per key, to which is added at the cost of what is added. In the per-row form it is iterated."""

    shape = StateShape.LIST

    def __init__(self, type: TypeText, *, ttl: str | int | datetime.timedelta | None = None) -> None:
        super().__init__(f"ARRAY<{str(type).strip()}>", ttl)

    def get(self, keys: Keys) -> pa.ListArray:
        """The list of each key, empty for one without."""
        raise self._unbound()

    def append(self, keys: Keys, groups: Array, values: Values) -> None:
        """Add values: `groups` has the position in `keys` of the key of each. With `ctx.keys` and `ctx.groups`, a column of the
        batch."""
        raise self._unbound()

    def put(self, keys: Keys, lists: pa.ListArray) -> None:
        """Set the list of each key."""
        raise self._unbound()

    def add(self, value: Any) -> None:
        """In the per-row form: add a value to the list of the row's key."""
        raise self._unbound()

    def update(self, values: Iterable[Any]) -> None:
        """In the per-row form: set the list of the row's key."""
        raise self._unbound()

    def __iter__(self) -> Iterator[Any]:
        raise self._unbound()

    def __len__(self) -> int:
        raise self._unbound()


class MapState(_State):
    """A map per key, each entry of which is found, written and forgotten by itself. Its keys are of a simple type."""

    shape = StateShape.MAP

    def __init__(
        self, key_type: TypeText, type: TypeText, *, ttl: str | int | datetime.timedelta | None = None
    ) -> None:
        super().__init__(f"MAP<{str(key_type).strip()}, {str(type).strip()}>", ttl)

    def get(self, keys: Keys, groups: Array, map_keys: Values) -> pa.Array:
        """The value of each entry, NULL for one that is not there: `groups` has the position in `keys` of the key of each."""
        raise self._unbound()

    def put(self, keys: Keys, groups: Array, map_keys: Values, values: Values) -> None:
        """Set entries; of equal ones the last counts."""
        raise self._unbound()

    def remove(self, keys: Keys, groups: Array, map_keys: Values) -> None:
        """Forget entries."""
        raise self._unbound()

    def entries(self, keys: Keys) -> tuple[Array, pa.Array, pa.Array]:
        """(position in `keys`, map key, value) of all entries of these keys, in any order."""
        raise self._unbound()

    def __getitem__(self, map_key: Any) -> Any:
        """In the per-row form: the value of an entry of the row's key; KeyError where there is none."""
        raise self._unbound()

    def __setitem__(self, map_key: Any, value: Any) -> None:
        raise self._unbound()

    def __delitem__(self, map_key: Any) -> None:
        raise self._unbound()

    def __contains__(self, map_key: Any) -> bool:
        raise self._unbound()

    def __iter__(self) -> Iterator[Any]:
        raise self._unbound()

    def items(self) -> Iterable[tuple[Any, Any]]:
        raise self._unbound()


class Change:
    """What `eval` and `on_timer` yield by row for a row of this kind, of a class with a `changelog_mode`. A plain row is an
    INSERT."""

    __slots__ = ("kind", "row")

    def __init__(self, kind: RowKind, row: Any) -> None:
        # Making a RowKind of one costs more than the rest.
        self.kind = kind if kind.__class__ is RowKind else RowKind(kind)
        self.row = row


KEY_ALONE: Any = object()
"""The row of a deletion that names none."""


class Deletion(Change):
    """A DELETE of a row that the function has put out. With UPSERT it names no row: that of the key goes."""

    __slots__ = ()

    def __init__(self, row: Any = KEY_ALONE) -> None:
        self.kind, self.row = RowKind.DELETE, row


class Context(Protocol):
    """What a call is told, and where it puts rows.

    `groups`, `row_numbers`, `row_counts`, `times_ms`, `timers` and `emit` are of the batch form; `key`, `time_ms` and `timer` of
    the per-row form. In the batch form of `on_timer` each of `keys` has one timer, and what is said of rows holds for timers.
    """

    @property
    def table(self) -> str:
        """The name of the argument whose rows these are."""

    @property
    def keys(self) -> Keys:
        """The distinct keys of the batch, in order of their first rows."""

    @property
    def groups(self) -> Array:
        """int64 per row of the batch: the position of its key in `keys`."""

    @property
    def row_numbers(self) -> Array:
        """int64 per row of the batch: how many rows of its key are before it in the batch."""

    @property
    def row_counts(self) -> Array:
        """int64 per key: how many rows of the batch it has."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The values of the PARTITION BY columns of the row."""

    @property
    def kinds(self) -> Array:
        """int8 per row of the batch: its RowKind, as a table with SUPPORT_UPDATES has them. An update is UPDATE_BEFORE with the
        old row, and UPDATE_AFTER behind it."""

    @property
    def signs(self) -> Array:
        """int64 per row of the batch: 1 for a row that is added, -1 for one that is taken away."""

    @property
    def kind(self) -> RowKind:
        """The kind of the row."""

    @property
    def times_ms(self) -> Array | None:
        """int64 per row: its row time in milliseconds; per timer the time for which it was set. None without on_time."""

    @property
    def time_ms(self) -> int | None:
        """That of the row, or of the timer."""

    @property
    def timers(self) -> pa.Array | None:
        """The names of the timers that fire, NULL for one without; None for rows."""

    @property
    def timer(self) -> str | None:
        """The name of the timer that fires."""

    @property
    def watermark_ms(self) -> int | None:
        """The watermark in milliseconds; None before there is one."""

    @property
    def now_ms(self) -> int:
        """The processing time in milliseconds."""

    def emit(
        self,
        columns: Any,
        *,
        rows: Array | None = None,
        keys: Keys | None = None,
        kinds: Array | Sequence[RowKind] | RowKind | None = None,
        deletes: Array | bool | None = None,
        output: SideOutput | None = None,
    ) -> None:
        """Put out rows: a mapping of names to columns, a record batch, or a list of columns. Each belongs to the row of the batch
        at the same place, to the one whose number `rows` has, or to the key at the same place of `keys`. `output` is a side
        output that they go to.

        `kinds`, of a class with a `changelog_mode`, are their RowKinds: an UPDATE_BEFORE stands directly before its UPDATE_AFTER.
        `deletes` says which of them are deleted instead of added. With UPSERT `columns` may be None where all are deleted: the
        keys say which."""

    def register_on_time(self, *arguments: Any, keys: Keys | None = None) -> None:
        """`([name,] time)`: have `on_timer` called when the watermark has passed the time, of each of `keys` (by default all, in
        the per-row form the row's): milliseconds, a datetime, or an array with one each. A timer with the name of another of its
        key replaces it."""

    def register_on_processing_time(self, *arguments: Any, keys: Keys | None = None) -> None:
        """The same by processing time, in a call without on_time."""

    def clear_timer(self, name: str, keys: Keys | None = None) -> None:
        """Forget the timer of this name."""

    def clear_all_timers(self, keys: Keys | None = None) -> None:
        """Forget all timers of these keys."""

    def clear_all_state(self, keys: Keys | None = None) -> None:
        """Forget all that these keys have in all states; in the per-row form, without keys, what the row's key has."""

    def clear_all(self, keys: Keys | None = None) -> None:
        """Forget the states and the timers."""


class ProcessTableFunction:
    """A function over tables with state: subclass it, and name the class in CREATE FUNCTION.

    A class body declares `result_type` (a ROW of the output's columns, or the type of the only one), arguments, states and side
    outputs, and either `on_batch` or `eval`. The class is made without arguments.
    """

    result_type: TypeText = ""
    deterministic = True
    changelog_mode = ChangelogMode.INSERT_ONLY
    """RETRACT: it may update and delete rows that it has put out, each of which it names. UPSERT: a row replaces the one of its
    key, which are the values of PARTITION BY; a deletion needs the key alone. (Flink: ChangelogFunction)"""
    deletes_rows = False
    """Another word for RETRACT."""

    def __setattr__(self, name: str, value: Any) -> None:
        """AttributeError for a value in the place of a state, which no checkpoint would hold."""
        if isinstance(getattr(type(self), name, None), _State) and not isinstance(value, _State):
            raise AttributeError(f'"{name}" is a state: write self.{name}.value = …, or call its methods')
        super().__setattr__(name, value)

    def open(self) -> None:
        """Called once in each subtask before the first rows: load what the function needs."""

    def on_batch(self, ctx: Context, batch: pa.RecordBatch) -> Any:
        """The rows of a table, of many keys: what it returns is put out as by `ctx.emit`."""
        raise NotImplementedError

    def eval(self, ctx: Context, row: dict[str, Any]) -> Iterable[Any] | None:
        """One row; a generator or a list of the rows to put out: values of one column, tuples or dicts."""
        raise NotImplementedError

    def on_timer(self, ctx: Context) -> Any:
        """Timers are due: of one key in the per-row form, in the batch form of `ctx.keys`. Returns as `eval` or `on_batch` do."""
        raise NotImplementedError

    def on_late(self, ctx: Context, rows: Any) -> Any:
        """As `eval` or `on_batch`, for rows whose time the watermark has passed. Without this method they are as others."""
        raise NotImplementedError

    def close(self) -> None:
        """Called once when the subtask ends, also after a failure."""


# -- what a class declares ---------------------------------------------------------------------------


def declared_function(cls: type[ProcessTableFunction]) -> UserFunction:
    """The function that a class declares. DeclarationError for one that has no meaning."""
    members = _members(cls)
    tables = [m for m in members if isinstance(m, TableArgument)]
    arguments = [m for m in members if isinstance(m, TableArgument | ScalarArgument)]
    states = [m for m in members if isinstance(m, _State)]
    outputs = [m for m in members if isinstance(m, SideOutput)]
    reserved = (*_RESERVED, *(f"waiting_{table.name}" for table in tables), *([OUTPUT] if outputs else []))
    for member in members:
        if member.name in reserved or hasattr(ProcessTableFunction, member.name):
            raise DeclarationError(f'"{member.name}" has a meaning of its own: give it another name')
    if not tables:
        raise DeclarationError(
            f"{cls.__name__} reads no table: write input = TableArgument(SET_SEMANTIC_TABLE)"
        )
    for table in tables:
        _check_traits(table)
    is_set = [SET_SEMANTIC_TABLE in t.traits for t in tables]
    if len(tables) > 1 and not all(is_set):
        raise DeclarationError("of several tables each has SET_SEMANTIC_TABLE: their rows meet by key")
    if len(tables) > 1 and any(PASS_COLUMNS_THROUGH in t.traits for t in tables):
        raise DeclarationError("PASS_COLUMNS_THROUGH is for the table of a function that reads one")
    if states and not all(is_set):
        raise DeclarationError("a function with state reads its tables as SET_SEMANTIC_TABLE")
    if not str(cls.result_type).strip():
        raise DeclarationError(f'{cls.__name__} declares no result_type: write result_type = "ROW<n BIGINT>"')
    methods = tuple(
        m for m in ("on_batch", "eval") if getattr(cls, m) is not getattr(ProcessTableFunction, m)
    )
    if len(methods) != 1:
        raise DeclarationError(f"{cls.__name__} has either on_batch or eval")
    methods += tuple(
        m for m in ("on_timer", "on_late") if getattr(cls, m) is not getattr(ProcessTableFunction, m)
    )
    if len(methods) > 1 and not all(is_set):
        raise DeclarationError("on_timer and on_late are for tables with SET_SEMANTIC_TABLE")
    if "on_timer" in methods and any(PASS_COLUMNS_THROUGH in t.traits for t in tables):
        raise DeclarationError("PASS_COLUMNS_THROUGH is for functions without timers, which have no row")
    required = [isinstance(a, TableArgument) or not a.is_optional for a in arguments]
    if sorted(required, reverse=True) != required:
        raise DeclarationError("arguments with a default stand behind the others")
    process = DeclaredProcess(
        tuple(DeclaredTable(t.name, tuple(trait.value for trait in t.traits)) for t in tables),
        tuple(DeclaredState(s.name, s.shape, s.type, s.ttl_ms) for s in states),
        bool(cls.deletes_rows),
        tuple(DeclaredOutput(o.name, o.type) for o in outputs),
        _declared_mode(cls, tables),
    )
    declared = InspectedFunction(
        FunctionKind.PROCESS_TABLE,
        FunctionMode.ARROW if methods[0] == "on_batch" else FunctionMode.GENERAL,
        tuple(a.name for a in arguments),
        tuple("" if isinstance(a, TableArgument) else a.type for a in arguments),
        str(cls.result_type).strip(),
        optional=len(required) - sum(required),
        is_deterministic=cls.deterministic,
        methods=methods,
        comment=" ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())[:1000],
        process=process,
    )
    return UserFunction(cls, declared)


def _declared_mode(cls: type[ProcessTableFunction], tables: list[TableArgument]) -> ChangelogMode:
    mode = cls.changelog_mode
    if not isinstance(mode, ChangelogMode):
        raise DeclarationError(
            f"changelog_mode is one of {', '.join(f'ChangelogMode.{m.name}' for m in ChangelogMode)}"
        )
    if cls.deletes_rows and mode is ChangelogMode.UPSERT:
        raise DeclarationError("deletes_rows is RETRACT, and changelog_mode UPSERT: leave one of them out")
    if mode is ChangelogMode.UPSERT and not all(SET_SEMANTIC_TABLE in t.traits for t in tables):
        raise DeclarationError("with UPSERT rows have keys: declare the table as SET_SEMANTIC_TABLE")
    if (cls.deletes_rows or not mode.is_insert_only) and any(
        PASS_COLUMNS_THROUGH in t.traits for t in tables
    ):
        raise DeclarationError(
            "PASS_COLUMNS_THROUGH is for functions that only add rows: what is deleted came of another row"
        )
    return mode


def _members(cls: type) -> list[Any]:
    """The declarations of the class and of those that it inherits from, these first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, _Declared):
                found[name] = value
            else:
                found.pop(name, None)
    return list(found.values())


def _check_traits(table: TableArgument) -> None:
    traits = set(table.traits)
    if not traits <= set(ArgumentTrait):
        raise DeclarationError(
            f'a trait of table "{table.name}" is none of {", ".join(t.value for t in ArgumentTrait)}'
        )
    if len(traits & {ROW_SEMANTIC_TABLE, SET_SEMANTIC_TABLE}) != 1:
        raise DeclarationError(f'table "{table.name}" has either ROW_SEMANTIC_TABLE or SET_SEMANTIC_TABLE')
    if SUPPORT_UPDATES in traits and traits & {ROW_SEMANTIC_TABLE, PASS_COLUMNS_THROUGH}:
        raise DeclarationError(
            f'table "{table.name}" with SUPPORT_UPDATES has set semantics, and passes no columns through'
        )
    if ROW_SEMANTIC_TABLE in traits and OPTIONAL_PARTITION_BY in traits:
        raise DeclarationError(f'table "{table.name}" takes no PARTITION BY: leave OPTIONAL_PARTITION_BY out')


__all__ = [
    "OPTIONAL_PARTITION_BY",
    "PASS_COLUMNS_THROUGH",
    "REQUIRE_ON_TIME",
    "ROW_SEMANTIC_TABLE",
    "SET_SEMANTIC_TABLE",
    "SUPPORT_UPDATES",
    "ArgumentTrait",
    "Change",
    "Context",
    "Deletion",
    "Keys",
    "ListState",
    "MapState",
    "ProcessTableFunction",
    "ScalarArgument",
    "SideOutput",
    "TableArgument",
    "ValueState",
    "declared_function",
]
