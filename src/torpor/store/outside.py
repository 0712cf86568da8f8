"""Large bodies outside the database: in a folder or an object store, named by rows of the blob table.

A row's body is the packed content, or it says where the content lies: MARK and the address. The protocol:

* **A blob is written before the commit that names it, and no transaction waits for a network.** What an operation will
  write or read outside is known only by running it. So it is run; where it needs what is not here yet it is rolled back
  (`Needed`), the place is asked, and it is run again. That needs nothing of the engine, uploads nothing for a proposal
  that lost its fence, and holds no lock meanwhile. An operation may be run again anyway: a deadlock does that too.
* What an operation only passes on (`later`, a claim's blobs) is read after its commit, so that many workers do not read
  the same blobs in order to claim the same runs.
* A transactional effect is not run twice for this: once the connection was lent, bodies stay in the database. So they
  do while a sweep is about to remove the content (LEAVING): **a sweep says so in a transaction of its own, deletes
  outside, and then forgets the row; whoever names the blob meanwhile finds that row under its lock.**
* A blob that cannot be read becomes an excuse in its own place (`packing.excuse`), raised when it is unpacked: one lost
  object stops the run that needs it, not the claim of a hundred others (G13).

Rows say where their content was put, so a process that was told another place says which one it lacks.
"""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import clock
from torpor.blobs import open_blobs
from torpor.errors import NotFound, StoreCorrupt, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torpor.blobs.protocol import Blobs
    from torpor.core.commit import Blob

MARK, LEAVING = b"@", b"~"
READ_SECONDS = 12.0
"""So long one transaction's blobs are waited for: well below a third of a lease, because a claim holds some by then."""
LIST_SECONDS = 86_400.0
"""How often a process looks outside for blobs that no row names, left by a process that died before its commit."""
_AT_ONCE, _TRIES = 8, 20
_SETTING = "TORPOR_BLOBS says where large bodies are kept; every process of a store is told the same"


class Needed(BaseException):
    """Rolls a transaction back: what it needs of the place outside is done before it is run again."""


