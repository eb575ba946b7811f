"""The conditions of pattern variables, as the kernel takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, transform, walk
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.runtime.kernels.buffers import valid_mask, view_values
from sqlstream.runtime.kernels.match import (
    ALWAYS,
    AND,
    BY_CODE,
    BY_MATCH,
    BY_ROW,
    CODE,
    CODE_BEGIN,
    CODE_END,
    COMPARE,
    CONSUME,
    FIRST,
    IS_NOT_NULL,
    IS_NULL,
    LOAD,
    MODE,
    NOT,
    OF_FIRST,
    OF_LAST,
    OP,
    OR,
    SECOND,
    SETS,
    SKIPPED_TO,
    WORK,
)
from sqlstream.runtime.operators.match.values import operand_types
from sqlstream.runtime.operators.order.ordering import float_keys
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.schema import Field, Schema
from sqlstream.specs.match_recognize import MatchExpression, MatchRecognizeSpec, Navigation
from sqlstream.types import INT, TypeRoot

DEPTH_MAX = WORK - 4
_COMPARISONS = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_JUNCTIONS = {"AND": AND, "OR": OR}
_UNARY = {"NOT": NOT, "IS NULL": IS_NULL, "IS NOT NULL": IS_NOT_NULL}


@dataclasses.dataclass(frozen=True)
class Way:
    """How the row of a leaf is found; the default is the current row."""

    variables: tuple[int, ...] = ()
    is_first: bool = False
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A value of one row, found by `way`; its operands are navigations from that row by a shift alone."""

    value: MatchExpression
    way: Way


@dataclasses.dataclass(frozen=True)
class ConditionCode:
    """Steps (op, operand): the operand of a LOAD is a leaf, that of a COMPARE the comparison. `pairs` are compared leaves."""

    steps: tuple[tuple[int, int], ...]
    leaves: tuple[Leaf, ...]
    pairs: tuple[tuple[int, int], ...]


def compile_condition_code(condition: MatchExpression) -> ConditionCode | None:
    """The code of a condition; None when it computes with several rows otherwise than by comparing them."""
    if not all(isinstance(o, Navigation) for o in condition.operands):
        return None
    compiler = _Compiler(condition)
    if not compiler.add(condition.expression) or compiler.depth_max > DEPTH_MAX:
        return None
    return ConditionCode(tuple(compiler.steps), tuple(compiler.leaves), tuple(compiler.pairs))


class _Compiler:
    def __init__(self, condition: MatchExpression) -> None:
        self.steps: list[tuple[int, int]] = []
        self.leaves: list[Leaf] = []
        self.pairs: list[tuple[int, int]] = []
        self.depth_max = 0
        self._depth = 0
        self._condition = condition

    def add(self, expression: Expression) -> bool:
        """Append the steps that compute a BOOLEAN; False when there are none."""
        if self._way(expression) is not None:
            self._load(expression)
            return True
        if not isinstance(expression, Call):
            return False
        name, args = expression.function, expression.args
        if name in _COMPARISONS and all(self._way(a) is not None for a in args):
            self.pairs.append((self._load(args[0]), self._load(args[1])))
            self._step(COMPARE, _COMPARISONS[name], -1)
            return True
        if name in _JUNCTIONS:
            return all(self._junction(name, arg, i) for i, arg in enumerate(args))
        if name in _UNARY and args[0].type.root is TypeRoot.BOOLEAN and self.add(args[0]):
            self._step(_UNARY[name], 0, 0)
            return True
        return False

    def _junction(self, name: str, arg: Expression, place: int) -> bool:
        is_added = self.add(arg)
        if is_added and place:
            self._step(_JUNCTIONS[name], 0, -1)
        return is_added

    def _way(self, expression: Expression) -> Way | None:
        """The one way by which the expression finds all of its columns; None for several."""
        ways = {Way()} if not any(isinstance(n, InputRef) for n in walk(expression)) else set()
        for node in walk(expression):
            if isinstance(node, InputRef):
                found = self._condition.operands[node.index]
                assert isinstance(found, Navigation)
                ways.add(Way(found.variables, found.is_first, found.offset))
        return ways.pop() if len(ways) == 1 else None

    def _load(self, expression: Expression) -> int:
        way = self._way(expression)
        assert way is not None
        operands: dict[Navigation, int] = {}

        def from_row(node: Expression) -> Expression:
            if not isinstance(node, InputRef):
                return node
            found = self._condition.operands[node.index]
            assert isinstance(found, Navigation)
            shifted = Navigation(found.column, shift=found.shift)
            return InputRef(operands.setdefault(shifted, len(operands)), node.type)

        value = MatchExpression(transform(expression, from_row), ())
        self.leaves.append(Leaf(MatchExpression(value.expression, tuple(operands)), way))
        self._step(LOAD, len(self.leaves) - 1, 1)
        return len(self.leaves) - 1

    def _step(self, op: int, operand: int, grows: int) -> None:
        self.steps.append((op, operand))
        self._depth += grows
        self.depth_max = max(self.depth_max, self._depth)


