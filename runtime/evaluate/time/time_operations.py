"""What programs for `kernels.text.time_texts` are made of, apart from the kernels: who writes no time loads none."""

from __future__ import annotations

BYTE, FIELD, BLANKS, SPACES, DIGITS, OPTION, END = range(7)
"""Operations of readers: (BYTE, this, or this), (FIELD, which, least digits, most digits), white space, at least one space, any
digits, (OPTION, where to go on without what follows), (END, 1 if anything may follow). An option ends where its target is, and
what is behind it is BLANKS and END."""

NUMBER, HALF = 7, 8
"""Operations of writers beside BYTE: (NUMBER, field, digits, divisor) and AM or PM."""

YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, FRACTION = range(7)
"""Fields; a fraction of a second is in nanoseconds."""
DAY_OF_YEAR, SHORT_YEAR, HOUR_OF_12, HOUR_FROM_1, HOUR_OF_12_FROM_1 = range(7, 12)
"""Further fields of writers."""
FIELDS = 12
