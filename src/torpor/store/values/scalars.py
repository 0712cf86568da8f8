"""The tags of values that hold no other values of the author's: numbers, text, bytes, times, paths.

A tag's `v` is text or numbers that other languages can read too, wherever that is exact.
"""

from __future__ import annotations

import math
import sys
from base64 import b64decode, b64encode
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from torpor.errors import UsageError
from torpor.store.values.form import TAG, Json, Node, Read, Refused, Show, Tag, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

_INT_LOW, _INT_HIGH = -(2**63), 2**64 - 1  # what orjson writes as a number
_DECIMAL_DIGITS = 4000  # below the limit of CPython (4300) for turning an int into decimal digits


# Numbers -------------------------------------------------------------------------------------------------------------
def write_int(value: int, _: Wire) -> Json:
    """Hexadecimal beyond 64 bit: exact at any size, and CPython limits only decimal digits."""
    return value if _INT_LOW <= value <= _INT_HIGH else {TAG: "int", "v": hex(value)}


def _read_int(node: Node, _: Read) -> object:
    return int(node["v"], 16)


def _show_int(node: Node, _: Show) -> Json:
    value = int(node["v"], 16)
    return str(value) if value.bit_length() < _DECIMAL_DIGITS * 3 else node["v"]


def write_float(value: float, _: Wire) -> Json:
    """JSON has no name for nan and the infinities. The sign of a nan is kept, its other bits are not."""
    if math.isfinite(value):
        return value
    return {TAG: "float", "v": ("-" if math.copysign(1, value) < 0 else "") + repr(abs(value))}


def _read_float(node: Node, _: Read) -> object:
    return float(node["v"])


def _write_complex(value: complex, wire: Wire) -> Json:
    return {TAG: "complex", "v": [wire(value.real), wire(value.imag)]}


def _read_complex(node: Node, read: Read) -> object:
    real, imag = (read(part) for part in node["v"])
    return complex(real, imag)  # type: ignore[call-overload]


def _write_fraction(value: Fraction, wire: Wire) -> Json:
    return {TAG: "fraction", "v": [wire(value.numerator), wire(value.denominator)]}


def _read_fraction(node: Node, read: Read) -> object:
    numerator, denominator = (read(part) for part in node["v"])
    return Fraction(numerator, denominator)  # type: ignore[call-overload]


def _show_fraction(node: Node, show: Show) -> Json:
    return "/".join(str(show(part)) for part in node["v"])


def _write_range(value: range, wire: Wire) -> Json:
    return {TAG: "range", "v": [wire(value.start), wire(value.stop), wire(value.step)]}


def _read_range(node: Node, read: Read) -> object:
    parts: list[Any] = [read(part) for part in node["v"]]
    return range(*parts)


