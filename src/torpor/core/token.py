"""A callback's token: who has it may answer one callback of one turn of one run, and nothing else.

It is computed, not drawn: a replay has the same, and it is stored nowhere. Whoever delivers it proves by the MAC, made
with a key of the store, that torpor gave it out; what it names is then looked up in the run's own rows.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception's name
from typing import NamedTuple

from torpor.errors import NotFound

_PLACE = Struct(">qiiq")
_MAC_BYTES = 16
PREFIX = "cb_"


class Named(NamedTuple):
    """What a token names: a run, the branch and the turn that made it, and the call in that turn."""

    run_id: int
    branch: int
    turn: int
    call: int

    @property
    def signal(self) -> str:
        """Return the reserved name under which the answer lies in the run's inbox, and the key that makes it one."""
        return f"~callback:{self.branch}.{self.turn}.{self.call & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def call_number(key: str) -> int:
    """Return the number of a call from its key in the turn."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8, person=b"torpor.callback").digest(), signed=True)


def token(named: Named, secret: str) -> str:
    """Return the token of a callback."""
    place = _PLACE.pack(*named)
    return PREFIX + urlsafe_b64encode(place + _mac(place, secret)).decode().rstrip("=")


def looks_like_token(text: str) -> bool:
    """Whether a text was meant to be one."""
    return text.strip().startswith(PREFIX)


def read_token(text: str, secret: str) -> Named:
    """Return what a token names. Raises NotFound for one that this store did not give out."""
    try:
        letters = text.strip().removeprefix(PREFIX)
        raw = urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
        named = Named._make(_PLACE.unpack(raw[: _PLACE.size]))
        genuine = looks_like_token(text) and hmac.compare_digest(raw[_PLACE.size :], _mac(raw[: _PLACE.size], secret))
    except (ValueError, StructError):
        named, genuine = Named(0, 0, 0, 0), False
    if not genuine:
        message = "this token is none that this store gave out"
        raise NotFound(message, hint="copy it whole; a token is good for the store that made it")
    return named


def _mac(place: bytes, secret: str) -> bytes:
    return hmac.digest(secret.encode(), place, "sha256")[:_MAC_BYTES]
