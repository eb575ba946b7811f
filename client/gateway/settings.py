"""The properties of a session: settings in force, and those of Flink's that are only kept."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.config import OPTIONS
from sqlstream.secrets import masked


def split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What applies to the session's statements, checked, and what is kept for the client alone.

    A client of Flink sends its whole configuration: addresses, memory sizes, settings that tune Flink's machinery or belong to
    the cluster. UserError SS4002 for a value that cannot be obeyed.
    """
    applied, kept = {}, {}
    for key, value in properties.items():
        option = OPTIONS.get(key)
        if option is not None and option.scope.is_settable:
            option.parse(value)
            applied[key] = value
        else:
            kept[key] = value
    return applied, kept


def shown_properties(*parts: Mapping[str, str]) -> dict[str, str]:
    """All of them in one, without the values of secrets; later parts win."""
    return {key: masked(key, value) for part in parts for key, value in part.items()}
