"""G14: what is read equals what was written, and has the same type; or it was refused."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import math
import sys
from dataclasses import make_dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import ModuleType
from typing import Any, Literal, Optional
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.values.kinds import (
    Any1,
    Bits,
    Box,
    Careful,
    Colour,
    Frozen,
    Level,
    Mood,
    Names,
    Open,
    Outer,
    Plain,
    Point,
    Right,
    Slotted,
    Strict,
    same,
)
from torpor.store.values import decode, digest, digest_of, encode, plain
from torpor.store.values.writing import says_json, written

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # Hypothesis, of its own notes

BERLIN = ZoneInfo("Europe/Berlin")
SOME_ZONES = sorted(
    available_timezones() & {"Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC", "Africa/Monrovia"}
)

texts = st.text(st.characters(), max_size=8) | st.text(st.sampled_from("a\0\ud800\udc00\ud83d\ude00$ü\\u"), max_size=6)
offsets = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))
zones = (
    st.none()
    | offsets.map(dt.timezone)
    | st.builds(dt.timezone, offsets, texts)
    | st.sampled_from(SOME_ZONES).map(ZoneInfo)
)
folds = st.sampled_from([0, 1])
datetimes = st.builds(lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, folds)
times = st.builds(lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.times(), zones, folds)
paths = st.lists(texts.filter(lambda text: "\0" not in text), max_size=3).map("/".join)
hashable_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | texts
    | st.binary(max_size=20)
    | st.complex_numbers()
    | st.fractions()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | datetimes
    | times
    | paths.map(Path)
    | paths.map(PurePosixPath)
    | paths.map(PureWindowsPath).filter(lambda path: PureWindowsPath(str(path)) == path)
    | st.builds(range, st.integers(), st.integers(), st.integers(1))
    | st.sampled_from([*Colour, *Level, *Mood, *Right, Right(0), Right.READ | Right.WRITE, Bits(3), Bits(64), Bits(0)])
    | st.ip_addresses()
)
decimals = st.decimals() | st.sampled_from([Decimal("sNaN"), Decimal("-NaN12"), Decimal("-0E+5"), Decimal("1E-999999")])
hashables = st.recursive(
    hashable_scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=3)
        | inner.map(Frozen)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=5,
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def opened(a: object, extra: dict[str, object], secret: object) -> Open:
    """A model with extra fields and a private attribute."""
    names = {name: item for name, item in extra.items() if not name.startswith(("_", "model_", "a"))}
    return Open.model_construct(None, a=a, **names).keep(secret)


anything = st.recursive(
    hashables | decimals | st.binary(max_size=9).map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(hashables, max_size=3)
        | st.dictionaries(texts | hashables, inner, max_size=4)
        | st.builds(Plain, inner, st.lists(inner, max_size=2))
        | st.builds(Frozen, inner)
        | st.builds(Slotted, inner, inner)
        | st.builds(Strict, a=inner)
        | st.builds(Outer.Inner, inner)
        | st.builds(Point, inner, inner)
        | st.builds(Any1, a=inner, bee=inner)
        | inner.map(lambda a: Any1(a=a))
        | st.builds(opened, inner, st.dictionaries(texts, inner, max_size=2), inner)
        | inner.map(lambda a: Box[Any](inside=a))
        | st.lists(inner, max_size=3).map(Names)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(anything)
def test_everything_comes_back(value: object) -> None:
    """Equal, of the same type all the way down, in the same order; and people can see it as JSON."""
    body = encode(value)
    back = decode(body)
    assert same(back, value), (back, value)
    assert encode(back) == body
    assert digest(value) == digest(back) == digest_of(body)
    orjson.dumps(plain(body))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(json_like)
def test_the_fast_path_is_the_careful_walk(value: object) -> None:
    """Whether orjson took the value whole or it was walked, the body is the same."""
    walked = written(value, "value", orjson.dumps)
    assert encode(value) == walked
    if says_json(value):
        assert digest(value) == digest_of(walked)


@settings(max_examples=200, deadline=None)
@given(anything)
def test_the_fast_path_takes_nothing_else(value: object) -> None:
    """If it says that orjson may have it, the exact value comes back from plain JSON, or orjson refuses it."""
    if says_json(value):
        try:
            body = orjson.dumps(value)
        except TypeError:
            return
        assert same(orjson.loads(body), value)


@pytest.mark.parametrize(
    "value",
    [
        {"a": math.nan}, {"a": {"b": -math.inf}}, [1, math.nan], [{"a": math.inf}],
        math.nan, -math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 0.1 + 0.2,
        2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**5000, -(7**9000), True,
        "\0", {"\0": "a\0b"}, "\\u0000", "\ud800", "\ud83d\ude00", {"\udfff": 1}, "😀", "", "$",
        {"$": 1}, {"$": "tuple", "v": [1]}, {"$": None}, {"a": {"$": "$"}}, [{"$": "tuple", "v": []}],
        {1: "a", "1": "b", None: "c", (1, "x"): "d", 1.5: "e", True.real + 5: "f"}, {}, [], (), set(), frozenset(),
        {"b": 1, "a": 2}, [1, 1.0, True], bytearray(b"x"), b"\xff\0", {frozenset({1, (2,)}), "x"},
        Decimal("1.10"), Decimal("-0"), Decimal("Infinity"), Fraction(-1, 3), Fraction(10**6000, 7), complex(-0.0, math.nan),
        range(0), range(5, -(2**80), -3), UUID(int=0), Path(), Path("a/../b"), Path("/\udcff"), PureWindowsPath("C:\\x"),
        dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1), dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
        dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN), dt.datetime.min, dt.datetime.max, dt.datetime(1, 1, 1, fold=1),  # noqa: DTZ001, DTZ901
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "Z\ud800")),
        dt.datetime(1900, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=-1, microseconds=5))),
        dt.time(1, tzinfo=BERLIN, fold=1),
        dt.timedelta.min, dt.timedelta.max, dt.timedelta(microseconds=-1), dt.date.min,
        ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("fe80::1/64"),
        Colour.AZURE, Bits(64), Right(0), Point(1, Point(2)), Outer.Inner([Frozen(Mood.CALM)]),
        Box[int](inside=1), Box[list[Box[str | None]]](inside=[Box[str | None](inside=None)]), Box(inside=(1,)),
        Box[Optional[int]](inside=1), Box[Literal["a", 1]](inside="a"), Box[None](inside=None),  # noqa: UP045 - another class
        Box[Box[dict[str, Any]]](inside=Box[dict[str, Any]](inside={})),
        Box[Colour](inside=Colour.RED), Names([1, (2,)]), Any1.model_construct(_fields_set={"a"}, a=1),
        Open.model_construct(), Open.model_construct(None, a=1, **{"$": 2, "\ud800": 3}),
    ],
    ids=lambda value: type(value).__name__,  # not their text: a set's differs from process to process
)  # fmt: skip
def test_the_odd_ones(value: object) -> None:
    """Values that other encodings lose, C15's zero bytes among them."""
    body = encode(value)
    assert same(decode(body), value)
    assert digest(value) == digest_of(body)
    json.loads(body)
    assert body[0] >= 0x20
    orjson.dumps(plain(body))