# Text and bytes ------------------------------------------------------------------------------------------------------
def write_str(value: str, _: Wire) -> Json:
    """Text with lone surrogates is no UTF-8, so it travels as bytes. U+0000 needs nothing: JSON escapes it."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return {TAG: "str", "v": b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


def _read_str(node: Node, _: Read) -> object:
    return b64decode(node["v"], validate=True).decode("utf-8", "surrogatepass")


def _show_str(node: Node, _: Show) -> Json:
    return b64decode(node["v"]).decode("utf-8", "replace")


def _bytes_tag(kind: type[bytes | bytearray]) -> Tag:
    name = kind.__name__

    def write(value: bytes | bytearray, _: Wire) -> Json:
        return {TAG: name, "v": b64encode(value).decode()}

    def read(node: Node, _: Read) -> object:
        return kind(b64decode(node["v"], validate=True))

    return Tag(name, kind, write, read, _show_v)


def _text_tag(name: str, kind: type, parse: Callable[[str], object]) -> Tag:
    """A type whose `str` says all of it, and can be parsed."""

    def write(value: object, wire: Wire) -> Json:
        return {TAG: name, "v": wire(str(value))}  # through `wire`: file names may hold lone surrogates

    def read(node: Node, read: Read) -> object:
        text = read(node["v"])
        return parse(text)  # type: ignore[arg-type]

    return Tag(name, kind, write, read, _show_v)


def _path_tag(kind: type[PurePath]) -> Tag:
    def parse(text: str) -> object:
        if kind is (PosixPath if sys.platform == "win32" else WindowsPath):
            raise UsageError(
                f"a stored {kind.__name__} cannot be opened on {sys.platform}",
                hint="store a PurePath or a str if the program moves between systems",
            )
        return kind(text)

    tag = _text_tag(kind.__name__, kind, parse)

    def write(value: PurePath, wire: Wire) -> Json:
        if kind(str(value)) != value:  # pathlib reads some odd roots another way the second time: //0// on Windows
            raise Refused(f"the path {value!r} does not come back from its own text", hint="store it as a str")
        return tag.write(value, wire)

    return tag._replace(write=write)


# Times ---------------------------------------------------------------------------------------------------------------
def _zone(zone: tzinfo | None) -> Node:
    """What `isoformat` leaves out of a zone: its kind and its name."""
    kind = type(zone)
    if zone is None:
        return {}
    if kind is timezone:
        # A fixed offset is in the text already; only a name of its own ("CEST") must be said.
        name = zone.tzname(None)
        offset: Any = zone.utcoffset(None)
        node: Node = {} if name == timezone(offset).tzname(None) else {"n": name}
        if offset.microseconds:
            node["o"] = offset // timedelta(microseconds=1)  # `fromisoformat` reads some of these as UTC
        return node
    if isinstance(zone, ZoneInfo) and kind is ZoneInfo and zone.key is not None:
        return {"z": zone.key}
    if kind.__module__.partition(".")[0] == "pydantic_core":
        return {"p": True}
    raise Refused(
        f"a time with a zone of type {kind.__module__}.{kind.__qualname__} cannot be stored",
        hint='use zoneinfo.ZoneInfo("Europe/Berlin") or datetime.timezone',
    )


def _read_zone(node: Node, found: tzinfo | None, read: Read) -> tzinfo | None:
    if "z" in node:
        try:
            return ZoneInfo(node["z"])
        except ZoneInfoNotFoundError:
            raise UsageError(
                f"a stored time is in the zone {node['z']!r}, which this machine does not know",
                hint="install the package tzdata",
            ) from None
    offset = timedelta(microseconds=node["o"]) if "o" in node else found.utcoffset(None) if found else None
    if offset is None:
        return found
    if "n" in node:
        name: Any = read(node["n"])
        return timezone(offset, name)
    if "p" in node:
        from pydantic_core import TzInfo

        return TzInfo(offset.total_seconds())
    return timezone(offset)


def _write_moment(value: datetime | time, wire: Wire) -> Json:
    node = {TAG: type(value).__name__, "v": value.isoformat(), **_zone(value.tzinfo)}
    if "n" in node:
        node["n"] = wire(node["n"])
    if value.fold:
        node["f"] = 1
    return node


def _read_datetime(node: Node, read: Read) -> object:
    moment = datetime.fromisoformat(node["v"])
    return moment.replace(tzinfo=_read_zone(node, moment.tzinfo, read), fold=node.get("f", 0))


def _read_time(node: Node, read: Read) -> object:
    moment = time.fromisoformat(node["v"])
    return moment.replace(tzinfo=_read_zone(node, moment.tzinfo, read), fold=node.get("f", 0))


def _write_timedelta(value: timedelta, _: Wire) -> Json:
    return {TAG: "timedelta", "v": [value.days, value.seconds, value.microseconds]}


def _read_timedelta(node: Node, _: Read) -> object:
    days, seconds, microseconds = node["v"]
    return timedelta(days, seconds, microseconds)


def _show_timedelta(node: Node, _: Show) -> Json:
    days, seconds, microseconds = node["v"]
    return timedelta(days, seconds, microseconds).total_seconds()


def _show_v(node: Node, show: Show) -> Json:
    return show(node["v"])


def _same(value: object, _: Wire) -> Json:
    return value


ATOMS: dict[type, Callable[[Any, Wire], Json]] = {
    type(None): _same,
    bool: _same,
    int: write_int,
    float: write_float,
    str: write_str,
}
"""Types JSON has a word for, though not for each of their values."""

SCALARS: tuple[Tag, ...] = (
    Tag("int", int, write_int, _read_int, _show_int),
    Tag("float", float, write_float, _read_float, _show_v),
    Tag("str", str, write_str, _read_str, _show_str),
    _bytes_tag(bytes),
    _bytes_tag(bytearray),
    Tag("complex", complex, _write_complex, _read_complex, _show_v),
    Tag("fraction", Fraction, _write_fraction, _read_fraction, _show_fraction),
    Tag("range", range, _write_range, _read_range, _show_v),
    Tag("datetime", datetime, _write_moment, _read_datetime, _show_v),
    Tag("time", time, _write_moment, _read_time, _show_v),
    _text_tag("date", date, date.fromisoformat),
    Tag("timedelta", timedelta, _write_timedelta, _read_timedelta, _show_timedelta),
    _text_tag("decimal", Decimal, Decimal),
    _text_tag("uuid", UUID, UUID),
    *(_path_tag(kind) for kind in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)),
)
