"""Values that no message shows: those of options whose key names a secret (Flink: GlobalConfiguration.SENSITIVE_KEYS)."""

from __future__ import annotations

import re

MASK = "******"
_SENSITIVE = (
    *("password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params", "service-key"),
    *("token", "basic-auth", "jaas.config", "http-headers"),
)
_LENGTH_MIN = 4
_PAIR = re.compile(
    r"""(?P<q>['"`])(?P<key>[^'"`\n]+)(?P=q)\s*=?\s*(?P<v>['"])(?P<value>(?:(?!(?P=v)).|(?P=v){2})*)(?P=v)?""",
    re.DOTALL,
)
_BARE_PAIR = re.compile(
    r"""\bSET\s+(?P<key>[^\s'"=]+)\s*=\s*(?P<v>['"]?)(?P<value>(?:[^;\n'"]|(?!(?P=v))['"])*)""", re.IGNORECASE
)
_URL_TOKEN = re.compile(r"""\bsc://[^\s'"]*?;token=(?P<value>[^;\s'"]+)""", re.IGNORECASE)
"""The address of a Spark Connect server may hold the token."""
_URL_LOGIN = re.compile(r"""\b\w+://[^\s'"/:@]*:(?P<value>[^\s'"/@]+)@""")
_WORD_OF_ADDRESS = re.compile(
    r"""['"](?:[^'"\n]*[\s;?&])?pass(?:word|wd)\s*=\s*(?P<value>[^\s'";&]+)""", re.IGNORECASE
)
"""The address of a database may hold the password: `scheme://user:password@host`, `host=… password=…`. Such addresses are
refused, and the excerpt of the refusal must not show them."""


def is_secret(key: str) -> bool:
    """Whether the key of an option or setting names a secret.

    >>> is_secret("properties.ssl.Key.Password"), is_secret("path")
    (True, False)
    """
    folded = key.lower()
    return any(part in folded for part in _SENSITIVE)


def masked(key: str, value: str) -> str:
    """The value of an option as messages, SHOW and SET show it.

    >>> masked("spark.remote", "sc://host/;token=abc;use_ssl=true")
    'sc://host/;token=******;use_ssl=true'
    >>> masked("path", "host=a password=hunter2"), masked("path", "postgresql://u:hunter2@a/db")
    ('host=a password=******', 'postgresql://u:******@a/db')
    """
    return MASK if is_secret(key) else _with_masks(f"'{value}'", _token_ranges(f"'{value}'"))[1:-1]


def secret_ranges(text: str) -> list[tuple[int, int]]:
    """The spans of secret values in SQL, in order: `'key' = 'value'`, the unquoted form of SET, and tokens within addresses."""
    found = (match for pattern in (_PAIR, _BARE_PAIR) for match in pattern.finditer(text))
    ranges = {m.span("value") for m in found if m["value"] and is_secret(m["key"])}
    tokens = {t for t in _token_ranges(text) if not any(start <= t[0] < end for start, end in ranges)}
    return sorted(ranges | tokens)


def _token_ranges(text: str) -> list[tuple[int, int]]:
    patterns = (_URL_TOKEN, _URL_LOGIN, _WORD_OF_ADDRESS)
    return sorted(match.span("value") for pattern in patterns for match in pattern.finditer(text))


def _with_masks(text: str, ranges: list[tuple[int, int]]) -> str:
    for start, end in reversed(ranges):
        text = text[:start] + MASK + text[end:]
    return text


def without_secrets(text: str, script: str = "") -> str:
    """The text with all secret values masked, also where it quotes one from `script`.

    >>> without_secrets("WITH ('api-key' = 'k''1', 'path' = 'p')")
    "WITH ('api-key' = '******', 'path' = 'p')"
    """
    text = _with_masks(text, secret_ranges(text))
    values = {script[start:end] for start, end in secret_ranges(script)}
    for value in sorted(values, key=len, reverse=True):
        # A shorter one, or a switch, is no secret, and would turn up within other words.
        if len(value) >= _LENGTH_MIN and value.lower() not in ("true", "false"):
            text = text.replace(value, MASK).replace(value.replace("''", "'"), MASK)
    return text
