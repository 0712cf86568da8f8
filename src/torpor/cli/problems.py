"""Errors as people and programs read them: what happened, what to do next. Traces only of an author's code, or with --debug."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from torpor.cli.screen import Screen, clean
from torpor.errors import TorporError

if TYPE_CHECKING:
    from types import TracebackType

_OURS = (
    "<frozen",
    str(Path(__file__).resolve().parents[1]),
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)
"""Where files lie that no author of a program wrote."""


def tell(error: BaseException, *, as_json: bool = False, debug: bool = False) -> int:
    """Write an error to standard error and return the exit code that belongs to it."""
    known = error if isinstance(error, TorporError) else None
    if debug:
        traceback.print_exception(error)
    if as_json:
        from torpor.cli.documents import problem, write

        plain = TorporError(f"{type(error).__name__}: {error}") if known is None else known
        write(problem(plain), sys.stderr)
        return plain.exit_code
    if known is not None:
        said = clean(known.message.splitlines()[0])
        lines = Screen.of(sys.stderr).wrapped("error: ", said, 7) if sys.stderr.isatty() else [f"error: {said}"]
        _write("\n".join([*lines, *([f"hint: {clean(known.hint)}"] if known.hint else []), ""]))  # a hint is pasted
        return known.exit_code
    if isinstance(error, SyntaxError):
        _write("".join(traceback.format_exception_only(error)))
        return TorporError.exit_code
    cut = of_the_author(error)
    if cut is not None and not debug:
        _write("".join(traceback.format_exception(type(error), error, cut)))
        return TorporError.exit_code
    _write(f"error: {type(error).__name__}: {clean(str(error))}\n")
    if cut is None and not debug:
        _write("hint: this looks like a defect of torpor; --debug shows where\n")
    return TorporError.exit_code


def of_the_author(error: BaseException) -> TracebackType | None:
    """Return the part of a traceback that is the author's code, from its first frame on; None if there is none."""
    at = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_OURS):
            return at
        at = at.tb_next
    return None


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
