"""Classes of known libraries whose text says all of them: addresses and URLs.

They are no dataclasses and no models, so each is listed here by name; a body can name no other.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torpor.errors import UsageError
from torpor.store.values.form import TAG, Json, Node, Read, Refused, Show, Wire

if TYPE_CHECKING:
    from torpor.store.values.names import Types

_ADDRESSES = ("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface")
_URLS = (
    *("AnyUrl", "AnyHttpUrl", "HttpUrl", "AnyWebsocketUrl", "WebsocketUrl", "FileUrl", "FtpUrl", "PostgresDsn"),
    *("CockroachDsn", "AmqpDsn", "RedisDsn", "MongoDsn", "KafkaDsn", "NatsDsn", "MySQLDsn", "MariaDBDsn"),
    *("ClickHouseDsn", "SnowflakeDsn"),
)
SPOKEN = frozenset(
    [f"ipaddress:{name}" for name in _ADDRESSES]
    + [f"pydantic.networks:{name}" for name in _URLS]
    + ["pydantic_core._pydantic_core:Url", "pydantic_core._pydantic_core:MultiHostUrl"]
)


def spoken_name(cls: type) -> str | None:
    """The listed name of `cls`, if it is one of these classes and not merely called so."""
    name = f"{cls.__module__}:{cls.__qualname__}"
    return name if name in SPOKEN and vars(sys.modules[cls.__module__]).get(cls.__qualname__) is cls else None


def write_spoken(value: Any, wire: Wire) -> Json:
    """The text, after a look whether it really says all."""
    cls = type(value)
    text = str(value)
    if cls(text) != value:
        raise Refused(f"{value!r} would not come back from its text", hint="store a str of it")
    return {TAG: "text", "c": spoken_name(cls), "v": wire(text)}


def read_spoken(node: Node, read: Read, _: Types | None) -> object:
    """Parse the text with the listed class."""
    module, name = str(node["c"]).split(":")
    if node["c"] not in SPOKEN:
        raise UsageError(
            f"a stored value is of the class {node['c']}, which torpor does not read", hint="update torpor"
        )
    __import__(module)  # one of the three modules above, never one that only a body names
    parse: Any = vars(sys.modules[module])[name]
    return parse(read(node["v"]))


def show_spoken(node: Node, show: Show) -> Json:
    """The text."""
    return show(node["v"])
