"""Where the answer to a message goes: written behind its sender, so that it travels with the message and needs no row.

ana                             nobody waits for an answer
ana~reply:c:KEY                 a client does, under that key
run:12~reply:r:12:KEY           run 12 does, under the key of its call
"""

from __future__ import annotations

from typing import NamedTuple

_MARK = "~reply:"


class Address(NamedTuple):
    """Who waits for an answer: a run, or a client (`run_id` None), under a key."""

    run_id: int | None
    key: str

    def __str__(self) -> str:
        """Write it, as it stands behind a sender."""
        return f"c:{self.key}" if self.run_id is None else f"r:{self.run_id}:{self.key}"


def with_address(sender: str | None, address: Address) -> str:
    """Return a sender with the address behind it."""
    return f"{sender or ''}{_MARK}{address}"


def sender_of(text: str | None) -> str | None:
    """Return the sender alone, None if nobody was named."""
    return (text.partition(_MARK)[0] or None) if text else None


def address_of(text: str | None) -> str:
    """Return the address as it was written, empty if nobody waits for an answer."""
    return text.partition(_MARK)[2] if text else ""


def read_address(text: str) -> Address:
    """Read an address."""
    kind, _, rest = text.partition(":")
    if kind == "c":
        return Address(None, rest)
    run, _, key = rest.partition(":")
    return Address(int(run), key)


def signal_name(key: str) -> str:
    """Return the reserved name of the answer in the asking run's inbox."""
    return f"~reply:{key}"


def key_of_request(key: str) -> str:
    """Return the key under which a request lies in the inbox of the run that is asked."""
    return f"~request:{key}"


def is_request(key: str) -> bool:
    """Whether a message's key says that somebody waits for an answer."""
    return key.startswith("~request:")
