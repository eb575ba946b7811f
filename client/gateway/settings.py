"""The properties of a session: settings in force, and those of Flink's that are only kept."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.config import OPTIONS, current_key, option, settle
from sqlstream.errors import UserError
from sqlstream.secrets import masked
from sqlstream.spark import is_spark_key, refuse_launch_key

PROPERTY_BYTES = 100
"""What a property takes beside its key and value."""


def require_small(properties: Mapping[str, str], name: str, bytes_max: int) -> None:
    """UserError SS6029 when a session is to be opened with more than that."""
    size = len(name) + sum(len(key) + len(value) + PROPERTY_BYTES for key, value in properties.items())
    if size > bytes_max:
        raise UserError("SS6029", f"name and properties of the session take more than {bytes_max} bytes")


def split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What applies to the session's statements, checked, and what is kept for the client alone.

    A client of Flink sends its whole configuration: addresses, memory sizes, settings that tune Flink's machinery or belong to
    the cluster. So keys that are not known are kept, as Flink's gateway keeps them, but for misspelled ones of ours. UserError
    SS4001 for these, SS4002 for a value that cannot be obeyed, SS4055 for a setting that Spark starts with.
    """
    applied, kept = {}, {}
    for key, value in properties.items():
        refuse_launch_key(key)
        found = option(key) if key.startswith("sqlstream.") else OPTIONS.get(current_key(key))
        if is_spark_key(key):
            applied[key] = value
        elif found is not None and found.scope.is_settable:
            found.parse(value)
            applied[found.key] = value
        else:
            kept[key] = value
    return applied, kept


def statement_settings(config: Mapping[str, str]) -> dict[str, str]:
    """What is in force for one statement, checked as SET checks it. UserError SS4001 for an unknown option, SS4002 for a value
    that cannot be obeyed, SS4007 for one of ours of the cluster or server, SS4055 for a setting that Spark starts with."""
    applied = {}
    for key, value in config.items():
        refuse_launch_key(key)
        current, taken, _ = settle(key, value)
        # Settings that only tune Flink's machinery, and those of its SQL Client, change no statement.
        if taken is not None and (current in OPTIONS or is_spark_key(key)):
            applied[current] = taken
    return applied


def shown_properties(*parts: Mapping[str, str]) -> dict[str, str]:
    """All of them in one, without the values of secrets; later parts win."""
    return {key: masked(key, value) for part in parts for key, value in part.items()}
