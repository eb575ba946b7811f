"""Settings of Flink that have no effect here, read from flink_keys.txt when a key is none of ours.

They are taken with a note, so that Flink's scripts and its config.yaml run. Each changes how fast Flink computes a result, or
belongs to a part that is not here. One that would change a result, or promise what is not here, has the one value by
which it does not.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlstream.config_option import ConfigOption, ConfigType

_ENCRYPTION = ("security.ssl.enabled",)
_TYPES = {t.value: t for t in ConfigType}
_REFUSED = "Refused"


class FlinkKeys(NamedTuple):
    """`tuning` are settings whose values are checked, by key. `begins` are keys and beginnings of keys, with the reason."""

    tuning: dict[str, ConfigOption]
    begins: dict[str, str]

    @property
    def whole(self) -> frozenset[str]:
        """Keys that are written out: no other key is meant by them."""
        return frozenset({*self.tuning, *(begin for begin in self.begins if begin[-1] not in ".-")})


@functools.cache
def flink_keys() -> FlinkKeys:
    found = FlinkKeys({}, {})
    for reason, words in _lines():
        if len(words) > 1 and words[1] in (*_TYPES, _REFUSED):
            found.tuning.setdefault(words[0], _tuning_option(words, reason))
        else:
            for begin in words:
                found.begins.setdefault(begin, reason)
    return found


def _lines() -> Iterator[tuple[str, list[str]]]:
    """The words of each line of keys, and the reason above it."""
    reason = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            yield reason, line.split()
        elif line and not line.startswith("#"):
            reason = line


def _tuning_option(words: list[str], reason: str) -> ConfigOption:
    key, kind, *values = words
    if kind == _REFUSED:
        return ConfigOption(key, ConfigType.ENUM, "", reason, choices=("",))
    if kind != ConfigType.ENUM.value:
        return ConfigOption(key, _TYPES[kind], " ".join(values), reason)
    only, _, *refused = values
    return ConfigOption(key, ConfigType.ENUM, only, reason, choices=(only,), refused=tuple(refused))


def foreign_option(key: str) -> ConfigOption | None:
    """The option of a key that has no effect here, whose description says why; None for another key.

    >>> foreign_option("metrics.reporter.prom.port").type.value, foreign_option("rest.prt")
    ('String', None)
    """
    if key in _ENCRYPTION:
        what = "'security.ssl.rest.enabled' and 'security.ssl.internal.enabled' encrypt connections"
        return ConfigOption(key, ConfigType.ENUM, "false", what, choices=("false",), refused=("true",))
    tuning, begins = flink_keys()
    if key in tuning:
        return tuning[key]
    for begin, reason in begins.items():
        if key == begin or key.startswith(begin if begin[-1] in ".-" else f"{begin}."):
            return ConfigOption(key, ConfigType.STRING, "", reason)
    return None