def comparable_keys(left: pa.Array, right: pa.Array) -> tuple[Array, Array] | None:
    """int64 numbers that compare as the values do, where these are not NULL; None when there are no such numbers."""
    if left.type != right.type and not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
        return None
    if pa.types.is_floating(left.type):
        keys = tuple(_floats(side) for side in (left, right))
        return None if any(k is None for k in keys) else keys  # type: ignore[return-value]
    if _is_whole(left.type):
        return _whole(left), _whole(right)
    return _ranks(left, right)


def _is_whole(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_temporal(t) or pa.types.is_boolean(t))


def _whole(column: pa.Array) -> Array:
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        plain = column.cast(pa.int64())
    else:
        plain = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32()).cast(pa.int64())
    return view_values(plain, np.int64)


def _floats(column: pa.Array) -> Array | None:
    """None for a column with NaN, of which SQL has its own opinion."""
    values = view_values(column.cast(pa.float64()), np.float64)
    valid = valid_mask(column)
    if np.isnan(values if valid is None else values[valid.astype(bool)]).any():
        return None
    return float_keys(values)


def _ranks(left: pa.Array, right: pa.Array) -> tuple[Array, Array]:
    encoded = pa.chunked_array([left, right]).dictionary_encode().combine_chunks()
    codes = pc.fill_null(encoded.indices, 0).cast(pa.int64())
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.zeros(max(len(order), 1), dtype=np.int64)
    ranks[view_values(order, np.uint64)] = np.arange(len(order))
    found = ranks[view_values(codes, np.int64)]
    return found[: len(left)], found[len(left) :]


@dataclasses.dataclass(frozen=True)
class Partitions:
    """Rows in order, of which row i belongs to the partition with rows `begin[i]` to `end[i]`."""

    batch: pa.RecordBatch
    begin: Array
    end: Array


@dataclasses.dataclass(frozen=True)
class PreparedConditions:
    """What the kernels read, over some rows.

    `program` (int32): an instruction a row, with the columns of sqlstream.runtime.kernels.match. `code` (int32): the steps of
    conditions. `values` (int64): what these load, by leaf and row, behind the last row that without a row. `flags` (uint8): which
    of the values are there, and behind these, by variable, the rows whose condition is TRUE.
    """

    program: Array
    code: Array
    values: Array
    flags: Array

    @property
    def asks(self) -> bool:
        """Whether the caller must answer a condition."""
        return bool((self.program[:, MODE] == BY_MATCH).any())


