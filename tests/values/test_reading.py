"""Reading after the code changed, unknown classes, input by a hint, damage, and what people see."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from tests.values.kinds import Any1, Box, Colour, Names, Open, Plain, Point, Right, span
from torpor.errors import SchemaMismatch, StoreCorrupt, TorporError, UsageError
from torpor.store.values import decode, encode, plain


@dataclass
class Then:
    """The class as it was."""

    a: object
    old: int = 0


@dataclass
class More:
    """A field with a default came, and one that the constructor does not take."""

    a: object
    old: int = 0
    new: list[int] = field(default_factory=lambda: [7])
    counted: int = field(init=False, default=3)


@dataclass
class Less:
    """A field went."""

    a: object


@dataclass
class Harder:
    """A field without a default came."""

    a: object
    old: int
    new: int


class ModelThen(BaseModel):
    """The model as it was."""

    a: object = None
    old: int = 0
    _kept: object = PrivateAttr(default=None)


class ModelMore(BaseModel):
    """A field with a default and an alias, and a private attribute came; the validator must see old values."""

    a: object = None
    old: int = Field(default=0, alias="older")
    new: list[int] = Field(default=[7])
    _kept: object = PrivateAttr(default=None)
    _fresh: int = PrivateAttr(default=5)

    @field_validator("old")
    @classmethod
    def grow(cls, value: int) -> int:
        """Refuse what does not fit any more."""
        if value < 0:
            raise ValueError("must not be negative")
        return value

    @property
    def private(self) -> object:
        """Both private attributes."""
        return self._kept, self._fresh


class ModelLess(BaseModel):
    """A field went."""

    a: object = None
    _kept: object = PrivateAttr(default=None)


class ModelOpen(BaseModel):
    """A field went, but extra fields are taken."""

    model_config = ConfigDict(extra="allow")
    a: object = None
    _kept: object = PrivateAttr(default=None)


class ModelBare(BaseModel):
    """The private attribute went."""

    a: object = None
    old: int = 0


class PairThen(NamedTuple):
    """The tuple as it was."""

    a: object
    old: int = 0


class PairMore(NamedTuple):
    """A field came, and the order is another."""

    old: int
    a: object
    new: int = 7


class KindNow(Enum):
    """Members went."""

    GREEN = "grün"


def becomes(now: type) -> Any:
    """Each recorded class is `now` today."""
    return lambda _: now


def test_new_fields_get_their_defaults() -> None:
    """A dataclass by its constructor, a model by validation, a named tuple by its constructor."""
    assert decode(encode(Then((1,), 2)), types=becomes(More)) == More((1,), 2, [7])
    assert decode(encode(PairThen((1,), 2)), types=becomes(PairMore)) == PairMore(2, (1,), 7)
    was = ModelThen(a=(1,), old=2)
    was._kept = {1}  # noqa: SLF001 - a private attribute is what is stored
    now = decode(encode(was), types=becomes(ModelMore))
    assert isinstance(now, ModelMore)
    assert (now.a, now.old, now.new, now.private) == ((1,), 2, [7], ({1}, 5))
    assert now.model_fields_set == {"a", "old"}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (Then(1, 2), Less),
        (PairThen(1), Point),
        (ModelThen(old=1), ModelLess),
        (ModelThen(old=1), ModelBare),
        (Open(other=1), Any1),
    ],
)
def test_a_field_that_went_is_an_error(was: object, now: type) -> None:
    """Its value would be lost in silence."""
    with pytest.raises(UsageError, match=r"does not have any more\nhint: keep the field"):
        decode(encode(was), types=becomes(now))


def test_a_field_that_went_is_extra_where_extra_is_allowed() -> None:
    """Then nothing is lost."""
    now = decode(encode(ModelThen(a=1, old=2)), types=becomes(ModelOpen))
    assert isinstance(now, ModelOpen)
    assert now.model_extra == {"old": 2}


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        (Then(1, 2), Harder, "new"),
        (ModelThen(old=-1), ModelMore, "must not be negative"),
        (PairThen(1), Then, "not known here"),
        (Then(1), ModelMore, "not known here"),
    ],
)
def test_what_does_not_fit_any_more_says_so(
    was: object, now: type, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the class, the reason, and a way out."""
    body = encode(was)
    monkeypatch.delattr(sys.modules[__name__], type(was).__name__)
    with pytest.raises(UsageError, match=reason) as error:
        decode(body, types=becomes(now))
    assert type(was).__name__ in str(error.value) or now.__name__ in str(error.value)
    assert error.value.hint


