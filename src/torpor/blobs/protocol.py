"""What a place for blobs promises. Two places keep it, one suite checks both (`tests/blobs/test_conformance.py`).

- A blob is **named by its content**, so two writers of one digest write the same bytes and neither can be wrong.
- `put` returns when the blob **would survive a power cut**. Only then may a commit name it (a blob is written before the
  commit that names it, and swept when nobody does).
- `put` of a blob that is there **makes it young again**. Whoever sweeps looks for digests untouched for longer than any
  commit can take, asks the database which of them are named, and deletes the others; `delete` looks at the age again, so a
  `put` between the two keeps its blob.
- What is read is **checked** against the digest. Damaged content is never returned; a `put` of the same content heals it.

All methods block, and may be called in any thread: torpor's stores run in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Blobs(Protocol):
    """Bytes by their digest (see `packing.digest_of`). Times are microseconds UTC since the epoch, by the place's clock."""

    def put(self, content: bytes) -> str:
        """Keep the content, and return its digest. Raises `StoreUnavailable` if that cannot be done now."""
        ...

    def get(self, digest: str) -> bytes:
        """The content. Raises `NotFound`, `StoreCorrupt` if it is damaged, `StoreUnavailable`."""
        ...

    def put_packed(self, digest: str, packed: bytes) -> None:
        """Keep what is packed already (`packing.compress`) under the digest of its content. Raises `StoreUnavailable`."""
        ...

    def get_packed(self, digest: str) -> bytes:
        """The content as it is packed, checked. Raises like `get`."""
        ...

    def untouched_since(self, before_at: int) -> Iterator[str]:
        """The digests of blobs that were last put before `before_at`, in no order. For sweeping only."""
        ...

    def delete(self, digest: str, *, untouched_since: int) -> bool:
        """Delete a blob unless it was put at or after `untouched_since`. False if it is kept, or was not there."""
        ...
