"""Users' functions by their references: imports, and what is wrong with what is found."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import traceback
from typing import Any

import sqlstream
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef
from sqlstream.python_functions import DeclarationError, UserFunction
from sqlstream.runtime.python.environment import import_object


def load_target(ref: FunctionRef) -> Any:
    """The Python function or aggregate of a reference. UserError SS5132 where this process cannot import it, or where it is
    declared otherwise than when CREATE FUNCTION was run."""
    found = load_function(ref.module, ref.attribute, "SS5132")
    now = found.declared
    was = (ref.kind, ref.mode, ref.parameters, ref.methods, ref.process)
    if (now.kind, now.mode, now.parameters, now.methods, now.process) != was:
        raise UserError(
            "SS5132",
            f'Python object "{ref.module}.{ref.attribute}" has changed since function {ref.name} was created',
            hint=f"ALTER FUNCTION {ref.name} AS '{ref.module}.{ref.attribute}' LANGUAGE PYTHON",
        )
    return found.target


def load_function(module: str, attribute: str, code: str) -> UserFunction:
    """What a decorator has made of `module.attribute`; UserError of this code, with the user's traceback, when there is none."""
    name = f"{module}.{attribute}"
    try:
        found = import_object(module, attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(
                code,
                f'there is no Python module "{error.name}"',
                hint="ship it: SET 'python.files' = 'path/to/module.py', or USING FILE 'path/to/module.py';"
                " or install it where the TaskManagers run",
            ) from None
        raise _failed(name, error, code) from error
    except AttributeError as error:
        if error.name == attribute:
            message = f'Python module "{module}" has no "{attribute}"'
            raise UserError(code, message, hint="name a function that the module defines") from None
        raise _failed(name, error, code) from error
    except BaseException as error:
        raise_interrupt(error)
        raise _failed(name, error, code) from error
    if isinstance(found, type):
        found = _declared(found, name, code)
    if not isinstance(found, UserFunction):
        hint = "decorate it: from sqlstream import udf, then @udf(result_type='BIGINT') above the function"
        if isinstance(found, type):
            hint = "derive it from sqlstream.PredictFunction (a model) or sqlstream.ProcessTableFunction, or decorate it (@udaf)"
        raise UserError(code, f'Python object "{name}" is no function of sqlstream', hint=hint)
    return found


_CLASSES = (
    ("sqlstream.process_functions", "ProcessTableFunction", "declared_function", "process table functions"),
    ("sqlstream.models", "PredictFunction", "declared_predict", "models"),
)
"""Module, class to derive from, what reads the declaration, and the page about it."""


def _declared(found: type, name: str, code: str) -> Any:
    """The function or model that a class declares; the class itself where it derives from none of them."""
    for place, base, declare, page in _CLASSES:
        # A class that derives from it has imported its module.
        module = sys.modules.get(place)
        if module is None or not issubclass(found, getattr(module, base)):
            continue
        try:
            return getattr(module, declare)(found)
        except DeclarationError as error:
            hint = f"correct the class: the page of {page} says what it declares"
            message = f'Python class "{name}" is declared wrongly: {error}'
            raise UserError(code, message, hint=hint) from None
    return found


def _failed(name: str, error: BaseException, code: str) -> UserError:
    said = (str(error).splitlines() or [""])[0][:300]
    return UserError(
        code,
        f'importing Python object "{name}" failed: {type(error).__name__}: {said}',
        detail=user_traceback(error),
        hint=install_hint(error) or "correct the module, or install what it imports",
    )


def raise_interrupt(error: BaseException) -> None:
    """Pass Ctrl-C on, which Python raises in the main thread. In every other thread it is the code that has raised it."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def install_hint(error: BaseException) -> str:
    """What to do about a module that a user's code imports and that is not there; "" for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return ""
    return f"install {error.name} where the TaskManagers run, or ship it with 'python.files' where it has no machine code"


# The traceback of a user's function, without the frames of the engine.


FRAMES_MAX = 20
TEXT_MAX = 4000
_OURS = os.path.dirname(os.path.abspath(sqlstream.__file__)) + os.sep


def user_traceback(error: BaseException) -> str:
    """The frames of the user's modules, the last FRAMES_MAX, and the exception; at most TEXT_MAX characters."""
    lines: list[str] = []
    frames = [
        (frame, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not _is_ours(frame.f_code.co_filename)
    ]
    if len(frames) > FRAMES_MAX:
        lines.append(f"  … {len(frames) - FRAMES_MAX} frames left out")
        frames = frames[-FRAMES_MAX:]
    for frame, number in frames:
        name = frame.f_code.co_filename
        lines.append(f'  File "{name}", line {number}, in {frame.f_code.co_name}')
        source = linecache.getline(name, number, frame.f_globals).strip()
        if source:
            lines.append(f"    {source[:200]}")
    said = "".join(traceback.format_exception_only(error)).strip()
    head = ["Traceback (most recent call last):"] if frames else []
    text = "\n".join([*head, *lines, said])
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX // 2]}\n…\n{text[-TEXT_MAX // 2 :]}"


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib")) or "/importlib/" in filename
