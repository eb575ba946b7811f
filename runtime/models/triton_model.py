"""Models behind the HTTP protocol of KServe (Open Inference Protocol, version 2), which Triton speaks: a batch is a request."""

from __future__ import annotations

import gzip
import itertools
import logging
import math
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError, UserError
from sqlstream.models import ModelRef
from sqlstream.runtime.host.http_client import Answer, Request
from sqlstream.runtime.models.model_server import ModelServer, Pace, Trials, no_answer
from sqlstream.runtime.models.providers import Answered, Asking
from sqlstream.spi.table_options import parse_options
from sqlstream.triton_models import TritonOptions, default_of

logger = logging.getLogger(__name__)

_HEADER_LENGTH = "inference-header-content-length"
_NUMBERS = {
    "BOOL": (np.dtype(np.bool_), pa.bool_()),
    "INT8": (np.dtype("<i1"), pa.int8()),
    "INT16": (np.dtype("<i2"), pa.int16()),
    "INT32": (np.dtype("<i4"), pa.int32()),
    "INT64": (np.dtype("<i8"), pa.int64()),
    "UINT8": (np.dtype("<u1"), pa.uint8()),
    "UINT16": (np.dtype("<u2"), pa.uint16()),
    "UINT32": (np.dtype("<u4"), pa.uint32()),
    "UINT64": (np.dtype("<u8"), pa.uint64()),
    "FP16": (np.dtype("<f2"), pa.float16()),
    "FP32": (np.dtype("<f4"), pa.float32()),
    "FP64": (np.dtype("<f8"), pa.float64()),
}
_TEXTS = "BYTES"


class _Declared(msgspec.Struct):
    """A tensor as the server declares it. A length of -1 may be any."""

    name: str
    datatype: str
    shape: list[int]


class _Metadata(msgspec.Struct):
    inputs: list[_Declared]
    outputs: list[_Declared]


class _Tensor(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] = {}


class _Inferred(msgspec.Struct):
    outputs: list[_Tensor]


