"""How a class is named in a body, and found again.

A class is `module:Qualname`. `__main__` is written by the name under which others import the same file, so that
`python hello.py` and `torpor dev hello.py` agree. A pydantic class made by `Box[int]` is a list, `["app:Box", "int"]`.

Nothing here imports a module, and nothing is called to find a name: only the dictionaries of modules and classes that are
there already are read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path, PurePath
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from torpor.errors import UsageError
from torpor.store.values.form import Json, Refused

Types: TypeAlias = Callable[[str], type | None]
"""What a program registered: from a recorded name to its class, or None."""

_MAIN = ("__main__", "__mp_main__")
_SPOKEN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, object, NoneType),
        *(date, datetime, time, timedelta, Decimal, Fraction, UUID, Path, PurePath),
    )
} | {"Any": Any, "None": None, "...": Ellipsis}
_SPOKEN_BY_TYPE = {kind: name for name, kind in _SPOKEN.items()}


def module_name(module: str) -> str:
    """The name under which others import this module; differs from `module` only for the main one."""
    if module not in _MAIN:
        return module
    main = sys.modules.get(module)
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)  # `python -m package.module`
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else module


@lru_cache(maxsize=4096)
def name_of(cls: type) -> str:
    """The recorded name of a class; `Refused` if it could not be found by that name again."""
    if "<locals>" in cls.__qualname__:
        raise Refused(
            f"{cls.__qualname__} is defined inside a function, so another process could not find it",
            hint=f"move the class {cls.__name__} to the top level of its module",
        )
    name = f"{module_name(cls.__module__)}:{cls.__qualname__}"
    if not any(found is cls for found in _candidates(name)):  # G14
        raise Refused(
            f"the class {name} cannot be found by that name, so it could not be read again",
            hint=f"let the module {cls.__module__} have the class under its own name {cls.__qualname__}",
        )
    return name


def find(name: str, types: Types | None, *, fits: Callable[[type], bool]) -> type:
    """The class that is recorded as `name`; `UsageError` if this process has none that `fits`."""
    registered = types(name) if types else None
    if registered is not None and fits(registered):
        return registered
    for found in _candidates(name):
        if fits(found):
            return found
    module, _, qualname = name.partition(":")
    raise UsageError(
        f"a stored value is of the class {name}, which is not known here",
        hint=f"import the module {module} before the value is read; if {qualname} was moved or renamed, register it "
        "under its old name",
    )


def _candidates(name: str) -> Iterator[type]:
    module, _, qualname = name.partition(":")
    for holder in _modules(module):
        found: object = holder
        for part in qualname.split("."):
            # `vars`, not `getattr`: a module's `__getattr__` may import, a class's may run anything.
            found = vars(found).get(part) if isinstance(found, type | ModuleType) else None
        if isinstance(found, type):
            yield found


def _modules(name: str) -> Iterator[ModuleType]:
    for main in _MAIN:
        if main in sys.modules and module_name(main) == name:
            yield sys.modules[main]
    if name in sys.modules:
        yield sys.modules[name]


# Arguments of generic pydantic classes -------------------------------------------------------------------------------
def spell(kind: Any) -> Json:
    """A type as JSON; `Refused` for one that could not be read again."""
    if kind is None:
        return "None"
    if isinstance(kind, str | int | bool):  # inside Literal
        return {"literal": kind}
    origin, args = get_origin(kind), get_args(kind)
    if origin is None:
        metadata = getattr(kind, "__pydantic_generic_metadata__", None)
        if metadata and metadata["origin"] is not None:
            return [name_of(metadata["origin"]), *(spell(arg) for arg in metadata["args"])]
        if (spoken := _SPOKEN_BY_TYPE.get(kind)) is not None:
            return spoken
        if isinstance(kind, type):
            return name_of(kind)
    elif origin in (Union, UnionType):
        return ["Union" if origin is Union else "|", *(spell(arg) for arg in args)]  # two types, and so two classes
    elif origin is Literal:
        return ["literal", *(spell(arg) for arg in args)]
    elif origin in _SPOKEN_BY_TYPE:
        return [_SPOKEN_BY_TYPE[origin], *(spell(arg) for arg in args)]
    raise Refused(
        f"a generic class with the argument {kind!r} cannot be stored",
        hint="give the generic class a name of its own: class Name(Generic[...]): ...",
    )


def read_type(spelled: Json, types: Types | None) -> Any:
    """The type that `spell` wrote; `UsageError` if a class in it is not known here."""
    if type(spelled) is str:
        return _SPOKEN[spelled] if spelled in _SPOKEN else find(spelled, types, fits=lambda _: True)
    if type(spelled) is dict:
        return spelled["literal"]
    first, *rest = spelled
    args = tuple(read_type(part, types) for part in rest)
    if first == "|":
        return reduce(or_, args)
    if first == "Union":
        return Union[args]  # noqa: UP007 - the arguments are known only now
    if first == "literal":
        return Literal[args]
    generic: Any = _SPOKEN[first] if first in _SPOKEN else find(first, types, fits=_is_generic)
    return generic[args if len(args) > 1 else args[0]]


def _is_generic(cls: type) -> bool:
    return hasattr(cls, "__class_getitem__")
