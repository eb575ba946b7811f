"""Values that no message shows: those of options whose key names a secret (Flink: GlobalConfiguration.SENSITIVE_KEYS)."""

from __future__ import annotations

import functools
import itertools
import re

MASK = "******"
_SENSITIVE = (
    *("password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params", "service-key"),
    *("token", "basic-auth", "jaas.config", "http-headers", "access-key", "account-key", "private-key"),
    *(".header.", "subscribe-message", "client.authorization", "custom-headers"),
)
_WORDS = frozenset({"pass", "passwd", "pwd", "passphrase", "passcode", "credential", "credentials"})
"""Words of a key that name a secret in other products: a key with one of them is no option of ours, and its value is a secret."""

_MISSPELLED = (
    *(("password", 2), ("passwd", 1), ("secret", 1), ("token", 1), ("apikey", 1), ("credentials", 2)),
    *(("accesskey", 2), ("accesskeyid", 2), ("accountkey", 2), ("privatekey", 2), ("servicekey", 2)),
    *(("authparams", 2), ("basicauth", 2), ("jaasconfig", 2), ("httpheaders", 2), ("passphrase", 2)),
)
"""A word of a key, or two side by side, within so many letters of one of these may be meant for it: `tokn`, `acces-key`."""

_COUNTS = frozenset({"max-tokens", "budget.tokens", "limit.tokens-per-minute"})
"""Options that count the tokens of a text."""

_OTHER_WORDS = frozenset({"taken", "woken"})
"""Words of English that are as near."""

_LENGTH_MIN = 4
_VALUE = r"""(?P<v>['"])(?P<value>(?:(?!(?P=v)).|(?P=v){2})*)(?P=v)?"""
_PAIR = re.compile(
    rf"""(?P<q>['"`])(?P<key>[^'"`\n]+)(?P=q)\s*(?:=>|:=|[=:])?\s*{_VALUE}""",
    re.DOTALL,
)
_PAIR_WITHOUT_QUOTES = re.compile(
    r"""(?P<q>['"`])(?P<key>[^'"`\n/]+)(?P=q)\s*(?:=>|:=|[=:])\s*(?P<value>[^\s'"`,;()=>:][^\s'"`,;()]*)"""
)
"""No path is a key: `could not read "/a/tokens.json": no such file` shows its reason."""
_BARE_PAIR = re.compile(
    r"""\bSET\s+(?P<key>[^\s'"=]+)\s*=\s*(?P<v>['"]?)(?P<value>(?:[^;\n'"]|(?!(?P=v))['"])*)""", re.IGNORECASE
)
_OPTIONS = re.compile(r"""\b(?:WITH|OPTIONS|SET)\s*\((?:'(?:[^']|'')*'?|"[^"]*"?|[^)'"])*""", re.IGNORECASE)
_BARE_KEY = re.compile(rf"""[(,]\s*(?P<key>[\w.-]+)\s*(?:=>|:=|[=:])\s*{_VALUE}""", re.DOTALL)
"""Within the brackets of options; elsewhere `token = 'a'` compares a column."""

_CLAUSE = re.compile(rf"""\b(?:IDENTIFIED\s+BY|PASSWORD|SECRET)\s+{_VALUE}""", re.DOTALL | re.IGNORECASE)
"""Clauses of other databases, which are refused."""

_HINT = re.compile(r"/\*\+.*?(?:\*/|$)", re.DOTALL)
_URL_TOKEN = re.compile(r"""\bsc://[^\s'"]*?;token=(?P<value>[^;\s'"]+)""", re.IGNORECASE)
"""The address of a Spark Connect server may hold the token."""
_URL_LOGIN = re.compile(r"""\b\w+://[^\s'"/:@]*:(?P<value>[^\s'"/@]+)@""")
_WORD_OF_ADDRESS = re.compile(
    r"""['"](?:[^'"\n]*[\s;?&])?pass(?:word|wd)\s*=\s*(?P<value>[^\s'";&]+)""", re.IGNORECASE
)
"""The address of a database may hold the password: `scheme://user:password@host`, `host=… password=…`. Such addresses are
refused, and the excerpt of the refusal must not show them."""

_SECRET_PARAMETERS = frozenset({"key", "sig", "signature", "auth", "code", "hmac", "delegation"})
"""Names of parameters in addresses, or their last words, that carry a secret: of Google, Azure, S3, WebHDFS."""

_URL_PARAMETER = re.compile(r"""(?<=[?&])(?P<key>[\w.-]+)=(?P<value>[^\s'"&#]+)""")
"""Of an address of HTTP."""


