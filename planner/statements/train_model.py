"""CREATE MODEL … AS query: the model that has the columns of the query, and the plan that trains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream import types as sql
from sqlstream.catalog import CatalogModel, CatalogTable, ChangeModel, Column
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.models import (
    ALGORITHM,
    K_MEANS,
    LABEL,
    LINEAR,
    MINI_BATCH_SIZE,
    PROVIDERS,
    TRAINED,
    WEIGHTS_PATH,
    weights_options,
)
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext, suggest
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly, cast_to, plain
from sqlstream.planner.bind.set_operations import output_spans
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.statements import CreateModel, OptionPlaces
from sqlstream.planner.relational.nodes import Project, RelationalNode, Sink, TrainModel
from sqlstream.planner.statements.create_as import Created
from sqlstream.planner.statements.models import (
    check_model,
    check_model_options,
    existing_model,
    model_columns,
)
from sqlstream.planner.statements.result import DdlResult
from sqlstream.planner.statements.training import outputs_of
from sqlstream.schema import Field, Schema
from sqlstream.specs.train_model import PUBLISHED, WEIGHTS, TrainModelSpec
from sqlstream.types import LogicalType


def train_model(statement: CreateModel, context: BindContext) -> Created:
    """UserError with a position for options of no training, and for a query without features or label, or with columns of other
    types."""
    assert statement.query is not None
    path, existing = existing_model(statement, context)
    if existing is not None:
        return Created(existing)
    places = OptionPlaces.of(statement.options, None if statement.options else statement.span)
    options = {"provider": TRAINED, **{option.key: option.value for option in statement.options}}
    if options["provider"] != TRAINED:
        hint = "leave 'provider' out, or write CREATE MODEL without AS"
        message = f'provider "{options["provider"]}" trains no model'
        raise UserError("SS3531", message, span=places.values.get("provider"), hint=hint)
    with places.errors():
        check_model_options(options)
    query = bind_query(statement.query, context)
    columns = _Columns.of(query, options, statement)
    entry = CatalogModel(
        path,
        model_columns(statement.inputs) or columns.inputs,
        model_columns(statement.outputs) or outputs_of(columns.algorithm, columns.label_name),
        options,
        statement.comment,
        statement.is_temporary,
    )
    _check_inputs(entry, columns, statement)
    check_model(entry, context, places)
    trained = TrainModel(
        input=columns.numbers(),
        training=_spec(entry, columns.algorithm),
        schema=PUBLISHED,
        span=span_of(statement.query) or statement.span,
    )
    done = f'model "{path.name}" created'
    return Created(
        DdlResult.ok(ChangeModel(None, entry), done=done), _sink(entry, trained, statement, places, context)
    )


class _Columns:
    """Which columns of the query are features, and which one is the label (-1: none)."""

    def __init__(
        self, query: RelationalNode, algorithm: str, label: int, spans: tuple[Span | None, ...]
    ) -> None:
        self.algorithm = algorithm
        self._query, self._label, self._spans = query, label, spans
        names = query.schema.names
        self.label_name = names[label] if label >= 0 else ""
        self._features = [i for i in range(len(names)) if i != label]
        self.inputs = tuple(Column(names[i], sql.DOUBLE) for i in self._features)

    @staticmethod
    def of(query: RelationalNode, options: Mapping[str, str], statement: CreateModel) -> _Columns:
        """UserError SS3531 for a query that has no label or no feature, and SS2012 for names that are not one column's."""
        assert statement.query is not None
        provider, names, whole = PROVIDERS[TRAINED], query.schema.names, span_of(statement.query)
        algorithm = provider.parsed(options, ALGORITHM)
        spans = output_spans(statement.query, len(names))
        for i, name in enumerate(names):
            if name in names[:i]:
                message = f'the query has two columns "{name}"'
                raise UserError(
                    "SS2012", message, span=spans[i], hint="give one of them another name with AS"
                )
        label = -1
        if algorithm != K_MEANS:
            wanted = provider.parsed(options, LABEL)
            if wanted not in names:
                found = "" if LABEL in options else f", or name the label with '{LABEL}' = '…'"
                hint = (suggest(wanted, list(names), "columns") if LABEL in options else "") or (
                    f"name the column that is learned {wanted}{found}"
                )
                message = f'the query has no column "{wanted}" to be learned'
                raise UserError("SS3531", message, span=whole, hint=hint)
            label = names.index(wanted)
        if len(names) == (label >= 0):
            hint = "select the columns by which it is predicted beside it"
            raise UserError("SS3531", "the query has no features", span=whole, hint=hint)
        return _Columns(query, algorithm, label, spans)

    def numbers(self) -> RelationalNode:
        """The features as DOUBLE, then the label. UserError SS3532 for columns of other types."""
        expressions = [self._as(i, sql.DOUBLE, "feature") for i in self._features]
        if self._label >= 0:
            t = sql.DOUBLE if self.algorithm == LINEAR else sql.BOOLEAN
            expressions.append(self._as(self._label, t, "label"))
        names = [*(c.name for c in self.inputs), *([self.label_name] if self._label >= 0 else [])]
        fields = tuple(Field(name, e.type) for name, e in zip(names, expressions, strict=True))
        return Project(
            input=self._query,
            expressions=tuple(expressions),
            schema=Schema(fields),
            span=self._query.span,
        )

    def _as(self, column: int, t: LogicalType, what: str) -> Expression:
        given, name = self._query.schema.types[column], self._query.schema.names[column]
        if not can_cast_implicitly(given, t):
            hint = (
                f"write a condition, as in: {name} = 1 AS {name}"
                if t == sql.BOOLEAN
                else f"CAST({name} AS DOUBLE), or leave it out"
            )
            message = f'{what} "{name}" is of type {plain(given)}, and {self.algorithm} takes {plain(t)}'
            raise UserError("SS3532", message, span=self._spans[column], hint=hint)
        return cast_to(InputRef(column, given), t.with_nullable(given.nullable), self._spans[column])


