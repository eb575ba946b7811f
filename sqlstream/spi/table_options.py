"""The options of a table as values: a class says keys, types, defaults and meanings of a connector's or format's options once.

@dataclass(frozen=True, kw_only=True)
class NumbersOptions:
    count: int = option("numbers.count", OptionType.LONG, "How many numbers there are.", is_required=True)

descriptor = ConnectorDescriptor("numbers", options=descriptors_of(NumbersOptions), …)
options = parse_options(NumbersOptions, spec.options)     # options.count is an int
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from sqlstream.spi.connector import OptionDescriptor, OptionType

Options = TypeVar("Options")

_DESCRIPTOR = "option"

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What names of headers of HTTP consist of."""

FRAMING_HEADERS = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that say where a request ends, or what becomes of its connection: no option may set them."""


def option(
    key: str,
    type: OptionType,
    description: str,
    default: str | None = None,
    *,
    is_required: bool = False,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
) -> Any:
    """A field of a class of options, which is a frozen dataclass with keywords only. A DURATION is in milliseconds, a
    MEMORY_SIZE in bytes, an ENUM one of its choices as written there; None for an option that is not given and has no
    default."""
    descriptor = OptionDescriptor(key, type, description, default, is_required, choices, minimum)
    return dataclasses.field(metadata={_DESCRIPTOR: descriptor})


def descriptors_of(options: type[Any]) -> tuple[OptionDescriptor, ...]:
    """What the planner knows of these options, in the order of the fields."""
    return tuple(f.metadata[_DESCRIPTOR] for f in dataclasses.fields(options))


def parse_options(options: type[Options], given: Mapping[str, str]) -> Options:
    """The values of the options in `given`, which may hold others too. The planner has checked the texts."""
    values = {}
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        descriptor: OptionDescriptor = field.metadata[_DESCRIPTOR]
        text = given.get(descriptor.key, descriptor.default)
        values[field.name] = None if text is None else descriptor.parse(text)
    return options(**values)
