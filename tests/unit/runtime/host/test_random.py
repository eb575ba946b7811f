"""Ids and secrets."""

from __future__ import annotations

import re

from sqlstream.runtime.host.random import random_id, random_token


def test_ids_have_32_hex_digits_and_tokens_256_bits() -> None:
    ids, tokens = {random_id() for _ in range(50)}, {random_token() for _ in range(50)}
    assert (len(ids), len(tokens)) == (50, 50)
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert all(re.fullmatch("[0-9A-Za-z_-]{43}", one) for one in tokens)
