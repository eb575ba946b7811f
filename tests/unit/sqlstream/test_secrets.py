"""What messages do not show."""

from __future__ import annotations

import pytest

from sqlstream.secrets import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'path' = 'host=a password=hunter2 port=1'", "'path' = 'host=a password=****** port=1'"),
        ("'path' = 'postgresql://u:hunter2@a/db'", "'path' = 'postgresql://u:******@a/db'"),
        (
            "'url' = 'jdbc:postgresql://a/db?user=u&password=hunter2'",
            "'url' = 'jdbc:postgresql://a/db?user=u&password=******'",
        ),
        ("SELECT * FROM t WHERE password = hunter2", "SELECT * FROM t WHERE password = hunter2"),
    ],
)
def test_a_password_within_an_address_is_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
