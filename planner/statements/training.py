"""What models of provider `trained` may declare: their options, and the columns that their algorithm takes and returns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from sqlstream import types as sql
from sqlstream.catalog import CatalogModel, Column
from sqlstream.errors import UserError
from sqlstream.models import (
    ALGORITHM,
    ALGORITHM_OPTIONS,
    K_MEANS,
    LINEAR,
    LOGISTIC,
    MINI_BATCH_SIZE,
    PROVIDERS,
    TRAINED,
    WEIGHTS_PATH,
)
from sqlstream.specs.train_model import WEIGHTS_MAX
from sqlstream.spi.connector import OptionType
from sqlstream.spi.files import refuse_home
from sqlstream.types import LogicalType, TypeRoot, is_numeric

MINI_BATCH_VALUES_MAX = 10_000_000
"""How many values a mini-batch may have: it is held in memory."""
_NO_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!//[^/]+/.)|.*[*?\[\]{}\0]")
_REAL = (TypeRoot.DOUBLE, TypeRoot.FLOAT)

OUTPUTS: dict[str, tuple[tuple[str, LogicalType, tuple[TypeRoot, ...]], ...]] = {
    LINEAR: (("", sql.DOUBLE, _REAL),),
    LOGISTIC: (("", sql.BOOLEAN, (TypeRoot.BOOLEAN,)), ("probability", sql.DOUBLE, _REAL)),
    K_MEANS: (
        ("cluster", sql.INT, (TypeRoot.INTEGER, TypeRoot.BIGINT)),
        ("distance", sql.DOUBLE, _REAL),
    ),
}
"""The name, empty for that of the label, the type and the possible types of what an algorithm returns."""


def outputs_of(algorithm: str, label: str) -> tuple[Column, ...]:
    """Those of a model that declares none."""
    return tuple(Column(name or label, t) for name, t, _ in OUTPUTS[algorithm])


def check_trained(model: CatalogModel) -> None:
    """UserError SS4002 and SS4003 for options that do not fit the algorithm, and SS3532 for columns that do not."""
    options, provider = model.options, PROVIDERS[TRAINED]
    algorithm = provider.parsed(options, ALGORITHM)
    _check_options(options, algorithm)
    for column in model.inputs:
        if not is_numeric(column.type):
            message = f'input "{column.name}" of a trained model is a number, not {column.type}'
            raise UserError("SS3532", message, hint="CAST it to DOUBLE, or leave the column out")
    _check_outputs(model, algorithm)
    width = len(model.inputs)
    weights = width * (provider.parsed(options, "clusters") if algorithm == K_MEANS else 1)
    if weights > WEIGHTS_MAX:
        message = f"the model would have {weights} weights, more than {WEIGHTS_MAX}"
        raise UserError("SS3532", message, hint="train with fewer features or clusters")
    if provider.parsed(options, MINI_BATCH_SIZE) * (width + 1) > MINI_BATCH_VALUES_MAX:
        most = MINI_BATCH_VALUES_MAX // (width + 1)
        message = f'option "{MINI_BATCH_SIZE}" must be at most {most} for {width} features'
        raise UserError("SS4002", message, hint="take smaller mini-batches", option=MINI_BATCH_SIZE)


def _check_options(options: Mapping[str, str], algorithm: str) -> None:
    for option in PROVIDERS[TRAINED].options:
        text = options.get(option.key)
        if text is None:
            continue
        of = ALGORITHM_OPTIONS.get(option.key, (algorithm,))
        if algorithm not in of:
            message = f'option "{option.key}" has no use: algorithm "{algorithm}" does not take it'
            raise UserError(
                "SS4003", message, hint=f"leave it out: it is of {' and '.join(of)}", option=option.key
            )
        if option.type is OptionType.DOUBLE and not math.isfinite(option.parse(text)):
            message = f'option "{option.key}" cannot be "{text}"'
            raise UserError("SS4002", message, hint="write a number such as 0.1", option=option.key)
    if PROVIDERS[TRAINED].parsed(options, "decay") > 1:
        message = 'option "decay" must be at most 1'
        raise UserError("SS4002", message, hint="write 1 where all rows count the same", option="decay")
    path = options[WEIGHTS_PATH]
    refuse_home(path, f'option "{WEIGHTS_PATH}"', WEIGHTS_PATH)
    if _NO_PATH.match(path) or path.endswith("/"):
        message = f'option "{WEIGHTS_PATH}" is no path of a file: "{path}"'
        hint = "write a path of this machine, or one such as s3://bucket/weights.json"
        raise UserError("SS4002", message, hint=hint, option=WEIGHTS_PATH)


def _check_outputs(model: CatalogModel, algorithm: str) -> None:
    known = OUTPUTS[algorithm]
    shown = ", ".join(f"{name or 'label'} {t}" for name, t, _ in known)
    hint = f"write OUTPUT ({shown}), or leave INPUT and OUTPUT out behind which AS follows"
    if len(model.outputs) > len(known):
        message = f'algorithm "{algorithm}" returns {len(known)} columns, and OUTPUT has {len(model.outputs)}'
        raise UserError("SS3532", message, hint=hint)
    for column, (_, _, types) in zip(model.outputs, known, strict=False):
        if column.type.root not in types:
            message = f'algorithm "{algorithm}" does not return output "{column.name}" as {column.type}'
            raise UserError("SS3532", message, hint=hint)
