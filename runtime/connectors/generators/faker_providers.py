"""What the expressions of connector `faker` name: providers with code, and pools of faker_pools.txt."""

from __future__ import annotations

import datetime
import difflib
import functools
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators.faker_expressions import (
    Either,
    Letter,
    Node,
    Reference,
    Repeated,
    Row,
    constant,
    fixed_letters,
    folded,
    parse_expression,
    parse_regex,
)
from sqlstream.times import DAY_MS
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, STRING, LogicalType, decimal, timestamp

if TYPE_CHECKING:
    from sqlstream.runtime.connectors.generators.datagen_generators import Generator

_UNITS_MS = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": DAY_MS,
}
_YEAR_DAYS = 365
_YEARS_MAX = 1_900
_LONG_MAX = 2**63 - 1
_SENTENCES = 256
_FEW_NUMBERS = 1_000
"""Below, numbers in a text are drawn as texts."""

_WIDTH_MAX = 10_000
_PARTS_MAX = 200
_DOCUMENTS = ("json", "jsona")
_DOCUMENTS_MAX, _ELEMENTS_MAX = 3, 20
_ALNUM = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Typed:
    """A generator with the type of its values, and the bounds of whole numbers."""

    generator: Generator
    type: LogicalType = STRING
    bounds: tuple[int, int] | None = None