def test_enum_members() -> None:
    """A member is found by its name; one that went is an error, and so is a flag of unknown bits."""
    assert decode(encode(Colour.GREEN), types=becomes(KindNow)) is KindNow.GREEN
    with pytest.raises(UsageError, match="the member RED"):
        decode(encode(Colour.RED), types=becomes(KindNow))
    with pytest.raises(UsageError, match="64"):
        decode(encode(Right.READ).replace(b'"v":1', b'"v":64'))


def test_an_unknown_class_is_named() -> None:
    """With what to do; no module is imported to find it; people can see the value all the same."""
    for was, body in (
        (Plain(1), b'{"$":"dataclass","c":"wave:Wave","v":{"a":1}}'),
        (Any1(), b'{"$":"model","c":"wave:Wave","v":{"a":1}}'),
        (Box[int](inside=1), b'{"$":"model","c":["wave:Wave","int"],"v":{"a":1}}'),
        (Colour.RED, b'{"$":"enum","c":"wave:Wave","n":"A"}'),
        (Point(1), b'{"$":"namedtuple","c":"wave:Wave","n":["a"],"v":[1]}'),
    ):
        assert encode(was)[:9] == body[:9]
        with pytest.raises(UsageError, match=r"wave:Wave, which is not known here\nhint: import the module wave"):
            decode(body)
        assert plain(body) in ({"a": 1}, "A")
    assert "wave" not in sys.modules


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "subprocess:Popen", "json:JSONDecoder", "no:", ":", "", "a:b"]
)
@pytest.mark.parametrize("tag", ["dataclass", "model", "enum", "flag", "namedtuple"])
def test_stored_bytes_cannot_name_anything_else(tag: str, name: str) -> None:
    """Only dataclasses, models, enums and named tuples are ever looked up."""
    body = orjson.dumps({"$": tag, "c": name, "v": {}, "n": []})
    with pytest.raises(UsageError, match=r"not known here|no pydantic model"):
        decode(body)


def test_a_known_text_class_must_be_listed() -> None:
    """Else a body could call any class with any text."""
    with pytest.raises(UsageError, match="pathlib:Path"):
        decode(b'{"$":"text","c":"pathlib:Path","v":"x"}')


class Order(BaseModel):
    """What a flow takes."""

    when: Path
    amounts: set[Decimal] = set()


def test_input_gets_its_types_from_the_hint() -> None:
    """Plain JSON only: what code wrote comes back as it was, whatever the hint says."""
    assert decode(encode({"when": "a/b", "amounts": ["1.5"]}), hint=Order) == Order(
        when=Path("a/b"), amounts={Decimal("1.5")}
    )
    assert decode(encode([1, 2]), hint=tuple[int, int]) == (1, 2)
    assert decode(encode({"sign": "$"}), hint=dict[str, str]) == {"sign": "$"}
    assert decode(encode({"$": "x", "a": 10**30}), hint=dict[str, Any]) == {"$": "x", "a": 10**30}
    assert decode(encode({"a": 1}), hint=Any) == {"a": 1}
    assert decode(encode({"a": 1}), hint=object) == {"a": 1}
    assert decode(encode((1, 2)), hint=list[str]) == (1, 2)
    assert decode(encode(Plain(1)), hint=Order) == Plain(1)


def test_input_that_does_not_fit_is_a_usage_error() -> None:
    """It names the annotation and the field."""
    with pytest.raises(UsageError, match=r"(?s)does not fit Order.*when"):
        decode(b'{"when": 3}', hint=Order)
    with pytest.raises(UsageError, match="does not fit"):
        decode(encode({"a": 10**30}), hint=dict[str, str])


NO_BODIES = [b"", b"{", b"\xff", b'"\xff"', b"nan", b"[1]]"]
NO_TAGS = [
    *(b'{"$":"tuple"}', b'{"$":"int","v":"x"}', b'{"$":"dict","v":[1]}', b'{"$":"datetime","v":"never"}'),
    *(b'{"$":"str","v":"*"}', b'{"$":"complex","v":[1]}', b'{"$":"uuid","v":1}', b'{"$":"set","v":[[]]}'),
]


