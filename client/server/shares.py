"""Something of which there is so much, and for one user so much."""

from __future__ import annotations

from collections import Counter


class Shares:
    """Gives out what there is, at most `each_max` to one holder. Used by the thread of one event loop.

    State: what each holder has."""

    def __init__(self, all_max: int, each_max: int) -> None:
        self._all_max = all_max
        self._each_max = each_max
        self._taken = 0
        self._of_each: Counter[str] = Counter()

    def take(self, holder: str, amount: int = 1) -> bool:
        """False, and nothing is taken, when there is not enough left."""
        if self._taken + amount > self._all_max or self._of_each[holder] + amount > self._each_max:
            return False
        self._taken += amount
        self._of_each[holder] += amount
        return True

    def give_back(self, holder: str, amount: int = 1) -> None:
        self._taken -= amount
        self._of_each[holder] -= amount
        if not self._of_each[holder]:
            del self._of_each[holder]
