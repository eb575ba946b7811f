"""Where the server of this machine and user is found: the data directory, and what the server says of itself in it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

SERVER_FILE = "server.json"


class ServerFile(msgspec.Struct, frozen=True, rename="kebab"):
    """What commands of this machine and user read to find the running server. Clients of the control protocol connect to the
    socket `control_address` with `control_secret`, which are made anew at each start."""

    process_id: int
    gateway: str
    rest: str
    is_token_required: bool
    version: str = ""
    control_address: str = ""
    control_secret: str = ""


def read_server_file(directory: str) -> ServerFile:
    """What the server of a data directory says of itself. FileNotFoundError when none runs, other OSError when the file cannot be
    read, msgspec.MsgspecError when it is damaged."""
    with open(os.path.join(directory, SERVER_FILE), "rb") as stream:
        return msgspec.json.decode(stream.read(), type=ServerFile)


def data_directory(given: str) -> str:
    """The given directory, else `sqlstream` below $XDG_STATE_HOME, which is ~/.local/state when it is not set."""
    if given:
        return os.path.abspath(os.path.expanduser(given))
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return os.path.join(state, "sqlstream")
