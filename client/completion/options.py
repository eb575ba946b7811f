"""What may stand in `('key' = 'value', …)`: WITH, OPTIONS hints, and the pairs of SET."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlglot import Token, TokenType

from sqlstream.client.completion.candidates import OptionName, Vocabulary
from sqlstream.planner.dialect.tokens import word


@dataclasses.dataclass(frozen=True)
class OptionPlace:
    """The cursor in a list of pairs: `key` is None where a key is wanted, else the key whose value is wanted; `symbols` are
    wanted in place of either. `given` holds the pairs before it."""

    given: dict[str, str]
    key: str | None = None
    symbols: tuple[str, ...] = ()


def option_place(tokens: Sequence[Token]) -> OptionPlace:
    """The place after `tokens`, which begin after the opening bracket."""
    start = max((i + 1 for i, t in enumerate(tokens) if t.token_type is TokenType.COMMA), default=0)
    given = option_pairs(tokens[:start])
    pair = tokens[start:]
    if not pair:
        return OptionPlace(given)
    if len(pair) == 1:
        return OptionPlace(given, symbols=("=",))
    return OptionPlace(given, key=pair[0].text) if len(pair) == 2 else OptionPlace(given, symbols=(",", ")"))


def option_pairs(tokens: Sequence[Token]) -> dict[str, str]:
    """All complete pairs among the tokens."""
    strings = TokenType.STRING
    return {
        tokens[i].text: tokens[i + 2].text
        for i in range(len(tokens) - 2)
        if tokens[i].token_type is strings
        and word(tokens[i + 1]) == "="
        and tokens[i + 2].token_type is strings
    }


def option_keys(
    options: Iterable[OptionName], given: Iterable[str], columns: Sequence[str]
) -> list[OptionName]:
    """The keys that are not given yet; `#` stands for each column."""
    known = set(given)
    found = []
    for option in options:
        names = [option.key.replace("#", c) for c in columns] if "#" in option.key else [option.key]
        found += [OptionName(name, option.detail, option.choices) for name in names if name not in known]
    return found


def option_choices(
    key: str, options: Iterable[OptionName], columns: Sequence[str], vocabulary: Vocabulary
) -> Sequence[str]:
    """The values that the key may have, where they can be listed."""
    if key == "connector":
        return vocabulary.connectors()
    if key == "format":
        return vocabulary.formats()
    found = [o for o in option_keys(options, (), columns) if o.key == key]
    return found[0].choices if found else ()
