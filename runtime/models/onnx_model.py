"""Models in ONNX files, by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.models import ModelRef
from sqlstream.runtime.models.providers import local_file, wrong_count
from sqlstream.schema import Field
from sqlstream.types import INTEGER_ROOTS, STRING_ROOTS, LogicalType, TypeRoot, is_numeric

Tensor = np.ndarray[Any, Any]

_ELEMENTS: dict[str, pa.DataType] = {
    "tensor(float)": pa.float32(),
    "tensor(double)": pa.float64(),
    "tensor(float16)": pa.float16(),
    "tensor(int8)": pa.int8(),
    "tensor(int16)": pa.int16(),
    "tensor(int32)": pa.int32(),
    "tensor(int64)": pa.int64(),
    "tensor(uint8)": pa.uint8(),
    "tensor(uint16)": pa.uint16(),
    "tensor(uint32)": pa.uint32(),
    "tensor(uint64)": pa.uint64(),
    "tensor(bool)": pa.bool_(),
    "tensor(string)": pa.string(),
}


class OnnxModel:
    """Columns become tensors, whose first dimension is the row, and tensors columns.

    A file with one input takes all columns of INPUT side by side, or the only one, whose ARRAYs are the rows of the tensor; one
    with several takes a column for each, by name or in their order. Its outputs are found for the columns of OUTPUT in the same
    ways: by name, in their order, or the columns of its only one. State: the session of onnxruntime, which computes on the
    thread of the task alone."""

    def __init__(self, ref: ModelRef) -> None:
        self._ref = ref
        self._session = _session(ref)
        self._feeds = self._matched(self._session.get_inputs(), ref.inputs.fields, "INPUT")
        self._fetches = self._matched(self._session.get_outputs(), ref.outputs.fields, "OUTPUT")
        self._types = [to_arrow_type(field.type) for field in ref.outputs.fields]

    def _matched(
        self, tensors: list[Any], fields: tuple[Field, ...], clause: str
    ) -> list[tuple[Any, list[int]]]:
        """Each tensor that is used, with the places of its columns. UserError SS5431 where they do not fit."""
        by_name = {tensor.name.lower(): tensor for tensor in tensors}
        found: list[tuple[Any, list[int]]]
        if len(tensors) == 1 and (clause == "INPUT" or len(fields) > 1):
            found = [(tensors[0], list(range(len(fields))))]
        elif all(field.name.lower() in by_name for field in fields) and (
            clause == "OUTPUT" or len(fields) == len(tensors)
        ):
            found = [(by_name[field.name.lower()], [place]) for place, field in enumerate(fields)]
        elif len(tensors) == len(fields):
            found = [(tensor, [place]) for place, tensor in enumerate(tensors)]
        else:
            raise self._misfit(f"{clause} has {len(fields)} columns that are none of them", tensors, clause)
        for tensor, places in found:
            if tensor.type not in _ELEMENTS:
                hint = "convert the model without ZipMap: skl2onnx.to_onnx(…, options={'zipmap': False})"
                message = (
                    f'"{tensor.name}" of model "{self._ref.name}" is a {tensor.type}, and no tensor of values'
                )
                raise UserError("SS5431", message, hint=hint)
            if clause == "INPUT":
                self._check_types(tensor, [fields[place] for place in places])
            if not _can_hold(tensor, len(places), fields[places[0]]):
                shown = f'"{tensor.name}" has the shape {tensor.shape}'
                raise self._misfit(f"{shown}, and {clause} {len(places)} columns", tensors, clause)
        return found

    def _check_types(self, tensor: Any, fields: list[Field]) -> None:
        """UserError SS5431 for columns whose values the tensor would change, or cannot hold."""
        element = _ELEMENTS[tensor.type]
        for field in fields:
            declared = field.type.element if field.type.root is TypeRoot.ARRAY else field.type
            assert declared is not None
            if not _converts(declared, element):
                raise UserError(
                    "SS5431",
                    f'input "{field.name}" of model "{self._ref.name}" is of type {field.type},'
                    f' and "{tensor.name}" of its file of {element}',
                    hint="declare a type that becomes such values: numbers, whole numbers, STRING or BOOLEAN",
                )

    def _misfit(self, what: str, tensors: list[Any], clause: str) -> UserError:
        shown = ", ".join(f"{t.name} {t.type.removeprefix('tensor')} {t.shape}" for t in tensors)
        return UserError(
            "SS5431",
            f'model "{self._ref.name}" does not fit its file: {what}',
            detail=f"the file has for {clause}: {shown}",
            hint=f"declare {clause} so, with an ARRAY for a tensor of several values a row",
        )

    def predict(self, batch: pa.RecordBatch) -> list[pa.Array]:
        feeds = {tensor.name: self._tensor(batch, tensor, places) for tensor, places in self._feeds}
        names = list(dict.fromkeys(tensor.name for tensor, _ in self._fetches))
        try:
            results = dict(zip(names, self._session.run(names, feeds), strict=True))
        except Exception as error:
            # Each fault of the library is a class of its own, and derives from Exception alone.
            said = (str(error).splitlines() or [""])[0][:300]
            raise UserError(
                "SS5432",
                f'model "{self._ref.name}" failed: {said}',
                hint="compare its inputs with what the file was made for",
            ) from error
        columns: list[pa.Array | None] = [None] * len(self._types)
        for tensor, places in self._fetches:
            for place, values in zip(places, self._split(results[tensor.name], tensor, places), strict=True):
                if len(values) != batch.num_rows:
                    name = self._ref.outputs.fields[place].name
                    raise wrong_count(self._ref, name, len(values), batch.num_rows)
                columns[place] = self._column(values, place)
        return [column for column in columns if column is not None]

    def _split(self, values: Tensor, tensor: Any, places: list[int]) -> list[Tensor]:
        """A tensor as the columns at these places, each without a dimension of its own where that has one value. UserError SS5431
        for one that has, where its file leaves its shape open, values for more columns or fewer."""
        values = np.atleast_1d(values)
        if len(places) == 1:
            is_number = (
                values.ndim == 2 and values.shape[1] == 1 and not pa.types.is_list(self._types[places[0]])
            )
            return [values.reshape(-1) if is_number else values]
        if values.ndim != 2 or values.shape[1] != len(places):
            shape = f'a tensor "{tensor.name}" of the shape {list(values.shape)}'
            raise self._misfit(
                f"it returned {shape}, and OUTPUT has {len(places)} columns", [tensor], "OUTPUT"
            )
        return [np.ascontiguousarray(values[:, number]) for number in range(len(places))]

    def _tensor(self, batch: pa.RecordBatch, tensor: Any, places: list[int]) -> Tensor:
        """The columns at these places side by side, or one without a dimension of its own where the file wants none."""
        element = _ELEMENTS[tensor.type]
        columns = [self._values(batch.column(place), element) for place in places]
        if len(columns) == 1:
            column = columns[0]
            return column if column.ndim > 1 or len(tensor.shape) == 1 else column.reshape(-1, 1)
        made = np.empty((batch.num_rows, len(columns)), dtype=columns[0].dtype)
        for number, column in enumerate(columns):
            made[:, number] = column
        return made

    def _values(self, column: pa.Array, element: pa.DataType) -> Tensor:
        """A column as an array of one dimension, or of two for ARRAYs, which must be of one length. UserError SS5432 for values
        that the model cannot be given."""
        is_list = pa.types.is_list(column.type)
        flat = column.flatten() if is_list else column
        lengths = column.value_lengths() if is_list else None
        if lengths is not None and len(column) and pc.min(lengths) != pc.max(lengths):
            what = f"ARRAYs of {pc.min(lengths)} to {pc.max(lengths)} elements at once"
            raise self._unfit(what, "give it ARRAYs of one length")
        if flat.null_count:
            raise self._unfit("an ARRAY with a NULL in it", "keep such rows from it with WHERE")
        try:
            # Floating point rounds; whole numbers must be the same.
            cast = pc.cast(flat, element, safe=not pa.types.is_floating(element))
        except pa.ArrowInvalid as error:
            raise self._unfit(f"a value that is no {element}", f"it takes {element}: {error}") from error
        values: Tensor = cast.to_numpy(zero_copy_only=False)
        return values.reshape(len(column), -1) if is_list else values

    def _unfit(self, what: str, hint: str) -> UserError:
        return UserError("SS5432", f'model "{self._ref.name}" was given {what}', hint=hint)

    def _column(self, values: Tensor, place: int) -> pa.Array:
        """UserError SS5432 for values that the declared type cannot hold."""
        field, wanted = self._ref.outputs.fields[place], self._types[place]
        try:
            if values.ndim > 1:
                flat = pa.array(values.reshape(-1))
                width = values.size // len(values) if len(values) else 0
                made = pa.FixedSizeListArray.from_arrays(flat, max(width, 1)) if width else None
                return pa.nulls(len(values), wanted) if made is None else made.cast(wanted)
            return pc.cast(pa.array(values), wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise UserError(
                "SS5432",
                f'output "{field.name}" of model "{self._ref.name}" is no {field.type}: {error}',
                hint="declare the type that the file returns, and CAST it in the query",
            ) from error

    def close(self) -> None:
        """The session goes with the object."""


def _session(ref: ModelRef) -> Any:
    """UserError SS5430 without onnxruntime, SS5431 for a file that is no model."""
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(
            "SS5430",
            f'model "{ref.name}" needs onnxruntime, which is not installed where the TaskManagers run',
            hint="pip install 'sqlstream[models]'",
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(local_file(ref), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:300]
        raise UserError(
            "SS5431",
            f'the file of model "{ref.name}" cannot be opened: {said}',
            hint=f'check "{ref.options["path"]}": it is to be an .onnx file without external data',
        ) from error


def _can_hold(tensor: Any, columns: int, field: Field) -> bool:
    """Whether the shape, of which only fixed dimensions are known, has room for the columns: of numbers a row as many, or an
    ARRAY."""
    shape = tensor.shape
    if field.type.root is TypeRoot.ARRAY:
        return columns == 1
    width = shape[1] if len(shape) > 1 else 1
    return len(shape) <= 2 and (not isinstance(width, int) or width == columns)


def _converts(declared: LogicalType, element: pa.DataType) -> bool:
    """Whether values of the type become elements; floating point may round them."""
    if pa.types.is_string(element):
        return declared.root in STRING_ROOTS
    if pa.types.is_boolean(element):
        return declared.root is TypeRoot.BOOLEAN
    if pa.types.is_integer(element):
        return declared.root in INTEGER_ROOTS
    return is_numeric(declared)