@functools.lru_cache(maxsize=4096)
def is_secret(key: str) -> bool:
    """Whether the key of an option or setting names a secret, or may be a misspelled one.

    >>> is_secret("properties.ssl.Key.Password"), is_secret("path"), is_secret("pasword"), is_secret("s3.secert-key")
    (True, False, True, True)
    """
    folded = key.lower()
    if folded in _COUNTS:
        return False
    if any(part in folded for part in _SENSITIVE):
        return True
    words = re.findall(r"[^\W_]+", folded[:_KEY_CHARACTERS_MAX])
    return any(
        word in _WORDS or any(_is_within(word, wanted, most) for wanted, most in _MISSPELLED)
        for word in (*words, *map("".join, itertools.pairwise(words)))
        if word not in _OTHER_WORDS
    )


_KEY_CHARACTERS_MAX = 200


def _is_within(word: str, wanted: str, most: int) -> bool:
    """Whether at most so many letters are missing, added, changed or swapped with a neighbour."""
    if abs(len(word) - len(wanted)) > most:
        return False
    before: list[int] = []
    row = list(range(len(wanted) + 1))
    for i, letter in enumerate(word):
        earlier, before, row = before, row, [i + 1]
        for j, other in enumerate(wanted):
            row.append(min(before[j] + (letter != other), before[j + 1] + 1, row[j] + 1))
            if i and j and letter == wanted[j - 1] and word[i - 1] == other:
                row[-1] = min(row[-1], earlier[j - 1] + 1)
    return row[-1] <= most


def masked(key: str, value: str) -> str:
    """The value of an option as messages, SHOW and SET show it.

    >>> masked("spark.remote", "sc://host/;token=abc;use_ssl=true")
    'sc://host/;token=******;use_ssl=true'
    >>> masked("path", "host=a password=hunter2"), masked("path", "postgresql://u:hunter2@a/db")
    ('host=a password=******', 'postgresql://u:******@a/db')
    >>> masked("url", "https://a/b?api_key=hunter2&x=1")
    'https://a/b?api_key=******&x=1'
    """
    if is_secret(key):
        return MASK
    # As if it stood in quotes, where the addresses are found that hold a password.
    quoted = f"'{value}'"
    return without_secrets(_with_masks(quoted, _token_ranges(quoted))[1:-1])


def secret_ranges(text: str) -> list[tuple[int, int]]:
    """The spans of secret values in SQL, in order.

    They are found in `'key' = 'value'`, also when it is miswritten, in SET without quotes, and as tokens within addresses. Every
    other literal that is one of these values counts too."""
    patterns = (_PAIR, _PAIR_WITHOUT_QUOTES, _BARE_PAIR)
    found = {
        m.span("value") for p in patterns for m in p.finditer(text) if m["value"] and is_secret(m["key"])
    }
    for options in _OPTIONS.finditer(text):
        pairs = _BARE_KEY.finditer(text, options.start(), options.end())
        found |= {m.span("value") for m in pairs if m["value"] and is_secret(m["key"])}
    for pair in _PAIR.finditer(text):
        if "''" in pair["value"]:
            # A text that holds SQL in its turn; the positions of its characters stay.
            start = pair.start("value")
            inner = secret_ranges(pair["value"].replace("''", "' "))
            found |= {(start + first, start + end) for first, end in inner}
    found |= {m.span("value") for m in _CLAUSE.finditer(text) if m["value"]}
    for value in {text[start:end] for start, end in found}:
        if _is_telling(value):
            again = re.finditer(rf"(?<=['\"]){re.escape(value)}(?=['\"])", text)
            found |= {m.span() for m in again}
    return _merged([*found, *_token_ranges(text)])


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, where several overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _is_telling(value: str) -> bool:
    """A short text, or a switch, is no secret, and would turn up within other words."""
    return len(value) >= _LENGTH_MIN and value.lower() not in ("true", "false")


def _token_ranges(text: str) -> list[tuple[int, int]]:
    patterns = (_URL_TOKEN, _URL_LOGIN, _WORD_OF_ADDRESS)
    found = [match.span("value") for pattern in patterns for match in pattern.finditer(text)]
    found += [m.span("value") for m in _URL_PARAMETER.finditer(text) if _is_secret_parameter(m["key"])]
    return _merged(sorted(found))


def _is_secret_parameter(key: str) -> bool:
    return is_secret(key) or re.split("[._-]", key.lower())[-1] in _SECRET_PARAMETERS


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
    for value in sorted(filter(_is_telling, values), key=len, reverse=True):
        text = text.replace(value, MASK).replace(value.replace("''", "'"), MASK)
    return text


def query_without_secrets(query: str) -> str:
    """A stored query with the secrets of its OPTIONS hints and addresses masked; its conditions stay.

    >>> query_without_secrets("SELECT * FROM t /*+ OPTIONS('password'='abc1') */ WHERE `token` = 'abc1'")
    "SELECT * FROM t /*+ OPTIONS('password'='******') */ WHERE `token` = 'abc1'"
    """
    hints = [hint.span() for hint in _HINT.finditer(query)]
    ranges = [r for r in secret_ranges(query) if any(start <= r[0] < end for start, end in hints)]
    return _with_masks(query, _merged([*ranges, *_token_ranges(query)]))
