"""The digest of content, and how it is compressed. The database's own blob table packs in the same way.

The digest is of the *uncompressed* bytes, so that the compression can change without a new digest, and so that a check
covers the unpacking too.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import zstandard

from torpor.errors import StoreCorrupt, StoreError, StoreUnavailable, UsageError

DIGEST_BYTES = 16
_LEVEL = 3
_WINDOW_LIMIT = 2**27  # what a reader accepts; a damaged header must not make it allocate more
_LOST, _UNREACHABLE = b"!", b"?"  # no zstd frame begins so
RESTORE = "restore it from a backup; the journal still names it"
_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_BYTES * 2}}}")


def digest_of(content: bytes) -> str:
    """The name of the content: blake2b of 16 bytes, in hexadecimal."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def is_digest(name: str) -> bool:
    """Whether it is what `digest_of` returns: places hold other things too."""
    return _DIGEST.fullmatch(name) is not None


def known_digest(digest: str) -> str:
    """The digest itself; `UsageError` if it is none, so that no path or key is ever made of something else."""
    if not is_digest(digest):
        raise UsageError(
            f"{digest!r} is no digest of a blob", hint=f"a digest has {DIGEST_BYTES * 2} lower-case hexadecimal digits"
        )
    return digest


def compress(content: bytes) -> bytes:
    """The content as one zstd frame. Safe to call in many threads."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def decompress(packed: bytes) -> bytes:
    """The content of one zstd frame. Raises `StoreCorrupt` when it is damaged or cut short.

    The size a damaged header claims is never believed: memory grows with what is really there.
    """
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT).decompressobj()
    try:
        content = reader.decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise StoreCorrupt(f"{len(packed)} packed bytes are damaged: {error}", hint=RESTORE) from error
    if not reader.eof or reader.unused_data:
        raise StoreCorrupt(f"{len(packed)} packed bytes are cut short or have a tail", hint=RESTORE)
    return content


def excuse(error: StoreError) -> bytes:
    """What stands in the place of a packed blob that cannot be had: `unpack` raises the error again, here or elsewhere."""
    kind = _UNREACHABLE if isinstance(error, StoreUnavailable) else _LOST
    return kind + f"{' '.join(error.message.splitlines())}\n{error.hint}".encode("utf-8", "replace")


def check_excuse(packed: bytes) -> None:
    """Raise what an excuse says: `StoreCorrupt` or `StoreUnavailable`. Anything else passes."""
    if packed[:1] in {_LOST, _UNREACHABLE}:
        message, _, hint = packed[1:].decode().partition("\n")
        raise (StoreCorrupt if packed[:1] == _LOST else StoreUnavailable)(message, hint=hint)


def unpack(packed: bytes, digest: str, *, where: str = "") -> bytes:
    """The content, checked against its digest. Raises `StoreCorrupt` that names digest and place, and what an excuse says."""
    check_excuse(packed)
    named = f"blob {digest} in {where}" if where else f"blob {digest}"
    try:
        content = decompress(packed)
    except StoreCorrupt as error:
        raise StoreCorrupt(f"{named} is damaged: {error.message}", hint=error.hint) from error
    if (found := digest_of(content)) != digest:
        raise StoreCorrupt(f"{named} is damaged: its content has the digest {found}", hint=RESTORE)
    return content