@functools.cache
def pools() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The name as written and the values, by the folded name."""
    found = {}
    for line in Path(__file__).with_name("faker_pools.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("# "):
            name, _, values = line.partition(" = ")
            found[folded(name)] = (name, tuple(values.split(" | ")))
    return found


class Maker:
    """Makes the generator of one option's expression. State: how many sequences of random numbers it has begun."""

    def __init__(self, option: str, seed: int) -> None:
        self._option, self._seed, self._begun = option, seed, 0
        self._documents = 0

    def typed(self, text: str) -> Typed:
        """UserError SS4002 for an expression that cannot be read, or that names what is not known."""
        parts = [self._part(part) for part in self._parts(text)]
        return parts[0] if len(parts) == 1 else Typed(self._joined([self._text(part) for part in parts]))

    def key(self) -> int:
        from sqlstream.runtime.connectors.generators.datagen_generators import draw_key

        self._begun += 1
        return draw_key(self._seed, f"{self._option}#{self._begun}")

    def refusal(self, message: str, hint: str) -> UserError:
        return UserError("SS4002", f'option "{self._option}": {message}', option=self._option, hint=hint)

    # --- expressions

    def _parts(self, text: str) -> list[str | Reference]:
        try:
            return parse_expression(text) or [""]
        except ValueError as error:
            raise self.refusal(f"the expression cannot be read: {error}", _EXAMPLE) from error

    def _part(self, part: str | Reference) -> Typed:
        from sqlstream.runtime.connectors.generators.faker_values import Constant

        return Typed(Constant(part)) if isinstance(part, str) else self._referred(part)

    def _referred(self, reference: Reference) -> Typed:
        name = _ALIASES.get(reference.name, reference.name)
        made = _METHODS.get(name)
        if made is not None:
            return made(self, reference)
        if name not in pools():
            raise self._unknown(reference)
        if reference.arguments:
            raise self.refusal(f"{reference.written} takes no arguments", f"write #{{{reference.written}}}")
        return self._from_pool(pools()[name][1])

    def _unknown(self, reference: Reference) -> UserError:
        names = {**{folded(name): name for name in _NAMES}, **{k: v[0] for k, v in pools().items()}}
        near = difflib.get_close_matches(reference.name, list(names), n=3, cutoff=0.5)
        provider = reference.name.split(".")[0]
        near += [name for name in names if name.split(".")[0] == provider and name not in near]
        hint = f"there are {', '.join(names[name] for name in near[:8])}" if near else _EXAMPLE
        return self.refusal(f'there is no provider "{reference.written}"', hint)

    def _from_pool(self, values: tuple[str, ...]) -> Typed:
        from sqlstream.runtime.connectors.generators.faker_values import OneOf, Pool

        if not any("#{" in value for value in values):
            return Typed(Pool(self.key(), values))
        made = [self.typed(value) for value in values]
        return made[0] if len(made) == 1 else Typed(OneOf(self.key(), [self._text(part) for part in made]))

    def _text(self, part: Typed) -> Generator:
        from sqlstream.runtime.connectors.generators.faker_values import AsText, Pool

        if part.bounds is not None and part.bounds[1] - part.bounds[0] < _FEW_NUMBERS:
            return Pool(self.key(), tuple(map(str, range(part.bounds[0], part.bounds[1] + 1))))
        return part.generator if part.type == STRING else AsText(part.generator, part.type)

    def _joined(self, parts: list[Generator]) -> Generator:
        from sqlstream.runtime.connectors.generators.faker_values import Constant, Joined

        if all(isinstance(part, Constant) for part in parts):
            return Constant("".join(getattr(part, "text", "") for part in parts))
        if len(parts) > _PARTS_MAX:
            raise self.refusal(f"a text of more than {_PARTS_MAX} parts is too long", "make it shorter")
        return parts[0] if len(parts) == 1 else Joined(parts)

    # --- documents

    def document(self, reference: Reference, fields: list[tuple[int, str, str]]) -> Typed:
        """Of JSON: for each field how many elements its list has, less than 0 for no list; its name; and its value."""
        from sqlstream.runtime.connectors.generators.faker_values import Constant

        hint = f"leave documents out: {_DOCUMENTS_MAX} may stand in each other, and {_ELEMENTS_MAX} in a list"
        self._documents += 1
        self.check(self._documents <= _DOCUMENTS_MAX, f"{reference.written} stands too deep", hint)
        parts: list[Generator] = []
        for place, (count, name, value) in enumerate(fields):
            self.check(count <= _ELEMENTS_MAX, f"a list of {count} elements is too long", hint)
            opened = f"{', ' if place else '{'}{json.dumps(name)}: {'[' if count >= 0 else ''}"
            parts.append(Constant(opened))
            for element in range(count if count >= 0 else 1):
                parts += [Constant(", ")] if element else []
                parts.append(self._value(value))
            parts += [Constant("]")] if count >= 0 else []
        self._documents -= 1
        return Typed(self._joined([*parts, Constant("}")]))

    def _value(self, text: str) -> Generator:
        """A document as it is, and any other value as a text."""
        from sqlstream.runtime.connectors.generators.faker_values import Quoted

        parts = self._parts(text)
        made = self._text(self.typed(text))
        is_document = len(parts) == 1 and isinstance(parts[0], Reference) and parts[0].name in _DOCUMENTS
        return made if is_document else Quoted(made)

    # --- patterns

    def pattern(self, node: Node) -> Generator:
        """Texts that match a regular expression."""
        from sqlstream.runtime.connectors.generators import faker_values as made

        text = constant(node)
        if text is not None:
            return made.Constant(text)
        letters = fixed_letters(node)
        if letters is not None and len(letters) > _WIDTH_MAX:
            raise self.refusal(f"a text of more than {_WIDTH_MAX} characters is too long", "make it shorter")
        if letters is not None and all(choices.isascii() for choices in letters):
            return made.Letters(self.key(), letters)
        match node:
            case Letter(choices):
                return made.Pool(self.key(), tuple(choices))
            case Row(parts):
                return self._joined([self.pattern(part) for part in parts])
            case Either(parts):
                texts = [constant(part) for part in parts]
                if all(text is not None for text in texts):
                    return made.Pool(self.key(), tuple(text for text in texts if text is not None))
                return made.OneOf(self.key(), [self.pattern(part) for part in parts])
            case Repeated(part, least, most):
                if most > _PARTS_MAX:
                    raise self.refusal(f"more than {_PARTS_MAX} parts are too many", "make it shorter")
                parts_made = [self.pattern(part) for _ in range(most)]
                return (
                    self._joined(parts_made) if least == most else made.AtMost(self.key(), least, parts_made)
                )

    # --- arguments

    def numbers(self, reference: Reference, *counts: int) -> list[int]:
        """The arguments, which are whole numbers, as many as one of `counts`."""
        if len(reference.arguments) not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.refusal(
                f"{reference.written} takes {wanted} arguments, not {len(reference.arguments)}", _EXAMPLE
            )
        return [self.number(reference, text) for text in reference.arguments]

    def number(self, reference: Reference, text: str) -> int:
        try:
            value = int(text)
        except ValueError as error:
            raise self.refusal(f'{reference.written} takes whole numbers, not "{text}"', _EXAMPLE) from error
        if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
            raise self.refusal(f"{value} is beyond 64 bits", "write a smaller number")
        return value

    def check(self, is_right: bool, message: str, hint: str) -> None:
        if not is_right:
            raise self.refusal(message, hint)

    def whole(self, low: int, high: int) -> Typed:
        """Whole numbers from `low` to `high`, both included."""
        from sqlstream.runtime.connectors.generators.datagen_generators import RandomInteger

        return Typed(RandomInteger(BIGINT, self.key(), low, high), BIGINT, (low, high))


