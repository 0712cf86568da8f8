"""The tags of classes the author wrote: enums, named tuples, dataclasses; `models.py` has pydantic's.

A dataclass is rebuilt from its stored fields without `__init__`, exactly, also when it is frozen, has slots, or has fields
that were never set. What stands on the instance beside its fields (put there by `__post_init__`, say) is kept as well.
When the class has changed since, its constructor is called instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from torpor.errors import UsageError
from torpor.store.values.containers import write_fields, write_list
from torpor.store.values.form import TAG, Json, Node, Read, Refused, Show, Wire
from torpor.store.values.names import Types, find, name_of

Writer = Callable[[Any, Wire], Json]
ABSENT = object()


def field_step(name: object) -> str:
    """The step into an attribute."""
    return f".{name}"


def remembered(cls: type) -> frozenset[str]:
    """Names that stand on an instance but are no part of its worth: they are computed again when asked for."""
    cached = {name for part in cls.__mro__ for name, found in vars(part).items() if isinstance(found, cached_property)}
    return frozenset(cached | {"__orig_class__"})


def gone(name: str, names: Iterable[str], *, what: str = "field") -> UsageError:
    """The error for stored fields that the class does not have any more: their values would be lost."""
    listed = ", ".join(sorted(names))
    return UsageError(
        f"a stored {name} has the {what} {listed}, which the class does not have any more",
        hint="keep the field for as long as stored values have it, or move old states over with app.upcast(...)",
    )


def unbuilt(name: str, reason: object) -> UsageError:
    """The error for a stored value that the changed class does not accept."""
    return UsageError(
        f"a stored {name} does not fit the class as it is now: {reason}",
        hint="give new fields a default, or move old states over with app.upcast(...)",
    )


# Enums ---------------------------------------------------------------------------------------------------------------
def enum_writer(cls: type[Enum]) -> Writer:
    """By name, so that a value may change; flags by value, since combinations have no stable name."""
    name = name_of(cls)

    def write_flag(value: Flag, wire: Wire) -> Json:
        return {TAG: "flag", "c": name, "v": wire(value.value), "n": str(value.name or value.value)}

    def write(value: Enum, wire: Wire) -> Json:
        if cls.__members__.get(value.name) is not value:
            raise Refused(f"{value!r} is not among the members of {name}", hint="store its value instead")
        shown = {"v": wire(value.value)} if type(value.value) in (str, int) else {}  # for people and other languages
        return {TAG: "enum", "c": name, "n": value.name, **shown}

    return write_flag if issubclass(cls, Flag) else write


def read_enum(node: Node, _: Read, types: Types | None) -> object:
    """The member with the stored name."""
    cls: Any = find(node["c"], types, fits=lambda found: issubclass(found, Enum))
    try:
        return cls.__members__[node["n"]]
    except KeyError:
        raise UsageError(
            f"a stored {node['c']} is the member {node['n']}, which the class does not have any more",
            hint="keep the member (an alias will do) for as long as stored values have it",
        ) from None


def read_flag(node: Node, read: Read, types: Types | None) -> object:
    """The combination with the stored value."""
    cls: Any = find(node["c"], types, fits=lambda found: issubclass(found, Flag))
    try:
        return cls(read(node["v"]))
    except ValueError as error:
        raise unbuilt(node["c"], error) from error


def show_enum(node: Node, show: Show) -> Json:
    """The value where JSON has it, else the name."""
    return show(node["v"]) if "v" in node else node["n"]


# Named tuples --------------------------------------------------------------------------------------------------------
def is_namedtuple(cls: type) -> bool:
    """Whether `collections.namedtuple` or `typing.NamedTuple` made it, or a class it comes from."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def namedtuple_writer(cls: Any) -> Writer:
    """The elements, and their names to notice a change of the class."""
    name, fields = name_of(cls), list(cls._fields)

    def write(value: tuple[object, ...], wire: Wire) -> Json:
        if getattr(value, "__dict__", None) or len(value) != len(fields):
            raise Refused(f"a {name} with more or less than its fields cannot be stored", hint="make it a dataclass")
        return {TAG: "namedtuple", "c": name, "n": fields, "v": write_list(value, wire)}

    return write


