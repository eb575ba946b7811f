"""Charsets of ENCODE and DECODE."""

from __future__ import annotations

from sqlstream.errors import UserError

_CODECS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}


def codec_of(charset: str) -> str:
    """Python's name of a charset, given in any case. UserError SS3460 for another one."""
    codec = _CODECS.get(charset.upper())
    if codec is None:
        hint = f"use one of {', '.join(_CODECS)}"
        raise UserError("SS3460", f'charset "{charset}" does not exist', hint=hint)
    return codec
