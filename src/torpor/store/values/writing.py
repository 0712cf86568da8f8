"""`encode`: one look whether orjson alone can say the value, and the careful walk if not.

orjson writes enums, UUIDs, dataclasses, datetimes, tuples and subclasses of its types, all of which would come back as
something else, and nan as null. So nothing goes to orjson whose exact type was not seen first.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from torpor.errors import UnstorableValue
from torpor.store.values.advice import refusal
from torpor.store.values.containers import CONTAINERS, write_list
from torpor.store.values.form import TAG, Json, Refused, Wire
from torpor.store.values.models import is_model, model_writer
from torpor.store.values.records import Writer, dataclass_writer, enum_writer, is_namedtuple, namedtuple_writer
from torpor.store.values.scalars import ATOMS, SCALARS
from torpor.store.values.spoken import spoken_name, write_spoken

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 100
"""How deep containers, dataclasses and models may be nested. (orjson writes 254 levels; one of ours can be two of those.)"""

_EASY = frozenset({str, int, bool, type(None)})  # orjson itself refuses what it cannot say of these
_EXACT: dict[type, Writer] = {
    **{tag.kind: tag.write for tag in SCALARS if tag.kind not in ATOMS},
    **{tag.kind: tag.write for tag in CONTAINERS},
    list: write_list,
}


def encode(value: object, *, path: str = "value") -> bytes:
    """The body of a value. Raises `UnstorableValue` with the path of the part that would not come back as it is (G14)."""
    try:
        if says_json(value):
            return orjson.dumps(value)
    except (TypeError, RecursionError):
        pass  # an int beyond 64 bit, a lone surrogate, little stack left: the walk stores it or says what is wrong
    return written(value, path, orjson.dumps)


def written(value: object, path: str, dump: Callable[[Json], bytes]) -> bytes:
    """The body of a value by the careful walk, which also finds the path of what cannot be stored."""
    try:
        return dump(_Walk().wire(value))
    except Refused as refused:
        where = refused.path(path)
        raise UnstorableValue(f"{where}: {refused.reason}", path=where, hint=refused.hint) from None
    except RecursionError:
        raise UnstorableValue(
            f"{path}: too deep for the stack that is left",
            path=path,
            hint="store it nearer to the top of the call stack",
        ) from None


def says_json(value: object, room: int = MAX_DEPTH) -> bool:
    """Whether JSON says all of the value, but for ints beyond 64 bit and lone surrogates, which orjson refuses itself."""
    kind = type(value)
    if kind is dict:
        if not room or TAG in value:  # type: ignore[operator]
            return False
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                return False
            kind = type(item)
            if kind in _EASY:
                continue
            if kind is float:
                if item - item != 0.0:  # nan and the infinities
                    return False
            elif not says_json(item, room - 1):
                return False
        return True
    if kind is list:
        if not room:
            return False
        items: list[object] = value  # type: ignore[assignment]
        return _EASY.issuperset(map(type, items)) or all(says_json(item, room - 1) for item in items)
    return kind in _EASY or (kind is float and value - value == 0.0)  # type: ignore[operator]


class _Walk:
    """One careful walk over a value. Knows which containers are open, so a cycle is found where it closes."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[int] = set()

    def wire(self, value: object) -> Json:
        kind = type(value)
        atom = ATOMS.get(kind)
        if atom is not None:
            return atom(value, self.wire)
        write = _EXACT.get(kind) or _class_writer(kind)  # type: ignore[arg-type]
        if write is None:
            raise refusal(value)  # G14
        mark = id(value)
        if mark in self._open:
            raise Refused("the value contains itself", hint="store a key or an index in place of the object")
        if len(self._open) >= MAX_DEPTH:
            raise Refused(
                f"nested deeper than {MAX_DEPTH} levels", hint="flatten it, for example into a list with parent indexes"
            )
        self._open.add(mark)
        node = write(value, self.wire)
        self._open.remove(mark)
        return node


@lru_cache(maxsize=4096)
def _class_writer(cls: Any) -> Writer | None:
    """How instances of an author's class are written; None if they are not; `Refused` if this class cannot be."""
    if issubclass(cls, Enum):
        return enum_writer(cls)
    if is_model(cls):
        return model_writer(cls)
    if dataclasses.is_dataclass(cls):
        return dataclass_writer(cls)  # type: ignore[arg-type]
    if is_namedtuple(cls):
        return namedtuple_writer(cls)
    return write_spoken if spoken_name(cls) else None


__all__ = ["MAX_DEPTH", "Wire", "encode", "says_json", "written"]
