"""The tokens that a server accepts: a file of names, roles and hashes, and the first token in a file of its own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from typing import Annotated

import msgspec

from sqlstream.client.server.kept_file import make_private_directory, write_file
from sqlstream.client.server.roles import Principal, Role
from sqlstream.errors import ExternalError, UserError, reason_of_error
from sqlstream.kept_formats import TOKENS

TOKENS_FILE = "tokens.json"
TOKEN_FILE = "token"
"""The first token, in clear: commands of this user on this machine read it."""

FIRST_NAME = "admin"
TOKEN_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


class _TokenFile(msgspec.Struct, frozen=True):
    """What the file holds. Release 0.1.0 has written the list of tokens alone, which is read as well."""

    version: int
    tokens: list[Token]


class _Head(msgspec.Struct, frozen=True):
    version: int


class Token(msgspec.Struct, frozen=True):
    """One token; `sha256` is the hash of its text. A token is 256 random bits, so a plain hash cannot be reversed. `jobs_max` and
    `sessions_max` are limits of its own, 0 for any number; without one, that of the settings holds."""

    name: str
    role: Role
    sha256: str
    jobs_max: Annotated[int, msgspec.Meta(ge=0)] | None = None
    sessions_max: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Tokens:
    """The tokens of a data directory. Thread-safe; the file is read again when it has changed, so that a token that was added
    or removed counts at once. State: what was read last."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, TOKENS_FILE)
        self._first_path = os.path.join(directory, TOKEN_FILE)
        self._directory = directory
        self._lock = threading.Lock()
        self._read_version: tuple[int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def first_token_path(self) -> str:
        return self._first_path

    def all(self) -> tuple[Token, ...]:
        """ExternalError SS5001 when the file cannot be read or others may read it, UserError SS6140 when it is of another
        version."""
        with self._lock:
            try:
                found = os.stat(self._path)
            except FileNotFoundError:
                self._read_version, self._tokens = None, ()
                return ()
            version = (found.st_mtime_ns, found.st_ino)
            if version != self._read_version:
                self._tokens = _read(self._path)
                self._read_version = version
            return self._tokens

    @property
    def is_of_this_release(self) -> bool:
        """Whether the file is written as this release does. OSError."""
        with open(self._path, "rb") as stream:
            return stream.read(64).lstrip().startswith(b"{")

    def write_anew(self) -> None:
        with self._changing():
            self._write(self.all())

    def principal_of(self, token: str) -> Principal | None:
        """Whose token this is."""
        digest = _hash(token)
        match = None
        for known in self.all():
            # Every one is compared, and in constant time: how long it takes tells nothing.
            if hmac.compare_digest(known.sha256, digest):
                match = Principal(known.name, known.role)
        return match

    def role_of(self, name: str) -> Role | None:
        found = self._named(name)
        return found.role if found is not None else None

    def jobs_max_of(self, name: str, otherwise: int) -> int:
        """How many jobs a user may have: the token's limit, or else that of the settings."""
        found = self._named(name)
        return otherwise if found is None or found.jobs_max is None else found.jobs_max

    def sessions_max_of(self, name: str, otherwise: int) -> int:
        found = self._named(name)
        return otherwise if found is None or found.sessions_max is None else found.sessions_max

    def _named(self, name: str) -> Token | None:
        return next((token for token in self.all() if token.name == name), None)

    def ensure_first(self) -> bool:
        """Make the first token, of an admin, when there is none, in a file that only this user may read; whether it was made."""
        if self.all():
            return False
        # In clear first: a crash between the two leaves a token that is made anew, not one that nobody knows.
        token = secrets.token_urlsafe(TOKEN_BYTES)
        make_private_directory(self._directory)
        write_file(self._first_path, f"{token}\n".encode())
        with self._changing():
            self._write((*self.all(), Token(FIRST_NAME, Role.ADMIN, _hash(token))))
        return True

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One process changes the tokens at a time."""
        make_private_directory(self._directory)
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def add(self, name: str, role: Role, jobs_max: int | None = None, sessions_max: int | None = None) -> str:
        """Make a token and return it; only its hash is kept. UserError SS4009 for a name that is taken or no name."""
        if _NAME.fullmatch(name) is None:
            raise UserError(
                "SS4009",
                f'"{name}" cannot name a token',
                hint="use letters, digits, _, ., @ and -, at most 64",
            )
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._changing():
            known = self.all()
            if any(t.name == name for t in known):
                raise UserError(
                    "SS4009",
                    f'there is a token "{name}" already',
                    hint="remove it first, or choose another name",
                )
            self._write((*known, Token(name, role, _hash(token), jobs_max, sessions_max)))
        return token

    def remove(self, name: str) -> None:
        """UserError SS4009 when there is none of that name."""
        with self._changing():
            known = self.all()
            left = tuple(t for t in known if t.name != name)
            if len(left) == len(known):
                raise UserError(
                    "SS4009", f'there is no token "{name}"', hint="list them with sqlstream token list"
                )
            self._write(left)
        if name == FIRST_NAME and os.path.exists(self._first_path):
            os.unlink(self._first_path)

    def _write(self, tokens: tuple[Token, ...]) -> None:
        make_private_directory(self._directory)
        kept = msgspec.json.encode(_TokenFile(TOKENS.version, list(tokens)))
        write_file(self._path, msgspec.json.format(kept, indent=2) + b"\n")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: str) -> tuple[Token, ...]:
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ExternalError(
                    "SS5001", f'other users may read "{path}"', hint=f"make it private: chmod 600 {path}"
                )
            content = stream.read()
        if content.lstrip().startswith(b"["):
            return tuple(msgspec.json.decode(content, type=list[Token]))
        version = msgspec.json.decode(content, type=_Head).version
        if not TOKENS.reads(version):
            problem, hint = TOKENS.refusal(version)
            raise UserError("SS6140", f'"{path}" was {problem}', hint=hint)
        return tuple(msgspec.json.decode(content, type=_TokenFile).tokens)
    except (OSError, msgspec.DecodeError) as error:
        raise ExternalError(
            "SS5001",
            f'could not read "{path}": {reason_of_error(error)}',
            hint="repair the file, or remove it to start with a fresh token",
        ) from error