def test_a_body_holds_no_raw_zero_byte() -> None:
    """C15: PostgreSQL and SQLite both take the body as it is, as text too."""
    for value in ("\0", {"\0": ["\0"]}, ("\0",), {1: "\0"}, Plain("\0"), Any1(a="\0")):
        assert b"\0" not in encode(value)


def test_a_dataclass_is_not_built_again() -> None:
    """`__post_init__` would refuse what it made itself; what stands beside the fields and what was never set is kept."""
    value = Careful("x")
    assert value.upper == "<X>"
    back = decode(encode(value))
    assert isinstance(back, Careful)
    assert same(back, value)
    assert back.beside == ["<x>"]
    assert not hasattr(back, "later")
    assert back.upper == "<X>"


def test_a_model_keeps_its_four_parts() -> None:
    """Fields, which were set, extra, private; aliases do not matter."""
    value = Open(a=(1,), other={2}).keep(b"s")
    assert value.doubled == 2
    back = decode(encode(value))
    assert isinstance(back, Open)
    assert back == value
    assert back.model_fields_set == {"a", "other"}
    assert back.model_extra == {"other": {2}}
    assert back.secret == b"s"
    again = decode(encode(Any1(bee=3)))
    assert isinstance(again, Any1)
    assert again.model_dump(exclude_unset=True) == {"b": 3}