_EXAMPLE = "write it as in #{number.numberBetween '1','100'}"
_PAST = "write #{date.past '15','5','SECONDS'}"


# Providers with code.


def _options(maker: Maker, reference: Reference) -> Typed:
    from sqlstream.runtime.connectors.generators.faker_values import Pool

    maker.check(bool(reference.arguments), "option takes its choices", "write #{options.option 'a','b'}")
    return Typed(Pool(maker.key(), reference.arguments))


def _regexify(maker: Maker, reference: Reference) -> Typed:
    maker.check(len(reference.arguments) == 1, "regexify takes one argument", "write #{regexify '[a-z]{4}'}")
    try:
        node = parse_regex(reference.arguments[0])
    except ValueError as error:
        hint = "write classes, groups, | and counts, as in [A-Z]{2}-(a|b)[0-9]{3,5}"
        raise maker.refusal(
            f'the regular expression "{reference.arguments[0]}" cannot be used: {error}', hint
        ) from error
    return Typed(maker.pattern(node))


def _lettered(signs: dict[str, str]) -> Callable[[Maker, Reference], Typed]:
    def make(maker: Maker, reference: Reference) -> Typed:
        maker.check(
            1 <= len(reference.arguments) <= 2,
            f"{reference.written} takes a text",
            f"write #{{{reference.written} 'a-##-??'}}",
        )
        is_upper = reference.arguments[1:] == ("true",)
        classes = {sign: letters.upper() if is_upper else letters for sign, letters in signs.items()}
        letters = tuple(Letter(classes.get(sign, sign)) for sign in reference.arguments[0])
        return Typed(maker.pattern(Row(letters)))

    return make


def _json(maker: Maker, reference: Reference) -> Typed:
    names, values = reference.arguments[::2], reference.arguments[1::2]
    maker.check(
        bool(names) and len(names) == len(values),
        "json takes names and values",
        "write #{json 'id','#{internet.uuid}'}",
    )
    return maker.document(reference, [(-1, *field) for field in zip(names, values, strict=True)])


def _json_with_lists(maker: Maker, reference: Reference) -> Typed:
    counts, names, values = (reference.arguments[start::3] for start in range(3))
    maker.check(
        bool(counts) and len(counts) == len(names) == len(values),
        "jsona takes a number of elements, a name and a value for each field",
        "write #{jsona '-1','id','#{internet.uuid}','3','tags','#{lorem.word}'}",
    )
    numbers = [maker.number(reference, count) for count in counts]
    return maker.document(reference, list(zip(numbers, names, values, strict=True)))


def _number_between(maker: Maker, reference: Reference) -> Typed:
    low, high = maker.numbers(reference, 2)
    maker.check(low <= high, f"there is no number from {low} to {high}", _EXAMPLE)
    return maker.whole(low, max(low, high - 1))


def _random_double(maker: Maker, reference: Reference) -> Typed:
    from sqlstream.runtime.connectors.generators.faker_values import RoundedFloat

    digits, low, high = maker.numbers(reference, 3)
    hint = "write #{number.randomDouble '2','1','100'}: digits after the point, least, most"
    maker.check(0 <= digits <= 15 and low <= high, "these numbers do not go together", hint)
    maker.check(max(-low, high) * 10**digits < 2**53, "a DOUBLE has 15 digits", "write fewer digits")
    return Typed(RoundedFloat(maker.key(), digits, low, high), DOUBLE)


