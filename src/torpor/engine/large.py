"""Large bodies: put aside as blobs when they are written, made whole again when they are read.

A body above `BLOB_BYTES` is replaced by its blob's name: the byte 0 and 16 bytes of digest (`core.journal`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.commit import Blob
from torpor.core.journal import BLOB_BYTES, BLOB_MARK
from torpor.errors import StoreCorrupt, StoreError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torpor.store.protocol import Tx


def put_aside(body: bytes) -> tuple[bytes, Blob | None]:
    """Return what is stored in the body's place, and the blob that must be written before it, if it is large."""
    if len(body) <= BLOB_BYTES:
        return body, None
    from torpor.blobs.packing import compress, digest_of  # zstandard is loaded only where it is needed

    digest = bytes.fromhex(digest_of(body))
    return BLOB_MARK + digest, Blob(digest, compress(body))


def named_blobs(bodies: Iterable[bytes | None]) -> list[bytes]:
    """Return the digests of the blobs that bodies name, each once, in order."""
    return sorted({body[1:] for body in bodies if body is not None and body[:1] == BLOB_MARK})


def whole(body: bytes, packed: Mapping[bytes, bytes]) -> bytes:
    """Return a body with a blob's content in place of its name. Raises StoreError if that cannot be read."""
    if body[:1] != BLOB_MARK:
        return body
    from torpor.blobs.packing import RESTORE, unpack

    if body[1:] not in packed:
        raise StoreCorrupt(f"blob {body[1:].hex()} is missing from the store", hint=RESTORE)
    return unpack(packed[body[1:]], body[1:].hex())


def legible(body: bytes, packed: Mapping[bytes, bytes]) -> bytes:
    """The same for people: in place of what cannot be read, why. One lost blob must not hide everything else (G13)."""
    try:
        return whole(body, packed)
    except StoreError as error:
        return values.encode({"kind": "unreadable", "detail": error.message})


def name_by(tx: Tx, bodies: Iterable[tuple[bytes | None, int]]) -> None:
    """Say that runs hold bodies that other runs put aside, so that these stay as long as any of them is kept."""
    names = [(body[1:], run_id) for body, run_id in bodies if body is not None and body[:1] == BLOB_MARK]
    if names:
        tx.name_blobs(names)


def read_whole(tx: Tx, body: bytes) -> bytes:
    """Return a body made whole with what the store has."""
    named = named_blobs([body])
    return whole(body, tx.get_blobs(named)) if named else body
