"""Classes for the tests of values, and the comparison that G14 means: equal, and of the same type all the way down."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, PrivateAttr, RootModel, computed_field

T = TypeVar("T")


class Colour(Enum):
    """Values JSON has, and one it has not."""

    RED = 1
    GREEN = "grün"
    BLUE = ("tuple", 3)
    AZURE = BLUE


class Level(IntEnum):
    """An int that must not come back as an int."""

    LOW = 1
    HIGH = 2


class Mood(StrEnum):
    """A str that must not come back as a str."""

    CALM = auto()
    ANGRY = auto()


class Right(Flag):
    """Combinations have no member of their own."""

    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    """Keeps bits it does not know."""

    A = 1
    B = 2


class Point(NamedTuple):
    """A named tuple."""

    x: object
    y: object = 0


@dataclass
class Plain:
    """A dataclass as most are."""

    a: object
    b: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    """Hashable if its part is."""

    part: object


@dataclass(slots=True)
class Slotted:
    """No `__dict__`."""

    a: object
    b: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """Everything at once."""

    a: object
    made: object = field(init=False, default="made")


@dataclass
class Careful:
    """Would refuse a second construction from what it became, and remembers beside its fields."""

    text: str
    length: int = field(init=False)
    later: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Change what was given, and set what was not."""
        if self.text.startswith("<"):
            raise ValueError("wrapped already")
        self.text = f"<{self.text}>"
        self.length = len(self.text)
        self._beside = [self.text]

    @cached_property
    def upper(self) -> str:
        """Not stored."""
        return self.text.upper()

    @property
    def beside(self) -> list[str]:
        """What stands beside the fields."""
        return self._beside


class Outer:
    """Holds a nested class."""

    @dataclass
    class Inner:
        """Found by its qualified name."""

        a: object


class Any1(BaseModel):
    """A model that takes anything."""

    a: Any = None
    b: Any = Field(default=1, alias="bee")


class Open(BaseModel):
    """Takes extra fields and has private attributes."""

    model_config = ConfigDict(extra="allow", frozen=True)
    a: Any = None
    _secret: Any = PrivateAttr(default=None)
    _later: int = PrivateAttr()

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def doubled(self) -> int:
        """Computed again, not stored."""
        return 2

    def keep(self, secret: object) -> Open:
        """Set the private attribute."""
        self._secret = secret
        return self

    @property
    def secret(self) -> Any:
        """The private attribute."""
        return self._secret


class Box(BaseModel, Generic[T]):
    """A generic model."""

    inside: T
    at: datetime | None = None
    url: HttpUrl | None = None


class Names(RootModel[list[Any]]):
    """A root model."""


def same(one: object, other: object) -> bool:  # noqa: PLR0911 - one case per kind
    """Whether both are equal and of the same types all the way down; nan is the same as nan, 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Enum):
        return one is other
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other) and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, complex) and isinstance(other, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, datetime | time) and isinstance(other, datetime | time):
        zones = same_zone(one.tzinfo, other.tzinfo)
        return zones and one.isoformat() == other.isoformat() and one.fold == other.fold
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one.items()), list(other.items()))  # in the same order
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, BaseModel) and isinstance(other, BaseModel):
        return same(model_parts(one), model_parts(other))
    if dataclasses.is_dataclass(one) and dataclasses.is_dataclass(other):
        return same(dataclass_parts(one), dataclass_parts(other))
    return one == other


def same_zone(one: object, other: object) -> bool:
    """Whether both zones are of one type and say the same of themselves."""
    return type(one) is type(other) and repr(one) == repr(other)


def model_parts(model: BaseModel) -> object:
    """The four parts of a model."""
    fields = {name: item for name, item in model.__dict__.items() if name in type(model).model_fields}
    extra, private = model.__pydantic_extra__, model.__pydantic_private__
    return [fields, sorted(model.model_fields_set), extra, private]


def dataclass_parts(value: Any) -> object:
    """The fields that are set, and what stands beside them."""
    names = [each.name for each in dataclasses.fields(value)]
    beside = {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in (*names, "upper")}
    return [{name: getattr(value, name) for name in names if hasattr(value, name)}, beside]


def span(*, days: int = 0, seconds: int = 0) -> timedelta:
    """A timedelta, short to write."""
    return timedelta(days=days, seconds=seconds)