class RowExpression:
    """An expression of a row and of rows at fixed distances from it."""

    def __init__(self, expression: MatchExpression, evaluation: EvaluationContext) -> None:
        types = (*operand_types(expression), INT)
        schema = Schema(tuple(Field(f"o{i}", t.with_nullable(True)) for i, t in enumerate(types)))
        self._schema = to_arrow_schema(schema)
        self._operands = [o for o in expression.operands if isinstance(o, Navigation)]
        self._compute: Callable[[pa.RecordBatch], pa.Array] = compile_expression(
            expression.expression, schema, evaluation
        )

    def of_rows(self, partitions: Partitions) -> pa.Array:
        """Its value for each row."""
        columns = [_shifted(partitions, o) for o in self._operands]
        return self._run(columns, partitions.batch.num_rows)

    def of_none(self) -> pa.Array:
        """Its value, one, where there is no row."""
        return self._run([pa.nulls(1, field.type) for field in list(self._schema)[:-1]], 1)

    def _run(self, columns: list[pa.Array], rows: int) -> pa.Array:
        # A batch of no columns has no length.
        arrays = [*columns, pa.nulls(rows, pa.int32())]
        return self._compute(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def _shifted(partitions: Partitions, operand: Navigation) -> pa.Array:
    column = partitions.batch.column(operand.column)
    if not operand.shift:
        return column
    rows = np.arange(len(column)) + operand.shift
    is_missing = (rows < partitions.begin) | (rows >= partitions.end)
    return column.take(pa.array(np.where(is_missing, 0, rows), mask=is_missing))


def is_of_row(condition: MatchExpression) -> bool:
    """Whether the condition reads the current row, and rows at fixed distances from it, alone."""
    return all(
        isinstance(o, Navigation) and not o.variables and not o.is_first and o.offset == 0
        for o in condition.operands
    )


class ReadRows:
    """The rows of a match that conditions can read when it goes on, one for each of `places`: by way (see PreparedConditions) the
    row that it finds, behind the `offset` mapped ones before it.

    >>> ReadRows([0, 2]).places
    [(0, 0), (1, 2), (1, 1), (1, 0)]
    """

    def __init__(self, offsets: list[int]) -> None:
        self.ways = len(offsets)
        self.places = [(way, back) for way, offset in enumerate(offsets) for back in range(offset, -1, -1)]

    def found(self, mapped: Array, firsts: Array, lasts: Array) -> Array:
        """int64[matches, places]: the rows, -1 for none, of matches from a first row to a last one."""
        rows = np.full((len(lasts), len(self.places)), -1, dtype=np.int64)
        for place, (way, back) in reversed([*enumerate(self.places)]):
            if back == 0:
                row = mapped[way][lasts].astype(np.int64)
            else:
                row = np.where(row > firsts, mapped[way][np.maximum(row, 1) - 1], -1)
            rows[:, place] = row
        return rows


class Conditions:
    """The program of a spec with its conditions, compiled. `needs_match`: one depends on what is mapped. `read_rows`: the mapped
    rows that code reads; `reads_neighbours`: it reads rows beside these too. No state."""

    def __init__(self, spec: MatchRecognizeSpec, evaluation: EvaluationContext) -> None:
        self._count = len(spec.conditions)
        self._of_rows: dict[int, RowExpression] = {}
        self._codes: dict[int, ConditionCode] = {}
        self._leaves: dict[int, list[RowExpression]] = {}
        self._ways: dict[Way, int] = {}
        self._modes = np.full(self._count, ALWAYS, dtype=np.uint8)
        for variable, condition in enumerate(spec.conditions):
            if condition is None:
                continue
            if is_of_row(condition):
                self._modes[variable] = BY_ROW
                self._of_rows[variable] = RowExpression(condition, evaluation)
            elif (code := compile_condition_code(condition)) is not None:
                self._modes[variable] = BY_CODE
                self._codes[variable] = code
                self._leaves[variable] = [RowExpression(leaf.value, evaluation) for leaf in code.leaves]
            else:
                self._modes[variable] = BY_MATCH
        self.needs_match = bool((self._modes >= BY_MATCH).any())
        ways = dict.fromkeys(
            leaf.way for code in self._codes.values() for leaf in code.leaves if leaf.way != Way()
        )
        self._ways = {way: SETS + number for number, way in enumerate(ways)}
        self._program = np.zeros((len(spec.program), SETS + len(ways)), dtype=np.int32)
        self._program[:, [OP, FIRST, SECOND]] = [(i.op, i.first, i.second) for i in spec.program]
        self._consumes = np.flatnonzero(self._program[:, OP] == CONSUME)
        self._variables = self._program[self._consumes, FIRST]
        self._program[self._consumes, SKIPPED_TO] = np.isin(self._variables, spec.after_variables)
        for number, way in enumerate(ways):
            is_in = np.isin(self._variables, way.variables) if way.variables else True
            self._program[self._consumes, SETS + number] = np.where(
                is_in, OF_FIRST if way.is_first else OF_LAST, 0
            )
        self.read_rows = ReadRows([0 if way.is_first else way.offset for way in ways])
        self.reads_neighbours = any(
            leaf.way != Way() and any(isinstance(o, Navigation) and o.shift for o in leaf.value.operands)
            for code in self._codes.values()
            for leaf in code.leaves
        )

    def prepare(self, partitions: Partitions) -> PreparedConditions:
        """All conditions over these rows. One that fails for a row is answered for the rows alone that the pattern tries."""
        rows = partitions.batch.num_rows
        modes = self._modes.copy()
        steps: list[tuple[int, ...]] = []
        # By variable: where its code begins and ends.
        code_bounds = np.zeros((self._count, 2), dtype=np.int32)
        leaves: list[tuple[Array, Array]] = []
        of_rows: dict[int, Array] = {}
        for variable in range(self._count):
            try:
                if modes[variable] == BY_ROW:
                    found = self._of_rows[variable].of_rows(partitions)
                    of_rows[variable] = np.append(
                        pc.fill_null(found, False).to_numpy(zero_copy_only=False), False
                    )
                elif modes[variable] == BY_CODE:
                    columns = self._columns(variable, partitions)
                    if columns is None:
                        modes[variable] = BY_MATCH
                    else:
                        first = len(steps)
                        steps += self._steps(self._codes[variable], len(leaves))
                        code_bounds[variable] = first, len(steps)
                        leaves += columns
            except UserError:
                modes[variable] = BY_MATCH
        for number, variable in enumerate(of_rows):
            code_bounds[variable, 0] = len(leaves) + number
        program = self._program.copy()
        program[self._consumes, MODE] = modes[self._variables]
        program[self._consumes, CODE_BEGIN : CODE_END + 1] = code_bounds[self._variables]
        code = np.array(steps, dtype=np.int32).reshape(-1, CODE)
        values = np.array([v for v, _ in leaves], dtype=np.int64).reshape(-1, rows + 1)
        flags = np.array([*(p for _, p in leaves), *of_rows.values()], dtype=np.uint8).reshape(-1, rows + 1)
        return PreparedConditions(program, code, values, flags)

    def _steps(self, code: ConditionCode, first_leaf: int) -> list[tuple[int, ...]]:
        steps: list[tuple[int, ...]] = []
        for op, operand in code.steps:
            if op != LOAD:
                steps.append((op, operand, 0, 0, 0))
                continue
            way = code.leaves[operand].way
            steps.append((op, first_leaf + operand, self._ways.get(way, -1), int(way.is_first), way.offset))
        return steps

    def _columns(self, variable: int, partitions: Partitions) -> list[tuple[Array, Array]] | None:
        """Numbers and presence of each leaf for all rows, then for none."""
        columns = [
            pa.concat_arrays([leaf.of_rows(partitions), leaf.of_none()]) for leaf in self._leaves[variable]
        ]
        numbers: dict[int, Array] = {}
        for left, right in self._codes[variable].pairs:
            keys = comparable_keys(columns[left], columns[right])
            if keys is None:
                return None
            numbers[left], numbers[right] = keys
        for place, column in enumerate(columns):
            if place not in numbers:
                numbers[place] = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.int64)
        return [(numbers[i], _presence(column)) for i, column in enumerate(columns)]


def _presence(column: pa.Array) -> Array:
    valid = valid_mask(column)
    return np.ones(len(column), dtype=np.uint8) if valid is None else valid.astype(np.uint8)
