"""The state of one physical planning: settings, and one interned node per distinct operator."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sqlstream import config
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import InternalError, Span, UserError
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, Traits
from sqlstream.schema import Schema
from sqlstream.specs import LookupJoinSpec, SourceSpec, Spec
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.types import CONSTRUCTED_ROOTS, LogicalType

OPERATORS_MAX = 10_000


@dataclasses.dataclass(frozen=True)
class LoweredHistory:
    """A query of DuckDB over the history of a table: see BackfillSpec."""

    sql: str
    sources: tuple[SourceSpec, ...]
    shared: tuple[str, ...]
    changes: tuple[str, ...]
    functions: tuple[HostedFunction, ...]


LowerHistory = Callable[
    [Any, Mapping[str, ConnectorDescriptor], Mapping[str, str]],
    LoweredHistory,
]
"""A relational plan, the connectors and the settings, as a query of DuckDB."""


def _no_history(*_: object) -> LoweredHistory:
    raise InternalError("histories are not planned here")


class Planning:
    """Settings, descriptors and interned nodes for planning operators.

    `shared` holds the relational nodes with several consumers: their projections are not merged into the consumers,
    each of which would compute them. `lower_history` lowers to a batch engine, which is done above this layer. With
    `is_reuse_enabled`, equal operators over equal inputs are one node.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        connectors: Mapping[str, ConnectorDescriptor],
        shared: frozenset[object] = frozenset(),
        lower_history: LowerHistory = _no_history,
    ) -> None:
        self.settings = settings
        self.connectors = connectors
        self.shared = shared
        self.lower_history = lower_history
        self.is_reuse_enabled = bool(self.setting("table.optimizer.reuse-sub-plan-enabled"))
        self.state_ttl_ms = int(self.setting("table.exec.state.ttl"))
        self.process_uids: dict[str, object] = {}
        """The relational nodes of process table functions by their uid."""
        self._interned: dict[str, PhysicalNode] = {}
        self._made = 0

    def setting(self, key: str) -> Any:
        return config.get(self.settings, key)

    def ttl_ms(self, hinted_ms: int | None) -> int:
        """The time to live of state that a hint may speak of."""
        return self.state_ttl_ms if hinted_ms is None else hinted_ms

    @property
    def wants_two_phases(self) -> bool:
        return bool(self.setting("table.optimizer.agg-phase-strategy") != "ONE_PHASE")

    def node(
        self,
        name: str,
        spec: Spec | None,
        inputs: tuple[PhysicalInput, ...],
        schema: Schema,
        traits: Traits,
        description: str,
        span: Span | None,
        parallelism: int = 0,
        is_reusable: bool = True,
    ) -> PhysicalNode:
        """The operator, or an equal one that exists already. Sinks are not reusable: two INSERTs write twice. UserError
        SS3090 for keys that cannot be kept."""
        check_keys(spec, inputs, span)
        uid = digest(spec, inputs, schema)
        if is_reusable and self.is_reuse_enabled and uid in self._interned:
            return self._interned[uid]
        self._made += 1
        if self._made > OPERATORS_MAX:
            raise UserError(
                "SS3019",
                f"the statement needs more than {OPERATORS_MAX} operators",
                span=span,
                hint=""
                if self.is_reuse_enabled
                else "leave 'table.optimizer.reuse-sub-plan-enabled' at 'true', so that equal parts are planned once",
            )
        made = PhysicalNode(
            name=name,
            spec=spec,
            inputs=inputs,
            schema=schema,
            traits=traits,
            description=description,
            uid=uid,
            parallelism=parallelism,
            span=span,
        )
        if is_reusable:
            self._interned[uid] = made
        return made


def over(node: PhysicalNode, exchange: Exchange = FORWARD) -> tuple[PhysicalInput, ...]:
    """The input list of an operator with one input."""
    return (PhysicalInput(node, exchange),)