class TritonModel:
    """Implements `RemoteModel`. State: that of the server, and the tensors that it declares, once they have been asked for."""

    token_budget = None
    fails_beyond_budget = True

    def __init__(self, ref: ModelRef, asking: Asking) -> None:
        options = self._options = parse_options(TritonOptions, ref.options)
        self._ref = ref
        self._fields = to_arrow_schema(ref.outputs)
        self.rows_max = 1 if options.is_flat else options.batch_size
        requests = options.requests_per_second
        self._server = ModelServer(
            ref.name,
            asking.files,
            Trials(
                options.retries_max,
                options.request_timeout_ms / 1000,
                asking.timeout_ms / 1000,
                options.pause_ms / 1000,
                options.pause_max_ms / 1000,
            ),
            options.bytes_max,
            asking.concurrent_max,
            Pace(requests / asking.parallelism) if requests is not None else None,
        )
        self._lock = threading.Lock()
        self._tensors: tuple[list[_Declared], list[_Declared]] | None = None

    def ask(self, batch: pa.RecordBatch) -> Answered:
        try:
            parts = [self._asked(part) for part in _even_parts(batch)]
        except (ExternalError, UserError) as error:
            if self._options.default_value is None or self._server.is_cancelled:
                raise
            logger.warning("%d rows get the default value: %s", batch.num_rows, error.message)
            return Answered(self._defaults(batch.num_rows), failed=batch.num_rows)
        columns = [c[0] if len(c) == 1 else pa.concat_arrays(c) for c in map(list, zip(*parts, strict=True))]
        return Answered(columns)

    def _defaults(self, rows: int) -> list[pa.Array]:
        value = default_of(self._options.default_value, self._ref.outputs)
        if value is None:
            return [pa.nulls(rows, field.type) for field in self._fields]
        return [pa.repeat(pa.scalar(value, self._fields.field(0).type), rows)]

    def _asked(self, batch: pa.RecordBatch) -> list[pa.Array]:
        inputs, outputs = self._declared()
        request = self._request(batch, inputs, outputs)
        found = self._read(self._server.ask(request))
        return [
            self._column(found, declared, field, batch.num_rows)
            for declared, field in zip(outputs, self._fields, strict=True)
        ]

    # -- what the server declares --------------------------------------------------------------------

    def _declared(self) -> tuple[list[_Declared], list[_Declared]]:
        """The tensors of the columns of INPUT and OUTPUT. UserError SS5443 where they are others."""
        with self._lock:
            if self._tensors is None:
                answer = self._server.ask(Request("GET", self._options.url, self._options.headers))
                found = self._decoded(answer.body, _Metadata)
                outputs = self._matched(self._ref.outputs.names, found.outputs, "outputs", may_be_fewer=True)
                inputs = self._matched(self._ref.inputs.names, found.inputs, "inputs", may_be_fewer=False)
                self._tensors = inputs, outputs
            return self._tensors

    def _matched(
        self, names: Sequence[str], found: list[_Declared], what: str, may_be_fewer: bool
    ) -> list[_Declared]:
        """By name where all names are known, else in their order."""
        by_name = {declared.name: declared for declared in found}
        is_named = by_name.keys() >= set(names)
        if not (is_named and (may_be_fewer or len(names) == len(found))) and len(names) != len(found):
            shown = ", ".join(f"{d.name} {d.datatype}{d.shape}" for d in found)
            raise no_answer(self._ref.name, f"{what} {shown}, and the model declares {', '.join(names)}")
        return [by_name[name] for name in names] if is_named else found

    # -- requests ------------------------------------------------------------------------------------

    def _request(self, batch: pa.RecordBatch, inputs: list[_Declared], outputs: list[_Declared]) -> Request:
        options = self._options
        tensors, binary = [], []
        for column, declared in zip(batch.columns, inputs, strict=True):
            tensor, data = self._tensor(column, declared)
            if options.is_binary:
                part = _bytes_of(data)
                binary.append(part)
                tensor["parameters"] = {"binary_data_size": len(part)}
            else:
                tensor["data"] = data if isinstance(data, list) else data.tolist()
            tensors.append(tensor)
        body: dict[str, Any] = {
            "inputs": tensors,
            "outputs": [{"name": o.name, "parameters": {"binary_data": options.is_binary}} for o in outputs],
        }
        if options.priority is not None:
            body["parameters"] = {"priority": options.priority}
        head = msgspec.json.encode(body)
        headers = {"content-type": "application/json", **options.headers}
        if options.is_binary:
            headers |= {"content-type": "application/octet-stream", _HEADER_LENGTH: str(len(head))}
        sent = b"".join([head, *binary])
        if options.compression is not None:
            headers["content-encoding"] = options.compression
            sent = gzip.compress(sent, 1)
        return Request("POST", f"{options.url}/infer", headers, sent)

    def _tensor(self, column: pa.Array, declared: _Declared) -> tuple[dict[str, Any], Any]:
        """The head of a tensor, and its values: numbers, or texts."""
        rows, is_list = len(column), pa.types.is_list(column.type)
        values = column.flatten() if is_list else column
        if values.null_count:
            raise self._unfit(declared, "an ARRAY with a NULL in it")
        shape = self._shape(declared, rows, len(values) // rows, is_list)
        head = {"name": declared.name, "shape": shape, "datatype": declared.datatype}
        if declared.datatype == _TEXTS and pa.types.is_string(values.type):
            return head, values.to_pylist()
        if declared.datatype not in _NUMBERS or pa.types.is_string(values.type):
            raise self._unfit(declared, str(values.type))
        kind, wanted = _NUMBERS[declared.datatype]
        try:
            # A DOUBLE is rounded where the model computes with less.
            is_safe = not pa.types.is_floating(wanted)
            numbers = values.cast(wanted, safe=is_safe).to_numpy(zero_copy_only=False)
        except pa.ArrowException as error:
            raise self._unfit(declared, f"{values.type}: {error}") from error
        return head, np.ascontiguousarray(numbers, dtype=kind)

    def _shape(self, declared: _Declared, rows: int, width: int, is_list: bool) -> list[int]:
        dims = declared.shape if self._options.is_flat else declared.shape[1:]
        if all(length > 0 for length in dims) and math.prod(dims) != width:
            raise self._unfit(declared, f"{width} values a row")
        if any(length <= 0 for length in dims):
            if len(dims) > 1:
                raise self._unfit(declared, "an ARRAY, whose values have one dimension")
            dims = [width]
        if not declared.shape:
            dims = [width] if is_list else []
        return list(dims) if self._options.is_flat else [rows, *dims]

    def _unfit(self, declared: _Declared, what: str) -> UserError:
        return UserError(
            "SS5442",
            f'input "{declared.name}" of model "{self._ref.name}" is {declared.datatype}{declared.shape} and cannot take {what}',
            hint="declare INPUT with the types that the model takes, and convert columns in the query",
        )

    # -- answers -------------------------------------------------------------------------------------

    def _read(self, answer: Answer) -> dict[str, tuple[_Tensor, Any]]:
        """The tensors by name, each with its values in one row."""
        length = answer.headers.get(_HEADER_LENGTH, "")
        end = int(length) if length.isdecimal() else len(answer.body)
        inferred = self._decoded(answer.body[:end], _Inferred)
        found: dict[str, tuple[_Tensor, Any]] = {}
        for tensor in inferred.outputs:
            size = tensor.parameters.get("binary_data_size")
            try:
                if isinstance(size, int):
                    part = answer.body[end : end + size]
                    if not 0 <= size == len(part):
                        raise ValueError("too few bytes")
                    end += size
                    values = _values_of(part, tensor.datatype)
                else:
                    values = _values_in(tensor.data or [], tensor.datatype)
            except (ValueError, TypeError, KeyError, OverflowError, struct.error) as error:
                what = f'an output "{tensor.name}" that is no {tensor.datatype}: {error}'
                raise no_answer(self._ref.name, what) from error
            found[tensor.name] = tensor, values
        return found

    def _column(
        self, found: dict[str, tuple[_Tensor, Any]], declared: _Declared, field: pa.Field, rows: int
    ) -> pa.Array:
        if declared.name not in found:
            raise no_answer(self._ref.name, f'no output "{declared.name}"')
        tensor, values = found[declared.name]
        is_list = pa.types.is_list(field.type)
        count = len(values)
        width, rest = divmod(count, rows)
        has_rows = self._options.is_flat or (bool(tensor.shape) and tensor.shape[0] == rows)
        if rest or not has_rows or (not is_list and width != 1):
            what = (
                f'{count} values of shape {tensor.shape} of "{declared.name}" for {rows} rows of {field.type}'
            )
            raise no_answer(self._ref.name, what)
        element = field.type.value_type if is_list else field.type
        is_of = {_TEXTS: pa.types.is_string, "BOOL": pa.types.is_boolean}.get(tensor.datatype, _is_number)
        if not is_of(element):
            raise no_answer(
                self._ref.name, f'values of "{declared.name}" that are {tensor.datatype}, and no {element}'
            )
        try:
            column = pa.array(values)
            if pa.types.is_float16(column.type):
                column = column.cast(pa.float32())
            column = column.cast(element, safe=not pa.types.is_floating(element))
        except pa.ArrowException as error:
            raise no_answer(
                self._ref.name, f'values of "{declared.name}" that are no {element}: {error}'
            ) from error
        if not is_list:
            return column
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
        return pa.ListArray.from_arrays(offsets, column, type=field.type)

    def _decoded(self, body: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise no_answer(self._ref.name, f"what is no answer of this protocol: {error}") from error

    def abort(self) -> None:
        self._server.abort()

    def close(self) -> None:
        self._server.close()


def _is_number(element: pa.DataType) -> bool:
    return bool(pa.types.is_integer(element) or pa.types.is_floating(element))


def _even_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in parts whose ARRAYs have one length each: a tensor has no rows of others."""
    changes = np.zeros(batch.num_rows, dtype=bool)
    for column in batch.columns:
        if pa.types.is_list(column.type):
            lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
            changes[1:] |= lengths[1:] != lengths[:-1]
    bounds = [0, *np.flatnonzero(changes).tolist(), batch.num_rows]
    for low, high in itertools.pairwise(bounds):
        yield batch.slice(low, high - low)


def _bytes_of(values: Any) -> bytes:
    if not isinstance(values, list):
        return bytes(values.tobytes())
    texts = [text.encode() for text in values]
    return b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))


def _values_of(data: bytes, datatype: str) -> Any:
    """ValueError, struct.error for bytes that are no such values, KeyError for a type that is not known."""
    if datatype != _TEXTS:
        return np.frombuffer(data, dtype=_NUMBERS[datatype][0])
    texts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        text = data[at + 4 : at + 4 + length]
        if len(text) != length:
            raise ValueError("a text ends early")
        texts.append(text.decode())
        at += 4 + length
    return texts


def _values_in(data: list[Any], datatype: str) -> Any:
    """As `_values_of`, of JSON, whose lists may be nested."""
    flat: list[Any] = data
    while flat and isinstance(flat[0], list):
        flat = [value for part in flat for value in part]
    if datatype != _TEXTS:
        return np.array(flat, dtype=_NUMBERS[datatype][0])
    if not all(isinstance(text, str) for text in flat):
        raise ValueError("not all are texts")
    return flat
