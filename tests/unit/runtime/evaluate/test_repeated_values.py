"""Functions that are computed once per distinct text."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.text.pattern import SAMPLE_ROWS, _extracted, once_per_text


@pytest.mark.parametrize("distinct", [3, 10 * SAMPLE_ROWS])
def test_rows_get_the_result_of_their_text_and_nulls_stay(distinct: int) -> None:
    texts = [None if n % 7 == 0 else f"key{n % distinct}=v{n % distinct}&" for n in range(8 * SAMPLE_ROWS)]
    found = _extracted(EvaluationContext(), "(key[0-9]*)=([^&]*)", 2)(pa.array(texts)).to_pylist()
    assert found == [t and re.search("=([^&]*)", t)[1] for t in texts]  # type: ignore[index]


def test_repeated_texts_are_computed_once_and_few_rows_at_once() -> None:
    seen: list[int] = []
    kernel = once_per_text(lambda text, *_: seen.append(len(text)) or text)
    repeated, different = (
        pa.array(["a", "b"] * 4 * SAMPLE_ROWS),
        pa.array(list(map(str, range(8 * SAMPLE_ROWS)))),
    )
    for texts in (repeated, different, repeated[:10], repeated[:0]):
        assert kernel(texts) == texts
    assert seen == [2, 8 * SAMPLE_ROWS, 10, 0]
