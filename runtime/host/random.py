"""Real randomness: ids that no other process makes, and secrets."""

from __future__ import annotations

import secrets


def random_id() -> str:
    """32 hex digits, as Flink's JobID and ExecutionAttemptID."""
    return secrets.token_hex(16)


def random_token() -> str:
    """A secret that admits to one cluster."""
    return secrets.token_urlsafe(32)
