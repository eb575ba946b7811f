"""How this TaskManager is registered at its JobManager, and under which id."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import ErrorInfo, error_info
from sqlstream.messages.rpc import RegisterTaskManager, RegistrationAccepted

HEARTBEATS_MISSED = 2
"""After so many a TaskManager asks whether it is still known."""


@dataclass(frozen=True)
class TaskExecutorConfig:
    """`resource_id` names the process; `address` is where it listens. One that is not registered for `registration_timeout_ms`
    ends; None: never."""

    resource_id: str
    address: str
    slots: int
    resend_ms: int = 500
    cancellation_timeout_ms: int = 180_000
    registration_timeout_ms: int | None = None
    process_id: int = 0
    cores: int = 0
    memory_bytes: int = 0
    first_incarnation: int = 0


class Registration:
    """Asks for a registration until it is accepted, and notices when the JobManager is not heard any more. Pure.

    One that has left ends its tasks first, and is then `renewed` under its next incarnation.
    State: the incarnation, whether it is connected or leaving, and when it last asked, heard something and was registered."""

    def __init__(self, config: TaskExecutorConfig) -> None:
        self.incarnation = config.first_incarnation
        self.is_connected = False
        self.is_leaving = False
        self.heartbeat_timeout_ms = 0
        self._heartbeat_interval_ms = 0
        self._config = config
        self._last_message_ms = 0
        self._sent_ms: int | None = None
        self._unregistered_since_ms: int | None = None

    @property
    def task_manager_id(self) -> str:
        return f"{self._config.resource_id}#{self.incarnation}"

    def heard(self, now_ms: int) -> None:
        """A message of the JobManager has come."""
        self._last_message_ms = now_ms

    def is_silent(self, now_ms: int) -> bool:
        """Whether heartbeats are missing."""
        return now_ms - self._last_message_ms > self.heartbeat_timeout_ms

    def accepted(self, message: RegistrationAccepted) -> bool:
        """False for a repetition."""
        is_first = not self.is_connected
        self.is_connected = True
        self._unregistered_since_ms = None
        self.heartbeat_timeout_ms = message.heartbeat_timeout_ms
        self._heartbeat_interval_ms = message.heartbeat_interval_ms
        return is_first

    def leave(self) -> bool:
        """False when it does already."""
        if self.is_leaving:
            return False
        self.is_leaving, self.is_connected = True, False
        return True

    def renewed(self) -> None:
        """All tasks have ended."""
        self.is_leaving = False
        self.incarnation += 1
        self._sent_ms = None

    def ask(self, now_ms: int) -> RegisterTaskManager | ErrorInfo | None:
        """What to send, if it is time to; the reason to end when it has asked for too long."""
        if self._unregistered_since_ms is None:
            self._unregistered_since_ms = now_ms
        c = self._config
        timeout_ms = c.registration_timeout_ms
        if timeout_ms is not None and now_ms - self._unregistered_since_ms > timeout_ms:
            return _unregistered(timeout_ms)
        if self._sent_ms is not None and now_ms - self._sent_ms < c.resend_ms:
            return None
        self._sent_ms = now_ms
        return self._message(is_held=False)

    def ask_again(self, is_held: bool, now_ms: int) -> RegisterTaskManager | None:
        """What to send a JobManager that has missed heartbeats: another one, which has begun since, does not know of us."""
        missed_ms = HEARTBEATS_MISSED * self._heartbeat_interval_ms
        since_ms = max(self._last_message_ms, self._sent_ms or 0)
        if now_ms - since_ms <= missed_ms:
            return None
        self._sent_ms = now_ms
        return self._message(is_held)

    def _message(self, is_held: bool) -> RegisterTaskManager:
        c = self._config
        return RegisterTaskManager(
            task_manager_id=self.task_manager_id,
            resource_id=c.resource_id,
            incarnation=self.incarnation,
            address=c.address,
            slots=c.slots,
            process_id=c.process_id,
            cores=c.cores,
            memory_bytes=c.memory_bytes,
            is_held=is_held,
        )


def _unregistered(timeout_ms: int) -> ErrorInfo:
    return error_info(
        "SS6018", f"no JobManager has answered this TaskManager's registration for {timeout_ms / 1000:g} s"
    )