class Outside:
    """The place outside that a store was told, or none."""

    def __init__(self, address: str = "") -> None:
        """Open the place: a folder, or the URL of a bucket; empty: everything stays in the database."""
        bucket = "://" in address and not address.startswith("file://")
        self.address = address.rstrip("/") if bucket or not address else str(_folder(address))
        self.place: Blobs | None = open_blobs(self.address) if address else None
        self._lock = threading.Lock()
        self._old: Iterator[str] | None = None
        self._listed_at = -LIST_SECONDS

    def put(self, blobs: Mapping[bytes, bytes]) -> None:
        """Keep packed blobs. Raises StoreUnavailable."""
        if self.place is not None:
            for digest, packed in blobs.items():
                self.place.put_packed(digest.hex(), packed)

    def get(self, wanted: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Return packed blobs, or the excuse of each that cannot be read. `wanted` says where each was put."""
        from torpor.blobs.packing import excuse  # zstandard is loaded only where it is needed

        until = clock.monotonic() + READ_SECONDS

        def read(one: tuple[bytes, str]) -> bytes:
            digest, put_into = one
            try:
                return self._read(digest.hex(), put_into, until)
            except StoreError as error:
                return excuse(error)

        if self.place is None or len(wanted) == 1:
            return dict(zip(wanted, map(read, wanted.items()), strict=True))
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "torpor-blobs") as readers:
            return dict(zip(wanted, readers.map(read, wanted.items()), strict=True))

    def _read(self, digest: str, put_into: str, until: float) -> bytes:
        if self.place is None:
            message = f"blob {digest} lies in {put_into}, and this process was told no place for blobs"
            raise StoreCorrupt(message, hint=f"TORPOR_BLOBS={put_into}   ({_SETTING})")
        if clock.monotonic() > until:
            message = f"blob {digest} in {self.address} was not read within {READ_SECONDS:g} s"
            raise StoreUnavailable(message, hint="look at the place's network and load")
        try:
            return self.place.get_packed(digest)
        except NotFound as error:
            if put_into != self.address:
                message = (
                    f"blob {digest} was put into {put_into}; it is not in {self.address}, which this process was told"
                )
                raise StoreCorrupt(message, hint=f"TORPOR_BLOBS={put_into}, or move what is there") from error
            from torpor.blobs.packing import RESTORE

            raise StoreCorrupt(f"blob {digest} is missing from {self.address}", hint=RESTORE) from error

    def old(self, untouched_since: int, limit: int) -> list[bytes]:
        """Return some digests of old blobs, going on where it stopped; all of them within a day. Raises StoreUnavailable."""
        if self.place is None:
            return []
        with self._lock:
            if self._old is None:
                if clock.monotonic() - self._listed_at < LIST_SECONDS:
                    return []
                self._listed_at, self._old = clock.monotonic(), self.place.untouched_since(untouched_since)
            found = [bytes.fromhex(digest) for digest in islice(self._old, limit)]
            if len(found) < limit:
                self._old = None
        return found

    def delete(self, digests: Sequence[bytes], untouched_since: int) -> None:
        """Delete what is old. Raises StoreUnavailable."""
        if self.place is not None:
            for digest in digests:
                self.place.delete(digest.hex(), untouched_since=untouched_since)


def _folder(address: str) -> Path:
    return Path(address.removeprefix("file://")).expanduser().resolve()


class Errands:
    """What one transaction, over all its tries, needs done outside."""

    __slots__ = (
        "_got",
        "_later",
        "_leaving",
        "_outside",
        "_put",
        "_read",
        "_since",
        "_tries",
        "_write",
        "inside",
        "old",
    )

    def __init__(self, outside: Outside) -> None:
        """Begin with nothing."""
        self._outside = outside
        self._write: dict[bytes, bytes] = {}
        self._read: dict[bytes, str] = {}
        self._put: set[bytes] = set()
        self._got: dict[bytes, bytes] = {}
        self._since = self._tries = 0
        self.old: list[bytes] | None = None
        self._begin()

    # inside the transaction

    def _begin(self) -> None:
        """Begin another try: what the one before it did was rolled back."""
        self.inside = self._outside.place is None
        self._later: list[tuple[dict[bytes, bytes], dict[bytes, str]]] = []
        self._leaving: list[bytes] = []

    def rows(self, blobs: Sequence[tuple[int, Blob]]) -> list[bytes]:
        """Return what each blob's row holds. Raises Needed while one is to be put outside first."""
        if self.inside:
            return [blob.body for _, blob in blobs]
        self._write = {blob.digest: blob.body for _, blob in blobs if blob.digest not in self._put}
        if self._write:
            raise Needed
        return [MARK + self._outside.address.encode()] * len(blobs)

    def contents(self, found: dict[bytes, bytes], *, later: bool) -> dict[bytes, bytes]:
        """Put contents in the place of marks: those that are known, now; with `later` the others after the commit.

        Raises Needed if they are needed now.
        """
        away = {digest: body[1:].decode() for digest, body in found.items() if body[:1] in {MARK, LEAVING}}
        if not away:
            return found
        found.update((digest, self._got[digest]) for digest in away if digest in self._got)
        unread = {digest: place for digest, place in away.items() if digest not in self._got}
        if unread and not later:
            self._read = unread
            raise Needed
        if unread:
            self._later.append((found, unread))
        return found

    def listed(self, age_micros: int) -> list[bytes]:
        """Return some old blobs that lie outside, named or not. Raises Needed before it knows them."""
        if self.old is None and self._outside.place is not None:
            self._since = clock.wall() - age_micros
            raise Needed
        return self.old or []

    def leave(self, digests: Sequence[bytes]) -> None:
        """Delete these outside after the commit, which says that they are leaving."""
        self._leaving = list(digests)

    @property
    def outside(self) -> bool:
        """Whether there is a place outside."""
        return self._outside.place is not None

    # between transactions

    def go(self) -> None:
        """Do what the try that was rolled back needs. Raises StoreUnavailable, also when that does not end."""
        self._tries += 1
        if self._tries > _TRIES:
            message = f"an operation needed {_TRIES} times what it had not read from {self._outside.address}"
            raise StoreUnavailable(message, hint="try again")
        if self._write:
            self._outside.put(self._write)
            self._put.update(self._write)
        elif self._read:
            self._got.update(self._outside.get(self._read))
        else:
            self.old = self._outside.old(self._since, _LISTED)
        self._write, self._read = {}, {}
        self._begin()

    @property
    def pending(self) -> bool:
        """Whether something is left to be done after the commit."""
        return bool(self._later or self._leaving)

    def settle(self) -> list[bytes]:
        """Read what was asked for later; delete what is leaving, and return that: its rows may go. Raises StoreUnavailable."""
        wanted = {digest: place for _, unread in self._later for digest, place in unread.items()}
        got = self._outside.get(wanted) if wanted else {}
        for found, unread in self._later:
            found.update((digest, got[digest]) for digest in unread)
        self._outside.delete(self._leaving, self._since)
        return self._leaving


_LISTED = 1000
"""So many blobs are looked at in one sweep."""
