"""Functions of texts that cost much: computed once for each distinct text of a batch that repeats its texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.kernel import Datum, Kernel

SAMPLE_ROWS = 1_024
_ROWS_MIN = 4 * SAMPLE_ROWS
_DISTINCT_MAX = 0.75
"""Finding the distinct texts costs less than a fifth of a regular expression over all."""


def once_per_text(kernel: Kernel) -> Kernel:
    """The same function of its first argument, a column whose NULLs give NULL; the others are constants."""

    def computed(text: Datum, *constants: Datum) -> Datum:
        if not isinstance(text, pa.Array) or not _repeats(text):
            return kernel(text, *constants)
        encoded = text.dictionary_encode()
        return kernel(encoded.dictionary, *constants).take(encoded.indices)

    return computed


def _repeats(texts: pa.Array) -> bool:
    """Whether texts occur several times in the batch: the first rows tell, as a longer part has no more distinct ones per row."""
    if len(texts) < _ROWS_MIN:
        return False
    return pc.count_distinct(texts[:SAMPLE_ROWS]).as_py() <= SAMPLE_ROWS * _DISTINCT_MAX
