"""What cannot come back is refused when it is written, with the path of the bad value and what to do (G14)."""

from __future__ import annotations

import collections
import datetime as dt
import io
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pydantic import BaseModel, SecretStr

from tests.values.kinds import Any1, Frozen, Names, Open, Plain, Point, Slotted
from torpor.errors import UnstorableValue
from torpor.store.values import MAX_DEPTH, decode, digest, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Text(str):
    """A str that would come back as a str."""

    __slots__ = ()


class Number(int):
    """An int that would come back as an int."""


class Moment(dt.datetime):
    """A datetime that would come back as a datetime."""


class Pixel(Point):
    """A named tuple that holds more than its fields."""


class Zone(dt.tzinfo):
    """A zone with no name to write down."""

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        """Always one hour."""
        return dt.timedelta(hours=1)

    def dst(self, _: dt.datetime | None) -> None:
        """Unknown."""

    def tzname(self, _: dt.datetime | None) -> None:
        """None."""


@dataclass
class Failure(Exception):
    """A dataclass that is an exception: it cannot be rebuilt without its constructor."""

    a: int


def function() -> None:
    """A function."""


def generator() -> Any:
    """A generator."""
    yield 1


def more_than_its_fields() -> object:
    """A named tuple with an attribute."""
    pixel = Pixel(1, 2)
    pixel.colour = "red"  # type: ignore[attr-defined]
    return pixel


BAD: list[tuple[str, Callable[[], object], str]] = [
    ("object", object, "make it a dataclass or a pydantic model, or return what you need from it"),
    ("lock", threading.Lock, "make it a dataclass"),
    ("function", lambda: function, "a function is code"),
    ("lambda", lambda: lambda: 1, "a function is code"),
    ("builtin", lambda: len, "a function is code"),
    ("method", lambda: [].append, "a function is code"),
    ("partial", lambda: partial(function), "make it a dataclass"),
    ("class", lambda: int, "make it a dataclass"),
    ("module", lambda: sys, "make it a dataclass"),
    ("generator", generator, "collect it into a list"),
    ("file", lambda: io.BytesIO(b""), "store the path or the content"),
    ("error", lambda: ValueError("x"), "str(error)"),
    ("dataclass error", lambda: Failure(1), "inherit from no built-in class"),
    ("secret", lambda: SecretStr("hush"), "ctx.secret(name)"),
    ("ellipsis", lambda: ..., "make it a dataclass"),
    ("str subclass", lambda: Text("x"), "store str(...) of it"),
    ("int subclass", lambda: Number(1), "store int(...) of it"),
    ("datetime subclass", lambda: Moment(2024, 1, 1, tzinfo=dt.UTC), "make it a dataclass"),
    ("ordered dict", lambda: collections.OrderedDict(a=1), "store dict(...) of it"),
    ("default dict", lambda: collections.defaultdict(list), "store dict(...) of it"),
    ("deque", lambda: collections.deque([1]), "store list(...) of it"),
    ("memoryview", lambda: memoryview(b"x"), "store bytes(...) of it"),
    ("dict view", {"a": 1}.keys, "make it a dataclass"),
    ("odd zone", lambda: dt.datetime(2024, 1, 1, tzinfo=Zone()), "zoneinfo"),
    ("more than its fields", more_than_its_fields, "make it a dataclass"),
]


