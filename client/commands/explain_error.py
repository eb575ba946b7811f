"""`sqlstream explain-error`: what an error code means and what to do about it."""

from __future__ import annotations

import argparse
import re

from sqlstream.error_codes import ErrorCode, error_code, explanation, mended_by, sections
from sqlstream.errors import UserError, did_you_mean

EPILOG = """\
examples:
  sqlstream explain-error SS2003
  sqlstream explain-error SS2003 --json

docs/errors.md has all codes. The message of an error says what it is about, and its hint what to do next.

The object of --json: `families`, its kinds of error (USER, OUTSIDE, JOB, BUG); `mended_by`, who can mend it; `reason`, which
restarts go by, null where each error has its own; `retry`, whether it is tried again (NOW, BACKOFF, NEVER); `meaning`; `remedy`,
what to do; `hint`, that of every error of the code, null where each has its own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("code", metavar="CODE", help="the code of an error, such as SS2003")
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def execute(arguments: argparse.Namespace) -> int:
    found = explained(arguments.code)
    if arguments.json:
        from sqlstream.client.commands.remote.server_arguments import print_json

        print_json(_fields(found))
    else:
        print(explanation(found))
    return 0


def explained(text: str) -> ErrorCode:
    """The code that is written: ss2003, 2003 and error[SS2003] are too. UserError SS4002 for one that there is not."""
    digits = re.search(r"\d{4}", text)
    found = error_code(f"SS{digits[0]}") if digits else None
    if found is None:
        known = [each.code for codes in sections().values() for each in codes]
        hint = did_you_mean(text, known) or "write a code such as SS2003; docs/errors.md has all"
        raise UserError("SS4002", f'there is no error code "{text}"', hint=hint)
    return found


def _fields(code: ErrorCode) -> dict[str, object]:
    return {
        "code": code.code,
        "families": [family.name for family in code.families],
        "mended_by": mended_by(code),
        "reason": code.reason.value if code.reason else None,
        "retry": code.retry.value,
        "meaning": code.meaning,
        "remedy": code.remedy,
        "hint": code.hint or None,
    }
