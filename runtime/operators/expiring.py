"""The base of operators that forget keys after a time to live (TTL)."""

from __future__ import annotations

from abc import abstractmethod

from runtime.operators.operator import Operator, OperatorContext, Output, SpecT
from runtime.state.arrays import Array
from runtime.state.operator_state import EXPIRED
from runtime.state.state_ttl import StateTtl


class ExpiringOperator(Operator[SpecT]):
    """Calls `forget_expired` when slots of its state have expired. State: the last touch per slot; none without a TTL (0)."""

    def __init__(self, spec: SpecT, context: OperatorContext, ttl_ms: int) -> None:
        super().__init__(spec, context)
        self.ttl = StateTtl(ttl_ms, context.now_ms)

    @abstractmethod
    def forget_expired(self, slots: Array) -> None:
        """Drop the operator's state of these slots; `ttl` has already dropped its own."""

    def expire(self) -> None:
        """Call this before each batch, so that a row of an expired key starts with empty state."""
        if self.ttl.is_due():
            slots = self.ttl.take_expired()
            if len(slots):
                self.context.count(EXPIRED, len(slots))
            self.forget_expired(slots)

    def next_processing_time_ms(self) -> int | None:
        return self.ttl.next_sweep_ms

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        self.expire()