def test_a_model_keeps_what_pydantic_put_in_it() -> None:
    """Its own time zone and URLs are of pydantic's types."""
    value = TypeAdapter(Box[int]).validate_python(
        {"inside": 1, "at": "2024-01-01T00:00:00+02:30", "url": "https://a.b/?q=ü#f"}
    )
    back = decode(encode(value))
    assert isinstance(back, Box)
    assert same(back, value)
    assert back.at is not None
    assert type(back.at.tzinfo).__name__ == "TzInfo"


def test_a_root_model_comes_back_clean() -> None:
    """No stray attribute beside the root."""
    back = decode(encode(Names(["a"])))
    assert isinstance(back, Names)
    assert vars(back) == {"root": ["a"]}


def test_equal_parts_come_back_as_equal_copies() -> None:
    """Sharing is not kept, and is no cycle."""
    shared: list[int] = [1]
    back: Any = decode(encode({"a": shared, "b": (shared, shared)}))
    assert back == {"a": [1], "b": ([1], [1])}
    assert back["a"] is not back["b"][0]


def test_digest_ignores_order_and_nothing_else() -> None:
    """Equal dicts and sets have equal digests; types, and places in a list, count."""
    assert digest({"a": 1, "b": (2,)}) == digest({"b": (2,), "a": 1})
    assert digest({"a": [{"x": 1, "y": 2}]}) == digest({"a": [{"y": 2, "x": 1}]})
    assert digest({1: "a", (2,): {3: 4, 5: 6}}) == digest({(2,): {5: 6, 3: 4}, 1: "a"})
    assert digest({frozenset({"a", "b"}), 8, 0}) == digest({0, 8, frozenset({"b", "a"})})
    assert digest(Any1(a=None)) == digest(Any1())
    different: list[object] = [1, 1.0, True, "1", [1], (1,), {1}, frozenset({1}), {"1": 1}, {1: 1}, None]
    different += [Level.LOW, Plain(1), Slotted(1), b"1", Decimal(1), Fraction(1), 1 + 0j]
    assert len({digest(value) for value in different}) == len(different)
    assert digest([1, 2]) != digest([2, 1])
    assert len(digest(1)) == 8


def test_sets_are_written_in_one_order() -> None:
    """Equal sets are equal bodies, whatever order hashing gave them."""
    assert encode(set("abcdefgh")) == encode(set("hgfedcba"))


def module(name: str, **names: object) -> ModuleType:
    """A module made of names."""
    made = ModuleType(name)
    for each, value in names.items():
        setattr(made, each, value)
    return made


def record(module_name: str) -> Any:
    """A dataclass of that module."""
    made = make_dataclass("Made", ["a"])
    made.__module__ = module_name
    return made


def test_the_main_module_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python hello.py` and `import hello` write and read the same name."""
    made = record("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module("__main__", __file__="/x/hello.py", Made=made))
    body = encode(made(1))
    assert b'"hello:Made"' in body
    assert decode(body) == made(1)
    imported = record("hello")
    monkeypatch.setitem(sys.modules, "__main__", module("__main__"))
    monkeypatch.setitem(sys.modules, "hello", module("hello", Made=imported))
    assert decode(body) == imported(1)
    assert encode(imported(1)) == body


def test_a_module_run_by_its_name_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m package.hello`."""
    made = record("__main__")
    main = module("__main__", __file__="/x/package/hello.py", Made=made)
    main.__spec__ = ModuleSpec("package.hello", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert b'"package.hello:Made"' in encode(made(1))
