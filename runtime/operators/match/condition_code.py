"""Conditions that read mapped rows, as code for the kernel: values of single rows are computed in advance, for all rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import Call, Expression, InputRef, transform, walk
from sqlstream.runtime.kernels.buffers import valid_mask, view_values
from sqlstream.runtime.kernels.match import AND, COMPARE, IS_NOT_NULL, IS_NULL, LOAD, NOT, OR, WORK
from sqlstream.runtime.operators.order.ordering import float_keys
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.match_recognize import MatchExpression, Navigation
from sqlstream.types import TypeRoot

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
