"""Every setting with its type, default, bounds and scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sqlstream.config import OPTIONS
from sqlstream.config_option import ConfigOption
from sqlstream.spi.connector import OptionDescriptor
from sqlstream.spi.lookup import LOOKUP_OPTIONS

GOLDEN = Path(__file__).parent / "options.out"


def facts(option: ConfigOption | OptionDescriptor) -> Iterator[str]:
    yield option.type.value
    yield f"default {option.default!r}"
    if option.choices:
        yield f"one of {' '.join(option.choices)}"
    if option.minimum is not None:
        yield f"at least {option.minimum}"
    if isinstance(option, OptionDescriptor):
        yield from ["required"] * option.is_required
        return
    if option.maximum is not None:
        yield f"at most {option.maximum}"
    if option.refused:
        yield f"not built {' '.join(option.refused)}"
    yield option.scope.value


def test_options_are_those_in_their_golden_file(golden: Callable[[Path, str], None]) -> None:
    options = [*sorted(OPTIONS.values(), key=lambda o: o.key), *LOOKUP_OPTIONS]
    golden(GOLDEN, "\n".join(f"{option.key}: {', '.join(facts(option))}" for option in options))