def _random_number(maker: Maker, reference: Reference) -> Typed:
    if len(reference.arguments) == 2:
        is_strict = reference.arguments[1].lower() == "true"
        digits = maker.number(reference, reference.arguments[0])
    else:
        is_strict, digits = False, (maker.numbers(reference, 0, 1) or [9])[0]
    maker.check(1 <= digits <= 18, "a number has from 1 to 18 digits", "write #{number.randomNumber '5'}")
    return maker.whole(10 ** (digits - 1) if is_strict else 0, 10**digits - 1)


def _digits(maker: Maker, reference: Reference) -> Typed:
    (count,) = maker.numbers(reference, 1)
    maker.check(count >= 1, "it takes a number from 1 on", "write #{number.digits '5'}")
    return Typed(maker.pattern(Repeated(Letter(string.digits), count, count)))


def _ranged(low: int, high: int) -> Callable[[Maker, Reference], Typed]:
    def make(maker: Maker, reference: Reference) -> Typed:
        maker.numbers(reference, 0)
        return maker.whole(low, high)

    return make


def _price(maker: Maker, reference: Reference) -> Typed:
    from sqlstream.runtime.connectors.generators.datagen_generators import RandomDecimal

    low, high = maker.numbers(reference, 0, 2) or (0, 1000)
    hint = "write #{commerce.price '1','100'}"
    maker.check(0 <= low <= high < 10**13, f"there is no price from {low} to {high}", hint)
    price = decimal(18, 2)
    return Typed(RandomDecimal(price, maker.key(), low * 100, high * 100), price)


def _boolean(maker: Maker, reference: Reference) -> Typed:
    from sqlstream.runtime.connectors.generators.datagen_generators import RandomBoolean

    maker.numbers(reference, 0)
    return Typed(RandomBoolean(BOOLEAN, maker.key()), BOOLEAN)


def _away(sign: int) -> Callable[[Maker, Reference], Typed]:
    """date.past and date.future: at most, at least if it is given, unit, pattern if it is given."""

    def make(maker: Maker, reference: Reference) -> Typed:
        arguments = list(reference.arguments)
        place = next((i for i, text in enumerate(arguments) if text.upper() in _UNITS_MS), 0)
        hint = _PAST.replace("past", reference.written.partition(".")[2])
        maker.check(
            place in (1, 2), f"{reference.written} takes numbers and one of {', '.join(_UNITS_MS)}", hint
        )
        unit = _UNITS_MS[arguments[place].upper()]
        bounds = sorted(
            [maker.number(reference, text) * unit for text in arguments[:place]] + [0] * (place == 1)
        )
        maker.check(bounds[0] >= 0, "a distance is not below 0", hint)
        maker.check(
            bounds[1] <= _YEARS_MAX * _YEAR_DAYS * DAY_MS, f"it is more than {_YEARS_MAX} years away", hint
        )
        low, high = sorted((sign * bounds[0], sign * bounds[1]))
        return _moment(maker, reference, (low, high), arguments[place + 1 :])

    return make


def _birthday(maker: Maker, reference: Reference) -> Typed:
    given = reference.arguments
    youngest, oldest = [maker.number(reference, text) for text in given[:2]] if len(given) > 1 else (18, 65)
    pattern = list(given[2:] if len(given) > 1 else given)
    hint = "write #{date.birthday '18','65'}"
    maker.check(0 <= youngest <= oldest <= _YEARS_MAX, "the ages do not go together", hint)
    year = -365.25 * DAY_MS
    return _moment(maker, reference, (int(oldest * year), int(youngest * year)), pattern)


def _between(maker: Maker, reference: Reference) -> Typed:
    hint = "write #{date.between '2024-01-01 00:00:00','2024-12-31 00:00:00'}"
    maker.check(2 <= len(reference.arguments) <= 3, "date.between takes two moments", hint)
    moments = []
    for text in reference.arguments[:2]:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError as error:
            raise maker.refusal(f'"{text}" is no moment', hint) from error
        utc = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        moments.append(int(utc.timestamp() * 1000))
    maker.check(moments[0] <= moments[1], "the first moment is after the second", hint)
    return _moment(
        maker, reference, (moments[0], moments[1]), list(reference.arguments[2:]), is_from_now=False
    )


