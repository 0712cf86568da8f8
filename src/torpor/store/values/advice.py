"""What to do about a value that cannot be stored: the hint of a refusal."""

from __future__ import annotations

import io
import types
from collections import deque
from collections.abc import Mapping

from torpor.store.values.form import Refused

_GENERAL = "make it a dataclass or a pydantic model, or return what you need from it"
_PLAIN_KINDS: tuple[type, ...] = (str, int, float, complex, bytes, bytearray, list, tuple, set, frozenset, dict)
_RUNNING = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def refusal(value: object) -> Refused:
    """The refusal of a value whose kind torpor does not store."""
    kind = type(value)
    return Refused(f"{_article(kind)} cannot be stored", hint=_hint(value, kind))


def _hint(value: object, kind: type) -> str:  # noqa: PLR0911 - a list of cases, one sentence each
    if isinstance(value, _RUNNING):
        return "await it, or collect it into a list, and store the result"
    if isinstance(value, _CALLABLE):
        return "a function is code, not a value: store its name or its result"
    if isinstance(value, io.IOBase):
        return "store the path or the content of the file, and open it where it is used"
    if isinstance(value, BaseException):
        return "store what you need of the error, for example str(error)"
    if kind.__name__.startswith("Secret"):
        return "secrets are not stored: name it, and resolve it with ctx.secret(name) where it is used"
    for plain_kind in _PLAIN_KINDS:
        if isinstance(value, plain_kind):
            return f"it would come back as another type: store {plain_kind.__name__}(...) of it"
    if isinstance(value, Mapping):
        return "store dict(...) of it"
    if isinstance(value, deque):
        return "store list(...) of it"
    if isinstance(value, memoryview):
        return "store bytes(...) of it"
    if hasattr(kind, "tolist"):
        return "store .tolist() of it"
    return _GENERAL


def _article(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a value of type {module}{kind.__qualname__}"
