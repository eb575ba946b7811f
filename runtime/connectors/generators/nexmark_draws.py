"""The random draws that an event consists of, each named by seed, field and event number."""

from __future__ import annotations

import enum

STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

# The public suite's group shuffle: position i of a group of g holds number (i * 953) mod g, a permutation
# unless 953 divides g.
SHUFFLE_FACTOR = 953


class Draw(enum.IntEnum):
    """A field's draw. The numbers are part of the stream's definition: changing one changes every event."""

    POOL_LETTER = 0
    POOL_URL = 1
    PERSON_NAME = 10
    PERSON_EMAIL_USER_LENGTH = 11
    PERSON_EMAIL_DOMAIN_LENGTH = 12
    PERSON_EMAIL_LETTERS = 13
    PERSON_CREDIT_CARD = 14
    PERSON_CITY = 15
    PERSON_STATE = 16
    PERSON_EXTRA_LENGTH = 17
    PERSON_EXTRA = 18
    AUCTION_ITEM_NAME_LENGTH = 20
    AUCTION_ITEM_NAME = 21
    AUCTION_DESCRIPTION_LENGTH = 22
    AUCTION_DESCRIPTION = 23
    AUCTION_INITIAL_BID = 24
    AUCTION_RESERVE = 25
    AUCTION_EXPIRES = 26
    AUCTION_SELLER = 27
    AUCTION_CATEGORY = 28
    AUCTION_EXTRA_LENGTH = 29
    AUCTION_EXTRA = 30
    BID_AUCTION = 40
    BID_BIDDER = 41
    BID_PRICE = 42
    BID_CHANNEL = 43
    BID_EXTRA_LENGTH = 44
    BID_EXTRA = 45


def mix(x: int) -> int:
    """SplitMix64's finaliser on Python integers.

    >>> hex(mix(STEP))
    '0xe220a8397b1dcdaf'
    """
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def draw_key(seed: int, field: Draw) -> int:
    """Where the field's SplitMix64 sequence starts."""
    return mix((mix(seed & _MASK) + field * STEP) & _MASK)


def draw(key: int, number: int) -> int:
    """64 random bits of an event's field.

    >>> draw(0, 1) == mix(STEP)
    True
    """
    return mix((key + number * STEP) & _MASK)


def below(bits: int, bound: int) -> int:
    """32 random bits as a number in [0, bound).

    >>> below(1 << 31, 10)
    5
    """
    return (bits * bound) >> 32