def _moment(
    maker: Maker, reference: Reference, bounds: tuple[int, int], pattern: list[str], is_from_now: bool = True
) -> Typed:
    from sqlstream.runtime.connectors.generators.faker_values import AsText, Moment

    maker.check(len(pattern) <= 1, f"{reference.written} has too many arguments", _PAST)
    moment = Moment(maker.key(), *bounds, is_from_now=is_from_now)
    if not pattern:
        return Typed(moment, timestamp(3))
    try:
        return Typed(AsText(moment, timestamp(3), pattern[0]))
    except (ValueError, UserError) as error:
        raise maker.refusal(
            f'"{pattern[0]}" is no pattern of a date', "write one as 'yyyy-MM-dd HH:mm:ss'"
        ) from error


def _words(count_default: int, *, is_sentence: bool) -> Callable[[Maker, Reference], Typed]:
    """Some hundred texts of words, made once."""

    def make(maker: Maker, reference: Reference) -> Typed:
        from sqlstream.runtime.connectors.generators.faker_values import Pool

        count = (maker.numbers(reference, 0, 1) or [count_default])[0]
        maker.check(1 <= count <= _PARTS_MAX, f"it takes from 1 to {_PARTS_MAX} words", "write fewer")
        return Typed(Pool(maker.key(), _texts(count, is_sentence)))

    return make


@functools.cache
def _texts(count: int, is_sentence: bool) -> tuple[str, ...]:
    words, source = pools()["lorem.word"][1], random.Random(count)
    made = [" ".join(source.choices(words, k=count)) for _ in range(_SENTENCES)]
    return tuple(f"{text.capitalize()}." if is_sentence else text for text in made)


def _paragraph(maker: Maker, reference: Reference) -> Typed:
    from sqlstream.runtime.connectors.generators.faker_values import Joined, Pool

    count = (maker.numbers(reference, 0, 1) or [3])[0]
    maker.check(1 <= count <= _PARTS_MAX, f"it takes from 1 to {_PARTS_MAX} sentences", "write fewer")
    sentences: list[Generator] = [Pool(maker.key(), _texts(6, True)) for _ in range(count)]
    return Typed(sentences[0] if count == 1 else Joined(sentences, " "))


def _characters(least_default: int, most_default: int) -> Callable[[Maker, Reference], Typed]:
    def make(maker: Maker, reference: Reference) -> Typed:
        numbers = maker.numbers(reference, 0, 1, 2) or [least_default, most_default]
        least, most = numbers[0], numbers[-1]
        hint = f"write #{{{reference.written} '8'}}"
        maker.check(0 <= least <= most, f"a text cannot have {least} to {most} characters", hint)
        return Typed(maker.pattern(Repeated(Letter(_ALNUM), least, most)))

    return make


_DIGITS, _LOWER = {"#": string.digits}, {"?": string.ascii_lowercase}
_LATER_BY_METHOD = {"past": _away(-1), "future": _away(1), "birthday": _birthday, "between": _between}
_BY_NAME: dict[str, Callable[[Maker, Reference], Typed]] = {
    "regexify": _regexify,
    "json": _json,
    "jsona": _json_with_lists,
    "numerify": _lettered(_DIGITS),
    "letterify": _lettered(_LOWER),
    "bothify": _lettered(_DIGITS | _LOWER),
    "options.option": _options,
    "bool.bool": _boolean,
    "number.numberBetween": _number_between,
    "number.randomDouble": _random_double,
    "number.randomNumber": _random_number,
    "number.randomDigit": _ranged(0, 9),
    "number.randomDigitNotZero": _ranged(1, 9),
    "number.digit": _ranged(0, 9),
    "number.digits": _digits,
    "number.positive": _ranged(1, 2**31 - 1),
    "number.negative": _ranged(-(2**31), -1),
    "commerce.price": _price,
    "lorem.words": _words(3, is_sentence=False),
    "lorem.sentence": _words(6, is_sentence=True),
    "lorem.paragraph": _paragraph,
    "lorem.characters": _characters(255, 255),
    "internet.password": _characters(8, 16),
    **{f"date.{method}": made for method, made in _LATER_BY_METHOD.items()},
    **{f"timeAndDate.{method}": made for method, made in _LATER_BY_METHOD.items()},
}
_NAMES = tuple(_BY_NAME)
_METHODS = {folded(name): made for name, made in _BY_NAME.items()}
_ALIASES = {
    "option": "options.option",
    "options.nextelement": "options.option",
    "date.birthdaylocaldate": "date.birthday",
}