def read_namedtuple(node: Node, read: Read, types: Types | None) -> object:
    """The tuple itself if the names are the present ones, else by the constructor."""
    cls: Any = find(node["c"], types, fits=is_namedtuple)
    values = [read(part) for part in node["v"]]
    if node["n"] == list(cls._fields):
        return tuple.__new__(cls, values)
    if lost := set(node["n"]) - set(cls._fields):
        raise gone(node["c"], lost)
    return _construct(node["c"], cls, dict(zip(node["n"], values, strict=True)))


def show_namedtuple(node: Node, show: Show) -> Json:
    """An object: the names say more than the places."""
    return dict(zip(node["n"], [show(part) for part in node["v"]], strict=True))


def _construct(name: str, cls: Callable[..., object], values: Mapping[str, object]) -> object:
    try:
        return cls(**values)
    except Exception as error:
        raise unbuilt(name, error) from error


# Dataclasses ---------------------------------------------------------------------------------------------------------
class _Shape(NamedTuple):
    """What instances of a dataclass can hold."""

    fields: dict[str, bool]  # name -> the constructor takes it
    slots: tuple[str, ...]  # beside the fields
    forgotten: frozenset[str]


@lru_cache(maxsize=4096)
def _shape(cls: Any) -> _Shape:
    fields = {field.name: field.init for field in dataclasses.fields(cls)}
    slots: list[str] = []
    for part in cls.__mro__:
        own = vars(part).get("__slots__", ())
        for slot in (own,) if isinstance(own, str) else own:
            mangled = slot.startswith("__") and not slot.endswith("__")
            slots.append(f"_{part.__name__.lstrip('_')}{slot}" if mangled else slot)
    beside = tuple(slot for slot in slots if slot not in fields and slot not in ("__dict__", "__weakref__"))
    return _Shape(fields, beside, remembered(cls))


def dataclass_writer(cls: type) -> Writer:
    """The fields that are set (`v`), those that are not (`u`), and what stands beside them (`x`)."""
    name, shape = name_of(cls), _shape(cls)
    fields = tuple(shape.fields)
    try:
        object.__new__(cls)
    except TypeError as error:
        raise Refused(
            f"a {name} cannot be stored: {error}", hint="let the dataclass inherit from no built-in class"
        ) from error

    def write(value: object, wire: Wire) -> Json:
        held = {field: item for field in fields if (item := getattr(value, field, ABSENT)) is not ABSENT}
        node = {TAG: "dataclass", "c": name, "v": write_fields(held, wire, field_step)}
        if len(held) != len(fields):
            node["u"] = [field for field in fields if field not in held]
        if beside := _beside(value, shape):
            node["x"] = write_fields(beside, wire, field_step)
        return node

    return write


def _beside(value: object, shape: _Shape) -> dict[str, object]:
    found = {slot: item for slot in shape.slots if (item := getattr(value, slot, ABSENT)) is not ABSENT}
    known = shape.fields.keys() | shape.forgotten
    return found | {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in known}


def read_dataclass(node: Node, read: Read, types: Types | None) -> object:
    """Exactly as it was if the class has the stored fields, else by its constructor."""
    cls = find(node["c"], types, fits=dataclasses.is_dataclass)
    shape = _shape(cls)
    values = {name: read(part) for name, part in node["v"].items()}
    unset = node.get("u", ())
    if len(values) + len(unset) == len(shape.fields) and shape.fields.keys() == values.keys() | set(unset):
        made: object = object.__new__(cls)
    else:
        if lost := values.keys() - shape.fields:
            raise gone(node["c"], lost)
        made = _construct(node["c"], cls, {name: item for name, item in values.items() if shape.fields[name]})
        values = {name: item for name, item in values.items() if not shape.fields[name]}
    for name, part in node.get("x", {}).items():
        values[name] = read(part)
    for name, item in values.items():
        try:
            object.__setattr__(made, name, item)
        except AttributeError as error:
            raise unbuilt(node["c"], error) from error
    return made


def show_fields(node: Node, show: Show) -> Json:
    """The fields as an object."""
    return {name: show(part) for name, part in node["v"].items()}
