"""The journal's entries: what a run did, in order, each with its number, its epoch and its time.

    intent      an effect is about to be started; its arguments and safety
    outcome     what a step or effect gave back (FAILURE: the error it ended with, also an outcome); older ones of agents
                are emptied, because they stand in the conversation (`core.checkpoint`)
    checkpoint  the whole state at the end of a turn; the present one lies in `states` as well, older ones are emptied
    wait        something the run needs was made known: an approval, a message, trouble
    consumed    what satisfied a wait, timers included; replay delivers these and outcomes in journal order
    note        everything else a replay needs: the recorded `now`, a failed attempt, a withdrawn wait
    retry       a person had a failed run start again; with a key: what that call ended with is superseded

A body that begins with the byte 0 names a blob: 16 bytes of digest follow (`values` never begin so). An element of a `Rows`
field that begins with the byte 1 is packed (`blobs.rows`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

BLOB_MARK = b"\x00"
PACKED_MARK = b"\x01"
BLOB_BYTES = 32 * 1024
"""Bodies above this many bytes go to the blob table, once."""


class Kind(IntEnum):
    """The kind of an entry; FAILURE is an outcome that is an error."""

    INTENT = 1
    OUTCOME = 2
    CHECKPOINT = 3
    WAIT = 4
    CONSUMED = 5
    NOTE = 6
    FAILURE = 7
    RETRY = 8

    @property
    def word(self) -> str:
        """Return the word people and programs see."""
        return "outcome" if self is Kind.FAILURE else self.name.lower()


RESOLVES = frozenset({Kind.OUTCOME, Kind.FAILURE, Kind.CONSUMED})
"""Entries that end a call: replay hands these to the code, one at a time, in journal order."""


class Entry(NamedTuple):
    """An entry that is about to be appended. `key` names the call it belongs to."""

    kind: Kind
    key: str | None
    body: bytes | None


class Stored(NamedTuple):
    """An entry as the journal holds it. `at` is the store's time of its commit, in microseconds."""

    seq: int
    at: int
    epoch: int
    kind: Kind
    key: str | None
    body: bytes | None

    def same_as(self, entry: Entry, *, epoch: int) -> bool:
        """Whether this is that entry, appended under that epoch. Content, not a digest or a nonce: it cannot be mistaken."""
        return self.epoch == epoch and (self.kind, self.key, self.body) == tuple(entry)
