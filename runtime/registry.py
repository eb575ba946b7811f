"""Hand-written lists of classes: an identifier to `module:Class`, imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from sqlstream.errors import UserError, did_you_mean


def make_named(kind: str, code: str, classes: Mapping[str, str], identifier: str) -> Any:
    """An instance of the identifier's class. UserError `code` with a suggestion when the list has none."""
    found = classes.get(identifier)
    if found is None:
        hint = did_you_mean(identifier, list(classes)) or f"choose one of {', '.join(sorted(classes))}"
        raise UserError(code, f'unknown {kind} "{identifier}"', hint=hint)
    module, _, name = found.partition(":")
    return getattr(importlib.import_module(module), name)()