def digest(spec: Spec | None, inputs: tuple[PhysicalInput, ...], schema: Schema) -> str:
    """32 hex digits that identify the operator: its spec, inputs, exchanges and output types, but not names."""
    parts = {
        "spec": spec,
        "inputs": [(i.node.uid, i.exchange) for i in inputs],
        "output": schema.types,
    }
    meaning = without_spans(msgspec.to_builtins(parts))
    return hashlib.sha256(msgspec.json.encode(meaning, order="sorted")).hexdigest()[:32]


_LEFT_OUT: dict[str, dict[str, Any]] = {
    "source": {"change_key": (), "are_versions": False, "waits_for": "", "turn": -1, "hands_over": False},
    "event_source": {"waits_for": "", "turn": -1, "hands_over": False},
    "group_aggregate": {"holds_history": False},
    "rank": {"holds_history": False},
    "mutual_iterate": {"has_sums": False},
    "model_predict": {"weights": None},
    "remote_predict": {"weights": None},
    "changelog_normalize": {"marks": -1, "keeps_changes": False},
    "from_changelog": {"keys": ()},
    "to_changelog": {"keys": ()},
}
"""By operator the fields that are no part of its identity while they have these values: savepoints of builds that lack the fields
have the uid without them."""


def without_spans(data: Any) -> Any:
    """The data of a spec without the positions of its calls, so that a query that moves in its script keeps its uids. The `ref`
    of a built-in function, which is None, and the fields of _LEFT_OUT are no part of them either."""
    check_not_given_up()
    if isinstance(data, dict):
        is_call = data.get("node") == "call"
        left_out = {"span"} if is_call else {"ref"} if data.get("ref", data) is None else set()
        neutral = _LEFT_OUT.get(data.get("operator", ""), {})
        left_out |= {name for name, value in neutral.items() if data[name] == value}
        return {k: without_spans(v) for k, v in data.items() if k not in left_out}
    if isinstance(data, list | tuple):
        return [without_spans(v) if isinstance(v, dict | list | tuple) else v for v in data]
    return data


# What an operator's keys cannot be: an ARRAY, a MAP or a ROW.


_SIMPLE = "group, join or distribute by columns of simple types"


def check_keys(spec: Spec | None, inputs: tuple[PhysicalInput, ...], span: Span | None) -> None:
    """UserError SS3090 for a key that the operator cannot keep."""
    for physical_input in inputs:
        if physical_input.exchange.kind is ExchangeKind.HASH:
            _check(physical_input.node.schema, physical_input.exchange.keys, "a key", span)
    if isinstance(spec, LookupJoinSpec):
        _check(inputs[0].node.schema, spec.left_keys, "a lookup key", span)


def _check(schema: Schema, columns: tuple[int, ...], what: str, span: Span | None) -> None:
    for column in columns:
        field = schema.fields[column]
        if field.type.root in CONSTRUCTED_ROOTS:
            message = f"a value of type {shown(field.type)} cannot be {what}"
            raise UserError("SS3090", message, span=span, hint=_SIMPLE)


def shown(t: LogicalType) -> str:
    return str(t.without_time_attribute().with_nullable(True))


# The exchanges that bring rows of one key together.


SINGLETON = Exchange(ExchangeKind.SINGLETON)


def hash_or_singleton(keys: tuple[int, ...]) -> Exchange:
    """Rows with equal keys go to one subtask; without keys all rows do."""
    return Exchange(ExchangeKind.HASH, keys) if keys else SINGLETON


def shortest_key(source: PhysicalNode) -> tuple[int, ...]:
    """The columns of the shortest key whose rows come from one subtask, or all."""
    keys = sorted(sorted(key) for key in source.traits.keys if key)
    shortest: list[int] = min(keys, key=len) if keys else [*range(len(source.schema))]
    return tuple(shortest)


def hashable(schema: Schema, columns: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the columns by which rows can be distributed."""
    return tuple(c for c in columns if schema.types[c].root not in CONSTRUCTED_ROOTS)