def _check_inputs(model: CatalogModel, columns: _Columns, statement: CreateModel) -> None:
    """UserError SS3532 for an INPUT that does not name the features in their order."""
    declared, found = [c.name for c in model.inputs], [c.name for c in columns.inputs]
    if declared != found:
        message = f"INPUT has {', '.join(declared)}, and the features of the query are {', '.join(found)}"
        hint = "name them in the order of the query, or leave INPUT and OUTPUT out"
        raise UserError("SS3532", message, span=statement.inputs[0].span, hint=hint)


def _spec(model: CatalogModel, algorithm: str) -> TrainModelSpec:
    def given(key: str) -> Any:
        return PROVIDERS[TRAINED].parsed(model.options, key)

    is_regression = algorithm != K_MEANS
    return TrainModelSpec(
        model.path.name,
        algorithm,
        tuple(column.name for column in model.inputs),
        given(MINI_BATCH_SIZE),
        learning_rate=given("learning-rate") if is_regression else 0.0,
        learning_rate_decay=given("learning-rate.decay") if is_regression else 0.0,
        l2=given("l2") if is_regression else 0.0,
        standardizes=is_regression and given("standardize"),
        clusters=0 if is_regression else given("clusters"),
        seed=0 if is_regression else given("seed"),
        decay=1.0 if is_regression else given("decay"),
    )


def _sink(
    model: CatalogModel,
    trained: TrainModel,
    statement: CreateModel,
    places: OptionPlaces,
    context: BindContext,
) -> Sink:
    """Into the file of the weights, which has the name of the model among the tables that a job writes. UserError SS4002 and
    SS5085 for a file system that is none, or that is not written."""
    place = weights_options(model.options[WEIGHTS_PATH], context.config, context.connectors[WEIGHTS].options)
    options = {"connector": WEIGHTS, **place}
    columns = tuple(Column(field.name, field.type) for field in PUBLISHED.fields)
    table = CatalogTable(model.path, columns, options)
    with ErrorsAt(places.values.get(WEIGHTS_PATH)):
        context.check_table(table)
    return Sink(
        input=trained,
        table=table,
        options=tuple(sorted(options.items())),
        schema=PUBLISHED,
        span=statement.name.span,
    )
