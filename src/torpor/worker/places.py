"""Where in the author's own code something is: the innermost frame that is neither Python's, nor a library's, nor torpor's."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_LIBRARIES = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OTHERS = (*(str(Path(place).resolve()) for place in _LIBRARIES if place), str(Path(__file__).resolve().parent.parent))


def authors_frame(stack: traceback.StackSummary) -> traceback.FrameSummary | None:
    """Return the innermost frame of the author's code, else the innermost of all, else None."""
    for frame in reversed(stack):
        if not frame.filename.startswith((*_OTHERS, "<frozen")):
            return frame
    return stack[-1] if stack else None


def place_of(error: BaseException) -> str:
    """Return where in the author's code an error came from, `hello.py:12`, or nothing."""
    frame = authors_frame(traceback.extract_tb(error.__traceback__))
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame is not None else ""
