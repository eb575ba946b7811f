"""Tokens are kept as hashes, in files that only their user may read."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sqlstream.client.server.roles import Principal, Role
from sqlstream.client.server.tokens import Tokens
from sqlstream.errors import ExternalError, UserError


def test_the_first_token_is_made_once(tmp_path: Path) -> None:
    tokens = Tokens(str(tmp_path / "data"))
    assert tokens.ensure_first()
    token = (tmp_path / "data" / "token").read_text().strip()
    assert len(token) >= 43
    assert not tokens.ensure_first()
    assert Tokens(str(tmp_path / "data")).principal_of(token) == Principal("admin", Role.ADMIN)
    assert (tmp_path / "data" / "token").read_text() == f"{token}\n"
    for name in ("token", "tokens.json"):
        assert (tmp_path / "data" / name).stat().st_mode & 0o777 == 0o600
    assert token not in (tmp_path / "data" / "tokens.json").read_text()


def test_names_are_unique_and_a_removed_token_is_unknown(tmp_path: Path) -> None:
    tokens = Tokens(str(tmp_path))
    token = tokens.add("ci", Role.OPERATOR)
    assert tokens.principal_of(token) == Principal("ci", Role.OPERATOR)
    assert (tokens.role_of("ci"), tokens.role_of("x")) == (Role.OPERATOR, None)
    with pytest.raises(UserError, match='there is a token "ci" already'):
        tokens.add("ci", Role.ADMIN)
    with pytest.raises(UserError, match="cannot name a token"):
        tokens.add("a b", Role.ADMIN)
    tokens.remove("ci")
    assert tokens.principal_of(token) is None
    with pytest.raises(UserError, match='there is no token "ci"'):
        tokens.remove("ci")


def test_a_file_that_others_may_read_or_that_is_broken_lets_nobody_in(tmp_path: Path) -> None:
    tokens = Tokens(str(tmp_path))
    token = tokens.add("a", Role.ADMIN)
    path = tmp_path / "tokens.json"
    path.chmod(0o640)
    with pytest.raises(ExternalError, match="other users may read"):
        Tokens(str(tmp_path)).principal_of(token)
    path.chmod(0o600)
    path.write_text(json.dumps([{"name": "a", "role": "king", "sha256": ""}]))
    with pytest.raises(ExternalError, match="could not read"):
        Tokens(str(tmp_path)).principal_of(token)


def test_tokens_added_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    names = [f"user{n}" for n in range(8)]
    adders = [
        threading.Thread(target=lambda name=name: Tokens(str(tmp_path)).add(name, Role.OPERATOR))
        for name in names
    ]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join(60)
    assert sorted(t.name for t in Tokens(str(tmp_path)).all()) == names