@pytest.mark.parametrize(("make", "hint"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_is_refused(make: Callable[[], object], hint: str) -> None:
    """Alone and deep inside, by `encode` and by `digest`, with a hint of its own."""
    for write in (encode, digest):
        with pytest.raises(UnstorableValue) as alone:
            write(make(), path="state")
        assert alone.value.path == "state"
        assert hint in alone.value.hint
        with pytest.raises(UnstorableValue) as inside:
            write({"items": [1, {"when": make()}]}, path="args")
        assert inside.value.path == "args.items[1].when"
        assert "args.items[1].when" in str(inside.value)
        assert hint in inside.value.hint


BAD_PLACES: list[tuple[object, str]] = [
    ([0, [0, object()]], "value[1][1]"),
    ((object(),), "value[0]"),
    ({"odd name": object()}, "value['odd name']"),
    ({"$": object()}, "value['$']"),
    ({3: object()}, "value[3]"),
    ({(1,): object()}, "value[tuple]"),
    ({Text("k"): 1}, "value.keys()[Text]"),
    ({Frozen(object()): 1}, "value.keys()[Frozen].part"),
    ({Frozen(object())}, "value[Frozen].part"),
    (Plain(1, [object()]), "value.b[0]"),
    (Slotted(1, object()), "value.b"),
    (Point(1, object()), "value[1]"),
    (Any1(bee=object()), "value.b"),
    (Open(other=object()), "value.other"),
    (Open().keep(object()), "value._secret"),
    (Names([object()]), "value.root[0]"),
]


@pytest.mark.parametrize(("value", "path"), BAD_PLACES, ids=[path for _, path in BAD_PLACES])
def test_the_path_of_every_container(value: object, path: str) -> None:
    """The path reads as the author would write it."""
    with pytest.raises(UnstorableValue) as refused:
        encode(value)
    assert refused.value.path == path


def test_a_coroutine_is_refused() -> None:
    """The usual slip: a forgotten await."""

    async def forgotten() -> None:
        """Never awaited."""

    coroutine = forgotten()
    with pytest.raises(UnstorableValue, match="await it"):
        encode([coroutine])
    coroutine.close()


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    """By what it is, not by its class's name."""
    with (tmp_path / "file").open("w") as file, pytest.raises(UnstorableValue, match="store the path"):
        encode(file)


def test_local_classes_are_refused() -> None:
    """Nobody could find them again: dataclass, model, enum and named tuple alike."""

    @dataclass
    class Here:
        a: int

    class Model(BaseModel):
        a: int

    class Kind(Enum):
        A = 1

    class Pair(NamedTuple):
        a: int

    for value in (Here(1), Model(a=1), Kind.A, Pair(1)):
        with pytest.raises(UnstorableValue, match="move the class") as refused:
            encode({"a": value})
        assert refused.value.path == "value.a"


def test_a_class_that_is_not_under_its_name_is_refused() -> None:
    """Shadowed or renamed in its module, it would come back as another class."""
    other = type("Plain", (Plain,), {"__module__": Plain.__module__})
    with pytest.raises(UnstorableValue, match="kinds:Plain cannot be found by that name"):
        encode(other(1))


def test_cycles_are_refused_where_they_close() -> None:
    """With the path, in every kind of container."""
    items: list[object] = [1]
    items.append({"again": items})
    with pytest.raises(UnstorableValue, match="contains itself") as refused:
        encode(items)
    assert refused.value.path == "value[1].again"
    one = Plain(None)
    one.b.append((one,))
    with pytest.raises(UnstorableValue, match="contains itself") as refused:
        digest(one)
    assert refused.value.path == "value.b[0][0]"
    model = Any1()
    model.a = {"model": model}
    with pytest.raises(UnstorableValue, match="contains itself"):
        encode(model)


def nested(levels: int, wrap: Callable[[object], object]) -> object:
    """A value of that many levels."""
    value: object = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: {"a": x},
        lambda x: (x,),
        lambda x: {1: x},
        Frozen,
        lambda x: Any1(a=x),
        lambda x: Open(b=x),
    ],
    ids=["list", "dict", "tuple", "tagged dict", "dataclass", "model", "extra"],
)
def test_depth(wrap: Callable[[object], object]) -> None:
    """A hundred levels are stored and read, whatever they are made of; one more is refused with its path."""
    levels = MAX_DEPTH // 2 if isinstance(wrap(1), Open) else MAX_DEPTH  # an extra field stands in a dict of its own
    deepest = nested(levels, wrap)
    assert decode(encode(deepest)) == deepest
    for write in (encode, digest):
        with pytest.raises(UnstorableValue, match="nested deeper than 100 levels"):
            write(nested(levels + 1, wrap))
        with pytest.raises(UnstorableValue, match="nested deeper than 100 levels"):
            write(nested(5_000, wrap) if wrap(1) == [1] else nested(levels + 1, wrap))


def test_little_stack_left_is_refused_too() -> None:
    """Not a RecursionError from inside."""

    def down(left: int) -> bytes:
        return down(left - 1) if left else encode(nested(90, lambda x: (x,)))

    depth = 0
    frame: Any = sys._getframe()  # noqa: SLF001 - the depth of the stack is what is tested
    while frame:
        depth, frame = depth + 1, frame.f_back
    with pytest.raises(UnstorableValue, match="too deep for the stack"):
        down(sys.getrecursionlimit() - depth - 60)