@pytest.mark.parametrize("body", NO_BODIES + NO_TAGS)
def test_damage_is_said(body: bytes) -> None:
    """Bytes that no `encode` wrote."""
    with pytest.raises(StoreCorrupt):
        decode(body)


@pytest.mark.parametrize("body", [b"\x01\x02\x03", b'{"$":"hologram","v":1}', b'[{"$":{},"v":1}]'])
def test_a_newer_form_is_said(body: bytes) -> None:
    """It is not damage, and the hint is to update."""
    with pytest.raises((SchemaMismatch, StoreCorrupt)) as error:
        decode(body)
    assert error.type is SchemaMismatch or b"{}" in body


def test_what_people_see() -> None:
    """Records as objects, sets and tuples as arrays, the rest as text or numbers."""
    shown = {
        "record": Plain(1, [Point(2, {3})]),
        "model": Open(a=Path("x"), other=b"\xff").keep("hidden"),
        "names": Names(["n"]),
        "keys": {1: "a", (2, 3): "b"},
        "clash": {1: "a", "1": "b"},
        "enum": [Colour.RED, Colour.GREEN, Colour.BLUE, Right.READ | Right.WRITE],
        "money": Decimal("1.10"),
        "wait": span(days=1, seconds=1),
        "big": [2**70, 10**5000],
        "odd": [float("nan"), float("-inf"), "a\ud800", "\0"],
        "dollar": {"$": "set", "v": [1]},
    }
    seen: Any = plain(encode(shown))
    assert seen["record"] == {"a": 1, "b": [{"x": 2, "y": [3]}]}
    assert seen["model"] == {"a": "x", "other": "/w=="}
    assert seen["names"] == ["n"]
    assert seen["keys"] == {"1": "a", "[2,3]": "b"}
    assert seen["clash"] == [[1, "a"], ["1", "b"]]
    assert seen["enum"] == [1, "grün", "BLUE", 3]
    assert (seen["money"], seen["wait"], seen["big"][0]) == ("1.10", 86401.0, str(2**70))
    assert seen["big"][1].startswith("0x")
    assert seen["odd"][:2] == ["nan", "-inf"]
    assert seen["odd"][3] == "\0"
    assert seen["dollar"] == {"$": "set", "v": [1]}
    assert "hidden" not in str(seen)
    orjson.dumps(seen)


keys = st.sampled_from(["$", "v", "c", "n", "x", "u", "s", "p", "z"])
tags = st.sampled_from(
    [
        *("int", "float", "str", "dict", "tuple", "set", "bytes", "fraction", "complex", "range", "timedelta"),
        *(
            "datetime",
            "time",
            "decimal",
            "uuid",
            "PosixPath",
            "enum",
            "flag",
            "namedtuple",
            "dataclass",
            "model",
            "text",
        ),
        "later",
    ]
)
classes = st.sampled_from(
    ["a:B", "tests.values.kinds:Plain", "tests.values.kinds:Open", "tests.values.kinds:Point", ["a:B"]]
)
trees = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["v", "tuple", "a:B", "$"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner)
        | st.builds(lambda tag, c, v: {"$": tag, "c": c, "v": v, "n": "N"}, tags, classes, inner)
        | st.builds(
            lambda tag, c, v, x: {"$": tag, "c": c, "v": v, "x": x, "u": x, "p": v}, tags, classes, inner, inner
        )
    ),
    max_leaves=8,
)


@given(trees)
def test_no_tree_breaks_what_people_see(tree: object) -> None:
    """`plain` shows any JSON, and `decode` says one of torpor's errors or gives a value."""
    body = orjson.dumps(tree)
    orjson.dumps(plain(body))
    try:
        decode(body)
    except TorporError as error:
        assert error.hint  # noqa: PT017 - either outcome is right


def test_no_pydantic_is_loaded() -> None:
    """A program without models does not pay for pydantic."""
    script = (
        "import sys, datetime; from torpor.store.values import *; "
        "assert decode(encode({'a': (1, datetime.date(2024, 1, 1))})); plain(encode({1})); digest({2}); "
        "sys.exit('pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
